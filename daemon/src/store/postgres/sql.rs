//! The statements for PostgreSQL. They find tables by the search path, as Leaf's table may be in any schema.

use crate::store::sql::{Layout, Signs, Statements};

/// The tables, and for each column the types that leafd accepts.
pub(super) static TABLES: &[Layout] = &[
    Layout {
        table: "leaf_alloc",
        columns: &[
            ("biz_tag", &["character varying", "text"]),
            ("max_id", &["bigint"]),
            ("step", &["integer", "bigint"]),
            ("description", &["character varying", "text"]),
            ("update_time", &["timestamp"]),
        ],
    },
    Layout { table: "leafd_meta", columns: &[("name", &["text"]), ("value", &["text"])] },
    Layout {
        table: "leafd_tag",
        columns: &[
            ("tag", &["text"]),
            ("generation", &["bigint"]),
            ("ceiling", &["bigint"]),
            ("strict", &["integer"]),
            ("masked", &["text"]),
            ("highest_end", &["bigint"]),
            ("role_version", &["bigint"]),
        ],
    },
    Layout {
        table: "leafd_host",
        columns: &[
            ("host", &["text"]),
            ("start_token", &["text"]),
            ("started", &["timestamp"]),
            ("written", &["bigint"]),
        ],
    },
    Layout {
        table: "leafd_claim",
        columns: &[
            ("tag", &["text"]),
            ("end_id", &["bigint"]),
            ("claimed_ms", &["bigint"]),
            ("first_id", &["bigint"]),
            ("stride", &["integer"]),
            ("generation", &["bigint"]),
            ("host", &["text"]),
            ("name", &["text"]),
            ("holds_from", &["bigint"]),
        ],
    },
];

/// What distinguishes the tables from others that take their place. For `leafd_tag`, which remembers what was claimed
/// if somebody sets Leaf's table back, it is the transaction that wrote the row without a name. Nobody changes that
/// row; a restore that fills the table anew writes it anew. A counter of claims would be worse: only hosts that have
/// seen the last claims would notice, and every claim would wait for all others.
///
/// NULL when one of these is missing. Once a claim has locked its row, nobody can make Leaf's table anew until the
/// claim ends.
const TABLES_LIFE: &str = "to_regclass('leaf_alloc')::oid::text || ' ' || (SELECT xmin::text FROM leafd_tag WHERE tag = '')";
const TABLES_LIFE_PLAIN: &str = "to_regclass('leaf_alloc')::oid::text";

/// The timeline that is being written, which the last checkpoint may not know yet.
const TIMELINE: &str = "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";

/// The database cluster.
const CLUSTER: &str = "(SELECT system_identifier::text FROM pg_control_system())";

/// The database in it.
const DATABASE: &str = "(SELECT oid::text FROM pg_database WHERE datname = current_database())";

/// What is on disk never becomes less.
const POSITION: &str = "(pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::text";

/// Fails where [`signs`] can't ask for the write-ahead log.
pub(super) fn try_log() -> String {
    format!("SELECT {CLUSTER}, {TIMELINE}, {POSITION}")
}

/// How to ask a server who it is. `has_log`: whether the functions for the write-ahead log work.
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
        // A transaction that begins to write fails there.
        read_only: "NULL::text",
    }
}

