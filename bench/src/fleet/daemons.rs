//! A whole fleet: many daemons behind PgBouncer that start at once, run, are restarted, lose their server for a while,
//! go through a fail-over, and partly die. A client on each host draws from all its tags all the time, and every id is
//! compared.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use leafd_client::{Client, Pipeline, opcode};
use leafd_tests::host::Host;
use leafd_tests::servers::pgbouncer::{CONNECTIONS, PgBouncer, Pooling};
use leafd_tests::servers::{Pair, Postgres, Server as _, USER};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::json;

use super::DEADLINE;
use crate::duplicates::{Duplicates, Span, check_ascending, spans_of};
use crate::report::{Budget, Report, Section};
use crate::{parse_seconds, progress, stop};

/// How many daemons to run, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many daemons run at once. Each takes about 12 MiB
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(2..=800))]
    daemons: u32,

    /// How long they run undisturbed, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = parse_seconds)]
    steady: Duration,

    /// How long the server is away, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    away: Duration,

    /// How long they run after the start and after each disturbance, once all of them have ids, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_seconds)]
    after: Duration,
}

/// How many segment tags each host draws from.
const TAGS: usize = 5;

/// How many ids of each tag a client draws at once, and the mean time between two such rounds.
const IDS: u32 = 50;
const ROUND: Duration = Duration::from_secs(5);

/// How often a client that rests checks whether another disturbance is over.
const LOOKS_EVERY: Duration = Duration::from_millis(250);

/// The default of `autonomy`.
const AUTONOMY: Duration = Duration::from_secs(600);

/// How long all hosts may take to have all their ids: by the budget, and before the run is given up.
const START_WITHIN: Duration = Duration::from_secs(30);
const GIVEN_UP_AFTER: Duration = Duration::from_secs(600);

const START: &str = "common start";
const UNDISTURBED: &str = "undisturbed";

/// What happens, in this order.
const PHASES: [(&str, Disturbance); 6] = [
    (START, Fleet::start),
    (UNDISTURBED, Fleet::run),
    ("half restarted", Fleet::restart),
    ("server away", Fleet::lose_server),
    ("fail-over", Fleet::fail_over),
    ("a tenth killed and replaced", Fleet::replace),
];

/// Returns since when the fleet may recover from it.
type Disturbance = fn(&mut Fleet, &Options) -> Result<Instant>;

/// The sizes of the computed fleets.
const COMPUTED: [f64; 3] = [1_000.0, 3_000.0, 10_000.0];

/// What all clients follow.
#[derive(Default)]
struct Course {
    /// The phase, under which a request is counted.
    phase: AtomicUsize,
    /// The last phase whose disturbance is over. Each client then draws from that phase's own tag, which no host has
    /// used before and so must claim.
    over: AtomicUsize,
    stop: AtomicBool,
}

/// A host's client.
struct Drawer {
    /// The host is dead, and the client with it.
    gone: Arc<AtomicBool>,
    /// How many phases are over for it: it has had ids of all its tags since.
    recovered: Arc<AtomicUsize>,
    thread: JoinHandle<Result<Drawn>>,
}

#[derive(Default)]
struct Drawn {
    spans: BTreeMap<String, Vec<Span>>,
    requests: [Requests; PHASES.len()],
}

#[derive(Default)]
struct Requests {
    count: u64,
    failed: BTreeMap<String, u64>,
    longest: Duration,
}

struct Fleet {
    pair: Pair<Postgres>,
    pooler: PgBouncer,
    failed_over: bool,
    hosts: Vec<Host>,
    drawers: Vec<Drawer>,
    /// The clients of dead hosts.
    dead: Vec<Drawer>,
    course: Arc<Course>,
    /// The most connections of daemons that the server had.
    connections: f64,
    /// What the undisturbed fleet cost, by column.
    cost: BTreeMap<&'static str, f64>,
}

const MEMORY: &str = "MiB a daemon";
const COSTS: [&str; 4] = ["claims/s", "transactions/s", "store cores", "PgBouncer cores"];

