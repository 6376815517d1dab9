//! A connection to a store whose tables are known to be usable, and what is done with one tag or many in a transaction
//! there.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use super::rows::{Cells, Found, name, same_tag};
use super::tables::{Layout, check_tables, meta_incomplete};
use super::{Driver, Failure, Param, Place, Standing, TABLES_GONE, Target};
use crate::id::Tag;
use crate::store::{History, Identity, Role, StoreError, StoreId};

#[derive(Debug)]
pub(super) struct Session<D> {
    pub(super) driver: D,
    /// Whether there are side tables.
    pub(super) side: bool,
    /// Whether the tables of workers were seen to be usable.
    pub(super) workers_checked: bool,
    target: Target,
    /// As of the last time that the server was asked.
    place: Place,
}

/// Who answered a query for tags, and the rows that it found.
pub(super) struct Answer {
    pub(super) identity: Identity,
    pub(super) rows: Vec<Cells>,
}

/// Most tags in one statement.
pub(super) const TAGS_A_STATEMENT_MAX: usize = 200;

/// Parts the role from the number of losses declared, in the row that both share so that every claim sees both.
const LOSSES: char = '\t';

/// How many cells of an answer tell who gave it.
const IDENTITY_CELLS: usize = 3;

impl<D: Driver> Session<D> {
    pub(super) fn open(target: &Target, tables: &[Layout]) -> Result<Self, StoreError> {
        let mut driver = D::connect(target)?;
        driver.set_deadline(Instant::now() + target.statement_timeout);
        let checked = check_tables(&mut driver, target, tables)
            .and_then(|side| Ok((side, driver.standing(side)?.place)));
        let (side, place) = checked.map_err(|failure| failure.answer(target))?;
        Ok(Session { driver, side, workers_checked: false, target: target.clone(), place })
    }

    /// Asks the server where the connection leads.
    pub(super) fn identity(&mut self) -> Result<Identity, Failure> {
        let Standing { place, name, role } = self.driver.standing(self.side)?;
        self.place = place;
        self.compose(self.place.table.clone(), name, role)
    }

    /// Checks that the connection leads to what the caller trusts.
    pub(super) fn check(&mut self, under: &Identity) -> Result<(), Failure> {
        Ok(self.identity()?.check(under, &self.store())?)
    }

    /// What errors call the store.
    pub(super) fn store(&self) -> String {
        self.target.url.to_string()
    }

    /// A store that leafd's tables name is told by that name alone, so that it stays the same when it fails over or
    /// is restored, and then has another history. Without them nothing else tells it from others.
    fn compose(
        &self,
        table: String,
        name: Option<String>,
        role: Option<String>,
    ) -> Result<Identity, Failure> {
        let Place { kind, server, timeline, .. } = &self.place;
        if !self.side {
            return Ok(Identity {
                id: StoreId(format!("{kind}:{server} {table}").into()),
                history: History(timeline.as_str().into()),
                role: Role::default(),
            });
        }
        let (Some(name), Some(role)) = (name, role) else {
            return Err(meta_incomplete(&self.target));
        };
        let (role, losses) = role.split_once(LOSSES).unwrap_or((&role, "0"));
        let history = format!("{server} {table} {timeline}");
        Ok(Identity {
            id: StoreId(format!("{kind}:{name}").into()),
            history: History::with_losses(history.trim_end(), losses),
            role: Role(role.into()),
        })
    }

    /// Records a role. Losses that were declared stay so.
    pub(super) fn set_role(&mut self, role: &Role, losses: &str) -> Result<(), Failure> {
        let value = match losses {
            "0" => role.0.to_string(),
            _ => format!("{}{LOSSES}{losses}", role.0),
        };
        self.driver.execute(D::SQL.set_role, &[Param::Text(&value)])?;
        Ok(())
    }

