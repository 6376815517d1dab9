//! A connection to a store whose tables were checked: the store's identity, its role and its history.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::rows::name;
use super::schema::{TAG_TABLES, Table, WORKER_TABLES};
use super::statements::{self, HEAD, HEAD_PLAIN, META_ROWS};
use super::tables::{
    check_tables, columns, differences, has_first_rows, meta_incomplete, refuse_different_workers,
};
use super::{
    Call, Cells, Connector, Dialect, Driver, Location, Param, SqlError, TABLES_GONE, one_row,
    params,
};
use crate::clock;
use leafd_core::BootMs;
use leafd_core::store::{
    History, HostId, Identity, Kept, Note, Proof, Role, StartToken, StoreError, StoreId, Why,
};
use leafd_wire::text::clean;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) driver: Box<dyn Driver>,
    pub(super) dialect: &'static Dialect,
    /// Whether leafd's own tables exist.
    pub(super) side: bool,
    /// Whether the tables of workers were checked.
    workers_checked: bool,
    pub(super) location: Location,
    pub(super) own: Arc<Mutex<HostState>>,
    /// The store's note when it was last read.
    note: Note,
    /// Its text in the table.
    note_text: String,
    /// What the engine reported about itself then.
    engine: String,
    /// The number of this host's last write, if the store has one.
    pub(super) written: Option<u64>,
    /// The version of the right to claim at that time.
    pub(super) right: i64,
    /// Whether the commit of the transaction may have reached the server.
    pub(super) is_committing: bool,
}

/// What this host knows about a store, independently of the connection.
#[derive(Debug, Default)]
pub(super) struct HostState {
    /// This host, once the store has recorded its start.
    host: Option<(HostId, StartToken)>,
    /// The earlier starts whose tokens the store may still have, or have again after a fail-over.
    earlier: Vec<StartToken>,
    /// What the store must still contain.
    pub(super) proof: Proof,
    /// The history that this host trusted before it started, and the number of its last write there.
    pub(super) remembered: Option<(History, u64)>,
    /// The number of the pending write.
    writing: Option<u64>,
    /// The latest history that this host has trusted or seen.
    pub(super) known: Option<History>,
    /// The current history, and when it was first seen.
    seen: Option<(History, BootMs)>,
}

/// The content of the row `role` of `leafd_meta`. Every claim reads it.
#[derive(Default, Serialize, Deserialize)]
struct RoleRecord {
    role: Arc<str>,
    /// The version of the right to claim.
    right: i64,
}

/// The number of an answer's first cells, which identify the store and its life: its name and role, its note, the
/// number of this host's last write, the server, what distinguishes the tables and the server's timeline, the position,
/// and whether the server accepts no writes.
pub(super) const IDENTITY_CELLS: usize = 8;

/// How long a node may take to receive what another node of its cluster has already.
const NODES_AGREE_WITHIN: Duration = Duration::from_secs(1);

/// Repeats a check for a moment until it succeeds, because a node of a cluster may be a moment behind another one.
pub(super) fn wait_for_nodes<T>(
    mut look: impl FnMut() -> Result<(T, bool), SqlError>,
) -> Result<(T, bool), SqlError> {
    let begun = Instant::now();
    loop {
        let (found, in_order) = look()?;
        if in_order || begun.elapsed() > NODES_AGREE_WITHIN {
            return Ok((found, in_order));
        }
        std::thread::sleep(NODES_AGREE_WITHIN / 5);
    }
}

impl Session {
    /// A session over a new connection. Checks the store's tables.
    pub(super) fn over(
        mut driver: Box<dyn Driver>,
        connector: &mut dyn Connector,
        own: &Arc<Mutex<HostState>>,
    ) -> Result<(Self, Identity), StoreError> {
        let (dialect, location) = (connector.dialect(), connector.location());
        driver.set_deadline(Instant::now() + location.statement_timeout);
        // Opening an embedded store's file has created or checked the tables.
        let side = match dialect.embedded {
            true => Ok(true),
            false => check_tables(&mut *driver, dialect, &location),
        };
        let mut session = Session {
            driver,
            dialect,
            side: *side.as_ref().unwrap_or(&true),
            workers_checked: false,
            location,
            own: Arc::clone(own),
            note: Note::default(),
            note_text: String::new(),
            engine: String::new(),
            written: None,
            right: 0,
            is_committing: false,
        };
        let identity = side.and_then(|_| session.identity()).map_err(|failure| {
            // The server accepted the connection, but doesn't serve.
            if matches!(failure, SqlError::Lost(_) | SqlError::TimedOut(_) | SqlError::ReadOnly(_))
            {
                connector.has_failed(session.driver.endpoint());
            }
            failure.answer(&session.location)
        })?;
        Ok((session, identity))
    }

