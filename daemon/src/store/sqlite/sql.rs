//! The statements for SQLite. Each names its collation, because a table that another program made may compare tags in
//! another way.

use crate::store::sql::{HistoryStatements, Layout, LeaseStatements, Statements};

/// Empty: `schema` makes and checks the tables when the file is opened.
pub(super) static TABLES: &[Layout] = &[];

/// The columns that `sql::rows` reads.
macro_rules! row {
    ($generation:literal, $ceiling:literal, $highest_end:literal, $strict:literal, $right:literal, $masked:literal) => {
        concat!(
            "a.biz_tag, a.max_id, a.step, CASE typeof(a.description) WHEN 'text' THEN a.description END,
             CASE typeof(a.update_time) WHEN 'text' THEN strftime('%Y-%m-%dT%H:%M:%SZ', a.update_time) END, ",
            $generation,
            ", ",
            $ceiling,
            ", ",
            $highest_end,
            ", ",
            $strict,
            ", ",
            $right,
            ", ",
            $masked
        )
    };
}

pub(super) const STATEMENTS: Statements = Statements {
    // A transaction that begins to write is the only writer, so no row needs a lock.
    begin: "BEGIN IMMEDIATE",
    head: "CAST(i.value AS text), CAST(r.value AS text), NULL, (SELECT NULL WHERE ?1 = '')",
    head_plain: "",
    meta_rows: "leafd_meta AS i JOIN leafd_meta AS r ON i.name = 'identity' AND r.name = 'role'",
    // The columns of leafd's table are subqueries, run for each row found. With a join, SQLite would read the whole
    // table.
    row: row!(
        "(SELECT generation FROM leafd_tag AS t WHERE t.tag = a.biz_tag)",
        "(SELECT ceiling FROM leafd_tag AS t WHERE t.tag = a.biz_tag)",
        "(SELECT highest_end FROM leafd_tag AS t WHERE t.tag = a.biz_tag)",
        "(SELECT strict FROM leafd_tag AS t WHERE t.tag = a.biz_tag)",
        "(SELECT role_version FROM leafd_tag AS t WHERE t.tag = a.biz_tag)",
        "(SELECT masked FROM leafd_tag AS t WHERE t.tag = a.biz_tag)"
    ),
    // Empty: leafd's tables are made together with the file, so there is never Leaf's table alone.
    row_plain: "",
    tag_rows: "LEFT JOIN leaf_alloc AS a ON a.biz_tag COLLATE BINARY IN",
    tag_rows_plain: "",
    lock: "",
    locking: "",
    lock_role: "",
    list: concat!(
        "SELECT ",
        row!("t.generation", "t.ceiling", "t.highest_end", "t.strict", "t.role_version", "t.masked"),
        " FROM (SELECT * FROM leaf_alloc WHERE typeof(biz_tag) = 'text') AS a
          LEFT JOIN leafd_tag AS t ON t.tag = a.biz_tag"
    ),
    list_plain: "",
    set_max_id: "UPDATE leaf_alloc SET max_id = ?3, update_time = CURRENT_TIMESTAMP
        WHERE biz_tag = ?1 COLLATE BINARY AND max_id = ?2",
    touch: ", update_time = CURRENT_TIMESTAMP",
    set_step: "UPDATE leaf_alloc SET step = ?2, update_time = CURRENT_TIMESTAMP WHERE biz_tag = ?1 COLLATE BINARY",
    set_description: "UPDATE leaf_alloc SET description = ?2, update_time = CURRENT_TIMESTAMP
        WHERE biz_tag = ?1 COLLATE BINARY",
    insert_row: "INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES (?1, ?2, ?3, ?4)",
    claimed_end: "SELECT highest_end, masked FROM leafd_tag WHERE tag = ?1",
    ends: "SELECT tag, highest_end FROM leafd_tag WHERE tag > ?1 ORDER BY tag LIMIT ?2",
    record_claim: "UPDATE leafd_tag SET highest_end = ?2, role_version = ?3 WHERE tag = ?1 AND role_version = ?4",
    // No other host uses the file.
    record_claim_of_host: "",
    prove: "",
    enter_claim: "INSERT INTO leafd_tag (tag, highest_end, role_version) VALUES (?1, ?2, ?3)",
    take_right: "UPDATE leafd_meta SET value = ?1 WHERE name = 'right' AND value LIKE ?2",
    set_right: "UPDATE leafd_meta SET value = ?1 WHERE name = 'right'",
    move_rights: "UPDATE leafd_tag SET role_version = ?1 WHERE role_version = ?2",
    remember_ends: "INSERT INTO leafd_tag (tag, highest_end, masked) VALUES",
    remembering: "ON CONFLICT (tag) DO UPDATE SET highest_end = max(highest_end, excluded.highest_end)",
    enter_name: "INSERT INTO leafd_tag (tag) VALUES (?1) ON CONFLICT (tag) DO NOTHING",
    enter_tag: "INSERT INTO leafd_tag (tag, generation, ceiling, strict, masked) VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT (tag) DO UPDATE
        SET generation = excluded.generation, ceiling = excluded.ceiling, strict = excluded.strict,
        masked = excluded.masked",
    delete_row: "DELETE FROM leaf_alloc WHERE biz_tag = ?1 COLLATE BINARY",
    leave_tombstone: "INSERT INTO leafd_tag (tag, generation, highest_end) VALUES (?1, ?2, ?3)
        ON CONFLICT (tag) DO UPDATE SET generation = excluded.generation, ceiling = NULL, strict = 0,
        highest_end = max(highest_end, excluded.highest_end)",
    set_ceiling: "INSERT INTO leafd_tag (tag, ceiling) VALUES (?1, ?2)
        ON CONFLICT (tag) DO UPDATE SET ceiling = excluded.ceiling",
    host_token: "SELECT start_token, written FROM leafd_host WHERE host = ?1",
    enter_host: "INSERT INTO leafd_host (host, start_token, started, written) VALUES (?1, ?2, CURRENT_TIMESTAMP, ?3)
        ON CONFLICT (host) DO UPDATE SET start_token = excluded.start_token, started = excluded.started,
        written = excluded.written",
    columns: "",
    defects: "",
    set_role: "UPDATE leafd_meta SET value = ?1 WHERE name = 'role'",
    swap_note: "",
    // SQLite's clock counts days, with a resolution of milliseconds.
    lax: "",
    now_ms: "SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)",
    enter_meta: "INSERT INTO leafd_meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
    set_meta: "UPDATE leafd_meta SET value = ?2 WHERE name = ?1",
    meta: "SELECT name, CAST(value AS text) FROM leafd_meta",
};

