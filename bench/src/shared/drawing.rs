//! Processes that draw together. They draw a chunk of ids at a time into memory, all at once, and hand it over when
//! nobody draws any more.

use std::fs::File;
use std::io::{BufRead as _, Write as _};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use leafd_client::Client;
use leafd_wire::share::TicketPage;
use nix::fcntl::{FcntlArg, SealFlag, fcntl, posix_fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use nix::time::{ClockId, clock_gettime};

use super::SHARED;
use crate::duplicates::{Span, check_ascending, spans_of};
use crate::host::redis::RedisServer;
use crate::processes::{Process, helper};
use crate::stop::{self, End};

/// Where processes draw from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Source {
    Shared,
    Held,
    Direct,
    Redis,
    /// Bare memory.
    Number,
}

/// A number on a page of memory that is made as a shared run's ticket page is.
#[derive(Debug)]
pub(super) struct Number(File);

/// What all processes drew together.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    pub(super) ids: u64,
    /// From the first one's beginning to the last one's end.
    wall: Duration,
    /// Of all processes.
    times: Duration,
    cpu: Duration,
}

/// The most ids of a chunk of one process.
const CHUNK_IDS: usize = 1 << 20;

/// How many ids are drawn between two looks at the clock.
const IDS_A_LOOK: usize = 256;
/// The same where an id takes microseconds.
const IDS_A_SLOW_LOOK: usize = 4;

/// The first chunk, in which runs grow.
const WARM_UP: Duration = Duration::from_millis(50);

const PAGE_BYTES: NonZeroUsize = NonZeroUsize::new(4_096).expect("it is not 0");

// === impl Source ===

impl Source {
    pub(super) const ALL: [Source; 5] =
        [Source::Shared, Source::Held, Source::Direct, Source::Redis, Source::Number];

    pub(super) fn name(self) -> &'static str {
        match self {
            Source::Shared => "a shared run",
            Source::Held => "held runs",
            Source::Direct => "drawn directly",
            Source::Redis => "Redis INCR",
            Source::Number => "a bare fetch_add",
        }
    }

    /// Under this name ids are unique.
    pub(super) fn tag(self) -> &'static str {
        match self {
            Source::Shared => SHARED,
            Source::Held => "held",
            Source::Direct => "direct",
            Source::Redis => "redis",
            Source::Number => "number",
        }
    }

    pub(super) fn asks_leafd(self) -> bool {
        !matches!(self, Source::Redis | Source::Number)
    }
}

// === impl Number ===

impl Number {
    pub(super) fn new() -> Result<Number> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(memfd_create("leafd-bench-number", flags)?);
        posix_fallocate(&file, 0, PAGE_BYTES.get().try_into()?)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        Ok(Number(file))
    }

    /// Where other processes find it while this value lives.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}

// === impl Drawn ===

impl Drawn {
    pub(super) fn ns_an_id(&self) -> f64 {
        self.times.as_nanos() as f64 / self.ids as f64
    }

    pub(super) fn cpu_ns_an_id(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.ids as f64
    }

    pub(super) fn ids_a_second(&self) -> f64 {
        self.ids as f64 / self.wall.as_secs_f64()
    }
}

/// Starts processes that will draw, for so long at a time.
pub(super) fn start(
    source: Source,
    at: &Path,
    count: usize,
    time: Duration,
) -> Result<Vec<Process>> {
    let start = || {
        let mut command = helper("helper-share")?;
        command.arg(source.tag()).arg("--at").arg(at);
        command.args(["--seconds", &time.as_secs_f64().to_string()]);
        Process::start(command.stdin(Stdio::piped()))
    };
    let mut processes = (0..count).map(|_| start()).collect::<Result<Vec<_>>>()?;
    for process in &mut processes {
        process.line()?;
    }
    Ok(processes)
}

/// Has them draw for a moment that doesn't count. Its ids do.
pub(super) fn warm_up(processes: &mut [Process]) -> Result<Vec<Span>> {
    let mut spans = Vec::new();
    chunk(processes, &mut spans)?;
    Ok(spans)
}

/// Has them draw together for at least so long.
pub(super) fn draw(
    processes: &mut [Process],
    time: Duration,
    spans: &mut Vec<Span>,
) -> Result<Drawn> {
    let mut drawn = Drawn::default();
    while drawn.wall < time {
        let more = chunk(processes, spans)?;
        drawn.ids += more.ids;
        drawn.wall += more.wall.max(Duration::from_micros(1));
        drawn.times += more.times;
        drawn.cpu += more.cpu;
        stop::check()?;
    }
    Ok(drawn)
}

