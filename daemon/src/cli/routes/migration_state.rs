//! What a store records while its place among the stores is being changed, so that a change which was cut off is
//! recognised and finished. Pure.

/// A place that is being changed: what a store records meanwhile, and no daemon is configured for. So none claims from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// The place that it had.
    pub from: String,
    /// The place that it is to have.
    pub to: String,
}

/// What a store records that is no longer used: no daemon is configured for this.
pub const RETIRED: &str = "retired";

impl Frozen {
    /// Reads what [`Frozen::text`] wrote; `None` for every other text.
    #[must_use]
    pub fn parse(role: &str) -> Option<Frozen> {
        // The length says where a place ends, as it may have any text in it.
        let (length, rest) = role.strip_prefix("frozen, ")?.split_once(" from ")?;
        let (from, rest) = rest.split_at_checked(length.parse().ok()?)?;
        let to = rest.strip_prefix(" to ")?;
        Some(Frozen { from: from.to_owned(), to: to.to_owned() })
    }

    /// What the store records.
    #[must_use]
    pub fn text(&self) -> String {
        format!("frozen, {} from {} to {}", self.from.len(), self.from, self.to)
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
            "frozen, ",
            "frozen, 99 from a to b",
            "frozen, 1 from a, to b",
            "frozen, -1 from a to b",
        ] {
            assert_eq!(Frozen::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_change_is_read_as_it_was_written(from in "[ -~]{0,60}", to in "[ -~]{0,60}") {
            let frozen = Frozen { from, to };
            prop_assert_eq!(Frozen::parse(&frozen.text()), Some(frozen));
        }
    }
}
