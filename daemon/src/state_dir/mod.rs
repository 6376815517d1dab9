//! The state directory: made, locked and looked at once, before anything in it is trusted.
//!
//! One daemon owns it at a time: the lock is an exclusive `flock` on the file `lock`, which the kernel
//! drops when its owner dies, so that no stale lock can be left behind. The file names its owner's pid
//! for the error that a second daemon prints; the pid itself decides nothing.

mod filesystem;
mod look;
mod owners;
#[cfg(test)]
mod tests;

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use look::{Lasting, check_owners, lasting, locked_by};

use crate::lock::{LockError, LockFile, holder};

/// A state directory that this process owns. Clones share the lock; it is released with the last one.
#[derive(Clone, Debug)]
pub struct StateDir {
    shared: Arc<Owned>,
}

/// Why a state directory can't be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the state directory {path} can't be used: {cause}", path = path.display())]
pub struct StateDirError {
    /// The directory.
    pub path: PathBuf,
    /// What was tried, what happened and what to do next.
    pub cause: String,
}

#[derive(Debug)]
struct Owned {
    path: PathBuf,
    /// Held for its lock alone.
    _lock: LockFile,
}

/// The file in the directory that carries the lock.
const LOCK_FILE: &str = "lock";

// === impl StateDir ===

impl StateDir {
    /// Makes the directory where there is none (readable by its owner only), checks what it lies on and
    /// locks it.
    ///
    /// # Errors
    /// When the path is no directory or can't be written to, lies on a network file system, or belongs to
    /// another daemon, whose pid the error names; for root also when somebody else may write to it, or to the way there.
    pub fn open(path: &Path) -> Result<StateDir, StateDirError> {
        let given = path;
        let failed = |cause: String| StateDirError { path: path.to_path_buf(), cause };
        DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(path)
            .map_err(|e| failed(explain("creating the directory", &e)))?;
        // From here on a change of the working directory or of a link on the way can't lead elsewhere.
        let path = path.canonicalize().map_err(|e| failed(explain("resolving its path", &e)))?;
        filesystem::check(&path).map_err(&failed)?;
        if nix::unistd::geteuid().is_root() {
            owners::check(given, &path).map_err(&failed)?;
        }
        let lock = lock(&path).map_err(&failed)?;
        Ok(StateDir { shared: Arc::new(Owned { path, _lock: lock }) })
    }

    /// The directory, absolute and without symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Makes the names in the directory durable: files created, renamed and removed in it.
    ///
    /// # Errors
    /// The system's, when the disk didn't take them.
    pub fn sync(&self) -> io::Result<()> {
        File::open(self.path())?.sync_all()
    }
}

/// Whether a directory lies in memory, so that nothing in it outlives the machine's run.
pub(crate) fn in_memory(dir: &Path) -> bool {
    filesystem::is_memory(dir)
}

/// Locks the directory's lock file.
fn lock(dir: &Path) -> Result<LockFile, String> {
    LockFile::acquire(&dir.join(LOCK_FILE), 0o600).map_err(|error| match error {
        LockError::Held { pid, .. } => format!(
            "{} is using it already; stop that daemon, or give this one a state directory of its own",
            holder(pid)
        ),
        LockError::Io { path, cause } => explain(&format!("locking {}", path.display()), &cause),
    })
}

/// What an I/O error means for whoever runs the daemon.
pub(crate) fn explain(tried: &str, e: &io::Error) -> String {
    let next = match e.kind() {
        io::ErrorKind::PermissionDenied => {
            "let the daemon's user own the directory, or configure another one"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "remount its file system for writing, or configure a directory on another one"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space there, or configure a directory on another file system"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "the path exists and is not a directory: move it away, or configure another path"
        }
        io::ErrorKind::NotFound => "make sure that the path exists",
        _ => "check the kernel's log for a failing disk",
    };
    format!("{tried} failed: {e}; {next}")
}
