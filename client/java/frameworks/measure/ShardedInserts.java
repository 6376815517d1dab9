import io.leafd.IdSource;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.util.Map;
import javax.sql.DataSource;
import org.apache.shardingsphere.driver.api.yaml.YamlShardingSphereDataSourceFactory;

/** Inserts rows through ShardingSphere. */
final class ShardedInserts {
    private static final String CONFIGURATION = """
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
        byte[] yaml = CONFIGURATION.formatted(source.equals("own") ? "SNOWFLAKE" : "LEAFD").getBytes(StandardCharsets.UTF_8);
        DataSource database = YamlShardingSphereDataSourceFactory.createDataSource(Map.of("ds", Inserts.database()), yaml);
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
