//! Describes faults of the journal's files for the operator.

use std::io;

use rusqlite::ErrorCode;

use crate::state_dir::explain;

/// A fault of the journal's files. The text says what happened and what to do next.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Fault(pub String);

/// What to do after damage. A mark can't be repaired by hand.
const AFTER_DAMAGE: &str = "check the disk, move journal.db and journal.db-wal to a safe place, and start leafd again: \
    it creates a new journal and skips the ids that the old one held";

// === impl Fault ===

impl Fault {
    pub fn damaged(what: impl std::fmt::Display) -> Fault {
        Fault(format!("it is damaged: {what}; {AFTER_DAMAGE}"))
    }

    /// The fault of a system call; `tried` describes the attempt.
    pub fn io(tried: &str) -> impl Fn(io::Error) -> Fault + Copy {
        move |error| Fault(explain(tried, &error))
    }

    /// The same fault, preceded by a description of the attempt.
    pub fn while_trying(self, tried: &str) -> Fault {
        Fault(format!("{tried} failed: {}", self.0))
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(e: rusqlite::Error) -> Fault {
        use rusqlite::Error;
        let next = match &e {
            Error::SqliteFailure(inner, _) => match inner.code {
                ErrorCode::DiskFull => "the disk is full: free some space",
                ErrorCode::ReadOnly => {
                    "it can't be written to: remount its file system for writing, and make sure that the files are in \
                     place and belong to the daemon's user"
                }
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                    "another program has it locked: close that program"
                }
                ErrorCode::SystemIoFailure => "check the kernel's log for a failing or full disk",
                ErrorCode::CannotOpen | ErrorCode::PermissionDenied => {
                    "let the daemon's user read and write the directory and the files in it"
                }
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => return Fault::damaged(&e),
                _ => "this is not expected: please report it",
            },
            Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::Utf8Error(..)
            | Error::InvalidColumnType(..)
            | Error::InvalidColumnIndex(..) => return Fault::damaged(&e),
            _ => "this is not expected: please report it",
        };
        Fault(format!("SQLite reports: {e}; {next}"))
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::{Error, ffi};

    use super::*;

    #[test]
    fn every_fault_says_what_to_do() {
        for (code, next) in [
            (ffi::SQLITE_FULL, "free some space"),
            (ffi::SQLITE_READONLY, "remount its file system for writing"),
            (ffi::SQLITE_BUSY, "close that program"),
            (ffi::SQLITE_LOCKED, "close that program"),
            (ffi::SQLITE_IOERR, "check the kernel's log"),
            (ffi::SQLITE_CANTOPEN, "let the daemon's user read and write"),
            (ffi::SQLITE_PERM, "let the daemon's user read and write"),
            (ffi::SQLITE_CORRUPT, AFTER_DAMAGE),
            (ffi::SQLITE_NOTADB, AFTER_DAMAGE),
            (ffi::SQLITE_MISUSE, "please report it"),
        ] {
            let fault = Fault::from(Error::SqliteFailure(ffi::Error::new(code), None)).0;
            assert!(fault.contains(next), "{code}: {fault}");
        }
        assert!(Fault::from(Error::InvalidColumnIndex(1)).0.ends_with(AFTER_DAMAGE));
        assert!(Fault::from(Error::InvalidQuery).0.ends_with("please report it"));
    }
}