    /// How long ago the present history was first noticed, on the server's clock; enters it if nobody has noticed it yet.
    pub(super) fn noticed(&mut self, history: &History) -> Result<Duration, Failure> {
        if let Some(age) = self.noted(history)? {
            return Ok(age);
        }
        // Waits for whoever has the tables locked, to restore them say: the time must not run while nobody can tell the
        // store anything.
        self.page(None, 1)?;
        // Somebody else may be entering it.
        self.driver.execute(D::SQL.lock_role, &[])?;
        if let Some(age) = self.noted(history)? {
            return Ok(age);
        }
        let now_ms = self.now_ms()?;
        self.note(history, now_ms)?;
        Ok(Duration::ZERO)
    }

    /// Enters the history of a store whose tables were just made as one that has ever been: there is nothing yet that it
    /// can have lost. It has to be entered before anybody claims there. If this is lost itself, whoever comes first
    /// enters a history that is new.
    pub(super) fn note_first(&mut self) -> Result<(), Failure> {
        self.driver.execute(D::SQL.lock_role, &[])?;
        let history = self.identity()?.history;
        if self.noted(&history)?.is_none() {
            self.note(&history, 0)?;
        }
        Ok(())
    }

    fn note(&mut self, history: &History, noticed_ms: u64) -> Result<(), Failure> {
        let note = format!("{noticed_ms} {history}");
        self.driver.execute(D::SQL.note, &[Param::Text(&note)])?;
        Ok(())
    }

    fn noted(&mut self, history: &History) -> Result<Option<Duration>, Failure> {
        let meta = self.driver.query(D::SQL.meta, &[])?;
        let noted = meta.into_iter().find(|row| name(row) == Some("noticed"));
        let noted = noted.and_then(|row| row.into_iter().nth(1).flatten());
        if let Some((ms, of)) = noted.as_deref().and_then(|noted| noted.split_once(' '))
            && *of == *history.0
            && let Ok(ms) = ms.parse::<u64>()
        {
            return Ok(Some(Duration::from_millis(self.now_ms()?.saturating_sub(ms))));
        }
        Ok(None)
    }

    /// The server's clock, now.
    pub(super) fn now_ms(&mut self) -> Result<u64, Failure> {
        let now = self.driver.query(D::SQL.now_ms, &[])?.into_iter().flatten().next().flatten();
        let now = now.and_then(|now| now.parse().ok());
        now.ok_or_else(|| Failure::Rejected("the server doesn't say what time it is".to_owned()))
    }

    /// The rows of tags, with more of them where the key's collation takes other names for the same.
    pub(super) fn find_all(&mut self, tags: &[Tag], lock: bool) -> Result<Answer, Failure> {
        let list: Vec<String> = (1..=tags.len()).map(D::placeholder).collect();
        let list = list.join(", ");
        let params: Vec<Param<'_>> = tags.iter().map(|tag| Param::Text(tag.as_str())).collect();
        let (find, locked) = match self.side {
            true => (D::SQL.find, D::SQL.lock),
            false => (D::SQL.find_plain, D::SQL.lock_plain),
        };
        let find = format!("{find} ({list})");
        let rows = match lock {
            true => {
                let locked = format!("{locked} ({list}) {}", D::SQL.locking);
                self.driver.query_locked(&locked, &find, &params)?
            }
            false => self.driver.query(&find, &params)?,
        };
        self.answer(rows)
    }

    fn answer(&self, rows: Vec<Cells>) -> Result<Answer, Failure> {
        let mut rows = rows.into_iter().map(|mut row| {
            let rest = row.split_off(IDENTITY_CELLS.min(row.len()));
            (row, rest)
        });
        let Some((of_store, first)) = rows.next() else {
            return Err(meta_incomplete(&self.target));
        };
        let mut of_store = of_store.into_iter();
        let (name_found, role) = (of_store.next().flatten(), of_store.next().flatten());
        let Some(table) = of_store.next().flatten() else {
            return Err(Failure::Missing(TABLES_GONE.to_owned()));
        };
        let identity = self.compose(table, name_found, role)?;
        let rows = std::iter::once(first).chain(rows.map(|(_, rest)| rest));
        Ok(Answer { identity, rows: rows.filter(|row| name(row).is_some()).collect() })
    }