    pub(super) fn own(&self) -> MutexGuard<'_, HostState> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This host's id in queries; empty before the store has recorded its start.
    pub(super) fn host(&self) -> String {
        self.own().host.as_ref().map_or_else(String::new, |(host, _)| host.0.to_string())
    }

    /// Asks the server which store this is.
    pub(super) fn identity(&mut self) -> Result<Identity, SqlError> {
        let look = || {
            let position = self.driver.position()?;
            let signs = self.driver.signs().cells(self.side);
            let sql = match self.side {
                true => format!("SELECT {HEAD}, {signs} FROM {META_ROWS}"),
                false => format!("SELECT {HEAD_PLAIN}, {signs}"),
            };
            let host = self.host();
            let host = [Param::from(&*host)];
            let params = if self.side { &host[..] } else { &[] };
            let rows = self.driver.query_together(&[(&*sql, params)])?;
            let row =
                rows.into_iter().flatten().next().ok_or_else(|| meta_incomplete(&self.location))?;
            let (identity, kept) = self.compose(row, position)?;
            Ok((identity, kept != Kept::Lost || position.is_none()))
        };
        wait_for_nodes(look).map(|(identity, _)| identity)
    }

    /// Whether the servers of these connections are in different parts of one cluster, for longer than a change of its
    /// members takes.
    pub(super) fn is_parted_from(&mut self, other: &mut Session) -> Result<bool, StoreError> {
        let look = || Ok(((), self.driver.members()? == other.driver.members()?));
        let agreed = wait_for_nodes(look);
        agreed.map(|((), agree)| !agree).map_err(|failure| failure.answer(&self.location))
    }

    /// Checks that the store is the one that the caller trusts.
    pub(super) fn check(&mut self, under: &Identity) -> Result<(), SqlError> {
        Ok(self.identity()?.check(under, self.store())?)
    }

    /// The name that errors use for the store.
    pub(super) fn store(&self) -> &str {
        &self.location.store
    }

    /// The store's identity, from the cells of an answer. Only the name in leafd's tables identifies a store. So it
    /// stays the same store when it fails over or is restored, but then has another history. Without leafd's tables,
    /// the server and the database identify it.
    pub(super) fn compose(
        &mut self,
        cells: Cells,
        position: Option<u64>,
    ) -> Result<(Identity, Kept), SqlError> {
        let cells: Result<[Option<String>; IDENTITY_CELLS], _> = cells.try_into();
        let Ok([name, role, note, written, server, life, here, read_only]) = cells else {
            return Err(meta_incomplete(&self.location));
        };
        let kind = self.driver.signs().kind;
        let server = server.ok_or_else(|| {
            SqlError::Missing("the server doesn't report its identity".to_owned())
        })?;
        let life = life.ok_or_else(|| SqlError::Missing(TABLES_GONE.to_owned()))?;
        self.driver.use_tables(&life);
        if read_only
            .is_some_and(|value| !["OFF", "0", "NO"].contains(&&*value.to_ascii_uppercase()))
        {
            let words = "it has become read-only (read_only is ON)";
            return Err(SqlError::ReadOnly(words.to_owned()).at(self.driver.endpoint()));
        }
        if !self.side {
            let identity = Identity {
                id: StoreId(format!("{kind}:{server}").into()),
                history: History::without_lives(&life),
                role: Role::default(),
            };
            return Ok((identity, Kept::All));
        }
        let (Some(name), Some(role)) = (name, role) else {
            return Err(meta_incomplete(&self.location));
        };
        let foreign = |row: &str, cause: &dyn Display| {
            self.location.refused_for(Why::ForeignValue, format_args!(
                "has a value of {row:?} in leafd_meta that leafd did not write ({cause}): restore the row from a backup"
            ))
        };
        if clean(&name) != name {
            return Err(foreign("identity", &"it has control characters").into());
        }
        let RoleRecord { role, right } = parse(&role).map_err(|cause| foreign("role", &cause))?;
        self.right = right;
        let mut identity = Identity {
            id: StoreId(format!("{kind}:{name}").into()),
            history: History::default(),
            role: Role(role),
        };
        if self.dialect.embedded {
            return Ok((identity, Kept::All));
        }
        self.note_text = note.unwrap_or_default();
        // Any other text is the note of a store without a past, which is never true.
        self.note = parse(&self.note_text).unwrap_or_default();
        // The name of a database may have any letters, and the note's column may hold ASCII only.
        self.engine = format!("{server} {life}").trim_end().escape_default().to_string();
        let written = written.as_deref().and_then(|written| written.split_once(' '));
        self.written = written.and_then(|(number, _)| number.parse().ok());
        let note = &self.note;
        let position = position.or_else(|| here?.parse().ok());
        // A server that reports something else about itself may be at any position.
        let mut kept = Kept::All;
        if note.engine == self.engine {
            let mut own = self.own();
            let this = own.host.as_ref().map(|(_, token)| token);
            let mut starts = own.earlier.iter().chain(this);
            let is_own = written.is_some_and(|(_, of)| starts.any(|start| *start.0 == *of));
            let number = self.written.map(|number| (number, is_own));
            kept = own.proof.check(&note.history, number, position);
        }
        if kept == Kept::ByAnother {
            return Err(self.location.refused(
                "has a later write under this host's name: another daemon runs with a copy of this host's state \
                 directory. Stop it, and give it a state directory of its own",
            )
            .into());
        }
        identity.history = note.found(&self.engine, kept);
        Ok((identity, kept))
    }

