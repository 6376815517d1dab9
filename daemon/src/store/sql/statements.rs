//! The statements for every kind of database. `?1` is the first parameter, and a word between braces is written as the
//! [`Dialect`](super::Dialect) has it. The comment of each statement lists its parameters in order.

/// (host): the store's name, its role and its note, and the number of the host's last write with the start token under
/// which it was made.
pub(super) const HEAD: &str = "i.value, r.value, n.value, (SELECT CONCAT(written, ' ', start_token) FROM leafd_host WHERE host = ?1)";
/// The same in a database that has only Leaf's table.
pub(super) const HEAD_PLAIN: &str = "NULL, NULL, NULL, NULL";
/// What [`HEAD`] is selected from.
pub(super) const META_ROWS: &str =
    "leafd_meta AS i JOIN leafd_meta AS r ON i.name = 'identity' AND r.name = 'role'
    LEFT JOIN leafd_meta AS n ON n.name = 'history'";
/// The eleven columns that `rows` reads.
pub(super) const ROW: &str =
    "{leaf_row}, t.generation, t.ceiling, t.highest_end, t.strict, t.role_version, t.masked";
/// The same columns from Leaf's table alone.
pub(super) const ROW_PLAIN: &str = "{leaf_row}, NULL, NULL, NULL, NULL, NULL, NULL";

// Tags.

/// (tag, old `max_id`, new `max_id`): changes one row, if it is unchanged.
pub(super) const SET_MAX_ID: &str =
    "UPDATE leaf_alloc SET max_id = ?3{touch} WHERE biz_tag{exact} = ?1 AND max_id = ?2";
/// (tag, step)
pub(super) const SET_STEP: &str =
    "UPDATE leaf_alloc SET step = ?2{touch} WHERE biz_tag{exact} = ?1";
/// (tag, description)
pub(super) const SET_DESCRIPTION: &str =
    "UPDATE leaf_alloc SET description = ?2{touch} WHERE biz_tag{exact} = ?1";
/// (tag, start, step, description)
pub(super) const INSERT_ROW: &str =
    "INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES (?1, ?2, ?3, ?4)";
/// (tag)
pub(super) const DELETE_ROW: &str = "DELETE FROM leaf_alloc WHERE biz_tag{exact} = ?1";
/// (tag): the end of all claims ever made under a name, and how its ids were masked.
pub(super) const CLAIMED_END: &str =
    "SELECT highest_end, masked FROM leafd_tag WHERE tag = {bytes ?1}{lock}";
/// Statements that change nothing, but need the privileges that claims need: the first one those on Leaf's table.
pub(super) const NEED_PRIVILEGES: [&str; 3] = [
    "EXPLAIN UPDATE leaf_alloc SET max_id = max_id WHERE 1 = 0",
    "EXPLAIN UPDATE leafd_tag SET strict = strict WHERE 1 = 0",
    "EXPLAIN INSERT INTO leafd_tag SELECT * FROM leafd_tag WHERE 1 = 0",
];
/// (name, limit): the names after this one, by their bytes, each with the end that the store remembers.
pub(super) const ENDS: &str =
    "SELECT tag, highest_end FROM leafd_tag WHERE tag > {bytes ?1} ORDER BY tag LIMIT ?2";
/// (tag, end, version of the right to claim, version that the row has, whether a strict tag is held): what a claim writes
/// to leafd's row of the tag. It changes one row, unless the right to claim was revoked.
pub(super) const RECORD_CLAIM: &str =
    "UPDATE leafd_tag SET highest_end = ?2, role_version = ?3, strict = ?5
    WHERE tag = {bytes ?1} AND role_version = ?4";
/// (tag): inserts a row that has no right to claim yet; fails if there is one.
pub(super) const NEW_NAME: &str = "INSERT INTO leafd_tag (tag) VALUES (?1)";
/// A list of (tag, end, masked), each in parentheses, must follow.
pub(super) const REMEMBER_ENDS: &str = "INSERT INTO leafd_tag (tag, highest_end, masked) VALUES";
/// Follows that list. It leaves the mask of an existing row as it is.
pub(super) const REMEMBERING: &str =
    "{conflict tag} highest_end = {greatest}(leafd_tag.highest_end, {new highest_end})";
