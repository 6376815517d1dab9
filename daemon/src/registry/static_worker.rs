//! `static:N`: a worker number that the operator has given to this host alone. All that can be checked here is
//! that no second daemon of the host uses it.

use std::cell::Cell;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::lock::{LockError, LockFile};
use leafd_core::{UnixMs, WorkerId};

/// A fixed worker number, held by this process alone of its host.
#[derive(Debug)]
pub struct StaticWorker {
    worker: WorkerId,
    lock: LockFile,
    /// What is noted in the lock file, by this holder or those before it.
    noted: Cell<UnixMs>,
}

/// Why the number can't be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "worker {worker} can't be locked on this host: {cause}; give each daemon its own number, or set worker_lock_dir to \
     a folder that this user may write"
)]
pub struct FixedWorkerError {
    /// The number.
    pub worker: WorkerId,
    /// What happened.
    pub cause: LockError,
}

impl StaticWorker {
    /// Locks the number host-wide, by a file in `lock_dir`.
    ///
    /// # Errors
    /// Another daemon of the host holds it, or the folder can't be used.
    pub fn claim(worker: WorkerId, lock_dir: &Path) -> Result<StaticWorker, FixedWorkerError> {
        let path = lock_dir.join(format!("leafd-worker-{worker}.lock"));
        // Whether it is there shows below. Whoever can open the file can lock it: nobody else may.
        let _ = DirBuilder::new().mode(0o755).recursive(true).create(lock_dir);
        match LockFile::acquire(&path, 0o600) {
            Ok(lock) => {
                let noted = lock.former_note().trim().parse().map(UnixMs).unwrap_or_default();
                Ok(StaticWorker { worker, lock, noted: Cell::new(noted) })
            }
            Err(cause) => Err(FixedWorkerError { worker, cause }),
        }
    }

    /// The number.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Below which instant ids may have been issued, as far as the holders of the number noted it; 0 when none did. It
    /// outlives the state directory.
    #[must_use]
    pub fn issued_below(&self) -> UnixMs {
        self.noted.get()
    }

    /// Notes that ids below this instant may be issued from now on. The note only ever rises.
    ///
    /// # Errors
    /// The system's. Then no id above what was noted before may be issued.
    pub fn note(&self, mark: UnixMs) -> io::Result<()> {
        if mark > self.noted.get() {
            self.lock.note(&format!("{:020}", mark.0))?;
            self.noted.set(mark);
        }
        Ok(())
    }

    /// Whether the lock still keeps the host's other daemons out.
    #[must_use]
    pub fn still_held(&self) -> bool {
        self.lock.still_held()
    }
}
