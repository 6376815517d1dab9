//! The dialect of PostgreSQL, and the query for its identity. Statements find tables by the search path, because Leaf's
//! table may be in any schema.

use crate::store::sql::{ColumnKind, Dialect, Signs};

/// What distinguishes the tables from others that replace them. For `leafd_tag`, which remembers what was claimed if
/// Leaf's table is rolled back, it is the transaction that wrote the row without a name. That row never changes, but a
/// restore that refills the table writes it again. A counter of claims would be worse: only hosts that have seen the
/// last claims would notice, and every claim would wait for all others.
///
/// NULL when one of these is missing. Once a claim has locked its row, Leaf's table can't be recreated until the claim
/// ends.
const TABLES_LIFE: &str = "to_regclass('leaf_alloc')::oid::text || ' ' || (SELECT xmin::text FROM leafd_tag WHERE tag = '')";
const TABLES_LIFE_PLAIN: &str = "to_regclass('leaf_alloc')::oid::text";

/// The timeline that is being written, which the last checkpoint may not know yet.
const TIMELINE: &str = "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";

/// The database cluster.
const CLUSTER: &str = "(SELECT system_identifier::text FROM pg_control_system())";

/// The database in it.
const DATABASE: &str = "(SELECT oid::text FROM pg_database WHERE datname = current_database())";

/// The position on disk never decreases.
const POSITION: &str = "(pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::text";

/// Fails where [`signs`] can't ask for the write-ahead log.
pub(super) fn try_log() -> String {
    format!("SELECT {CLUSTER}, {TIMELINE}, {POSITION}")
}

/// The query for a server's identity. `has_log`: whether the functions for the write-ahead log work.
pub(super) fn signs(has_log: bool) -> Signs {
    let with_timeline = |life: &str| match has_log {
        true => format!("{life} || ' ' || {TIMELINE}"),
        false => life.to_owned(),
    };
    Signs {
        kind: "postgres",
        server: match has_log {
            true => format!("{CLUSTER} || ' ' || {DATABASE}"),
            false => format!("'no log ' || {DATABASE}"),
        },
        life: with_timeline(TABLES_LIFE),
        life_plain: with_timeline(TABLES_LIFE_PLAIN),
        position: if has_log { POSITION } else { "NULL::text" },
        // A transaction that starts writing fails there.
        read_only: "NULL::text",
    }
}

pub static DIALECT: Dialect = Dialect {
    parameter: "$",
    embedded: false,
    words: &[
        ("join", "t.tag = a.biz_tag COLLATE \"C\""),
        (
            "leaf_row",
            "a.biz_tag, a.max_id, a.step, left(a.description, 257), to_char(a.update_time, 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')",
        ),
        ("now_ms", "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"),
        ("uuid", "gen_random_uuid()::text"),
    ],
    types: |kind| match kind {
        ColumnKind::Bytes | ColumnKind::Word(_) => ("text COLLATE \"C\"", &["text"]),
        ColumnKind::Text(_) => ("varchar(#) COLLATE \"C\"", &["character varying", "text"]),
        ColumnKind::Long => ("bigint", &["bigint"]),
        ColumnKind::Int => ("int", &["integer", "bigint"]),
        ColumnKind::Counter => ("bigint", &["bigint", "integer"]),
        ColumnKind::Time | ColumnKind::Unread => ("timestamptz", &["timestamp"]),
    },
    forget_claims: "DELETE FROM leafd_claim AS c USING (
            SELECT tag, end_id, claimed_ms FROM leafd_claim WHERE claimed_ms < {now_ms} - ?1
            ORDER BY claimed_ms LIMIT ?2) AS old
        WHERE c.tag = old.tag AND c.end_id = old.end_id AND c.claimed_ms = old.claimed_ms",
    columns: "SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod)
        FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
        WHERE c.oid IN (to_regclass('leaf_alloc'), to_regclass('leafd_meta'), to_regclass('leafd_tag'),
                        to_regclass('leafd_host'), to_regclass('leafd_claim'), to_regclass('leafd_worker'),
                        to_regclass('leafd_worker_taken'), to_regclass('leafd_layout'),
                        to_regclass('leaf_workerid_alloc'))
        AND a.attnum > 0 AND NOT a.attisdropped",
    defects: "SELECT 'leaf_alloc is no table' FROM pg_class
        WHERE oid = to_regclass('leaf_alloc') AND relkind NOT IN ('r', 'p')
        UNION ALL
        SELECT 'leaf_alloc.biz_tag is not unique: make it the primary key'
        WHERE NOT EXISTS (
            SELECT 1 FROM pg_index AS i
            JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
            WHERE i.indrelid = to_regclass('leaf_alloc') AND i.indisunique AND i.indisvalid
            AND i.indpred IS NULL AND i.indnkeyatts = 1 AND a.attname = 'biz_tag')
        UNION ALL
        SELECT 'leaf_alloc is unlogged, so that a crash empties it' FROM pg_class
        WHERE oid = to_regclass('leaf_alloc') AND relpersistence <> 'p'",
    worker_defects: "SELECT relname || ' is no table, or unlogged, so that a crash empties it' FROM pg_class
        WHERE oid IN (to_regclass('leafd_worker'), to_regclass('leafd_worker_taken'), to_regclass('leafd_layout'),
                      to_regclass('leaf_workerid_alloc'))
        AND (relkind NOT IN ('r', 'p') OR relpersistence <> 'p')",
    lax: "SELECT 'fsync is off' WHERE current_setting('fsync') = 'off'",
};
