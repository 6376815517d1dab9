//! The tables and statements for workers, in MySQL and MariaDB.

use crate::store::sql::{Layout, LeaseStatements as Statements};

/// The columns that `store::sql::leases` reads.
macro_rules! row {
    () => {
        "SELECT worker, holder, name, incarnation, bound, seen, written FROM leafd_worker "
    };
}

macro_rules! given {
    () => {
        "SELECT id, ip_port, max_timestamp FROM leaf_workerid_alloc "
    };
}

pub(super) static STATEMENTS: Statements = Statements {
    tables: &[
        Layout {
            table: "leafd_worker",
            columns: &[
                ("worker", &["bigint"]),
                ("holder", &["varchar"]),
                ("name", &["varchar"]),
                ("incarnation", &["varchar"]),
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
                ("holder", &["varchar"]),
                ("name", &["varchar"]),
                ("incarnation", &["varchar"]),
            ],
        },
        Layout {
            table: "leafd_layout",
            columns: &[("name", &["varbinary"]), ("definition", &["varchar"])],
        },
        Layout {
            table: "leaf_workerid_alloc",
            columns: &[
                ("id", &["bigint", "int"]),
                ("ip", &["varchar"]),
                ("port", &["varchar"]),
                ("ip_port", &["varchar"]),
                ("max_timestamp", &["bigint"]),
            ],
        },
    ],
    defects: "SELECT CONCAT(TABLE_NAME, ' has the engine ', COALESCE(ENGINE, 'of a view'), ' instead of InnoDB')
        FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()
        AND TABLE_NAME IN ('leafd_worker', 'leafd_worker_taken', 'leafd_layout', 'leaf_workerid_alloc')
        AND COALESCE(ENGINE, '') <> 'InnoDB'",
    lock: "SELECT value FROM leafd_meta WHERE name = 'format' FOR UPDATE",
    list: concat!(row!(), "WHERE worker >= :p1 AND worker < :p2 ORDER BY worker"),
    find: concat!(row!(), "WHERE worker = :p1 FOR UPDATE"),
    enter: "INSERT INTO leafd_worker (worker, holder, name, incarnation, bound, seen, written)
        VALUES (:p1, :p2, :p3, :p4, :p5, :p6, :p7)",
    replace: "UPDATE leafd_worker SET holder = :p2, name = :p3, incarnation = :p4, bound = :p5, seen = :p6, written = :p7
        WHERE worker = :p1",
    given: concat!(given!(), "WHERE id >= :p1 AND id < :p2 ORDER BY id"),
    given_to: concat!(given!(), "WHERE ip_port = :p1"),
    give: "INSERT INTO leaf_workerid_alloc (id, ip, port, ip_port, max_timestamp) VALUES (:p1, :p2, :p3, :p4, :p5)",
    keep_time: "UPDATE leaf_workerid_alloc SET max_timestamp = :p2 WHERE id = :p1",
    layouts: "SELECT name, definition FROM leafd_layout",
    enter_layout: "INSERT INTO leafd_layout (name, definition) VALUES (:p1, :p2)",
};

/// `leaf_workerid_alloc` is the table of Leaf's fork, in a collation that distinguishes all identities.
pub(super) const TABLES: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS leafd_worker (
    worker      bigint NOT NULL PRIMARY KEY,
    holder      varchar(255) DEFAULT NULL,
    name        varchar(255) DEFAULT NULL,
    incarnation varchar(255) DEFAULT NULL,
    bound       bigint NOT NULL,
    seen        bigint NOT NULL,
    written     bigint NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin",
    "CREATE TABLE IF NOT EXISTS leafd_layout (
    name       varbinary(512) NOT NULL PRIMARY KEY,
    definition varchar(255) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin",
    "CREATE TABLE IF NOT EXISTS leaf_workerid_alloc (
    id            bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    ip            varchar(127) DEFAULT NULL,
    port          varchar(127) DEFAULT NULL,
    ip_port       varchar(127) NOT NULL UNIQUE,
    max_timestamp bigint DEFAULT NULL,
    create_time   timestamp NULL DEFAULT CURRENT_TIMESTAMP,
    update_time   timestamp NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
];
