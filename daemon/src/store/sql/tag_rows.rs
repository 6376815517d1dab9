//! Reads and writes the rows of one tag, or of many, in a transaction.

use std::collections::{BTreeMap, HashMap};

use super::rows::{MASK_KEY_ENTRY, StoredTag, integer, name, same_tag};
use super::session::{IDENTITY_CELLS, Session};
use super::statements::{self, HEAD, HEAD_PLAIN, META_ROWS, ROW, ROW_PLAIN};
use super::tables::meta_incomplete;
use super::{Cells, Param, SqlError, params};
use leafd_core::store::{ClaimPlan, ClaimedBy, Identity, MASK_UNKNOWN, StoreError};
use leafd_core::{Run, Tag};

/// Which store answered a query for tags, and the rows that it found.
pub(super) struct Answer {
    pub(super) identity: Identity,
    pub(super) rows: Vec<Cells>,
}

/// The maximum number of tags in a statement.
pub(super) const TAGS_A_STATEMENT_MAX: usize = 200;

/// The version of the right to claim in a new row of leafd's: no claim has this version.
const NO_RIGHT: i64 = -1;

/// Finds a row if any tag is or was masked.
const ANY_MASKED: &str = "SELECT masked FROM leafd_tag WHERE masked IS NOT NULL LIMIT 1";

impl Session {
    /// The end of the recorded claims under a name, and how its ids were masked. Locks it against other changes.
    pub(super) fn former(&mut self, tag: &Tag) -> Result<(i64, Option<String>), SqlError> {
        let rows = self.driver.query(statements::CLAIMED_END, params![tag.as_str()])?;
        let mut cells = rows.into_iter().flatten();
        let (end, masked) = (cells.next().flatten(), cells.next().flatten());
        Ok((integer("highest_end", end, Some(0)).map_err(SqlError::Rejected)?, masked))
    }

    /// The rows of tags. There may be more rows, if the key's collation treats other names as equal.
    pub(super) fn find_all(&mut self, tags: &[Tag], lock: bool) -> Result<Answer, SqlError> {
        // The first parameter is this host.
        let (host, firsts) = (self.host(), usize::from(self.side));
        let list: Vec<String> = (1..=tags.len()).map(|nth| format!("?{}", firsts + nth)).collect();
        let list = list.join(", ");
        let names = tags.iter().map(|tag| Param::from(tag.as_str()));
        let host = self.side.then_some(Param::from(&*host));
        let params: Vec<Param<'_>> = host.into_iter().chain(names).collect();
        let signs = self.driver.signs().cells(self.side);
        // A row for each tag, or one row without a tag if none exists.
        let found = format!("LEFT JOIN leaf_alloc AS a ON a.biz_tag{{exact}} IN ({list})");
        let find = match self.side {
            true => format!(
                "SELECT {HEAD}, {signs}, {ROW} FROM {META_ROWS} {found} LEFT JOIN leafd_tag AS t ON {{join}}"
            ),
            false => {
                format!("SELECT {HEAD_PLAIN}, {signs}, {ROW_PLAIN} FROM (SELECT 1) AS one {found}")
            }
        };
        // Only one transaction at a time can write to an embedded store.
        let rows = match lock && !self.dialect.embedded {
            // A statement of its own, because a query that waits for a lock sees the tables that it joins as they were
            // before the wait. It locks in the key's order, so that two daemons never wait for each other.
            true => {
                let locked = format!(
                    "SELECT biz_tag FROM leaf_alloc WHERE biz_tag IN ({list}) ORDER BY biz_tag{{lock}}"
                );
                let calls = [(&*locked, &*params), (&*find, &*params)];
                self.driver.query_together(&calls)?.pop().unwrap_or_default()
            }
            false => self.driver.query(&find, &params)?,
        };
        self.answer(rows)
    }

    fn answer(&mut self, rows: Vec<Cells>) -> Result<Answer, SqlError> {
        let mut rows = rows.into_iter().map(|mut row| {
            let rest = row.split_off(IDENTITY_CELLS.min(row.len()));
            (row, rest)
        });
        let Some((of_store, first)) = rows.next() else {
            return Err(meta_incomplete(&self.location));
        };
        let (identity, _) = self.compose(of_store, None)?;
        let rows = std::iter::once(first).chain(rows.map(|(_, rest)| rest));
        Ok(Answer { identity, rows: rows.filter(|row| name(row).is_some()).collect() })
    }

    /// The rows of tags. Fails if the store is not the one that the caller trusts.
    pub(super) fn find_under(
        &mut self,
        under: &Identity,
        tags: &[Tag],
        lock: bool,
    ) -> Result<Vec<Cells>, SqlError> {
        let Answer { identity, rows } = self.find_all(tags, lock)?;
        identity.check(under, self.store())?;
        Ok(rows)
    }

