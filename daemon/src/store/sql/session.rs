//! A connection to a store whose tables were checked: which store it leads to, its role and its history.

use std::time::{Duration, Instant};

use super::rows::name;
use super::tables::{check_tables, columns, meta_incomplete, refuse_different_workers};
use super::tag_rows::kept;
use super::{Connector, Dialect, Driver, Failure, Location, Param, Place, Standing};
use leafd_core::store::{History, Identity, Role, StoreError, StoreId, Why};

#[derive(Debug)]
pub(super) struct Session {
    pub(super) driver: Box<dyn Driver>,
    pub(super) dialect: &'static Dialect,
    /// Whether leafd's own tables are there.
    pub(super) side: bool,
    /// Whether the tables of workers were checked.
    workers_checked: bool,
    pub(super) location: Location,
    /// Where the connection led when the server was last asked.
    place: Place,
    /// The version of the right to claim at that time.
    pub(super) right: i64,
}

/// Separates three values that share a row, so that every claim sees all of them: the role, the number of losses
/// declared, and the version of the right to claim.
const PARTS: char = '\t';

/// The first cells of an answer tell which store gave it. This is their number.
pub(super) const IDENTITY_CELLS: usize = 3;

impl Session {
    /// A session over a new connection. Checks the store's tables.
    pub(super) fn over(
        mut driver: Box<dyn Driver>,
        connector: &mut dyn Connector,
    ) -> Result<Self, StoreError> {
        let (dialect, location) = (connector.dialect(), connector.location());
        driver.set_deadline(Instant::now() + location.statement_timeout);
        // Opening an embedded store's file has made or checked the tables.
        let side = match dialect.embedded {
            true => Ok(true),
            false => check_tables(&mut *driver, dialect, &location),
        };
        let checked = side.and_then(|side| Ok((side, driver.standing(side)?.place)));
        let (side, place) = checked.map_err(|failure| {
            // The server accepted the connection, but doesn't serve.
            if matches!(failure, Failure::Lost(_) | Failure::TimedOut(_) | Failure::ReadOnly(_)) {
                connector.has_failed(driver.endpoint());
            }
            failure.answer(&location)
        })?;
        Ok(Session { driver, dialect, side, workers_checked: false, location, place, right: 0 })
    }

