//! Clients that ask again as soon as they are answered, for some time, and what that took of the server.

use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::servers::{Postgres, Server};

/// What clients did.
#[derive(Debug, Default)]
pub(super) struct Called {
    pub(super) seconds: f64,
    /// Processor time of the server's.
    pub(super) store_cpu: Duration,
    /// What each call took, in microseconds, ascending.
    pub(super) micros: Vec<f64>,
    /// What the calls answered with.
    pub(super) ids: Vec<u64>,
}

/// Runs so many clients for so long. `connect` makes one, told its number; a client is a call that answers with an id.
pub(super) fn run<C>(
    server: &Postgres,
    clients: usize,
    time: Duration,
    connect: impl Fn(usize) -> C + Sync,
) -> Called
where
    C: FnMut() -> u64,
{
    let (ready, stop) = (Barrier::new(clients + 1), AtomicBool::new(false));
    let mut called = Called::default();
    std::thread::scope(|scope| {
        let thread = |number| {
            let (connect, ready, stop) = (&connect, &ready, &stop);
            scope.spawn(move || {
                let mut call = connect(number);
                ready.wait();
                let (mut micros, mut ids) = (Vec::new(), Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    ids.push(call());
                    micros.push(begun.elapsed().as_secs_f64() * 1e6);
                }
                (micros, ids)
            })
        };
        let threads: Vec<_> = (0..clients).map(thread).collect();
        ready.wait();
        let (begun, cpu_before) = (Instant::now(), server.cpu());
        std::thread::sleep(time);
        // Before the first of them hangs up, and the server's process for it ends. Those of earlier ones may have ended
        // since, and count no more.
        let used = server.cpu().into_iter().map(|(process, cpu)| {
            cpu.saturating_sub(cpu_before.get(&process).copied().unwrap_or_default())
        });
        called.store_cpu = used.sum();
        called.seconds = begun.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            let (micros, ids) = thread.join().unwrap();
            called.micros.extend(micros);
            called.ids.extend(ids);
        }
    });
    called.micros.sort_unstable_by(f64::total_cmp);
    called
}

impl Called {
    pub(super) fn count(&self) -> f64 {
        self.micros.len() as f64
    }

    pub(super) fn per_second(&self) -> f64 {
        self.count() / self.seconds
    }

    /// What this share of the calls did not exceed, by the nearest rank.
    pub(super) fn percentile(&self, share: f64) -> f64 {
        let rank = (share * self.count()).ceil() as usize;
        self.micros.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }
}

/// Fails if an id came twice.
#[track_caller]
pub(super) fn assert_unique<'a>(all: impl IntoIterator<Item = &'a Called>) {
    let mut seen = HashSet::new();
    for id in all.into_iter().flat_map(|called| &called.ids) {
        assert!(seen.insert(id), "{id} came twice");
    }
}
