//! The calls of a [`Store`], each a transaction over a [`Driver`](super::Driver).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::calls::SqlStore;
use super::leases::Leases;
use super::rows::{self, name};
use super::session::{Session, needs_side_tables, wait_for_nodes};
use super::statements;
use super::tag_rows::TAGS_A_STATEMENT_MAX;
use super::{Param, SqlError};
use crate::registry::Registry;
use crate::store::Store;
use leafd_core::mask::KeyNumber;
use leafd_core::registry::Mode;
use leafd_core::store::{
    CheckIn, Claim, ClaimRecord, ClaimWish, ClaimedBy, Generation, History, HostId, Identity,
    NewTag, Role, StartToken, StaticUser, StoreError, TagChange, TagRow, TagTerms, judge_start,
    note_static_user, plan_claim,
};
use leafd_core::{Tag, WorkerId};

impl Store for SqlStore {
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

    fn is_settled(&mut self, under: &Identity) -> Result<Option<bool>, StoreError> {
        self.write(|session| {
            session.check(under)?;
            let settled = session.is_settled();
            if settled.is_some() {
                session.enter()?;
            }
            Ok(settled)
        })
    }

    fn renew(&mut self, under: &Identity, known: Option<&History>) -> Result<bool, StoreError> {
        self.write(|session| {
            session.check(under)?;
            if session.is_settled().is_none() {
                return Ok(false);
            }
            session.renew(known)?;
            Ok(true)
        })
    }

    fn trust(&mut self, known: &History, written: u64) {
        let mut own = self.own();
        own.trusts(known);
        own.remembered = Some((known.clone(), written));
    }

    fn written(&self, history: &History) -> u64 {
        self.own().proof.confirmed(history)
    }

    fn claim_as(
        &mut self,
        by: Option<&ClaimedBy>,
        under: &Identity,
        tag: &Tag,
        wish: ClaimWish,
    ) -> Result<Claim, StoreError> {
        let claimed = self.transact(|session| {
            let found = session.require_under(under, tag)?;
            let plan = plan_claim(&found.row, found.claimed_end, wish)?;
            // A strict tag has a claim for every request: too many records to keep.
            let by = by.filter(|_| !found.row.strict);
            session.move_max_id(&found, &plan, by)?;
            Ok(Claim {
                run: plan.run,
                step: plan.step,
                ceiling: found.row.ceiling,
                generation: found.row.generation,
                strict: found.row.strict,
                masked: found.row.masked,
            })
        });
        if let Err(SqlError::NoSuchName(_)) = claimed {
            // If another store answered, it says nothing that a tag is missing there.
            self.read(|session| session.check(under))?;
        }
        self.unless_unknown(tag, claimed)
    }

    fn claims_after(
        &mut self,
        tag: &Tag,
        id: u64,
        limit: u32,
    ) -> Result<Vec<ClaimRecord>, StoreError> {
        self.read(|session| session.claims_after(tag, id, limit))
    }

    fn forget_claims(&mut self, age: Duration, limit: u32) -> Result<u64, StoreError> {
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        self.write(|session| session.forget_claims(age_ms, limit))
    }

    fn show(&mut self, tag: &Tag) -> Result<TagRow, StoreError> {
        let found = self.read_once_more(|session| Ok(session.require(tag, false)?.row));
        self.unless_unknown(tag, found)
    }

    fn list(&mut self, after: Option<&Tag>, limit: u32) -> Result<Vec<TagRow>, StoreError> {
        let mut listed: Vec<TagRow> = Vec::new();
        let mut after = after.map(|tag| tag.as_str().to_owned());
        // Rows that are left out don't count; otherwise a page of nothing else would look like the end.
        while listed.len() < limit as usize {
            let asked = limit as usize - listed.len();
            let rows = self.read(|session| session.page(after.as_deref(), asked))?;
            let last = rows.len() < asked;
            if let Some(name) = rows.last().and_then(name) {
                if after.as_deref() == Some(name) {
                    let words = "has names in leaf_alloc that are not UTF-8: repair them with SQL";
                    return Err(self.location.refused(words));
                }
                after = Some(name.to_owned());
            }
            for row in rows {
                match rows::read(row) {
                    Ok(found) => listed.push(found.row),
                    Err(odd) => tracing::warn!(%odd, "left a row of leaf_alloc out of the list"),
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
                    Err(odd) => tracing::warn!(%odd, "left out a row of leafd_tag"),
                }
            }
            if last {
                break;
            }
        }
        Ok(ends)
    }

    fn claimed_end(&mut self, tag: &Tag) -> Result<u64, StoreError> {
        self.write(|session| match session.side {
            true => Ok(u64::try_from(session.claimed_end(tag)?).unwrap_or(0)),
            false => Ok(0),
        })
    }