/// (tag): inserts a row for the name if there is none, and locks it.
pub(super) const ENTER_NAME: &str =
    "INSERT INTO leafd_tag (tag) VALUES (?1) {conflict tag} tag = leafd_tag.tag";
/// (tag, generation, ceiling, strict, masked)
pub(super) const ENTER_TAG: &str = "INSERT INTO leafd_tag (tag, generation, ceiling, strict, masked)
    VALUES (?1, ?2, ?3, ?4, ?5) {conflict tag} generation = {new generation}, ceiling = {new ceiling},
    strict = {new strict}, masked = {new masked}";
/// (tag, generation of the next tag of the name, end)
pub(super) const LEAVE_TOMBSTONE: &str =
    "INSERT INTO leafd_tag (tag, generation, highest_end) VALUES (?1, ?2, ?3)
    {conflict tag} generation = {new generation}, ceiling = NULL, strict = 0,
    highest_end = {greatest}(leafd_tag.highest_end, {new highest_end})";
/// (tag, number): whether a strict tag is held.
pub(super) const SET_STRICTNESS: &str = "UPDATE leafd_tag SET strict = ?2 WHERE tag = {bytes ?1}";
/// (tag, ceiling)
pub(super) const SET_CEILING: &str =
    "INSERT INTO leafd_tag (tag, ceiling) VALUES (?1, ?2) {conflict tag} ceiling = {new ceiling}";

// The store's own records.

/// The name and value of every row in `leafd_meta`.
pub(in crate::store) const META: &str = "SELECT name, value FROM leafd_meta";
/// (name, value): adds a row to `leafd_meta` if there is none of this name.
pub(in crate::store) const ENTER_META: &str =
    "INSERT{ignore} INTO leafd_meta (name, value) VALUES (?1, ?2){unless name}";
/// (name, value): changes a row of `leafd_meta`.
pub(in crate::store) const SET_META: &str = "UPDATE leafd_meta SET value = ?2 WHERE name = ?1";
/// (new text, old text): replaces the note in `leafd_meta`.
pub(super) const SWAP_NOTE: &str =
    "UPDATE leafd_meta SET value = ?1 WHERE name = 'history' AND value = ?2";
/// Keeps others from changing the role.
pub(super) const LOCK_ROLE: &str = "SELECT value FROM leafd_meta WHERE name = 'role'{lock}";
/// (value, pattern that the old value must match): writes the row that every change of the right to claim writes, see
/// `Session`.
pub(super) const TAKE_RIGHT: &str =
    "UPDATE leafd_meta SET value = ?1 WHERE name = 'right' AND value LIKE ?2";
/// (version, former version): changes the version of the right to claim in leafd's rows of the tags.
pub(super) const MOVE_RIGHTS: &str =
    "UPDATE leafd_tag SET role_version = ?1 WHERE role_version = ?2";
/// (host): its start token and the number of its last write; locks its row.
pub(super) const HOST_TOKEN: &str =
    "SELECT start_token, written FROM leafd_host WHERE host = ?1{lock}";
/// (host, token, number of the write)
pub(super) const ENTER_HOST: &str =
    "INSERT INTO leafd_host (host, start_token, started, written) VALUES (?1, ?2, CURRENT_TIMESTAMP, ?3)
    {conflict host} start_token = {new start_token}, started = {new started}, written = {new written}";
/// (number of the host's write, host, number of its last write): records a write of the host.
pub(super) const PROVE: &str =
    "UPDATE leafd_host SET written = ?1 WHERE host = ?2 AND written = ?3";
/// The server's clock, in milliseconds of Unix time.
pub(super) const NOW_MS: &str = "SELECT {now_ms}";

// The records of past claims and workers.

/// (tag, end, first id, stride, generation, host, name, where the ids begin that the host holds): records a claim, with
/// the time of the server's clock.
pub(super) const RECORD_CLAIMANT: &str =
    "INSERT INTO leafd_claim (tag, end_id, claimed_ms, first_id, stride, generation, host, name, holds_from)
    VALUES ({bytes ?1}, ?2, {now_ms}, ?3, ?4, ?5, ?6, ?7, ?8)";
