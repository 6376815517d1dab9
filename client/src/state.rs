//! A process's state for a client: one connection, shared by all threads.
//!
//! Requests have ids, so any number of threads can wait at once. One of them reads and hands the others
//! their answers. When it has its own answer, the next thread takes over. No lock is held while a thread
//! waits for the socket.
//!
//! A forked child never sees its parent's state: it finds a null pointer and makes its own.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::deadline::Deadline;
use crate::error::{Break, Error, Result};
use crate::interruption::{SLICE, has_ended, is_ended, is_signalled, is_watched};
use crate::link::Link;
use crate::polling::Before;
use crate::reader::{Arrival, Patience};
use crate::requests::{For, Group, Outcome, Ticket};
use crate::socket::{Record, Socket};

/// How much longer than the daemon's deadline a client waits for the daemon's own answer about it.
pub(crate) const GRACE: Duration = Duration::from_millis(250);

/// How long a removed socket counts as that of a restarting daemon.
const JUST_NOW: Duration = Duration::from_secs(10);

/// What a fork does not change: the socket's path, and what is known about it.
pub(crate) struct Target {
    pub(crate) path: PathBuf,
    pub(crate) polling: bool,
    /// Whether a connection was ever made. If so, a missing daemon is restarting.
    pub(crate) reached: AtomicBool,
    pub(crate) record: Record,
}

/// A process's connection and the threads that wait on it.
pub(crate) struct State {
    /// The process that made it.
    pub(crate) pid: u32,
    target: Arc<Target>,
    link: Mutex<Link>,
}

/// The lock. The threads that were roused under it are woken once it is free: earlier they would only wait for it.
pub(crate) struct Guard<'a>(Option<MutexGuard<'a, Link>>);

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    Answer(For),
    /// That the system has taken all bytes.
    Sent,
}

// === impl State ===

impl State {
    pub(crate) fn new(target: Arc<Target>) -> State {
        let link = Mutex::new(Link::new(target.polling));
        State { pid: std::process::id(), target, link }
    }

    pub(crate) fn lock(&self) -> Guard<'_> {
        Guard(Some(self.link.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    pub(crate) fn try_lock(&self) -> Option<Guard<'_>> {
        match self.link.try_lock() {
            Ok(link) => Some(Guard(Some(link))),
            Err(TryLockError::Poisoned(poisoned)) => Some(Guard(Some(poisoned.into_inner()))),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Takes the lock, with a connection. A lost connection is made anew, with growing pauses, up to the
    /// deadline, and then tried for a last time. A daemon that was never there is an error at once, unless
    /// the call is to wait for it.
    pub(crate) fn connected(&self, deadline: &mut Deadline) -> Result<Guard<'_>> {
        let until = deadline.connect_by();
        let mut waited = false;
        loop {
            let mut link = self.lock();
            if let Some(at) = link.connected_at() {
                // Another thread may have made it while this one waited.
                deadline.connected(at);
                return Ok(link);
            }
            let now = Instant::now();
            let is_over = now >= until;
            let mut refused = None;
            if link.may_try(now) || (waited && is_over) {
                match Socket::connect(&self.target.path) {
                    Ok(socket) => {
                        self.target.record.set(&socket);
                        self.target.reached.store(true, Ordering::Relaxed);
                        let at = Instant::now();
                        link.adopt(socket, at);
                        deadline.connected(at);
                        return Ok(link);
                    }
                    Err(error) => {
                        link.refused(now);
                        refused = Some(error);
                    }
                }
            }
            let next_try = link.next_try(now);
            drop(link);
            if let Some(source) = refused
                && (is_over || !self.may_come_back(&source, deadline))
            {
                return Err(Error::Connect { path: self.target.path.clone(), source });
            }
            if is_over {
                let source = std::io::ErrorKind::TimedOut.into();
                return Err(Error::Connect { path: self.target.path.clone(), source });
            }
            std::thread::sleep(next_try.min(until).saturating_duration_since(now));
            waited = true;
            if is_watched() && is_ended() {
                return Err(Error::Interrupted);
            }
        }
    }

    /// Waits for the ticket's outcome. `None`: it did not come by `until`, and the request is still in
    /// flight. `maybe_there`: the request was sent some time ago.
    pub(crate) fn answer(
        &self,
        link: Guard<'_>,
        ticket: Ticket,
        maybe_there: bool,
        until: Instant,
    ) -> Option<Outcome> {
        let awaited = Awaited::Answer(For::Ticket(ticket));
        self.wait(link, awaited, maybe_there, until, |link| link.requests.take(ticket)).1
    }

    /// Waits for the next answer of a group, as [`State::answer`] does.
    pub(crate) fn answer_of<'a>(
        &'a self,
        link: Guard<'a>,
        group: Group,
        until: Instant,
    ) -> (Guard<'a>, Option<(u64, Outcome)>) {
        let awaited = Awaited::Answer(For::Group(group));
        self.wait(link, awaited, true, until, |link| link.requests.take_of(group))
    }

    /// Waits until the system has taken all bytes. `None`: not by `until`.
    pub(crate) fn sent<'a>(&'a self, link: Guard<'a>, until: Instant) -> (Guard<'a>, Option<()>) {
        self.wait(link, Awaited::Sent, false, until, |link| link.is_sent().then_some(()))
    }

    /// Gives up a request.
    pub(crate) fn abandon(&self, ticket: Ticket) {
        let mut link = self.lock();
        if !link.requests.abandon(ticket) {
            self.break_off(&mut link, Break::Overdue);
        }
    }

