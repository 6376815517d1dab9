//! The state that all clones of a client share: settings, wiped memory, and the process's connections.

use std::io;
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use leafd_wire::{Header, IdsRequest, Status, opcode};

use crate::arena::Arena;
use crate::builder::Builder;
use crate::deadline::Deadline;
use crate::error::{Break, Result};
use crate::ids::{Ids, requests_of_batch};
use crate::interruption::Outside;
use crate::names::{Names, TagEntry};
use crate::polling::has_cores_to_spare;
use crate::pool::{Endpoint, Pool};
use crate::replies::{DrawnIds, RequestOutcome};

/// The shared part of a client. Fields drop in this order: names before the arena of their cells.
pub(crate) struct Core {
    names: Names,
    arena: Arena,
    /// The latest pool, even after the other pointer to it was wiped.
    made: AtomicPtr<Pool>,
    endpoint: Arc<Endpoint>,
    /// How long calls without their own limit may take.
    pub(crate) limit: Duration,
    /// How long they wait for a missing daemon.
    wait: Duration,
    /// Whether runs may be held.
    pub(crate) holds: bool,
}

/// How many times a request is sent again when its connection breaks.
///
/// It is sent again once if the connection had answered before, because then the daemon is restarting. It is sent again
/// a few more times if new connections never answered anything, because then the daemon is still stopping or starting.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    breaks: u32,
    served_breaks: u32,
}

const BREAKS_MAX: u32 = 5;

// === impl Core ===

impl Core {
    pub(crate) fn new(path: PathBuf, settings: &Builder) -> io::Result<Core> {
        let arena = Arena::new()?;
        let holds = !settings.direct;
        // If a child can't be kept from using its parent's runs, no runs are held.
        let holds = holds && arena.is_wiped();
        let endpoint = Endpoint::new(path, settings.polling && has_cores_to_spare());
        Ok(Core {
            names: Names::new(),
            arena,
            made: AtomicPtr::new(ptr::null_mut()),
            endpoint: Arc::new(endpoint),
            limit: settings.deadline,
            wait: settings.wait,
            holds,
        })
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.endpoint.path
    }

    /// The deadline of a call that begins now. `limit`: the call's own.
    pub(crate) fn deadline(&self, limit: Option<Duration>) -> Deadline {
        match limit {
            Some(limit) => Deadline::after(limit),
            None => Deadline::waiting(self.limit, self.wait),
        }
    }

    #[inline]
    pub(crate) fn entry(&self, tag: &str) -> Result<&TagEntry> {
        self.names.get(tag, &self.arena)
    }

    /// Whether something that process `pid` created belongs to this process.
    pub(crate) fn is_own(&self, pid: u32) -> bool {
        // If the kernel wipes the memory, none of the parent's data can be found.
        self.arena.is_wiped() || pid == std::process::id()
    }

    /// The process's connections. The pool is created on first use, even in a forked child.
    pub(crate) fn pool(&self) -> &Pool {
        let place = self.arena.pool();
        let found = place.load(Ordering::Acquire);
        // SAFETY: the pointer is null or a pool that lives as long as the core: it was made by
        // `Box::into_raw` below, and is freed in `drop` only. (In a child without wiping it may be
        // the parent's; its process id is plain memory, copied into the child.)
        match unsafe { found.as_ref() } {
            Some(pool) if self.is_own(pool.pid) => pool,
            _ => self.make_pool(found),
        }
    }

