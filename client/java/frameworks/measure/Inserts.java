import io.leafd.FakeClient;
import io.leafd.IdSource;
import io.leafd.LeafdClient;
import java.util.Arrays;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Inserts rows in batches of 50, one transaction each, on several threads. Prints transaction times and failures. */
public final class Inserts {
    static final int ROWS = 50;

    static IdSource ids(String source) {
        return source.equals("leafd") ? LeafdClient.builder().build() : new FakeClient();
    }

    public static void main(String[] args) throws Exception {
        int threads = Integer.parseInt(args[2]);
        int transactions = Integer.parseInt(args[3]);
        Runnable insert = switch (args[0]) {
            case "hibernate" -> HibernateInserts.of(args[1], threads);
            case "mybatis-plus" -> MybatisPlusInserts.of(args[1], threads);
            default -> ShardedInserts.of(args[1], threads);
        };
        long[] tookNs = new long[transactions];
        var next = new AtomicInteger();
        var failed = new AtomicInteger();
        var pool = Executors.newFixedThreadPool(threads);
        for (int thread = 0; thread < threads; thread++) {
            pool.execute(() -> {
                for (int index; (index = next.getAndIncrement()) < transactions; ) {
                    long beganNs = System.nanoTime();
                    try {
                        insert.run();
                    } catch (RuntimeException e) {
                        failed.incrementAndGet();
                        System.err.println(e);
                    }
                    tookNs[index] = System.nanoTime() - beganNs;
                }
            });
        }
        pool.shutdown();
        pool.awaitTermination(1, TimeUnit.HOURS);
        // The first tenth is warm-up.
        long[] warm = Arrays.stream(tookNs, transactions / 10, transactions).sorted().toArray();
        System.out.printf(
                "%s, %s: %d transactions of %d rows, %d failed; p50 %.1f ms, p99.9 %.1f ms%n",
                args[0], args[1], transactions, ROWS, failed.get(), warm[warm.length / 2] / 1e6, warm[(int) (warm.length * 0.999)] / 1e6);
        System.exit(0);
    }
}
