package io.leafd;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * Converts dense ids of one tag to public ids of one form, and back. Public ids are numbers, or text that encodes the same
 * number. Created by {@link LeafdClient#publicIds}. Instances are immutable and thread-safe.
 *
 * <p>A public id reveals neither how many ids exist nor their order; only daemons with the key can convert it. Use the same
 * form in both directions. Each call returns as many ids as it receives, in the same order, with one request for every 240.
 *
 * <p>Calls throw {@link LeafdException.Refused} with the status {@link Status#VALUE_REFUSED} for an id that doesn't have this
 * form, {@link Status#DENIED} if this user may not mask and unmask, and {@link Status#MASK_KEY} if the daemon doesn't have
 * the key or has a different one.
 */
public final class PublicIds {
    /** The number of ids per request. A text takes up to 256 bytes in a request, so this many always fit a frame. */
    private static final int BATCH = 240;

    /** The maximum length of a text in a request, in bytes. It is longer than any public id. */
    private static final int TEXT_BYTES_MAX = 255;

    private final LeafdClient client;
    private final Requests requests;
    private final String tag;
    private final byte[] tagBytes;
    private final Deadline.Limit limit;
    private final String prefix;
    private final int bits;
    private final int key;

    PublicIds(LeafdClient client, Requests requests, String tag, Deadline.Limit limit) {
        this(client, requests, tag, limit, "", 63, 0);
    }

    private PublicIds(
            LeafdClient client, Requests requests, String tag, Deadline.Limit limit, String prefix, int bits, int key) {
        this.client = client;
        this.requests = requests;
        this.tag = tag;
        tagBytes = Wire.tagBytes(tag);
        this.limit = limit;
        this.prefix = prefix;
        this.bits = bits;
        this.key = key;
    }

    /**
     * Returns a copy with another prefix for texts.
     *
     * @param prefix the text in front of the {@code _}: a letter, then {@code a} to {@code z}, {@code 0} to {@code 9} or
     *     {@code _}, up to 32 characters; none by default
     * @return a new object with the change
     */
    public PublicIds prefix(String prefix) {
        if (Argument.given(prefix, "a prefix").length() > TEXT_BYTES_MAX) {
            throw new IllegalArgumentException("a prefix of " + prefix.length() + " characters");
        }
        return new PublicIds(client, requests, tag, limit, prefix, bits, key);
    }

    /**
     * Returns a copy with another number of bits.
     *
     * @param bits the width of dense and public ids in bits: 20 to 63, by default 63; 53 for JavaScript's numbers
     * @return a new object with the change
     */
    public PublicIds bits(int bits) {
        return new PublicIds(client, requests, tag, limit, prefix, oneByte("bits", bits), key);
    }

    /**
     * Returns a copy with another key.
     *
     * @param key the key's number, 1 to 31; by default 0, the daemon's current key. Texts contain the number of their key
     * @return a new object with the change
     */
    public PublicIds key(int key) {
        return new PublicIds(client, requests, tag, limit, prefix, bits, oneByte("a key", key));
    }

    /**
     * Returns a copy with another time limit for each call.
     *
     * @param within see {@link LeafdClient.Builder#deadline}; it applies to all requests of a call together
     * @return a new object with the change
     */
    public PublicIds within(Duration within) {
        return new PublicIds(client, requests, tag, Deadline.Limit.of(within), prefix, bits, key);
    }

    /**
     * Converts dense ids to public ids, as numbers. A number doesn't contain the number of its key.
     * After the daemon's key has changed, unmask older numbers with their own {@link #key}; otherwise the ids are wrong.
     *
     * @param ids the dense ids
     * @return their public ids
     * @throws LeafdException as described for this class, or if the call fails otherwise
     */
    public long[] mask(long... ids) {
        return numbers(ask(Wire.MASK, false, numbers(ids)));
    }

    /**
     * Converts public ids, as numbers, back to dense ids.
     *
     * @param publicIds as {@link #mask} made them
     * @return their dense ids
     * @throws LeafdException as described for this class, or if the call fails otherwise
     */
    public long[] unmask(long... publicIds) {
        return numbers(ask(Wire.UNMASK, false, numbers(publicIds)));
    }

    /**
     * Converts dense ids to public ids, as text such as {@code ord_16dsky4r4xzza8d}.
     *
     * @param ids the dense ids
     * @return their public ids
     * @throws LeafdException as described for this class, or if the call fails otherwise
     */
    public List<String> maskText(long... ids) {
        List<byte[]> texts = ask(Wire.MASK, true, numbers(ids));
        return texts.stream().map(text -> new String(text, StandardCharsets.US_ASCII)).toList();
    }

    /**
     * Converts public ids, as text, back to dense ids.
     *
     * @param texts as {@link #maskText} made them; {@link Status#VALUE_REFUSED} names the first one that was mistyped,
     *     truncated or made up
     * @return their dense ids
     * @throws LeafdException as described for this class, or if the call fails otherwise
     */
    public long[] unmaskText(List<String> texts) {
        return numbers(ask(Wire.UNMASK, true, Argument.given(texts, "a list of public ids").stream().map(PublicIds::text).toList()));
    }

    /**
     * Converts one public id, as text, back to a dense id.
     *
     * @param text as {@link #maskText} made it
     * @return its dense id
     * @throws LeafdException as for {@link #unmaskText(List)}
     */
    public long unmaskText(String text) {
        return unmaskText(Collections.singletonList(text))[0];
    }

    private List<byte[]> ask(int opcode, boolean isText, List<byte[]> items) {
        Deadline deadline = Deadline.after(limit);
        byte[] start = isText ? prefix.getBytes(StandardCharsets.UTF_8) : null;
        List<byte[]> answers = new ArrayList<>(items.size());
        for (int from = 0; from < items.size(); from += BATCH) {
            int count = Math.min(BATCH, items.size() - from);
            ByteArrayOutputStream some = new ByteArrayOutputStream();
            items.subList(from, from + count).forEach(some::writeBytes);
            byte[] body = some.toByteArray();
            int bytes = Wire.HEADER_BYTES + 8 + tagBytes.length + (isText ? start.length : 0) + body.length;
            Link.Writer put = (out, id) -> Wire.putMask(out, id, opcode, bits, key, tagBytes, start, count, body);
            answers.addAll(Arrays.asList(requests.mask(opcode, bytes, put, count, deadline)));
        }
        return answers;
    }

    private static List<byte[]> numbers(long[] ids) {
        return Arrays.stream(Argument.given(ids, "an array of ids"))
                .mapToObj(id -> ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(id).array())
                .toList();
    }

    private static long[] numbers(List<byte[]> items) {
        return items.stream().mapToLong(PublicIds::number).toArray();
    }

    private static long number(byte[] item) {
        if (item.length != 8) {
            throw new LeafdException.ProtocolBroken("an answer contains items that are not ids");
        }
        return ByteBuffer.wrap(item).order(ByteOrder.LITTLE_ENDIAN).getLong();
    }

    /** Returns the length, and as much of the text as a request can carry. A longer text is not a public id. */
    private static byte[] text(String text) {
        byte[] bytes = Argument.given(text, "a public id").getBytes(StandardCharsets.UTF_8);
        int length = Math.min(bytes.length, TEXT_BYTES_MAX);
        return ByteBuffer.allocate(1 + length).put((byte) length).put(bytes, 0, length).array();
    }

    private static int oneByte(String what, int number) {
        if (number < 0 || number > 255) {
            throw new IllegalArgumentException(what + " can't be " + number);
        }
        return number;
    }

    @Override
    public String toString() {
        return "PublicIds[" + tag + (prefix.isEmpty() ? "" : ", prefix " + prefix) + ", " + bits + " bits at "
                + client.socketPath() + "]";
    }
}
