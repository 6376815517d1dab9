//! The calls of a [`Store`], each a transaction over a [`Driver`](super::Driver).

use std::collections::HashMap;
use std::sync::Arc;

use super::leases::Leases;
use super::rows::{self, name};
use super::session::{Session, parse, text, wait_for_nodes};
use super::statements;
use super::tag_rows::TAGS_A_STATEMENT_MAX;
use super::{Cells, SqlError, Store, params};
use crate::clock;
use crate::registry::Registry;
use leafd_core::mask::KeyNumber;
use leafd_core::registry::Mode;
use leafd_core::segment::Arrivals;
use leafd_core::series::{Sample, Series};
use leafd_core::store::{
    CheckIn, Claim, ClaimWish, ClaimedBy, Generation, History, HoldPlan, HostId, Identity, NewTag,
    Role, StartToken, StaticUser, StoreError, TagChange, TagRow, TagTerms, judge_start, next_start,
    note_static_user, plan_claim, plan_hold,
};
use leafd_core::{Tag, UnixMs, WorkerId};

/// The most series of document numbers in a store.
const SERIES_MAX: usize = 1_000;

impl Store {
    /// The identity of the store that answers. The server is asked each time.
    ///
    /// # Errors
    /// [`StoreError`], as for every call. [`StoreError::Unavailable`] also when the server no longer takes writes.
    pub fn identity(&mut self) -> Result<Identity, StoreError> {
        self.read(Session::identity)
    }

    /// Checks, without claiming, that this user has the privileges that claims need. It doesn't check the right to
    /// record claims, which not every host needs.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if a privilege is missing; others as for every call.
    pub fn check_privileges(&mut self) -> Result<(), StoreError> {
        self.read(|session| {
            let tables = if session.side { statements::NEED_PRIVILEGES.len() } else { 1 };
            let calls = statements::NEED_PRIVILEGES.map(|sql| (sql, &[][..]));
            session.driver.query_together(&calls[..tables]).map(drop)
        })
    }

    /// Records this store's role among several stores, if no role is recorded yet. Recording the same role again is not
    /// an error. The role in `under` is ignored.
    ///
    /// Waits for pending claims under another role.
    ///
    /// # Errors
    /// [`StoreError::Changed`] under another store or history; [`StoreError::Refused`] when another role is recorded
    /// (the text names both), when `role` is invalid, and when there is only Leaf's table; others as for every call.
    pub fn take_role(&mut self, under: &Identity, role: &Role) -> Result<(), StoreError> {
        self.record_role(role, |found, store| found.may_take(role, under, store))
    }

    /// Replaces the role in `under` by another one, at the operator's request.
    ///
    /// When this returns, no claim under the former role is pending or can still be made. So the ends that
    /// [`Store::look_up`] then returns stay the same until a host claims under the new role.
    ///
    /// # Errors
    /// [`StoreError::Changed`] when the store is not what `under` says, its role included; [`StoreError::Refused`]
    /// when `role` is invalid, and when there is only Leaf's table; others as for every call.
    pub fn replace_role(&mut self, under: &Identity, role: &Role) -> Result<(), StoreError> {
        self.record_role(role, |found, store| {
            found.check(under, store).map(|()| under.role != *role)
        })
    }

    /// Whether claims were made in the store's current life. If so, it is too late for hosts to report what they have
    /// seen. Also records this host in that life, so that its next writes prove that this one is kept. `None` for an
    /// embedded store, which has no history, and if there is only Leaf's table, which can't store one.
    ///
    /// # Errors
    /// [`StoreError::Changed`]; others as for every call.
    pub fn is_settled(&mut self, under: &Identity) -> Result<Option<bool>, StoreError> {
        self.write(|session| {
            session.check(under)?;
            let settled = session.is_settled();
            if settled.is_some() {
                session.enter()?;
            }
            Ok(settled)
        })
    }

