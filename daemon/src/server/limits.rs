//! What peers may take: connections, and the memory that they can make grow, each shared out by user.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use leafd_core::shares::{Claimant, Shares};
use tokio::sync::Notify;

/// What all peers share.
#[derive(Debug)]
pub struct Limits {
    connections: RefCell<Shares>,
    memory_bytes: RefCell<Shares>,
    /// Memory that was let go since the allocator last gave some back.
    let_go_bytes: Cell<u64>,
    trim: Notify,
}

/// One connection's part. Dropping it gives everything back.
#[derive(Debug)]
pub struct Part {
    limits: Rc<Limits>,
    claimant: Claimant,
    bytes: u64,
}

/// What a connection takes by itself, with its task and the kernel's answer to who it is.
const CONNECTION_BYTES: u64 = 4 * 1024;

/// What a request that waits takes.
pub const WAITING_BYTES: u64 = 256;

/// So much is let go before the allocator is asked to give it back to the system.
const TRIM_BYTES: u64 = 2 << 20;

/// How long it waits for more.
const TRIM_AFTER: Duration = Duration::from_secs(2);

impl Limits {
    /// Nobody has taken anything. `memory_bytes`: of all peers together.
    #[must_use]
    pub fn new(connections: u64, memory_bytes: u64) -> Rc<Limits> {
        Rc::new(Limits {
            connections: RefCell::new(Shares::new(connections)),
            memory_bytes: RefCell::new(Shares::new(memory_bytes)),
            let_go_bytes: Cell::new(0),
            trim: Notify::new(),
        })
    }

    /// A part for a new connection; `None` when its user, or all users together, have too many.
    pub fn connect(self: &Rc<Self>, claimant: Claimant) -> Option<Part> {
        let admitted = self.connections.borrow_mut().take(claimant, 1);
        admitted.then(|| Part { limits: Rc::clone(self), claimant, bytes: 0 })
    }

    /// How many connections a user has, and how many there may be of all users.
    #[must_use]
    pub fn connections_of(&self, uid: u32) -> (u64, u64) {
        let connections = self.connections.borrow();
        (connections.of(uid), connections.capacity())
    }

    /// Bytes that peers have made grow.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.borrow().taken()
    }

    /// Gives memory back to the system after a burst, until dropped.
    pub async fn run(&self) {
        loop {
            self.trim.notified().await;
            tokio::time::sleep(TRIM_AFTER).await;
            self.let_go_bytes.set(0);
            give_back_to_the_system();
        }
    }

    fn let_go(&self, bytes: u64) {
        self.let_go_bytes.set(self.let_go_bytes.get().saturating_add(bytes));
        if self.let_go_bytes.get() >= TRIM_BYTES {
            self.trim.notify_one();
        }
    }
}

impl Part {
    /// Who the connection belongs to.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.claimant.uid
    }

    /// Notes how much memory the connection takes now.
    pub fn set_bytes(&mut self, bytes: u64) {
        if bytes == self.bytes {
            return;
        }
        let mut memory = self.limits.memory_bytes.borrow_mut();
        memory.give_back(self.claimant, self.bytes);
        memory.force(self.claimant, bytes);
        if bytes < self.bytes {
            self.limits.let_go(self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    /// Whether the connection's user may take `more` bytes.
    #[must_use]
    pub fn admits(&self, more: u64) -> bool {
        self.limits.memory_bytes.borrow().admits(self.claimant, more)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.set_bytes(0);
        self.limits.connections.borrow_mut().give_back(self.claimant, 1);
        self.limits.let_go(CONNECTION_BYTES);
    }
}

/// What was freed below the allocator's highest pages stays resident until it is told.
#[expect(unsafe_code, reason = "libc has no safe form of it")]
fn give_back_to_the_system() {
    #[cfg(target_env = "gnu")]
    // SAFETY: glibc's function takes the allocator's own locks and touches nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
