import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import io.leafd.FakeClient;
import io.leafd.IdSource;
import io.leafd.LeafdClient;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import javax.sql.DataSource;

/** Inserts batches of rows, with ids from each source. examples/frameworks/measure runs it. */
public final class Inserts {
    static final int ROWS = Integer.parseInt(System.getenv("ROWS"));
    static final String JDBC_URL = System.getenv("JDBC_URL");
    static final int CONNECTIONS = 20;
    private static HikariDataSource database;

    private Inserts() {}

    static IdSource ids(String source) {
        return source.equals("leafd") ? LeafdClient.builder().build() : new FakeClient();
    }

    /** One pool serves all sources, because with one pool each, the tasks would all wait for the slower source's pool. */
    static DataSource database() {
        if (database != null) {
            return database;
        }
        var configuration = new HikariConfig();
        configuration.setJdbcUrl(JDBC_URL);
        configuration.setMaximumPoolSize(CONNECTIONS);
        configuration.setConnectionTimeout(300_000);
        database = new HikariDataSource(configuration);
        return database;
    }

    private static Runnable of(String framework, String source) throws Exception {
        return switch (framework) {
            case "hibernate" -> HibernateInserts.of(source);
            case "mybatis-plus" -> MybatisPlusInserts.of(source);
            case "shardingsphere" -> ShardedInserts.of(source);
            case "jooq" -> JooqInserts.of(source);
            default -> SpringInserts.of(source);
        };
    }

    public static void main(String[] args) throws Exception {
        Map<String, Runnable> inserts = new LinkedHashMap<>();
        for (String source : args[1].split(",")) {
            inserts.put(source, of(args[0], source));
        }
        Path running = Path.of(System.getenv("RUNNING"));
        for (int task = 0; task < Integer.parseInt(System.getenv("TASKS")); task++) {
            new Thread(() -> {
                var sources = new ArrayList<>(inserts.keySet());
                for (String round = "first "; Files.exists(running); round = "") {
                    Collections.shuffle(sources);
                    for (String source : sources) {
                        insert(round + source, inserts.get(source));
                    }
                }
            }).start();
        }
        while (Files.exists(running)) {
            Thread.sleep(100);
        }
        Thread.sleep(5_000); // lets transactions end
        System.exit(0); // the pools' threads don't end by themselves
    }

    private static void insert(String source, Runnable insert) {
        long beganNs = System.nanoTime();
        try {
            insert.run();
            System.out.println(source + " " + (System.nanoTime() - beganNs) / 1000);
        } catch (RuntimeException e) {
            System.out.println("failed " + source + ": " + e);
        }
    }
}
