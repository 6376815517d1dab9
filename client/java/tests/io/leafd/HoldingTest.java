package io.leafd;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.LongStream;

/** Tests held runs: ids are unique, and runs are refilled in time, sized by the rate and not held for too long. */
final class HoldingTest {
    private HoldingTest() {}

    private static final Stranger.Answer SILENT = request -> Stranger.SILENCE;

    private static long[] draw(LeafdClient client, String tag, int count) {
        return LongStream.generate(() -> client.nextId(tag)).limit(count).toArray();
    }

    private static void inThreads(int threads, int each, Stranger.Answer answer, long holdMs) throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            stranger.holdMs = holdMs;
            if (answer != null) {
                stranger.answer = answer;
            }
            Check.unique((long) threads * each, Check.inThreads(threads, () -> draw(client, "orders", each)));
            Check.equal(1, stranger.connections.get());
        }
    }

    static void manyThreadsShareRunsAndNoId() throws Exception {
        inThreads(8, 100_000, null, 60_000);
    }

    static void manyThreadsShareShortLivedRuns() throws Exception {
        inThreads(4, 50_000, null, 8);
    }

    static void manyThreadsShareStridedRunsInPieces() throws Exception {
        try (Stranger numbers = new Stranger()) {
            inThreads(4, 20_000, request -> {
                int count = request.count();
                int piece = Math.max(1, count / 3);
                long first = numbers.take(7 * count);
                byte[] one = Stranger.run(first, piece, 7);
                byte[] all = count == 1
                        ? Stranger.ids(60_000, one)
                        : Stranger.ids(60_000, one, Stranger.run(first + 7L * piece, count - piece, 7));
                return Stranger.reply(request, 0, all);
            }, 60_000);
        }
    }

    static void aRunSavesRequests() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            Check.unique(1_000_000, List.of(draw(client, "orders", 1_000_000)));
            Check.that(stranger.drawn() < 2000, stranger.drawn() + " requests");
            int largest = stranger.requests.stream().mapToInt(Stranger.Request::count).max().orElse(0);
            Check.equal(Sizing.RUN_COUNT_MAX, largest);
        }
    }

    static void theNextRunIsAskedForAheadAndNotAwaited() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            client.nextId("orders");
            int count = stranger.requests.get(0).count();
            stranger.answer = SILENT;
            for (int taken = 1; taken <= Sizing.refillOffset(count); taken++) {
                Check.equal(1, stranger.drawn());
                client.nextId("orders");
            }
            Check.eventually("the next run is requested", () -> stranger.drawn() == 2);
            stranger.push(stranger.wellDone(stranger.requests.get(1)));
            // The rest of the first run is used without the second, which has arrived by then.
            draw(client, "orders", count - Sizing.refillOffset(count));
            Check.equal(2, stranger.drawn());
        }
    }

    static void aProcessThatDrawsFewIdsSkipsFewerThanItDraws() throws Exception {
        int drawn = 0;
        long given = 0;
        for (int count = 1; count <= 50; count++) {
            try (Stranger stranger = new Stranger();
                    LeafdClient client = stranger.builder().build()) {
                draw(client, "orders", count);
                // Once this is answered, the earlier requests ahead have been answered too. Its id is above all of
                // theirs.
                given += client.nextIdDirect("orders") - 1;
                drawn += count;
            }
        }
        Check.that((given - drawn) * 100 <= drawn * 65L, given - drawn + " skipped for " + drawn);
    }

    static void anAnswerAheadThatFailedIsAskedForAgain() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            client.nextId("orders");
            stranger.answer = request -> Stranger.refusal(request, Status.STORE_UNAVAILABLE.number(), "for now");
            draw(client, "orders", 3);
            Check.eventually("the next run is requested", () -> stranger.drawn() == 2);
            stranger.answer = stranger::wellDone;
            Check.unique(20, List.of(draw(client, "orders", 20)));
        }
    }

    static void shortLivedIdsAreDroppedWhenTheirTimeIsOver() throws Exception {
        dropped(50, 70);
    }

    /** A timer drops these ids, because the thread that takes ids checks the clock only occasionally. */
    static void longLivedIdsAreDroppedWhenTheirTimeIsOver() throws Exception {
        dropped(1000, 2500);
    }

    private static void dropped(long holdMs, long pauseMs) throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            stranger.holdMs = holdMs;
            long beganNs = System.nanoTime();
            long first = client.nextId("orders");
            long second = client.nextId("orders");
            if (System.nanoTime() - beganNs < holdMs * 1_000_000 / 2) {
                Check.equal(first + 1, second);
            }
            Check.pause(pauseMs);
            // The counter is above all held ids.
            long mark = client.nextIdDirect("orders");
            long late = client.nextId("orders");
            Check.that(late > mark, late + " was held since before " + mark + " was drawn");
        }
    }

    /** The timer is restarted for the run that is current when the first run expires. */
    static void aRunThatFollowsOnItsTimerIsDroppedAsWell() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            stranger.holdMs = 1000;
            client.nextId("orders");
            Check.pause(500);
            draw(client, "orders", 20);
            Check.pause(2500);
            long mark = client.nextIdDirect("orders");
            Check.that(client.nextId("orders") > mark, "an id was held for too long");
        }
    }

    /** The timer of the first run fires too late for the second one. */
    static void aRunThatMayBeHeldForLessThanTheOneBeforeIsDroppedInTime() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            client.nextId("orders");
            stranger.holdMs = 1000;
            draw(client, "orders", 10);
            Check.pause(1100);
            long mark = client.nextIdDirect("orders");
            Check.that(client.nextId("orders") > mark, "an id was held for too long");
        }
    }

    static void anAnswerAheadThatIsTooOldIsSkipped() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            stranger.holdMs = 200;
            client.nextId("orders");
            draw(client, "orders", 3);
            Check.eventually("the next run is requested", () -> stranger.drawn() == 2);
            Check.pause(250);
            long mark = client.nextIdDirect("orders");
            Check.that(client.nextId("orders") > mark, "an id was requested too long ago");
        }
    }

    static void idsThatMayNotBeHeldAreRequestsEach() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            stranger.holdMs = 0;
            // All ids of the first request except one are skipped.
            Check.ascending(draw(client, "orders", 100));
            Check.equal(100, stranger.drawn());
            Check.that(stranger.requests.stream().skip(1).allMatch(request -> request.count() == 1), "one id each");
            Check.unique(400, Check.inThreads(4, () -> draw(client, "orders", 100)));
            Check.equal(500, stranger.drawn());
            // The tag is recreated, and its ids may be held now.
            stranger.holdMs = 60_000;
            draw(client, "orders", 10);
            Check.that(stranger.drawn() < 510, "runs are held again");
        }
    }

    /** If each id takes a request, one that waits doesn't delay the others of its tag. */
    static void idsThatMayNotBeHeldDontWaitForOneAnother() throws Exception {
        CompletableFuture<Long> stuck;
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().deadline(Duration.ofSeconds(60)).build()) {
            stranger.holdMs = 0;
            client.nextId("orders");
            stranger.answer = request -> stranger.drawn() == 2 ? Stranger.SILENCE : stranger.wellDone(request);
            stuck = CompletableFuture.supplyAsync(() -> client.nextId("orders"));
            Check.eventually("one waits", () -> stranger.drawn() == 2);
            Check.ascending(draw(client, "orders", 10));
            Check.that(!stuck.isDone(), "it still waits");
        }
        Check.eventually("its end", stuck::isCompletedExceptionally);
    }

    static void withoutHeldRunsEachIdIsADirectDraw() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().direct(true).build()) {
            Check.equal(1L, client.nextId("orders"));
            Check.equal(2L, client.tag("orders").nextId());
            Check.equal(3L, client.nextIdDirect("orders"));
            Check.that(stranger.requests.stream().noneMatch(Stranger.Request::hold), "a run was requested");
        }
    }

    static void tagsDontMix() throws Exception {
        try (Stranger stranger = new Stranger();
                LeafdClient client = stranger.builder().build()) {
            List<long[]> drawn = Check.inThreads(4, () -> {
                ThreadLocalRandom random = ThreadLocalRandom.current();
                LongStream ids = LongStream.generate(() -> switch (random.nextInt(4)) {
                    case 0 -> client.nextIdDirect("tag" + random.nextInt(5));
                    case 1 -> client.nextIds("tag" + random.nextInt(5), 1)[0];
                    default -> client.nextId("tag" + random.nextInt(5));
                });
                return ids.limit(5000).toArray();
            });
            // All tags of a stranger share one counter.
            Check.unique(20_000, drawn);
            Check.equal(5L, Arrays.stream(stranger.requests.stream().map(Stranger.Request::tag).toArray()).distinct().count());
        }
    }
}