/// One chunk of each process.
fn chunk(processes: &mut [Process], spans: &mut Vec<Span>) -> Result<Drawn> {
    for process in processes.iter_mut() {
        process.go()?;
    }
    let (mut drawn, mut counts) = (Drawn::default(), Vec::new());
    let (mut began_ns, mut ended_ns) = (u64::MAX, 0);
    for process in processes.iter_mut() {
        let line = process.line()?;
        let told: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [count, began, ended, cpu_ns] = told[..] else { bail!("a helper tells {line:?}") };
        counts.push(usize::try_from(count)?);
        drawn.ids += count;
        drawn.times += Duration::from_nanos(ended.saturating_sub(began));
        drawn.cpu += Duration::from_nanos(cpu_ns);
        began_ns = began_ns.min(began);
        ended_ns = ended_ns.max(ended);
    }
    // By their own clocks, because waking up to read what they tell takes time too.
    drawn.wall = Duration::from_nanos(ended_ns.saturating_sub(began_ns));
    let mut ids: Vec<u64> = Vec::with_capacity(counts.iter().sum());
    for (process, count) in processes.iter_mut().zip(counts) {
        process.go()?;
        let bytes = process.bytes(count * size_of::<u64>())?;
        ids.extend(bytes.as_chunks().0.iter().map(|id| u64::from_ne_bytes(*id)));
    }
    // Those of all processes at once: one's ids have gaps where others drew.
    spans.extend(spans_of(&mut ids));
    Ok(drawn)
}

/// The helper process: draws a chunk when it is told to, tells how many ids that gave, from when to when, and its processor
/// time; and when it is told again, which ids.
pub(crate) fn draw_and_tell(source: Source, at: &Path, time: Duration) -> Result<()> {
    let tag = |shared| {
        let client = Client::builder().socket(at).shared(shared).build()?;
        Ok::<_, anyhow::Error>(client.tag(source.tag())?)
    };
    // Each has a loop of its own, into which the call is compiled.
    match source {
        Source::Shared => {
            let tag = tag(true)?;
            serve(time, IDS_A_LOOK, || Ok(tag.next()?))
        }
        Source::Held => {
            let tag = tag(false)?;
            serve(time, IDS_A_LOOK, || Ok(tag.next()?))
        }
        Source::Direct => {
            let tag = tag(false)?.direct();
            serve(time, IDS_A_SLOW_LOOK, || Ok(tag.next()?))
        }
        Source::Redis => {
            serve(time, IDS_A_SLOW_LOOK, RedisServer::increments_at(at, source.tag())?)
        }
        Source::Number => {
            let number = number(at)?;
            serve(time, IDS_A_LOOK, || Ok(number.take()))
        }
    }
}

fn serve(time: Duration, ids_a_look: usize, mut next: impl FnMut() -> Result<u64>) -> Result<()> {
    // Its pages are there before anything is timed.
    let mut ids = vec![1; CHUNK_IDS];
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut told = move || anyhow::Ok(input.read_line(&mut String::new())? > 0);
    writeln!(output, "ready")?;
    output.flush()?;
    let (mut last, mut limit) = (None, WARM_UP.min(time));
    while told()? {
        ids.clear();
        let [began_ns, cpu_before] = clocks()?;
        let end = End::after(limit);
        loop {
            for _ in 0..ids_a_look {
                ids.push(next()?);
            }
            if ids.len() + ids_a_look > CHUNK_IDS || end.reached() {
                break;
            }
        }
        let [ended_ns, cpu_after] = clocks()?;
        limit = time;
        writeln!(output, "{} {began_ns} {ended_ns} {}", ids.len(), cpu_after - cpu_before)?;
        output.flush()?;
        check_ascending(&ids)?;
        ensure!(ids.first().copied() > last, "{:?} follows {last:?}", ids.first());
        last = ids.last().copied();
        if !told()? {
            break;
        }
        ids.iter().try_for_each(|id| output.write_all(&id.to_ne_bytes()))?;
        output.flush()?;
    }
    Ok(())
}

/// The time that all processes share, and this one's processor time.
fn clocks() -> Result<[u64; 2]> {
    let read = |clock| anyhow::Ok(u64::try_from(Duration::from(clock_gettime(clock)?).as_nanos())?);
    Ok([read(ClockId::CLOCK_MONOTONIC)?, read(ClockId::CLOCK_PROCESS_CPUTIME_ID)?])
}

/// The bench's number, for as long as this process runs.
fn number(path: &Path) -> Result<&'static TicketPage> {
    let file = File::options().read(true).write(true).open(path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping touches no memory that is in use.
    let place = unsafe { mmap(None, PAGE_BYTES, access, MapFlags::MAP_SHARED, &file, 0) }?;
    // SAFETY: it is never unmapped, large enough and at a page's boundary; any bits are a number, which others change
    // through atomics only.
    Ok(unsafe { place.cast::<TicketPage>().as_ref() })
}
