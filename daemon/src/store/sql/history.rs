//! Records claims and workers, to show later who issued an id. Issuing doesn't depend on these records, but each is
//! written in the transaction that it records, so that no claim is missing.

use std::sync::Arc;
use std::time::Duration;

use super::session::Session;
use super::{Cells, SqlError, Store, params, statements};
use leafd_core::registry::{Former, Holder, Taking};
use leafd_core::store::{
    ClaimRecord, ClaimedBy, Generation, HostId, HostRecord, StartToken, StoreError,
};
use leafd_core::{Tag, UnixMs, WorkerId};
use leafd_wire::Run;
use leafd_wire::text::clean;

/// How far back to look for a host's last claim, in milliseconds; all claims since then are read.
const RECENT_CLAIMS_MS: i64 = 20 * 60_000;

impl Store {
    /// Up to `limit` recorded claims of a tag whose end is above `id`, ordered by their ends. They include the claims
    /// of a deleted tag of the same name.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if there is only Leaf's table; others as for every call.
    pub fn claims_after(
        &mut self,
        tag: &Tag,
        id: u64,
        limit: u32,
    ) -> Result<Vec<ClaimRecord>, StoreError> {
        let id = i64::try_from(id).unwrap_or(i64::MAX);
        self.read(|session| {
            session.require_side("finding out who claimed an id")?;
            let rows =
                session.driver.query(statements::CLAIMS, params![tag.as_str(), id, limit])?;
            let claims =
                rows.into_iter().map(|row| claim(row).ok_or_else(|| session.odd("leafd_claim")));
            claims.collect()
        })
    }

    /// Up to `limit` hosts that have used the store, in the order of their ids, after this one.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if there is only Leaf's table; others as for every call.
    pub fn hosts(&mut self, after: &str, limit: u32) -> Result<Vec<HostRecord>, StoreError> {
        self.read(|session| {
            session.require_side("listing hosts")?;
            let host = |row: Cells| {
                let [host, start, name, age] = row.try_into().ok()?;
                let start = StartToken(start?.into());
                let claimed_ms_ago = age.map(|ms: String| ms.parse().unwrap_or(0));
                let name = name.map(|name| clean(&name));
                Some(HostRecord { host: host?, start, name, claimed_ms_ago })
            };
            let rows =
                session.driver.query(statements::HOSTS, params![after, limit, RECENT_CLAIMS_MS])?;
            Ok(rows.into_iter().filter_map(host).collect())
        })
    }

    /// Deletes up to `limit` recorded claims of any tag that are older than `age` on the store's clock, the oldest
    /// first. Returns how many it deleted.
    ///
    /// # Errors
    /// As for every call.
    pub fn forget_claims(&mut self, age: Duration, limit: u32) -> Result<u64, StoreError> {
        let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        self.write(|session| match session.side {
            true => session.driver.execute(session.dialect.forget_claims, params![age_ms, limit]),
            false => Ok(0),
        })
    }
}

impl Session {
    /// Records that a host took a worker.
    pub(super) fn enter_taking(&mut self, worker: i64, taking: &Taking) -> Result<(), SqlError> {
        let Taking { holder: Holder { id, name, incarnation }, since, taken } = taking;
        let params = params![worker, *since, *taken, &**id, &**name, &*incarnation.0];
        self.driver.execute(statements::ENTER_TAKING, params).map(drop)
    }

    /// Who held a worker at an instant, and who took it next.
    pub(super) fn takings(&mut self, worker: WorkerId, at: UnixMs) -> Result<Former, SqlError> {
        let worker = i64::try_from(worker.0).unwrap_or(i64::MAX);
        let mut one = |sql: &str| {
            let row = self.row(sql, params![worker, at])?;
            row.map(|row| taking(row).ok_or_else(|| self.odd("leafd_worker_taken"))).transpose()
        };
        Ok(Former { taking: one(statements::TAKEN_BEFORE)?, next: one(statements::TAKEN_AFTER)? })
    }

    fn odd(&self, table: &str) -> SqlError {
        let words = format!("has a row in {table} that leafd did not write: repair it with SQL");
        SqlError::Said(self.location.refused(words))
    }
}

fn claim(row: Cells) -> Option<ClaimRecord> {
    let [first, end, stride, generation, host, name, holds_from, at] = row.try_into().ok()?;
    let number = |cell: Option<String>| cell?.parse::<u64>().ok();
    let (first, end, stride) = (number(first)?, number(end)?, number(stride)?);
    let steps = end.checked_sub(first)?.checked_sub(1)?.checked_div(stride)?;
    let run = Run {
        first,
        count: u32::try_from(steps.checked_add(1)?).ok()?,
        stride: u32::try_from(stride).ok()?,
    };
    (run.last() == Some(end - 1)).then_some(())?;
    let holds_from = holds_from.map(|cell| cell.parse::<u64>()).transpose().ok()?;
    let by = ClaimedBy { host: HostId(host?.into()), name: clean(&name?).into(), holds_from };
    // A generation uses all 64 bits.
    let generation = Generation(generation?.parse::<i64>().ok()?.cast_unsigned());
    Some(ClaimRecord { run, generation, by, at: UnixMs(number(at)?) })
}

fn taking(row: Cells) -> Option<Taking> {
    let [since, taken, id, name, incarnation] = row.try_into().ok()?;
    let instant = |cell: Option<String>| Some(UnixMs(cell?.parse().ok()?));
    let text = |cell: Option<String>| Some(Arc::<str>::from(clean(&cell?)));
    let holder =
        Holder { id: text(id)?, name: text(name)?, incarnation: StartToken(text(incarnation)?) };
    Some(Taking { holder, since: instant(since)?, taken: instant(taken)? })
}
