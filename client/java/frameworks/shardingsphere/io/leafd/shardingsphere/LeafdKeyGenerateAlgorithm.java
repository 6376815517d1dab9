package io.leafd.shardingsphere;

import io.leafd.LeafdClient;
import java.util.Collection;
import java.util.Properties;
import java.util.stream.Stream;
import org.apache.shardingsphere.infra.algorithm.core.context.AlgorithmSQLContext;
import org.apache.shardingsphere.infra.algorithm.keygen.core.KeyGenerateAlgorithm;

/**
 * The key generator of type {@code LEAFD}: each row gets the next id of the tag that has the logical table's name, or of
 * the one that the property {@code tag} names.
 */
public final class LeafdKeyGenerateAlgorithm implements KeyGenerateAlgorithm {
    private String tag;

    /** Shared by all tables. It connects on first use. */
    private static final class Shared {
        static final LeafdClient CLIENT = LeafdClient.builder().build();
    }

    /** Called by ShardingSphere. */
    public LeafdKeyGenerateAlgorithm() {}

    @Override
    public void init(Properties properties) {
        tag = properties.getProperty("tag");
    }

    @Override
    public Collection<Long> generateKeys(AlgorithmSQLContext context, int count) {
        String name = tag == null ? context.getTableName() : tag;
        return Stream.generate(() -> Shared.CLIENT.nextId(name)).limit(count).toList();
    }

    @Override
    public boolean isSupportAutoIncrement() {
        return true;
    }

    @Override
    public String getType() {
        return "LEAFD";
    }
}
