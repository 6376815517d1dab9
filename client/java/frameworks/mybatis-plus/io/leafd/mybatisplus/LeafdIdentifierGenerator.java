package io.leafd.mybatisplus;

import com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator;
import com.baomidou.mybatisplus.core.metadata.TableInfoHelper;
import java.util.function.ToLongFunction;

/**
 * Replaces MyBatis-Plus's own snowflake generator: each entity gets the next id of the tag that has its table's name.
 *
 * <pre>{@code
 * GlobalConfigUtils.getGlobalConfig(configuration).setIdentifierGenerator(new LeafdIdentifierGenerator(leafd::nextId));
 * }</pre>
 */
public final class LeafdIdentifierGenerator implements IdentifierGenerator {
    private final ToLongFunction<String> ids;

    /**
     * Draws ids through a client. To use one tag or layout for all tables, pass {@code table -> leafd.nextId("snowflake")}.
     *
     * @param ids the next id of a tag, such as {@code leafd::nextId}
     */
    public LeafdIdentifierGenerator(ToLongFunction<String> ids) {
        this.ids = ids;
    }

    @Override
    public Number nextId(Object entity) {
        return ids.applyAsLong(TableInfoHelper.getTableInfo(entity.getClass()).getTableName());
    }
}
