//! The tables and statements for the records of past claims and workers, in MySQL and MariaDB.

use crate::store::sql::HistoryStatements as Statements;

macro_rules! taking {
    () => {
        "SELECT since, taken, holder, name, incarnation FROM leafd_worker_taken WHERE worker = :p1 AND "
    };
}

pub(super) static STATEMENTS: Statements = Statements {
    enter_claim: "INSERT INTO leafd_claim (tag, end_id, claimed_ms, first_id, stride, generation, host, name, holds_from)
        VALUES (CAST(:p1 AS BINARY), :p2, FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000), :p3, :p4, :p5, :p6, :p7, :p8)",
    claims: "SELECT first_id, end_id, stride, generation, host, name, holds_from, claimed_ms
        FROM leafd_claim WHERE tag = CAST(:p1 AS BINARY) AND end_id > :p2 ORDER BY end_id, claimed_ms LIMIT :p3",
    forget_claims: "DELETE FROM leafd_claim WHERE claimed_ms < FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000) - :p1
        ORDER BY claimed_ms LIMIT :p2",
    enter_taking: "INSERT IGNORE INTO leafd_worker_taken (worker, since, taken, holder, name, incarnation)
        VALUES (:p1, :p2, :p3, :p4, :p5, :p6)",
    taken_before: concat!(taking!(), "since <= :p2 ORDER BY since DESC, taken DESC LIMIT 1"),
    taken_after: concat!(taking!(), "since > :p2 ORDER BY since, taken LIMIT 1"),
};

/// Claims are looked up by their ends, and deleted by their age. If two claims have the same ids, both are kept.
pub(super) const TABLES: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS leafd_claim (
    tag        varbinary(512) NOT NULL,
    end_id     bigint NOT NULL,
    claimed_ms bigint NOT NULL,
    first_id   bigint NOT NULL,
    stride     int NOT NULL,
    generation bigint NOT NULL,
    host       varchar(64) NOT NULL,
    name       varchar(255) NOT NULL,
    holds_from bigint DEFAULT NULL,
    PRIMARY KEY (tag, end_id, claimed_ms),
    KEY leafd_claim_age (claimed_ms)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin",
    "CREATE TABLE IF NOT EXISTS leafd_worker_taken (
    worker      bigint NOT NULL,
    since       bigint NOT NULL,
    taken       bigint NOT NULL,
    holder      varchar(255) NOT NULL,
    name        varchar(255) NOT NULL,
    incarnation varchar(255) NOT NULL,
    PRIMARY KEY (worker, since, taken)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin",
];
