//! What a store records while its role is being changed, so that an interrupted change is recognised and finished.

/// The record of a role that is being changed. No daemon is configured for this text, so none claims from the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// The former role.
    pub from: String,
    /// The new role.
    pub to: String,
}

/// The role of a store that is no longer used. No daemon is configured for it.
pub const RETIRED: &str = "retired";

impl Frozen {
    /// Reads the output of [`Frozen::text`]; `None` for any other text.
    pub fn parse(role: &str) -> Option<Frozen> {
        // The length shows where the role ends, because a role may contain any text.
        let (length, rest) = role.strip_prefix("frozen, ")?.split_once(" from ")?;
        let (from, rest) = rest.split_at_checked(length.parse().ok()?)?;
        let to = rest.strip_prefix(" to ")?;
        Some(Frozen { from: from.to_owned(), to: to.to_owned() })
    }

    /// The text to record.
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
