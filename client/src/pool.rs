//! A process's connections for one client: each serves one call at a time.
//!
//! A forked child never sees its parent's pool: it finds a null pointer and creates its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::clock::coarse_ns;
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::error::{Break, Error, Result};
use crate::interruption::{SLICE, is_ended, is_watched};
use crate::replies::RequestOutcome;

/// The maximum number of connections that calls use. Further calls wait for one.
pub(crate) const CONNECTIONS_MAX: usize = 32;

/// The maximum number of connections that carry requests for runs ahead of use, until the answers are needed. Calls
/// don't wait for these, because calls have connections of their own.
const AHEAD_MAX: usize = CONNECTIONS_MAX / 2;

const INDEXES: usize = CONNECTIONS_MAX + AHEAD_MAX;

/// A connection that has not been needed for this long is closed.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The first and the longest pause before another attempt to connect.
const BACK_OFF_MIN: Duration = Duration::from_millis(2);
const BACK_OFF_MAX: Duration = Duration::from_millis(100);

/// How long a removed socket counts as that of a restarting daemon.
const JUST_NOW: Duration = Duration::from_secs(10);

/// The part that a fork does not change: the socket's path, and what is known about it.
pub(crate) struct Endpoint {
    pub(crate) path: PathBuf,
    pub(crate) may_poll: bool,
    /// Whether a connection was ever made. If so, a missing daemon is restarting.
    reached: AtomicBool,
}

/// A process's connections.
pub(crate) struct Pool {
    /// The process that created it.
    pub(crate) pid: u32,
    endpoint: Arc<Endpoint>,
    state: Mutex<State>,
    /// Notified when a connection is returned or closed.
    freed: Condvar,
    /// Every connection by its index, even while a call uses it. These pointers are never followed. In a forked child,
    /// where the calls of other threads don't exist, they show leak checkers that the parent's connections are left on
    /// purpose.
    all: [AtomicPtr<Connection>; INDEXES],
}

struct State {
    /// The most recently used one is at the end, so that unneeded connections age.
    idle: Vec<PooledConnection>,
    free_indexes: Vec<usize>,
    /// How many connections carry requests ahead of use.
    ahead: usize,
    /// How many times a connection has broken. A connection from before the last break is not reused, because it may
    /// break too, and a request is sent again only once.
    breaks: u64,
    waiting: usize,
    next_try: Option<Instant>,
    back_off: Duration,
}

/// A connection of a pool. Its user returns it by [`Pool::give_back`], or by [`Pool::broken`].
pub(crate) struct PooledConnection {
    pub(crate) connection: Box<Connection>,
    /// Its index in [`Pool::all`].
    index: usize,
    /// [`State::breaks`] when it was created.
    made_after: u64,
    /// Whether it carries a request ahead of use.
    ahead: bool,
}

// === impl Endpoint ===

impl Endpoint {
    pub(crate) fn new(path: PathBuf, may_poll: bool) -> Endpoint {
        Endpoint { path, may_poll, reached: AtomicBool::new(false) }
    }
}

// === impl Pool ===