    /// Ends the connection and tells every thread that waits on it.
    pub(crate) fn break_off(&self, link: &mut Link, why: Break) {
        self.target.record.clear();
        link.break_off(why);
    }

    /// Checks, without waiting, whether the peer has closed the connection.
    pub(crate) fn probe(&self) {
        let mut link = self.lock();
        if let Some(mut reader) = link.reader.take() {
            let outcome = reader.receive();
            link.reader = Some(reader);
            if let Err(why) = self.take_in(&mut link, outcome, Instant::now()) {
                self.break_off(&mut link, why);
            }
        }
    }

    /// Waits until `ready` returns something. Reads if no other thread does.
    fn wait<'a, T>(
        &'a self,
        mut link: Guard<'a>,
        awaited: Awaited,
        mut maybe_there: bool,
        until: Instant,
        mut ready: impl FnMut(&mut Link) -> Option<T>,
    ) -> (Guard<'a>, Option<T>) {
        // An answer that is there already, as most of a pipeline's are, needs no look at the clock.
        let mut found = ready(&mut link);
        if found.is_none() {
            let mut now = Instant::now();
            let mut before = link.polling.begin(now);
            while found.is_none() && now < until && !has_ended() {
                link.send();
                if let Some(mut reader) = link.reader.take() {
                    let patience =
                        Patience { before, maybe_there, writable: !link.is_sent(), until };
                    drop(link);
                    let (outcome, tried) = reader.fill(patience);
                    link = self.lock();
                    let filled = Instant::now();
                    if let Some(tried) = tried {
                        link.polling.end(before, tried, filled);
                        if !tried.found {
                            before = Before::NOTHING;
                        }
                    }
                    maybe_there = false;
                    if link.put_back(reader)
                        && let Err(why) = self.take_in(&mut link, outcome, filled)
                    {
                        self.break_off(&mut link, why);
                    }
                    if is_signalled() {
                        // Another thread may read meanwhile, and so may the handler.
                        link.pass_reading_on();
                        drop(link);
                        is_ended();
                        link = self.lock();
                    }
                } else if let Some(socket) = link.unsent_socket() {
                    // The reader may be asleep and not know of these bytes.
                    drop(link);
                    let wanted = crate::socket::Readiness { readable: false, writable: true };
                    // Whatever it finds, the next round tries to send and sees.
                    let _ = socket.wait(wanted, until.min(now + Duration::from_millis(20)));
                    link = self.lock();
                } else {
                    let left = until.saturating_duration_since(now);
                    if is_watched() {
                        // No signal wakes it.
                        link = self.sleep(link, awaited, left.min(SLICE));
                        // The handlers may take long, and may ask the daemon as well.
                        link.pass_reading_on();
                        drop(link);
                        is_ended();
                        link = self.lock();
                    } else {
                        link = self.sleep(link, awaited, left);
                    }
                }
                now = Instant::now();
                found = ready(&mut link);
            }
        }
        link.pass_reading_on();
        (link, found)
    }

    /// Hands the received frames to the threads that wait for them.
    fn take_in(
        &self,
        link: &mut Link,
        outcome: std::result::Result<Arrival, Break>,
        now: Instant,
    ) -> std::result::Result<(), Break> {
        match outcome? {
            Arrival::Nothing => Ok(()),
            Arrival::Bytes => link.dispatch(now),
        }
    }

    /// Sleeps until the reader wakes this thread, or for `limit`.
    fn sleep<'a>(&self, mut link: Guard<'a>, awaited: Awaited, limit: Duration) -> Guard<'a> {
        let bed = link.lie_down(awaited);
        link = link.wait(&bed, limit);
        link.get_up(bed);
        link
    }

    /// Whether an unreachable daemon may be back soon.
    fn may_come_back(&self, error: &std::io::Error, deadline: &Deadline) -> bool {
        match error.raw_os_error() {
            // The backlog is full, so a daemon is there. Or a listening daemon was killed.
            Some(libc::EAGAIN | libc::ECONNREFUSED) => true,
            Some(libc::ENOENT) => {
                deadline.waits()
                    || self.target.reached.load(Ordering::Relaxed)
                    || has_just_gone(&self.target.path)
            }
            _ => false,
        }
    }
}

// === impl Guard ===

impl<'a> Guard<'a> {
    /// Releases the lock until `bed` is notified, or for `limit`.
    fn wait(mut self, bed: &Condvar, limit: Duration) -> Guard<'a> {
        self.take_roused().iter().flatten().for_each(|other| other.notify_one());
        let link = self.0.take().expect("held until dropped");
        Guard(Some(bed.wait_timeout(link, limit).unwrap_or_else(PoisonError::into_inner).0))
    }
}

impl Deref for Guard<'_> {
    type Target = Link;

    fn deref(&self) -> &Link {
        self.0.as_ref().expect("held until dropped")
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Link {
        self.0.as_mut().expect("held until dropped")
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let Some(mut link) = self.0.take() else { return };
        // Mostly nobody is, and room for all takes time to clear.
        if link.nobody_to_notify() {
            return;
        }
        let roused = link.take_roused();
        drop(link);
        roused.iter().flatten().for_each(|bed| bed.notify_one());
    }
}

/// Whether a daemon's socket was at `path` a moment ago: its lock file is there, and the folder has
/// changed since [`JUST_NOW`].
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