    /// The rows of tags, if the store is what the caller trusts.
    pub(super) fn find_under(
        &mut self,
        under: &Identity,
        tags: &[Tag],
        lock: bool,
    ) -> Result<Vec<Cells>, Failure> {
        let Answer { identity, rows } = self.find_all(tags, lock)?;
        identity.check(under, &self.store())?;
        Ok(rows)
    }

    /// The row of a tag that has to be there.
    pub(super) fn require(&mut self, tag: &Tag, lock: bool) -> Result<Found, Failure> {
        let rows = self.find_all(std::slice::from_ref(tag), lock)?.rows;
        there(rows, tag)
    }

    /// The same, if the store is what the caller trusts; locked.
    pub(super) fn require_under(&mut self, under: &Identity, tag: &Tag) -> Result<Found, Failure> {
        let rows = self.find_under(under, std::slice::from_ref(tag), true)?;
        there(rows, tag)
    }

    /// Whether a tag has a row, of whatever content.
    pub(super) fn is_there(&mut self, tag: &Tag) -> Result<bool, Failure> {
        let rows = self.find_all(std::slice::from_ref(tag), false)?.rows;
        Ok(rows.iter().any(|row| name(row) == Some(tag.as_str())))
    }

    /// So many rows after this name, in the order of the table's key.
    pub(super) fn page(
        &mut self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Cells>, Failure> {
        let list = if self.side { D::SQL.list } else { D::SQL.list_plain };
        let limit = Param::Integer(i64::try_from(limit).unwrap_or(i64::MAX));
        let (one, two) = (D::placeholder(1), D::placeholder(2));
        match after {
            None => self.driver.query(&format!("{list} ORDER BY a.biz_tag LIMIT {one}"), &[limit]),
            Some(after) => self.driver.query(
                &format!("{list} WHERE a.biz_tag > {one} ORDER BY a.biz_tag LIMIT {two}"),
                &[Param::Text(after), limit],
            ),
        }
    }

    /// So many names after this one, in the order of their bytes, and what is remembered of each. The row that has no name
    /// comes after none.
    pub(super) fn page_of_ends(
        &mut self,
        after: &str,
        limit: usize,
    ) -> Result<Vec<Cells>, Failure> {
        if !self.side {
            return Ok(Vec::new());
        }
        let limit = Param::Integer(i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = self.driver.query(D::SQL.ends, &[Param::Text(after), limit])?;
        // A name that is no UTF-8 is read as another one, and the next page would begin anywhere.
        match rows.last().map(name) {
            Some(last) if last.is_none_or(|last| last <= after) => Err(Failure::Rejected(
                "leafd_tag has names that are no UTF-8: repair it with SQL".to_owned(),
            )),
            _ => Ok(rows),
        }
    }

    /// Writes a tag's first unclaimed number to its row, which is locked, and to what is remembered when the
    /// row is gone.
    pub(super) fn move_max_id(&mut self, found: &Found, max_id: i64) -> Result<(), Failure> {
        let name = found.row.tag.as_str();
        let remember = [Param::Text(name), Param::Integer(max_id)];
        let remember_end = remember_ends::<D>(1);
        if max_id == found.row.max_id {
            // A row's change to what it is already wouldn't count as one everywhere.
            if self.side {
                self.driver.execute(&remember_end, &remember)?;
            }
            return Ok(());
        }
        let set = [Param::Text(name), Param::Integer(found.row.max_id), Param::Integer(max_id)];
        let changed = match self.side {
            true => {
                self.driver.execute_both((D::SQL.set_max_id, &set), (&remember_end, &remember))?
            }
            false => self.driver.execute(D::SQL.set_max_id, &set)?,
        };
        moved(changed, 1)
    }

    /// Lifts the rows of tags to these ends; which of them moved. The row of a tag is the one that is called the same
    /// byte for byte. Of a tag without a row the end is remembered: the row may still come, out of a backup.
    pub(super) fn lift(
        &mut self,
        under: &Identity,
        ends: &[(Tag, u64)],
    ) -> Result<Vec<bool>, Failure> {
        let tags: Vec<Tag> = ends.iter().map(|(tag, _)| tag.clone()).collect();
        let rows = self.find_under(under, &tags, true)?;
        // Twice the same tag: the higher end counts.
        let mut wanted: BTreeMap<&str, i64> = BTreeMap::new();
        for (tag, end) in ends {
            // There are no numbers beyond: nothing more than the largest value can be asked for.
            let end = i64::try_from(*end).unwrap_or(i64::MAX);
            let highest = wanted.entry(tag.as_str()).or_insert(end);
            *highest = end.max(*highest);
        }
        let by_name: HashMap<&str, &Cells> =
            rows.iter().filter_map(|row| Some((name(row)?, row))).collect();
        let (mut moving, mut remembered) = (Vec::new(), Vec::new());
        // In the order of the names, so that two of us never wait for each other.
        for (tag, end) in &wanted {
            let Some(row) = by_name.get(tag) else {
                remembered.extend([Param::Text(tag), Param::Integer(*end)]);
                continue;
            };
            let number = |column: usize| row.get(column)?.as_ref()?.parse::<i64>().ok();
            if number(1).is_none_or(|max_id| max_id < *end) {
                moving.extend([Param::Text(tag), Param::Integer(*end)]);
            }
            if number(7).is_none_or(|claimed_end| claimed_end < *end) {
                remembered.extend([Param::Text(tag), Param::Integer(*end)]);
            }
        }
        if !moving.is_empty() {
            let (count, sql) = (moving.len() / 2, lift_rows::<D>(moving.len() / 2));
            moved(self.driver.execute(&sql, &moving)?, count)?;
        }
        if self.side && !remembered.is_empty() {
            self.driver.execute(&remember_ends::<D>(remembered.len() / 2), &remembered)?;
        }
        let lifted = |tag: &Tag| {
            let mut texts = moving.iter().step_by(2);
            texts.any(|param| matches!(param, Param::Text(text) if *text == tag.as_str()))
        };
        Ok(tags.iter().map(lifted).collect())
    }
}

fn there(rows: Vec<Cells>, tag: &Tag) -> Result<Found, Failure> {
    same_tag(rows, tag)?.ok_or_else(|| Failure::Said(StoreError::UnknownTag { tag: tag.clone() }))
}

/// Checks that as many rows changed as had to.
fn moved(changed: u64, wanted: usize) -> Result<(), Failure> {
    if usize::try_from(changed) == Ok(wanted) {
        return Ok(());
    }
    Err(Failure::Busy(format!(
        "moving {wanted} tags changed {changed} rows of leaf_alloc; a rule or trigger of that table may be in the way"
    )))
}

/// (tag, end) so many times: lifts the rows.
fn lift_rows<D: Driver>(count: usize) -> String {
    let cases: String = (0..count)
        .map(|index| {
            let (tag, end) = (D::placeholder(2 * index + 1), D::placeholder(2 * index + 2));
            format!(" WHEN {tag} THEN {end}")
        })
        .collect();
    let list: Vec<String> = (0..count).map(|index| D::placeholder(2 * index + 1)).collect();
    format!(
        "UPDATE leaf_alloc SET max_id = CASE biz_tag{cases} ELSE max_id END{} WHERE biz_tag IN ({})",
        D::SQL.touch,
        list.join(", ")
    )
}

/// (tag, end) so many times: remembers the ends.
fn remember_ends<D: Driver>(count: usize) -> String {
    let pair = |index: usize| {
        format!("({}, {})", D::placeholder(2 * index + 1), D::placeholder(2 * index + 2))
    };
    let list: Vec<String> = (0..count).map(pair).collect();
    format!("{} {} {}", D::SQL.remember_ends, list.join(", "), D::SQL.remembering)
}
