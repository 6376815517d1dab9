//! The state directory: created, locked and checked once, before its content is trusted.
//!
//! One daemon owns it at a time. The lock is an exclusive `flock` on the file `lock`. The kernel releases it when its
//! owner dies, so a stale lock can't remain. The file contains its owner's pid for a second daemon's error message
//! only.

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

pub(crate) use filesystem::{is_memory, look as lost_with_the_host};
pub use look::{check_owners, locked_by};

use crate::lock::{LockError, LockFile, holder};

/// A state directory that this process owns. Clones share the lock, which is released with the last one.
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
    /// What failed, why, and what to do.
    pub cause: String,
}

#[derive(Debug)]
struct Owned {
    path: PathBuf,
    /// Held only for its lock.
    _lock: LockFile,
}

/// The file in the directory that carries the lock.
const LOCK_FILE: &str = "lock";

// === impl StateDir ===

impl StateDir {
    /// Creates the directory if it is missing (readable by its owner only), checks its file system, and locks it.
    ///
    /// # Errors
    /// The path is not a directory, can't be written to, lies on a network file system, or belongs to another daemon,
    /// whose pid the error names. For root also: another user may write to it, or to a directory above it.
    pub fn open(path: &Path) -> Result<StateDir, StateDirError> {
        let given = path;
        let failed = |cause: String| StateDirError { path: path.to_path_buf(), cause };
        DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(path)
            .map_err(|e| failed(explain("creating the directory", &e)))?;
        // From here on, a changed working directory or link has no effect.
        let path = path.canonicalize().map_err(|e| failed(explain("resolving its path", &e)))?;
        filesystem::check(&path).map_err(&failed)?;
        owners::check(given, &path).map_err(&failed)?;
        let lock = lock(&path).map_err(&failed)?;
        Ok(StateDir { shared: Arc::new(Owned { path, _lock: lock }) })
    }

    /// The directory, absolute and without symbolic links.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Whether a file lies in the directory or below it, so that a restored directory brings it back as well.
    pub fn contains(&self, file: &Path) -> bool {
        let file = std::path::absolute(file).unwrap_or_default();
        let folder = file.parent().and_then(|folder| folder.canonicalize().ok());
        folder.is_some_and(|folder| folder.starts_with(self.path()))
    }

    /// Makes the directory's names durable: files created, renamed and removed in it.
    ///
    /// # Errors
    /// The system's, if the disk failed.
    pub fn sync(&self) -> io::Result<()> {
        File::open(self.path())?.sync_all()
    }
}

/// Locks the directory's lock file.
fn lock(dir: &Path) -> Result<LockFile, String> {
    LockFile::acquire(&dir.join(LOCK_FILE), 0o600).map_err(|error| match error {
        LockError::Held { pid, .. } => format!(
            "{} already uses it; stop that daemon, or give this one its own state directory",
            holder(pid)
        ),
        LockError::Io { path, cause } => explain(&format!("locking {}", path.display()), &cause),
    })
}

/// The path of a file beside another one, whose name it begins with.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// An I/O error in words for the operator.
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