/// Runs a fleet through all phases.
///
/// # Errors
/// Hosts don't recover, or an id came twice; the user stops the run.
///
/// # Panics
/// A server or a daemon can't be started.
pub(crate) fn measure(
    options: &Options,
    duplicates: &mut Duplicates,
    report: &mut Report,
) -> Result<()> {
    if !Path::new(super::POSTGRES).exists() {
        bail!("PostgreSQL is not installed; see CONTRIBUTING.md");
    }
    let daemons = f64::from(options.daemons);
    let about = format!(
        "{daemons} daemons on this machine. A client on each draws {IDS} ids of {TAGS} tags and of its worker every {} s.\n\
         One PostgreSQL with a standby, behind PgBouncer with pool_mode = transaction. After a disturbance, hosts have\n\
         recovered when each of them has also claimed a tag that it had not used",
        ROUND.as_secs()
    );
    let columns = ["recovered after s", "claims a tag", "requests", "failed", "longest s", "load"];
    let mut phases = Section::new("phase", about, &columns);
    let mut fleet = Fleet::new(options.daemons as usize);
    for (number, (phase, disturb)) in PHASES.into_iter().enumerate() {
        progress(phase);
        let before = fleet.claims();
        fleet.course.phase.store(number, Relaxed);
        let since = disturb(&mut fleet, options)?;
        fleet.course.over.store(number, Relaxed);
        let recovered = fleet.recovered(number, since)?;
        eprintln!("{phase}: all hosts have ids after {recovered:.1?}");
        phases.put(phase, "recovered after s", recovered.as_secs_f64());
        if phase != UNDISTURBED {
            fleet.wait(options.after)?;
        }
        let claims = (fleet.claims() - before) / daemons / TAGS as f64;
        phases.put(phase, "claims a tag", claims);
        let load = std::fs::read_to_string("/proc/loadavg")?;
        phases.put(phase, "load", load.split(' ').next().context("the load")?.parse()?);
    }
    let (connections, cost) = (fleet.connections, std::mem::take(&mut fleet.cost));
    fleet.end(&mut phases, duplicates)?;

    let about = "What the undisturbed fleet cost. Rows of larger fleets are computed: this fleet's costs, times the hosts";
    let mut costs = Section::new("fleet", about.to_owned(), &[&COSTS[..], &[MEMORY]].concat());
    let measured = format!("measured: {daemons} hosts");
    cost.iter().for_each(|(column, value)| costs.put(&measured, column, *value));
    for hosts in COMPUTED {
        for column in COSTS {
            costs.put(&format!("computed: {hosts} hosts"), column, cost[column] * hosts / daemons);
        }
    }
    let budgets = &mut report.budgets;
    let after = phases.median(START, "recovered after s");
    budgets.push(Budget::at_most(START, after, START_WITHIN.as_secs_f64(), " s"));
    for (phase, _) in PHASES {
        budgets.push(Budget::at_most(phase, phases.median(phase, "failed"), 0.0, " failed"));
    }
    let claims = phases.median(UNDISTURBED, "claims a tag");
    let autonomies = (options.steady.as_secs_f64() / AUTONOMY.as_secs_f64()).max(1.0);
    budgets.push(Budget::at_most(UNDISTURBED, claims, autonomies, " claims"));
    let unit = " connections to the server";
    budgets.push(Budget::at_most(&measured, Some(connections), CONNECTIONS as f64, unit));
    report.sections.extend([phases, costs]);
    Ok(())
}

// === impl Fleet ===

impl Fleet {
    /// Servers with all tags, and hosts whose daemons are not started yet.
    fn new(count: usize) -> Fleet {
        let pair = Pair::<Postgres>::new();
        let pooler = PgBouncer::new(Pooling::Transaction, pair.primary.port(), &pair.primary);
        let mut fleet = Fleet {
            pair,
            pooler,
            failed_over: false,
            hosts: Vec::new(),
            drawers: Vec::new(),
            dead: Vec::new(),
            course: Arc::default(),
            connections: 0.0,
            cost: BTreeMap::new(),
        };
        let mut maker = Host::on_store(&fleet.pooler.url());
        maker.start();
        for tag in tags().chain((0..PHASES.len()).map(fresh)) {
            maker.admin(opcode::TAG_CREATE, &json!({ "tag": tag }));
        }
        fleet.add(count);
        fleet
    }

    /// Adds hosts, whose clients wait for them.
    fn add(&mut self, count: usize) {
        for _ in 0..count {
            let host = Host::on_store(&self.pooler.url());
            let client = Client::builder().socket(host.socket()).deadline(DEADLINE);
            let client = client.wait(DEADLINE).build().expect("the settings are valid");
            let (course, gone, recovered) =
                (Arc::clone(&self.course), Arc::<AtomicBool>::default(), Arc::default());
            let thread = std::thread::spawn({
                let (gone, recovered) = (Arc::clone(&gone), Arc::clone(&recovered));
                move || draw(&client, &course, &gone, &recovered)
            });
            self.drawers.push(Drawer { gone, recovered, thread });
            self.hosts.push(host);
        }
    }

