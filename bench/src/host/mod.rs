//! One host: what an id costs in every form of asking, and the daemon's own footprint.
//!
//! - `rows`: what is measured; `workloads`, `held`, `paced`, `echo`: the timed loops; `transport`, `redis`: the
//!   connections;
//! - `footprint`: memory, start, idle processor time; `daemon`: the daemon for it;
//! - `budget`: what the design allows.

mod budget;
pub(crate) mod daemon;
pub(crate) mod echo;
pub(crate) mod footprint;
pub(crate) mod held;
pub(crate) mod paced;
pub(crate) mod redis;
mod rows;
mod transport;
mod workloads;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use leafd_client::Client;

use crate::duplicates::Duplicates;
use crate::processes::CpuClock;
use crate::report::{Report, Section};
use crate::stats::{Metric, Stats, median};
use crate::{Plan, progress, stop};
use daemon::OwnDaemon;
use footprint::{Cost, Costs};
use redis::RedisServer;
use rows::{Leafd, Row, Servers, System, Workload};

#[derive(Debug)]
pub(crate) enum Target {
    Own,
    Running {
        socket: PathBuf,
        /// One of its segment tags.
        tag: String,
    },
}

/// All measured values of the rows.
#[derive(Debug, Default)]
struct Results {
    rounds: BTreeMap<Row, Vec<Stats>>,
    costs: Costs,
}

const ROUNDS: u32 = 5;
const TIME: Duration = Duration::from_millis(250);

const COLUMNS: [(&str, Metric); 7] = [
    ("p50 us", Metric::P50Us),
    ("p99 us", Metric::P99Us),
    ("p99.9 us", Metric::P999Us),
    ("ids/s", Metric::IdsPerSecond),
    ("ns/id", Metric::NsPerId),
    ("ns/id/thread", Metric::NsPerIdOfThread),
    ("server CPU %", Metric::ServerCpuPercent),
];
const TO_REDIS: &str = "x Redis";
const TO_ECHO: &str = "x echo";

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    let rows = rows::all().into_iter().map(Row::name);
    rows.chain(Cost::ALL.map(|cost| cost.name().to_owned())).collect()
}

/// Measures the selected rows.
///
/// # Errors
/// A row can't be measured, or an id came twice; the user stops the run.
pub(crate) fn measure(
    plan: &Plan,
    target: &Target,
    duplicates: &mut Duplicates,
    report: &mut Report,
) -> Result<()> {
    let own = matches!(target, Target::Own);
    let with_costs = own && Cost::ALL.into_iter().any(|cost| plan.wants(cost.name()));
    let mut rows: Vec<Row> =
        rows::all().into_iter().filter(|row| plan.wants(&row.name())).collect();
    let idle = if with_costs { Some(footprint::Idle::start()?) } else { None };
    let mut results = Results::default();
    if !rows.is_empty() {
        let dir = daemon::new_dir()?;
        let (daemon, leafd) = match target {
            Target::Own => {
                let daemon = OwnDaemon::start(dir.path())?;
                let leafd = own_leafd(&daemon, &rows)?;
                (Some(daemon), leafd)
            }
            Target::Running { socket, tag } => (None, running_leafd(socket, tag)?),
        };
        let servers = Servers { leafd, redis: RedisServer::start()? };
        leave_out(&mut rows, &servers, report);
        measure_rows(plan, &rows, &servers, duplicates, &mut results)?;
        drop(servers);
        if let Some(daemon) = daemon {
            daemon.process.stop()?;
        }
    }
    if let Some(idle) = idle {
        idle.end(plan.smoke, &mut results.costs)?;
        progress("memory and starts");
        footprint::measure(&mut results.costs)?;
    }
    results.put_into(plan, report);
    Ok(())
}

/// Removes rows that can't be measured, and reports why.
fn leave_out(rows: &mut Vec<Row>, servers: &Servers, report: &mut Report) {
    let mut without = |system, why: &str| {
        let before = rows.len();
        rows.retain(|row| row.system != system);
        if rows.len() < before {
            report.not_measured.push(why.to_owned());
        }
    };
    if servers.redis.is_none() {
        without(System::Redis, "redis: redis-server is not installed");
    }
    if !servers.leafd.snowflake {
        without(System::Snowflake, "snowflake: the daemon holds no worker number");
    }
}

fn measure_rows(
    plan: &Plan,
    rows: &[Row],
    servers: &Servers,
    duplicates: &mut Duplicates,
    results: &mut Results,
) -> Result<()> {
    let rounds = plan.rounds(ROUNDS);
    for round in 1..=rounds {
        for &row in rows {
            progress(&format!("{round}/{rounds} {}", row.name()));
            let (stats, spans) = row.measure(servers, plan.time(TIME))?;
            stop::check()?;
            duplicates.add(&row.ids_of(&servers.leafd), spans)?;
            results.rounds.entry(row).or_default().push(stats);
        }
    }
    Ok(())
}

