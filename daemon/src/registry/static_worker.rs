//! `static:N`: a worker number that the operator has assigned to this host alone. This checks that no other daemon on
//! the host uses it. Only a shared store can show whether another host does.

use std::cell::{Cell, RefCell};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use crate::lock::LockFile;
use leafd_core::{UnixMs, WorkerId};

/// A fixed worker number that no other process on the host holds.
#[derive(Debug)]
pub struct StaticWorker {
    worker: WorkerId,
    lock: LockFile,
    /// The note in the lock file, by this holder or earlier ones.
    noted: Cell<UnixMs>,
    /// Which other daemons use the number now, according to the store.
    others: RefCell<Vec<Arc<str>>>,
}

impl StaticWorker {
    /// Locks the number host-wide, by a file in `lock_dir`.
    ///
    /// # Errors
    /// Another daemon of the host holds it, or the folder can't be used.
    pub fn claim(worker: WorkerId, lock_dir: &Path) -> Result<StaticWorker, String> {
        let path = lock_dir.join(format!("leafd-worker-{worker}.lock"));
        // Only the folder's owner may write there, because a user who can open the file can lock it. Whether the folder
        // exists is checked below.
        let _ = DirBuilder::new().mode(0o755).recursive(true).create(lock_dir);
        match LockFile::acquire(&path, 0o600) {
            Ok(lock) => {
                let noted = lock.former_note().trim().parse().map(UnixMs).unwrap_or_default();
                Ok(StaticWorker {
                    worker,
                    lock,
                    noted: Cell::new(noted),
                    others: RefCell::default(),
                })
            }
            Err(cause) => Err(format!(
                "worker {worker} can't be locked on this host: {cause}; give each daemon its own number, or set \
                 worker_lock_dir to a directory that this user can write to"
            )),
        }
    }

    /// The number.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Ids before this instant may have been issued, by the notes of the number's holders; 0 without a note. The note
    /// outlives the state directory.
    pub fn issued_below(&self) -> UnixMs {
        self.noted.get()
    }

    /// Notes that ids before this instant may be issued from now on. The note never decreases.
    ///
    /// # Errors
    /// The system's. Then no id beyond the former note may be issued.
    pub fn note(&self, mark: UnixMs) -> io::Result<()> {
        if mark > self.noted.get() {
            self.lock.note(&format!("{:020}", mark.0))?;
            self.noted.set(mark);
        }
        Ok(())
    }

    /// The names of other hosts that use the number.
    pub fn others(&self) -> Vec<Arc<str>> {
        self.others.borrow().clone()
    }

    /// Records which other hosts use the number, according to the store.
    pub fn found_others(&self, others: Vec<Arc<str>>) {
        *self.others.borrow_mut() = others;
    }

    /// Whether the lock still excludes the host's other daemons.
    pub fn still_held(&self) -> bool {
        self.lock.still_held()
    }
}