    /// The row of a tag. Fails if there is none.
    pub(super) fn require(&mut self, tag: &Tag, lock: bool) -> Result<StoredTag, SqlError> {
        let rows = self.find_all(std::slice::from_ref(tag), lock)?.rows;
        there(rows, tag)
    }

    /// Like [`Session::require`]; also locks the row, and fails if the store is not the one that the caller trusts.
    pub(super) fn require_under(
        &mut self,
        under: &Identity,
        tag: &Tag,
    ) -> Result<StoredTag, SqlError> {
        let rows = self.find_under(under, std::slice::from_ref(tag), true)?;
        if under.history.is_in_doubt() {
            let words =
                "has a history in doubt: commits may be lost, and no host has recorded that yet";
            return Err(self.location.refused(words).into());
        }
        let found = there(rows, tag)?;
        found.check_not_set_back()?;
        Ok(found)
    }

    /// Whether a tag has a row, even an invalid one.
    pub(super) fn is_there(&mut self, tag: &Tag) -> Result<bool, SqlError> {
        let rows = self.find_all(std::slice::from_ref(tag), false)?.rows;
        Ok(rows.iter().any(|row| name(row) == Some(tag.as_str())))
    }

    /// Up to `limit` rows after this name, in the order of the table's key.
    pub(super) fn page(&mut self, after: Option<&str>, limit: u32) -> Result<Vec<Cells>, SqlError> {
        let list = match self.side {
            true => {
                format!("SELECT {ROW} FROM {{alloc}} AS a LEFT JOIN leafd_tag AS t ON {{join}}")
            }
            false => format!("SELECT {ROW_PLAIN} FROM {{alloc}} AS a"),
        };
        let rows = match after {
            None => {
                let sql = format!("{list} ORDER BY a.biz_tag LIMIT ?1");
                self.driver.query(&sql, params![limit])?
            }
            Some(after) => {
                let sql = format!("{list} WHERE a.biz_tag > ?1 ORDER BY a.biz_tag LIMIT ?2");
                self.driver.query(&sql, params![after, limit])?
            }
        };
        // A name that is not UTF-8 is read as another name, and the next page would begin at a wrong place.
        if after.is_some() && rows.last().and_then(name) == after {
            let words = "has names in leaf_alloc that are not UTF-8: repair them with SQL";
            return Err(self.location.refused(words).into());
        }
        Ok(rows)
    }