    fn create(&mut self, under: &Identity, new: &NewTag) -> Result<TagRow, StoreError> {
        new.check()?;
        let generation = crate::random::generation()?;
        let masked = new.masked.map(|masking| masking.to_string());
        let outcome = self.write(|session| {
            if !session.side {
                return Err(needs_side_tables(&session.location, "creating a tag"));
            }
            let name = new.tag.as_str();
            let there = session.find_under(under, std::slice::from_ref(&new.tag), false)?;
            if let Some(row) = there.first() {
                return Err(taken(&new.tag, rows::name(row)));
            }
            // A row that doesn't exist can't be locked. So this makes one: then a host that reports an end of this
            // name comes entirely before or after.
            session.driver.execute(statements::ENTER_NAME, &[Param::Text(name)])?;
            let (claimed_end, former_mask) = session.former(&new.tag)?;
            new.check_above(claimed_end)?;
            if claimed_end > 0 {
                new.check_mask(former_mask.as_deref())?;
            }
            let description = new.description.as_deref().filter(|text| !text.is_empty());
            let row = [
                Param::Text(name),
                Param::Integer(new.start.cast_signed()),
                Param::Integer(new.step.cast_signed()),
                Param::OptionalText(description),
            ];
            session.driver.execute(statements::INSERT_ROW, &row).map_err(|failure| {
                match failure {
                    // Another host created it at the same moment.
                    SqlError::Duplicate(_) => {
                        SqlError::Said(StoreError::TagExists { tag: new.tag.clone() })
                    }
                    other => other,
                }
            })?;
            let side = [
                Param::Text(name),
                Param::Integer(generation.0.cast_signed()),
                Param::Integer(new.ceiling.cast_signed()),
                Param::Integer(i64::from(new.strict)),
                Param::OptionalText(masked.as_deref()),
            ];
            session.driver.execute(statements::ENTER_TAG, &side)?;
            Ok(session.require(&new.tag, false)?.row)
        })?;
        Ok(outcome)
    }

    fn set(&mut self, tag: &Tag, change: &TagChange) -> Result<TagRow, StoreError> {
        change.check()?;
        self.write(|session| {
            let name = Param::Text(tag.as_str());
            // Not `require`: it fails for a row whose step is unusable, and setting the step repairs such a row.
            if !session.is_there(tag)? {
                return Err(StoreError::UnknownTag { tag: tag.clone() }.into());
            }
            if let Some(step) = change.step {
                let params = [name, Param::Integer(step.cast_signed())];
                session.driver.execute(statements::SET_STEP, &params)?;
            }
            if let Some(text) = &change.description {
                let text = Some(text.as_str()).filter(|text| !text.is_empty());
                session
                    .driver
                    .execute(statements::SET_DESCRIPTION, &[name, Param::OptionalText(text)])?;
            }
            if let Some(ceiling) = change.ceiling {
                if !session.side {
                    return Err(needs_side_tables(&session.location, "a ceiling"));
                }
                let params = [name, Param::Integer(ceiling.cast_signed())];
                session.driver.execute(statements::SET_CEILING, &params)?;
            }
            let row = session.require(tag, false)?.row;
            row.check_masked()?;
            Ok(row)
        })
    }