    /// Begins a new life of the store, because it has lost commits, or may have: from now on the store shows another
    /// history to all hosts. `known` is the history that this host trusts. Returns false if that can't be recorded,
    /// because there is only Leaf's table, and if the store is embedded, because no other host uses it.
    ///
    /// # Errors
    /// [`StoreError::Changed`], also when another host has begun a new life meanwhile; others as for every call.
    pub fn renew(&mut self, under: &Identity, known: Option<&History>) -> Result<bool, StoreError> {
        self.write(|session| {
            session.check(under)?;
            if session.is_settled().is_none() {
                return Ok(false);
            }
            session.renew(known)?;
            Ok(true)
        })
    }

    /// This host trusts this history, in which its last write had this number or a later one. If several servers
    /// answer, a former one is not used.
    pub fn trust(&mut self, known: &History, written: u64) {
        let mut own = self.own();
        own.trusts(known);
        own.remembered = Some((known.clone(), written));
    }

    /// The server at the other end of the connection, as the URL names it; `None` without a connection, and for a file.
    pub fn server(&self) -> Option<String> {
        let endpoint = self.session.as_ref()?.driver.endpoint();
        Some(endpoint.to_owned()).filter(|endpoint| !endpoint.is_empty())
    }

    /// The number of this host's last confirmed write in a history; 0 if there is none.
    pub fn written(&self, history: &History) -> u64 {
        self.own().proof.confirmed(history)
    }

    /// Claims numbers of a tag in one transaction that is durable when this returns.
    ///
    /// [`leafd_core::store::plan_claim`] decides what is claimed. A claim never takes ids that the store records as
    /// claimed, even if the row was set back by hand. A strict tag's claim also covers the `arrivals` up to its commit.
    /// If it is unknown whether the commit happened, the call fails and the range is never used.
    ///
    /// # Errors
    /// [`StoreError::Changed`];
    /// [`StoreError::UnknownTag`] unless there is a row of this tag, equal byte for byte;
    /// [`StoreError::Exhausted`] when nothing is left below the ceiling;
    /// [`StoreError::Held`] when another host holds the strict tag, see [`leafd_core::store::plan_hold`]; others as for
    /// every call.
    pub fn claim(
        &mut self,
        by: Option<&ClaimedBy>,
        under: &Identity,
        tag: &Tag,
        wish: ClaimWish,
        arrivals: Option<&Arrivals>,
    ) -> Result<Claim, StoreError> {
        let claimed = self.transact(|session| {
            let found = session.require_under(under, tag)?;
            let plan = match arrivals {
                Some(arrivals) => arrivals.plan(&found.row, found.claimed_end, wish)?,
                None => plan_claim(&found.row, found.claimed_end, wish)?,
            };
            let end = next_start(found.row.max_id, found.claimed_end);
            let (holding, strictness) = match plan_hold(found.strictness, end, wish.hold) {
                HoldPlan::Claim { holding, number } => (holding, number),
                HoldPlan::Wait { ms, number } => {
                    // The record that the tag is wanted.
                    let set = params![tag.as_str(), number];
                    let change = [(statements::SET_STRICTNESS, &set[..])];
                    session.commit(if number == found.strictness { &[] } else { &change })?;
                    return Ok(Err(StoreError::Held { tag: tag.clone(), end, ms }));
                }
            };
            // A strict tag has a claim for every request, which would be too many records.
            let by = by.filter(|_| !found.row.strict);
            session.commit_claim(&found, &plan, strictness, by)?;
            Ok(Ok(Claim {
                holding,
                run: plan.run,
                step: plan.step,
                ceiling: found.row.ceiling,
                generation: found.row.generation,
                strict: found.row.strict,
                masked: found.row.masked,
            }))
        });
        if let Err(SqlError::NoSuchName(_)) = claimed {
            // If another store answered, it means nothing that the tag is missing there.
            self.read(|session| session.check(under))?;
        }
        self.unless_unknown(tag, claimed)?
    }

    /// One tag's row.
    ///
    /// # Errors
    /// [`StoreError::UnknownTag`], and others as for every call.
    pub fn show(&mut self, tag: &Tag) -> Result<TagRow, StoreError> {
        let found = self.read_once_more(|session| Ok(session.require(tag, false)?.row));
        self.unless_unknown(tag, found)
    }