    /// Up to `limit` names after this one, in the order of their bytes, each with its recorded end. The row without a
    /// name is never among them.
    pub(super) fn page_of_ends(
        &mut self,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Cells>, SqlError> {
        if !self.side {
            return Ok(Vec::new());
        }
        let after = after.unwrap_or_default();
        let rows = self.driver.query(statements::ENDS, params![after, limit])?;
        match rows.last().map(name) {
            Some(last) if last.is_none_or(|last| last <= after) => Err(SqlError::Rejected(
                "leafd_tag has names that are not UTF-8: repair it with SQL".to_owned(),
            )),
            _ => Ok(rows),
        }
    }

    /// Writes a claim's end to the tag's row, which is locked, and with `strictness` to leafd's own row of the tag, and
    /// commits. Fails if the right to claim was revoked. Also records the claiming host, if `by` is given.
    pub(super) fn commit_claim(
        &mut self,
        found: &StoredTag,
        plan: &ClaimPlan,
        strictness: i64,
        by: Option<&ClaimedBy>,
    ) -> Result<(), SqlError> {
        let (name, end, right) = (found.row.tag.as_str(), plan.max_id, self.right);
        let set = params![name, found.row.max_id, end];
        if !self.side {
            return self.commit(&[(statements::SET_MAX_ID, set)]);
        }
        let conflict = |failure| match failure {
            SqlError::Duplicate(words) => SqlError::Conflict(words),
            other => other,
        };
        if found.right.is_none() {
            self.driver.execute(statements::NEW_NAME, params![name]).map_err(conflict)?;
        }
        if found.right != Some(right) {
            self.take_right()?;
        }
        self.settle()?;
        let record = params![name, end, right, found.right.unwrap_or(NO_RIGHT), strictness];
        let claim = by.map(|by| {
            let Run { first, stride, .. } = plan.run;
            let (generation, holds_from) = (found.row.generation.0, by.holds_from);
            let holds_from = Param::Integer(holds_from.map(u64::cast_signed));
            *params![name, end, first, stride, generation, &*by.host.0, &*by.name, holds_from]
        });
        let mut calls =
            vec![(statements::SET_MAX_ID, &set[..]), (statements::RECORD_CLAIM, record)];
        calls.extend(claim.as_ref().map(|claim| (statements::RECORD_CLAIMANT, &claim[..])));
        self.prove_and_commit(&calls).map_err(conflict)
    }

    /// Raises the rows of tags to these ends. Returns for each whether its row changed. A tag's row is the one whose
    /// name is the same byte for byte. For a tag without a row, this only records the end, because the row may still
    /// return from a backup.
    pub(super) fn lift(
        &mut self,
        under: &Identity,
        ends: &[(Tag, u64)],
        masking: bool,
    ) -> Result<Vec<bool>, SqlError> {
        let tags: Vec<Tag> = ends.iter().map(|(tag, _)| tag.clone()).collect();
        let rows = self.find_under(under, &tags, true)?;
        // If a tag is given twice, the higher end counts.
        let mut wanted: BTreeMap<&str, i64> = BTreeMap::new();
        for (tag, end) in ends {
            // Larger ids don't exist, so the largest number is the highest possible end.
            let end = i64::try_from(*end).unwrap_or(i64::MAX);
            let highest = wanted.entry(tag.as_str()).or_insert(end);
            *highest = end.max(*highest);
        }
        let by_name: HashMap<&str, &Cells> =
            rows.iter().filter_map(|row| Some((name(row)?, row))).collect();
        let missing = wanted.keys().any(|tag| !by_name.contains_key(tag));
        let lost_mask = match self.side && missing && (masking || self.may_have_masked()?) {
            true => Some(MASK_UNKNOWN),
            false => None,
        };
        let (mut moving, mut remembered) = (Vec::new(), Vec::new());
        // In the order of the names, so that two daemons never wait for each other.
        for (tag, end) in &wanted {
            let Some(row) = by_name.get(tag) else {
                remembered.extend(*params![*tag, *end, lost_mask]);
                continue;
            };
            let number = |column: usize| row.get(column)?.as_ref()?.parse::<i64>().ok();
            // The end in leafd's own row of the tag counts as much as the caller's.
            let claimed_end = number(7).unwrap_or(0).max(*end);
            if number(1).is_none_or(|max_id| max_id < claimed_end) {
                moving.extend(*params![*tag, claimed_end]);
            }
            if number(7).is_none_or(|claimed_end| claimed_end < *end) {
                remembered.extend(*params![*tag, *end, None::<&str>]);
            }
        }
        if !moving.is_empty() {
            let (count, sql) = (moving.len() / 2, lift_rows(moving.len() / 2));
            let changed = self.driver.execute(&sql, &moving)?;
            if usize::try_from(changed) != Ok(count) {
                return Err(SqlError::Busy(format!(
                    "updating {count} tags changed {changed} rows of leaf_alloc; a rule or trigger on that table may prevent it"
                )));
            }
        }
        if self.side && !remembered.is_empty() {
            self.driver.execute(&remember_ends(remembered.len() / 3), &remembered)?;
        }
        let lifted = |tag: &Tag| {
            let mut texts = moving.iter().step_by(2);
            texts.any(|param| matches!(param, Param::Text(text) if *text == Some(tag.as_str())))
        };
        Ok(tags.iter().map(lifted).collect())
    }

    /// Whether a tag without a row may have been masked. It was not if no host has ever recorded a mask key and no tag
    /// is masked.
    fn may_have_masked(&mut self) -> Result<bool, SqlError> {
        let meta = self.driver.query(statements::META, &[])?;
        let mut entries = meta.iter().filter_map(name);
        Ok(entries.any(|entry| entry.starts_with(MASK_KEY_ENTRY))
            || !self.driver.query(ANY_MASKED, &[])?.is_empty())
    }
}

fn there(rows: Vec<Cells>, tag: &Tag) -> Result<StoredTag, SqlError> {
    same_tag(rows, tag)?.ok_or_else(|| SqlError::Said(StoreError::UnknownTag { tag: tag.clone() }))
}

/// A statement that raises this many rows; its parameters are (tag, end) for each.
fn lift_rows(count: usize) -> String {
    let case = |index: usize| format!(" WHEN ?{} THEN ?{}", 2 * index + 1, 2 * index + 2);
    let cases: String = (0..count).map(case).collect();
    let list: Vec<String> = (0..count).map(|index| format!("?{}", 2 * index + 1)).collect();
    format!(
        "UPDATE leaf_alloc SET max_id = CASE biz_tag{cases} ELSE max_id END{{touch}} WHERE biz_tag IN ({})",
        list.join(", ")
    )
}

/// A statement that records this many ends, and the masks of tags without a row; its parameters are (tag, end, masked)
/// for each.
fn remember_ends(count: usize) -> String {
    let row = |index: usize| {
        let first = 3 * index + 1;
        format!("(?{first}, ?{}, ?{})", first + 1, first + 2)
    };
    let list: Vec<String> = (0..count).map(row).collect();
    format!("{} {} {}", statements::REMEMBER_ENDS, list.join(", "), statements::REMEMBERING)
}
