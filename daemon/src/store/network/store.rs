//! A [`Store`] over a [`Driver`].

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::rows::{self, integer, name};
use super::session::{Session, TAGS_A_STATEMENT_MAX};
use super::tables::Layout;
use super::{Driver, Failure, Param, Target};
use crate::id::Tag;
use crate::registry::{Mode, Registry};
use crate::store::claim::draw_generation;
use crate::store::workers::Workers;
use crate::store::{
    CheckIn, Claim, ClaimWish, Generation, HostId, Identity, NewTag, Role, StartToken, Store,
    StoreError, TagChange, TagRow, TagTerms, judge_start, plan_claim,
};

/// A store on a server of its own. Making one connects to nothing: the first call does.
#[derive(Debug)]
pub struct NetworkStore<D> {
    pub(super) target: Target,
    tables: &'static [Layout],
    session: Option<Session<D>>,
    /// Whether it was said that there is only Leaf's table.
    warned: bool,
}

impl<D: Driver> NetworkStore<D> {
    pub(in crate::store) fn new(target: Target, tables: &'static [Layout]) -> Self {
        NetworkStore { target, tables, session: None, warned: false }
    }

    /// To be called when the tables were just made, by whoever made them: nobody has to wait then for what this history
    /// may have lost.
    pub(in crate::store) fn note_first_history(&mut self) -> Result<(), StoreError> {
        self.write(Session::note_first)
    }

    /// Runs `work` in one transaction and commits it. Any failure rolls back.
    fn write<T>(
        &mut self,
        work: impl FnOnce(&mut Session<D>) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        self.transact(work).map_err(|failure| failure.answer(&self.target))
    }

    /// The same, with the failure as it was.
    pub(super) fn transact<T>(
        &mut self,
        work: impl FnOnce(&mut Session<D>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        loop {
            let stale = self.session.is_some();
            let session = self.ready()?;
            let begun = session.driver.execute(D::SQL.begin, &[]);
            match begun {
                Ok(_) => break,
                // The server was restarted since the last call, say. Nothing was done yet.
                Err(Failure::Lost(_)) if stale => self.session = None,
                Err(failure) => return Err(self.failed(failure).into()),
            }
        }
        let Some(session) = &mut self.session else {
            return Err(self.target.unavailable("the connection was lost").into());
        };
        let result = work(session).and_then(|value| {
            session.driver.execute("COMMIT", &[])?;
            Ok(value)
        });
        match result {
            Ok(value) => Ok(value),
            Err(failure) => {
                let ends = failure.ends_connection();
                if ends || session.driver.execute("ROLLBACK", &[]).is_err() {
                    self.session = None;
                }
                Err(failure)
            }
        }
    }

    /// Runs `work`, which changes nothing, and once more if the connection turns out to be gone.
    fn read<T>(
        &mut self,
        work: impl Fn(&mut Session<D>) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        loop {
            let stale = self.session.is_some();
            match work(self.ready()?) {
                Err(Failure::Lost(_)) if stale => self.session = None,
                result => return result.map_err(|failure| self.failed(failure)),
            }
        }
    }

    fn failed(&mut self, failure: Failure) -> StoreError {
        if failure.ends_connection() {
            self.session = None;
        }
        failure.answer(&self.target)
    }

    /// The connection, opened if there is none, with the time for this call running.
    fn ready(&mut self) -> Result<&mut Session<D>, StoreError> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.connect()?,
        };
        session.driver.set_deadline(Instant::now() + self.target.statement_timeout);
        Ok(self.session.insert(session))
    }

    fn connect(&mut self) -> Result<Session<D>, StoreError> {
        let session = Session::open(&self.target, self.tables)?;
        if !session.side && !self.warned {
            tracing::warn!(
                store = %self.target.url,
                "the store has only Leaf's table: deleted tags, ceilings and copied hosts go unnoticed, and no tag \
                 can be created; add leafd's tables with: leafd schema apply"
            );
            self.warned = true;
        }
        Ok(session)
    }

    /// Records a role if `judge` says so of what the store is, told what errors call it. No claim is under way then.
    fn record_role(
        &mut self,
        role: &Role,
        judge: impl FnOnce(Identity, &str) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        role.check()?;
        let no_role = self.needs_side_tables("a role among several stores");
        self.write(|session| {
            if session.side {
                session.driver.execute(D::SQL.lock_role, &[])?;
            }
            let found = session.identity()?;
            if !judge(found.clone(), &session.store())? {
                return Ok(());
            }
            if !session.side {
                return Err(no_role);
            }
            let losses = found.history.losses().to_owned();
            session.set_role(role, &losses)
        })
    }

    fn needs_side_tables(&self, what: &str) -> Failure {
        needs_side_tables(&self.target, what)
    }
}

pub(super) fn needs_side_tables(target: &Target, what: &str) -> Failure {
    let words = format!(
        "has only Leaf's table, or hides leafd's own from user {:?}: {what} needs them; make them with: leafd schema apply",
        target.url.user
    );
    Failure::Said(target.refused(words))
}