    fn start(&mut self, _: &Options) -> Result<Instant> {
        let since = Instant::now();
        self.hosts.iter_mut().filter(|host| !host.runs()).for_each(|host| {
            host.begin();
        });
        Ok(since)
    }

    fn run(&mut self, options: &Options) -> Result<Instant> {
        let sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        let counters = |fleet: &Fleet| {
            (fleet.claims(), fleet.number(sql), fleet.pooler.cpu(), fleet.pair.primary.cpu())
        };
        let (begun, before) = (Instant::now(), counters(self));
        self.wait(options.steady)?;
        let after = counters(self);
        let seconds = begun.elapsed().as_secs_f64();
        let of_process = |(process, cpu): (&Pid, &Duration)| {
            cpu.saturating_sub(before.3.get(process).copied().unwrap_or_default()).as_secs_f64()
        };
        let store: f64 = after.3.iter().map(of_process).sum();
        let pooler = (after.2 - before.2).as_secs_f64();
        let spent = [after.0 - before.0, after.1 - before.1, store, pooler];
        self.cost = COSTS.into_iter().zip(spent.map(|spent| spent / seconds)).collect();
        let kib: u64 = self.hosts.iter().map(Host::resident_kib).sum();
        self.cost.insert(MEMORY, kib as f64 / 1024.0 / self.hosts.len() as f64);
        Ok(Instant::now())
    }

    /// Half of the hosts at once, as a careless deployment does.
    fn restart(&mut self, _: &Options) -> Result<Instant> {
        let since = Instant::now();
        let half = self.hosts.len() / 2;
        self.hosts[..half].iter().for_each(|host| host.signal(Signal::SIGTERM));
        for host in &mut self.hosts[..half] {
            let status = host.ended();
            anyhow::ensure!(status.success(), "leafd ended with {status}:\n{}", host.log());
            host.begin();
        }
        Ok(since)
    }

    fn lose_server(&mut self, options: &Options) -> Result<Instant> {
        self.pair.primary.kill();
        self.wait(options.away)?;
        let since = Instant::now();
        self.pair.primary.start();
        Ok(since)
    }

    fn fail_over(&mut self, _: &Options) -> Result<Instant> {
        self.pair.caught_up();
        let since = Instant::now();
        self.pair.primary.kill();
        self.pair.standby.promote();
        self.pooler.lead_to(self.pair.standby.port());
        self.failed_over = true;
        Ok(since)
    }

    /// Kills hosts for good, and starts as many new ones.
    fn replace(&mut self, options: &Options) -> Result<Instant> {
        let count = self.hosts.len().div_ceil(10);
        for (mut host, drawer) in self.hosts.drain(..count).zip(self.drawers.drain(..count)) {
            drawer.gone.store(true, Relaxed);
            host.kill();
            self.dead.push(drawer);
        }
        self.add(count);
        self.start(options)
    }

