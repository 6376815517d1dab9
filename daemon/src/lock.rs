//! A lock file that names its holder. The kernel releases the lock when the holder exits, however it exits.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A lock that is held until it is dropped. The file stays: if it were removed, two processes could hold the
/// lock.
#[derive(Debug)]
pub struct LockFile {
    file: File,
    path: PathBuf,
    /// The last holder's note, which follows its pid.
    former_note: String,
}

/// Why a lock can't be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("{} is locked by {}", path.display(), holder(*pid))]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The holder, if the file names it.
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

/// How often to retry a lock file that was deleted between opening and locking.
const ATTEMPTS: u32 = 10;

/// A pid is padded to this length, so that it can be overwritten in place even on a full disk.
const PID_LINE_BYTES: usize = 12;

/// The process that a lock file names, in words.
pub fn holder(pid: Option<i32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

impl LockFile {
    /// Takes the lock and writes this process's id into the file. Creates the file with the permission bits
    /// `mode` if it is missing. The last holder's note stays.
    ///
    /// # Errors
    /// See [`LockError`].
    pub fn acquire(path: &Path, mode: u32) -> Result<LockFile, LockError> {
        let failed = |cause| LockError::Io { path: path.to_owned(), cause };
        for _ in 0..ATTEMPTS {
            let file = open(path, mode).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let pid = read(&file).lines().next().and_then(|pid| pid.trim().parse().ok());
                    return Err(LockError::Held { path: path.to_owned(), pid });
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // If the file was deleted in the meantime, its lock protects nothing.
            if same_file(&file, path) {
                let former_note = read(&file).lines().nth(1).unwrap_or_default().to_owned();
                match write_pid(&file, &former_note) {
                    // Another user's file, opened read-only: the lock works all the same.
                    Err(error) if error.raw_os_error() != Some(libc::EBADF) => {
                        return Err(failed(error));
                    }
                    _ => return Ok(LockFile { file, path: path.to_owned(), former_note }),
                }
            }
        }
        Err(failed(io::Error::other("another program keeps deleting that file; stop it")))
    }

    /// Whether the lock still protects: the file has not been removed or replaced.
    pub fn still_held(&self) -> bool {
        same_file(&self.file, &self.path)
    }

    /// The last holder's note.
    pub fn former_note(&self) -> &str {
        &self.former_note
    }

    /// Leaves a note for the next holder: one line, as long as the note before it.
    ///
    /// # Errors
    /// The system's.
    pub fn note(&self, note: &str) -> io::Result<()> {
        self.file.write_all_at(format!("{note}\n").as_bytes(), PID_LINE_BYTES as u64)
    }
}

/// Opens the file without O_CREAT first. In a sticky folder the kernel refuses to "create" another user's
/// file, even to users who may open it.
fn open(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Opening a FIFO for reading would wait for a writer.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    options.read(true).write(true).custom_flags(flags);
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            options.create(true).truncate(false).mode(mode).open(path)
        }
        // A lock needs no write access.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            OpenOptions::new().read(true).custom_flags(flags).open(path)
        }
        outcome => outcome,
    }?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other("it is not a regular file; remove it"))
}

fn same_file(open: &File, path: &Path) -> bool {
    match (open.metadata(), path.symlink_metadata()) {
        (Ok(open), Ok(named)) => open.ino() == named.ino() && open.dev() == named.dev(),
        _ => false,
    }
}

/// Writes this process's pid before the note in one write, so that a crash preserves the note.
fn write_pid(file: &File, note: &str) -> io::Result<()> {
    let pid = format!("{:<width$}\n", std::process::id(), width = PID_LINE_BYTES - 1);
    let text = if note.is_empty() { pid } else { format!("{pid}{note}\n") };
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

/// The pid and the note. The holder may not have written them yet, although it holds the lock.
fn read(file: &File) -> String {
    let mut text = String::new();
    // An unreadable file has no note.
    let _ = file.take(64).read_to_string(&mut text);
    text
}
