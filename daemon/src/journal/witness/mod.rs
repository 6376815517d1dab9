//! Decides whether the journal that a start finds is the one that was last written, or a restored older one.
//!
//! A restore in place changes neither the journal's inode nor its birth time, so the evidence is outside of it:
//!
//! - `memory`: the last commit and its start, noted in the runtime directory. It knows every commit since the last
//!   reboot, but only of daemons with this runtime directory.
//! - `stamp`: a file beside the journal, recreated at each start and each clean stop. It outlives a reboot, but knows
//!   only starts and clean stops.
//!
//! Where both exist, both must agree with the journal. Without the memory, the stamp is enough after a clean stop.
//! After a crash it is not, so no held ids are used, because a copy taken while the daemon ran looks the same as the
//! journal itself.

mod memory;
mod stamp;

use std::path::Path;

pub(super) use self::memory::Memory;
pub(super) use self::stamp::{Stamp, put_in_place};
use super::db::Db;
use super::fault::Fault;
use crate::state_dir::StateDir;
use leafd_core::store::StartToken;

/// What the opening of a journal needs to know from outside its directory.
#[derive(Clone, Copy)]
pub struct Outside<'a> {
    /// The file in the runtime directory that notes the last commit; `None` if there is no such directory.
    pub memory: Option<&'a Path>,
    /// Called before a journal that is not the last one is set aside, because an embedded store beside it may have been
    /// restored with it. On error, nothing is changed and the journal isn't opened.
    pub may_begin_anew: &'a dyn Fn(&SetAside) -> Result<(), String>,
}

/// A journal that will be set aside.
#[derive(Clone, Debug)]
pub struct SetAside {
    /// True if the file is in its original place but has older contents. Otherwise it is a copy.
    pub restored: bool,
    /// The evidence that it is not the journal that was last written.
    pub why: String,
    /// The beginning of the token of a start after this journal was written; `None` if there is no evidence of one.
    later_token: Option<String>,
}

/// What the evidence says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// It is the journal that was last written.
    Current,
    /// There is no evidence. Its lower limits of ids may be used, its held ids may not.
    Unvouched,
    /// It is older than the one that was last written.
    Restored(String),
}

/// All evidence, read before anything is changed.
#[derive(Debug)]
pub(super) struct Witnesses {
    stamp: Option<Stamp>,
    memory: Option<memory::Noted>,
    /// Whether the memory can confirm the journal. Inside the state directory it can't, because a restore of the
    /// directory brings both back. It can still show that the journal is older.
    memory_vouches: bool,
}

// === impl SetAside ===

impl SetAside {
    /// Whether a store that knows this token of one of this host's starts is newer than the journal.
    pub fn is_older_than(&self, token: &StartToken) -> bool {
        self.later_token.as_ref().is_some_and(|begin| token.0.starts_with(&**begin))
    }
}

// === impl Witnesses ===

impl Witnesses {
    /// Reads the evidence.
    pub fn look(dir: &StateDir, memory: Option<&Path>) -> Result<Witnesses, Fault> {
        let stamp = Stamp::of(dir).map_err(Fault::io("reading the state directory's stamp"))?;
        let memory_vouches = memory.is_some_and(|file| !dir.contains(file));
        Ok(Witnesses { stamp, memory: memory.and_then(memory::Noted::read), memory_vouches })
    }

    /// What the evidence says about the journal that was found.
    pub fn judge(&self, found: &Db) -> Result<Freshness, Fault> {
        let commits = found.meta.commits;
        let noted = self.memory.as_ref().filter(|noted| *noted.host == *found.meta.host.0);
        if let Some(noted) = noted
            && commits < noted.commits
        {
            let made = noted.commits;
            return Ok(Freshness::Restored(format!(
                "it has {commits} commits, but {made} were made"
            )));
        }
        let Some(last) = found.last_token()? else {
            return Ok(match &self.stamp {
                Some(stamp) if stamp.tells() && stamp.is_in_place() => Freshness::Restored(
                    "it was created but never used, but the file stamp in the state directory is from a start of leafd"
                        .to_owned(),
                ),
                _ => Freshness::Current,
            });
        };
        let stamped = match &self.stamp {
            Some(stamp) if !stamp.tells() => false,
            Some(stamp) if stamp.is_of(&last) => !stamp.may_have_later(&last),
            Some(_) => {
                return Ok(Freshness::Restored(
                    "the file stamp in the state directory is from a later start or stop"
                        .to_owned(),
                ));
            }
            None => {
                return Ok(Freshness::Restored(
                    "the file stamp in the state directory, written with the journal, is missing"
                        .to_owned(),
                ));
            }
        };
        Ok(match noted.filter(|_| self.memory_vouches) {
            Some(noted) if *noted.start == *last.0 => Freshness::Current,
            // The daemon has run since with another runtime directory, which noted the later commits.
            Some(_) => Freshness::Unvouched,
            None if stamped && found.meta.stopped_cleanly => Freshness::Current,
            None => Freshness::Unvouched,
        })
    }

    /// The description of a journal that will be set aside.
    pub fn set_aside(&self, found: &Db, restored: bool, why: String) -> Result<SetAside, Fault> {
        let last = found.last_token()?;
        let stamp = self.stamp.as_ref().filter(|stamp| stamp.tells());
        // A stamp of the journal's own start is not later than the journal.
        let later = stamp.filter(|stamp| !last.as_ref().is_some_and(|last| stamp.is_of(last)));
        Ok(SetAside {
            restored,
            why,
            later_token: later.map(|stamp| stamp.token_begin().to_owned()),
        })
    }

    /// The description of a journal that is missing, if there ever was one.
    pub fn lost(&self) -> Option<SetAside> {
        let stamp = self.stamp.as_ref().filter(|stamp| stamp.tells())?;
        let why = "it is missing, but the directory's stamp is still there".to_owned();
        Some(SetAside { restored: true, why, later_token: Some(stamp.token_begin().to_owned()) })
    }
}
