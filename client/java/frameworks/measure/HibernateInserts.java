import io.leafd.hibernate.LeafdId;
import io.leafd.hibernate.LeafdIdGenerator;
import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.SequenceGenerator;
import jakarta.persistence.Table;
import java.util.function.Supplier;
import org.hibernate.cfg.Configuration;

/** Inserts rows through Hibernate. */
final class HibernateInserts {
    private HibernateInserts() {}

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
        @SequenceGenerator(name = "pooled", sequenceName = "pooled", allocationSize = Inserts.ROWS)
        Long id;

        String item = "tea";
    }

    static Runnable of(String source, int threads) {
        var configuration = new Configuration()
                .addAnnotatedClass(source.equals("own") ? PooledOrder.class : Order.class)
                .setProperty("hibernate.connection.url", System.getenv("JDBC_URL"))
                .setProperty("hibernate.connection.pool_size", "" + threads)
                .setProperty("hibernate.jdbc.batch_size", "" + Inserts.ROWS);
        configuration.getProperties().put(LeafdIdGenerator.IDS, Inserts.ids(source));
        var sessions = configuration.buildSessionFactory();
        Supplier<Object> order = source.equals("own") ? PooledOrder::new : Order::new;
        return () -> sessions.inTransaction(session -> {
            for (int row = 0; row < Inserts.ROWS; row++) {
                session.persist(order.get());
            }
        });
    }
}
