//! The dialect of SQLite. Statements name a collation, because a table that another program created may compare tags
//! differently.

use crate::store::sql::{ColumnKind, Dialect};

pub static DIALECT: Dialect = Dialect {
    parameter: "?",
    embedded: true,
    words: &[
        ("alloc", "(SELECT * FROM leaf_alloc WHERE typeof(biz_tag) = 'text')"),
        ("exact", " COLLATE BINARY"),
        ("greatest", "max"),
        ("join", "t.tag = a.biz_tag"),
        (
            "leaf_row",
            "a.biz_tag, a.max_id, a.step, CASE typeof(a.description) WHEN 'text' THEN substr(a.description, 1, 257) END,
             CASE typeof(a.update_time) WHEN 'text' THEN strftime('%Y-%m-%dT%H:%M:%SZ', a.update_time) END",
        ),
        // A transaction that begins to write is the only writer, so no row needs a lock.
        ("lock", ""),
        // SQLite's clock counts days, with a resolution of milliseconds.
        ("now_ms", "CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)"),
        ("own_table", " WITHOUT ROWID"),
        ("uuid", "lower(hex(randomblob(16)))"),
    ],
    types: |kind| match kind {
        ColumnKind::Bytes | ColumnKind::Word(_) => ("text", &[""]),
        ColumnKind::Text(_) => ("varchar(#)", &[""]),
        ColumnKind::Long => ("bigint", &[""]),
        ColumnKind::Int => ("int", &[""]),
        ColumnKind::Counter => ("integer", &[""]),
        ColumnKind::Time | ColumnKind::Unread => ("timestamp", &[""]),
    },
    forget_claims: "DELETE FROM leafd_claim WHERE (tag, end_id, claimed_ms) IN (
            SELECT tag, end_id, claimed_ms FROM leafd_claim WHERE claimed_ms < {now_ms} - ?1
            ORDER BY claimed_ms LIMIT ?2)",
    columns: "SELECT lower(s.name), c.name, c.type FROM sqlite_schema AS s JOIN pragma_table_info(s.name) AS c
        WHERE s.type IN ('table', 'view')",
    // If a tag had two rows, a claim would change both.
    defects: "SELECT 'there is a view named ' || name FROM sqlite_schema
        WHERE type = 'view' AND (name LIKE 'leafd!_%' ESCAPE '!' OR name IN ('leaf_alloc', 'leaf_workerid_alloc'))
        UNION ALL
        SELECT 'leaf_alloc.biz_tag is not unique: make it the primary key'
        WHERE EXISTS (SELECT 1 FROM sqlite_schema WHERE lower(name) = 'leaf_alloc' AND type = 'table')
        AND NOT EXISTS (
            SELECT 1 FROM pragma_index_list('leaf_alloc') AS list WHERE list.\"unique\" AND NOT list.partial
            AND (SELECT group_concat(lower(name)) FROM pragma_index_info(list.name)) = 'biz_tag')",
    worker_defects: "",
    lax: "",
};