    fn delete(&mut self, tag: &Tag, generation: Generation) -> Result<TagRow, StoreError> {
        let next = crate::random::generation()?;
        self.write(|session| {
            if !session.side {
                return Err(needs_side_tables(&session.location, "deleting a tag"));
            }
            let found = session.require(tag, true)?;
            found.row.check_generation(generation)?;
            let name = Param::Text(tag.as_str());
            session.driver.execute(statements::DELETE_ROW, &[name])?;
            let end = Param::Integer(found.row.max_id.max(found.claimed_end).max(0));
            let params = [name, Param::Integer(next.0.cast_signed()), end];
            session.driver.execute(statements::LEAVE_TOMBSTONE, &params)?;
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
            let rows = match self.read_once_more(|session| session.find_under(under, some, false)) {
                Err(SqlError::NoSuchName(_)) => {
                    answers.extend(self.look_up_one_by_one(under, some)?);
                    continue;
                }
                found => found.map_err(|failure| failure.answer(&self.location))?,
            };
            let named = rows.iter().filter_map(|row| Some((name(row)?, rows::terms(row))));
            let named: HashMap<&str, TagTerms> = named.collect();
            answers.extend(some.iter().map(|tag| named.get(tag.as_str()).copied()));
        }
        Ok(answers)
    }

    fn raise(
        &mut self,
        under: &Identity,
        ends: &[(Tag, u64)],
        masking: bool,
    ) -> Result<Vec<bool>, StoreError> {
        let mut answers = Vec::with_capacity(ends.len());
        for some in ends.chunks(TAGS_A_STATEMENT_MAX) {
            match self.transact(|session| session.lift(under, some, masking)) {
                Ok(lifted) => answers.extend(lifted),
                Err(SqlError::NoSuchName(_)) if some.len() > 1 => {
                    for one in some {
                        answers.extend(self.raise(under, std::slice::from_ref(one), masking)?);
                    }
                }
                // No row has this name, and none can.
                Err(SqlError::NoSuchName(_)) => answers.push(false),
                Err(failure) => return Err(failure.answer(&self.location)),
            }
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
        let checked_in = self.write(|session| {
            session.check(under)?;
            if !session.side {
                return Ok(Some((CheckIn::Unsupported, 0)));
            }
            let remembered = session.own().remembered.clone();
            let remembered = remembered.filter(|(of, _)| *of == under.history && !known.is_empty());
            let least = remembered.map_or(0, |(_, written)| written);
            let ((found, last), is_kept) = wait_for_nodes(|| {
                let rows = session.driver.query(statements::HOST_TOKEN, &[Param::Text(&host.0)])?;
                let mut cells = rows.into_iter().flatten();
                let found = cells.next().flatten();
                let last = cells.next().flatten().and_then(|last| last.parse().ok()).unwrap_or(0);
                Ok(((found, last), last >= least))
            })?;
            if !is_kept {
                session.renew(Some(&under.history))?;
                return Ok(None);
            }
            let (answer, replace) = judge_start(found.as_deref(), known, next);
            let written = last + u64::from(replace);
            if replace {
                let number = Param::Integer(written.cast_signed());
                let params = [Param::Text(&host.0), Param::Text(&next.0), number];
                session.driver.execute(statements::ENTER_HOST, &params)?;
            }
            Ok(Some((answer, written)))
        })?;
        let Some((answer, written)) = checked_in else {
            let (store, expected) = (self.location.store.clone(), under.clone());
            return Err(StoreError::Changed { store, expected, found: self.identity()? });
        };
        if matches!(answer, CheckIn::Current | CheckIn::New) {
            self.own().checked_in(host, next, &under.history, written);
        }
        self.own().remembered = None;
        Ok(answer)
    }

    fn conflicts(&self) -> Arc<AtomicU64> {
        self.conflicts.total()
    }

    fn note_mask_key(
        &mut self,
        under: &Identity,
        key: KeyNumber,
        check_value: u64,
    ) -> Result<u64, StoreError> {
        self.write(|session| {
            session.check(under)?;
            if !session.side {
                return Err(needs_side_tables(&session.location, "masking ids"));
            }
            let entry = format!("{}{key}", rows::MASK_KEY_ENTRY);
            if let Some(known) = session.meta(&entry)? {
                return parse_check_value(&entry, &known);
            }
            let value = format!("{check_value:016x}");
            let params = [Param::Text(&entry), Param::Text(&value)];
            session.driver.execute(statements::ENTER_META, &params)?;
            // Another host may have recorded its value first.
            let known = session.meta(&entry)?.unwrap_or_default();
            parse_check_value(&entry, &known)
        })
    }

    fn note_static_worker(
        &mut self,
        under: &Identity,
        worker: WorkerId,
        start: &StartToken,
        name: &str,
    ) -> Result<Vec<StaticUser>, StoreError> {
        self.write(|session| {
            // Two hosts do this one after the other, never at once.
            session.lock_role()?;
            session.check(under)?;
            if !session.side {
                return Ok(Vec::new());
            }
            let entry = format!("static_worker_{worker}");
            let (known, now_ms) = (session.meta(&entry)?, session.now_ms()?);
            let (text, others) =
                note_static_user(known.as_deref().unwrap_or_default(), now_ms, &start.0, name);
            let sql = if known.is_some() { statements::SET_META } else { statements::ENTER_META };
            session.driver.execute(sql, &[Param::Text(&entry), Param::Text(&text)])?;
            Ok(others)
        })
    }

    fn workers(&mut self, mode: Mode) -> Box<dyn Registry + '_> {
        Box::new(Leases { store: self, mode })
    }
}

fn parse_check_value(entry: &str, text: &str) -> Result<u64, SqlError> {
    u64::from_str_radix(text, 16).map_err(|_| {
        SqlError::Said(StoreError::refused(format!(
            "{entry} in leafd_meta is {text:?} and no check value: repair it from a backup"
        )))
    })
}

/// Why a tag can't be created when the look-up of its name finds this row.
fn taken(tag: &Tag, name: Option<&str>) -> SqlError {
    match name {
        Some(other) if other != tag.as_str() => SqlError::Said(StoreError::refused(format!(
            "tag {:?} can't be created beside {other:?}: the collation of leaf_alloc.biz_tag treats them as equal; use \
             another name, or give the column a collation that distinguishes them",
            tag.as_str()
        ))),
        _ => SqlError::Said(StoreError::TagExists { tag: tag.clone() }),
    }
}
