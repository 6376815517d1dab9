//! The two pages of a shared run: how the daemon publishes ids in one, and how a process draws by the other.
//!
//! ```text
//! run page                                    ticket page
//!      0  8  magic, "leafdrun"                     0  8  cursor: the next ticket
//!      8  4  version, 1
//!     12  4  tickets of an entry, 4,096
//!     16  4  entries, 32
//!     20  4  state: 1 live, 2 retired
//!     24  8  number of the page
//!     32  8  published: the first ticket that has no entry yet
//!     40  8  valid until, ns of CLOCK_BOOTTIME
//!    128 32  entry 0: base ticket (8), first id (8), count (4), stride (4), zero (8)
//!    160 32  entry 1 ...
//! ```
//!
//! All in the machine's own byte order. The entry of ticket `t` is number `t / 4096 % 32`, and is the ticket's own only if
//! its base is `t` rounded down to a multiple of 4,096: entries are written over. While one is written its base is
//! [`WRITING`]. So a process that reads the base, then what belongs to it, then the base again has read one entry and not
//! parts of two.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::Run;

/// What the run page begins with.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"leafdrun");

/// The layout's version.
pub const VERSION: u32 = 1;

/// The page may be drawn from.
pub const LIVE: u32 = 1;

/// The page may not be drawn from any more: ask the daemon.
pub const RETIRED: u32 = 2;

/// Tickets that one entry stands for. It may have fewer ids.
pub const TICKETS_PER_ENTRY: u64 = if cfg!(loom) { 2 } else { 4_096 };

/// Entries of a run page. Under loom one place makes every publication overwrite what a reader may be looking at.
pub const ENTRIES: usize = if cfg!(loom) { 1 } else { 32 };

/// A page is never valid for longer than this.
pub const VALID_MAX_NS: u64 = 1_000_000_000;

/// A process to whose clock a page is valid for longer than this has another clock than the daemon. Clocks that tick lag by
/// some milliseconds.
const VALID_SEEN_MAX_NS: u64 = VALID_MAX_NS + 100_000_000;

/// A page that SHARE says to be live was not over long before that was asked: the daemon has just renewed it.
const OVER_BEFORE_MAX_NS: u64 = 100_000_000;

/// Stands in an entry while its fields change, and in one that was never written. No base is this large.
const WRITING: u64 = u64::MAX;

/// What the daemon alone can write.
#[repr(C, align(128))]
pub struct RunPage {
    magic: AtomicU64,
    version: AtomicU32,
    tickets_per_entry: AtomicU32,
    entries: AtomicU32,
    state: AtomicU32,
    number: AtomicU64,
    published: AtomicU64,
    valid_until_ns: AtomicU64,
    _zero: [u64; 10],
    ring: [Entry; ENTRIES],
}

/// What every process of the user can write.
#[repr(C, align(128))]
pub struct TicketPage {
    cursor: AtomicU64,
}

#[repr(C)]
struct Entry {
    base: AtomicU64,
    first: AtomicU64,
    /// Stride in the upper half, count in the lower.
    shape: AtomicU64,
    _zero: u64,
}

/// An entry to publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its first ticket, a multiple of [`TICKETS_PER_ENTRY`].
    pub base: u64,
    /// Its ids, at most as many as it has tickets.
    pub run: Run,
}

/// An id, and whether it is time to ask for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The id.
    pub id: u64,
    /// Half of the entry's ids are taken. True once an entry.
    pub refill_due: bool,
}

/// What a ticket stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// An id.
    Taken(Taken),
    /// Nothing yet: the daemon has to be asked. The ticket stays good.
    Unpublished,
    /// Nothing, nor will it: another ticket has to be taken.
    Lost,
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<RunPage>() == 128 + 32 * ENTRIES && size_of::<RunPage>() <= 4_096);
    assert!(size_of::<Entry>() == 32 && size_of::<TicketPage>() == 128);
    assert!(TICKETS_PER_ENTRY.is_power_of_two());
};

// === impl RunPage ===

