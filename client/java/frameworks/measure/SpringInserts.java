import io.leafd.IdSource;
import java.util.List;
import java.util.stream.IntStream;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ApplicationContext;
import org.springframework.jdbc.core.JdbcTemplate;

/** Inserts rows through Spring's JdbcTemplate, with the client that Spring Boot configures. */
final class SpringInserts {
    private SpringInserts() {}

    @EnableAutoConfiguration
    static class Application {}

    private static final ApplicationContext APPLICATION = started();

    private static ApplicationContext started() {
        System.setProperty("spring.datasource.url", Inserts.JDBC_URL);
        System.setProperty("spring.datasource.hikari.maximum-pool-size", "" + Inserts.CONNECTIONS);
        System.setProperty("spring.datasource.hikari.connection-timeout", "300000");
        System.setProperty("spring.main.banner-mode", "off");
        return SpringApplication.run(Application.class);
    }

    static Runnable of(String source) {
        var ids = source.equals("leafd") ? APPLICATION.getBean(IdSource.class) : Inserts.ids(source);
        var database = APPLICATION.getBean(JdbcTemplate.class);
        return () -> {
            List<Object[]> rows = IntStream.range(0, Inserts.ROWS)
                    .mapToObj(row -> new Object[] {ids.nextId("orders"), source})
                    .toList();
            database.batchUpdate("INSERT INTO orders (id, item) VALUES (?, ?)", rows);
        };
    }
}
