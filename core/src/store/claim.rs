//! Decisions that every backend shares: what a claim takes from a row, which tags can be created, and which starts of a
//! host are trusted. This way, overflows and boundaries are handled once for all backends.

use leafd_wire::Run;

use crate::mask::Masking;

use super::{
    CEILING_MAX, CheckIn, ClaimWish, DESCRIPTION_CHARACTERS_MAX, Generation, MASK_UNKNOWN, NewTag,
    START_MAX, STEP_MAX, StartToken, StoreError, TagChange, TagRow, UNFINISHED,
};

/// A claim that is computed but not yet written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimPlan {
    pub run: Run,
    /// The row's new `max_id`: the end of the ids.
    pub max_id: i64,
    /// The row's step, at least 1.
    pub step: u64,
}

/// The claimed part of the ids up to a ceiling, in percent: at most 100, even if the ceiling was lowered below the
/// claimed ids. `claimed_to` is the last claimed id.
pub fn percent_used(claimed_to: u64, ceiling: u64) -> u64 {
    let percent = u128::from(claimed_to) * 100 / u128::from(ceiling.max(1));
    percent.min(100) as u64
}

/// Computes a claim on a row: `max(want, min(step, step_max))` ids of the wish's shard, from `max_id` up to the
/// ceiling. A strict tag's claim takes only `want`, because a host may keep the rest for a short time at most.
///
/// It starts at 1 if `max_id` is lower, and at `claimed_end` if `max_id` is below that: claimed ids stay claimed even
/// if another program set the row back. A step below 1 counts as 1.
///
/// # Errors
/// [`StoreError::Exhausted`] when fewer than `least` ids are left.
pub fn plan_claim(
    row: &TagRow,
    claimed_end: i64,
    wish: ClaimWish,
) -> Result<ClaimPlan, StoreError> {
    let first = wish.shard.first_from(next_start(row.max_id, claimed_end));
    let last_allowed = row.ceiling.min(CEILING_MAX - 1);
    let stride = wish.shard.of;
    let left = last_allowed.checked_sub(first).map_or(0, |span| span / u64::from(stride) + 1);
    if left < wish.least.max(1) {
        return Err(StoreError::Exhausted { tag: row.tag.clone(), ceiling: row.ceiling, left });
    }
    let step = step_of(row.step);
    let ahead = if row.strict { 1 } else { step.min(wish.step_max) };
    let count = wish.want.max(wish.least).max(ahead).clamp(1, left);
    let run = Run { first, count: u32::try_from(count).unwrap_or(u32::MAX), stride };
    let max_id = i64::try_from(run.end()).expect("the end of ids below the largest one");
    Ok(ClaimPlan { run, max_id, step })
}

/// Where the next claim of a row begins: at 1 or above, and never below ids that are recorded as claimed.
pub fn next_start(max_id: i64, claimed_end: i64) -> u64 {
    max_id.max(claimed_end).max(1).cast_unsigned()
}

/// A row's step, as used by claims; at least 1.
pub fn step_of(step: i64) -> u64 {
    step.max(1).cast_unsigned()
}

/// A store's answer to a host's start, given the recorded start, and whether the store replaces that record by `next`.
pub fn judge_start(
    found: Option<&str>,
    known: &[StartToken],
    next: &StartToken,
) -> (CheckIn, bool) {
    match found {
        None => (CheckIn::New, true),
        Some(token) if *token == *next.0 => (CheckIn::Current, false),
        Some(token) if known.iter().any(|one| *one.0 == *token) => (CheckIn::Current, true),
        Some(_) => (CheckIn::Stale, false),
    }
}

