//! The tables and statements for the records of past claims and workers, in PostgreSQL. ORDER BY names the table: a
//! bare column name there would mean the selected text.

use crate::store::sql::HistoryStatements as Statements;

macro_rules! taking {
    () => {
        "SELECT since::text, taken::text, holder, name, incarnation FROM leafd_worker_taken WHERE worker = $1 AND "
    };
}

pub(super) static STATEMENTS: Statements = Statements {
    enter_claim: "INSERT INTO leafd_claim (tag, end_id, claimed_ms, first_id, stride, generation, host, name, holds_from)
        VALUES ($1, $2, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, $3, $4, $5, $6, $7, $8)",
    claims: "SELECT first_id::text, end_id::text, stride::text, generation::text, host, name, holds_from::text,
            claimed_ms::text
        FROM leafd_claim WHERE tag = $1 AND end_id > $2 ORDER BY leafd_claim.end_id, leafd_claim.claimed_ms LIMIT $3",
    forget_claims: "DELETE FROM leafd_claim AS c USING (
            SELECT tag, end_id, claimed_ms FROM leafd_claim
            WHERE claimed_ms < floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1
            ORDER BY claimed_ms LIMIT $2) AS old
        WHERE c.tag = old.tag AND c.end_id = old.end_id AND c.claimed_ms = old.claimed_ms",
    enter_taking: "INSERT INTO leafd_worker_taken (worker, since, taken, holder, name, incarnation)
        VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (worker, since, taken) DO NOTHING",
    taken_before: concat!(taking!(), "since <= $2 ORDER BY leafd_worker_taken.since DESC, leafd_worker_taken.taken DESC LIMIT 1"),
    taken_after: concat!(taking!(), "since > $2 ORDER BY leafd_worker_taken.since, leafd_worker_taken.taken LIMIT 1"),
};

/// Claims are looked up by their ends, and deleted by their age. If two claims have the same ids, both are kept.
pub(super) const TABLES: &str = "CREATE TABLE IF NOT EXISTS leafd_claim (
    tag        text COLLATE \"C\" NOT NULL,
    end_id     bigint NOT NULL,
    claimed_ms bigint NOT NULL,
    first_id   bigint NOT NULL,
    stride     int NOT NULL,
    generation bigint NOT NULL,
    host       text COLLATE \"C\" NOT NULL,
    name       text COLLATE \"C\" NOT NULL,
    holds_from bigint,
    PRIMARY KEY (tag, end_id, claimed_ms)
);
CREATE INDEX IF NOT EXISTS leafd_claim_age ON leafd_claim (claimed_ms);
CREATE TABLE IF NOT EXISTS leafd_worker_taken (
    worker      bigint NOT NULL,
    since       bigint NOT NULL,
    taken       bigint NOT NULL,
    holder      text NOT NULL,
    name        text NOT NULL,
    incarnation text NOT NULL,
    PRIMARY KEY (worker, since, taken)
);";
