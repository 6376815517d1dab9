//! A [`Store`] over a [`Driver`].

use std::time::Instant;

use super::rows::{self, Found, integer, same_tag};
use super::tables::{Layout, Side, check_tables};
use super::{Driver, Failure, Param, Target};
use crate::id::Tag;
use crate::store::claim::draw_generation;
use crate::store::{
    CheckIn, Claim, ClaimWish, Generation, HostId, NewTag, StartToken, Store, StoreError, StoreId,
    TagChange, TagRow, judge_start, plan_claim,
};

/// A store on a server of its own. Making one connects to nothing: the first call does.
#[derive(Debug)]
pub struct NetworkStore<D> {
    target: Target,
    tables: &'static [Layout],
    /// Which store it was at first. What was claimed is counted under that name, so that another one that
    /// takes its place must not be used.
    identity: Option<StoreId>,
    session: Option<Session<D>>,
}

#[derive(Debug)]
struct Session<D> {
    driver: D,
    /// Whether there are side tables.
    side: bool,
}

/// Most tags in one query for generations.
const TAGS_A_QUERY_MAX: usize = 200;

impl<D: Driver> NetworkStore<D> {
    pub(in crate::store) fn new(target: Target, tables: &'static [Layout]) -> Self {
        NetworkStore { target, tables, identity: None, session: None }
    }

    /// Runs `work` in one transaction and commits it. Any failure rolls back.
    fn write<T>(
        &mut self,
        work: impl FnOnce(&mut Session<D>) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        loop {
            let stale = self.session.is_some();
            let session = self.ready()?;
            let begun = session.driver.execute(D::SQL.begin, &[]);
            match begun {
                Ok(_) => break,
                // The server was restarted since the last call, say. Nothing was done yet.
                Err(Failure::Lost(_)) if stale => self.session = None,
                Err(failure) => return Err(self.failed(failure)),
            }
        }
        let Some(session) = &mut self.session else {
            return Err(self.target.unavailable("the connection was lost"));
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
                Err(failure.answer(&self.target))
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
        let mut driver = D::connect(&self.target)?;
        driver.set_deadline(Instant::now() + self.target.statement_timeout);
        let (place, side) = driver
            .place()
            .and_then(|place| Ok((place, check_tables(&mut driver, &self.target, self.tables)?)))
            .map_err(|failure| failure.answer(&self.target))?;
        let (name, has_side) = match &side {
            Side::Tables(name) => (name.as_str(), true),
            Side::None => ("unnamed", false),
        };
        let identity = StoreId(format!("{place} {name}").into());
        match &self.identity {
            Some(first) if *first != identity => {
                return Err(self.target.refused(
                    "is another database, or has another table, than while it was in use: put the first one back, or \
                     restart the daemon to use this one",
                ));
            }
            Some(_) => {}
            None => {
                if !has_side {
                    tracing::warn!(
                        store = %self.target.url,
                        "the store has only Leaf's table: deleted tags, ceilings and copied hosts go unnoticed, and no tag \
                         can be created; add leafd's tables with: leafd schema apply"
                    );
                }
                self.identity = Some(identity);
            }
        }
        Ok(Session { driver, side: has_side })
    }

    fn needs_side_tables(&self, what: &str) -> Failure {
        needs_side_tables(&self.target, what)
    }
}

fn needs_side_tables(target: &Target, what: &str) -> Failure {
    let words = format!(
        "has only Leaf's table, or hides leafd's own from user {:?}: {what} needs leafd_tag; make it with: leafd schema apply",
        target.url.user
    );
    Failure::Said(target.refused(words))
}

impl<D: Driver> Session<D> {
    fn find(&mut self, tag: &Tag, lock: bool) -> Result<Option<Found>, Failure> {
        let sql = if self.side { D::SQL.find } else { D::SQL.find_plain };
        let params = [Param::Text(tag.as_str())];
        let rows = match lock {
            true => self.driver.query_locked(D::SQL.lock, sql, &params)?,
            false => self.driver.query(sql, &params)?,
        };
        same_tag(rows, tag)
    }

    fn require(&mut self, tag: &Tag, lock: bool) -> Result<Found, Failure> {
        self.find(tag, lock)?
            .ok_or_else(|| Failure::Said(StoreError::UnknownTag { tag: tag.clone() }))
    }

    /// Writes a tag's first unclaimed number to its row, which is locked, and to what is remembered when the
    /// row is gone.
    fn move_max_id(&mut self, found: &Found, max_id: i64) -> Result<(), Failure> {
        let name = found.row.tag.as_str();
        let remember = [Param::Text(name), Param::Integer(max_id)];
        if max_id == found.row.max_id {
            // A row's change to what it is already wouldn't count as one everywhere.
            if self.side {
                self.driver.execute(D::SQL.remember_end, &remember)?;
            }
            return Ok(());
        }
        let set = [Param::Text(name), Param::Integer(found.row.max_id), Param::Integer(max_id)];
        let changed = match self.side {
            true => self
                .driver
                .execute_both((D::SQL.set_max_id, &set), (D::SQL.remember_end, &remember))?,
            false => self.driver.execute(D::SQL.set_max_id, &set)?,
        };
        if changed != 1 {
            return Err(Failure::Busy(format!(
                "moving tag {name:?} changed {changed} rows of leaf_alloc where it must be 1; a rule or trigger of \
                 that table may be in the way"
            )));
        }
        Ok(())
    }