    /// Waits until each host has ids of all its tags, and of this phase's own one.
    fn recovered(&mut self, phase: usize, since: Instant) -> Result<Duration> {
        let has = |drawer: &Drawer| drawer.recovered.load(Relaxed) > phase;
        while !self.drawers.iter().all(has) {
            self.look()?;
            if let Some(ended) = self.drawers.iter().position(|one| one.thread.is_finished()) {
                self.drawers.swap_remove(ended).drawn()?;
                bail!("a client ended early");
            }
            if since.elapsed() > GIVEN_UP_AFTER {
                let lack = self.drawers.iter().position(|drawer| !has(drawer)).unwrap_or_default();
                let without = self.drawers.iter().filter(|drawer| !has(drawer)).count();
                bail!("{without} hosts have no ids; one of them said:\n{}", self.hosts[lack].log());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(since.elapsed())
    }

    fn wait(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.look()?;
            std::thread::sleep(Duration::from_millis(500).min(end - Instant::now()));
        }
        Ok(())
    }

    /// Counts the daemons' connections to the server, if it runs.
    fn look(&mut self) -> Result<()> {
        stop::check()?;
        if let Ok(mut admin) = self.server().connection() {
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1";
            let counted = admin.query_one(sql, &[&USER]).map(|row| row.get::<_, i64>(0));
            self.connections = self.connections.max(counted.unwrap_or_default() as f64);
        }
        Ok(())
    }

    fn server(&self) -> &Postgres {
        if self.failed_over { &self.pair.standby } else { &self.pair.primary }
    }

    /// All claims so far of the tags that hosts use all the time.
    fn claims(&self) -> f64 {
        self.number("SELECT count(*) FROM leafd_claim WHERE tag LIKE 't%'")
    }

    fn number(&self, sql: &str) -> f64 {
        self.server().sql(sql)[0][0].parse().expect("a number")
    }

    /// Ends everything, and compares all ids.
    fn end(self, phases: &mut Section, duplicates: &mut Duplicates) -> Result<()> {
        self.course.stop.store(true, Relaxed);
        let mut spans: BTreeMap<String, Vec<Span>> = BTreeMap::new();
        let mut requests: [Requests; PHASES.len()] = Default::default();
        for drawer in self.drawers.into_iter().chain(self.dead) {
            let drawn = drawer.drawn()?;
            for (tag, of_tag) in drawn.spans {
                spans.entry(tag).or_default().extend(of_tag);
            }
            for (all, of_host) in requests.iter_mut().zip(drawn.requests) {
                all.count += of_host.count;
                all.longest = all.longest.max(of_host.longest);
                for (why, count) in of_host.failed {
                    *all.failed.entry(why).or_default() += count;
                }
            }
        }
        for (tag, spans) in spans {
            duplicates.add(&tag, spans)?;
        }
        for ((phase, _), all) in PHASES.iter().zip(requests) {
            phases.put(phase, "requests", all.count as f64);
            phases.put(phase, "failed", all.failed.values().sum::<u64>() as f64);
            phases.put(phase, "longest s", all.longest.as_secs_f64());
            for (why, count) in all.failed {
                eprintln!("{phase}: {count} requests failed: {why}");
            }
        }
        Ok(())
    }
}

impl Drawer {
    fn drawn(self) -> Result<Drawn> {
        self.thread.join().map_err(|_| anyhow!("a client panicked"))?
    }
}

fn tags() -> impl Iterator<Item = String> {
    (0..TAGS).map(|number| format!("t{number}"))
}

/// The tag that hosts first use after this phase's disturbance.
fn fresh(phase: usize) -> String {
    format!("phase {phase}")
}

/// A host's client: draws from all tags at once, round after round.
fn draw(
    client: &Client,
    course: &Course,
    gone: &AtomicBool,
    recovered: &AtomicUsize,
) -> Result<Drawn> {
    let mut drawn = Drawn::default();
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    while !course.stop.load(Relaxed) {
        let (phase, over) = (course.phase.load(Relaxed), course.over.load(Relaxed));
        let mut asked: Vec<String> = tags().chain(["snowflake".to_owned()]).collect();
        if recovered.load(Relaxed) <= over && over > 0 {
            asked.push(fresh(over));
        }
        let requests = &mut drawn.requests[phase];
        let begun = Instant::now();
        let mut pipeline: Pipeline = client.pipeline();
        // The tags whose requests were sent, by the pipeline's numbers.
        let (mut sent, mut outcomes) = (Vec::new(), Vec::new());
        for tag in &asked {
            match pipeline.push(tag, IDS) {
                Ok(_) => sent.push(tag),
                Err(error) => outcomes.push(Err(error)),
            }
        }
        while let Some(answer) = pipeline.answer() {
            let took = begun.elapsed();
            outcomes.push(answer.ids.map(|ids| (answer.request, ids, took)));
        }
        let mut all = true;
        for outcome in outcomes {
            requests.count += 1;
            match outcome {
                Ok((number, ids, took)) => {
                    requests.longest = requests.longest.max(took);
                    let tag = sent[number as usize];
                    let before = last.get(tag).copied();
                    let mut ids: Vec<u64> = before.into_iter().chain(ids).collect();
                    check_ascending(&ids).with_context(|| format!("tag {tag}"))?;
                    last.insert(tag.clone(), *ids.last().context("no id")?);
                    let new = &mut ids[usize::from(before.is_some())..];
                    drawn.spans.entry(tag.clone()).or_default().extend(spans_of(new));
                }
                Err(_) if gone.load(Relaxed) => return Ok(drawn),
                Err(error) => {
                    all = false;
                    *requests.failed.entry(leafd_tests::load::text(&error)).or_default() += 1;
                }
            }
        }
        if all {
            recovered.store(over + 1, Relaxed);
        }
        let rests_until = Instant::now() + ROUND.mul_f64(0.5 + fastrand::f64());
        while Instant::now() < rests_until && course.over.load(Relaxed) == over {
            std::thread::sleep(LOOKS_EVERY);
        }
    }
    Ok(drawn)
}
