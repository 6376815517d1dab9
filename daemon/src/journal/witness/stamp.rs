//! The file `stamp` in the state directory, which is recreated at each start and each clean stop.
//!
//! Its contents don't matter. Its inode and birth time belong to one start alone, and copying the directory's contents
//! can't bring earlier ones back. A start's token begins with a digest of both. The journal and the embedded store keep
//! that token, which shows whether they belong to the same start as the directory.
//!
//! The new file is durable under another name before the journal records its digest, and is renamed after that. So a
//! crash at any point leaves the file that the journal knows under one of the two names.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::journal::records::Sum;
use crate::random;
use crate::state_dir::StateDir;
use leafd_core::store::StartToken;

const NAME: &str = "stamp";
const NEW_NAME: &str = "stamp.new";

/// The file's text, for people who read it.
const TEXT: &str =
    "leafd rewrites this file at each start and stop, to detect that the directory was restored.\n";

/// How many digits at the beginning of a token come from the stamp.
const DIGITS: usize = 16;

/// The digest on a file system that doesn't record birth times. The inode's number alone may be reused.
const UNKNOWN: &str = "0000000000000000";

/// The stamps in the directory: one, or two after a crash.
#[derive(Clone, Debug)]
pub(in crate::journal) struct Stamp {
    digest: String,
    /// Whether the file has its final name, which it gets once the journal has recorded its token.
    in_place: bool,
    /// The digest of a second file that a crash left.
    new: Option<String>,
}

// === impl Stamp ===

impl Stamp {
    /// The directory's stamp; `None` when there is none.
    pub fn of(dir: &StateDir) -> io::Result<Option<Stamp>> {
        let (stamp, new) = (digest(&path(dir, NAME))?, digest(&path(dir, NEW_NAME))?);
        Ok(match (stamp, new) {
            (Some(digest), new) => Some(Stamp { digest, in_place: true, new }),
            (None, Some(digest)) => Some(Stamp { digest, in_place: false, new: None }),
            (None, None) => None,
        })
    }

    /// Whether the stamp is evidence on this file system.
    pub fn tells(&self) -> bool {
        self.digest != UNKNOWN
    }

    /// Whether a journal has ever recorded a token of this stamp.
    pub fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// Whether the token belongs to this stamp.
    pub fn is_of(&self, token: &StartToken) -> bool {
        let begins = |digest: &String| token.0.starts_with(&**digest);
        begins(&self.digest) || self.new.as_ref().is_some_and(begins)
    }

    /// Whether a crash left a second file, and the token belongs to the first. The journal recorded the second one's
    /// token if and only if its log is whole, which nothing shows.
    pub fn may_have_later(&self, token: &StartToken) -> bool {
        self.new.as_ref().is_some_and(|new| !token.0.starts_with(&**new))
    }

    /// The beginning of this stamp's tokens.
    pub fn token_begin(&self) -> &str {
        &self.digest
    }

    /// Creates the next stamp and a token for it. The stamp is durable, but does not have its final name yet. `last` is
    /// the token in the journal.
    pub fn make(dir: &StateDir, last: Option<&StartToken>) -> io::Result<StartToken> {
        let new = path(dir, NEW_NAME);
        match digest(&new)? {
            // A crash prevented the renaming of this file, but the journal has its token.
            Some(digest) if last.is_some_and(|last| last.0.starts_with(&*digest)) => {
                put_in_place(dir)?
            }
            Some(_) => fs::remove_file(&new)?,
            None => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(TEXT.as_bytes())?;
        file.sync_all()?;
        dir.sync()?;
        let begin = digest(&new)?.ok_or_else(|| io::Error::other("it vanished"))?;
        let random = random::token();
        Ok(StartToken(format!("{begin}{}", &random[DIGITS..]).into()))
    }
}

/// Gives the new stamp its name. The name need not be durable, because `Stamp::of` looks at both.
pub(in crate::journal) fn put_in_place(dir: &StateDir) -> io::Result<()> {
    fs::rename(path(dir, NEW_NAME), path(dir, NAME))
}

fn path(dir: &StateDir, name: &str) -> PathBuf {
    dir.path().join(name)
}

/// A digest of the file's identity, whatever it contains; `None` if it doesn't exist.
fn digest(path: &Path) -> io::Result<Option<String>> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let born = found.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let Some(born) = born else { return Ok(Some(UNKNOWN.to_owned())) };
    let sum = Sum::of("stamp").int(found.ino().cast_signed()).bytes(&born.as_nanos().to_le_bytes());
    Ok(Some(format!("{:016x}", sum.get())))
}