    /// Whether the tables that this session uses are as leafd needs them, with their first rows.
    pub(super) fn is_complete(&mut self) -> bool {
        let found = columns(&mut *self.driver, self.dialect).unwrap_or_default();
        let is_there = |table: &Table| found.iter().any(|[of, ..]| of == table.name);
        let of_tags = if self.side { &TAG_TABLES[..] } else { &TAG_TABLES[..1] };
        let of_workers = if self.workers_checked { &WORKER_TABLES[..] } else { &[] };
        let needed = of_tags.iter().chain(of_workers);
        needed.clone().all(is_there)
            && differences(self.dialect, needed, &found).is_empty()
            && (!self.side || has_first_rows(&mut *self.driver).unwrap_or(false))
    }

    /// Keeps others from changing the role.
    pub(super) fn lock_role(&mut self) -> Result<(), SqlError> {
        self.driver.query(statements::LOCK_ROLE, &[]).map(drop)
    }

    /// Records a role, and revokes all rights to claim under the former role. Once this is committed, no claim under
    /// the former role can be committed.
    ///
    /// A claim compares and sets the version of the right in leafd's own row of the tag, because in some clusters
    /// locks on other rows are local to a node. So this writes every such row. A claim that finds no such row, or one
    /// without the current right, first writes the row `right`, which this writes too, so that the two exclude each
    /// other.
    pub(super) fn change_right(&mut self, role: &Role) -> Result<(), SqlError> {
        let former = self.right;
        self.right = former.saturating_add(1);
        let record = RoleRecord { role: Arc::clone(&role.0), right: self.right };
        self.set_meta("role", &text(&record))?;
        let value = self.right_value()?;
        self.set_meta("right", &value)?;
        self.driver.execute(statements::MOVE_RIGHTS, params![self.right, former])?;
        Ok(())
    }

    /// Takes the current right to claim for a tag whose row in leafd's table doesn't have it, see
    /// [`Session::change_right`].
    pub(super) fn take_right(&mut self) -> Result<(), SqlError> {
        let (value, pattern) = (self.right_value()?, format!("{} %", self.right));
        one_row(self.driver.execute(statements::TAKE_RIGHT, params![&*value, &*pattern])?)
    }

    /// A value that differs each time, so that the row really changes.
    fn right_value(&self) -> Result<String, SqlError> {
        let chance = crate::random::generation();
        Ok(format!("{} {:016x}", self.right, chance.0))
    }

    /// Whether claims were made in the current life; `None` if there is no place for a note.
    pub(super) fn is_settled(&self) -> Option<bool> {
        (self.side && !self.dialect.embedded).then_some(self.note.settled)
    }

