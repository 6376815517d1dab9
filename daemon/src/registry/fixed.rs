//! `static:N`: a worker number that the operator has given to this host alone. All that can be checked here is
//! that no second daemon of the host uses it.

use std::path::Path;

use crate::id::WorkerId;
use crate::lock::{LockError, LockFile};

/// A fixed worker number, held by this process alone of its host.
#[derive(Debug)]
pub struct FixedWorker {
    worker: WorkerId,
    lock: LockFile,
}

/// Why the number can't be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "worker {worker} can't be claimed for this host: {cause}; give each daemon its own number, or name a \
         folder that this user may write with worker_lock_dir"
)]
pub struct FixedWorkerError {
    /// The number.
    pub worker: WorkerId,
    /// What happened.
    pub cause: LockError,
}

impl FixedWorker {
    /// Locks the number host-wide, by a file in `lock_dir`.
    ///
    /// # Errors
    /// Another daemon of the host holds it, or the folder can't be used.
    pub fn claim(worker: WorkerId, lock_dir: &Path) -> Result<FixedWorker, FixedWorkerError> {
        let path = lock_dir.join(format!("leafd-worker-{worker}.lock"));
        match LockFile::acquire(&path, 0o644) {
            Ok(lock) => Ok(FixedWorker { worker, lock }),
            Err(cause) => Err(FixedWorkerError { worker, cause }),
        }
    }

    /// The number.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Whether the lock still keeps the host's other daemons out.
    #[must_use]
    pub fn still_held(&self) -> bool {
        self.lock.still_held()
    }
}