impl<D: Driver> Store for NetworkStore<D> {
    fn identity(&mut self) -> Result<Identity, StoreError> {
        self.read(Session::identity)
    }

    fn take_role(&mut self, under: &Identity, role: &Role) -> Result<(), StoreError> {
        self.record_role(role, |found, store| found.may_take(role, under, store))
    }

    fn replace_role(&mut self, under: &Identity, role: &Role) -> Result<(), StoreError> {
        self.record_role(role, |found, store| {
            found.check(under, store).map(|()| under.role != *role)
        })
    }

    fn note_history(&mut self, under: &Identity) -> Result<Option<Duration>, StoreError> {
        self.write(|session| {
            session.check(under)?;
            match session.side {
                true => session.noticed(&under.history).map(Some),
                false => Ok(None),
            }
        })
    }

    fn declare_loss(&mut self, under: &Identity) -> Result<bool, StoreError> {
        self.write(|session| {
            if !session.side {
                return Ok(false);
            }
            session.driver.execute(D::SQL.lock_role, &[])?;
            session.check(under)?;
            let losses = under.history.losses().parse::<u64>().unwrap_or(0).saturating_add(1);
            session.set_role(&under.role, &losses.to_string())?;
            Ok(true)
        })
    }

    fn claim(&mut self, under: &Identity, tag: &Tag, wish: ClaimWish) -> Result<Claim, StoreError> {
        self.write(|session| {
            let found = session.require_under(under, tag)?;
            let plan = plan_claim(&found.row, found.claimed_end, wish)?;
            session.move_max_id(&found, plan.max_id)?;
            Ok(Claim {
                numbers: plan.numbers,
                step: plan.step,
                ceiling: found.row.ceiling,
                generation: found.row.generation,
                strict: found.row.strict,
            })
        })
    }

    fn show(&mut self, tag: &Tag) -> Result<TagRow, StoreError> {
        self.read(|session| Ok(session.require(tag, false)?.row))
    }

    fn list(&mut self, after: Option<&Tag>, limit: u32) -> Result<Vec<TagRow>, StoreError> {
        let mut listed: Vec<TagRow> = Vec::new();
        let mut after = after.map(|tag| tag.as_str().to_owned());
        // Rows that are left out don't count, or a page of them would look like the end.
        while listed.len() < limit as usize {
            let asked = limit as usize - listed.len();
            let rows = self.read(|session| session.page(after.as_deref(), asked))?;
            let last = rows.len() < asked;
            if let Some(name) = rows.last().and_then(name) {
                after = Some(name.to_owned());
            }
            for row in rows {
                match rows::read(row) {
                    Ok(found) => listed.push(found.row),
                    Err(odd) => tracing::warn!(%odd, "a row of leaf_alloc is left out of the list"),
                }
            }
            if last {
                break;
            }
        }
        Ok(listed)
    }

    fn ends(&mut self, after: Option<&Tag>, limit: u32) -> Result<Vec<(Tag, u64)>, StoreError> {
        let mut ends = Vec::new();
        let mut after = after.map_or_else(String::new, |tag| tag.as_str().to_owned());
        // Names that are left out don't count here either.
        while ends.len() < limit as usize {
            let asked = limit as usize - ends.len();
            let rows = self.read(|session| session.page_of_ends(&after, asked))?;
            let last = rows.len() < asked;
            if let Some(name) = rows.last().and_then(name) {
                after = name.to_owned();
            }
            for row in rows {
                match rows::remembered(row) {
                    Ok(end) => ends.push(end),
                    Err(odd) => tracing::warn!(%odd, "a row of leafd_tag is left out"),
                }
            }
            if last {
                break;
            }
        }
        Ok(ends)
    }

    fn create(&mut self, new: &NewTag) -> Result<TagRow, StoreError> {
        new.check()?;
        let generation = draw_generation()?;
        let target = self.target.clone();
        let outcome = self.write(|session| {
            if !session.side {
                return Err(needs_side_tables(&target, "creating a tag"));
            }
            let name = new.tag.as_str();
            let there = session.find_all(std::slice::from_ref(&new.tag), false)?.rows;
            if let Some(row) = there.first() {
                return Err(taken(&new.tag, rows::name(row)));
            }
            let claimed_end = session.driver.query(D::SQL.claimed_end, &[Param::Text(name)])?;
            let claimed_end = claimed_end.into_iter().flatten().next().flatten();
            let claimed_end =
                integer("highest_end", claimed_end, Some(0)).map_err(Failure::Rejected)?;
            new.check_above(claimed_end)?;
            let description = new.description.as_deref().filter(|text| !text.is_empty());
            let row = [
                Param::Text(name),
                Param::Integer(new.start.cast_signed()),
                Param::Integer(new.step.cast_signed()),
                Param::OptionalText(description),
            ];
            session.driver.execute(D::SQL.insert_row, &row).map_err(|failure| match failure {
                // Somebody else was faster.
                Failure::Duplicate(_) => {
                    Failure::Said(StoreError::TagExists { tag: new.tag.clone() })
                }
                other => other,
            })?;
            let side = [
                Param::Text(name),
                Param::Integer(generation.cast_signed()),
                Param::Integer(new.ceiling.cast_signed()),
                Param::Integer(i64::from(new.strict)),
            ];
            session.driver.execute(D::SQL.enter_tag, &side)?;
            Ok(session.require(&new.tag, false)?.row)
        })?;
        Ok(outcome)
    }