    fn generations(&mut self, tags: &[Tag]) -> Result<Vec<Option<Generation>>, Failure> {
        let head = if self.side { D::SQL.generations } else { D::SQL.generations_plain };
        let list: Vec<String> = (1..=tags.len()).map(D::placeholder).collect();
        let params: Vec<Param<'_>> = tags.iter().map(|tag| Param::Text(tag.as_str())).collect();
        let rows = self.driver.query(&format!("{head} ({})", list.join(", ")), &params)?;
        let mut there = std::collections::HashMap::new();
        for row in rows {
            let mut cells = row.into_iter();
            let (Some(Some(name)), generation) = (cells.next(), cells.next().flatten()) else {
                continue;
            };
            let generation =
                integer("generation", generation, Some(0)).map_err(Failure::Rejected)?;
            there.insert(name, Generation(generation.cast_unsigned()));
        }
        Ok(tags.iter().map(|tag| there.get(tag.as_str()).copied()).collect())
    }
}

impl<D: Driver> Store for NetworkStore<D> {
    fn identity(&mut self) -> Result<StoreId, StoreError> {
        self.ready()?;
        self.identity.clone().ok_or_else(|| self.target.unavailable("it gave no name"))
    }

    fn claim(&mut self, tag: &Tag, wish: ClaimWish) -> Result<Claim, StoreError> {
        self.write(|session| {
            let found = session.require(tag, true)?;
            let plan = plan_claim(&found.row, found.claimed_end, wish)?;
            session.move_max_id(&found, plan.max_id)?;
            Ok(Claim {
                numbers: plan.numbers,
                step: plan.step,
                ceiling: found.row.ceiling,
                generation: found.row.generation,
            })
        })
    }

    fn show(&mut self, tag: &Tag) -> Result<TagRow, StoreError> {
        self.read(|session| Ok(session.require(tag, false)?.row))
    }

    fn list(&mut self, after: Option<&Tag>, limit: u32) -> Result<Vec<TagRow>, StoreError> {
        let mut listed: Vec<TagRow> = Vec::new();
        let mut after = after.map_or("", Tag::as_str).to_owned();
        // Rows that are left out don't count, or a page of them would look like the end.
        while listed.len() < limit as usize {
            let asked = limit as usize - listed.len();
            let rows = self.read(|session| {
                let sql = if session.side { D::SQL.list } else { D::SQL.list_plain };
                let limit = Param::Integer(i64::try_from(asked).unwrap_or(i64::MAX));
                session.driver.query(sql, &[Param::Text(&after), limit])
            })?;
            let last = rows.len() < asked;
            if let Some(Some(name)) = rows.last().and_then(|row| row.first()) {
                after.clone_from(name);
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

    fn create(&mut self, new: &NewTag) -> Result<TagRow, StoreError> {
        new.check()?;
        let generation = draw_generation()?;
        let target = self.target.clone();
        let outcome = self.write(|session| {
            if !session.side {
                return Err(needs_side_tables(&target, "creating a tag"));
            }
            let name = new.tag.as_str();
            let there = session.driver.query(D::SQL.find, &[Param::Text(name)])?;
            if let Some(row) = there.first() {
                return Err(taken(&new.tag, row.first().cloned().flatten()));
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
            if session.generations(std::slice::from_ref(tag))? == [None] {
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

    fn generations(&mut self, tags: &[Tag]) -> Result<Vec<Option<Generation>>, StoreError> {
        let mut answers = Vec::with_capacity(tags.len());
        for some in tags.chunks(TAGS_A_QUERY_MAX) {
            answers.extend(self.read(|session| session.generations(some))?);
        }
        Ok(answers)
    }

    fn raise(&mut self, tag: &Tag, end: u64) -> Result<(), StoreError> {
        // There are no numbers beyond: nothing more than the largest value can be asked for.
        let end = i64::try_from(end).unwrap_or(i64::MAX);
        self.write(|session| {
            let found = session.require(tag, true)?;
            let remembered = found.claimed_end >= end || !session.side;
            if found.row.max_id >= end && remembered {
                return Ok(());
            }
            session.move_max_id(&found, found.row.max_id.max(end))
        })
    }

    fn check_in(
        &mut self,
        host: &HostId,
        known: &[StartToken],
        next: &StartToken,
    ) -> Result<CheckIn, StoreError> {
        self.write(|session| {
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
}

/// Why a tag can't be created where its key finds this row.
fn taken(tag: &Tag, name: Option<String>) -> Failure {
    match name {
        Some(other) if other != tag.as_str() => Failure::Said(StoreError::Refused(format!(
            "tag {:?} can't be created beside {other:?}: the collation of leaf_alloc.biz_tag takes them for the same; use \
             another name, or give the column a collation that tells them apart",
            tag.as_str()
        ))),
        _ => Failure::Said(StoreError::TagExists { tag: tag.clone() }),
    }
}