    /// How long this host has known the current life, if no claim was made in it yet. `None` for an embedded store,
    /// which has one host.
    pub(super) fn unsettled_for(&self) -> Option<Duration> {
        let history = self.note.history.clone();
        let (mut own, now) = (self.own(), clock::boot());
        if own.seen.as_ref().is_none_or(|(seen, _)| *seen != history) {
            own.seen = Some((history, now));
        }
        let since = own.seen.as_ref().map_or(now, |(_, since)| *since);
        self.is_settled().map(|settled| match settled {
            true => Duration::MAX,
            false => Duration::from_millis(now.0.saturating_sub(since.0)),
        })
    }

    /// Records that a claim is made in the current life. From now on, it is too late for hosts to report what they have
    /// seen.
    pub(super) fn settle(&mut self) -> Result<(), SqlError> {
        if self.is_settled() != Some(false) {
            return Ok(());
        }
        self.write_note(Note { settled: true, ..self.note.clone() })
    }

    /// Begins a new life, because commits are missing or may be. `known` is the history that this host trusts.
    pub(super) fn renew(&mut self, known: Option<&History>) -> Result<(), SqlError> {
        let life = crate::random::generation().0;
        self.write_note(self.note.renewed(life, &self.engine, known))
    }

    /// Records the first life of a store whose tables were just created. This must happen before any claim.
    pub(super) fn note_first(&mut self) -> Result<(), SqlError> {
        self.identity()?;
        if self.note.history.life().is_some() {
            return Ok(());
        }
        let mut before = Vec::new();
        if !self.note_text.is_empty() {
            let life = format!("SELECT {}", self.driver.signs().life_plain);
            let life = self.driver.query(&life, &[])?.into_iter().flatten().flatten().next();
            before.push(History(self.note_text.as_str().into()));
            before.extend(life.map(|life| History::without_lives(&life)));
        }
        let life = crate::random::generation().0;
        self.write_note(Note::first(life, &self.engine, &before))
    }

    fn write_note(&mut self, note: Note) -> Result<(), SqlError> {
        let text = text(&note);
        if self.driver.execute(statements::SWAP_NOTE, params![&*text, &*self.note_text])? != 1 {
            let words = "another host updated the store's history at the same moment";
            return Err(SqlError::Conflict(words.to_owned()));
        }
        (self.note, self.note_text) = (note, text);
        Ok(())
    }

    /// The number for this host's next write, and the one in the store. `None` before the store has recorded this
    /// host's start, and if no other host can claim.
    pub(super) fn next_write(&self) -> Option<(u64, u64)> {
        let found = self.written.filter(|_| !self.dialect.embedded)?;
        let history = &self.note.history;
        let mut own = self.own();
        own.host.as_ref()?;
        let next = own.proof.attempt(history, found);
        own.writing = Some(next);
        Some((next, found))
    }

    /// Records this host in the current life, in which nothing proves yet that its writes are kept.
    pub(super) fn enter(&mut self) -> Result<(), SqlError> {
        let history = &self.note.history;
        let (host, token, next) = {
            let mut own = self.own();
            let Some((host, token)) = own.host.clone() else { return Ok(()) };
            if own.proof.is_entered(history) {
                return Ok(());
            }
            let next = own.proof.attempt(history, self.written.unwrap_or(0));
            own.writing = Some(next);
            (host, token, next)
        };
        self.driver.execute(statements::ENTER_HOST, params![&*host.0, &*token.0, next]).map(drop)
    }

    /// Begins a transaction.
    pub(super) fn begin(&mut self) -> Result<(), SqlError> {
        self.is_committing = false;
        self.own().writing = None;
        self.driver.begin()
    }

