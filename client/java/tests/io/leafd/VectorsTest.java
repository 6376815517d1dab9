package io.leafd;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** Compares the vectors of {@code protocol-vectors.json} with the codec and a live daemon. */
final class VectorsTest {
    private VectorsTest() {}

    /** An object in the file. */
    record Part(Map<String, Object> members) {
        String text(String name) {
            return (String) members.get(name);
        }

        long number(String name) {
            return (Long) members.get(name);
        }

        boolean is(String name) {
            return Boolean.TRUE.equals(members.get(name));
        }

        boolean has(String name) {
            return members.get(name) != null;
        }

        Part part(String name) {
            return of(members.get(name));
        }

        List<Part> parts(String name) {
            return ((List<?>) members.get(name)).stream().map(Part::of).toList();
        }

        /**
         * {@code |} only makes it readable; {@code ??} is any byte, and {@code ...} at the end stands for any further
         * bytes.
         */
        List<String> words(String name) {
            return Arrays.stream(text(name).split(" +")).filter(word -> !word.equals("|")).toList();
        }

        byte[] bytes(String name) {
            List<String> words = words(name);
            ByteBuffer bytes = ByteBuffer.allocate(words.size());
            words.forEach(word -> bytes.put((byte) Integer.parseInt(word, 16)));
            return bytes.array();
        }

        @SuppressWarnings("unchecked")
        private static Part of(Object value) {
            return new Part((Map<String, Object>) value);
        }
    }

    /** Returns the objects in the file under a name. */
    static List<Part> parts(String name) throws IOException {
        return Part.of(Json.parse(Files.readString(Host.ROOT.resolve("protocol-vectors.json")))).parts(name);
    }

    static void theCodecWritesTheVectorsRequests() throws Exception {
        int checked = 0;
        for (Part vector : parts("vectors")) {
            if (!vector.has("request")) {
                continue;
            }
            Part request = vector.part("request");
            ByteBuffer out = Stranger.buffer(2048);
            int id = (int) request.number("request_id");
            switch (request.text("message")) {
                case "IDS" -> Wire.putIds(
                        out,
                        id,
                        request.is("hold"),
                        (int) request.number("count"),
                        (int) request.number("deadline_ms"),
                        request.text("tag").getBytes(StandardCharsets.UTF_8));
                case "INFO" -> Wire.putInfo(
                        out, id, (int) request.number("version_min"), (int) request.number("version_max"));
                // This client sends no administrative requests, and none that are not in the document.
                default -> {
                    continue;
                }
            }
            byte[] written = Arrays.copyOf(out.array(), out.position());
            Check.that(Arrays.equals(vector.bytes("send"), written), vector.text("name") + ": " + Arrays.toString(written));
            checked++;
        }
        Check.that(checked >= 18, "only " + checked + " were written");
    }

    static void tagsThatTheDaemonRefusesAreRefusedHereAsWell() throws Exception {
        int refused = 0;
        for (Part vector : parts("vectors")) {
            if (vector.has("request") && vector.has("reply") && vector.part("request").text("message").equals("IDS")) {
                String tag = vector.part("request").text("tag");
                if ("TAG_INVALID".equals(vector.part("reply").text("status"))) {
                    Check.throwing(IllegalArgumentException.class, "a tag has", () -> Wire.tagBytes(tag));
                    refused++;
                } else {
                    Check.that(Wire.tagBytes(tag).length > 0, tag);
                }
            }
        }
        Check.that(refused >= 5, "only " + refused + " were refused");
    }

    static void theCodecReadsTheRepliesThatItMayGet() throws Exception {
        List<Part> replies = parts("replies");
        Check.that(replies.size() >= 15, "only " + replies.size() + " were found");
        for (Part came : replies) {
            ByteBuffer frame = Stranger.buffer(1024).put(came.bytes("bytes")).flip();
            checkReply(came.text("name"), came.part("reply"), came.has("asked") ? came.part("asked") : null, frame);
        }
    }

    static void aLiveDaemonAnswersAsTheFileSaysAndTheCodecReadsIt() throws Exception {
        try (Host host = Host.serving()) {
            SocketChannel channel = SocketChannel.open(UnixDomainSocketAddress.of(host.socket()));
            for (Part vector : parts("vectors")) {
                channel.write(ByteBuffer.wrap(vector.bytes("send")));
                ByteBuffer reply = frame(channel);
                checkBytes(vector, reply);
                Part asked = vector.has("request") && vector.part("request").has("count") ? vector.part("request") : null;
                if (vector.has("reply")) {
                    checkReply(vector.text("name"), vector.part("reply"), asked, reply);
                }
                if (vector.is("closes")) {
                    Check.equal(-1, channel.read(ByteBuffer.allocate(1)));
                    channel.close();
                    channel = SocketChannel.open(UnixDomainSocketAddress.of(host.socket()));
                }
            }
            channel.close();
        }
    }

