//! Makes the tables of an embedded store if they are missing, and refuses a file whose tables are not as they should
//! be.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use leafd_core::store::StoreError;

/// Why a file can't be opened: leafd refuses it, or SQLite fails.
#[derive(Debug)]
pub(super) enum Failure {
    Said(StoreError),
    Sql(rusqlite::Error),
}

/// Version of the side tables. A file with a higher version was written by a newer leafd.
const FORMAT: i64 = 1;

/// Leaf's table. It has no CHECK constraints: a row that another program wrote must not make later statements fail.
const LEAF_TABLE: &str = "
CREATE TABLE IF NOT EXISTS leaf_alloc (
    biz_tag     varchar(128) NOT NULL DEFAULT '' PRIMARY KEY,
    max_id      bigint NOT NULL DEFAULT 1,
    step        int NOT NULL,
    description varchar(256) DEFAULT NULL,
    update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP
);";

/// `leaf_workerid_alloc` is the table of Leaf's fork, in its SQLite form.
///
/// A row of `leafd_tag` stays when the row of `leaf_alloc` is deleted. `generation` is that of the present row, or of
/// the next one if there is none. `highest_end` is the end of everything ever claimed under the name.
const SIDE_TABLES: &str = "
CREATE TABLE IF NOT EXISTS leafd_meta (
    name  text NOT NULL PRIMARY KEY,
    value NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leafd_tag (
    tag         text NOT NULL PRIMARY KEY,
    generation  integer NOT NULL DEFAULT 0,
    ceiling     integer,
    strict      integer NOT NULL DEFAULT 0,
    masked      text,
    highest_end integer NOT NULL DEFAULT 0,
    role_version integer NOT NULL DEFAULT -1
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leafd_host (
    host        text NOT NULL PRIMARY KEY,
    start_token text NOT NULL,
    started     text NOT NULL,
    written     integer NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leafd_worker (
    worker      integer PRIMARY KEY,
    holder      text,
    name        text,
    incarnation text,
    bound       integer NOT NULL,
    seen        integer NOT NULL,
    written     integer NOT NULL
);
CREATE TABLE IF NOT EXISTS leafd_claim (
    tag        text NOT NULL,
    end_id     integer NOT NULL,
    claimed_ms integer NOT NULL,
    first_id   integer NOT NULL,
    stride     integer NOT NULL,
    generation integer NOT NULL,
    host       text NOT NULL,
    name       text NOT NULL,
    holds_from integer,
    PRIMARY KEY (tag, end_id, claimed_ms)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS leafd_claim_age ON leafd_claim (claimed_ms);
CREATE TABLE IF NOT EXISTS leafd_worker_taken (
    worker      integer NOT NULL,
    since       integer NOT NULL,
    taken       integer NOT NULL,
    holder      text NOT NULL,
    name        text NOT NULL,
    incarnation text NOT NULL,
    PRIMARY KEY (worker, since, taken)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leafd_layout (
    name       text NOT NULL PRIMARY KEY,
    definition text NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leaf_workerid_alloc (
    id            integer PRIMARY KEY AUTOINCREMENT,
    ip            varchar(127) DEFAULT NULL,
    port          varchar(127) DEFAULT NULL,
    ip_port       varchar(127) NOT NULL UNIQUE,
    max_timestamp bigint DEFAULT NULL,
    create_time   timestamp DEFAULT CURRENT_TIMESTAMP,
    update_time   timestamp DEFAULT NULL
);";

/// Drops the triggers that earlier versions made.
const FORMER_TRIGGERS: &str = "DROP TRIGGER IF EXISTS leafd_row_changed;
DROP TRIGGER IF EXISTS leafd_row_deleted;
DROP TRIGGER IF EXISTS leafd_row_renamed;";

const TABLES: [(&str, &[&str]); 9] = [
    ("leaf_alloc", &["biz_tag", "max_id", "step", "description", "update_time"]),
    ("leafd_meta", &["name", "value"]),
    (
        "leafd_tag",
        &["tag", "generation", "ceiling", "strict", "masked", "highest_end", "role_version"],
    ),
    ("leafd_host", &["host", "start_token", "started", "written"]),
    ("leafd_worker", &["worker", "holder", "name", "incarnation", "bound", "seen", "written"]),
    (
        "leafd_claim",
        &[
            "tag",
            "end_id",
            "claimed_ms",
            "first_id",
            "stride",
            "generation",
            "host",
            "name",
            "holds_from",
        ],
    ),
    ("leafd_worker_taken", &["worker", "since", "taken", "holder", "name", "incarnation"]),
    ("leafd_layout", &["name", "definition"]),
    ("leaf_workerid_alloc", &["id", "ip", "port", "ip_port", "max_timestamp"]),
];

/// The statements that make the tables, as `leafd schema print` shows them.
#[must_use]
pub fn print_schema() -> String {
    format!("{}\n{}\n", LEAF_TABLE.trim(), SIDE_TABLES.trim())
}

/// What a store records about itself.
#[derive(Clone, Debug)]
pub(super) struct Meta {
    pub(super) identity: String,
    pub(super) fingerprint: String,
}

/// Makes missing tables and checks existing ones. Writes `fresh` to a file that has no identity yet. Returns what the
/// file then records about itself.
pub(super) fn prepare(connection: &mut Connection, fresh: &Meta) -> Result<Meta, Failure> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    refuse_newer(&transaction)?;
    for (table, _) in TABLES {
        refuse_not_a_table(&transaction, table)?;
    }
    transaction.execute_batch(LEAF_TABLE)?;
    transaction.execute_batch(SIDE_TABLES)?;
    for (table, columns) in TABLES {
        check_columns(&transaction, table, columns)?;
    }
    check_unique(&transaction)?;
    transaction.execute_batch(FORMER_TRIGGERS)?;
    transaction.execute(
        "INSERT OR IGNORE INTO leafd_meta (name, value) VALUES ('role', ''), ('right', '0 ')",
        [],
    )?;
    if let Some(identity) = get(&transaction, "identity")? {
        let fingerprint = get(&transaction, "fingerprint")?.unwrap_or_default();
        transaction.commit()?;
        return Ok(Meta { identity, fingerprint });
    }
    put(&transaction, "format", FORMAT)?;
    put(&transaction, "identity", &fresh.identity)?;
    put(&transaction, "fingerprint", &fresh.fingerprint)?;
    transaction.commit()?;
    write_to_file(connection)?;
    Ok(fresh.clone())
}

/// Gives the store a new identity and owner. Forgets the hosts' starts, which belong to the store's former identity;
/// every host checks in anew.
pub(super) fn rename(connection: &mut Connection, to: &Meta) -> Result<(), Failure> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    put(&transaction, "identity", &to.identity)?;
    put(&transaction, "fingerprint", &to.fingerprint)?;
    transaction.execute("DELETE FROM leafd_host", [])?;
    transaction.commit()?;
    write_to_file(connection)
}

/// Moves the content of the write-ahead log into the file itself. Otherwise somebody who copies or moves the file
/// alone would get one that looks new.
fn write_to_file(connection: &Connection) -> Result<(), Failure> {
    connection.query_row("PRAGMA wal_checkpoint", [], |_| Ok(()))?;
    Ok(())
}

/// Runs before anything is made, as a newer format may have other tables.
fn refuse_newer(connection: &Connection) -> Result<(), Failure> {
    let known: bool = connection.query_row(
        "SELECT count(*) FROM sqlite_schema WHERE name = 'leafd_meta' AND type = 'table'",
        [],
        |row| row.get(0),
    )?;
    if !known {
        return Ok(());
    }
    let format: Option<i64> = connection
        .query_row("SELECT value FROM leafd_meta WHERE name = 'format'", [], |row| row.get(0))
        .optional()?;
    match format {
        Some(FORMAT) => Ok(()),
        Some(newer) if newer > FORMAT => refuse(format!(
            "was written by a newer leafd (format {newer}; this one supports {FORMAT}): use that version"
        )),
        _ => refuse(
            "has a table leafd_meta with a format that no leafd has written: restore the file from a backup",
        ),
    }
}

fn refuse_not_a_table(connection: &Connection, name: &str) -> Result<(), Failure> {
    let kind: Option<String> = connection
        .query_row("SELECT type FROM sqlite_schema WHERE name = ?1", [name], |row| row.get(0))
        .optional()?;
    match kind.as_deref() {
        None | Some("table") => Ok(()),
        Some(kind) => refuse(format!("has a {kind} named {name} where leafd needs a table")),
    }
}

fn check_columns(connection: &Connection, table: &str, columns: &[&str]) -> Result<(), Failure> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let names: Vec<String> =
        statement.query_map([table], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let missing: Vec<&str> = columns
        .iter()
        .copied()
        .filter(|column| !names.iter().any(|name| name.eq_ignore_ascii_case(column)))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    refuse(format!(
        "has a table {table} that differs from leafd's: it lacks {}; leafd doesn't change it, so rename it or configure another file",
        missing.join(", ")
    ))
}

/// If a tag had two rows, a claim would change both.
fn check_unique(connection: &Connection) -> Result<(), Failure> {
    let unique: bool = connection.query_row(
        "SELECT count(*) > 0 FROM pragma_index_list('leaf_alloc') AS list
         WHERE list.\"unique\" AND NOT list.partial
           AND (SELECT group_concat(lower(name)) FROM pragma_index_info(list.name)) = 'biz_tag'",
        [],
        |row| row.get(0),
    )?;
    if unique {
        return Ok(());
    }
    refuse("has a table leaf_alloc whose biz_tag is not unique: make it the primary key")
}

/// The fingerprint that a file records, `None` if it is not a store yet.
pub(super) fn fingerprint(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let known = "SELECT count(*) FROM sqlite_schema WHERE name = 'leafd_meta' AND type = 'table'";
    if connection.query_row(known, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(None);
    }
    let sql = "SELECT CAST(value AS text) FROM leafd_meta WHERE name = 'fingerprint'";
    connection.query_row(sql, [], |row| row.get(0)).optional()
}

fn get(connection: &Connection, name: &str) -> Result<Option<String>, Failure> {
    let sql = "SELECT CAST(value AS text) FROM leafd_meta WHERE name = ?1";
    Ok(connection.query_row(sql, [name], |row| row.get(0)).optional()?)
}

fn put(connection: &Connection, name: &str, value: impl rusqlite::ToSql) -> Result<(), Failure> {
    let sql = "INSERT INTO leafd_meta (name, value) VALUES (?1, ?2)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    connection.execute(sql, params![name, value])?;
    Ok(())
}

/// Refuses the file; `named` puts its name before the words.
fn refuse<T>(words: impl Into<leafd_core::store::Reason>) -> Result<T, Failure> {
    Err(Failure::Said(StoreError::Refused(words.into())))
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        Failure::Sql(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Said(error)
    }
}
