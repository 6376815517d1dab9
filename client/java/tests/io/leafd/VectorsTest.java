package io.leafd;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** The vectors of {@code protocol.md}, parsed out of the document and held against the codec and a live daemon. */
final class VectorsTest {
    private VectorsTest() {}

    /** One exchange as the document has it, by the first words of its lines. */
    private record Vector(String name, Map<String, String> lines) {
        boolean closes() {
            return name.endsWith(": closes");
        }

        byte[] sent() {
            List<String> words = words("send");
            ByteBuffer bytes = ByteBuffer.allocate(words.size());
            words.forEach(word -> bytes.put((byte) Integer.parseInt(word, 16)));
            return bytes.array();
        }

        /** {@code |} is for the eye; {@code ??} is any byte, and {@code ...} at the end any further ones. */
        List<String> words(String line) {
            return Arrays.stream(lines.get(line).split(" +")).filter(word -> !word.equals("|")).toList();
        }

        /** The words {@code key=value} of a line; the first word is under the empty key. */
        Map<String, String> values(String line) {
            Map<String, String> values = new HashMap<>();
            for (String word : lines.getOrDefault(line, "").split(" +")) {
                String[] parts = word.split("=", 2);
                values.put(parts.length == 2 ? parts[0] : "", parts[parts.length - 1]);
            }
            return values;
        }
    }

    private static List<Vector> vectors() throws IOException {
        List<Vector> vectors = new ArrayList<>();
        Vector open = null;
        for (String line : Files.readAllLines(Host.ROOT.resolve("protocol.md"))) {
            if (line.startsWith("```vector ")) {
                open = new Vector(line.substring(10), new HashMap<>());
            } else if (open != null && line.equals("```")) {
                vectors.add(open);
                open = null;
            } else if (open != null) {
                String[] parts = line.split(" +", 2);
                open.lines.put(parts[0], parts[1]);
            }
        }
        Check.that(vectors.size() >= 12, "only " + vectors.size() + " vectors were found");
        return vectors;
    }

    static void theCodecWritesTheVectorsRequests() throws Exception {
        int checked = 0;
        for (Vector vector : vectors()) {
            Map<String, String> means = vector.values("means");
            ByteBuffer out = Stranger.buffer(1024);
            int id = Integer.parseInt(means.getOrDefault("request_id", "0"));
            switch (means.getOrDefault("", "")) {
                case "IDS" -> Wire.putIds(
                        out,
                        id,
                        means.get("hold").equals("true"),
                        Integer.parseInt(means.get("count")),
                        Integer.parseInt(means.get("deadline_ms")),
                        means.get("tag").getBytes(StandardCharsets.UTF_8));
                case "INFO" -> Wire.putInfo(
                        out, id, Integer.parseInt(means.get("version_min")), Integer.parseInt(means.get("version_max")));
                // This client has no administration, and says nothing that isn't in the document.
                default -> {
                    continue;
                }
            }
            byte[] written = Arrays.copyOf(out.array(), out.position());
            Check.that(Arrays.equals(vector.sent(), written), vector.name() + ": " + Arrays.toString(written));
            checked++;
        }
        Check.that(checked >= 8, "only " + checked + " were written");
    }

    static void aLiveDaemonAnswersAsTheDocumentSaysAndTheCodecReadsIt() throws Exception {
        try (Host host = Host.serving()) {
            SocketChannel channel = SocketChannel.open(UnixDomainSocketAddress.of(host.socket()));
            for (Vector vector : vectors()) {
                channel.write(ByteBuffer.wrap(vector.sent()));
                ByteBuffer reply = frame(channel);
                checkBytes(vector, reply);
                checkWords(vector, reply);
                if (vector.closes()) {
                    Check.equal(-1, channel.read(ByteBuffer.allocate(1)));
                    channel.close();
                    channel = SocketChannel.open(UnixDomainSocketAddress.of(host.socket()));
                }
            }
            channel.close();
        }
    }

    /** The same by the client's own socket and table, where the vector's request is one that it makes. */
    static void theClientReadsTheVectorsAnswers() throws Exception {
        int checked = 0;
        for (Vector vector : vectors()) {
            Map<String, String> answers = vector.values("answers");
            if (!answers.getOrDefault("", "").equals("ids")) {
                continue;
            }
            ByteBuffer body = Stranger.buffer(1024);
            vector.words("expect").forEach(word -> body.put((byte) (word.equals("??") ? 0 : Integer.parseInt(word, 16))));
            body.flip().position(Wire.HEADER_BYTES);
            checkIds(vector, answers, body);
            checked++;
        }
        Check.that(checked >= 2, "only " + checked + " were read");
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

    private static void checkBytes(Vector vector, ByteBuffer reply) {
        List<String> expect = vector.words("expect");
        boolean more = expect.get(expect.size() - 1).equals("...");
        int known = more ? expect.size() - 1 : expect.size();
        Check.that(more ? reply.limit() >= known : reply.limit() == known, vector.name() + ": " + reply.limit() + " bytes");
        for (int index = 0; index < known; index++) {
            String found = String.format("%02x", reply.get(index));
            boolean same = expect.get(index).equals("??") || expect.get(index).equals(found);
            Check.that(same, vector.name() + ": byte " + index + " is " + found + ", not " + expect.get(index));
        }
    }

    private static void checkWords(Vector vector, ByteBuffer reply) throws Break {
        Map<String, String> answers = vector.values("answers");
        int status = Short.toUnsignedInt(reply.getShort(6));
        reply.position(Wire.HEADER_BYTES);
        switch (answers.getOrDefault("", "")) {
            case "ids" -> checkIds(vector, answers, reply);
            case "failure" -> {
                Check.equal(answers.get("status"), Status.of(status).name());
                Check.equal(vector.closes(), Status.of(status).closes());
                Wire.Refusal refusal = Wire.readRefusal(status, reply);
                Check.that(refusal.explanation().length() > 10, vector.name() + " says why");
            }
            default -> {
                if (vector.values("means").getOrDefault("", "").equals("INFO")) {
                    DaemonInfo info = Wire.readInfo(reply);
                    Check.equal(Layout.LEAF, info.layouts().get("snowflake"));
                    Check.that(info.segmentsReady() && info.snowflakeReady(), info.toString());
                }
            }
        }
    }

    private static void checkIds(Vector vector, Map<String, String> answers, ByteBuffer body) throws Break {
        Map<String, String> means = vector.values("means");
        boolean hold = means.get("hold").equals("true");
        Wire.Drawn drawn = Wire.readIds(body, Integer.parseInt(means.get("count")), hold);
        Check.equal(answers.get("hold_ms"), String.valueOf(drawn.holdMs()));
        String runs = Arrays.stream(drawn.runs())
                .map(run -> run.first() + "x" + run.count())
                .collect(Collectors.joining(","));
        Check.equal(answers.get("runs"), runs);
    }

    /** The connection of this test sends every vector's request one byte at a time. */
    static void vectorsArriveByteByByteAsWell() throws Exception {
        try (Host host = Host.serving();
                SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX)) {
            channel.connect(UnixDomainSocketAddress.of(host.socket()));
            for (Vector vector : vectors()) {
                if (!vector.closes()) {
                    for (byte one : vector.sent()) {
                        channel.write(ByteBuffer.wrap(new byte[] {one}));
                    }
                    checkBytes(vector, frame(channel));
                }
            }
        }
    }
}
