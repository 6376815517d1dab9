//! `static:N`: a worker number that the operator has given to this host alone. All that can be checked here is
//! that no second daemon of the host uses it.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::lock::{LockError, LockFile};
use leafd_core::{UnixMs, WorkerId};

/// A fixed worker number, held by this process alone of its host.
#[derive(Debug)]
pub struct StaticWorker {
    worker: WorkerId,
    lock: LockFile,
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
            Ok(lock) => Ok(StaticWorker { worker, lock }),
            Err(cause) => Err(FixedWorkerError { worker, cause }),
        }
    }

    /// The number.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Below which instant ids may have been issued, as far as the last holder noted it. It outlives the state directory.
    #[must_use]
    pub fn issued_below(&self) -> Option<UnixMs> {
        self.lock.former_note().trim().parse().ok().map(UnixMs)
    }

    /// Notes that ids below this instant may be issued from now on.
    pub fn note(&self, mark: UnixMs) {
        if let Err(error) = self.lock.note(&format!("{:020}", mark.0)) {
            tracing::warn!(
                worker = %self.worker, %error,
                "can't write the note in worker_lock_dir that says up to when ids may have been issued: check its \
                 permissions and space"
            );
        }
    }

    /// Whether the lock still keeps the host's other daemons out.
    #[must_use]
    pub fn still_held(&self) -> bool {
        self.lock.still_held()
    }
}
