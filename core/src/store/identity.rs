//! How a store identifies itself, and how a host identifies itself to a store.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{History, StoreError, Why};

/// Longest role of a store in bytes.
pub const ROLE_BYTES_MAX: usize = 8_256;

/// Which store answers, in which of its lives, and in which role. A daemon trusts one identity at a time, and passes it
/// with every call that depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Which store it is.
    pub id: StoreId,
    /// Its history.
    pub history: History,
    /// Its role among several stores.
    pub role: Role,
}

/// Identifies a store. Journal entries are keyed by it. A store with leafd's own tables keeps its id over a fail-over,
/// a restart and a restore from a backup. With Leaf's table only, the id consists of everything that distinguishes that
/// table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StoreId(pub Arc<str>);

/// A store's recorded role among several that are used together: printable ASCII, at most [`ROLE_BYTES_MAX`] bytes;
/// empty for a store that is used alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Role(pub Arc<str>);

impl Role {
    /// How a daemon must be configured that expects this role, for messages.
    pub fn configured(&self) -> String {
        match self.0.is_empty() {
            true => "for this store alone".to_owned(),
            false => format!("for {:?}", self.0),
        }
    }
}

/// Identifies a host: 32 hexadecimal digits, drawn when the state directory is created.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostId(pub Arc<str>);

/// Drawn at each start, and recorded in journal and store: 32 hexadecimal digits. If a journal is copied, only the
/// first copy to start is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StartToken(pub Arc<str>);

impl Identity {
    /// Checks that this is the store that the caller trusts. `store` names it in errors.
    ///
    /// # Errors
    /// [`StoreError::Changed`].
    pub fn check(self, under: &Identity, store: &str) -> Result<(), StoreError> {
        if self == *under {
            return Ok(());
        }
        let store = store.to_owned();
        Err(StoreError::Changed { store, expected: under.clone(), found: self })
    }

    /// Decides whether a role must be written. `store` names the store in errors.
    ///
    /// # Errors
    /// [`StoreError::Changed`] unless it is the same store in the same life; [`StoreError::Refused`] when it has
    /// another role.
    pub fn may_take(self, role: &Role, under: &Identity, store: &str) -> Result<bool, StoreError> {
        let same_life = self.id == under.id && self.history == under.history;
        if !same_life {
            return self.check(under, store).map(|()| false);
        }
        let is = self.role;
        if is == *role {
            return Ok(false);
        }
        if is.0.is_empty() {
            return Ok(true);
        }
        Err(StoreError::refused_for(
            Why::OtherRoutes,
            format!(
                "the recorded routes of the store {store} differ from this host's: they are {:?}, but this host is \
                 configured for {:?}. Correct the configuration, or change the recorded routes with: leafd routes \
                 apply",
                is.0, role.0
            ),
        ))
    }
}

impl Role {
    /// Checks it against its documented range.
    ///
    /// # Errors
    /// [`StoreError::Refused`] with the role.
    pub fn check(&self) -> Result<(), StoreError> {
        let printable = self.0.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if printable && self.0.len() <= ROLE_BYTES_MAX {
            return Ok(());
        }
        Err(StoreError::refused_for(
            Why::OtherRoutes,
            format!(
                "a store's role can't be {:?}; allowed: at most {ROLE_BYTES_MAX} printable ASCII characters",
                self.0
            ),
        ))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { id, history, role } = self;
        write!(f, "{id} with history {:?} and role {:?}", history.0, role.0)
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(id: &str, life: u64, role: &str) -> Identity {
        let (id, role) = (StoreId(id.into()), Role(role.into()));
        Identity { id, history: History::first(life), role }
    }

    #[test]
    fn a_store_is_trusted_only_as_it_is_known() {
        let under = identity("one", 1, "a");
        under.clone().check(&under, "s").unwrap();
        for found in [identity("two", 1, "a"), identity("one", 2, "a"), identity("one", 1, "b")] {
            assert!(matches!(found.check(&under, "s"), Err(StoreError::Changed { .. })));
        }
    }

    #[test]
    fn a_role_is_taken_once_in_the_known_life() {
        let take = |found: Identity| {
            found.may_take(&Role("a".into()), &identity("one", 1, ""), "s").map_err(|e| e.why())
        };
        assert!(matches!(take(identity("one", 1, "")), Ok(true)));
        assert!(matches!(take(identity("one", 1, "a")), Ok(false)));
        assert!(matches!(take(identity("one", 1, "b")), Err(Why::OtherRoutes)));
        for found in [identity("two", 1, ""), identity("one", 2, ""), identity("one", 2, "a")] {
            let error = found.may_take(&Role("a".into()), &identity("one", 1, ""), "s");
            assert!(matches!(error, Err(StoreError::Changed { .. })));
        }
    }

    #[test]
    fn roles_are_printable_and_not_too_long() {
        let longest = "r".repeat(ROLE_BYTES_MAX);
        for good in ["", "shard 1 of 2", &longest] {
            Role(good.into()).check().unwrap();
        }
        for bad in ["a\n", "é", &format!("{longest}r")] {
            Role(bad.into()).check().unwrap_err();
        }
    }
}