    #[cold]
    fn make_pool(&self, found: *mut Pool) -> &Pool {
        let new = Box::into_raw(Box::new(Pool::new(Arc::clone(&self.endpoint))));
        let swap =
            self.arena.pool().compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire);
        match swap {
            Ok(_) => {
                crate::inherited::keep(self.made.swap(new, Ordering::AcqRel));
                // SAFETY: just made, and freed in `drop` only.
                unsafe { &*new }
            }
            Err(theirs) => {
                // SAFETY: no other thread has seen `new`; `theirs` was made by another thread of
                // this process, and is freed in `drop` only.
                unsafe {
                    drop(Box::from_raw(new));
                    &*theirs
                }
            }
        }
    }

    /// Draws ids with a separate request.
    pub(crate) fn draw(
        &self,
        tag: &str,
        count: u32,
        hold: bool,
        deadline: &mut Deadline,
    ) -> Result<DrawnIds> {
        let mut sent_ns = 0;
        let attempts = Some(Attempts::default());
        let body = self.exchange(opcode::IDS, attempts, deadline, |deadline, id, out| {
            sent_ns = crate::clock::exact_ns();
            let deadline_ms = deadline.left_ms();
            IdsRequest { tag: tag.as_bytes(), count, deadline_ms }.put(hold, id, out);
        })?;
        DrawnIds::decode(&body, count, hold, sent_ns)
    }

    /// Draws a batch, in the order of issue.
    pub(crate) fn draw_batch(&self, tag: &str, count: u64, deadline: &mut Deadline) -> Result<Ids> {
        let tag = self.entry(tag)?.name();
        let mut runs = Vec::new();
        for count in requests_of_batch(count)? {
            runs.extend(self.draw(tag, count, false, deadline)?.runs);
        }
        Ok(Ids::of(runs))
    }

    /// Draws document numbers of a series or tenant. Returns the body of the answer.
    pub(crate) fn draw_numbers(
        &self,
        name: &str,
        count: u32,
        deadline: &mut Deadline,
    ) -> Result<Vec<u8>> {
        let attempts = Some(Attempts::default());
        self.exchange(opcode::SERIES_NEXT, attempts, deadline, |deadline, id, out| {
            IdsRequest { tag: name.as_bytes(), count, deadline_ms: deadline.left_ms() }.put_as(
                opcode::SERIES_NEXT,
                0,
                id,
                out,
            );
        })
    }

    /// Sends any other request. `repeatable`: whether it may be sent again if its connection breaks.
    pub(crate) fn ask(
        &self,
        opcode: u8,
        flags: u8,
        body: &[u8],
        repeatable: bool,
        deadline: &mut Deadline,
    ) -> Result<Vec<u8>> {
        let attempts = repeatable.then(Attempts::default);
        self.exchange(opcode, attempts, deadline, |_, id, out| {
            Header::request(opcode, flags, id).put_frame(body, out);
        })
    }

    /// Sends a request and waits for the body of its answer. If `attempts` is `None`, it is sent only once.
    fn exchange(
        &self,
        opcode: u8,
        mut attempts: Option<Attempts>,
        deadline: &mut Deadline,
        mut put: impl FnMut(&Deadline, u32, &mut Vec<u8>),
    ) -> Result<Vec<u8>> {
        let _outside = Outside::new();
        loop {
            // A request that may be sent only once would be lost on a connection that has closed in the meantime.
            let checked = attempts.is_none();
            let outcome = self.pool().exchange(checked, opcode, deadline, &mut put)?;
            let Some(outcome) = outcome else { return Err(deadline.missed()) };
            if let Some(body) = self.settle(outcome, attempts.as_mut(), deadline)? {
                return Ok(body);
            }
        }
    }

    /// The body for the caller; `None`: send the request again.
    pub(crate) fn settle(
        &self,
        outcome: RequestOutcome,
        attempts: Option<&mut Attempts>,
        deadline: &Deadline,
    ) -> Result<Option<Vec<u8>>> {
        match outcome {
            RequestOutcome::Failed(error) => {
                let stopping = error.status() == Some(Status::ShuttingDown);
                if stopping && attempts.is_some() && !deadline.is_over() {
                    return Ok(None);
                }
                Err(error)
            }
            RequestOutcome::Broken { why, served } => {
                if attempts.is_some_and(|attempts| attempts.again(why, served)) {
                    return Ok(None);
                }
                Err(why.into_error(&self.endpoint.path))
            }
            RequestOutcome::Body(body) => Ok(Some(body)),
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        for entry in self.names.all() {
            entry.drop_supply();
        }
        let place = self.arena.pool().swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: as in `pool`.
        match unsafe { place.as_ref() } {
            // SAFETY: made by `Box::into_raw`, and no other reference to the core exists.
            Some(pool) if self.is_own(pool.pid) => drop(unsafe { Box::from_raw(place) }),
            // A child that never used the client, or one without wiping.
            _ => crate::inherited::keep(*self.made.get_mut()),
        }
    }
}

// === impl Attempts ===

impl Attempts {
    /// Counts a broken connection and decides whether to send again.
    pub(crate) fn again(&mut self, why: Break, served: bool) -> bool {
        self.breaks += 1;
        self.served_breaks += u32::from(served);
        why.is_retryable() && self.served_breaks <= 1 && self.breaks <= BREAKS_MAX
    }
}
