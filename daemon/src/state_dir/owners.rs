//! Whether root may trust a path: no other user can replace the directory, or put files into it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Others may write. In a sticky directory, they still can't replace other users' files.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Checks the path as given, including links on the way, and its target. For other users than root, it checks nothing.
pub(super) fn check(given: &Path, resolved: &Path) -> Result<(), String> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let given = std::path::absolute(given).map_err(|e| super::explain("resolving its path", &e))?;
    for path in given.ancestors().skip(1).chain(resolved.ancestors().skip(1)) {
        check_one(path, true)?;
    }
    check_one(&given, false)?;
    check_one(resolved, false)
}

fn check_one(path: &Path, sticky_will_do: bool) -> Result<(), String> {
    let found = fs::symlink_metadata(path)
        .map_err(|e| super::explain("checking who may write to it", &e))?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    // A link's mode has no meaning.
    let open = !found.is_symlink() && mode & OTHERS_WRITE != 0;
    if owner == 0 && (!open || sticky_will_do && mode & STICKY != 0) {
        return Ok(());
    }
    Err(format!(
        "the daemon runs as root, but others may write to {} (owner {owner}, mode {mode:o}) and could replace the \
         journal with an old one. Make root the owner and the only writer, configure another directory, or run the \
         daemon as a dedicated user",
        path.display()
    ))
}