    /// Runs the last statements of the transaction, each of which must change one row, and commits it.
    pub(super) fn commit(&mut self, calls: &[Call<'_>]) -> Result<(), SqlError> {
        self.is_committing = true;
        self.driver.commit(calls)?;
        let mut own = self.own();
        if let Some(number) = own.writing.take() {
            own.proof.confirm(number);
        }
        Ok(())
    }

    /// The same, and records a write of this host among them.
    pub(super) fn prove_and_commit(&mut self, calls: &[Call<'_>]) -> Result<(), SqlError> {
        let (write, host) = (self.next_write(), self.host());
        let proof = write.map(|(next, found)| *params![next, &*host, found]);
        let proof = proof.as_ref().map(|proof| (statements::PROVE, &proof[..]));
        let calls: Vec<Call<'_>> = calls.iter().copied().chain(proof).collect();
        self.commit(&calls)
    }

    /// The first row that a query finds.
    pub(super) fn row(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Option<Cells>, SqlError> {
        Ok(self.driver.query(sql, params)?.into_iter().next())
    }

    /// Refuses calls that need leafd's own tables if there is only Leaf's.
    pub(super) fn require_side(&self, what: &str) -> Result<(), SqlError> {
        if self.side {
            return Ok(());
        }
        let words = format!(
            "has only Leaf's table, or hides leafd's own tables from user {:?}: {what} needs them; create them with: leafd schema apply",
            self.location.user
        );
        Err(self.location.refused(words).into())
    }

    /// Changes the value of a name in `leafd_meta`.
    fn set_meta(&mut self, entry: &str, value: &str) -> Result<u64, SqlError> {
        self.driver.execute(statements::SET_META, params![entry, value])
    }

    /// The value of a name in `leafd_meta`.
    pub(super) fn meta(&mut self, entry: &str) -> Result<Option<String>, SqlError> {
        let meta = self.driver.query(statements::META, &[])?;
        let found = meta.into_iter().find(|row| name(row) == Some(entry));
        Ok(found.and_then(|row| row.into_iter().nth(1).flatten()))
    }

    /// The entries whose names begin like this, with the rest of their names.
    pub(super) fn entries(&mut self, prefix: &str) -> Result<Vec<(String, String)>, SqlError> {
        let meta = self.driver.query(statements::META, &[])?;
        let entry = |row: Cells| {
            let mut cells = row.into_iter().flatten();
            Some((cells.next()?.strip_prefix(prefix)?.to_owned(), cells.next()?))
        };
        Ok(meta.into_iter().filter_map(entry).collect())
    }

    /// The server's clock, in milliseconds of Unix time.
    pub(super) fn now_ms(&mut self) -> Result<u64, SqlError> {
        now_ms(self.driver.query(statements::NOW_MS, &[])?)
    }

    /// Checks the tables of workers, once for each connection. The tables of tags may exist without them.
    pub(super) fn require_workers(&mut self) -> Result<(), SqlError> {
        self.require_side("leasing snowflake workers")?;
        let (dialect, location) = (self.dialect, &self.location);
        // Opening an embedded store's file has checked all its tables.
        if self.workers_checked || dialect.embedded {
            return Ok(());
        }
        let found = columns(&mut *self.driver, dialect)?;
        let tables = WORKER_TABLES.iter().map(|table| table.name);
        let missing = tables.filter(|table| !found.iter().any(|[of, ..]| of == table));
        let missing: Vec<&str> = missing.collect();
        if !missing.is_empty() {
            let words = format!(
                "lacks {}, or hides it from user {:?}, so no snowflake worker can be leased there; create it with: \
                 leafd schema apply",
                missing.join(" and "),
                location.user
            );
            return Err(location.refused_for(Why::HiddenTables, words).into());
        }
        refuse_different_workers(&mut *self.driver, dialect, location, &found)?;
        self.workers_checked = true;
        Ok(())
    }
}

impl HostState {
    /// The store has recorded the start of this host as its write with this number.
    pub(super) fn checked_in(
        &mut self,
        host: &HostId,
        token: &StartToken,
        earlier: &[StartToken],
        history: &History,
        written: u64,
    ) {
        self.host = Some((host.clone(), token.clone()));
        self.earlier = earlier.to_vec();
        self.proof = Proof::of(history, written);
    }

    /// This host trusts this history.
    pub(super) fn trusts(&mut self, history: &History) {
        let is_later = self.known.as_ref().is_none_or(|known| !history.is_former_of(known));
        if is_later && !history.is_in_doubt() {
            self.known = Some(history.clone());
        }
    }
}

/// The server's clock in the answer to `NOW_MS`.
pub(super) fn now_ms(rows: Vec<Cells>) -> Result<u64, SqlError> {
    let now = rows.into_iter().flatten().flatten().next().and_then(|now| now.parse().ok());
    now.ok_or_else(|| SqlError::Rejected("the server doesn't report its time".to_owned()))
}

/// Reads a record of `leafd_meta`. Before the first one is written, the text is empty.
pub(super) fn parse<T: DeserializeOwned + Default>(text: &str) -> serde_json::Result<T> {
    if text.is_empty() { Ok(T::default()) } else { serde_json::from_str(text) }
}

/// The text of a record of `leafd_meta`.
pub(super) fn text(record: &impl Serialize) -> String {
    serde_json::to_string(record).expect("it has only texts and numbers")
}
