//! A daemon's costs besides answering: memory, time until it is ready, processor time when idle.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use leafd::journal::{Identity, Journal, Outside, Write};
use leafd::state_dir::StateDir;
use leafd::store::sqlite;
use leafd_client::Client;
use leafd_core::Run;
use leafd_core::Tag;
use leafd_core::store::Generation;
use leafd_tests::program::leafd_binary;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rusqlite::Connection;
use tempfile::TempDir;

use super::daemon::{OwnDaemon, new_dir, state_dir};
use crate::processes::resident_mib;
use crate::stats::median;
use crate::stop;

/// The measured costs of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cost {
    IdleCpuPercent,
    IdleMib,
    TagsMib,
    ConnectionsMib,
    AfterConnectionsMib,
    ProgramMb,
    ReadyFreshMs,
    ReadyWarmMs,
}

pub(super) type Costs = BTreeMap<Cost, f64>;

/// An idle daemon, watched for as long as the rest of the run takes.
#[derive(Debug)]
pub(super) struct Idle {
    daemon: OwnDaemon,
    since: Instant,
    cpu_before: Option<Duration>,
    _dir: TempDir,
}

/// The embedded store's file in the state directory.
const STORE_FILE: &str = "store.db";

/// How many tags are in use where there are many.
pub(crate) const TAGS: usize = 10_000;
const CONNECTIONS: usize = 1_000;

/// Descriptors besides those of the connections.
const DESCRIPTORS_MORE: u64 = 100;

/// How many starts of each kind are timed.
const STARTS: usize = 5;

/// How many numbers the warm journal has left for each tag.
const NUMBERS_LEFT: u32 = 1_000_000;

/// Concurrent requests for different tags; the daemon looks up no more than 1,000.
const TAGS_AT_ONCE: usize = 500;

/// After this time, a started daemon has nothing left to do.
const SETTLE: Duration = Duration::from_millis(300);

/// What an idle daemon does is done within a quarter of this time.
const WATCHED_AT_LEAST: Duration = Duration::from_secs(60);

/// By then memory is given back.
const GIVEN_BACK: Duration = Duration::from_secs(4);

// === impl Cost ===

impl Cost {
    pub(super) const ALL: [Cost; 8] = [
        Cost::IdleCpuPercent,
        Cost::IdleMib,
        Cost::TagsMib,
        Cost::ConnectionsMib,
        Cost::AfterConnectionsMib,
        Cost::ProgramMb,
        Cost::ReadyFreshMs,
        Cost::ReadyWarmMs,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Cost::IdleCpuPercent => "daemon: idle, % of a core",
            Cost::IdleMib => "daemon: idle, MiB",
            Cost::TagsMib => "daemon: 10,000 active tags, MiB",
            Cost::ConnectionsMib => "daemon: 1,000 connections, MiB",
            Cost::AfterConnectionsMib => "daemon: after 1,000 connections, MiB",
            Cost::ProgramMb => "daemon: program without symbols, MB",
            Cost::ReadyFreshMs => "daemon: exec to ready, fresh, ms",
            Cost::ReadyWarmMs => "daemon: exec to ready, 10,000 marks, ms",
        }
    }
}

// === impl Idle ===

impl Idle {
    pub(super) fn start() -> Result<Idle> {
        let dir = new_dir()?;
        let daemon = OwnDaemon::start(dir.path())?;
        std::thread::sleep(SETTLE);
        let cpu_before = daemon.process.cpu_clock().used();
        Ok(Idle { daemon, since: Instant::now(), cpu_before, _dir: dir })
    }

    /// Waits until it was watched for long enough, unless this is only a look at whether it works.
    pub(super) fn end(self, smoke: bool, costs: &mut Costs) -> Result<()> {
        let watch = if smoke { Duration::ZERO } else { WATCHED_AT_LEAST };
        while self.since.elapsed() < watch {
            stop::check()?;
            std::thread::sleep(SETTLE);
        }
        let cpu_after = self.daemon.process.cpu_clock().used();
        if let (Some(before), Some(after)) = (self.cpu_before, cpu_after) {
            let share = (after - before).as_secs_f64() / self.since.elapsed().as_secs_f64();
            costs.insert(Cost::IdleCpuPercent, share * 100.0);
        }
        costs.insert(Cost::IdleMib, resident_mib(self.daemon.process.pid())?);
        self.daemon.process.stop()
    }
}

/// Measures the remaining costs, each on daemons of its own.
pub(super) fn measure(costs: &mut Costs) -> Result<()> {
    let mut fresh_ms = Vec::new();
    for _ in 0..STARTS {
        stop::check()?;
        let dir = new_dir()?;
        fresh_ms.push(time_start(dir.path())?.1);
    }
    costs.extend(median(fresh_ms).map(|ms| (Cost::ReadyFreshMs, ms)));

    let dir = new_dir()?;
    make_tags(dir.path(), TAGS).context("cannot prepare a journal with many tags")?;
    let mut warm_ms = Vec::new();
    for _ in 0..STARTS {
        stop::check()?;
        let (daemon, ms) = time_start(dir.path())?;
        warm_ms.push(ms);
        daemon.process.stop()?;
    }
    costs.extend(median(warm_ms).map(|ms| (Cost::ReadyWarmMs, ms)));

    let daemon = OwnDaemon::start(dir.path())?;
    draw_of_tags(&daemon.socket(), 0..TAGS)?;
    std::thread::sleep(SETTLE);
    costs.insert(Cost::TagsMib, resident_mib(daemon.process.pid())?);
    daemon.process.stop()?;

    stop::check()?;
    let dir = new_dir()?;
    let daemon = OwnDaemon::start(dir.path())?;
    let (with_them, after_them) = memory_with_connections(&daemon)?;
    costs.extend([(Cost::ConnectionsMib, with_them), (Cost::AfterConnectionsMib, after_them)]);
    costs.insert(Cost::ProgramMb, loaded_bytes(leafd_binary())? as f64 / 1e6);
    Ok(())
}

