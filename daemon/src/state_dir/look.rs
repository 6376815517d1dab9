//! Inspects a state directory without locking it, for `leafd doctor`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{LOCK_FILE, owners};

/// The process that has locked the directory, according to the kernel. Trying the lock could prevent a daemon from
/// starting.
pub fn locked_by(dir: &Path) -> Option<i32> {
    let file = dir.join(LOCK_FILE);
    let inode = fs::metadata(&file).ok()?.ino();
    let noted: i32 = fs::read_to_string(&file).ok()?.lines().next()?.trim().parse().ok()?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().any(|line| is_lock(line, noted, inode)).then_some(noted)
}

/// Parses `1: FLOCK  ADVISORY  WRITE 707 08:02:131201 0 EOF`: the process, and the inode after the device. File
/// systems may share inode numbers; the process distinguishes them.
fn is_lock(line: &str, pid: i32, inode: u64) -> bool {
    let mut fields = line.split_whitespace().skip(1);
    let is_whole = fields.next() == Some("FLOCK");
    let holder = fields.nth(2).and_then(|pid| pid.parse::<i32>().ok());
    let file = fields.next().and_then(|file| file.rsplit(':').next()?.parse::<u64>().ok());
    is_whole && holder == Some(pid) && file == Some(inode)
}

/// Whether root may trust the directory. Not checked for other users.
///
/// # Errors
/// Which other users may write there, and what to do.
pub fn check_owners(dir: &Path) -> Result<(), String> {
    let resolved =
        dir.canonicalize().map_err(|error| super::explain("resolving its path", &error))?;
    owners::check(dir, &resolved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state_dir::StateDir;

    #[test]
    fn the_owner_of_the_lock_is_told_without_trying_it() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(locked_by(place.path()), None);
        let dir = StateDir::open(place.path()).unwrap();
        assert_eq!(locked_by(place.path()), i32::try_from(std::process::id()).ok());
        drop(dir);
        assert_eq!(locked_by(place.path()), None, "the file stays, and says nothing");
    }

    #[test]
    fn locks_of_other_files_and_processes_are_not_meant() {
        let line = "1: FLOCK  ADVISORY  WRITE 707 08:02:131201 0 EOF";
        assert!(is_lock(line, 707, 131_201));
        assert!(!is_lock(line, 708, 131_201) && !is_lock(line, 707, 131_202));
        assert!(!is_lock("2: POSIX  ADVISORY  READ 707 08:02:131201 0 EOF", 707, 131_201));
        assert!(!is_lock("nonsense", 707, 131_201));
    }
}
