//! Reads and writes the rows of one tag, or of many, in a transaction.

use std::collections::{BTreeMap, HashMap};

use super::rows::{Cells, Found, MASK_KEY_ENTRY, integer, name, same_tag};
use super::session::{IDENTITY_CELLS, Session};
use super::tables::meta_incomplete;
use super::{Dialect, Failure, Param};
use leafd_core::Tag;
use leafd_core::store::{ClaimPlan, ClaimedBy, Identity, MASK_UNKNOWN, StoreError};

/// Which store answered a query for tags, and the rows that it found.
pub(super) struct Answer {
    pub(super) identity: Identity,
    pub(super) rows: Vec<Cells>,
}

/// Most tags in a statement.
pub(super) const TAGS_A_STATEMENT_MAX: usize = 200;

/// Finds a row if any tag is or was masked.
const ANY_MASKED: &str = "SELECT masked FROM leafd_tag WHERE masked IS NOT NULL LIMIT 1";

impl Session {
    /// The end of what the store remembers as claimed under a name. Keeps others from changing it.
    pub(super) fn claimed_end(&mut self, tag: &Tag) -> Result<i64, Failure> {
        Ok(self.former(tag)?.0)
    }

    /// Like [`Session::claimed_end`], and how the ids of this name were masked.
    pub(super) fn former(&mut self, tag: &Tag) -> Result<(i64, Option<String>), Failure> {
        let rows = self.driver.query(self.dialect.sql.claimed_end, &[Param::Text(tag.as_str())])?;
        let mut cells = rows.into_iter().flatten();
        let (end, masked) = (cells.next().flatten(), cells.next().flatten());
        Ok((integer("highest_end", end, Some(0)).map_err(Failure::Rejected)?, masked))
    }

    /// The rows of tags. There may be more rows, if the key's collation treats other names as equal.
    pub(super) fn find_all(&mut self, tags: &[Tag], lock: bool) -> Result<Answer, Failure> {
        // The first parameter is this host.
        let (host, firsts) = (self.host(), usize::from(self.side));
        let list: Vec<String> =
            (1..=tags.len()).map(|nth| self.dialect.placeholder(firsts + nth)).collect();
        let list = list.join(", ");
        let names = tags.iter().map(|tag| Param::Text(tag.as_str()));
        let host = self.side.then_some(Param::Text(&host));
        let params: Vec<Param<'_>> = host.into_iter().chain(names).collect();
        let (sql, signs) = (&self.dialect.sql, self.driver.signs().cells(self.side));
        let find = match self.side {
            true => format!(
                "SELECT {}, {signs}, {} FROM {} {} ({list})",
                sql.head, sql.row, sql.meta_rows, sql.tag_rows
            ),
            false => format!(
                "SELECT {}, {signs}, {} FROM {} ({list})",
                sql.head_plain, sql.row_plain, sql.tag_rows_plain
            ),
        };
        let rows = match lock && !sql.lock.is_empty() {
            true => {
                let locked = format!("{} ({list}) {}", sql.lock, sql.locking);
                self.driver.query_locked(&locked, &find, &params)?
            }
            false => self.driver.query(&find, &params)?,
        };
        self.answer(rows)
    }

    fn answer(&mut self, rows: Vec<Cells>) -> Result<Answer, Failure> {
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
    ) -> Result<Vec<Cells>, Failure> {
        let Answer { identity, rows } = self.find_all(tags, lock)?;
        identity.check(under, self.store())?;
        Ok(rows)
    }

    /// The row of a tag. Fails if there is none.
    pub(super) fn require(&mut self, tag: &Tag, lock: bool) -> Result<Found, Failure> {
        let rows = self.find_all(std::slice::from_ref(tag), lock)?.rows;
        there(rows, tag)
    }

    /// Like [`Session::require`]; also locks the row, and fails if the store is not the one that the caller trusts.
    pub(super) fn require_under(&mut self, under: &Identity, tag: &Tag) -> Result<Found, Failure> {
        let rows = self.find_under(under, std::slice::from_ref(tag), true)?;
        if under.history.is_in_doubt() {
            let words = "has a history in doubt: no host has noted yet that commits may be lost";
            return Err(self.location.refused(words).into());
        }
        let found = there(rows, tag)?;
        found.check_not_set_back()?;
        Ok(found)
    }

    /// Whether a tag has a row, even one that makes no sense.
    pub(super) fn is_there(&mut self, tag: &Tag) -> Result<bool, Failure> {
        let rows = self.find_all(std::slice::from_ref(tag), false)?.rows;
        Ok(rows.iter().any(|row| name(row) == Some(tag.as_str())))
    }

