import io.leafd.LeafdClient;
import io.leafd.leaf.LeafdIDGen;
import io.leafd.LeafdTag;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;

/**
 * Measures the cost of an id in Java, with JMH's method: each row runs in separate JVMs, which are warmed up first, and
 * its results can't be optimized away. Each id of a row is checked to be above the one before.
 *
 * <p>{@code client/java/bench} starts a daemon and runs this program.
 */
public final class Bench {
    private static final int FORKS = 3;
    private static final int WARM_UPS = 6;
    private static final int ROUNDS = 5;
    private static final long ROUND_NS = 500_000_000;
    /** The number of calls between two readings of the clock. */
    private static final int CALLS = 1000;

    private static final int BATCH = 1000;

    /** The measurement of a row in a forked JVM. The result is one number for each round, or a p50 and a p99 for each. */
    private interface Row {
        void measure(LeafdClient client, List<double[]> rounds) throws Exception;
    }

    private static final Map<String, Row> ROWS = new LinkedHashMap<>();

    static {
        ROWS.put("one id of a held run, by a handle", (client, rounds) -> {
            LeafdTag tag = client.tag("bench");
            ascending(rounds, tag::nextId);
        });
        ROWS.put("    by the tag's name", (client, rounds) -> ascending(rounds, () -> client.nextId("bench")));
        ROWS.put("    in Leaf's shape, LeafdIDGen.get", (client, rounds) -> {
            LeafdIDGen segments = new LeafdIDGen(client);
            ascending(rounds, () -> segments.get("bench").getId());
        });
        ROWS.put("    two threads on one client, each", (client, rounds) -> twoThreads(rounds, client.tag("bench")::nextId));
        ROWS.put("Leaf's segments in the process, modelled: get", (client, rounds) -> {
            LeafModel leaf = new LeafModel("bench");
            ascending(rounds, () -> leaf.get("bench").getId());
        });
        ROWS.put("    two threads, each", (client, rounds) -> {
            LeafModel leaf = new LeafModel("bench");
            twoThreads(rounds, () -> leaf.get("bench").getId());
        });
        ROWS.put("one snowflake id of a held run", (client, rounds) -> {
            LeafdTag tag = client.tag("snowflake");
            ascending(rounds, tag::nextId);
        });
        ROWS.put("one of " + BATCH + " ids in a batch", (client, rounds) -> batches(client, rounds));
        ROWS.put("one id drawn directly, back to back: p50, p99", (client, rounds) -> direct(client, rounds, 0));
        ROWS.put("    at 1,000 a second: p50, p99", (client, rounds) -> direct(client, rounds, 1_000_000));
        ROWS.put("AtomicLong.getAndIncrement", (client, rounds) -> {
            AtomicLong counter = new AtomicLong(1);
            ascending(rounds, counter::getAndIncrement);
        });
        ROWS.put("System.nanoTime", (client, rounds) -> {
            AtomicLong sink = new AtomicLong();
            timed(rounds, 1, () -> {
                long folded = 0;
                for (int call = 0; call < CALLS; call++) {
                    folded ^= System.nanoTime();
                }
                sink.setPlain(folded);
            });
        });
        ROWS.put("UUID.randomUUID", (client, rounds) -> {
            AtomicLong sink = new AtomicLong();
            timed(rounds, 1, () -> {
                long folded = 0;
                for (int call = 0; call < CALLS; call++) {
                    folded ^= UUID.randomUUID().getLeastSignificantBits();
                }
                sink.setPlain(folded);
            });
        });
    }

