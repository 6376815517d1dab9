//! What a store records while its place among the stores is being changed, so that a change which was cut off is
//! recognised and finished; and what the numbers in its rows mean. Pure.

use crate::config::{PrimaryRole, parse_primary};
use crate::store::CEILING_MAX;

/// How far the change of a store's place has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// No daemon claims from it any more. Its rows are as they were.
    Frozen,
    /// Its counters are being set: some of its rows are as they were, others as they will be.
    Raising,
}

/// A place that is being changed: what a store records meanwhile, and no daemon is configured for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moving {
    /// How far it has come.
    pub stage: Stage,
    /// The place that its rows were made under.
    pub from: String,
    /// The place that it is to have.
    pub to: String,
}

/// What a store records that is no longer used: no daemon is configured for this.
pub const RETIRED: &str = "retired";

/// What the numbers in a store's rows are: ids, or a primary's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning(Option<PrimaryRole>);

// === impl Moving ===

impl Moving {
    /// Reads what [`Moving::text`] wrote; `None` for every other text.
    #[must_use]
    pub fn parse(role: &str) -> Option<Moving> {
        let rest = role.strip_prefix("moving, ")?;
        let (stage, rest) = rest.split_once(' ')?;
        let stage = match stage {
            "frozen" => Stage::Frozen,
            "raising" => Stage::Raising,
            _ => return None,
        };
        // The length says where a place ends, as it may have any text in it.
        let (length, rest) = rest.split_once(" from ")?;
        let (from, rest) = rest.split_at_checked(length.parse().ok()?)?;
        let to = rest.strip_prefix(" to ")?;
        Some(Moving { stage, from: from.to_owned(), to: to.to_owned() })
    }

    /// What the store records.
    #[must_use]
    pub fn text(&self) -> String {
        let stage = match self.stage {
            Stage::Frozen => "frozen",
            Stage::Raising => "raising",
        };
        format!("moving, {stage} {} from {} to {}", self.from.len(), self.from, self.to)
    }
}

// === impl Meaning ===

impl Meaning {
    /// Under a place that is not being changed.
    #[must_use]
    pub fn of(role: &str) -> Meaning {
        Meaning(parse_primary(role))
    }

    /// As which of several primaries, if so.
    #[must_use]
    pub fn primary(self) -> Option<PrimaryRole> {
        self.0
    }

    /// The id that a number in a row stands for; at most [`CEILING_MAX`].
    #[must_use]
    pub fn id(self, number: u64) -> u64 {
        let id = u128::from(number) * u128::from(self.modulus()) + u128::from(self.index());
        u64::try_from(id).unwrap_or(CEILING_MAX).min(CEILING_MAX)
    }

    /// The least number that stands for this id or a larger one; at least 1.
    #[must_use]
    pub fn first(self, id: u64) -> u64 {
        id.saturating_sub(self.index()).div_ceil(self.modulus()).max(1)
    }

    /// The largest number that stands for this id or a smaller one; at least 1, which every store takes for a ceiling.
    #[must_use]
    pub fn last(self, id: u64) -> u64 {
        (id.saturating_sub(self.index()) / self.modulus()).max(1)
    }

    fn modulus(self) -> u64 {
        self.0.map_or(1, |primary| u64::from(primary.of))
    }

    fn index(self) -> u64 {
        self.0.map_or(0, |primary| u64::from(primary.index))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_texts_are_not_taken_for_a_change() {
        for text in [
            "",
            "store a, of: *->a",
            RETIRED,
            "moving, ",
            "moving, frozen 99 from a to b",
            "moving, frozen 1 from a, to b",
            "moving, gone 1 from a to b",
        ] {
            assert_eq!(Moving::parse(text), None, "{text}");
        }
    }

    #[test]
    fn primaries_numbers_stand_for_ids() {
        let second = Meaning::of("primary 1 of 3, era 7, of: x");
        assert_eq!(
            (second.id(5), second.first(16), second.first(17), second.last(18)),
            (16, 5, 6, 5)
        );
        assert_eq!((second.first(0), second.last(0)), (1, 1));
        assert_eq!(Meaning::of("store a, of: x").id(5), 5);
        assert_eq!(second.id(u64::MAX), CEILING_MAX);
    }

    proptest! {
        #[test]
        fn a_change_is_read_as_it_was_written(from in "[ -~]{0,60}", to in "[ -~]{0,60}", raising: bool) {
            let stage = if raising { Stage::Raising } else { Stage::Frozen };
            let moving = Moving { stage, from, to };
            prop_assert_eq!(Moving::parse(&moving.text()), Some(moving));
        }

        /// Whatever was given as the old one of several is below what is given as the new one.
        #[test]
        fn a_counter_stands_for_at_least_its_id(id in 1..CEILING_MAX, index in 0u32..64, of in 2u32..=64) {
            prop_assume!(index < of);
            let meaning = Meaning::of(&format!("primary {index} of {of}, era 1, of: x"));
            let first = meaning.first(id);
            prop_assert!(meaning.id(first) >= id);
            prop_assert!(first == 1 || meaning.id(first - 1) < id);
            let last = meaning.last(id);
            prop_assert!(last == 1 || meaning.id(last) <= id);
        }
    }
}