    /// Up to `limit` rows after `after`, in the order of the table's key, so that the cost of a page depends on its
    /// length alone. In tables that leafd created, this is the order of the names' bytes; in other tables, it is the
    /// order of the key's collation. Rows are omitted with a warning in the log if their tag is not a valid [`Tag`], or
    /// if a number column holds something else.
    ///
    /// # Errors
    /// As for every call.
    pub fn list(&mut self, after: Option<&Tag>, limit: u32) -> Result<Vec<TagRow>, StoreError> {
        let page = |session: &mut Session, after: Option<&str>, limit| session.page(after, limit);
        self.pages(after, limit, page, |row| Ok(rows::read(row)?.row))
    }

    /// Up to `limit` names after `after`, in the order of their bytes, each with the end of the claims that the store
    /// has recorded under it (0 for none). They include names that no longer have a row, or never had one here. They
    /// don't include rows that leafd has never claimed from or changed. Names that are not a valid [`Tag`] are omitted
    /// with a warning in the log. Empty if there is only Leaf's table, which keeps no records.
    ///
    /// # Errors
    /// As for every call.
    pub fn ends(&mut self, after: Option<&Tag>, limit: u32) -> Result<Vec<(Tag, u64)>, StoreError> {
        let page =
            |session: &mut Session, after: Option<&str>, limit| session.page_of_ends(after, limit);
        self.pages(after, limit, page, rows::remembered)
    }

    /// Reads pages of rows until `limit` of them are valid.
    fn pages<T>(
        &mut self,
        after: Option<&Tag>,
        limit: u32,
        page: impl Fn(&mut Session, Option<&str>, u32) -> Result<Vec<Cells>, SqlError>,
        read: impl Fn(Cells) -> Result<T, String>,
    ) -> Result<Vec<T>, StoreError> {
        let mut found = Vec::new();
        let mut after = after.map(|tag| tag.as_str().to_owned());
        // Omitted rows don't count; otherwise a page of only such rows would look like the end.
        while found.len() < limit as usize {
            let asked = limit - u32::try_from(found.len()).unwrap_or(limit);
            let rows = self.read(|session| page(session, after.as_deref(), asked))?;
            let is_last = rows.len() < asked as usize;
            after = rows.last().and_then(name).map(str::to_owned).or(after);
            for row in rows {
                match read(row) {
                    Ok(row) => found.push(row),
                    Err(odd) => {
                        tracing::warn!(%odd, "skipped an unreadable row of leaf_alloc or leafd_tag");
                    }
                }
            }
            if is_last {
                break;
            }
        }
        Ok(found)
    }

    /// The end of the recorded claims under a name that has no row, 0 for none. A tag that is created under this name
    /// must begin at this end or above.
    ///
    /// # Errors
    /// As for every call.
    pub fn claimed_end(&mut self, tag: &Tag) -> Result<u64, StoreError> {
        self.write(|session| match session.side {
            true => Ok(u64::try_from(session.former(tag)?.0).unwrap_or(0)),
            false => Ok(0),
        })
    }

