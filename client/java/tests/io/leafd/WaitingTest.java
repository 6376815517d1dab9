package io.leafd;

import io.leafd.leaf.LeafdIDGen;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/** Tests waiting calls: none waits for longer than allowed, and none is ended by a problem of another. */
final class WaitingTest {
    private WaitingTest() {}

    private static final Stranger.Answer SILENT = request -> Stranger.SILENCE;

    static void aDaemonThatSaysNothingIsWaitedForAsLongAsAllowed() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().deadline(Duration.ofMillis(100)).build()) {
            stranger.answer = SILENT;
            List<Check.Code> calls = List.of(
                    () -> client.nextId("orders"),
                    () -> client.nextIdDirect("orders"),
                    () -> client.nextIds("orders", 5),
                    () -> client.tag("orders").nextId(Duration.ZERO),
                    () -> client.nextId("other", Duration.ofMillis(1)),
                    client::info);
            for (Check.Code call : calls) {
                long beganNs = System.nanoTime();
                LeafdException e = Check.throwing(LeafdException.TimedOut.class, "did not answer within", call);
                long ms = (System.nanoTime() - beganNs) / 1_000_000;
                Check.that(ms >= 250 && ms < 5000, ms + " ms");
                Check.that(e.isRetryable(), "a retry may help");
            }
            // Answers to abandoned requests are ignored, and the connection remains usable.
            stranger.answer = stranger::wellDone;
            Check.that(client.nextIdDirect("third", Duration.ofSeconds(20)) > 0, "the client continues");
            Check.equal(1, stranger.connections.get());
        }
    }

    static void oneTagThatWaitsHoldsUpNoOther() throws Exception {
        CompletableFuture<Void> slow;
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().deadline(Duration.ofSeconds(60)).build()) {
            stranger.answer = request -> request.tag().equals("slow") ? Stranger.SILENCE : stranger.wellDone(request);
            slow = CompletableFuture.runAsync(() -> client.nextId("slow"));
            Check.eventually("the slow call waits", () -> stranger.drawn() == 1);
            List<long[]> drawn = Check.inThreads(4, () ->
                    LongStream.generate(() -> client.nextIdDirect("quick")).limit(200).toArray());
            Check.unique(800, drawn);
            Check.that(!slow.isDone(), "the slow call still waits");
        }
        Check.eventually("the slow call ends", slow::isCompletedExceptionally);
    }

    /** The thread that reads for both finishes first, and the other one must continue reading. */
    static void aThreadThatSleepsReadsOnWhenTheReaderIsThrough() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().deadline(Duration.ofSeconds(60)).build()) {
            stranger.answer = SILENT;
            CompletableFuture<Long> first = CompletableFuture.supplyAsync(() -> client.nextIdDirect("orders"));
            Check.eventually("the first call waits", () -> stranger.drawn() == 1);
            Check.pause(50);
            CompletableFuture<Long> second = CompletableFuture.supplyAsync(() -> client.nextIdDirect("orders"));
            Check.eventually("the second call waits", () -> stranger.drawn() == 2);
            Check.pause(50);
            stranger.push(stranger.wellDone(stranger.requests.get(0)));
            Check.equal(1L, first.get(20, TimeUnit.SECONDS));
            stranger.push(stranger.wellDone(stranger.requests.get(1)));
            Check.equal(2L, second.get(20, TimeUnit.SECONDS));
        }
    }

    static void anInterruptEndsOneWaitAndNoOther() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().deadline(Duration.ofSeconds(20)).build()) {
            stranger.answer = request -> request.tag().startsWith("silent") ? Stranger.SILENCE : stranger.wellDone(request);
            for (String call : List.of("reads", "sleeps", "shares")) {
                // The second waits while another thread reads, and the third waits for a run that another thread
                // fetches.
                CompletableFuture<Throwable> ended = new CompletableFuture<>();
                Thread thread = new Thread(() -> {
                    try {
                        client.nextId(call.equals("shares") ? "silent" : "silent" + call);
                    } catch (LeafdException.Interrupted e) {
                        ended.complete(Thread.currentThread().isInterrupted() ? e : null);
                    } catch (RuntimeException e) {
                        ended.completeExceptionally(e);
                    }
                });
                if (!call.equals("reads")) {
                    Thread first = new Thread(() -> Check.throwing(
                            IllegalStateException.class, "closed", () -> client.nextId("silent")));
                    first.setDaemon(true);
                    first.start();
                    Check.pause(50);
                }
                thread.start();
                Check.pause(50);
                thread.interrupt();
                Check.that(ended.get(5, TimeUnit.SECONDS) != null, "the interrupt status is kept");
                Check.that(client.nextIdDirect("orders") > 0, "the connection is good");
            }
            // A thread that is already interrupted can still take an id if that needs no wait.
            client.nextId("orders");
            Thread.currentThread().interrupt();
            Check.that(client.nextId("orders") > 0, "an id from the held run");
            LeafdException e = Check.throwing(
                    LeafdException.Interrupted.class, "interrupted", () -> client.nextIdDirect("orders"));
            Check.that(!e.isRetryable(), "a loop of retries would never end");
            Check.that(Thread.interrupted(), "the interrupt status is kept");
            Check.equal(1, stranger.connections.get());
        }
    }

    static void closingEndsEveryWaitAndDropsWhatIsHeld() throws Exception {
        Stranger stranger = new Stranger();
        LeafdClient client = stranger.builder().deadline(Duration.ofSeconds(20)).build();
        LeafdTag orders = client.tag("orders");
        orders.nextId();
        stranger.answer = SILENT;
        CountDownLatch waiting = new CountDownLatch(3);
        CompletableFuture<List<Object>> ended = CompletableFuture.supplyAsync(() -> {
            try {
                return Check.inThreads(3, () -> {
                    waiting.countDown();
                    return Check.throwing(IllegalStateException.class, "closed", () -> client.nextIdDirect("orders"));
                });
            } catch (Exception e) {
                throw new AssertionError(e);
            }
        });
        waiting.await();
        Check.pause(50);
        client.close();
        client.close();
        Check.equal(3, ended.get(5, TimeUnit.SECONDS).size());
        for (Check.Code call : List.<Check.Code>of(orders::nextId, () -> client.nextId("new"), client::info)) {
            Check.throwing(IllegalStateException.class, "closed", call);
        }
        Check.that(client.toString().contains("closed"), client.toString());
        Check.eventually("the end of the connection", () -> stranger.ended.get() == 1);
        stranger.close();
    }

    static void aRunThatArrivedBeforeTheCloseIsNotUsedAfterIt() throws Exception {
        try (Stranger stranger = new Stranger()) {
            LeafdClient client = stranger.builder().build();
            // Draws to the end of the first run, which requests the next one on the way.
            int first = 1;
            client.nextId("orders");
            while (first < stranger.requests.get(0).count()) {
                client.nextId("orders");
                first++;
            }
            Check.eventually("the request for the next run", () -> stranger.requests.size() == 2);
            // Answers arrive in order, so once this one has arrived, the run has too.
            client.nextIdDirect("other");
            client.close();
            Check.throwing(IllegalStateException.class, "closed", () -> client.nextId("orders"));
        }
    }

    static void aDaemonThatNeverWasThereIsAnErrorAtOnce() throws Exception {
        long beganNs = System.nanoTime();
        Path nowhere = Path.of("/nowhere/leafd.sock");
        LeafdException e = Check.throwing(
                LeafdException.Unreachable.class, "/nowhere/leafd.sock", () -> LeafdClient.connect(nowhere));
        Check.that(e.isRetryable() && e.getMessage().contains("is the daemon running"), e.getMessage());
        Check.that(System.nanoTime() - beganNs < 1_500_000_000, "it waited");
        Path tooLong = Path.of("/" + "x".repeat(107));
        Check.throwing(IllegalArgumentException.class, "1 to 107 bytes", () -> LeafdClient.connect(tooLong));
    }

    static void aDaemonThatWasThereAMomentAgoIsWaitedFor() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().deadline(Duration.ofSeconds(10)).direct(true).build()) {
            Check.equal(1L, client.nextId("orders"));
            stranger.stop();
            CompletableFuture<Void> back = CompletableFuture.runAsync(() -> {
                Check.pause(200);
                try {
                    stranger.listen();
                } catch (IOException e) {
                    throw new AssertionError(e);
                }
            });
            Check.equal(2L, client.nextId("orders"));
            back.get();
            stranger.stop();
            long beganNs = System.nanoTime();
            Check.throwing(LeafdException.Unreachable.class, "can't connect", () ->
                    client.nextId("orders", Duration.ofMillis(200)));
            long ms = (System.nanoTime() - beganNs) / 1_000_000;
            Check.that(ms < 3000, ms + " ms");
        }
    }

    static void aClientThatIsToWaitFindsADaemonThatComesLater() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder()
                        .deadline(Duration.ofMillis(100))
                        .waitForDaemon(Duration.ofSeconds(20))
                        .build()) {
            stranger.stop();
            CompletableFuture<List<Long>> ids = CompletableFuture.supplyAsync(() -> {
                try {
                    AtomicInteger number = new AtomicInteger();
                    return Check.inThreads(6, () -> number.getAndIncrement() % 2 == 0
                            ? client.nextId("orders") : client.nextIdDirect("orders"));
                } catch (Exception e) {
                    throw new AssertionError(e);
                }
            });
            // This is longer than a call takes without waiting.
            Check.pause(500);
            Check.that(!ids.isDone(), "it did not wait");
            long beganNs = System.nanoTime();
            Check.throwing(LeafdException.Unreachable.class, "can't connect", () ->
                    client.nextId("other", Duration.ofMillis(50)));
            Check.that(System.nanoTime() - beganNs < 5_000_000_000L, "a call with its own deadline waited");
            stranger.listen();
            Check.equal(6L, ids.get(20, TimeUnit.SECONDS).stream().distinct().count());
        }
    }

    static void aWaitShorterThanTheDeadlineLastsAsLongAsThat() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder()
                        .deadline(Duration.ofSeconds(20))
                        .waitForDaemon(Duration.ofMillis(1))
                        .build()) {
            stranger.stop();
            CompletableFuture<Long> id = CompletableFuture.supplyAsync(() -> client.nextId("orders"));
            Check.pause(200);
            Check.that(!id.isDone(), "it did not wait");
            stranger.listen();
            Check.equal(1L, id.get(20, TimeUnit.SECONDS));
        }
    }

    static void theWholeTimeIsWaited() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder()
                        .deadline(Duration.ofMillis(1))
                        .waitForDaemon(Duration.ofMillis(300))
                        .build()) {
            stranger.stop();
            long beganNs = System.nanoTime();
            Check.throwing(LeafdException.Unreachable.class, "can't connect", () -> client.nextId("orders"));
            long ns = System.nanoTime() - beganNs;
            Check.that(ns >= 300_000_000, "it waited " + ns / 1_000_000 + " ms");
        }
    }

    static void aDaemonThatHangsIsGivenUpWhenTooManyAnswersAreOverdue() throws Exception {
        try (Stranger stranger = new Stranger()) {
            stranger.answer = SILENT;
            Link link = new Link(stranger.socket(), true);
            for (int request = 0; request < Connection.ABANDONED_MAX; request++) {
                link.abandon(ask(link));
            }
            Check.eventually("the end of the connection", () -> stranger.ended.get() == 1);
            link.close();
        }
    }

    private static int descriptors() throws IOException {
        try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
            return (int) files.count();
        }
    }

    static void everyDescriptorIsGivenBack() throws Exception {
        try (Stranger stranger = new Stranger()) {
            stranger.builder().connect().close();
            int before = descriptors();
            try (LeafdClient client = stranger.builder().deadline(Duration.ofSeconds(20)).build()) {
                for (int round = 0; round < 50; round++) {
                    // A client that closes, a connection that breaks, and a connection that fails.
                    stranger.builder().connect().close();
                    client.nextIdDirect("orders");
                    stranger.answer = request -> Stranger.reply(request, 0, new byte[1]);
                    Check.throwing(LeafdException.ProtocolBroken.class, "", () -> client.nextIdDirect("orders"));
                    stranger.answer = stranger::wellDone;
                    Path nowhere = Path.of("/nowhere/leafd.sock");
                    Check.throwing(LeafdException.Unreachable.class, "", () -> LeafdClient.connect(nowhere));
                }
            }
            Check.eventually("all descriptors are closed", () -> {
                try {
                    return descriptors() <= before;
                } catch (IOException e) {
                    return false;
                }
            });
        }
    }

    static void answersThatComeLateAreOverdueNoMore() throws Exception {
        try (Stranger stranger = new Stranger()) {
            Link link = new Link(stranger.socket(), true);
            for (int request = 1; request <= 2 * Connection.ABANDONED_MAX; request++) {
                Pending<Wire.Drawn> asked = ask(link);
                if (request % 500 == 0) {
                    Check.that(link.await(asked, false, System.nanoTime() + 20_000_000_000L), "an answer");
                }
                link.abandon(asked);
            }
            Check.equal(1, stranger.connections.get());
            link.close();
        }
    }

    private static Pending<Wire.Drawn> ask(Link link) {
        byte[] tag = Wire.tagBytes("orders");
        return link.submit(
                Wire.IDS,
                Wire.IDS_BYTES + tag.length,
                (out, id) -> Wire.putIds(out, id, false, 1, 0, tag),
                body -> Wire.readIds(body, 1, false),
                Deadline.after(Deadline.Limit.of(Duration.ofSeconds(20))));
    }

    static void impossibleArgumentsAreTold() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            Check.equal(0, client.nextIds("orders", 0).length);
            List<Check.Code> calls = List.of(
                    () -> client.nextIds("orders", -1),
                    () -> client.nextId("orders", Duration.ofMillis(-1)),
                    () -> client.nextId(""),
                    () -> client.tag("a\nb"),
                    () -> client.decode("snowflake", 1),
                    () -> stranger.builder().deadline(Duration.ofSeconds(-1)));
            for (Check.Code call : calls) {
                Check.throwing(IllegalArgumentException.class, "", call);
            }
            // Limits above the daemon's maximum are capped, and a limit of zero is allowed.
            Check.that(client.nextId("orders", Duration.ofDays(100_000)) > 0, "a long time");
            Check.that(client.nextId("orders", Duration.ZERO) > 0, "no time");
            Check.equal(1, stranger.drawn());
        }
    }

    static void missingArgumentsAreTold() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            Duration never = null;
            PublicIds orders = client.publicIds("orders");
            Map<String, List<Check.Code>> calls = Map.of(
                    "a tag's name is missing: null was given", List.of(
                            () -> client.nextId(null),
                            () -> client.nextId(null, Duration.ZERO),
                            () -> client.nextIdDirect(null),
                            () -> client.nextIds(null, 1),
                            () -> client.tag(null),
                            () -> client.publicIds(null)),
                    "the time that a call may take is missing", List.of(
                            () -> client.nextId("orders", never),
                            () -> client.nextIdDirect("orders", never),
                            () -> client.nextIds("orders", 1, never),
                            () -> client.tag("orders").nextId(never),
                            () -> orders.within(null),
                            () -> stranger.builder().deadline(null),
                            () -> stranger.builder().waitForDaemon(null)),
                    "a layout's name is missing", List.of(() -> client.decode(null, 1)),
                    "a moment is missing", List.of(() -> Layout.LEAF.firstIdAt(null)),
                    "a socket's path is missing", List.of(
                            () -> LeafdClient.connect(null),
                            () -> LeafdClient.builder().socket(null)),
                    "a client is missing", List.of(() -> new LeafdIDGen(null), () -> LeafdIDGen.snowflake(null)),
                    "a prefix is missing", List.of(() -> orders.prefix(null)),
                    "an array of ids is missing", List.of(() -> orders.mask((long[]) null), () -> orders.unmask((long[]) null)),
                    "a list of public ids is missing", List.of(() -> orders.unmaskText((List<String>) null)),
                    "a public id is missing", List.of(
                            () -> orders.unmaskText((String) null),
                            () -> orders.unmaskText(Collections.singletonList(null))));
            for (Map.Entry<String, List<Check.Code>> of : calls.entrySet()) {
                for (Check.Code call : of.getValue()) {
                    Check.throwing(NullPointerException.class, of.getKey(), call);
                }
            }
            Check.equal(0, stranger.requests.size());
        }
    }

    static void aClientUsesSoManyTagsAndNoMore() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            for (int tag = 0; tag < LeafdClient.TAGS_MAX; tag++) {
                client.tag("tag" + tag);
            }
            Check.throwing(IllegalArgumentException.class, "at most 65536 tags", () -> client.nextId("one more"));
            Check.that(client.nextId("tag1") > 0, "existing tags continue");
        }
    }
}
