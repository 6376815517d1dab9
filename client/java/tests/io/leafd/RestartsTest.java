package io.leafd;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Tests restarts of the daemon: no id repeats, and a restart causes no error. */
final class RestartsTest {
    private static final int THREADS = 6;
    private static final long A_WHILE_MS = 150;

    private RestartsTest() {}

    /** Draws with every kind of call until it is stopped. */
    private static final class Drawer {
        private final LeafdClient client;
        private final boolean mayFail;
        private volatile boolean stop;
        private volatile long drawn;

        Drawer(LeafdClient client, boolean mayFail) {
            this.client = client;
            this.mayFail = mayFail;
        }

        long[] draw(int kind) {
            long[] ids = new long[1 << 16];
            int count = 0;
            while (!stop) {
                if (count + 10 > ids.length) {
                    ids = Arrays.copyOf(ids, 2 * ids.length);
                }
                try {
                    switch (kind % 3) {
                        case 0 -> {
                            long id = client.nextIdDirect("orders");
                            ids[count++] = id;
                        }
                        case 1 -> {
                            for (long id : client.nextIds("orders", 10)) {
                                ids[count++] = id;
                            }
                        }
                        default -> {
                            long id = client.nextId("orders");
                            ids[count++] = id;
                            // A few hundred thousand ids are enough.
                            if (count % 1000 == 0) {
                                Check.pause(1);
                            }
                        }
                    }
                } catch (LeafdException e) {
                    if (!mayFail || !e.isRetryable()) {
                        throw e;
                    }
                }
                drawn = count;
            }
            return Arrays.copyOf(ids, count);
        }
    }

    private interface Events {
        void happen(Host host, List<Drawer> drawers) throws Exception;
    }

    private static void drawWhile(boolean mayFail, Duration deadline, Events events) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        try (Host host = Host.serving();
                LeafdClient client = LeafdClient.builder().socket(host.socket()).deadline(deadline).connect()) {
            List<Drawer> drawers = new ArrayList<>();
            List<Future<long[]>> futures = new ArrayList<>();
            for (int number = 0; number < THREADS; number++) {
                int kind = number;
                Drawer drawer = new Drawer(client, mayFail);
                drawers.add(drawer);
                futures.add(threads.submit(() -> drawer.draw(kind)));
            }
            Check.eventually("all are drawing", () -> drawers.stream().allMatch(drawer -> drawer.drawn > 0));
            events.happen(host, drawers);
            long[] before = drawers.stream().mapToLong(drawer -> drawer.drawn).toArray();
            Check.eventually("all continue", () -> {
                for (int number = 0; number < THREADS; number++) {
                    if (drawers.get(number).drawn == before[number] && !futures.get(number).isDone()) {
                        return false;
                    }
                }
                return true;
            });
            drawers.forEach(drawer -> drawer.stop = true);
            List<long[]> ids = new ArrayList<>();
            for (Future<long[]> future : futures) {
                ids.add(future.get(30, TimeUnit.SECONDS));
            }
            Check.unique(ids.stream().mapToLong(of -> of.length).sum(), ids);
        } finally {
            threads.shutdownNow();
        }
    }

    static void noCallFailsOverCleanRestarts() throws Exception {
        drawWhile(false, Duration.ofSeconds(30), (host, drawers) -> {
            for (int round = 0; round < 3; round++) {
                host.stop();
                host.start();
                awaitTwoDraws(drawers);
            }
        });
    }

    static void noIdComesTwiceOverKills() throws Exception {
        drawWhile(false, Duration.ofSeconds(30), (host, drawers) -> {
            for (int round = 0; round < 3; round++) {
                host.kill();
                Check.pause(A_WHILE_MS / 3);
                host.start();
                awaitTwoDraws(drawers);
            }
        });
    }

    /** Requests are retried only once, so the pending one must be answered before the daemon is stopped again. */
    private static void awaitTwoDraws(List<Drawer> drawers) throws Exception {
        long[] before = drawers.stream().mapToLong(drawer -> drawer.drawn).toArray();
        Check.eventually("each has drawn twice", () -> {
            for (int number = 0; number < THREADS; number++) {
                if (drawers.get(number).drawn < before[number] + 2) {
                    return false;
                }
            }
            return true;
        });
    }

    static void aDaemonThatIsFrozenFailsCallsAndGoesOn() throws Exception {
        drawWhile(true, Duration.ofMillis(100), (host, drawers) -> {
            for (int round = 0; round < 2; round++) {
                host.signal("STOP");
                Check.pause(700);
                host.signal("CONT");
                Check.pause(A_WHILE_MS);
            }
        });
    }

    static void aFrozenDaemonTimesCallsOut() throws Exception {
        try (Host host = Host.serving();
                LeafdClient client = host.client()) {
            client.nextId("orders");
            host.signal("STOP");
            long beganNs = System.nanoTime();
            Check.throwing(LeafdException.TimedOut.class, "did not answer within", () ->
                    client.nextIdDirect("orders", Duration.ofMillis(200)));
            Check.that(System.nanoTime() - beganNs < 5_000_000_000L, "it waited for long");
            Check.that(client.nextId("orders") > 0, "held ids are still returned");
            host.signal("CONT");
            Check.that(client.nextIdDirect("orders", Duration.ofSeconds(20)) > 0, "the client continues");
        }
    }

    static void heldIdsOutlastADaemonThatIsGone() throws Exception {
        try (Host host = Host.serving();
                LeafdClient client = host.client()) {
            long first = client.nextId("orders");
            host.kill();
            Check.equal(first + 1, client.nextId("orders"));
            LeafdException e = Check.throwing(LeafdException.Unreachable.class, "can't connect", () ->
                    client.nextIdDirect("orders", Duration.ofMillis(100)));
            Check.that(e.isRetryable(), "a retry may help");
        }
    }

    /** A kill leaves a socket on which no daemon listens, and a stop leaves its lock file. */
    static void aFirstCallWaitsForADaemonThatWasThereAMomentAgo() throws Exception {
        try (Host host = Host.serving()) {
            for (String end : List.of("kill", "stop")) {
                if (end.equals("kill")) {
                    host.kill();
                } else {
                    host.stop();
                }
                ExecutorService thread = Executors.newSingleThreadExecutor();
                try (LeafdClient client =
                        LeafdClient.builder().socket(host.socket()).deadline(Duration.ofSeconds(30)).build()) {
                    Future<Long> id = thread.submit(() -> client.nextId("orders"));
                    Check.pause(50);
                    Check.that(!id.isDone(), "it did not wait after a " + end);
                    host.start();
                    Check.that(id.get(30, TimeUnit.SECONDS) > 0, "an id");
                } finally {
                    thread.shutdownNow();
                }
            }
        }
    }
}