/// The bench's own daemon, with the tags that the rows draw from.
fn own_leafd(daemon: &OwnDaemon, rows: &[Row]) -> Result<Leafd> {
    let client = Client::connect(daemon.socket())?;
    for row in rows.iter().filter(|row| row.system == System::Segment) {
        daemon.create_tag(&client, &row.own_tag())?;
    }
    Ok(Leafd {
        socket: daemon.socket(),
        cpu: daemon.process.cpu_clock(),
        tag: None,
        snowflake: true,
    })
}

/// A daemon that was already running.
fn running_leafd(socket: &Path, tag: &str) -> Result<Leafd> {
    let client = Client::connect(socket)?;
    let info = client.info()?;
    client.next_direct(tag).with_context(|| format!("cannot draw ids of {tag:?}"))?;
    Ok(Leafd {
        socket: socket.to_owned(),
        cpu: CpuClock::of(info.pid),
        tag: Some(tag.to_owned()),
        snowflake: info.snowflake_ready,
    })
}

// === impl Results ===

impl Results {
    /// The median over the rounds.
    fn median(&self, row: Row, metric: Metric) -> Option<f64> {
        let rounds = self.rounds.get(&row)?;
        median(rounds.iter().filter_map(|stats| stats.get(&metric).copied()).collect())
    }

    /// A row's number as a multiple of another row's, round by round: the machine's speed changes from one to the next.
    fn ratios(&self, row: Row, to: Row, metric: Metric) -> Vec<f64> {
        let rounds = |row| self.rounds.get(&row).into_iter().flatten();
        let ratio = |(row, to): (&Stats, &Stats)| Some(row.get(&metric)? / to.get(&metric)?);
        rounds(row).zip(rounds(to)).filter_map(ratio).filter(|ratio| ratio.is_finite()).collect()
    }

    /// A row's ratios to another one: by latency if requests are awaited one at a time, otherwise by rate.
    fn compare(&self, row: Row, system: System, workload: Workload) -> Vec<f64> {
        let metric = match row.workload {
            Workload::Pipelined
            | Workload::EightConnections
            | Workload::Connections64
            | Workload::Connections512
            | Workload::EightThreads
            | Workload::EightPipelined => Metric::IdsPerSecond,
            _ => Metric::P50Us,
        };
        self.ratios(row, Row { system, workload }, metric)
    }

    fn put_into(&self, plan: &Plan, report: &mut Report) {
        if !self.rounds.is_empty() {
            report.sections.push(self.section(plan));
        }
        if !self.costs.is_empty() {
            let about = "What a daemon takes; the median of five starts".to_owned();
            let mut section = Section::new("daemon", about, &["measured"]);
            for (cost, value) in &self.costs {
                section.put(cost.name(), "measured", *value);
            }
            report.sections.push(section);
        }
        if !self.rounds.is_empty() || !self.costs.is_empty() {
            report.budgets.extend(budget::judge(self));
        }
    }

    fn section(&self, plan: &Plan) -> Section {
        let about = format!(
            "Ids of one host: medians of {} rounds of {} s a row, interleaved",
            plan.rounds(ROUNDS),
            plan.time(TIME).as_secs_f64()
        );
        let columns: Vec<&str> =
            COLUMNS.iter().map(|(title, _)| *title).chain([TO_REDIS, TO_ECHO]).collect();
        let mut section = Section::new("row", about, &columns);
        for (&row, rounds) in &self.rounds {
            let name = row.name();
            for stats in rounds {
                for (title, metric) in COLUMNS {
                    if let Some(value) = stats.get(&metric) {
                        section.put(&name, title, *value);
                    }
                }
            }
            let to_redis = match (row.system, row.workload) {
                (System::Redis | System::Echo, _) => Vec::new(),
                (_, Workload::HeldSteady) => self.compare(row, System::Redis, Workload::Steady),
                (_, Workload::EightThreads) => {
                    self.compare(row, System::Redis, Workload::EightConnections)
                }
                (_, workload) => self.compare(row, System::Redis, workload),
            };
            let alone = matches!(row.workload, Workload::BackToBack | Workload::Blocking);
            let to_echo =
                if alone { self.compare(row, System::Echo, Workload::Polling) } else { Vec::new() };
            for (title, ratios) in [(TO_REDIS, to_redis), (TO_ECHO, to_echo)] {
                for ratio in ratios {
                    section.put(&name, title, ratio);
                }
            }
        }
        section
    }
}
