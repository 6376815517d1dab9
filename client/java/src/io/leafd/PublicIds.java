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
 * The public ids of one tag, in one form: numbers of some bits, or text that the same number is written as. It is made by
 * {@link LeafdClient#publicIds}; any thread may use it, and it doesn't change.
 *
 * <p>A public id tells nothing of how many ids there are, nor of their order; only daemons with the key make one of a dense
 * id, or the other way round. The form must be the same in both directions. Each call gives as many as it is given, in their
 * order, and asks for 240 at a time.
 *
 * <p>Calls fail by {@link LeafdException.Refused} with the status {@link Status#VALUE_REFUSED} for an id that is none of this
 * form, {@link Status#DENIED} where this user may not mask and unmask, {@link Status#MASK_KEY} where the daemon has no such
 * key or a wrong one.
 */
public final class PublicIds {
    /** A text has up to 256 bytes in a request, so that fewer than the most ids are sure to fit a frame. */
    private static final int BATCH = 240;

    /** Longer than any public id. */
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
     * The same with another prefix of its texts.
     *
     * @param prefix what they begin with, before a {@code _}: a letter and further {@code a} to {@code z}, {@code 0} to
     *     {@code 9} or {@code _}, up to 32; none unless given
     * @return another one
     */
    public PublicIds prefix(String prefix) {
        if (Argument.given(prefix, "a prefix").length() > TEXT_BYTES_MAX) {
            throw new IllegalArgumentException("a prefix of " + prefix.length() + " characters");
        }
        return new PublicIds(client, requests, tag, limit, prefix, bits, key);
    }

    /**
     * The same with another number of bits.
     *
     * @param bits of dense ids and public ones: 20 to 63, which it is unless given, and 53 for JavaScript's numbers
     * @return another one
     */
    public PublicIds bits(int bits) {
        return new PublicIds(client, requests, tag, limit, prefix, oneByte("bits", bits), key);
    }

    /**
     * The same by another key.
     *
     * @param key its number, 1 to 31; 0, the daemon's current one, unless given. Texts carry theirs
     * @return another one
     */
    public PublicIds key(int key) {
        return new PublicIds(client, requests, tag, limit, prefix, bits, oneByte("a key", key));
    }

    /**
     * The same with another time for each call.
     *
     * @param within see {@link LeafdClient.Builder#deadline}; it holds for all requests of a call
     * @return another one
     */
    public PublicIds within(Duration within) {
        return new PublicIds(client, requests, tag, Deadline.Limit.of(within), prefix, bits, key);
    }

    /**
     * The public ids of dense ones, as numbers. They don't say which key made them: once another one is in use, they are read
     * wrongly unless {@link #key} names theirs.
     *
     * @param ids dense ones
     * @return their public ids
     * @throws LeafdException as is said above, or whatever kept the daemon from answering
     */
    public long[] mask(long... ids) {
        return numbers(ask(Wire.MASK, false, numbers(ids)));
    }

    /**
     * The dense ids of public ones.
     *
     * @param publicIds as {@link #mask} made them
     * @return their dense ids
     * @throws LeafdException as is said above, or whatever kept the daemon from answering
     */
    public long[] unmask(long... publicIds) {
        return numbers(ask(Wire.UNMASK, false, numbers(publicIds)));
    }

    /**
     * The public ids of dense ones, as text such as {@code ord_16dsky4r4xzza8d}.
     *
     * @param ids dense ones
     * @return their public ids
     * @throws LeafdException as is said above, or whatever kept the daemon from answering
     */
    public List<String> maskText(long... ids) {
        List<byte[]> texts = ask(Wire.MASK, true, numbers(ids));
        return texts.stream().map(text -> new String(text, StandardCharsets.US_ASCII)).toList();
    }

    /**
     * The dense ids of texts.
     *
     * @param texts as {@link #maskText} made them; {@link Status#VALUE_REFUSED} names the first that was mistyped, cut or made
     *     up
     * @return their dense ids
     * @throws LeafdException as is said above, or whatever kept the daemon from answering
     */
    public long[] unmaskText(List<String> texts) {
        return numbers(ask(Wire.UNMASK, true, Argument.given(texts, "a list of public ids").stream().map(PublicIds::text).toList()));
    }

    /**
     * The dense id of one text.
     *
     * @param text as {@link #maskText} made it
     * @return its dense id
     * @throws LeafdException as of {@link #unmaskText(List)}
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
            throw new LeafdException.ProtocolBroken("an answer has other things than ids");
        }
        return ByteBuffer.wrap(item).order(ByteOrder.LITTLE_ENDIAN).getLong();
    }

    /** A length, and so much of a text as a request takes: a longer one is no public id. */
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
