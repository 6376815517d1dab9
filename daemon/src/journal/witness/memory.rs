//! The last commit, noted in a file of the runtime directory after each one, before it is acknowledged.
//!
//! It is never synced: it tells what happened since the machine started, and goes with it. It counts only where a
//! reboot is sure to end it: in a file system in memory, or with the boot's own id in it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::state_dir::in_memory;
use leafd_core::store::HostId;

/// Where the kernel tells its boots apart.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A note that is longer is none of ours.
const NOTE_BYTES_MAX: u64 = 256;

/// What an earlier daemon of this boot noted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Noted {
    pub host: String,
    pub commits: i64,
}

/// The file, open for notes.
#[derive(Debug)]
pub(in crate::journal) struct Memory {
    path: PathBuf,
    /// `None` once a note could not be made: then there is no file either.
    file: Option<File>,
    boot: String,
}

// === impl Noted ===

impl Noted {
    /// What is noted, if it can be trusted: in a file of this user's own, and of this boot.
    pub fn read(path: &Path) -> Option<Noted> {
        let mut options = OpenOptions::new();
        let file =
            options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()?;
        let found = file.metadata().ok()?;
        let own = found.is_file() && found.uid() == nix::unistd::geteuid().as_raw();
        if !own || found.len() > NOTE_BYTES_MAX {
            return None;
        }
        let mut text = vec![0; usize::try_from(found.len()).ok()?];
        file.read_exact_at(&mut text, 0).ok()?;
        let text = String::from_utf8(text).ok()?;
        let mut words = text.split_whitespace();
        let (host, commits, boot) = (words.next()?, words.next()?, words.next()?);
        let this_boot = boot == boot_id() && boot != NO_BOOT_ID;
        if !this_boot && !in_memory(path.parent()?) {
            return None;
        }
        Some(Noted { host: host.to_owned(), commits: commits.parse().ok()? })
    }
}

// === impl Memory ===

impl Memory {
    /// Makes the file anew and notes the last commit. Without a directory to write to there is no memory.
    pub fn begin(path: &Path, host: &HostId, commits: i64) -> Option<Memory> {
        let made = match fs::remove_file(path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => OpenOptions::new().write(true).create_new(true).mode(0o600).open(path),
        };
        match made {
            Ok(file) => {
                let mut memory =
                    Memory { path: path.to_owned(), file: Some(file), boot: boot_id() };
                memory.note(host, commits);
                Some(memory)
            }
            Err(e) => {
                tracing::warn!(
                    file = %path.display(), error = %e,
                    "can't note the last commit outside the state directory: a crash will skip the ids that are held"
                );
                None
            }
        }
    }

    /// Notes a commit. A note that can't be made takes the file with it: an old one would vouch for an old journal.
    pub fn note(&mut self, host: &HostId, commits: i64) {
        let Some(file) = &self.file else { return };
        let line = format!("{host} {commits:020} {}\n", self.boot);
        let Err(e) = file.write_all_at(line.as_bytes(), 0) else { return };
        self.file = None;
        let removed = fs::remove_file(&self.path);
        tracing::warn!(
            file = %self.path.display(), error = %e, removed = removed.is_ok(),
            "could not note the last commit: a crash will skip the ids that are held"
        );
    }
}

const NO_BOOT_ID: &str = "unknown";

/// A sandbox may hide it.
fn boot_id() -> String {
    let read = fs::read_to_string(BOOT_ID).map(|id| id.trim().to_owned());
    read.and_then(|id| if id.is_empty() { Err(io::Error::other("empty")) } else { Ok(id) })
        .unwrap_or_else(|_| NO_BOOT_ID.to_owned())
}
