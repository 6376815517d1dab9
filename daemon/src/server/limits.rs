//! Limits for peers: connections, and the memory that they can make the daemon use. Both are divided between users.

use std::cell::RefCell;
use std::rc::Rc;

use leafd_core::shares::{Claimant, ShareSlot, Shares};

use crate::memory;

/// The limits that all peers share.
#[derive(Debug)]
pub struct Limits {
    pub(super) connections: Rc<RefCell<Shares>>,
    /// Refused connections whose peers have not yet read the reason, which the kernel buffers.
    pub(super) refusals: Rc<RefCell<Shares>>,
    memory_bytes: Rc<RefCell<Shares>>,
}

/// One connection's part. Dropping it returns everything.
#[derive(Debug)]
pub struct Part {
    memory_bytes: Rc<RefCell<Shares>>,
    pub(super) claimant: Claimant,
    bytes: u64,
    _place: ShareSlot,
}

/// How many refused connections may have an unread reason. Others are closed without one.
pub const REFUSALS_MAX: u64 = 256;

/// The memory of a connection itself: its task, and the kernel's data about the peer.
const CONNECTION_BYTES: u64 = 4 * 1024;

/// The memory of a waiting request.
pub const WAITING_BYTES: u64 = 256;

impl Limits {
    /// Limits of which nothing is used yet. `memory_bytes`: for all peers together.
    pub fn new(connections: u64, memory_bytes: u64) -> Limits {
        let shares = |capacity| Rc::new(RefCell::new(Shares::new(capacity)));
        Limits {
            connections: shares(connections),
            refusals: shares(REFUSALS_MAX),
            memory_bytes: shares(memory_bytes),
        }
    }

    /// A part for a new connection; `None` if its user, or all users together, have too many.
    pub fn connect(&self, claimant: Claimant) -> Option<Part> {
        let place = ShareSlot::take(&self.connections, claimant)?;
        let memory_bytes = Rc::clone(&self.memory_bytes);
        Some(Part { memory_bytes, claimant, bytes: 0, _place: place })
    }
}

impl Part {
    /// Sets how much memory the connection uses now.
    pub fn set_bytes(&mut self, bytes: u64) {
        if bytes == self.bytes {
            return;
        }
        let mut memory = self.memory_bytes.borrow_mut();
        memory.give_back(self.claimant, self.bytes);
        memory.force(self.claimant, bytes);
        if bytes < self.bytes {
            memory::let_go(self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    /// Whether the connection's user may take `more` bytes.
    pub fn admits(&self, more: u64) -> bool {
        self.memory_bytes.borrow().admits(self.claimant, more)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.set_bytes(0);
        memory::let_go(CONNECTION_BYTES);
    }
}