    /// Creates a tag, with a generation above 0 that no earlier tag of the name had.
    ///
    /// # Errors
    /// [`StoreError::Changed`]; [`StoreError::TagExists`]; [`StoreError::Refused`] when values are out of range, or
    /// when `start` is below the end of what was claimed under this name before (the text names the number to use);
    /// others as for every call.
    pub fn create(&mut self, under: &Identity, new: &NewTag) -> Result<TagRow, StoreError> {
        new.check()?;
        let generation = crate::random::generation();
        let masked = new.masked.map(|masking| masking.to_string());
        let outcome = self.write(|session| {
            session.require_side("creating a tag")?;
            let name = new.tag.as_str();
            let there = session.find_under(under, std::slice::from_ref(&new.tag), false)?;
            if let Some(row) = there.first() {
                return Err(taken(&new.tag, rows::name(row)));
            }
            // A row that doesn't exist can't be locked, so this inserts one. Then a host that reports an end of this
            // name does so entirely before or after this.
            session.driver.execute(statements::ENTER_NAME, params![name])?;
            let (claimed_end, former_mask) = session.former(&new.tag)?;
            new.check_above(claimed_end)?;
            if claimed_end > 0 {
                new.check_mask(former_mask.as_deref())?;
            }
            let description = new.description.as_deref().filter(|text| !text.is_empty());
            let row = params![name, new.start, new.step, description];
            session.driver.execute(statements::INSERT_ROW, row).map_err(|failure| {
                match failure {
                    // Another host created it at the same moment.
                    SqlError::Duplicate(_) => {
                        SqlError::Said(StoreError::TagExists { tag: new.tag.clone() })
                    }
                    other => other,
                }
            })?;
            let strict = u32::from(new.strict);
            let side = params![name, generation.0, new.ceiling, strict, masked.as_deref()];
            session.driver.execute(statements::ENTER_TAG, side)?;
            Ok(session.require(&new.tag, false)?.row)
        })?;
        Ok(outcome)
    }

    /// Changes a tag's settings. A daemon learns of the change with its next claim. A ceiling below what is already
    /// claimed stops further claims, but takes no ids back.
    ///
    /// # Errors
    /// [`StoreError::UnknownTag`]; [`StoreError::Refused`] when a value is out of range; others as for
    /// every call.
    pub fn set(&mut self, tag: &Tag, change: &TagChange) -> Result<TagRow, StoreError> {
        change.check()?;
        self.write(|session| {
            let name = tag.as_str();
            // This doesn't use `require`, which fails for a row with an unusable step, because setting the step repairs
            // such a row.
            if !session.is_there(tag)? {
                return Err(StoreError::UnknownTag { tag: tag.clone() }.into());
            }
            if let Some(step) = change.step {
                session.driver.execute(statements::SET_STEP, params![name, step])?;
            }
            if let Some(text) = &change.description {
                let text = Some(text.as_str()).filter(|text| !text.is_empty());
                session.driver.execute(statements::SET_DESCRIPTION, params![name, text])?;
            }
            if let Some(ceiling) = change.ceiling {
                session.require_side("a ceiling")?;
                session.driver.execute(statements::SET_CEILING, params![name, ceiling])?;
            }
            let row = session.require(tag, false)?.row;
            row.check_masked()?;
            Ok(row)
        })
    }

    /// Deletes a tag if it still has this generation, and returns its row as it was. The store keeps the end of the
    /// claims under the tag's name.
    ///
    /// # Errors
    /// [`StoreError::UnknownTag`]; [`StoreError::Refused`] when the tag was created again meanwhile, or when there is
    /// only Leaf's table; others as for every call.
    pub fn delete(&mut self, tag: &Tag, generation: Generation) -> Result<TagRow, StoreError> {
        let next = crate::random::generation();
        self.write(|session| {
            session.require_side("deleting a tag")?;
            let found = session.require(tag, true)?;
            found.row.check_generation(generation)?;
            let (name, end) = (tag.as_str(), found.row.max_id.max(found.claimed_end).max(0));
            session.driver.execute(statements::DELETE_ROW, params![name])?;
            session.driver.execute(statements::LEAVE_TOMBSTONE, params![name, next.0, end])?;
            Ok(found.row)
        })
    }