/// The columns that `sql::rows` reads, with the columns of leafd's table or with NULLs in their place.
macro_rules! row {
    (side) => {
        "a.biz_tag::text, a.max_id::text, a.step::text, a.description::text,
         to_char(a.update_time, 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'),
         t.generation::text, t.ceiling::text, t.highest_end::text, t.strict::text,
         t.role_version::text, t.masked"
    };
    (plain) => {
        "a.biz_tag::text, a.max_id::text, a.step::text, a.description::text,
         to_char(a.update_time, 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), NULL::text, NULL::text, NULL::text, NULL::text,
         NULL::text, NULL::text"
    };
}

/// Rows of Leaf's table, joined with leafd's rows of the same tags.
macro_rules! tables {
    () => {
        "leaf_alloc AS a LEFT JOIN leafd_tag AS t ON t.tag = a.biz_tag COLLATE \"C\""
    };
}

pub(super) const STATEMENTS: Statements = Statements {
    // Whatever the server's default is, each statement then sees everything that was committed before it.
    begin: "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    head: "i.value, r.value, n.value, (SELECT written::text || ' ' || start_token FROM leafd_host WHERE host = $1)",
    head_plain: "NULL::text, NULL::text, NULL::text, NULL::text",
    meta_rows: "leafd_meta AS i JOIN leafd_meta AS r ON i.name = 'identity' AND r.name = 'role'
        LEFT JOIN leafd_meta AS n ON n.name = 'history'",
    row: row!(side),
    row_plain: row!(plain),
    tag_rows: concat!("LEFT JOIN (", tables!(), ") ON a.biz_tag IN"),
    tag_rows_plain: "(SELECT 1) AS one LEFT JOIN leaf_alloc AS a ON a.biz_tag IN",
    lock: "SELECT biz_tag::text FROM leaf_alloc WHERE biz_tag IN",
    locking: "ORDER BY biz_tag FOR UPDATE",
    lock_role: "SELECT value FROM leafd_meta WHERE name = 'role' FOR UPDATE",
    list: concat!("SELECT ", row!(side), " FROM ", tables!()),
    list_plain: concat!("SELECT ", row!(plain), " FROM leaf_alloc AS a"),
    set_max_id: "UPDATE leaf_alloc SET max_id = $3, update_time = now()
        WHERE biz_tag = $1 AND max_id = $2",
    touch: ", update_time = now()",
    set_step: "UPDATE leaf_alloc SET step = $2, update_time = now() WHERE biz_tag = $1",
    set_description: "UPDATE leaf_alloc SET description = $2, update_time = now() WHERE biz_tag = $1",
    insert_row: "INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES ($1, $2, $3, $4)",
    claimed_end: "SELECT highest_end::text, masked FROM leafd_tag WHERE tag = $1 FOR UPDATE",
    ends: "SELECT tag, highest_end::text FROM leafd_tag WHERE tag > $1 ORDER BY tag LIMIT $2",
    record_claim: "UPDATE leafd_tag SET highest_end = $2, role_version = $3 WHERE tag = $1 AND role_version = $4",
    record_claim_of_host: "WITH proof AS (
            UPDATE leafd_host SET written = $5 WHERE host = $6 AND written = $7 RETURNING 1)
        UPDATE leafd_tag SET highest_end = $2, role_version = $3
        WHERE tag = $1 AND role_version = $4 AND EXISTS (SELECT FROM proof)",
    prove: "UPDATE leafd_host SET written = $1 WHERE host = $2 AND written = $3",
    enter_claim: "INSERT INTO leafd_tag (tag, highest_end, role_version) VALUES ($1, $2, $3)",
    take_right: "UPDATE leafd_meta SET value = $1 WHERE name = 'right' AND value LIKE $2",
    set_right: "UPDATE leafd_meta SET value = $1 WHERE name = 'right'",
    move_rights: "UPDATE leafd_tag SET role_version = $1 WHERE role_version = $2",
    remember_ends: "INSERT INTO leafd_tag (tag, highest_end, masked) VALUES",
    remembering: "ON CONFLICT (tag) DO UPDATE SET highest_end = greatest(leafd_tag.highest_end, excluded.highest_end)",
    enter_name: "INSERT INTO leafd_tag (tag) VALUES ($1) ON CONFLICT (tag) DO NOTHING",
    enter_tag: "INSERT INTO leafd_tag (tag, generation, ceiling, strict, masked) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (tag) DO UPDATE
        SET generation = excluded.generation, ceiling = excluded.ceiling, strict = excluded.strict,
        masked = excluded.masked",
    delete_row: "DELETE FROM leaf_alloc WHERE biz_tag = $1",
    leave_tombstone: "INSERT INTO leafd_tag (tag, generation, highest_end) VALUES ($1, $2, $3)
        ON CONFLICT (tag) DO UPDATE SET generation = excluded.generation, ceiling = NULL, strict = 0,
        highest_end = greatest(leafd_tag.highest_end, excluded.highest_end)",
    set_ceiling: "INSERT INTO leafd_tag (tag, ceiling) VALUES ($1, $2)
        ON CONFLICT (tag) DO UPDATE SET ceiling = excluded.ceiling",
    host_token: "SELECT start_token, written::text FROM leafd_host WHERE host = $1 FOR UPDATE",
    enter_host: "INSERT INTO leafd_host (host, start_token, started, written) VALUES ($1, $2, now(), $3)
        ON CONFLICT (host) DO UPDATE
        SET start_token = excluded.start_token, started = excluded.started, written = excluded.written",
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
    set_role: "UPDATE leafd_meta SET value = $1 WHERE name = 'role'",
    swap_note: "UPDATE leafd_meta SET value = $1 WHERE name = 'history' AND value = $2",
    lax: "SELECT 'fsync is off' WHERE current_setting('fsync') = 'off'",
    now_ms: "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint::text",
    enter_meta: "INSERT INTO leafd_meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
    set_meta: "UPDATE leafd_meta SET value = $2 WHERE name = $1",
    meta: "SELECT name, value FROM leafd_meta",
};

