//! A client that draws one id per millisecond and measures each.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leafd_tests::host::Host;
use leafd_tests::raw::{Raw, connect_as};
use leafd_wire::Status;

use crate::stats::{call_ns, percentile};

/// The victim's user.
pub(super) const UID: u32 = 4_002;

/// How often it draws.
const EVERY: Duration = Duration::from_millis(1);

pub(super) struct Victim {
    raw: Mutex<Raw>,
    tag: &'static str,
    phase: AtomicUsize,
}

/// The victim's numbers of one phase.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) p99_us: f64,
    /// The longest time between two ids, less the pace.
    pub(super) worst_ms: f64,
    pub(super) errors: f64,
}

impl Victim {
    pub(super) fn new(host: &Host, tag: &'static str) -> Victim {
        let stream = connect_as(&host.socket(), UID, UID, &[]).expect("the victim is let in");
        let mut raw = Raw::over(stream);
        // From here on its ids come from held runs.
        raw.draw(tag, 1);
        Victim { raw: Mutex::new(raw), tag, phase: AtomicUsize::new(0) }
    }

    /// The next phase begins.
    pub(super) fn next_phase(&self) {
        self.phase.fetch_add(1, Ordering::Relaxed);
    }

    /// Draws until told to stop. Returns the three phases, and what was drawn.
    pub(super) fn draw_until(&self, ended: &AtomicBool) -> ([Seen; 3], Vec<u64>) {
        let mut raw = self.raw.lock().expect("one thread draws");
        let mut latencies_ns: [Vec<u32>; 3] = Default::default();
        let mut seen = [Seen::default(); 3];
        let mut ids = Vec::new();
        let mut next = Instant::now();
        let mut last_answer = next;
        while !ended.load(Ordering::Relaxed) {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            next = (next + EVERY).max(Instant::now());
            let asked = Instant::now();
            let answer = self.draw(&mut raw);
            let answered = Instant::now();
            let phase = self.phase.load(Ordering::Relaxed).min(2);
            match answer {
                Ok(id) => ids.push(id),
                Err(_) => seen[phase].errors += 1.0,
            }
            latencies_ns[phase].push(call_ns(answered - asked));
            let gap_ms = (answered - last_answer).saturating_sub(EVERY).as_secs_f64() * 1e3;
            seen[phase].worst_ms = seen[phase].worst_ms.max(gap_ms);
            last_answer = answered;
        }
        for (seen, latencies_ns) in seen.iter_mut().zip(&mut latencies_ns) {
            latencies_ns.sort_unstable();
            seen.p99_us = percentile(latencies_ns, 0.99).map_or(0.0, |ns| f64::from(ns) / 1e3);
        }
        (seen, ids)
    }

    fn draw(&self, raw: &mut Raw) -> io::Result<u64> {
        raw.ask(self.tag, 1, 1);
        let reply = raw.try_reply()?;
        match reply.status() {
            Status::Ok => Ok(reply.ids()[0]),
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }
}
