import static org.jooq.impl.DSL.field;
import static org.jooq.impl.DSL.name;
import static org.jooq.impl.DSL.table;

import org.jooq.SQLDialect;
import org.jooq.impl.DSL;

/** Inserts rows through jOOQ, as the page about jOOQ shows. */
final class JooqInserts {
    private JooqInserts() {}

    static Runnable of(String source) {
        var database = DSL.using(Inserts.database(), SQLDialect.POSTGRES);
        var ids = Inserts.ids(source);
        return () -> {
            var insert = database.insertInto(table(name("orders")), field(name("id"), Long.class), field(name("item"), String.class));
            for (int row = 0; row < Inserts.ROWS; row++) {
                insert = insert.values(ids.nextId("orders"), source);
            }
            insert.execute();
        };
    }
}
