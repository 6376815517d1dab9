//! Which daemons recently used a worker number that operators assign by hand, as the store remembers it. Two daemons that
//! use it at the same time issue the same ids.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::text::clean;

/// A daemon that noted that it uses a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticUser {
    /// The daemon's start, by its token.
    pub start: Arc<str>,
    /// Its host's name for people, without spaces.
    pub name: Arc<str>,
    /// How long ago it noted that last, on the store's clock.
    pub ago_ms: u64,
}

/// How long a daemon is remembered after its last note, in milliseconds.
const REMEMBERED_MS: u64 = 90_000;

/// How many daemons are remembered. Older ones are forgotten.
const REMEMBERED_MAX: usize = 8;

/// Notes that the daemon of this start and name uses the number. Returns the store's new text, and the other recent users.
/// `known` is the store's present text, with one user per line. Invalid lines are dropped.
#[must_use]
pub fn note_static_user(
    known: &str,
    now_ms: u64,
    start: &str,
    name: &str,
) -> (String, Vec<StaticUser>) {
    let mut others: Vec<StaticUser> =
        known.lines().filter_map(|line| parse(line, now_ms)).collect();
    others.retain(|other| *other.start != *start && other.ago_ms < REMEMBERED_MS);
    others.sort_by_key(|other| other.ago_ms);
    others.truncate(REMEMBERED_MAX - 1);
    let mut text = format!("{now_ms} {start} {name}");
    for StaticUser { start, name, ago_ms } in &others {
        let _ = write!(text, "\n{} {start} {name}", now_ms - ago_ms);
    }
    (text, others)
}

fn parse(line: &str, now_ms: u64) -> Option<StaticUser> {
    let mut words = line.split(' ');
    let at_ms: u64 = words.next()?.parse().ok()?;
    let (start, name) = (words.next()?, clean(words.next()?));
    // Fails if the store's clock was set back since.
    let ago_ms = now_ms.checked_sub(at_ms)?;
    Some(StaticUser { start: start.into(), name: name.into(), ago_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_used_it_lately_are_told_and_nobody_tells_of_itself() {
        let (text, others) = note_static_user("", 1_000, "s1", "a");
        assert_eq!((&*text, others), ("1000 s1 a", vec![]));
        let (text, others) = note_static_user(&text, 3_000, "s2", "b");
        assert_eq!(text, "3000 s2 b\n1000 s1 a");
        assert_eq!(others, [StaticUser { start: "s1".into(), name: "a".into(), ago_ms: 2_000 }]);
        let (text, others) = note_static_user(&text, 4_000, "s1", "a");
        assert_eq!(text, "4000 s1 a\n3000 s2 b");
        assert_eq!(others[0].ago_ms, 1_000);
        let (text, others) = note_static_user(&text, 4_000 + REMEMBERED_MS, "s1", "a");
        assert_eq!((&*text, others), ("94000 s1 a", vec![]));
    }

    #[test]
    fn what_makes_no_sense_and_what_is_too_much_is_dropped() {
        let known = "x s a\n5\n9000 late n\n\n7 odd";
        assert_eq!(note_static_user(known, 10, "s", "n"), ("10 s n".to_owned(), vec![]));
        let mut text = String::new();
        for start in 0..100 {
            text = note_static_user(&text, start, &start.to_string(), "n").0;
        }
        assert_eq!(text.lines().count(), REMEMBERED_MAX);
        assert!(text.starts_with("99 99 n\n98 98 n\n"), "{text}");
    }
}