    /// Up to `limit` rows after this name, in the order of the table's key.
    pub(super) fn page(
        &mut self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Cells>, Failure> {
        let list = if self.side { self.dialect.sql.list } else { self.dialect.sql.list_plain };
        let limit = Param::Integer(i64::try_from(limit).unwrap_or(i64::MAX));
        let (one, two) = (self.dialect.placeholder(1), self.dialect.placeholder(2));
        match after {
            None => self.driver.query(&format!("{list} ORDER BY a.biz_tag LIMIT {one}"), &[limit]),
            Some(after) => self.driver.query(
                &format!("{list} WHERE a.biz_tag > {one} ORDER BY a.biz_tag LIMIT {two}"),
                &[Param::Text(after), limit],
            ),
        }
    }

    /// Up to `limit` names after this one, in the order of their bytes, each with the end that is remembered. The row
    /// without a name is never among them.
    pub(super) fn page_of_ends(
        &mut self,
        after: &str,
        limit: usize,
    ) -> Result<Vec<Cells>, Failure> {
        if !self.side {
            return Ok(Vec::new());
        }
        let limit = Param::Integer(i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = self.driver.query(self.dialect.sql.ends, &[Param::Text(after), limit])?;
        // A name that is not UTF-8 is read as another name, and the next page would begin at a wrong place.
        match rows.last().map(name) {
            Some(last) if last.is_none_or(|last| last <= after) => Err(Failure::Rejected(
                "leafd_tag has names that are not UTF-8: repair it with SQL".to_owned(),
            )),
            _ => Ok(rows),
        }
    }

    /// Writes a claim's end to the tag's row, which is locked, and to leafd's own row of the tag. Fails if the right
    /// to claim was taken away. Also records who claims, if `by` is given.
    pub(super) fn move_max_id(
        &mut self,
        found: &Found,
        plan: &ClaimPlan,
        by: Option<&ClaimedBy>,
    ) -> Result<(), Failure> {
        let name = Param::Text(found.row.tag.as_str());
        let (end, right) = (Param::Integer(plan.max_id), Param::Integer(self.right));
        let set = [name, Param::Integer(found.row.max_id), end];
        if !self.side {
            return moved(self.driver.execute(self.dialect.sql.set_max_id, &set)?, 1);
        }
        if found.right != Some(self.right) {
            self.take_right()?;
        }
        self.settle()?;
        let (write, host) = (self.next_write(), self.host());
        let write = write.map(|(next, last)| (Param::Integer(next), Param::Integer(last)));
        let (all, enter);
        let (sql, record): (_, &[Param<'_>]) = match (found.right, write) {
            (Some(has), Some((next, last))) => {
                all = [name, end, right, Param::Integer(has), next, Param::Text(&host), last];
                (self.dialect.sql.record_claim_of_host, &all)
            }
            (Some(has), None) => {
                (self.dialect.sql.record_claim, &[name, end, right, Param::Integer(has)])
            }
            (None, write) => {
                if let Some((next, last)) = write {
                    let params = [next, Param::Text(&host), last];
                    kept(self.driver.execute(self.dialect.sql.prove, &params)?)?;
                }
                enter = [name, end, right];
                (self.dialect.sql.enter_claim, &enter)
            }
        };
        let claim = by.map(|by| {
            [
                name,
                end,
                Param::Integer(plan.run.first.cast_signed()),
                Param::Integer(plan.run.stride.into()),
                Param::Integer(found.row.generation.0.cast_signed()),
                Param::Text(&by.host.0),
                Param::Text(&by.name),
                Param::OptionalInteger(by.holds_from.map(u64::cast_signed)),
            ]
        });
        let claim = claim.as_ref().map(|claim| (self.dialect.history.enter_claim, &claim[..]));
        let written =
            self.driver.execute_together((self.dialect.sql.set_max_id, &set), (sql, record), claim);
        let [changed, recorded] = written.map_err(|failure| match failure {
            Failure::Duplicate(words) => Failure::Conflict(words),
            other => other,
        })?;
        moved(changed, 1)?;
        kept(recorded)
    }

    /// Lifts the rows of tags to these ends. Returns for each whether its row changed. A tag's row is the one whose
    /// name is the same byte for byte. For a tag without a row it only remembers the end: the row may still come, from
    /// a backup.
    pub(super) fn lift(
        &mut self,
        under: &Identity,
        ends: &[(Tag, u64)],
        masking: bool,
    ) -> Result<Vec<bool>, Failure> {
        let tags: Vec<Tag> = ends.iter().map(|(tag, _)| tag.clone()).collect();
        let rows = self.find_under(under, &tags, true)?;
        // If a tag is given twice, the higher end counts.
        let mut wanted: BTreeMap<&str, i64> = BTreeMap::new();
        for (tag, end) in ends {
            // Larger ids don't exist, so the largest number is the most that can be asked for.
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
                let masked = Param::OptionalText(lost_mask);
                remembered.extend([Param::Text(tag), Param::Integer(*end), masked]);
                continue;
            };
            let number = |column: usize| row.get(column)?.as_ref()?.parse::<i64>().ok();
            // The end that leafd's own row of the tag remembers counts as much as the caller's.
            let claimed_end = number(7).unwrap_or(0).max(*end);
            if number(1).is_none_or(|max_id| max_id < claimed_end) {
                moving.extend([Param::Text(tag), Param::Integer(claimed_end)]);
            }
            if number(7).is_none_or(|claimed_end| claimed_end < *end) {
                let masked = Param::OptionalText(None);
                remembered.extend([Param::Text(tag), Param::Integer(*end), masked]);
            }
        }
        if !moving.is_empty() {
            let (count, sql) = (moving.len() / 2, lift_rows(self.dialect, moving.len() / 2));
            moved(self.driver.execute(&sql, &moving)?, count)?;
        }
        if self.side && !remembered.is_empty() {
            self.driver.execute(&remember_ends(self.dialect, remembered.len() / 3), &remembered)?;
        }
        let lifted = |tag: &Tag| {
            let mut texts = moving.iter().step_by(2);
            texts.any(|param| matches!(param, Param::Text(text) if *text == tag.as_str()))
        };
        Ok(tags.iter().map(lifted).collect())
    }

    /// Whether a tag without a row may have been masked. If no host ever recorded a mask key and no tag is masked,
    /// none was.
    fn may_have_masked(&mut self) -> Result<bool, Failure> {
        let meta = self.driver.query(self.dialect.sql.meta, &[])?;
        let mut entries = meta.iter().filter_map(name);
        Ok(entries.any(|entry| entry.starts_with(MASK_KEY_ENTRY))
            || !self.driver.query(ANY_MASKED, &[])?.is_empty())
    }
}

fn there(rows: Vec<Cells>, tag: &Tag) -> Result<Found, Failure> {
    same_tag(rows, tag)?.ok_or_else(|| Failure::Said(StoreError::UnknownTag { tag: tag.clone() }))
}

/// Checks that the number of changed rows is the expected one.
fn moved(changed: u64, wanted: usize) -> Result<(), Failure> {
    if usize::try_from(changed) == Ok(wanted) {
        return Ok(());
    }
    Err(Failure::Busy(format!(
        "updating {wanted} tags changed {changed} rows of leaf_alloc; a rule or trigger on that table may prevent it"
    )))
}

/// Checks that the right to claim still existed, and that this host had written nothing else. Some servers count two
/// rows.
pub(super) fn kept(changed: u64) -> Result<(), Failure> {
    match changed {
        1 | 2 => Ok(()),
        _ => Err(Failure::Conflict(
            "the right to claim changed at the same moment, or this host wrote over another connection".to_owned(),
        )),
    }
}

/// A statement that lifts this many rows; its parameters are (tag, end) for each.
fn lift_rows(dialect: &Dialect, count: usize) -> String {
    let cases: String = (0..count)
        .map(|index| {
            let (tag, end) =
                (dialect.placeholder(2 * index + 1), dialect.placeholder(2 * index + 2));
            format!(" WHEN {tag} THEN {end}")
        })
        .collect();
    let list: Vec<String> = (0..count).map(|index| dialect.placeholder(2 * index + 1)).collect();
    format!(
        "UPDATE leaf_alloc SET max_id = CASE biz_tag{cases} ELSE max_id END{} WHERE biz_tag IN ({})",
        dialect.sql.touch,
        list.join(", ")
    )
}

/// A statement that remembers this many ends, and the masks of tags without a row; its parameters are (tag, end,
/// masked) for each.
fn remember_ends(dialect: &Dialect, count: usize) -> String {
    let three = |index: usize| {
        let [tag, end, masked] = [1, 2, 3].map(|nth| dialect.placeholder(3 * index + nth));
        format!("({tag}, {end}, {masked})")
    };
    let list: Vec<String> = (0..count).map(three).collect();
    format!("{} {} {}", dialect.sql.remember_ends, list.join(", "), dialect.sql.remembering)
}
