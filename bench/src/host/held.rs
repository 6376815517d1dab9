//! Ids from held runs take nanoseconds: they are timed by the chunk, and against an empty loop.

use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use leafd_client::{Client, Tag};
use nix::time::{ClockId, clock_gettime};

use super::workloads::{Round, Setting};
use crate::duplicates::{Span, check_ascending, spans_of};
use crate::processes::{Process, helper};
use crate::stats::{Metric, Stretch, call_ns, percentile};
use crate::stop::End;

/// The most ids that a thread stores per chunk. Their later use is not timed.
const CHUNK_IDS: usize = 1 << 20;

/// How many ids are drawn between two looks at the clock.
const IDS_A_LOOK: usize = 256;

/// How long runs may grow before the measurement.
const WARM_UP: Duration = Duration::from_millis(20);

/// The pause between two ids at 1,000,000 per second.
const TAIL_PAUSE: Duration = Duration::from_micros(1);

/// Each thread's share of a chunk.
struct Share {
    began: Instant,
    ended: Instant,
    ids: Vec<u64>,
}

/// As fast as possible, with `threads` threads of one client.
pub(super) fn unpaced(tag: &Tag, threads: usize, setting: Setting) -> Result<Round> {
    let mut buffers: Vec<Vec<u64>> = (0..threads).map(|_| touched_buffer()).collect();
    let mut spans = Vec::new();
    warm_up(tag, &mut buffers[0], &mut spans)?;
    let (mut drawn, mut wall, mut of_threads) = (0, Duration::ZERO, Duration::ZERO);
    let stretch = Stretch::begin(setting.server);
    let mut left = setting.time;
    while !left.is_zero() {
        let shares = chunk(tag, buffers, left)?;
        let began = shares.iter().map(|share| share.began).min();
        let ended = shares.iter().map(|share| share.ended).max();
        let took = began.zip(ended).map_or(Duration::ZERO, |(began, ended)| ended - began);
        wall += took;
        left = left.saturating_sub(took.max(Duration::from_micros(1)));
        buffers = Vec::with_capacity(threads);
        for mut share in shares {
            drawn += share.ids.len();
            of_threads += share.ended - share.began;
            check_ascending(&share.ids)?;
            spans.extend(spans_of(&mut share.ids));
            buffers.push(share.ids);
        }
        crate::stop::check()?;
    }
    let mut stats = stretch.end(drawn);
    stats.insert(Metric::IdsPerSecond, drawn as f64 / wall.as_secs_f64());
    stats.insert(Metric::NsPerId, wall.as_nanos() as f64 / drawn as f64);
    stats.insert(Metric::NsPerIdOfThread, of_threads.as_nanos() as f64 / drawn as f64);
    Ok((stats, spans))
}

/// A buffer whose pages are touched, so that drawing into it causes no page faults.
fn touched_buffer() -> Vec<u64> {
    let mut buffer = vec![1; CHUNK_IDS];
    buffer.clear();
    buffer
}

fn warm_up(tag: &Tag, buffer: &mut Vec<u64>, spans: &mut Vec<Span>) -> Result<()> {
    let end = End::after(WARM_UP);
    while !end.reached() {
        buffer.clear();
        draw(tag, end, buffer)?;
        check_ascending(buffer)?;
        spans.extend(spans_of(buffer));
    }
    Ok(())
}

/// Draws until `end` or until the buffer is full; always some ids.
fn draw(tag: &Tag, end: End, buffer: &mut Vec<u64>) -> Result<()> {
    loop {
        for _ in 0..IDS_A_LOOK {
            buffer.push(tag.next()?);
        }
        if buffer.len() + IDS_A_LOOK > CHUNK_IDS || end.reached() {
            return Ok(());
        }
    }
}

fn chunk(tag: &Tag, buffers: Vec<Vec<u64>>, time: Duration) -> Result<Vec<Share>> {
    let start = Barrier::new(buffers.len());
    let work = |mut ids: Vec<u64>| -> Result<Share> {
        ids.clear();
        start.wait();
        let began = Instant::now();
        draw(tag, End::after(time), &mut ids)?;
        Ok(Share { began, ended: Instant::now(), ids })
    };
    thread::scope(|scope| {
        let threads: Vec<_> =
            buffers.into_iter().map(|buffer| scope.spawn(|| work(buffer))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|share| share.map_err(|_| anyhow!("a thread panicked"))?).collect()
    })
}

