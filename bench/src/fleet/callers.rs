//! Clients that call again as soon as they are answered, for some time, and what that costs the server.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use leafd_tests::servers::{Postgres, Server as _};

use crate::duplicates::{Span, spans_of};
use crate::stats::{call_ns, percentile};

/// The calls of all clients.
#[derive(Debug, Default)]
pub(super) struct Called {
    pub(super) seconds: f64,
    /// The server's processor time.
    pub(super) store_cpu: Duration,
    /// How long each call took, ascending.
    latencies_ns: Vec<u32>,
    /// The ids that the calls returned.
    ids: Vec<u64>,
}

/// Runs `clients` for some time. `connect` makes a client, given its number. A client is a call that returns an
/// id.
pub(super) fn run<C>(
    server: &Postgres,
    clients: usize,
    time: Duration,
    connect: impl Fn(usize) -> Result<C> + Sync,
) -> Result<Called>
where
    C: FnMut() -> Result<u64>,
{
    crate::stop::check()?;
    let (ready, stop) = (Barrier::new(clients + 1), AtomicBool::new(false));
    let mut called = Called::default();
    std::thread::scope(|scope| {
        let thread = |number| {
            let (connect, ready, stop) = (&connect, &ready, &stop);
            scope.spawn(move || {
                let client = connect(number);
                // Even after an error: the others wait here.
                ready.wait();
                let mut call = client?;
                let (mut latencies_ns, mut ids) = (Vec::new(), Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    ids.push(call()?);
                    latencies_ns.push(call_ns(begun.elapsed()));
                }
                anyhow::Ok((latencies_ns, ids))
            })
        };
        let threads: Vec<_> = (0..clients).map(thread).collect();
        ready.wait();
        let (begun, cpu_before) = (Instant::now(), server.cpu());
        std::thread::sleep(time);
        // Read before the first client disconnects and the server's process for it ends. Processes of earlier clients
        // may have ended meanwhile, and no longer count.
        let used = server.cpu().into_iter().map(|(process, cpu)| {
            cpu.saturating_sub(cpu_before.get(&process).copied().unwrap_or_default())
        });
        called.store_cpu = used.sum();
        called.seconds = begun.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            let (latencies_ns, ids) = thread.join().map_err(|_| anyhow!("a thread panicked"))??;
            called.latencies_ns.extend(latencies_ns);
            called.ids.extend(ids);
        }
        anyhow::Ok(())
    })?;
    called.latencies_ns.sort_unstable();
    Ok(called)
}

impl Called {
    pub(super) fn count(&self) -> f64 {
        self.latencies_ns.len() as f64
    }

    pub(super) fn per_second(&self) -> f64 {
        self.count() / self.seconds
    }

    /// The latency that this share of the calls did not exceed, in microseconds.
    pub(super) fn percentile_us(&self, share: f64) -> f64 {
        percentile(&self.latencies_ns, share).map_or(f64::NAN, |ns| f64::from(ns) / 1000.0)
    }

    /// The server's processor time for each of `each_of` things, in microseconds.
    pub(super) fn store_cpu_us(&self, each_of: f64) -> f64 {
        self.store_cpu.as_secs_f64() * 1e6 / each_of
    }

    /// The ids that the calls returned, for the check for duplicates.
    pub(super) fn spans(&mut self) -> Vec<Span> {
        spans_of(&mut self.ids)
    }
}
