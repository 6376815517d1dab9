//! The timed loops that draw ids over connections, one for each form of asking.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use leafd_client::Tag;

use super::transport::Transport;
use crate::duplicates::{Span, check_ascending, spans_of};
use crate::processes::CpuClock;
use crate::stats::{Stats, Stretch, call_ns, put_percentiles};
use crate::stop::End;

/// How long one round of a row takes, and whose processor time is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) time: Duration,
    pub(super) server: Option<CpuClock>,
}

/// The result of a round: numbers, and the ids drawn.
pub(super) type Round = (Stats, Vec<Span>);

/// Requests before the measurement, so that connections and policies settle.
const WARM_UP: usize = 64;

/// The pause between two ids of an application that draws 1,000 per second.
const STEADY_PAUSE: Duration = Duration::from_millis(1);

/// One request at a time, each right after the last answer.
pub(super) fn back_to_back(
    mut transport: impl Transport,
    setting: Setting,
    held: bool,
) -> Result<Round> {
    let mut ids = Vec::new();
    let mut latencies_ns = Vec::new();
    for _ in 0..WARM_UP {
        ids.push(transport.one()?);
    }
    let stretch = Stretch::begin(setting.server);
    let end = End::after(setting.time);
    let mut now = Instant::now();
    while !end.reached_at(now) {
        ids.push(transport.one()?);
        let after = Instant::now();
        latencies_ns.push(call_ns(after - now));
        now = after;
    }
    finish(stretch, latencies_ns, ids, held)
}

/// One id per millisecond, by the clock: a late one does not delay the next. Sleeps in between, as
/// applications do.
pub(super) fn steady(mut transport: impl Transport, setting: Setting, held: bool) -> Result<Round> {
    let mut ids = Vec::new();
    let mut latencies_ns = Vec::new();
    let mut due = Instant::now();
    for _ in 0..WARM_UP / 8 {
        ids.push(transport.one()?);
        due = pause(due);
    }
    let stretch = Stretch::begin(setting.server);
    let end = End::after(setting.time);
    while !end.reached() {
        let before = Instant::now();
        ids.push(transport.one()?);
        latencies_ns.push(call_ns(before.elapsed()));
        due = pause(due);
    }
    finish(stretch, latencies_ns, ids, held)
}

fn pause(due: Instant) -> Instant {
    let due = due + STEADY_PAUSE;
    thread::sleep(due.saturating_duration_since(Instant::now()));
    due
}

fn finish(
    stretch: Stretch,
    mut latencies_ns: Vec<u32>,
    mut ids: Vec<u64>,
    held: bool,
) -> Result<Round> {
    let mut stats = stretch.end(latencies_ns.len());
    put_percentiles(&mut latencies_ns, &mut stats);
    if !held {
        check_ascending(&ids)?;
    }
    Ok((stats, spans_of(&mut ids)))
}

/// Several connections at once, each with a thread and `depth` requests in flight.
pub(super) fn connections<T: Transport>(
    transports: Vec<T>,
    depth: usize,
    setting: Setting,
) -> Result<Round> {
    let warm = Barrier::new(transports.len() + 1);
    let start = Barrier::new(transports.len() + 1);
    let (stats, each) = thread::scope(|scope| {
        let work = |transport| draw_pipelined(transport, depth, setting.time, &warm, &start);
        let threads: Vec<_> =
            transports.into_iter().map(|transport| scope.spawn(move || work(transport))).collect();
        warm.wait();
        // Start timing before the threads continue: this thread may be the last to wake.
        let stretch = Stretch::begin(setting.server);
        start.wait();
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        let each: Vec<_> = joined
            .map(|drawn| drawn.unwrap_or_else(|_| Err(anyhow!("a thread panicked"))))
            .collect();
        let timed = each.iter().flatten().map(|(_, timed)| timed).sum();
        (stretch.end(timed), each)
    });
    let mut ids = Vec::new();
    for drawn in each {
        let (drawn, _) = drawn?;
        check_ascending(&drawn)?;
        ids.extend(drawn);
    }
    Ok((stats, spans_of(&mut ids)))
}

/// What one connection drew, and how many of these ids during the measurement.
fn draw_pipelined(
    mut transport: impl Transport,
    depth: usize,
    time: Duration,
    warm: &Barrier,
    start: &Barrier,
) -> Result<(Vec<u64>, usize)> {
    let mut ids = Vec::new();
    let warming =
        (0..WARM_UP.div_ceil(depth)).try_for_each(|_| draw(&mut transport, depth, &mut ids));
    let drawn_before = ids.len();
    // Even after an error: the others wait here.
    warm.wait();
    start.wait();
    warming?;
    let end = End::after(time);
    while !end.reached() {
        draw(&mut transport, depth, &mut ids)?;
    }
    let timed = ids.len() - drawn_before;
    Ok((ids, timed))
}

fn draw(transport: &mut impl Transport, depth: usize, ids: &mut Vec<u64>) -> Result<()> {
    if depth > 1 {
        return transport.pipelined(depth, ids);
    }
    ids.push(transport.one()?);
    Ok(())
}

/// Batches of `count` ids, one request each.
pub(super) fn batches(tag: &Tag, count: u64, setting: Setting) -> Result<Round> {
    let mut spans = Vec::new();
    let mut latencies_ns = Vec::new();
    let mut drawn = 0;
    let mut last = 0;
    for _ in 0..WARM_UP / 8 {
        keep(tag.next_batch(count)?.into_runs(), &mut last, &mut spans)?;
    }
    let stretch = Stretch::begin(setting.server);
    let end = End::after(setting.time);
    while !end.reached() {
        let before = Instant::now();
        let ids = tag.next_batch(count)?;
        latencies_ns.push(call_ns(before.elapsed()));
        drawn += ids.remaining();
        keep(ids.into_runs(), &mut last, &mut spans)?;
    }
    let mut stats = stretch.end(usize::try_from(drawn)?);
    put_percentiles(&mut latencies_ns, &mut stats);
    Ok((stats, spans))
}

fn keep(
    runs: impl Iterator<Item = leafd_client::Run>,
    last: &mut u64,
    spans: &mut Vec<Span>,
) -> Result<()> {
    for run in runs {
        let span = Span { first: run.first, last: run.first + u64::from(run.count - 1) };
        if run.stride != 1 || span.first <= *last {
            return Err(anyhow!("a batch brought {run:?} after id {last}"));
        }
        *last = span.last;
        spans.push(span);
    }
    Ok(())
}