fn time_start(dir: &Path) -> Result<(OwnDaemon, f64)> {
    let before = Instant::now();
    let daemon = OwnDaemon::start(dir)?;
    let ms = before.elapsed().as_secs_f64() * 1000.0;
    // Check that it really answers.
    Client::connect(daemon.socket())?;
    Ok((daemon, ms))
}

/// A tag's name; those of fewer than 100,000 tags have six bytes.
pub(crate) fn tag_name(index: usize) -> String {
    format!("t{index:05}")
}

/// Makes a store with so many tags, and a journal with numbers left for each. Through a daemon, tag by tag,
/// this would take minutes of waiting for the disk.
pub(crate) fn make_tags(dir: &Path, count: usize) -> Result<()> {
    let state = StateDir::open(&state_dir(dir))?;
    let path = state_dir(dir).join(STORE_FILE);
    let store_id = sqlite::open(&path, &Identity::of_host(None))?.identity()?.id;
    let mut store = Connection::open(path)?;
    let transaction = store.transaction()?;
    let mut writes = Vec::with_capacity(count);
    for index in 0..count {
        let name = tag_name(index);
        transaction.execute(
            "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES (?1, ?2, 1000)",
            (&name, NUMBERS_LEFT + 1),
        )?;
        writes.push(Write::Segment {
            store: store_id.clone(),
            tag: Tag::parse(name.as_bytes())?,
            generation: Generation(0),
            run: Run { first: 1, count: NUMBERS_LEFT, stride: 1 },
            mark: 1,
        });
    }
    transaction.commit()?;
    drop(store);
    let identity = Identity::of_host(None);
    let outside = Outside { memory: None, may_begin_anew: &|_| Ok(()) };
    writes.push(Write::StoppedCleanly);
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (journal, _) = Journal::open(&state, &identity, outside)?;
    runtime.block_on(async {
        let committed = journal.commit(writes).await;
        journal.close().await;
        committed
    })?;
    Ok(())
}

/// Draws one id of each of these tags.
pub(crate) fn draw_of_tags(socket: &Path, indexes: impl Iterator<Item = usize>) -> Result<()> {
    let mut indexes = indexes.peekable();
    while indexes.peek().is_some() {
        stop::check()?;
        // One client has no room for the names of a hundred thousand.
        let client = Client::connect(socket)?;
        let mut pipeline = client.within(Duration::from_secs(30)).pipeline();
        for index in indexes.by_ref().take(TAGS_AT_ONCE) {
            pipeline.push(&tag_name(index), 1)?;
        }
        while let Some(answer) = pipeline.answer() {
            let drawn = answer.ids?.count();
            ensure!(drawn == 1, "{drawn} ids for one");
        }
    }
    Ok(())
}

/// How much memory is resident with many connections, and how much some seconds after they have gone.
fn memory_with_connections(daemon: &OwnDaemon) -> Result<(f64, f64)> {
    let wanted = CONNECTIONS as u64 + DESCRIPTORS_MORE;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < wanted {
        setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard)?;
    }
    daemon.create_tag(&Client::connect(daemon.socket())?, "orders")?;
    let mut clients = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let client = Client::connect(daemon.socket())?;
        client.next_direct("orders")?;
        clients.push(client);
    }
    std::thread::sleep(SETTLE);
    let with_them = resident_mib(daemon.process.pid())?;
    drop(clients);
    std::thread::sleep(GIVEN_BACK);
    Ok((with_them, resident_mib(daemon.process.pid())?))
}

/// How much of a program is loaded: about as much as its file has once symbols are stripped.
fn loaded_bytes(program: &Path) -> Result<u64> {
    /// Where a 64-bit ELF header says at which offset the program headers begin.
    const HEADERS_AT: usize = 32;
    let bytes = std::fs::read(program)?;
    let number = |at: usize| -> Result<u64> {
        let field = bytes.get(at..at + 8).context("the program's file ends too early")?;
        Ok(u64::from_le_bytes(field.try_into()?))
    };
    let (first, count) = (usize::try_from(number(HEADERS_AT)?)?, number(HEADERS_AT + 24)? as u16);
    let mut loaded = 0;
    for header in (0..usize::from(count)).map(|index| first + index * 56) {
        // PT_LOAD; then the size in the file.
        loaded += if number(header)? as u32 == 1 { number(header + 32)? } else { 0 };
    }
    Ok(loaded)
}