impl Pool {
    pub(crate) fn new(endpoint: Arc<Endpoint>) -> Pool {
        let state = State {
            idle: Vec::new(),
            free_indexes: (0..INDEXES).rev().collect(),
            ahead: 0,
            breaks: 0,
            waiting: 0,
            next_try: None,
            back_off: BACK_OFF_MIN,
        };
        Pool {
            pid: std::process::id(),
            endpoint,
            state: Mutex::new(state),
            freed: Condvar::new(),
            all: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// A connection. A lost one is reopened, with growing pauses, until the deadline, and then tried one last time. If
    /// the daemon has never run, this fails immediately, unless the call is to wait for it. `checked`: whether to
    /// reject a connection that the daemon has closed meanwhile.
    pub(crate) fn take(&self, checked: bool, deadline: &mut Deadline) -> Result<PooledConnection> {
        let until = deadline.connect_by;
        let mut waited = false;
        loop {
            let mut state = self.lock();
            if checked {
                self.drop_closed(&mut state);
            }
            if let Some(pooled) = state.idle.pop() {
                deadline.connected(pooled.connection.made);
                return Ok(pooled);
            }
            let Some(index) = state.index_for_call() else {
                self.wait_for_one(state, deadline)?;
                continue;
            };
            let now = Instant::now();
            let is_over = now >= until;
            let mut refused = None;
            if state.may_try(now) || (waited && is_over) {
                match Connection::new(&self.endpoint.path, self.endpoint.may_poll) {
                    Ok(connection) => {
                        state.free_indexes.pop();
                        self.endpoint.reached.store(true, Ordering::Relaxed);
                        deadline.connected(connection.made);
                        let mut connection = Box::new(connection);
                        self.all[index].store(&raw mut *connection, Ordering::Relaxed);
                        return Ok(PooledConnection {
                            connection,
                            index,
                            made_after: state.breaks,
                            ahead: false,
                        });
                    }
                    Err(error) => {
                        state.refused(now);
                        refused = Some(error);
                    }
                }
            }
            let next_try = state.next_try.unwrap_or(now);
            drop(state);
            if let Some(source) = refused
                && (is_over || !self.endpoint.may_come_back(&source, deadline))
            {
                return Err(Error::Connect { path: self.endpoint.path.clone(), source });
            }
            if is_over {
                let source = std::io::ErrorKind::TimedOut.into();
                return Err(Error::Connect { path: self.endpoint.path.clone(), source });
            }
            std::thread::sleep(next_try.min(until).saturating_duration_since(now));
            waited = true;
            if is_watched() && is_ended() {
                return Err(Error::Interrupted);
            }
        }
    }

    /// Sends a request and waits for its outcome. `None`: the outcome did not arrive in time. `checked`: as in
    /// [`Pool::take`].
    pub(crate) fn exchange(
        &self,
        checked: bool,
        opcode: u8,
        deadline: &mut Deadline,
        put: impl FnOnce(&Deadline, u32, &mut Vec<u8>),
    ) -> Result<Option<RequestOutcome>> {
        let mut pooled = self.take(checked, deadline)?;
        let number = pooled.connection.submit(|id, out| put(deadline, id, out));
        pooled.connection.send();
        Ok(self.answer(pooled, number, opcode, false, deadline.end_of_grace()))
    }

    /// The outcome of a request that was sent. `None`: it did not arrive by `until`. `maybe_there`: it may have arrived
    /// already.
    pub(crate) fn answer(
        &self,
        mut pooled: PooledConnection,
        number: u32,
        opcode: u8,
        maybe_there: bool,
        until: Instant,
    ) -> Option<RequestOutcome> {
        let waited = pooled
            .connection
            .wait(maybe_there, until, |connection| connection.answer_to(number, opcode));
        match waited {
            Ok(Some(outcome)) => {
                self.give_back(pooled);
                Some(outcome)
            }
            Ok(None) => {
                self.give_up(pooled);
                None
            }
            Err(why) => Some(self.broken(pooled, why)),
        }
    }

    /// Lets the next call use a connection.
    pub(crate) fn give_back(&self, mut pooled: PooledConnection) {
        let mut state = self.lock();
        state.no_longer_ahead(&mut pooled);
        if pooled.connection.replies.served {
            state.back_off = BACK_OFF_MIN;
        }
        if state.may_reuse(&pooled) {
            let now_ns = coarse_ns();
            pooled.connection.used_ns = now_ns;
            state.idle.push(pooled);
            let oldest_ns = state.idle[0].connection.used_ns;
            if now_ns.saturating_sub(oldest_ns) > IDLE_MAX.as_nanos() as u64 {
                let oldest = state.idle.remove(0);
                self.close(&mut state, oldest);
            }
        } else {
            self.close_unusable(&mut state, pooled);
        }
        self.wake(state);
    }

    /// Closes a connection whose answers may still arrive, because they must not be taken for those of other requests.
    pub(crate) fn give_up(&self, pooled: PooledConnection) {
        let mut state = self.lock();
        self.close(&mut state, pooled);
        self.wake(state);
    }

    /// Closes a connection that broke.
    pub(crate) fn broken(&self, pooled: PooledConnection, why: Break) -> RequestOutcome {
        let served = pooled.connection.replies.served;
        let mut state = self.lock();
        self.close_broken(&mut state, pooled);
        self.wake(state);
        RequestOutcome::Broken { why, served }
    }

    /// An idle connection for a request that no call waits for yet, if one is free. Never waits.
    pub(crate) fn take_ahead(&self) -> Option<PooledConnection> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if state.ahead == AHEAD_MAX {
            return None;
        }
        let pooled = state.idle.pop()?;
        state.ahead += 1;
        Some(PooledConnection { ahead: true, ..pooled })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until another call has ended.
    fn wait_for_one(&self, mut state: MutexGuard<'_, State>, deadline: &Deadline) -> Result<()> {
        let left = deadline.last_moment().saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(deadline.missed());
        }
        // No signal ends this wait.
        let left = if is_watched() { left.min(SLICE) } else { left };
        state.waiting += 1;
        state = self.freed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        state.waiting -= 1;
        drop(state);
        if is_watched() && is_ended() {
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    /// Closes idle connections that the daemon has closed.
    fn drop_closed(&self, state: &mut State) {
        for mut pooled in std::mem::take(&mut state.idle) {
            match pooled.connection.receive() {
                Ok(_) => state.idle.push(pooled),
                Err(_) => self.close(state, pooled),
            }
        }
    }

    /// Closes a connection that broke, and all idle ones that are as old, because the daemon may have stopped.
    fn close_broken(&self, state: &mut State, pooled: PooledConnection) {
        if pooled.made_after == state.breaks {
            state.breaks += 1;
            for idle in std::mem::take(&mut state.idle) {
                self.close(state, idle);
            }
        }
        self.close_unusable(state, pooled);
    }

    /// A connection that never answered counts as a failed attempt.
    fn close_unusable(&self, state: &mut State, pooled: PooledConnection) {
        if !pooled.connection.replies.served {
            state.refused(Instant::now());
        }
        self.close(state, pooled);
    }

    fn close(&self, state: &mut State, mut pooled: PooledConnection) {
        state.no_longer_ahead(&mut pooled);
        self.all[pooled.index].store(ptr::null_mut(), Ordering::Relaxed);
        state.free_indexes.push(pooled.index);
    }

    fn wake(&self, state: MutexGuard<'_, State>) {
        let anybody = state.waiting > 0;
        drop(state);
        if anybody {
            self.freed.notify_one();
        }
    }
}

// === impl State ===

impl State {
    /// The index of a new connection for a call, if it may have one.
    fn index_for_call(&self) -> Option<usize> {
        let of_calls = INDEXES - self.free_indexes.len() - self.ahead;
        if of_calls < CONNECTIONS_MAX { self.free_indexes.last().copied() } else { None }
    }

    fn no_longer_ahead(&mut self, pooled: &mut PooledConnection) {
        self.ahead -= usize::from(pooled.ahead);
        pooled.ahead = false;
    }

    fn may_reuse(&self, pooled: &PooledConnection) -> bool {
        pooled.connection.is_usable() && pooled.made_after == self.breaks
    }

    fn may_try(&self, now: Instant) -> bool {
        self.next_try.is_none_or(|at| now >= at)
    }

    /// Records a failed attempt to connect. Pauses double.
    fn refused(&mut self, now: Instant) {
        self.next_try = Some(now + with_jitter(self.back_off));
        self.back_off = (self.back_off * 2).min(BACK_OFF_MAX);
    }
}

/// 75 to 125 % of a pause, by the clock's last digits, so that a host's processes don't all retry at once.
fn with_jitter(pause: Duration) -> Duration {
    let jitter_percent = crate::clock::exact_ns() / 64 % 50;
    pause * (75 + jitter_percent as u32) / 100
}

// === connecting ===

impl Endpoint {
    /// Whether an unreachable daemon may return soon.
    fn may_come_back(&self, error: &std::io::Error, deadline: &Deadline) -> bool {
        match error.raw_os_error() {
            // The backlog is full, so a daemon exists, or a listening daemon was killed.
            Some(libc::EAGAIN | libc::ECONNREFUSED) => true,
            Some(libc::ENOENT) => {
                deadline.waits || self.reached.load(Ordering::Relaxed) || has_just_gone(&self.path)
            }
            _ => false,
        }
    }
}

/// Whether a daemon's socket was at `path` a moment ago: its lock file exists, and the directory has changed within
/// [`JUST_NOW`].
fn has_just_gone(path: &Path) -> bool {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let changed = fs::metadata(folder).and_then(|found| found.modified());
    let age = changed.ok().and_then(|at| at.elapsed().ok());
    age.is_some_and(|age| age < JUST_NOW) && Path::new(&lock).exists()
}