    private static ByteBuffer frame(SocketChannel channel) throws IOException {
        ByteBuffer frame = Stranger.buffer(1 << 20);
        frame.limit(Wire.LENGTH_BYTES);
        while (frame.hasRemaining()) {
            Check.that(channel.read(frame) > 0, "the daemon closed the connection");
            if (frame.position() == Wire.LENGTH_BYTES) {
                frame.limit(Wire.LENGTH_BYTES + frame.getInt(0));
            }
        }
        return frame.flip();
    }

    private static void checkBytes(Part vector, ByteBuffer reply) {
        String name = vector.text("name");
        List<String> expect = vector.words("expect");
        boolean more = expect.get(expect.size() - 1).equals("...");
        int known = more ? expect.size() - 1 : expect.size();
        Check.that(more ? reply.limit() >= known : reply.limit() == known, name + ": " + reply.limit() + " bytes");
        for (int index = 0; index < known; index++) {
            String found = String.format("%02x", reply.get(index));
            boolean same = expect.get(index).equals("??") || expect.get(index).equals(found);
            Check.that(same, name + ": byte " + index + " is " + found + ", not " + expect.get(index));
        }
        Check.equal(vector.is("closes"), Status.of(Short.toUnsignedInt(reply.getShort(6))).closes());
    }

    /** {@code asked}: the request for ids, with its count and whether to hold them; null for other requests. */
    private static void checkReply(String name, Part reply, Part asked, ByteBuffer frame) throws Break {
        int number = Short.toUnsignedInt(frame.getShort(6));
        Check.equal((int) reply.number("request_id"), frame.getInt(8));
        frame.position(Wire.HEADER_BYTES);
        switch (reply.text("kind")) {
            case "ids" -> checkIds(name, reply, asked, frame);
            case "broken" -> {
                try {
                    Wire.readIds(frame, (int) asked.number("count"), asked.is("hold"));
                } catch (Break e) {
                    return;
                }
                throw new AssertionError(name + ": it was read");
            }
            case "failure" -> {
                Check.equal(reply.text("status"), Status.of(number).name());
                Check.equal(reply.has("number") ? (int) reply.number("number") : number, number);
                Wire.Refusal refusal = Wire.readRefusal(number, frame);
                Check.that(refusal.explanation().length() > 10, name + " says why");
                if (reply.has("text")) {
                    Check.equal(reply.text("text"), refusal.explanation());
                    Check.equal(reply.number("retry_after_ms"), refusal.retryAfterMs());
                }
            }
            case "info" -> {
                DaemonInfo info = Wire.readInfo(frame);
                Check.equal(Layout.LEAF, info.layouts().get("snowflake"));
                Check.that(info.segmentsReady() && info.snowflakeReady(), info.toString());
            }
            default -> Check.equal("json", reply.text("kind"));
        }
    }

    private static void checkIds(String name, Part reply, Part asked, ByteBuffer body) throws Break {
        long total = reply.has("runs") ? reply.parts("runs").stream().mapToLong(run -> run.number("count")).sum() : reply.number("total");
        int count = asked == null ? (int) total : (int) asked.number("count");
        Wire.Drawn drawn = Wire.readIds(body, count, asked != null && asked.is("hold"));
        Check.equal(reply.number("hold_ms"), drawn.holdMs());
        Check.equal(total, Arrays.stream(drawn.runs()).mapToLong(Run::count).sum());
        if (reply.has("runs")) {
            List<Run> runs = reply.parts("runs").stream()
                    .map(run -> new Run(run.number("first"), (int) run.number("count"), run.number("stride")))
                    .toList();
            Check.equal(runs, List.of(drawn.runs()));
        }
    }

    /** This test sends every vector's request one byte at a time. */
    static void vectorsArriveByteByByteAsWell() throws Exception {
        try (Host host = Host.serving();
                SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX)) {
            channel.connect(UnixDomainSocketAddress.of(host.socket()));
            for (Part vector : parts("vectors")) {
                if (!vector.is("closes")) {
                    for (byte one : vector.bytes("send")) {
                        channel.write(ByteBuffer.wrap(new byte[] {one}));
                    }
                    checkBytes(vector, frame(channel));
                }
            }
        }
    }
}