    /// The terms of each tag, in the order asked; `None` for a tag that doesn't exist. Takes one query for every few
    /// hundred tags.
    ///
    /// # Errors
    /// [`StoreError::Changed`], and others as for every call.
    pub fn look_up(
        &mut self,
        under: &Identity,
        tags: &[Tag],
    ) -> Result<Vec<Option<TagTerms>>, StoreError> {
        let mut answers = Vec::with_capacity(tags.len());
        for some in tags.chunks(TAGS_A_STATEMENT_MAX) {
            let found = self.read_once_more(|session| session.find_under(under, some, false));
            let rows = match found {
                // A single name that the table can't store makes a query for many fail.
                Err(SqlError::NoSuchName(_)) if some.len() > 1 => {
                    for one in some {
                        answers.extend(self.look_up(under, std::slice::from_ref(one))?);
                    }
                    continue;
                }
                Err(SqlError::NoSuchName(_)) => {
                    // If another store answered, it means nothing that the tag is missing there.
                    self.read(|session| session.check(under))?;
                    Vec::new()
                }
                found => found.map_err(|failure| failure.answer(&self.location))?,
            };
            let named = rows.iter().filter_map(|row| Some((name(row)?, rows::terms(row))));
            let named: HashMap<&str, TagTerms> = named.collect();
            answers.extend(some.iter().map(|tag| named.get(tag.as_str()).copied()));
        }
        Ok(answers)
    }

