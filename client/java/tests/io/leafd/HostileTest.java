package io.leafd;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Invalid answers: each causes a clear error, closes the connection and yields no id, and the next call succeeds. */
final class HostileTest {
    private static final Class<LeafdException.ProtocolBroken> BROKEN = LeafdException.ProtocolBroken.class;

    private HostileTest() {}

    private static byte[] bytes(int... values) {
        byte[] bytes = new byte[values.length];
        for (int index = 0; index < values.length; index++) {
            bytes[index] = (byte) values[index];
        }
        return bytes;
    }

    private static byte[] join(byte[]... parts) {
        ByteBuffer joined = ByteBuffer.allocate(Arrays.stream(parts).mapToInt(part -> part.length).sum());
        for (byte[] part : parts) {
            joined.put(part);
        }
        return joined.array();
    }

    private static Stranger.Answer body(byte[]... parts) {
        return request -> Stranger.reply(request, 0, join(parts));
    }

    private static Stranger.Answer ids(byte[]... runs) {
        return body(Stranger.ids(60_000, runs));
    }

    private static Map<String, Stranger.Answer> hostileToDraws() {
        Map<String, Stranger.Answer> answers = new LinkedHashMap<>();
        answers.put("a length of 4 GiB", request -> bytes(-1, -1, -1, -1));
        answers.put("a length that is negative", request -> bytes(0, 0, 0, 0x80));
        answers.put("a length above the limit", request -> bytes(1, 0, 0x10, 0));
        answers.put("a length of 0", request -> bytes(0, 0, 0, 0));
        answers.put("a length of 7", request -> bytes(7, 0, 0, 0));
        answers.put("another request's id", request ->
                Stranger.frame(130, 0, 0, request.id() + 1, Stranger.ids(60_000, Stranger.run(5, 1, 1))));
        answers.put("the id 0", request -> Stranger.frame(130, 0, 0, 0, Stranger.ids(60_000, Stranger.run(5, 1, 1))));
        answers.put("a refusal of the id 0", request ->
                Stranger.frame(130, 0, Status.OVERLOADED.number(), 0, Stranger.refusal(0, "no")));
        answers.put("opcode differs", request ->
                Stranger.frame(129, 0, 0, request.id(), Stranger.ids(60_000, Stranger.run(5, 1, 1))));
        answers.put("a request's opcode", request ->
                Stranger.frame(2, 0, 0, request.id(), Stranger.ids(60_000, Stranger.run(5, 1, 1))));
        answers.put("no body", body());
        answers.put("a body of 7 bytes", body(new byte[7]));
        answers.put("no run", ids());
        answers.put("65,535 runs that are not there", body(bytes(0, 0, 0, 0, -1, -1, 0, 0)));
        answers.put("65,535 runs", ids(runs(65_535)));
        answers.put("half a run", body(bytes(0, 0, 0, 0, 1, 0, 0, 0), new byte[8]));
        answers.put("bytes after the runs", body(Stranger.ids(60_000, Stranger.run(5, 1, 1)), new byte[1]));
        answers.put("an id of 0", ids(Stranger.run(0, 1, 1)));
        answers.put("a negative id", ids(Stranger.run(-5, 1, 1)));
        answers.put("an empty run", ids(Stranger.run(5, 0, 1)));
        answers.put("a run of 4,294,967,295 ids", ids(Stranger.run(5, -1, 1)));
        answers.put("a stride of 0", ids(Stranger.run(5, 1, 0)));
        answers.put("a run beyond the last id", ids(Stranger.run(Long.MAX_VALUE, 2, 1)));
        answers.put("runs that overflow in all", ids(Stranger.run(5, Integer.MAX_VALUE, 1), Stranger.run(5, 2, 1)));
        answers.put("more ids than asked for", request ->
                Stranger.reply(request, 0, Stranger.ids(60_000, Stranger.run(5, request.count() + 1, 1))));
        answers.put("a refusal without a body", request -> Stranger.reply(request, 9, new byte[0]));
        answers.put("a refusal that is not UTF-8", request ->
                Stranger.reply(request, 9, bytes(0, 0, 0, 0, 0xC3, 0x28)));
        return answers;
    }

