//! Why a store or a registry can't be used: in words for people, and as a class that decides what to do about it.

use std::fmt;
use std::ops::Deref;

/// The class of a reason. It is set where the cause is known: from an SQLSTATE, a server's error code or an errno.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Why {
    /// No class: the store is unreachable, or the words say everything.
    #[default]
    Other,
    /// The server rejects the login, or there is no password to log in with.
    Login,
    /// TLS fails, or a certificate is not accepted.
    Certificate,
    /// The server offers no TLS.
    NoTls,
    /// Without TLS, the server asks for the password in clear text.
    ReadablePassword,
    /// The server accepts no writes.
    ReadOnly,
    /// Another program has the embedded store's file locked.
    Locked,
    /// The call has exceeded the longest allowed time, but has not failed.
    Silent,
    /// It is a different database than before.
    AnotherDatabase,
    /// The store records other routes than this host is configured with.
    OtherRoutes,
    /// The store has tags, but records no routes.
    NoRoutes,
    /// The server has no database of this name.
    UnknownDatabase,
    /// The user lacks privileges.
    MissingPrivileges,
    /// Tables or columns are missing.
    MissingTables,
    /// A table is missing, or the user has no privilege to see it.
    HiddenTables,
    /// One of leafd's records has a value that leafd never writes.
    ForeignValue,
    /// A tag's row is below what was claimed of it.
    RowSetBack,
    /// The server refuses a statement although leafd's tables and privileges are complete.
    Rejected,
    /// The clock of the worker registry is behind the times recorded there.
    RegistryClock,
}

/// A reason: its words, and its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// For people.
    pub words: String,
    /// For code.
    pub why: Why,
}

impl Reason {
    /// A reason of this class.
    pub fn new(why: Why, words: impl Into<String>) -> Reason {
        Reason { words: words.into(), why }
    }

    /// Joins several reasons; the class is the first one other than [`Why::Other`].
    pub fn joined(reasons: &[Reason]) -> Reason {
        let words: Vec<&str> = reasons.iter().map(|reason| &*reason.words).collect();
        let known = reasons.iter().map(|reason| reason.why).find(|why| *why != Why::Other);
        Reason { words: words.join("; "), why: known.unwrap_or_default() }
    }

    /// The same reason, with a prefix before its words.
    pub fn behind(self, what: impl fmt::Display) -> Reason {
        Reason { words: format!("{what}: {}", self.words), ..self }
    }
}

impl From<String> for Reason {
    fn from(words: String) -> Reason {
        Reason::new(Why::Other, words)
    }
}

impl From<&str> for Reason {
    fn from(words: &str) -> Reason {
        Reason::new(Why::Other, words)
    }
}

impl Deref for Reason {
    type Target = str;

    fn deref(&self) -> &str {
        &self.words
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}
