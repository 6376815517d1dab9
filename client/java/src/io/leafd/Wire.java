package io.leafd;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The bytes of requests and replies, as in {@code protocol.md}. Buffers are little-endian; a body to decode is
 * everything between a buffer's position and its limit.
 *
 * <p>Allocations depend only on the bytes received, never on the peer's numbers.
 */
final class Wire {
    static final int VERSION = 1;
    /** The largest length field of a reply. */
    static final int REPLY_LENGTH_MAX = 1 << 20;
    /** The maximum number of ids in one request. */
    static final int COUNT_MAX = 1_000_000;
    /** The longest deadline that the daemon honours. */
    static final int DEADLINE_MS_MAX = 60_000;
    static final int TAG_CHARACTERS_MAX = 128;

    static final int LENGTH_BYTES = 4;
    static final int HEADER_BYTES = 12;
    /** The length of a request for ids without the tag, or for document numbers without the name. */
    static final int IDS_BYTES = HEADER_BYTES + 10;
    /** The maximum number of document numbers in one request. */
    static final int NUMBERS_MAX = 1_000;

    static final int INFO = 1;
    static final int IDS = 2;
    static final int MASK = 4;
    static final int UNMASK = 5;
    static final int SERIES_NEXT = 8;
    /** Added to a request's opcode in its reply. */
    static final int REPLY = 128;
    /** In a request for ids: the process will hold them, and the daemon may send fewer. */
    static final int FLAG_HOLD = 1;
    /** In a MASK or UNMASK request: public ids are text. */
    static final int FLAG_TEXT = 2;
    /** In a reply: the daemon stays awake for a moment. */
    static final int FLAG_AWAKE = 1;

    private static final int RUN_BYTES = 16;
    private static final int LAYOUT_BYTES = 16;
    private static final int SEGMENTS_READY = 1;
    private static final int SNOWFLAKE_READY = 2;
    /** Longer messages are truncated. */
    private static final int EXPLANATION_CHARACTERS_MAX = 4096;

    private Wire() {}

    /**
     * Ids as they were drawn.
     *
     * @param holdMs how long a process may hold them in milliseconds, up to 2^32 - 1; 0: not at all
     * @param runs at least one, in the order in which they were issued
     */
    record Drawn(long holdMs, Run[] runs) {}

    /**
     * The daemon's refusal.
     *
     * @param status its number, from 1
     * @param retryAfterMs the number of milliseconds after which a retry may succeed; 0: unknown
     */
    record Refusal(int status, long retryAfterMs, String explanation) {
        /** The calling thread creates the exception, so it has that thread's stack trace. */
        LeafdException.Refused toException() {
            return new LeafdException.Refused(status, retryAfterMs, explanation);
        }
    }

    static void putIds(ByteBuffer out, int requestId, boolean hold, int count, int deadlineMs, byte[] tag) {
        putDraw(out, IDS, hold ? FLAG_HOLD : 0, requestId, count, deadlineMs, tag);
    }

    /** {@code name}: the name of a series, or of a series and a tenant with a slash between them. */
    static void putSeries(ByteBuffer out, int requestId, int count, int deadlineMs, byte[] name) {
        putDraw(out, SERIES_NEXT, 0, requestId, count, deadlineMs, name);
    }

    private static void putDraw(
            ByteBuffer out, int opcode, int flags, int requestId, int count, int deadlineMs, byte[] name) {
        putHeader(out, opcode, flags, requestId, IDS_BYTES - HEADER_BYTES + name.length);
        out.putInt(count).putInt(deadlineMs).putShort((short) name.length).put(name);
    }

    static void putInfo(ByteBuffer out, int requestId, int versionMin, int versionMax) {
        putHeader(out, INFO, 0, requestId, 4);
        out.putShort((short) versionMin).putShort((short) versionMax);
    }

    /** {@code items}: numbers of 8 bytes each, or length-prefixed texts. {@code prefix}: null for numbers. */
    static void putMask(
            ByteBuffer out, int requestId, int opcode, int bits, int key, byte[] tag, byte[] prefix, int count, byte[] items) {
        int prefixBytes = prefix == null ? 0 : prefix.length;
        int flags = prefix == null ? 0 : FLAG_TEXT;
        putHeader(out, opcode, flags, requestId, 8 + tag.length + prefixBytes + items.length);
        out.put((byte) bits).put((byte) key).putShort((short) count);
        out.putShort((short) tag.length).putShort((short) prefixBytes).put(tag);
        if (prefix != null) {
            out.put(prefix);
        }
        out.put(items);
    }

    private static void putHeader(ByteBuffer out, int opcode, int flags, int requestId, int bodyBytes) {
        out.putInt(HEADER_BYTES - LENGTH_BYTES + bodyBytes).put((byte) opcode).put((byte) flags).putShort((short) 0);
        out.putInt(requestId);
    }