    private static byte[][] runs(int count) {
        byte[][] runs = new byte[count][];
        for (int index = 0; index < count; index++) {
            runs[index] = Stranger.run(5 + index, 1, 1);
        }
        return runs;
    }

    static void eachIsToldAndCostsTheConnectionAndTheNextCallIsServed() throws Exception {
        for (Map.Entry<String, Stranger.Answer> hostile : hostileToDraws().entrySet()) {
            try (Stranger stranger = new Stranger();
                    LeafdClient client = stranger.builder().build()) {
                Map<String, Check.Code> calls = Map.of(
                        "nextId", () -> client.nextId("orders"),
                        "nextIdDirect", () -> client.nextIdDirect("orders"),
                        "nextIds", () -> client.nextIds("orders", 3));
                int connections = 0;
                for (Map.Entry<String, Check.Code> call : calls.entrySet()) {
                    stranger.answer = hostile.getValue();
                    LeafdException e = Check.throwing(BROKEN, "broke leafd's protocol", call.getValue());
                    Check.that(!e.isRetryable(), hostile.getKey());
                    connections++;
                    int expected = connections;
                    Check.eventually(hostile.getKey() + ": the end of the connection", () ->
                            stranger.ended.get() == expected);
                    Check.equal(connections, stranger.connections.get());
                }
                stranger.answer = stranger::wellDone;
                Check.equal(1L, client.nextIdDirect("orders"));
                Check.equal(List.of(2L, 3L), List.of(client.nextId("orders"), client.nextId("orders")));
            } catch (AssertionError e) {
                throw new AssertionError(hostile.getKey(), e);
            }
        }
    }