impl RunPage {
    /// Writes what never changes into a page of zeros, which is then live and valid for no time.
    pub fn begin(&self, number: u64) {
        for entry in &self.ring {
            entry.base.store(WRITING, Ordering::Relaxed);
        }
        self.magic.store(MAGIC, Ordering::Relaxed);
        self.version.store(VERSION, Ordering::Relaxed);
        self.tickets_per_entry.store(TICKETS_PER_ENTRY as u32, Ordering::Relaxed);
        self.entries.store(ENTRIES as u32, Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
        self.state.store(LIVE, Ordering::Release);
    }

    /// Whether the page is what this build knows to draw from.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.magic.load(Ordering::Relaxed) == MAGIC
            && self.version.load(Ordering::Relaxed) == VERSION
            && u64::from(self.tickets_per_entry.load(Ordering::Relaxed)) == TICKETS_PER_ENTRY
            && self.entries.load(Ordering::Relaxed) as usize == ENTRIES
    }

    /// The page's number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Tells which ids the tickets from `entry.base` on stand for. The daemon alone does this, with bases that ascend,
    /// and with ids that are its own to give for good: whoever has a ticket may have taken its id already.
    pub fn publish(&self, entry: Published) {
        let Published { base, run } = entry;
        assert!(base.is_multiple_of(TICKETS_PER_ENTRY), "base {base}");
        assert!(base >= self.published.load(Ordering::Relaxed), "bases ascend, unlike {base}");
        assert!(u64::from(run.count) <= TICKETS_PER_ENTRY && run.last().is_some(), "{run:?}");
        let place = self.place(base);
        place.base.store(WRITING, Ordering::Relaxed);
        fence(Ordering::Release);
        place.first.store(run.first, Ordering::Relaxed);
        place.shape.store(u64::from(run.stride) << 32 | u64::from(run.count), Ordering::Relaxed);
        place.base.store(base, Ordering::Release);
        self.published.store(base + TICKETS_PER_ENTRY, Ordering::Release);
    }

    /// The first ticket that has no entry yet.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Lets processes draw until then, on the clock that counts suspend.
    pub fn renew(&self, valid_until_ns: u64) {
        self.valid_until_ns.store(valid_until_ns, Ordering::Release);
    }

    /// Ends the page for good.
    pub fn retire(&self) {
        self.state.store(RETIRED, Ordering::SeqCst);
        self.valid_until_ns.store(0, Ordering::SeqCst);
    }

    /// Whether the page may be drawn from. `now_ns`: of the clock that counts suspend.
    #[inline]
    #[must_use]
    pub fn is_open(&self, now_ns: u64) -> bool {
        // Neither past nor further ahead than it can be: by another clock a page would be valid for ever.
        let left_ns = self.valid_until_ns.load(Ordering::Acquire).wrapping_sub(now_ns);
        (1..=VALID_SEEN_MAX_NS).contains(&left_ns) && self.is_live()
    }