    /** The answer to a request for {@code count} ids; with {@code hold}, up to that many. */
    static Drawn readIds(ByteBuffer body, int count, boolean hold) throws Break {
        need(body, 8);
        long holdMs = u32(body);
        int runCount = u16(body);
        u16(body);
        if (body.remaining() != runCount * RUN_BYTES) {
            throw Break.protocol("the number of runs differs from what the answer contains");
        }
        // No run is empty, so there are at most as many runs as ids.
        if (runCount == 0 || runCount > count) {
            throw wrongCount();
        }
        Run[] runs = new Run[runCount];
        long given = 0;
        for (int index = 0; index < runCount; index++) {
            long first = body.getLong();
            long runLength = u32(body);
            long stride = u32(body);
            if (!Run.isValid(first, runLength, stride)) {
                throw Break.protocol("a run is empty or exceeds the signed 64-bit numbers");
            }
            given += runLength;
            runs[index] = new Run(first, (int) runLength, stride);
        }
        if (hold ? given > count : given != count) {
            throw wrongCount();
        }
        return new Drawn(holdMs, runs);
    }

    /** The items of an answer with {@code count} of them; all have the same length. */
    static byte[][] readMasked(ByteBuffer body, int count) throws Break {
        need(body, 4);
        int answered = u16(body);
        int length = u16(body);
        if (answered != count) {
            throw wrongCount();
        }
        if (length == 0 || body.remaining() != count * length) {
            throw Break.protocol("the number of public ids differs from what the answer contains");
        }
        byte[][] items = new byte[count][length];
        for (byte[] item : items) {
            body.get(item);
        }
        return items;
    }

    /** The texts of an answer with {@code count} document numbers. */
    static String[] readNumbers(ByteBuffer body, int count) throws Break {
        // The limit of -1 keeps empty texts at the end.
        String[] texts = StandardCharsets.US_ASCII.decode(body).toString().split("\n", -1);
        if (texts.length != count || List.of(texts).contains("")) {
            throw wrongCount();
        }
        return texts;
    }

    private static Break wrongCount() {
        return Break.protocol("an answer doesn't have the number of ids that was requested");
    }

    /** The answer to INFO. A later daemon may append fields, which are ignored. */
    static DaemonInfo readInfo(ByteBuffer body) throws Break {
        need(body, 24);
        int version = u16(body);
        int ready = u16(body);
        u32(body);
        long countMax = u32(body);
        u32(body);
        long deadlineMsMax = u32(body);
        long pid = u32(body);
        String release = text(body);
        need(body, 2);
        int layoutCount = u16(body);
        Map<String, Layout> layouts = new LinkedHashMap<>();
        for (int index = 0; index < layoutCount; index++) {
            String name = text(body);
            need(body, LAYOUT_BYTES);
            layouts.put(name, layout(body));
        }
        boolean segments = (ready & SEGMENTS_READY) != 0;
        boolean snowflake = (ready & SNOWFLAKE_READY) != 0;
        return new DaemonInfo(version, segments, snowflake, countMax, deadlineMsMax, pid, release, layouts);
    }

    private static Layout layout(ByteBuffer body) throws Break {
        int timeBits = body.get() & 0xFF;
        int workerBits = body.get() & 0xFF;
        int sequenceBits = body.get() & 0xFF;
        body.get();
        // A number that doesn't fit is negative here, which no layout allows.
        int tickMs = body.getInt();
        long epochMs = body.getLong();
        try {
            return new Layout(timeBits, workerBits, sequenceBits, tickMs, epochMs);
        } catch (IllegalArgumentException e) {
            throw Break.protocol("a layout that is not valid: " + e.getMessage());
        }
    }

    /** The answer to a request that failed. */
    static Refusal readRefusal(int status, ByteBuffer body) throws Break {
        need(body, 4);
        long retryAfterMs = u32(body);
        String explanation = utf8(body);
        if (explanation.length() > EXPLANATION_CHARACTERS_MAX) {
            explanation = explanation.substring(0, EXPLANATION_CHARACTERS_MAX) + "...";
        }
        return new Refusal(status, retryAfterMs, explanation);
    }

    private static String text(ByteBuffer body) throws Break {
        need(body, 2);
        int length = u16(body);
        need(body, length);
        ByteBuffer bytes = body.slice(body.position(), length);
        body.position(body.position() + length);
        return utf8(bytes);
    }

    private static String utf8(ByteBuffer bytes) throws Break {
        try {
            // A new decoder rejects malformed text instead of replacing it.
            return StandardCharsets.UTF_8.newDecoder().decode(bytes).toString();
        } catch (CharacterCodingException e) {
            throw Break.protocol("an answer's text is not UTF-8");
        }
    }

    private static void need(ByteBuffer body, int bytes) throws Break {
        if (body.remaining() < bytes) {
            throw Break.protocol("an answer ends too early");
        }
    }

    private static long u32(ByteBuffer body) {
        return Integer.toUnsignedLong(body.getInt());
    }

    private static int u16(ByteBuffer body) {
        return Short.toUnsignedInt(body.getShort());
    }

    /** Returns a tag's bytes, after the same checks as in the daemon. */
    static byte[] tagBytes(String tag) {
        int characters = Argument.given(tag, "a tag's name").codePointCount(0, tag.length());
        if (characters < 1 || characters > TAG_CHARACTERS_MAX) {
            throw new IllegalArgumentException(
                    "a tag has 1 to " + TAG_CHARACTERS_MAX + " characters; this one has " + characters);
        }
        tag.codePoints().forEach(character -> {
            int type = Character.getType(character);
            if (type == Character.CONTROL || type == Character.SURROGATE) {
                throw new IllegalArgumentException("a tag has no control characters and no unpaired surrogates: "
                        + String.format("U+%04X", character));
            }
        });
        return tag.getBytes(StandardCharsets.UTF_8);
    }
}