impl NewTag {
    /// Checks that the tag starts at or above the end of all claims ever made under its name.
    ///
    /// # Errors
    /// [`StoreError::Refused`] with the number to use.
    pub fn check_above(&self, claimed_end: i64) -> Result<(), StoreError> {
        match u64::try_from(claimed_end) {
            Ok(end) if self.start < end => Err(StoreError::refused(format!(
                "tag {:?} existed before, and its ids below {end} were claimed: create it with start {end} or more",
                self.tag.as_str()
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that its ids are masked like those of the earlier tag of the same name, according to the store's record.
    /// Otherwise both tags could issue the same id.
    ///
    /// # Errors
    /// [`StoreError::Refused`].
    pub fn check_mask(&self, former: Option<&str>) -> Result<(), StoreError> {
        let name = self.tag.as_str();
        if former == Some(MASK_UNKNOWN) {
            return Err(StoreError::refused(format!(
                "tag {name:?} existed before, but the store lost its row and doesn't know its mask. Another mask could repeat \
                 its ids, so use another name. If the tag was not masked, set masked in its row of leafd_tag to NULL with SQL"
            )));
        }
        let new = self.masked.map(|masking| masking.to_string());
        if new.as_deref() == former {
            return Ok(());
        }
        let were = match former.map(Masking::parse) {
            None => "not masked".to_owned(),
            Some(None) => "masked differently".to_owned(),
            Some(Some(Masking { bits, key, .. })) => {
                format!("masked with {bits} bits and key {key}")
            }
        };
        Err(StoreError::refused(format!(
            "tag {name:?} existed before and its ids were {were}: another mask could repeat its ids, so use another name"
        )))
    }

    /// Checks the values against their documented ranges.
    ///
    /// # Errors
    /// [`StoreError::Refused`] with the value and its range.
    pub fn check(&self) -> Result<(), StoreError> {
        check_step(self.step)?;
        if self.ceiling != UNFINISHED {
            check_ceiling(self.ceiling)?;
        }
        check_description(self.description.as_deref())?;
        if let Some(masking) = self.masked {
            if self.strict {
                return Err(StoreError::refused(format!(
                    "tag {:?} can't be both strict and masked: masked ids have no order",
                    self.tag.as_str()
                )));
            }
            masking.check_ceiling(self.ceiling)?;
        }
        let most = match self.ceiling {
            UNFINISHED => START_MAX,
            ceiling => ceiling.min(START_MAX),
        };
        if self.start < 1 || self.start > most {
            return Err(refused("start", self.start, format!("1 to {most}")));
        }
        Ok(())
    }
}

impl Masking {
    fn check_ceiling(self, ceiling: u64) -> Result<(), StoreError> {
        if ceiling <= self.bits.largest() {
            return Ok(());
        }
        Err(refused(
            "ceiling",
            ceiling,
            format!(
                "1 to {}, because the tag is masked with {} bits",
                self.bits.largest(),
                self.bits
            ),
        ))
    }
}

impl TagRow {
    /// Checks that its ceiling fits its mask.
    ///
    /// # Errors
    /// [`StoreError::Refused`].
    pub fn check_masked(&self) -> Result<(), StoreError> {
        self.masked.map_or(Ok(()), |masking| masking.check_ceiling(self.ceiling))
    }

    /// Checks that it is still the tag that the caller saw.
    ///
    /// # Errors
    /// [`StoreError::Refused`].
    pub fn check_generation(&self, seen: Generation) -> Result<(), StoreError> {
        if self.generation == seen {
            return Ok(());
        }
        Err(StoreError::refused(format!(
            "tag {:?} was deleted and recreated in the meantime (its generation is {}, not {}): read it again",
            self.tag.as_str(),
            self.generation.0,
            seen.0
        )))
    }
}

impl TagChange {
    /// Checks the values against their documented ranges.
    ///
    /// # Errors
    /// [`StoreError::Refused`] with the value and its range.
    pub fn check(&self) -> Result<(), StoreError> {
        self.step.map_or(Ok(()), check_step)?;
        self.ceiling.map_or(Ok(()), check_ceiling)?;
        check_description(self.description.as_deref())
    }
}

fn check_step(step: u64) -> Result<(), StoreError> {
    if (1..=STEP_MAX).contains(&step) {
        return Ok(());
    }
    Err(refused("step", step, format!("1 to {STEP_MAX}")))
}

fn check_ceiling(ceiling: u64) -> Result<(), StoreError> {
    if (1..=CEILING_MAX).contains(&ceiling) {
        return Ok(());
    }
    Err(refused("ceiling", ceiling, format!("1 to {CEILING_MAX}")))
}

fn check_description(description: Option<&str>) -> Result<(), StoreError> {
    let text = description.unwrap_or_default();
    let characters = text.chars().count();
    if characters > DESCRIPTION_CHARACTERS_MAX {
        let allowed = format!("at most {DESCRIPTION_CHARACTERS_MAX} characters");
        return Err(refused("description", format!("{characters} characters long"), allowed));
    }
    if text.chars().any(char::is_control) {
        return Err(refused("description", format!("{text:?}"), "text without control characters"));
    }
    Ok(())
}

fn refused(
    what: &str,
    value: impl std::fmt::Display,
    allowed: impl std::fmt::Display,
) -> StoreError {
    StoreError::refused(format!("a tag's {what} can't be {value}; allowed: {allowed}"))
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;

    use super::super::Shard;
    use super::*;
    use crate::Tag;

    fn row(max_id: i64, step: i64, ceiling: u64) -> TagRow {
        TagRow {
            tag: Tag::parse(b"t").unwrap(),
            max_id,
            step,
            ceiling,
            generation: Generation(0),
            strict: false,
            masked: None,
            description: None,
            updated: None,
        }
    }

    #[track_caller]
    fn check(row: TagRow, claimed_end: i64, wish: (u64, u64), expect: Option<Range<u64>>) {
        let wish = ClaimWish::new(wish.0, wish.1);
        let plan = plan_claim(&row, claimed_end, wish).ok().map(|plan| plan.run.range());
        assert_eq!(plan, expect, "{row:?} {claimed_end} {wish:?}");
    }

    #[test]
    fn claims_are_half_open_and_cut() {
        let max = i64::MAX;
        let top = CEILING_MAX;
        check(row(1, 10, top), 0, (1, 1000), Some(1..11));
        check(row(11, 10, top), 11, (25, 1000), Some(11..36));
        check(row(1, 1000, top), 0, (5, 100), Some(1..101));
        check(row(1, 1000, top), 0, (500, 100), Some(1..501));
        check(row(1, 0, top), 0, (0, 0), Some(1..2));
        check(row(0, -5, top), 0, (3, 100), Some(1..4));
        check(row(i64::MIN, i64::MIN, top), 0, (3, 100), Some(1..4));
        check(row(5, 10, top), 100, (1, 10), Some(100..110));
        check(row(5, 10, 9), 0, (1, 10), Some(5..10));
        check(row(9, 10, 9), 0, (1, 10), Some(9..10));
        check(row(10, 10, 9), 0, (1, 10), None);
        check(row(max - 3, 10, top), 0, (u64::MAX, 10), Some(top - 3..top));
        check(row(1, 10, top), 0, (u64::MAX, 10), Some(1..1 + u64::from(u32::MAX)));
        check(row(max - 1, i64::MAX, top), 0, (1, u64::MAX), Some(top - 1..top));
        check(row(max, 10, top), 0, (1, 10), None);
    }

    #[test]
    fn a_strict_tag_gives_what_is_wanted() {
        let strict = |max_id, ceiling| TagRow { strict: true, ..row(max_id, 1000, ceiling) };
        check(strict(1, CEILING_MAX), 0, (1, 1000), Some(1..2));
        check(strict(1, CEILING_MAX), 0, (0, 1000), Some(1..2));
        check(strict(5, CEILING_MAX), 9, (70, 1000), Some(9..79));
        check(strict(5, 7), 0, (70, 1000), Some(5..8));
    }

    #[test]
    fn a_shard_s_claims_are_strided_and_round_up() {
        let claim = |max_id, ceiling, want, shard| {
            let wish = ClaimWish { shard, ..ClaimWish::new(want, 1) };
            plan_claim(&row(max_id, 1, ceiling), 0, wish).map(|plan| (plan.run, plan.max_id))
        };
        let [zeroth, second] = [0, 2].map(|index| Shard { index, of: 3 });
        let run = |first, count| Run { first, count, stride: 3 };
        assert_eq!(claim(1, CEILING_MAX, 4, zeroth).unwrap(), (run(3, 4), 13));
        assert_eq!(claim(13, CEILING_MAX, 4, zeroth).unwrap(), (run(15, 4), 25));
        // Raised to the next id of this shard.
        assert_eq!(claim(100, CEILING_MAX, 2, second).unwrap(), (run(101, 2), 105));
        assert_eq!(claim(1, 8, 10, second).unwrap(), (run(2, 3), 9));
        let left = |shard, max_id, ceiling| match claim(max_id, ceiling, 1, shard) {
            Err(StoreError::Exhausted { left, .. }) => left,
            other => panic!("{other:?}"),
        };
        assert_eq!((left(zeroth, 1, 2), left(second, 9, 10), left(second, 3, 2)), (0, 0, 0));
        // Near the largest id.
        let top = CEILING_MAX - 1;
        let last = top - (top - 2) % 3;
        let near = i64::MAX - 4;
        let (claimed, max_id) = claim(near, CEILING_MAX, 10, second).unwrap();
        assert_eq!((claimed.last(), max_id), (Some(last), last as i64 + 1));
        assert_eq!(left(second, max_id, CEILING_MAX), 0);
    }

    #[test]
    fn a_wish_that_can_t_be_met_takes_nothing() {
        let at_least = |least, shard| {
            let wish = ClaimWish { least, shard, ..ClaimWish::new(least, 1) };
            match plan_claim(&row(91, 1, 100), 0, wish) {
                Ok(plan) => Ok(plan.run.count),
                Err(StoreError::Exhausted { left, .. }) => Err(left),
                Err(other) => panic!("{other}"),
            }
        };
        assert_eq!(at_least(10, Shard::WHOLE), Ok(10));
        assert_eq!(at_least(11, Shard::WHOLE), Err(10));
        assert_eq!(at_least(6, Shard { index: 0, of: 2 }), Err(5));
    }

    proptest! {
        #[test]
        fn no_row_gives_an_id_twice_or_out_of_range(
            max_id: i64, step: i64, claimed_end: i64, ceiling in 1..=CEILING_MAX, want: u64, step_max: u64,
            least: u64, of in 1u32..=64, index in 0u32..64,
        ) {
            let shard = Shard { index: index % of, of };
            let wish = ClaimWish { shard, least, ..ClaimWish::new(want, step_max) };
            let mut at = row(max_id, step, ceiling);
            let mut above = claimed_end.max(1) as u64;
            for _ in 0..50 {
                let Ok(plan) = plan_claim(&at, claimed_end, wish) else { break };
                prop_assert!(plan.run.first >= above && u64::from(plan.run.count) >= least.clamp(1, u64::from(u32::MAX)));
                prop_assert_eq!(plan.run.first % u64::from(of), u64::from(shard.index));
                prop_assert_eq!(plan.run.stride, of);
                let end = plan.run.end();
                prop_assert!(end - 1 <= ceiling && end <= CEILING_MAX);
                prop_assert_eq!(plan.max_id as u64, end);
                above = end;
                at.max_id = plan.max_id;
            }
        }
    }
}
