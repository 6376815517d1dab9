//! Notes each commit in a file of the runtime directory before the commit is acknowledged.
//!
//! The file is never synced, because it only has to last until the machine reboots. It counts only if it can't outlive
//! a reboot: if it is on a file system in memory, or contains the current boot id.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::state_dir::is_memory;
use leafd_core::store::{HostId, StartToken};

/// The file with the boot id.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A longer file is not such a note.
const NOTE_BYTES_MAX: u64 = 256;

/// What an earlier daemon noted during this boot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Noted {
    pub host: String,
    pub commits: i64,
    /// The token of the start, or clean stop, that made the commit.
    pub start: String,
}

/// The file, open for notes.
#[derive(Debug)]
pub(in crate::journal) struct Memory {
    path: PathBuf,
    /// `None` after a note failed. Then the file was removed.
    file: Option<File>,
    /// The token of the current start, or of its clean stop.
    start: StartToken,
    boot: String,
}

// === impl Noted ===

impl Noted {
    /// Reads the note if it can be trusted: the file must belong to this user, and the note to this boot.
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
        let mut word = || words.next().map(str::to_owned);
        let (host, commits, start) = (word()?, word()?, word()?);
        let this_boot = word().is_some_and(|boot| boot == boot_id());
        if !this_boot && !is_memory(path.parent()?) {
            return None;
        }
        Some(Noted { host, commits: commits.parse().ok()?, start })
    }
}

// === impl Memory ===

impl Memory {
    /// Creates the file again and notes the commit of this start. `None` if the file can't be written.
    pub fn begin(path: &Path, host: &HostId, commits: i64, start: StartToken) -> Option<Memory> {
        // If this fails and the file exists, creating it fails as well.
        let _ = fs::remove_file(path);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Ok(file) => {
                let (path, file) = (path.to_owned(), Some(file));
                let mut memory = Memory { path, file, start, boot: boot_id() };
                memory.note(host, commits, None);
                Some(memory)
            }
            Err(e) => {
                tracing::warn!(
                    file = %path.display(), error = %e,
                    "can't record the last commit outside the state directory: after a crash, the held ids will be \
                     skipped"
                );
                None
            }
        }
    }

    /// Notes a commit; `stop` is the token of a clean stop. On failure it removes the file, because an old note would
    /// confirm an old journal.
    pub fn note(&mut self, host: &HostId, commits: i64, stop: Option<&StartToken>) {
        if let Some(stop) = stop {
            self.start = stop.clone();
        }
        let Some(file) = &self.file else { return };
        let line = format!("{host} {commits:020} {} {}\n", self.start.0, self.boot);
        let Err(e) = file.write_all_at(line.as_bytes(), 0) else { return };
        self.file = None;
        let removed = fs::remove_file(&self.path);
        tracing::warn!(
            file = %self.path.display(), error = %e, removed = removed.is_ok(),
            "could not record the last commit: after a crash, the held ids will be skipped"
        );
    }
}

/// The kernel's current boot id, or no text if a sandbox hides it.
fn boot_id() -> String {
    fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_counts_if_it_is_this_user_s_and_can_t_be_older_than_the_boot() {
        let boot = boot_id();
        assert!(!boot.is_empty());
        for folder in ["/dev/shm", "/var/tmp"] {
            let folder = tempfile::tempdir_in(folder).unwrap();
            let path = folder.path().join("note");
            let is_on_disk = !is_memory(folder.path());
            let counts = |text: &str| {
                fs::write(&path, text).unwrap();
                let expected = Noted { host: "host".into(), commits: 7, start: "start".into() };
                let found = Noted::read(&path);
                assert!(found.as_ref().is_none_or(|found| *found == expected), "{found:?}");
                found.is_some()
            };
            let ours = format!("host 00007 start {boot}\n");
            assert!(counts(&ours) && counts(&format!("{ours:<256}")));
            assert!(!counts(&format!("{ours:<257}")));
            assert_eq!(counts("host 7 start another\n"), !is_on_disk);
            assert_eq!(counts("host 7 start \n"), !is_on_disk, "the boot id was hidden");
            assert!(!counts("") && !counts("host 7") && !counts(&format!("host x start {boot}")));
            assert!(counts(&ours));
            if nix::unistd::geteuid().is_root() {
                std::os::unix::fs::chown(&path, Some(1), None).unwrap();
                assert_eq!(Noted::read(&path), None, "it is another user's");
            }
        }
    }

    #[test]
    fn a_note_that_can_t_be_written_is_removed_and_no_other_is_tried() {
        let folder = tempfile::tempdir().unwrap();
        let (path, host) = (folder.path().join("note"), HostId("host".into()));
        let mut memory = Memory::begin(&path, &host, 1, StartToken("start".into())).unwrap();
        memory.note(&host, 2, Some(&StartToken("stop".into())));
        let noted = Noted { host: "host".into(), commits: 2, start: "stop".into() };
        assert_eq!(Noted::read(&path), Some(noted));
        memory.file = Some(File::open(&path).unwrap());
        memory.note(&host, 3, None);
        assert!(!path.exists() && memory.file.is_none());
        fs::create_dir(&path).unwrap();
        assert!(Memory::begin(&path, &host, 1, StartToken("start".into())).is_none());
    }
}
