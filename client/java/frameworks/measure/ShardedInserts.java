import io.leafd.IdSource;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import javax.sql.DataSource;
import org.apache.shardingsphere.driver.api.yaml.YamlShardingSphereDataSourceFactory;

/** Inserts rows through ShardingSphere. */
final class ShardedInserts {
    private static final String CONFIGURATION = """
            dataSources:
              ds:
                dataSourceClassName: com.zaxxer.hikari.HikariDataSource
                driverClassName: org.postgresql.Driver
                jdbcUrl: %s
                maximumPoolSize: %d
                connectionTimeout: 300000
            rules:
            - !SHARDING
              tables:
                orders:
                  actualDataNodes: ds.orders
                  keyGenerateStrategy: {column: id, keyGeneratorName: ids}
              keyGenerators:
                ids: {type: %s}
            """;

    private ShardedInserts() {}

    static Runnable of(String source) throws Exception {
        String type = source.equals("leafd") ? "LEAFD" : "SNOWFLAKE";
        String yaml = CONFIGURATION.formatted(Inserts.JDBC_URL, Inserts.CONNECTIONS, type);
        DataSource database = YamlShardingSphereDataSourceFactory.createDataSource(yaml.getBytes(StandardCharsets.UTF_8));
        boolean given = source.equals("counter");
        IdSource counter = Inserts.ids(source);
        String statement = given ? "INSERT INTO orders (item, id) VALUES (?, ?)" : "INSERT INTO orders (item) VALUES (?)";
        return () -> {
            try (var connection = database.getConnection(); var insert = connection.prepareStatement(statement)) {
                connection.setAutoCommit(false);
                for (int row = 0; row < Inserts.ROWS; row++) {
                    insert.setString(1, source);
                    if (given) {
                        insert.setLong(2, counter.nextId("orders"));
                    }
                    insert.addBatch();
                }
                insert.executeBatch();
                connection.commit();
            } catch (SQLException e) {
                throw new IllegalStateException(e);
            }
        };
    }
}