/// One id per microsecond. Before that, as many turns of the same loop without the call.
pub(super) fn tail(tag: &Tag, setting: Setting) -> Result<Round> {
    let mut buffer = touched_buffer();
    let mut spans = Vec::new();
    warm_up(tag, &mut buffer, &mut spans)?;
    let turns = usize::try_from(setting.time.as_micros() / 2)?.clamp(1, CHUNK_IDS);
    let mut latencies_ns = vec![0; turns];
    paced(&mut latencies_ns, || Ok(()))?;
    let empty_ns = tail_ns(&mut latencies_ns)?;
    buffer.clear();
    let stretch = Stretch::begin(setting.server);
    paced(&mut latencies_ns, || {
        buffer.push(tag.next()?);
        Ok(())
    })?;
    let mut stats = stretch.end(buffer.len());
    crate::stats::put_percentiles(&mut latencies_ns, &mut stats);
    let excess_us = (f64::from(tail_ns(&mut latencies_ns)?) - f64::from(empty_ns)) / 1000.0;
    stats.insert(Metric::TailExcessUs, excess_us);
    check_ascending(&buffer)?;
    spans.extend(spans_of(&mut buffer));
    Ok((stats, spans))
}

fn tail_ns(latencies_ns: &mut [u32]) -> Result<u32> {
    latencies_ns.sort_unstable();
    percentile(latencies_ns, 0.999).context("nothing was measured")
}

/// Turns of a loop of one microsecond. It spins, because no sleep is that short.
fn paced(latencies_ns: &mut [u32], mut call: impl FnMut() -> Result<()>) -> Result<()> {
    let mut due = Instant::now();
    for latency_ns in latencies_ns {
        let mut now = Instant::now();
        while now < due {
            std::hint::spin_loop();
            now = Instant::now();
        }
        call()?;
        *latency_ns = call_ns(now.elapsed());
        due += TAIL_PAUSE;
    }
    Ok(())
}

/// As fast as possible, with `count` processes.
pub(super) fn processes(socket: &Path, tag: &str, count: usize, setting: Setting) -> Result<Round> {
    let mut workers = Vec::new();
    for _ in 0..count {
        let mut command = helper("helper-draw")?;
        command.arg("--socket").arg(socket).args(["--tag", tag]);
        command.args(["--seconds", &setting.time.as_secs_f64().to_string()]);
        workers.push(Process::start(command.stdin(Stdio::piped()))?);
    }
    for worker in &mut workers {
        worker.line()?;
    }
    let stretch = Stretch::begin(setting.server);
    for worker in &mut workers {
        worker.go()?;
    }
    let (mut drawn, mut began_ns, mut ended_ns) = (0, u64::MAX, 0);
    for worker in &mut workers {
        let line = worker.line()?;
        let told: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [count, began, ended] = told[..] else { bail!("a helper tells {line:?}") };
        drawn += count;
        began_ns = began_ns.min(began);
        ended_ns = ended_ns.max(ended);
    }
    let mut stats = stretch.end(usize::try_from(drawn)?);
    // Timed by the helpers' own clocks, because waking up to read their output takes time too.
    let seconds = ended_ns.saturating_sub(began_ns) as f64 / 1e9;
    stats.insert(Metric::IdsPerSecond, drawn as f64 / seconds);
    let mut spans = Vec::new();
    for worker in workers {
        for line in String::from_utf8(worker.rest()?)?.lines() {
            let (first, last) = line.split_once(' ').context("a helper tells no span")?;
            spans.push(Span { first: first.parse()?, last: last.parse()? });
        }
    }
    Ok((stats, spans))
}

/// The helper process: reports that it is ready, waits for a line, draws, and prints how many ids that
/// gave, from when to when, and which ids.
pub(crate) fn draw_and_tell(socket: &Path, tag: &str, time: Duration) -> Result<()> {
    let tag = Client::connect(socket)?.tag(tag)?;
    let mut buffer = touched_buffer();
    let mut spans = Vec::new();
    warm_up(&tag, &mut buffer, &mut spans)?;
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new())?;
    let mut drawn = 0;
    let began_ns = monotonic_ns()?;
    let end = End::after(time);
    while !end.reached() {
        buffer.clear();
        draw(&tag, end, &mut buffer)?;
        drawn += buffer.len();
        check_ascending(&buffer)?;
        spans.extend(spans_of(&mut buffer));
    }
    let ended_ns = monotonic_ns()?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    writeln!(out, "{drawn} {began_ns} {ended_ns}")?;
    out.flush()?;
    for Span { first, last } in spans {
        writeln!(out, "{first} {last}")?;
    }
    out.flush()?;
    Ok(())
}

/// A clock that all processes share.
fn monotonic_ns() -> Result<u64> {
    let time = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    Ok(u64::try_from(time.as_nanos())?)
}
