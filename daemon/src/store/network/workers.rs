//! The tables of workers in a store behind a network.

use std::time::Duration;

use super::session::Session;
use super::store::{NetworkStore, needs_side_tables};
use super::tables::{columns, refuse_different_workers};
use super::{Driver, Failure, Param, Target};
use crate::id::UnixMs;
use crate::registry::RegistryError;
use crate::store::History;
use crate::store::workers::{Cells, Statements, Tables, Work, WorkerStore};

/// How often a row may be found entered by others: hosts of Leaf's fork take no lock before they enter theirs.
const TRIES_MAX: u32 = 8;

impl<D: Driver> WorkerStore for NetworkStore<D> {
    type Failure = Failure;

    fn with_tables<T>(&mut self, work: &Work<'_, T, Failure>) -> Result<T, RegistryError> {
        let target = self.target.clone();
        let mut once = || {
            self.transact(|session| {
                session.require_workers(&target)?;
                let registry = session.identity()?.into();
                work(session, registry)
            })
        };
        let mut answer = once();
        for _ in 1..TRIES_MAX {
            // Somebody else entered the row after we looked for it: now it is there to be seen.
            let Err(Failure::Duplicate(_)) = answer else { break };
            answer = once();
        }
        answer.map_err(|failure| failure.answer(&target))?
    }
}

impl<D: Driver> Session<D> {
    /// Checks the tables of workers, once a connection: those of tags may be there without them.
    fn require_workers(&mut self, target: &Target) -> Result<(), Failure> {
        if !self.side {
            return Err(needs_side_tables(target, "giving numbers to snowflake workers"));
        }
        if self.workers_checked {
            return Ok(());
        }
        let found = columns(&mut self.driver)?;
        let tables = D::WORKERS.tables.iter().map(|layout| layout.table);
        let missing = tables.filter(|table| !found.iter().any(|[of, ..]| of == table));
        let missing: Vec<&str> = missing.collect();
        if !missing.is_empty() {
            let words = format!(
                "lacks {}, or hides it from user {:?}, so that no snowflake worker can be had there: make it with: leafd \
                 schema apply",
                missing.join(" and "),
                target.url.user
            );
            return Err(target.refused(words).into());
        }
        refuse_different_workers(&mut self.driver, target, &found)?;
        self.workers_checked = true;
        Ok(())
    }
}

impl<D: Driver> Tables for Session<D> {
    type Failure = Failure;

    fn sql(&self) -> &'static Statements {
        D::WORKERS
    }

    fn cells(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Cells>, Failure> {
        self.driver.query(sql, params)
    }

    fn run(&mut self, sql: &str, params: &[Param<'_>]) -> Result<(), Failure> {
        self.driver.execute(sql, params).map(drop)
    }

    fn clock(&mut self) -> Result<UnixMs, Failure> {
        self.now_ms().map(UnixMs)
    }

    fn history_age(&mut self, history: &History) -> Result<Option<Duration>, Failure> {
        self.noticed(history).map(Some)
    }
}