/// Leaf's table with PostgreSQL's types. Names are compared and sorted byte by byte.
pub(super) const LEAF_TABLE: &str = "CREATE TABLE IF NOT EXISTS leaf_alloc (
    biz_tag     varchar(128) COLLATE \"C\" NOT NULL DEFAULT '' PRIMARY KEY,
    max_id      bigint NOT NULL DEFAULT 1,
    step        int NOT NULL,
    description varchar(256) DEFAULT NULL,
    update_time timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP
);";

/// The tables for what Leaf has no column for.
pub(super) const SIDE_TABLES: &str = "CREATE TABLE IF NOT EXISTS leafd_meta (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);
-- Outlives the rows of leaf_alloc: generation is that of the present row or else of the next one, highest_end
-- the end of everything ever claimed under the name, role_version that of the right to claim under which it may be
-- claimed. One row has no name: it tells whether the table was filled anew.
CREATE TABLE IF NOT EXISTS leafd_tag (
    tag         text COLLATE \"C\" NOT NULL PRIMARY KEY,
    generation  bigint NOT NULL DEFAULT 0,
    ceiling     bigint,
    strict      int NOT NULL DEFAULT 0,
    masked      text,
    highest_end bigint NOT NULL DEFAULT 0,
    role_version bigint NOT NULL DEFAULT -1
);
CREATE TABLE IF NOT EXISTS leafd_host (
    host        text COLLATE \"C\" NOT NULL PRIMARY KEY,
    start_token text NOT NULL,
    started     timestamptz NOT NULL,
    written     bigint NOT NULL DEFAULT 0
);
INSERT INTO leafd_meta (name, value) VALUES ('format', '2'), ('identity', gen_random_uuid()::text), ('role', ''), ('right', '0 '),
    ('history', '')
    ON CONFLICT (name) DO NOTHING;
INSERT INTO leafd_tag (tag) VALUES ('') ON CONFLICT (tag) DO NOTHING;";

/// (identity): names a store.
pub(super) const SET_NAME: &str = "UPDATE leafd_meta SET value = $1 WHERE name = 'identity'";

/// Drops the trigger that earlier versions made: it ran at every claim of every Leaf.
pub(super) const FORMER_TRIGGERS: &str = "DROP TRIGGER IF EXISTS leafd_row_gone ON leaf_alloc;
DROP FUNCTION IF EXISTS leafd_row_gone();";