    static void fewerIdsThanAskedForAreNoneUnlessTheyAreHeld() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            stranger.answer = ids(Stranger.run(5, 1, 1));
            Check.throwing(BROKEN, "doesn't have the number of ids", () -> client.nextIds("orders", 3));
            Check.equal(5L, client.nextId("orders"));
        }
    }

    static void factsThatCantBeAreRefused() throws Exception {
        byte[] good = Stranger.info(1, "0.1.0");
        List<byte[]> hostile = new ArrayList<>();
        for (int length = 0; length < good.length; length++) {
            hostile.add(Arrays.copyOf(good, length));
        }
        byte[] head = Arrays.copyOf(good, good.length - 2);
        // 65,535 missing layouts; a name beyond the end; a layout of 765 bits.
        hostile.add(join(head, bytes(-1, -1)));
        hostile.add(join(head, bytes(1, 0, -1, -1)));
        hostile.add(join(head, bytes(1, 0, 1, 0, 'x', -1, -1, -1, 0), new byte[12]));
        for (byte[] body : hostile) {
            try (Stranger stranger = new Stranger()) {
                stranger.answer = request -> Stranger.reply(request, 0, body);
                Check.throwing(BROKEN, "", () -> stranger.builder().connect());
                Check.eventually("the end of the connection", () -> stranger.ended.get() == 1);
            }
        }
    }

    static void aVersionThatWasNotOfferedIsRefused() throws Exception {
        try (Stranger stranger = new Stranger()) {
            stranger.answer = request -> Stranger.reply(request, 0, Stranger.info(2, "9.0.0"));
            Check.throwing(BROKEN, "9.0.0 chose protocol version 2", () -> stranger.builder().connect());
            stranger.answer = request -> Stranger.refusal(request, Status.VERSION.number(), "this daemon speaks 2 to 3");
            LeafdException e = Check.throwing(
                    LeafdException.Refused.class, "speaks 2 to 3", () -> stranger.builder().connect());
            Check.equal(Status.VERSION, e.status().orElseThrow());
            Check.that(!e.isRetryable(), "a retry doesn't help");
        }
    }

    static void aNewerDaemonOfTheSameVersionIsUnderstood() throws Exception {
        try (Stranger stranger = new Stranger()) {
            // Flags, trailing fields and statuses that this release doesn't know.
            stranger.answer = request -> switch (request.opcode()) {
                case Wire.INFO -> Stranger.frame(129, 0xFE, 0, request.id(), join(Stranger.info(1, "9.0.0"), new byte[9]));
                default -> request.tag().equals("orders")
                        ? Stranger.frame(130, 0xFE, 0, request.id(), Stranger.ids(0, Stranger.run(77, 1, 1)))
                        : Stranger.refusal(request, 777, "a new reason");
            };
            try (LeafdClient client = stranger.builder().connect()) {
                Check.equal(77L, client.nextIdDirect("orders"));
                LeafdException.Refused e = Check.throwing(
                        LeafdException.Refused.class, "777", () -> client.nextIdDirect("other"));
                Check.equal(Status.INTERNAL, e.status().orElseThrow());
                Check.equal(777, e.number());
                Check.equal(1, stranger.connections.get());
            }
        }
    }

    static void anAnswerInSingleBytesAndALongOneAreUnderstood() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            // This is the largest possible frame. Its text is truncated to a readable length.
            String text = "x".repeat(Wire.REPLY_LENGTH_MAX - 12);
            stranger.answer = request -> Stranger.refusal(request, Status.DENIED.number(), text);
            LeafdException e = Check.throwing(LeafdException.Refused.class, "xxx", () -> client.nextId("orders"));
            Check.that(e.getMessage().length() < 5000, e.getMessage().length() + " characters");
            stranger.answer = stranger::wellDone;
            Check.equal(1L, client.nextId("orders"));
            Check.equal(1, stranger.connections.get());
        }
    }

    static void aRequestThatIsAnsweredTwiceCostsTheConnectionAfterTheFirst() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().direct(true).build()) {
            stranger.answer = request -> join(stranger.wellDone(request), stranger.wellDone(request));
            Check.equal(1L, client.nextId("orders"));
            Check.eventually("the end of the connection", () -> stranger.ended.get() == 1);
            stranger.answer = stranger::wellDone;
            Check.equal(3L, client.nextId("orders"));
        }
    }

    static void halfAnAnswerIsNoneAndIsAskedForAgainOnce() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().direct(true).build()) {
            Check.equal(1L, client.nextId("orders"));
            stranger.answer = request -> null;
            LeafdException e = Check.throwing(
                    LeafdException.Disconnected.class, "broke before the answer", () -> client.nextId("orders"));
            Check.that(e.isRetryable(), "a retry may help");
            // It was sent once on the connection that had answered before, and a few times on new ones.
            Check.that(stranger.drawn() <= 8, stranger.drawn() + " requests");
            // Connections that never answered are reopened with growing pauses, across all calls.
            long beganNs = System.nanoTime();
            for (int call = 0; call < 3; call++) {
                Check.throwing(LeafdException.Disconnected.class, "", () -> client.nextId("orders"));
            }
            Check.that(System.nanoTime() - beganNs > 200_000_000, "the daemon was not left in peace");
            stranger.answer = stranger::wellDone;
            Check.equal(2L, client.nextId("orders"));
        }
    }

    /** The connection closes after part of the answer; the next one works. */
    static void aRequestWhoseConnectionBreaksIsSentAgain() throws Exception {
        int whole = Stranger.frame(130, 0, 0, 1, Stranger.ids(60_000, Stranger.run(5, 1, 1))).length;
        for (int length : new int[] {0, 3, 11, 12, whole - 1}) {
            try (Stranger stranger = new Stranger();
                    LeafdClient client = stranger.builder().direct(true).build()) {
                Check.equal(1L, client.nextId("orders"));
                stranger.closes = () -> stranger.connections.get() == 1 && stranger.drawn() > 1;
                stranger.answer = request -> stranger.closes.getAsBoolean()
                        ? Arrays.copyOf(Stranger.reply(request, 0, Stranger.ids(60_000, Stranger.run(5, 1, 1))), length)
                        : stranger.wellDone(request);
                Check.equal(2L, client.nextId("orders"));
                Check.ascending(client.nextIds("orders", 5));
                Check.equal(2, stranger.connections.get());
                Check.equal(4, stranger.drawn());
            }
        }
    }

    /** The status arrives as an answer to the request, and as a connection-level error that overtakes it. */
    static void aDaemonThatIsStoppingIsAskedAgainUntilItIsBack() throws Exception {
        byte[] body = Stranger.refusal(5, "stopping");
        int number = Status.SHUTTING_DOWN.number();
        for (boolean asWhole : new boolean[] {false, true}) {
            Stranger.Answer stopping = request ->
                    asWhole ? Stranger.frame(128, 0, number, 0, body) : Stranger.reply(request, number, body);
            try (Stranger stranger = new Stranger();
                    LeafdClient client = stranger.builder().deadline(Duration.ofSeconds(10)).build()) {
                Check.equal(1L, client.nextIdDirect("orders"));
                stranger.closes = () -> stranger.connections.get() <= 3 && stranger.drawn() > 1;
                stranger.answer = request ->
                        (stranger.closes.getAsBoolean() ? stopping : (Stranger.Answer) stranger::wellDone).to(request);
                Check.equal(2L, client.nextIdDirect("orders"));
                Check.equal(3L, client.nextId("orders"));
                Check.equal(4, stranger.connections.get());
                // If the daemon never returns, the call fails when its time is over.
                stranger.closes = () -> true;
                LeafdException e = Check.throwing(LeafdException.class, "", () ->
                        client.nextIdDirect("orders", Duration.ofMillis(200)));
                Check.that(e.isRetryable(), "a retry may help");
            }
        }
    }

    static void aRefusalToTheConnectionAsAWholeIsTold() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().deadline(Duration.ofSeconds(10)).build()) {
            byte[] text = Stranger.refusal(40, "as many connections as may be");
            stranger.greeting = Stranger.frame(128, 0, Status.CONNECTION_LIMIT.number(), 0, text);
            stranger.answer = request -> null;
            LeafdException e = Check.throwing(
                    LeafdException.Refused.class, "as many connections", () -> client.nextId("orders"));
            Check.equal(Status.CONNECTION_LIMIT, e.status().orElseThrow());
            Check.equal(40L, e.retryAfter().orElseThrow().toMillis());
            Check.that(e.isRetryable(), "a retry may help");
            stranger.greeting = Stranger.SILENCE;
            stranger.answer = stranger::wellDone;
            Check.that(client.nextIdDirect("orders") > 0, "the next call is served");
        }
    }

    static void everyStatusHasItsWordsAndItsRetry() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().deadline(Duration.ofSeconds(10)).build()) {
            for (Status status : Status.values()) {
                // With these statuses, this answer would close the connection, or the request would be sent again.
                if (status == Status.OK || status == Status.SHUTTING_DOWN) {
                    continue;
                }
                stranger.answer = request ->
                        Stranger.reply(request, status.number(), Stranger.refusal(7, "why: " + "\u8BA2\u5355"));
                LeafdException e = Check.throwing(
                        LeafdException.Refused.class, status + ": why: \u8BA2\u5355", () -> client.nextId("orders"));
                Check.equal(status, e.status().orElseThrow());
                Check.equal(status.isRetryable(), e.isRetryable());
                Check.equal(7L, e.retryAfter().orElseThrow().toMillis());
            }
        }
    }

    static void whatIsNotAsciiInATagGoesOverAsItIs() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            client.nextId("\u8BA2\u5355");
            Check.equal("\u8BA2\u5355", stranger.requests.get(0).tag());
            byte[] utf8 = "\u8BA2\u5355".getBytes(StandardCharsets.UTF_8);
            Check.equal(10 + utf8.length, stranger.requests.get(0).body().capacity());
        }
    }
}