/// (host, limit, age): the hosts after this one, each with the token of its start, and the name and age of its last claim,
/// if that is no older.
pub(super) const HOSTS: &str = "SELECT h.host, h.start_token, c.name, c.age FROM leafd_host AS h
    LEFT JOIN (SELECT host, MAX(name) AS name, {now_ms} - MAX(claimed_ms) AS age FROM leafd_claim
        WHERE claimed_ms > {now_ms} - ?3 GROUP BY host) AS c ON c.host = h.host
    WHERE h.host > ?1 ORDER BY h.host LIMIT ?2";
/// (tag, id, limit): the claims whose end is above this id, in the order of their ends: first id, end, stride,
/// generation, host, name, where the ids began that the host held, and time.
pub(super) const CLAIMS: &str =
    "SELECT first_id, end_id, stride, generation, host, name, holds_from, claimed_ms
    FROM leafd_claim WHERE tag = {bytes ?1} AND end_id > ?2 ORDER BY end_id, claimed_ms LIMIT ?3";
/// (worker, since, taken, holder, name, incarnation)
pub(super) const ENTER_TAKING: &str =
    "INSERT{ignore} INTO leafd_worker_taken (worker, since, taken, holder, name, incarnation)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6){unless worker, since, taken}";
/// (worker, instant): the last taking of a worker that began at this instant or before: since, taken, holder, name and
/// incarnation.
pub(super) const TAKEN_BEFORE: &str =
    "SELECT since, taken, holder, name, incarnation FROM leafd_worker_taken
    WHERE worker = ?1 AND since <= ?2 ORDER BY since DESC, taken DESC LIMIT 1";
/// (worker, instant): the first taking that began later.
pub(super) const TAKEN_AFTER: &str =
    "SELECT since, taken, holder, name, incarnation FROM leafd_worker_taken
    WHERE worker = ?1 AND since > ?2 ORDER BY since, taken LIMIT 1";

// Workers.

/// Keeps other daemons from assigning numbers and recording layouts meanwhile.
pub(super) const LOCK_WORKERS: &str = "SELECT value FROM leafd_meta WHERE name = 'format'{lock}";
/// (first, end): the seven columns of `leafd_worker` for a range of workers, in ascending order.
pub(super) const LIST_WORKERS: &str =
    "SELECT worker, holder, name, incarnation, bound, seen, written FROM leafd_worker
    WHERE worker >= ?1 AND worker < ?2 ORDER BY worker";
/// (worker): the same columns of one worker; locks its row.
pub(super) const FIND_WORKER: &str = "SELECT worker, holder, name, incarnation, bound, seen, written FROM leafd_worker WHERE worker = ?1{lock}";
/// (worker, holder, name, incarnation, bound, seen, written): fails if the worker has a row.
pub(super) const ENTER_WORKER: &str =
    "INSERT INTO leafd_worker (worker, holder, name, incarnation, bound, seen, written)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
/// (the same): changes the row of a worker that has one.
pub(super) const REPLACE_WORKER: &str =
    "UPDATE leafd_worker SET holder = ?2, name = ?3, incarnation = ?4, bound = ?5, seen = ?6, written = ?7
    WHERE worker = ?1";
/// The highest permanent number.
pub(super) const HIGHEST: &str = "SELECT MAX(id) FROM leaf_workerid_alloc";
/// (first, end): number, identity and time of the permanent numbers, in ascending order.
pub(super) const PERMANENT: &str = "SELECT id, ip_port, max_timestamp FROM leaf_workerid_alloc WHERE id >= ?1 AND id < ?2 ORDER BY id";
/// (identity): the same columns of one identity.
pub(super) const PERMANENT_OF: &str =
    "SELECT id, ip_port, max_timestamp FROM leaf_workerid_alloc WHERE ip_port{exact} = ?1";
/// (number, address, port, identity, time)
pub(super) const ASSIGN: &str = "INSERT INTO leaf_workerid_alloc (id, ip, port, ip_port, max_timestamp) VALUES (?1, ?2, ?3, ?4, ?5)";
/// (number, time)
pub(super) const KEEP_TIME: &str =
    "UPDATE leaf_workerid_alloc SET max_timestamp = ?2{touch} WHERE id = ?1";
/// The name and definition of every layout.
pub(super) const LAYOUTS: &str = "SELECT name, definition FROM leafd_layout";
/// (name, definition)
pub(super) const ENTER_LAYOUT: &str = "INSERT INTO leafd_layout (name, definition) VALUES (?1, ?2)";
