import com.baomidou.mybatisplus.annotation.TableName;
import com.baomidou.mybatisplus.core.MybatisConfiguration;
import com.baomidou.mybatisplus.core.MybatisSqlSessionFactoryBuilder;
import com.baomidou.mybatisplus.core.incrementer.DefaultIdentifierGenerator;
import com.baomidou.mybatisplus.core.mapper.BaseMapper;
import com.baomidou.mybatisplus.core.toolkit.GlobalConfigUtils;
import io.leafd.mybatisplus.LeafdIdentifierGenerator;
import org.apache.ibatis.mapping.Environment;
import org.apache.ibatis.session.ExecutorType;
import org.apache.ibatis.transaction.jdbc.JdbcTransactionFactory;

/** Inserts rows through MyBatis-Plus. */
public final class MybatisPlusInserts {
    private MybatisPlusInserts() {}

    @TableName("orders")
    public static class Row {
        public Long id;
        public String item;
    }

    public interface Rows extends BaseMapper<Row> {}

    static Runnable of(String source) {
        var configuration = new MybatisConfiguration(new Environment("x", new JdbcTransactionFactory(), Inserts.database()));
        configuration.addMapper(Rows.class);
        GlobalConfigUtils.getGlobalConfig(configuration).setIdentifierGenerator(source.equals("own")
                ? new DefaultIdentifierGenerator()
                : new LeafdIdentifierGenerator(Inserts.ids(source)::nextId));
        var sessions = new MybatisSqlSessionFactoryBuilder().build(configuration);
        return () -> {
            try (var session = sessions.openSession(ExecutorType.BATCH)) {
                for (int row = 0; row < Inserts.ROWS; row++) {
                    var added = new Row();
                    added.item = source;
                    session.getMapper(Rows.class).insert(added);
                }
                session.commit();
            }
        };
    }
}