    /// Raises each tag's first unclaimed number to at least the given end, because ids that a daemon has seen claimed
    /// must not be claimed again. It never lowers a number, and may put one above the ceiling. Returns for each tag, in
    /// the order given, whether its row changed; false if the row was there already, or if there is no such tag. The
    /// end counts even then: if a tag of this name comes later, from a backup or created, its ids begin at this end or
    /// above.
    ///
    /// `masking`: the caller has mask keys. Then a name without a row may have belonged to a masked tag, even if the
    /// store has recorded no mask. So no tag of this name can be created until an operator says how its ids were
    /// masked.
    ///
    /// A transaction raises a few hundred tags, so when this fails, some tags may be raised already. It is safe to
    /// repeat the call.
    ///
    /// # Errors
    /// [`StoreError::Changed`], and others as for every call.
    pub fn raise(
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

    /// Records that this host starts: replaces its start token by `next` if the store's token is in `known`, by
    /// compare-and-set. A host that the store doesn't know is entered. If the store lacks a write that [`Store::trust`]
    /// reported, it has lost commits, and begins a new life. Without `known` the host is new, and has no such write.
    /// When the first answer was lost and the call is repeated, it finds `next` in the store and returns
    /// [`CheckIn::Current`].
    ///
    /// # Errors
    /// [`StoreError::Changed`]; others as for every call. After those it is unknown whether the token was replaced.
    pub fn check_in(
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
                let row = session.row(statements::HOST_TOKEN, params![&*host.0])?;
                let mut cells = row.into_iter().flatten();
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
                let entry = params![&*host.0, &*next.0, written];
                session.driver.execute(statements::ENTER_HOST, entry)?;
            }
            Ok(Some((answer, written)))
        })?;
        let Some((answer, written)) = checked_in else {
            let (store, expected) = (self.location.store.clone(), under.clone());
            return Err(StoreError::Changed { store, expected, found: self.identity()? });
        };
        if matches!(answer, CheckIn::Current | CheckIn::New) {
            self.own().checked_in(host, next, known, &under.history, written);
        }
        self.own().remembered = None;
        Ok(answer)
    }

    /// Records the check value of the mask key of this number, if none is recorded yet, and returns the recorded one.
    /// A host whose key has another check value has another key than the host that came first.
    ///
    /// # Errors
    /// [`StoreError::Changed`]; [`StoreError::Refused`] if there is only Leaf's table; others as for every call.
    pub fn note_mask_key(
        &mut self,
        under: &Identity,
        key: KeyNumber,
        check_value: u64,
    ) -> Result<u64, StoreError> {
        self.write(|session| {
            session.check(under)?;
            session.require_side("masking ids")?;
            let entry = format!("{}{key}", rows::MASK_KEY_ENTRY);
            if let Some(known) = session.meta(&entry)? {
                return parse_check_value(&entry, &known);
            }
            let value = format!("{check_value:016x}");
            session.driver.execute(statements::ENTER_META, params![&*entry, &*value])?;
            // Another host may have recorded its value first.
            let known = session.meta(&entry)?.unwrap_or_default();
            parse_check_value(&entry, &known)
        })
    }

    /// Records that the daemon of this start, on a host of this name, now uses a static worker number. Returns this
    /// use, and after it those of other daemons that have recorded the same recently. Does nothing and returns nothing
    /// if there is only Leaf's table, which can't record it.
    ///
    /// # Errors
    /// [`StoreError::Changed`]; others as for every call.
    pub fn note_static_worker(
        &mut self,
        under: &Identity,
        worker: WorkerId,
        start: &StartToken,
        name: &str,
    ) -> Result<Vec<StaticUser>, StoreError> {
        self.write(|session| {
            // The lock prevents two hosts from doing this at the same time.
            session.lock_role()?;
            session.check(under)?;
            if !session.side {
                return Ok(Vec::new());
            }
            let entry = format!("static_worker_{worker}");
            let (known, at_ms) = (session.meta(&entry)?, session.now_ms()?);
            // An invalid record is replaced, because each daemon will record its use again soon.
            let mut users = parse(known.as_deref().unwrap_or_default()).unwrap_or_default();
            let present = StaticUser { start: Arc::clone(&start.0), name: name.into(), at_ms };
            note_static_user(&mut users, present);
            let sql = if known.is_some() { statements::SET_META } else { statements::ENTER_META };
            session.driver.execute(sql, params![&*entry, &*text(&users)])?;
            Ok(users)
        })
    }

    /// The recorded series of document numbers, each with its name and its record, and a reading of the store's clock.
    ///
    /// # Errors
    /// [`StoreError::Changed`]; [`StoreError::Refused`] if there is only Leaf's table; others as for every call.
    pub fn series(
        &mut self,
        under: &Identity,
    ) -> Result<(Vec<(String, String)>, Sample), StoreError> {
        self.read(|session| {
            session.require_side("document numbers")?;
            session.check(under)?;
            let entries = session.entries(rows::SERIES_ENTRY)?;
            let sent = clock::boot();
            let store = UnixMs(session.now_ms()?);
            Ok((entries, Sample { sent, store, received: clock::boot() }))
        })
    }

    /// Records a series of document numbers under a name that has none yet.
    ///
    /// # Errors
    /// [`StoreError::Changed`]; [`StoreError::Refused`] if there is a series of this name or format, if there are too
    /// many, and if there is only Leaf's table; others as for every call.
    pub fn create_series(&mut self, under: &Identity, series: &Series) -> Result<(), StoreError> {
        let name = &*series.name;
        self.write(|session| {
            session.require_side("document numbers")?;
            // The lock prevents two hosts from doing this at the same time.
            session.lock_role()?;
            session.check(under)?;
            let known = session.entries(rows::SERIES_ENTRY)?;
            if known.len() >= SERIES_MAX {
                return Err(StoreError::refused(format!(
                    "there are already {SERIES_MAX} series, the maximum"
                ))
                .into());
            }
            for (other, record) in &known {
                let has_format = parse::<Option<Series>>(record)
                    .is_ok_and(|other| other.is_some_and(|other| other.format == series.format));
                let what = if other == name { "already exists" } else { "already has this format" };
                if other == name || has_format {
                    return Err(StoreError::refused(format!("series {other:?} {what}")).into());
                }
            }
            let entry = format!("{}{name}", rows::SERIES_ENTRY);
            session.driver.execute(statements::ENTER_META, params![&*entry, &*text(series)])?;
            Ok(())
        })
    }

    /// The store as a registry of workers, over its own connection. The registry's calls are refused if there is only
    /// Leaf's table, and if the tables for workers are missing. Claims don't need those tables.
    pub fn workers(&mut self, mode: Mode) -> Box<dyn Registry + '_> {
        Box::new(Leases { store: self, mode })
    }
}

fn parse_check_value(entry: &str, text: &str) -> Result<u64, SqlError> {
    u64::from_str_radix(text, 16).map_err(|_| {
        SqlError::Said(StoreError::refused(format!(
            "{entry} in leafd_meta is {text:?}, which is not a check value: restore it from a backup"
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
