//! A lock file that says who holds it. The kernel lets go of it when the holder ends, however it ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

/// A lock that is held until dropped. The file stays: removing it would let two hold it.
#[derive(Debug)]
pub struct LockFile(#[expect(dead_code, reason = "held for its drop")] Flock<File>);

/// Why a lock can't be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("{} is locked by {}", path.display(), match pid { Some(pid) => format!("process {pid}"), None => "another process".to_owned() })]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Who holds it, as far as the file says.
        pid: Option<i32>,
    },
    /// The system refused.
    #[error("cannot lock {}: {source}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
}

impl LockFile {
    /// Takes the lock and writes this process's id into it.
    ///
    /// # Errors
    /// See [`LockError`].
    pub fn acquire(path: &Path) -> Result<LockFile, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), source };
        let file = open(path).map_err(failed)?;
        let mut lock =
            Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(mut file, error)| {
                match error {
                    nix::errno::Errno::EWOULDBLOCK => {
                        let mut text = String::new();
                        let pid = file
                            .read_to_string(&mut text)
                            .ok()
                            .and_then(|_| text.trim().parse().ok());
                        LockError::Held { path: path.to_owned(), pid }
                    }
                    error => failed(error.into()),
                }
            })?;
        // For people and for the next one's error text; another user's file may not be ours to write.
        let _ = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{}", std::process::id()));
        Ok(LockFile(lock))
    }
}

/// Opens the file without O_CREAT first: in a sticky folder the kernel refuses to "create" a file that
/// another user owns, even to those who may open it.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            options.create(true).truncate(false).mode(0o644).open(path)
        }
        // A lock needs no write access.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)
        }
        outcome => outcome,
    }
}
