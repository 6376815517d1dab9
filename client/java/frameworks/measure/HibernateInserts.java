import io.leafd.hibernate.LeafdId;
import io.leafd.hibernate.LeafdIdGenerator;
import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.SequenceGenerator;
import jakarta.persistence.Table;
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

        String item;
    }

    @Entity
    @Table(name = "orders")
    static class PooledOrder {
        @Id
        @GeneratedValue(strategy = GenerationType.SEQUENCE, generator = "pooled")
        @SequenceGenerator(name = "pooled", sequenceName = "pooled", allocationSize = 50)
        Long id;

        String item = "own";
    }

    static Runnable of(String source) {
        boolean own = source.equals("own");
        var configuration = new Configuration()
                .addAnnotatedClass(own ? PooledOrder.class : Order.class)
                .setProperty("hibernate.jdbc.batch_size", "50");
        configuration.getProperties().put("hibernate.connection.datasource", Inserts.database());
        configuration.getProperties().put(LeafdIdGenerator.IDS, Inserts.ids(source));
        var sessions = configuration.buildSessionFactory();
        return () -> sessions.inTransaction(session -> {
            for (int row = 0; row < Inserts.ROWS; row++) {
                var order = new Order();
                order.item = source;
                session.persist(own ? new PooledOrder() : order);
            }
        });
    }
}
