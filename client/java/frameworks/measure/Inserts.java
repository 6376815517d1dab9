import com.baomidou.mybatisplus.annotation.TableName;
import com.baomidou.mybatisplus.core.MybatisConfiguration;
import com.baomidou.mybatisplus.core.MybatisSqlSessionFactoryBuilder;
import com.baomidou.mybatisplus.core.incrementer.DefaultIdentifierGenerator;
import com.baomidou.mybatisplus.core.mapper.BaseMapper;
import com.baomidou.mybatisplus.core.toolkit.GlobalConfigUtils;
import io.leafd.FakeClient;
import io.leafd.IdSource;
import io.leafd.LeafdClient;
import io.leafd.hibernate.LeafdId;
import io.leafd.hibernate.LeafdIdGenerator;
import io.leafd.mybatisplus.LeafdIdentifierGenerator;
import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.SequenceGenerator;
import jakarta.persistence.Table;
import java.util.Arrays;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.apache.ibatis.datasource.pooled.PooledDataSource;
import org.apache.ibatis.mapping.Environment;
import org.apache.ibatis.session.ExecutorType;
import org.apache.ibatis.transaction.jdbc.JdbcTransactionFactory;
import org.hibernate.cfg.Configuration;

/** Inserts rows in batches of 50, a transaction each, over threads. Prints how long transactions took and how many failed. */
public final class Inserts {
    private static final int ROWS = 50;

    @Entity
    @Table(name = "orders")
    static class Order {
        @Id
        @LeafdId("orders")
        Long id;

        String item = "tea";
    }

    @Entity
    @Table(name = "orders")
    static class PooledOrder {
        @Id
        @GeneratedValue(strategy = GenerationType.SEQUENCE, generator = "pooled")
        @SequenceGenerator(name = "pooled", sequenceName = "pooled", allocationSize = ROWS)
        Long id;

        String item = "tea";
    }

    @TableName("orders")
    public static class Row {
        public Long id;
        public String item = "tea";
    }

    public interface Rows extends BaseMapper<Row> {}

    private static Runnable hibernate(String source, int threads) {
        var configuration = new Configuration()
                .addAnnotatedClass(source.equals("own") ? PooledOrder.class : Order.class)
                .setProperty("hibernate.connection.url", System.getenv("JDBC_URL"))
                .setProperty("hibernate.connection.pool_size", "" + threads)
                .setProperty("hibernate.jdbc.batch_size", "" + ROWS);
        configuration.getProperties().put(LeafdIdGenerator.IDS, ids(source));
        var sessions = configuration.buildSessionFactory();
        Supplier<Object> order = source.equals("own") ? PooledOrder::new : Order::new;
        return () -> sessions.inTransaction(session -> {
            for (int row = 0; row < ROWS; row++) {
                session.persist(order.get());
            }
        });
    }

    private static Runnable mybatisPlus(String source, int threads) {
        var database = new PooledDataSource("org.postgresql.Driver", System.getenv("JDBC_URL"), null, null);
        database.setPoolMaximumActiveConnections(threads);
        var configuration = new MybatisConfiguration(new Environment("x", new JdbcTransactionFactory(), database));
        configuration.addMapper(Rows.class);
        GlobalConfigUtils.getGlobalConfig(configuration).setIdentifierGenerator(source.equals("own")
                ? new DefaultIdentifierGenerator()
                : new LeafdIdentifierGenerator(ids(source)::nextId));
        var sessions = new MybatisSqlSessionFactoryBuilder().build(configuration);
        return () -> {
            try (var session = sessions.openSession(ExecutorType.BATCH)) {
                for (int row = 0; row < ROWS; row++) {
                    session.getMapper(Rows.class).insert(new Row());
                }
                session.commit();
            }
        };
    }

    private static IdSource ids(String source) {
        return source.equals("leafd") ? LeafdClient.builder().build() : new FakeClient();
    }

    public static void main(String[] args) throws Exception {
        int threads = Integer.parseInt(args[2]);
        int transactions = Integer.parseInt(args[3]);
        Runnable insert = args[0].equals("hibernate") ? hibernate(args[1], threads) : mybatisPlus(args[1], threads);
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
        // The first tenth is start-up.
        long[] warm = Arrays.stream(tookNs, transactions / 10, transactions).sorted().toArray();
        System.out.printf(
                "%s, %s: %d transactions of %d rows, %d failed; p50 %.1f ms, p99.9 %.1f ms%n",
                args[0], args[1], transactions, ROWS, failed.get(), warm[warm.length / 2] / 1e6, warm[(int) (warm.length * 0.999)] / 1e6);
        System.exit(0);
    }
}
