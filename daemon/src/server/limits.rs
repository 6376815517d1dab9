//! Limits for peers: connections, and the memory that they can make the daemon use. Each is shared
//! out by user.

use std::cell::RefCell;
use std::rc::Rc;

use leafd_core::shares::{Claimant, Shares};

use crate::memory;

/// What all peers share.
#[derive(Debug)]
pub struct Limits {
    connections: RefCell<Shares>,
    /// Refused connections whose peers have not read the reason yet: the kernel keeps it.
    refusals: RefCell<Shares>,
    memory_bytes: RefCell<Shares>,
}

/// One connection's part. Dropping it returns everything.
#[derive(Debug)]
pub struct Part {
    limits: Rc<Limits>,
    claimant: Claimant,
    bytes: u64,
}

/// How many refused connections may have an unread reason. Others are closed without one.
pub const REFUSALS_MAX: u64 = 256;

/// A place for a refused connection. Dropping it returns the place.
#[derive(Debug)]
pub struct RefusalSlot {
    limits: Rc<Limits>,
    claimant: Claimant,
}

/// The memory of a connection itself: its task, and the kernel's answer to who the peer is.
const CONNECTION_BYTES: u64 = 4 * 1024;

/// The memory of a waiting request.
pub const WAITING_BYTES: u64 = 256;

impl Limits {
    /// All is free. `memory_bytes`: for all peers together.
    #[must_use]
    pub fn new(connections: u64, memory_bytes: u64) -> Rc<Limits> {
        Rc::new(Limits {
            connections: RefCell::new(Shares::new(connections)),
            refusals: RefCell::new(Shares::new(REFUSALS_MAX)),
            memory_bytes: RefCell::new(Shares::new(memory_bytes)),
        })
    }

    /// A part for a new connection; `None` if its user, or all users together, have too many.
    pub fn connect(self: &Rc<Self>, claimant: Claimant) -> Option<Part> {
        let admitted = self.connections.borrow_mut().take(claimant, 1);
        admitted.then(|| Part { limits: Rc::clone(self), claimant, bytes: 0 })
    }

    /// A place for a refused connection; `None` if its user has too many.
    pub fn refuse(self: &Rc<Self>, claimant: Claimant) -> Option<RefusalSlot> {
        let admitted = self.refusals.borrow_mut().take(claimant, 1);
        admitted.then(|| RefusalSlot { limits: Rc::clone(self), claimant })
    }

    /// How many connections a user has, and how many all users may have.
    #[must_use]
    pub fn connections_of(&self, uid: u32) -> (u64, u64) {
        let connections = self.connections.borrow();
        (connections.of(uid), connections.capacity())
    }

    /// How many bytes peers use.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.borrow().taken()
    }
}

impl Part {
    /// The connection's user.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.claimant.uid
    }

    /// Sets how much memory the connection uses now.
    pub fn set_bytes(&mut self, bytes: u64) {
        if bytes == self.bytes {
            return;
        }
        let mut memory = self.limits.memory_bytes.borrow_mut();
        memory.give_back(self.claimant, self.bytes);
        memory.force(self.claimant, bytes);
        if bytes < self.bytes {
            memory::let_go(self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    /// Whether the connection's user may take `more` bytes.
    #[must_use]
    pub fn admits(&self, more: u64) -> bool {
        self.limits.memory_bytes.borrow().admits(self.claimant, more)
    }
}

impl Drop for RefusalSlot {
    fn drop(&mut self) {
        self.limits.refusals.borrow_mut().give_back(self.claimant, 1);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.set_bytes(0);
        self.limits.connections.borrow_mut().give_back(self.claimant, 1);
        memory::let_go(CONNECTION_BYTES);
    }
}
