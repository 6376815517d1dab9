//! What a daemon with a hundred thousand tags in use costs: its memory, how long ids of them take while any of them is
//! drawn at random, and how long it takes to stop with exact marks.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use leafd_client::Client;

use crate::host::daemon::{OwnDaemon, new_dir};
use crate::host::footprint::{draw_of_tags, make_tags, tag_name};
use crate::processes::resident_mib;
use crate::report::{Budget, Report, Section};
use crate::stats::{call_ns, percentile};
use crate::{Plan, progress, stop};

const NAME: &str = "many tags: 100,000 in use";

const TAGS: usize = 100_000;

/// As many for a look at whether it can be measured.
const TAGS_SMOKE: usize = 2_000;

/// One tag in this many is not drawn before: among those that are drawn at random it is fresh.
const FRESH_PART: usize = 50;

const TIME: Duration = Duration::from_secs(5);

/// The pause between two ids: one id per millisecond, as applications draw.
const EVERY: Duration = Duration::from_millis(1);

/// After this time a daemon has nothing left to do of what it was asked for.
const SETTLE: Duration = Duration::from_millis(300);

const MEMORY: &str = "daemon MiB";
const HELD_P99: &str = "p99 us";
const FRESH_P99: &str = "p99 us, first id of a tag";
const CPU: &str = "idle, % of a core";
const STOP: &str = "clean stop, ms";

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    vec![NAME.to_owned()]
}

/// Measures the costs if they are selected.
///
/// # Errors
/// A daemon can't be started, doesn't answer, or doesn't stop cleanly in time; the user stops the run.
pub(crate) fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    if !plan.wants(NAME) {
        return Ok(());
    }
    let (count, time) = (if plan.smoke { TAGS_SMOKE } else { TAGS }, plan.time(TIME));
    progress(NAME);
    let dir = new_dir()?;
    make_tags(dir.path(), count).context("cannot prepare a journal with many tags")?;
    // A stop may take longer than it should: then the row says how long.
    let daemon = OwnDaemon::start_with(dir.path(), &["stop_within=60s"])?;
    draw_of_tags(&daemon.socket(), (0..count).filter(|index| index % FRESH_PART != 0))?;
    std::thread::sleep(SETTLE);
    let about = "One id each millisecond of tags picked at random, drawn directly, one of fifty tags not drawn before";
    let columns = [MEMORY, HELD_P99, FRESH_P99, CPU, STOP];
    let mut section = Section::new("many tags", about.to_owned(), &columns);
    section.put(NAME, MEMORY, resident_mib(daemon.process.pid())?);

    let mut drawn = Drawn::new(count);
    // One client has room for fewer names.
    let clients = [Client::connect(daemon.socket())?, Client::connect(daemon.socket())?];
    drawn.at_random(&clients, time)?;
    for (column, latencies_ns) in [(HELD_P99, &mut drawn.held_ns), (FRESH_P99, &mut drawn.fresh_ns)]
    {
        latencies_ns.sort_unstable();
        if let Some(ns) = percentile(latencies_ns, 0.99) {
            section.put(NAME, column, f64::from(ns) / 1e3);
        }
    }
    drop(clients);

    let (began, cpu_before) = (Instant::now(), daemon.process.cpu_clock().used());
    std::thread::sleep(time);
    if let (Some(before), Some(after)) = (cpu_before, daemon.process.cpu_clock().used()) {
        let share = (after - before).as_secs_f64() / began.elapsed().as_secs_f64();
        section.put(NAME, CPU, share * 100.0);
    }
    stop::check()?;
    let stopping = Instant::now();
    daemon.process.stop()?;
    section.put(NAME, STOP, stopping.elapsed().as_secs_f64() * 1e3);

    for (column, most, unit) in
        [(MEMORY, 128.0, " MiB"), (HELD_P99, 5_000.0, " us p99"), (STOP, 5_000.0, " ms to stop")]
    {
        report.budgets.push(Budget::at_most(NAME, section.median(NAME, column), most, unit));
    }
    report.sections.push(section);
    Ok(())
}

/// What was drawn at random.
struct Drawn {
    /// The last id of each tag; 0: none. Each one is checked against it: so none came twice.
    last: Vec<u64>,
    held_ns: Vec<u32>,
    fresh_ns: Vec<u32>,
}

impl Drawn {
    fn new(tags: usize) -> Drawn {
        Drawn { last: vec![0; tags], held_ns: Vec::new(), fresh_ns: Vec::new() }
    }

    fn at_random(&mut self, clients: &[Client], time: Duration) -> Result<()> {
        let began = Instant::now();
        let mut next = began;
        // At least one id of a tag in use: the first one may be of a fresh tag, and take all the time.
        while began.elapsed() < time || self.held_ns.is_empty() {
            stop::check()?;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            next = (next + EVERY).max(Instant::now());
            let index = fastrand::usize(..self.last.len());
            let name = tag_name(index);
            let asked = Instant::now();
            let id = clients[index % clients.len()].next_direct(&name)?;
            let took_ns = call_ns(asked.elapsed());
            let fresh = index % FRESH_PART == 0 && self.last[index] == 0;
            if fresh { &mut self.fresh_ns } else { &mut self.held_ns }.push(took_ns);
            anyhow::ensure!(id > self.last[index], "id {id} of {name} after {}", self.last[index]);
            self.last[index] = id;
        }
        Ok(())
    }
}