    private Bench() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 2) {
            fork(Path.of(arguments[0]), arguments[1]);
        } else {
            report(arguments[0]);
        }
    }

    /** Measures one row, in this JVM. */
    private static void fork(Path socket, String name) throws Exception {
        try (LeafdClient client =
                LeafdClient.builder().socket(socket).deadline(Duration.ofSeconds(20)).connect()) {
            List<double[]> rounds = new ArrayList<>();
            ROWS.get(name).measure(client, rounds);
            for (double[] round : rounds) {
                System.out.println(Arrays.toString(round).replaceAll("[\\[\\],]", ""));
            }
        }
    }

    /** Measures all rows, each in separate JVMs, and prints them. */
    private static void report(String socket) throws Exception {
        System.out.printf("Java %s; medians of %d JVMs of %d rounds each, and the smallest and largest round%n",
                System.getProperty("java.version"), FORKS, ROUNDS);
        for (String name : ROWS.keySet()) {
            List<double[]> rounds = new ArrayList<>();
            for (int fork = 0; fork < FORKS; fork++) {
                rounds.addAll(forked(socket, name));
            }
            StringBuilder line = new StringBuilder(String.format("%-48s", name));
            for (int column = 0; column < rounds.get(0).length; column++) {
                int of = column;
                double[] sorted = rounds.stream().mapToDouble(round -> round[of]).sorted().toArray();
                line.append(String.format("%10s (%s to %s)", shown(sorted[sorted.length / 2]), shown(sorted[0]),
                        shown(sorted[sorted.length - 1])));
            }
            System.out.println(line);
        }
    }

    private static List<double[]> forked(String socket, String name) throws Exception {
        String java = ProcessHandle.current().info().command().orElse("java");
        Process process = new ProcessBuilder(
                        java, "-Xmx256m", "-cp", System.getProperty("java.class.path"), "Bench", socket, name)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        List<double[]> rounds = process.inputReader().lines()
                .map(line -> Arrays.stream(line.split(" ")).mapToDouble(Double::parseDouble).toArray())
                .toList();
        if (process.waitFor() != 0 || rounds.size() != ROUNDS) {
            throw new IllegalStateException("\"" + name + "\" failed");
        }
        return rounds;
    }

    private static String shown(double ns) {
        return ns < 1000 ? String.format("%.1f ns", ns) : String.format("%.1f us", ns / 1000);
    }

    /**
     * Runs {@code work}, which makes {@link #CALLS} calls, for the duration of each round. The result of a round is the
     * mean time of a call in ns.
     */
    private static void timed(List<double[]> rounds, int idsACall, Runnable work) {
        for (int round = -WARM_UPS; round < ROUNDS; round++) {
            long calls = 0;
            long beganNs = System.nanoTime();
            long passedNs;
            do {
                work.run();
                calls += CALLS;
                passedNs = System.nanoTime() - beganNs;
            } while (passedNs < ROUND_NS);
            if (round >= 0) {
                rounds.add(new double[] {(double) passedNs / calls / idsACall});
            }
        }
    }

    /** Draws ids, and checks that each is above the one before, so every id is used and none repeats. */
    private static void ascending(List<double[]> rounds, LongSupplier next) {
        long[] last = {0};
        timed(rounds, 1, () -> {
            long before = last[0];
            for (int call = 0; call < CALLS; call++) {
                long id = next.getAsLong();
                if (id <= before) {
                    throw new IllegalStateException(id + " after " + before);
                }
                before = id;
            }
            last[0] = before;
        });
    }

    private static void twoThreads(List<double[]> rounds, LongSupplier next) throws Exception {
        List<double[]> others = new ArrayList<>();
        Thread other = new Thread(() -> ascending(others, next));
        other.start();
        ascending(rounds, next);
        other.join();
        for (int round = 0; round < ROUNDS; round++) {
            rounds.get(round)[0] = (rounds.get(round)[0] + others.get(round)[0]) / 2;
        }
    }

    private static void batches(LeafdClient client, List<double[]> rounds) {
        long[] last = {0};
        timed(rounds, BATCH, () -> {
            for (int call = 0; call < CALLS; call++) {
                for (long id : client.nextIds("bench", BATCH)) {
                    if (id <= last[0]) {
                        throw new IllegalStateException(id + " after " + last[0]);
                    }
                    last[0] = id;
                }
            }
        });
    }

    /** Times each call. {@code pauseNs}: the time from the start of one call to the start of the next. */
    private static void direct(LeafdClient client, List<double[]> rounds, long pauseNs) {
        LeafdTag tag = client.tag("bench");
        long last = 0;
        for (int round = -WARM_UPS; round < ROUNDS; round++) {
            long[] ns = new long[pauseNs == 0 ? 10_000 : 1_000];
            long dueNs = System.nanoTime();
            for (int call = 0; call < ns.length; call++) {
                long beganNs = System.nanoTime();
                long id = tag.nextIdDirect();
                ns[call] = System.nanoTime() - beganNs;
                if (id <= last) {
                    throw new IllegalStateException(id + " after " + last);
                }
                last = id;
                dueNs += pauseNs;
                while (pauseNs > 0 && System.nanoTime() - dueNs < 0) {
                    LockSupport.parkNanos(dueNs - System.nanoTime());
                }
            }
            Arrays.sort(ns);
            if (round >= 0) {
                rounds.add(new double[] {ns[ns.length / 2], ns[ns.length * 99 / 100]});
            }
        }
    }
}
