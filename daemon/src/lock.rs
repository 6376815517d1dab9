//! A lock file that says who holds it. The kernel lets go of it when the holder ends, however it ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// A lock that is held until dropped. The file stays: removing it would let two hold it.
#[derive(Debug)]
pub struct LockFile {
    file: Flock<File>,
    path: PathBuf,
}

/// Why a lock can't be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("{} is locked by {}", path.display(), holder(*pid))]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Who holds it, as far as the file says.
        pid: Option<i32>,
    },
    /// The system refused.
    #[error("cannot lock {}: {cause}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What happened.
        cause: io::Error,
    },
}

/// How often a lock file that was deleted between opening and locking it is tried anew.
const ATTEMPTS: u32 = 10;

/// A pid is padded to this length, so that it is written in place also when the disk is full.
const PID_LINE_BYTES: usize = 12;

/// The process that a lock file names, in words.
#[must_use]
pub fn holder(pid: Option<i32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

impl LockFile {
    /// Takes the lock and writes this process's id into the file, which is made with the permission bits
    /// `mode` if it isn't there.
    ///
    /// # Errors
    /// See [`LockError`].
    pub fn acquire(path: &Path, mode: u32) -> Result<LockFile, LockError> {
        let failed = |cause| LockError::Io { path: path.to_owned(), cause };
        for _ in 0..ATTEMPTS {
            let file = open(path, mode).map_err(failed)?;
            let mut lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => lock,
                Err((file, Errno::EWOULDBLOCK)) => {
                    return Err(LockError::Held { path: path.to_owned(), pid: read_pid(file) });
                }
                Err((_, error)) => return Err(failed(error.into())),
            };
            // A lock on a file that has been deleted meanwhile keeps nobody out.
            if same_file(&lock, path) {
                match write_pid(&mut lock) {
                    // Another user's file, opened for reading alone: the lock is none the weaker.
                    Err(error) if error.raw_os_error() != Some(libc::EBADF) => {
                        return Err(failed(error));
                    }
                    _ => return Ok(LockFile { file: lock, path: path.to_owned() }),
                }
            }
        }
        Err(failed(io::Error::other(
            "something deletes that file again and again; find out what cleans up there and make it stop",
        )))
    }

    /// Whether the lock still keeps others out: the file has not been removed or replaced.
    #[must_use]
    pub fn still_held(&self) -> bool {
        same_file(&self.file, &self.path)
    }
}

/// Opens the file without O_CREAT first: in a sticky folder the kernel refuses to "create" a file that
/// another user owns, even to those who may open it.
fn open(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            options.create(true).truncate(false).mode(mode).open(path)
        }
        // A lock needs no write access.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)
        }
        outcome => outcome,
    }
}

fn same_file(open: &File, path: &Path) -> bool {
    match (open.metadata(), path.symlink_metadata()) {
        (Ok(open), Ok(named)) => open.ino() == named.ino() && open.dev() == named.dev(),
        _ => false,
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    let line = format!("{:<width$}\n", std::process::id(), width = PID_LINE_BYTES - 1);
    file.rewind()?;
    file.write_all(line.as_bytes())?;
    file.set_len(line.len() as u64)
}

/// The holder may be about to write its pid; that it holds the lock is known without it.
fn read_pid(file: File) -> Option<i32> {
    let mut text = String::new();
    file.take(64).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