/// The statements for workers. Each finds its row by the key.
pub(super) static LEASE_STATEMENTS: LeaseStatements = LeaseStatements {
    tables: &[],
    defects: "",
    lock: "",
    list: "SELECT worker, holder, name, incarnation, bound, seen, written FROM leafd_worker
        WHERE worker >= ?1 AND worker < ?2 ORDER BY worker",
    find: "SELECT worker, holder, name, incarnation, bound, seen, written FROM leafd_worker WHERE worker = ?1",
    enter: "INSERT INTO leafd_worker (worker, holder, name, incarnation, bound, seen, written)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    replace: "UPDATE leafd_worker SET holder = ?2, name = ?3, incarnation = ?4, bound = ?5, seen = ?6, written = ?7
        WHERE worker = ?1",
    given: "SELECT id, ip_port, max_timestamp FROM leaf_workerid_alloc WHERE id >= ?1 AND id < ?2 ORDER BY id",
    given_to: "SELECT id, ip_port, max_timestamp FROM leaf_workerid_alloc WHERE ip_port = ?1 COLLATE BINARY",
    give: "INSERT INTO leaf_workerid_alloc (id, ip, port, ip_port, max_timestamp) VALUES (?1, ?2, ?3, ?4, ?5)",
    keep_time: "UPDATE leaf_workerid_alloc SET max_timestamp = ?2, update_time = CURRENT_TIMESTAMP WHERE id = ?1",
    layouts: "SELECT name, definition FROM leafd_layout",
    enter_layout: "INSERT INTO leafd_layout (name, definition) VALUES (?1, ?2)",
};

macro_rules! taking {
    () => {
        "SELECT since, taken, holder, name, incarnation FROM leafd_worker_taken WHERE worker = ?1 AND "
    };
}

pub(super) static HISTORY_STATEMENTS: HistoryStatements = HistoryStatements {
    enter_claim: "INSERT INTO leafd_claim (tag, end_id, claimed_ms, first_id, stride, generation, host, name, holds_from)
        VALUES (?1, ?2, CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer), ?3, ?4, ?5, ?6, ?7, ?8)",
    claims: "SELECT first_id, end_id, stride, generation, host, name, holds_from, claimed_ms
        FROM leafd_claim WHERE tag = ?1 AND end_id > ?2 ORDER BY end_id, claimed_ms LIMIT ?3",
    forget_claims: "DELETE FROM leafd_claim WHERE (tag, end_id, claimed_ms) IN (
            SELECT tag, end_id, claimed_ms FROM leafd_claim
            WHERE claimed_ms < CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) - ?1
            ORDER BY claimed_ms LIMIT ?2)",
    enter_taking: "INSERT INTO leafd_worker_taken (worker, since, taken, holder, name, incarnation)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (worker, since, taken) DO NOTHING",
    taken_before: concat!(taking!(), "since <= ?2 ORDER BY since DESC, taken DESC LIMIT 1"),
    taken_after: concat!(taking!(), "since > ?2 ORDER BY since, taken LIMIT 1"),
};