    /// Whether the page has not ended. What the daemon has revoked before is seen.
    #[inline]
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.state.load(Ordering::Acquire) == LIVE
    }

    /// Whether the daemon goes by another clock than the caller, as over the border of a time namespace. To a request made at
    /// `asked_ns` the daemon has answered that the page is live, and now it is `now_ns`.
    #[must_use]
    pub fn is_of_another_clock(&self, asked_ns: u64, now_ns: u64) -> bool {
        match self.valid_until_ns.load(Ordering::Acquire) {
            // It has ended since.
            0 => false,
            until_ns => {
                until_ns.saturating_add(OVER_BEFORE_MAX_NS) < asked_ns
                    || until_ns > now_ns.saturating_add(VALID_SEEN_MAX_NS)
            }
        }
    }

    /// Draws an id, if the page is open. `None`: it is not, or tickets are lost again and again; ask the daemon.
    ///
    /// A ticket that is not published yet is taken all the same; `Err` has it, for [`RunPage::find`] after the daemon was
    /// asked.
    #[inline]
    pub fn draw(&self, tickets: &TicketPage, now_ns: u64) -> Option<Result<Taken, u64>> {
        // Without a look at the clock first, each draw from a page that is out of date would cost an id.
        if !self.is_open(now_ns) {
            return None;
        }
        let ticket = tickets.take();
        match self.find(ticket) {
            // Whatever the daemon has revoked before this draw began is seen here.
            Drawn::Taken(taken) if self.is_live() => Some(Ok(taken)),
            Drawn::Taken(_) => None,
            other => self.draw_again(tickets, ticket, other),
        }
    }

    /// The draw after a ticket that brought no id.
    #[cold]
    fn draw_again(
        &self,
        tickets: &TicketPage,
        mut ticket: u64,
        mut drawn: Drawn,
    ) -> Option<Result<Taken, u64>> {
        /// More tickets are only lost when somebody writes the ticket page who should not.
        const LOST_MAX: u32 = 64;
        for _ in 0..LOST_MAX {
            match drawn {
                _ if !self.is_live() => return None,
                Drawn::Taken(taken) => return Some(Ok(taken)),
                Drawn::Unpublished => return Some(Err(ticket)),
                Drawn::Lost => {}
            }
            // An entry may have fewer ids than tickets: nobody need take the rest one by one.
            tickets.pass(ticket);
            ticket = tickets.take();
            drawn = self.find(ticket);
        }
        None
    }

    /// What a ticket stands for.
    #[inline]
    #[must_use]
    pub fn find(&self, ticket: u64) -> Drawn {
        let base = ticket & !(TICKETS_PER_ENTRY - 1);
        let entry = self.place(ticket);
        // Acquire pairs with the Release in `publish`: whoever sees the base sees what belongs to it, or later entries.
        if entry.base.load(Ordering::Acquire) != base {
            return self.find_again(ticket, base);
        }
        let first = entry.first.load(Ordering::Relaxed);
        let shape = entry.shape.load(Ordering::Relaxed);
        // If a field above came from a later entry, then this fence makes the mark that was set before it visible to the
        // load below.
        fence(Ordering::Acquire);
        if entry.base.load(Ordering::Relaxed) != base {
            return Drawn::Lost;
        }
        let (offset, count) = (ticket - base, shape & u64::from(u32::MAX));
        if offset >= count {
            return Drawn::Lost;
        }
        // Not what a daemon publishes; but no content of the page may make an id that is none. The product fits: the
        // offset has 12 bits, the stride 32.
        match first.checked_add(offset * (shape >> 32)) {
            Some(id) if 1 <= id && id <= i64::MAX as u64 => {
                Drawn::Taken(Taken { id, refill_due: offset == count / 2 })
            }
            _ => Drawn::Lost,
        }
    }

    /// As [`RunPage::find`], after an entry was found that is not the ticket's.
    #[cold]
    fn find_again(&self, ticket: u64, base: u64) -> Drawn {
        if ticket >= self.published.load(Ordering::Acquire) {
            return Drawn::Unpublished;
        }
        // It may have been published between the two looks.
        match self.place(ticket).base.load(Ordering::Acquire) == base {
            true => self.find(ticket),
            false => Drawn::Lost,
        }
    }

    #[inline]
    fn place(&self, ticket: u64) -> &Entry {
        &self.ring[(ticket / TICKETS_PER_ENTRY) as usize % ENTRIES]
    }
}

// === impl TicketPage ===

impl TicketPage {
    /// The next ticket, which nobody else gets.
    #[inline]
    #[must_use]
    pub fn take(&self) -> u64 {
        self.cursor.fetch_add(1, Ordering::AcqRel)
    }

    /// How many tickets are taken, if nobody wrote here who should not.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.cursor.load(Ordering::Acquire)
    }

    /// Writes any cursor, as a process of the user can: for tests and models.
    pub fn overwrite(&self, cursor: u64) {
        self.cursor.store(cursor, Ordering::SeqCst);
    }

    /// Passes over the tickets that are left of the entry of `ticket`.
    fn pass(&self, ticket: u64) {
        let next = (ticket | (TICKETS_PER_ENTRY - 1)).saturating_add(1);
        self.cursor.fetch_max(next, Ordering::AcqRel);
    }
}

/// Pages in ordinary memory, for tests and models.
impl Default for RunPage {
    fn default() -> Self {
        RunPage {
            magic: AtomicU64::new(0),
            version: AtomicU32::new(0),
            tickets_per_entry: AtomicU32::new(0),
            entries: AtomicU32::new(0),
            state: AtomicU32::new(0),
            number: AtomicU64::new(0),
            published: AtomicU64::new(0),
            valid_until_ns: AtomicU64::new(0),
            _zero: [0; 10],
            ring: std::array::from_fn(|_| Entry {
                base: AtomicU64::new(0),
                first: AtomicU64::new(0),
                shape: AtomicU64::new(0),
                _zero: 0,
            }),
        }
    }
}

impl Default for TicketPage {
    fn default() -> Self {
        TicketPage { cursor: AtomicU64::new(0) }
    }
}

#[cfg(all(test, loom))]
mod schedules;
#[cfg(all(test, not(loom)))]
mod tests;
