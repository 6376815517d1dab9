//! The tables and statements for workers, in PostgreSQL. ORDER BY names the table: a bare column name there would mean
//! the selected text.

use crate::store::sql::{Layout, LeaseStatements as Statements};

/// The columns that `store::sql::leases` reads.
macro_rules! row {
    () => {
        "SELECT worker::text, holder, name, incarnation, bound::text, seen::text, written::text FROM leafd_worker "
    };
}

macro_rules! given {
    () => {
        "SELECT id::text, ip_port::text, max_timestamp::text FROM leaf_workerid_alloc "
    };
}

pub(super) static STATEMENTS: Statements = Statements {
    tables: &[
        Layout {
            table: "leafd_worker",
            columns: &[
                ("worker", &["bigint"]),
                ("holder", &["text"]),
                ("name", &["text"]),
                ("incarnation", &["text"]),
                ("bound", &["bigint"]),
                ("seen", &["bigint"]),
                ("written", &["bigint"]),
            ],
        },
        Layout {
            table: "leafd_worker_taken",
            columns: &[
                ("worker", &["bigint"]),
                ("since", &["bigint"]),
                ("taken", &["bigint"]),
                ("holder", &["text"]),
                ("name", &["text"]),
                ("incarnation", &["text"]),
            ],
        },
        Layout {
            table: "leafd_layout",
            columns: &[("name", &["text"]), ("definition", &["text"])],
        },
        Layout {
            table: "leaf_workerid_alloc",
            columns: &[
                ("id", &["bigint", "integer"]),
                ("ip", &["character varying", "text"]),
                ("port", &["character varying", "text"]),
                ("ip_port", &["character varying", "text"]),
                ("max_timestamp", &["bigint"]),
            ],
        },
    ],
    defects: "SELECT relname || ' is no table, or unlogged, so that a crash empties it' FROM pg_class
        WHERE oid IN (to_regclass('leafd_worker'), to_regclass('leafd_worker_taken'), to_regclass('leafd_layout'),
                      to_regclass('leaf_workerid_alloc'))
        AND (relkind NOT IN ('r', 'p') OR relpersistence <> 'p')",
    lock: "SELECT value FROM leafd_meta WHERE name = 'format' FOR UPDATE",
    list: concat!(row!(), "WHERE worker >= $1 AND worker < $2 ORDER BY leafd_worker.worker"),
    find: concat!(row!(), "WHERE worker = $1 FOR UPDATE"),
    enter: "INSERT INTO leafd_worker (worker, holder, name, incarnation, bound, seen, written)
        VALUES ($1, $2, $3, $4, $5, $6, $7)",
    replace: "UPDATE leafd_worker SET holder = $2, name = $3, incarnation = $4, bound = $5, seen = $6, written = $7
        WHERE worker = $1",
    given: concat!(given!(), "WHERE id >= $1 AND id < $2 ORDER BY leaf_workerid_alloc.id"),
    given_to: concat!(given!(), "WHERE ip_port = $1"),
    give: "INSERT INTO leaf_workerid_alloc (id, ip, port, ip_port, max_timestamp) VALUES ($1, $2, $3, $4, $5)",
    keep_time: "UPDATE leaf_workerid_alloc SET max_timestamp = $2, update_time = now() WHERE id = $1",
    layouts: "SELECT name, definition FROM leafd_layout",
    enter_layout: "INSERT INTO leafd_layout (name, definition) VALUES ($1, $2)",
};

/// `leaf_workerid_alloc` is the table of Leaf's fork, with PostgreSQL's types.
pub(super) const TABLES: &str = "CREATE TABLE IF NOT EXISTS leafd_worker (
    worker      bigint NOT NULL PRIMARY KEY,
    holder      text,
    name        text,
    incarnation text,
    bound       bigint NOT NULL,
    seen        bigint NOT NULL,
    written     bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS leafd_layout (
    name       text COLLATE \"C\" NOT NULL PRIMARY KEY,
    definition text NOT NULL
);
CREATE TABLE IF NOT EXISTS leaf_workerid_alloc (
    id            bigint NOT NULL PRIMARY KEY,
    ip            varchar(127) DEFAULT NULL,
    port          varchar(127) DEFAULT NULL,
    ip_port       varchar(127) COLLATE \"C\" NOT NULL UNIQUE,
    max_timestamp bigint DEFAULT NULL,
    create_time   timestamptz DEFAULT CURRENT_TIMESTAMP,
    update_time   timestamptz DEFAULT NULL
);";