    fn set(&mut self, tag: &Tag, change: &TagChange) -> Result<TagRow, StoreError> {
        change.check()?;
        let no_ceiling = self.needs_side_tables("a ceiling");
        self.write(|session| {
            let name = Param::Text(tag.as_str());
            // Not `require`: a row with an odd step is repaired by setting the step.
            if !session.is_there(tag)? {
                return Err(StoreError::UnknownTag { tag: tag.clone() }.into());
            }
            if let Some(step) = change.step {
                let params = [name, Param::Integer(step.cast_signed())];
                session.driver.execute(D::SQL.set_step, &params)?;
            }
            if let Some(text) = &change.description {
                let text = Some(text.as_str()).filter(|text| !text.is_empty());
                session
                    .driver
                    .execute(D::SQL.set_description, &[name, Param::OptionalText(text)])?;
            }
            if let Some(ceiling) = change.ceiling {
                if !session.side {
                    return Err(no_ceiling);
                }
                let params = [name, Param::Integer(ceiling.cast_signed())];
                session.driver.execute(D::SQL.set_ceiling, &params)?;
            }
            Ok(session.require(tag, false)?.row)
        })
    }

    fn delete(&mut self, tag: &Tag, generation: Generation) -> Result<TagRow, StoreError> {
        let next = draw_generation()?;
        let no_tombstone = self.needs_side_tables("deleting a tag");
        self.write(|session| {
            if !session.side {
                return Err(no_tombstone);
            }
            let found = session.require(tag, true)?;
            found.row.check_generation(generation)?;
            let name = Param::Text(tag.as_str());
            session.driver.execute(D::SQL.delete_row, &[name])?;
            let end = Param::Integer(found.row.max_id.max(found.claimed_end).max(0));
            let params = [name, Param::Integer(next.cast_signed()), end];
            session.driver.execute(D::SQL.leave_tombstone, &params)?;
            Ok(found.row)
        })
    }

    fn look_up(
        &mut self,
        under: &Identity,
        tags: &[Tag],
    ) -> Result<Vec<Option<TagTerms>>, StoreError> {
        let mut answers = Vec::with_capacity(tags.len());
        for some in tags.chunks(TAGS_A_STATEMENT_MAX) {
            let rows = self.read(|session| session.find_under(under, some, false))?;
            let named = rows.iter().filter_map(|row| Some((name(row)?, rows::terms(row))));
            let named: HashMap<&str, TagTerms> = named.collect();
            answers.extend(some.iter().map(|tag| named.get(tag.as_str()).copied()));
        }
        Ok(answers)
    }

    fn raise(&mut self, under: &Identity, ends: &[(Tag, u64)]) -> Result<Vec<bool>, StoreError> {
        let mut answers = Vec::with_capacity(ends.len());
        for some in ends.chunks(TAGS_A_STATEMENT_MAX) {
            answers.extend(self.write(|session| session.lift(under, some))?);
        }
        Ok(answers)
    }

    fn check_in(
        &mut self,
        under: &Identity,
        host: &HostId,
        known: &[StartToken],
        next: &StartToken,
    ) -> Result<CheckIn, StoreError> {
        self.write(|session| {
            session.check(under)?;
            if !session.side {
                return Ok(CheckIn::Unsupported);
            }
            let rows = session.driver.query(D::SQL.host_token, &[Param::Text(&host.0)])?;
            let found = rows.into_iter().flatten().next().flatten();
            let (answer, replace) = judge_start(found.as_deref(), known, next);
            if replace {
                let params = [Param::Text(&host.0), Param::Text(&next.0)];
                session.driver.execute(D::SQL.enter_host, &params)?;
            }
            Ok(answer)
        })
    }

    fn workers(&mut self, mode: Mode) -> Box<dyn Registry + '_> {
        Box::new(Workers { store: self, mode })
    }
}

/// Why a tag can't be created where its key finds this row.
fn taken(tag: &Tag, name: Option<&str>) -> Failure {
    match name {
        Some(other) if other != tag.as_str() => Failure::Said(StoreError::Refused(format!(
            "tag {:?} can't be created beside {other:?}: the collation of leaf_alloc.biz_tag takes them for the same; use \
             another name, or give the column a collation that tells them apart",
            tag.as_str()
        ))),
        _ => Failure::Said(StoreError::TagExists { tag: tag.clone() }),
    }
}
