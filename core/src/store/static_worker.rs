//! The store's record of which daemons recently used a worker number that operators assign by hand. Two daemons that
//! use it at the same time issue the same ids.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use leafd_wire::text::clean;

/// A daemon that has recorded its use of a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticUser {
    /// The daemon's start, by its token.
    pub start: Arc<str>,
    /// Its host's name for people, without spaces.
    pub name: Arc<str>,
    /// When it last recorded that, by the store's clock.
    pub at_ms: u64,
}

/// How long a daemon is remembered after its last record, in milliseconds.
const REMEMBERED_MS: u64 = 90_000;

/// How many daemons are remembered. The oldest ones are forgotten.
const REMEMBERED_MAX: usize = 8;

/// Records that a daemon uses the number. `users` are those in the store; in the result, the other recent ones follow
/// the current one.
pub fn note_static_user(users: &mut Vec<StaticUser>, present: StaticUser) {
    let now_ms = present.at_ms;
    users.iter_mut().for_each(|user| user.name = clean(&user.name).into());
    // A later time means that the store's clock has been set back since.
    let is_recent = |at_ms| now_ms.checked_sub(at_ms).is_some_and(|ago_ms| ago_ms < REMEMBERED_MS);
    users.retain(|other| other.start != present.start && is_recent(other.at_ms));
    users.sort_by_key(|other| now_ms - other.at_ms);
    users.truncate(REMEMBERED_MAX - 1);
    users.insert(0, present);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(at_ms: u64, start: &str) -> StaticUser {
        StaticUser { start: start.into(), name: "n".into(), at_ms }
    }

    #[test]
    fn recent_users_are_remembered_once_each() {
        let mut users = Vec::new();
        note_static_user(&mut users, user(1_000, "s1"));
        note_static_user(&mut users, user(3_000, "s2"));
        assert_eq!(users, [user(3_000, "s2"), user(1_000, "s1")]);
        note_static_user(&mut users, user(4_000, "s1"));
        assert_eq!(users, [user(4_000, "s1"), user(3_000, "s2")]);
        let [last, over] = [2_999, 3_000].map(|at_ms| user(at_ms + REMEMBERED_MS, "s1"));
        note_static_user(&mut users, last.clone());
        assert_eq!(users, [last, user(3_000, "s2")]);
        note_static_user(&mut users, over.clone());
        assert_eq!(users, [over]);
    }

    #[test]
    fn later_times_and_the_oldest_users_are_dropped() {
        let mut users = vec![user(9_000, "late")];
        note_static_user(&mut users, user(10, "s"));
        assert_eq!(users, [user(10, "s")]);
        for start in 0..100 {
            note_static_user(&mut users, user(start, &start.to_string()));
        }
        assert_eq!(users.len(), REMEMBERED_MAX);
        assert_eq!(users[..2], [user(99, "99"), user(98, "98")]);
    }
}