    /// Whether the connection leads to the server and the timeline of `known`.
    pub(super) fn is_in(&self, known: &Place) -> bool {
        (&self.place.server, &self.place.timeline) == (&known.server, &known.timeline)
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Asks the server which store this is.
    pub(super) fn identity(&mut self) -> Result<Identity, Failure> {
        let Standing { place, name, role } = self.driver.standing(self.side)?;
        self.place = place;
        self.compose(self.place.table.clone(), name, role)
    }

    /// Checks that the store is the one that the caller trusts.
    pub(super) fn check(&mut self, under: &Identity) -> Result<(), Failure> {
        Ok(self.identity()?.check(under, self.store())?)
    }

    /// The name that errors use for the store.
    pub(super) fn store(&self) -> &str {
        &self.location.store
    }

    /// The store's identity. The name in leafd's tables alone identifies a store. So it remains the same store when it
    /// fails over or is restored, but has another history then. Without leafd's tables only server and database
    /// identify it.
    pub(super) fn compose(
        &mut self,
        table: String,
        name: Option<String>,
        role: Option<String>,
    ) -> Result<Identity, Failure> {
        let Place { kind, server, timeline, .. } = &self.place;
        if !self.side {
            return Ok(Identity {
                id: StoreId(format!("{kind}:{server}").into()),
                history: History(format!("{table} {timeline}").trim_end().into()),
                role: Role::default(),
            });
        }
        let (Some(name), Some(role)) = (name, role) else {
            return Err(meta_incomplete(&self.location));
        };
        let mut parts = role.split(PARTS);
        let (role, losses) = (parts.next().unwrap_or_default(), parts.next().unwrap_or("0"));
        self.right = match parts.next() {
            None => 0,
            Some(right) => right.parse().map_err(|_| {
                self.location.refused_for(Why::ForeignValue, format_args!(
                    "has a value of \"role\" in leafd_meta that leafd did not write: it ends in {right:?} instead of a number"
                ))
            })?,
        };
        if self.dialect.embedded {
            return Ok(Identity {
                id: StoreId(format!("{kind}:{name}").into()),
                history: History::default(),
                role: Role(role.into()),
            });
        }
        let history = format!("{server} {table} {timeline}");
        Ok(Identity {
            id: StoreId(format!("{kind}:{name}").into()),
            history: History::with_losses(history.trim_end(), losses),
            role: Role(role.into()),
        })
    }

    /// Keeps others from changing the role.
    pub(super) fn lock_role(&mut self) -> Result<(), Failure> {
        match self.dialect.sql.lock_role {
            "" => Ok(()),
            lock => self.driver.execute(lock, &[]).map(drop),
        }
    }

    /// Records a role, and how many losses were declared.
    pub(super) fn set_role(&mut self, role: &Role, losses: &str) -> Result<(), Failure> {
        let value = format!("{}{PARTS}{losses}{PARTS}{}", role.0, self.right);
        self.driver.execute(self.dialect.sql.set_role, &[Param::Text(&value)])?;
        Ok(())
    }

    /// Records a role, and makes all rights to claim under the former role void. Once this is committed, no claim
    /// under the former role can be committed.
    ///
    /// A claim compares and sets the version of the right in leafd's own row of the tag, because in some clusters
    /// locks on other rows are local to a node. So this writes every such row. A claim that finds no such row, or one
    /// without the present right, first writes the row `right`, which this writes too, so that the two exclude each
    /// other.
    pub(super) fn change_right(&mut self, role: &Role, losses: &str) -> Result<(), Failure> {
        let former = self.right;
        self.right = former.saturating_add(1);
        self.set_role(role, losses)?;
        let value = self.right_value()?;
        self.driver.execute(self.dialect.sql.set_right, &[Param::Text(&value)])?;
        let versions = [Param::Integer(self.right), Param::Integer(former)];
        self.driver.execute(self.dialect.sql.move_rights, &versions)?;
        Ok(())
    }

    /// Takes the present right to claim for a tag whose row in leafd's table doesn't have it, see
    /// [`Session::change_right`].
    pub(super) fn take_right(&mut self) -> Result<(), Failure> {
        let (value, pattern) = (self.right_value()?, format!("{} %", self.right));
        let params = [Param::Text(&value), Param::Text(&pattern)];
        kept(self.driver.execute(self.dialect.sql.take_right, &params)?)
    }

    /// A value that differs each time, so that the row really changes.
    fn right_value(&self) -> Result<String, Failure> {
        let chance = crate::random::generation().map_err(StoreError::from)?;
        Ok(format!("{} {:016x}", self.right, chance.0))
    }

    /// How long ago the present history was first noticed, on the server's clock. Records it as noticed now if nobody
    /// has noticed it yet.
    pub(super) fn noticed(&mut self, history: &History) -> Result<Duration, Failure> {
        if let Some(age) = self.noted(history)? {
            return Ok(age);
        }
        // This query waits while the tables are locked, for instance during a restore. The settling time must not
        // begin while no host can report anything to the store.
        self.page(None, 1)?;
        // Another host may be recording it at this moment.
        self.lock_role()?;
        if let Some(age) = self.noted(history)? {
            return Ok(age);
        }
        if let Some(former) = self.meta("noticed")?.filter(|former| parse_note(former).is_none()) {
            tracing::warn!(
                store = %self.store(), value = former,
                "the value of \"noticed\" in leafd_meta is none that leafd wrote: since when the store has its history is \
                 unknown, and claims wait for failover_settle from now on"
            );
        }
        let now_ms = self.now_ms()?;
        self.note(history, now_ms)?;
        Ok(Duration::ZERO)
    }

    /// Records the history of a store whose tables were just made as noticed long ago, at time 0: the store can't have
    /// lost anything yet. This must happen before any claim. If this record is lost itself, the next host records a
    /// history that is new.
    pub(super) fn note_first(&mut self) -> Result<(), Failure> {
        self.lock_role()?;
        let history = self.identity()?.history;
        if self.noted(&history)?.is_none() {
            self.note(&history, 0)?;
        }
        Ok(())
    }

    fn note(&mut self, history: &History, noticed_ms: u64) -> Result<(), Failure> {
        let note = format!("{noticed_ms} {history}");
        self.driver.execute(self.dialect.sql.note, &[Param::Text(&note)])?;
        Ok(())
    }

    fn noted(&mut self, history: &History) -> Result<Option<Duration>, Failure> {
        let noted = self.meta("noticed")?;
        if let Some((ms, of)) = noted.as_deref().and_then(parse_note)
            && *of == *history.0
        {
            return Ok(Some(Duration::from_millis(self.now_ms()?.saturating_sub(ms))));
        }
        Ok(None)
    }

    /// The value of a name in `leafd_meta`.
    pub(super) fn meta(&mut self, entry: &str) -> Result<Option<String>, Failure> {
        let meta = self.driver.query(self.dialect.sql.meta, &[])?;
        let found = meta.into_iter().find(|row| name(row) == Some(entry));
        Ok(found.and_then(|row| row.into_iter().nth(1).flatten()))
    }

    /// The server's clock, in milliseconds of Unix time.
    pub(super) fn now_ms(&mut self) -> Result<u64, Failure> {
        let now =
            self.driver.query(self.dialect.sql.now_ms, &[])?.into_iter().flatten().next().flatten();
        let now = now.and_then(|now| now.parse().ok());
        now.ok_or_else(|| Failure::Rejected("the server doesn't report its time".to_owned()))
    }

    /// Checks the tables of workers, once for each connection. The tables of tags may exist without them.
    pub(super) fn require_workers(&mut self) -> Result<(), Failure> {
        let (dialect, location) = (self.dialect, &self.location);
        if !self.side {
            return Err(needs_side_tables(location, "leasing snowflake workers"));
        }
        // In a dialect whose tables are all made with the file, opening the file has checked them.
        if self.workers_checked || dialect.workers.tables.is_empty() {
            return Ok(());
        }
        let found = columns(&mut *self.driver, dialect)?;
        let tables = dialect.workers.tables.iter().map(|layout| layout.table);
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

/// When a history was noticed, in milliseconds of Unix time, and which.
fn parse_note(note: &str) -> Option<(u64, &str)> {
    let (ms, of) = note.split_once(' ')?;
    Some((ms.parse().ok()?, of))
}

pub(super) fn needs_side_tables(location: &Location, what: &str) -> Failure {
    let words = format!(
        "has only Leaf's table, or hides leafd's own tables from user {:?}: {what} needs them; create them with: leafd schema apply",
        location.user
    );
    Failure::Said(location.refused(words))
}
