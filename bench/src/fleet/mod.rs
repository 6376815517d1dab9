//! What a fleet costs its database, measured with a real PostgreSQL and real daemons.
//!
//! - `strict`: a strict tag compared with the same server's `nextval`;
//! - `claims`: one daemon, ten daemons and a hundred claimers, on one tag and on ten thousand;
//! - `calls`: what each of a daemon's calls costs the server's processors, and from that the cost of a
//!   fleet;
//! - `rates`: how many claims a tag costs as its rate grows;
//! - `callers`: clients that ask again as soon as they are answered;
//! - `daemons`: a whole fleet behind PgBouncer, through restarts and outages.
//!
//! The servers and hosts are the tests' own. One that can't be started ends the bench.

mod callers;
mod calls;
mod claims;
pub(crate) mod daemons;
mod rates;
mod strict;

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use leafd_client::Client;
use leafd_tests::host::Host;
use leafd_tests::servers::process::{memory, place};
use leafd_tests::servers::{Postgres, Server as _, apply_schema};
use serde_json::Value;

use crate::duplicates::Duplicates;
use crate::report::{Report, Section};
use crate::{Plan, progress};

const ROUNDS: u32 = 3;
const TIME: Duration = Duration::from_secs(3);

/// How long a measurement takes with `--smoke`: some calls of each kind.
const SMOKE: Duration = Duration::from_millis(200);

/// How many tags a store with many tags has.
const TAGS: usize = 10_000;
const SMOKE_TAGS: usize = 100;

/// How long a client waits for an id while the database is busy.
const DEADLINE: Duration = Duration::from_secs(30);

/// Debian's folder of PostgreSQL's server.
pub(crate) const POSTGRES: &str = "/usr/lib/postgresql";

/// What all measurements of a fleet share.
struct Bench<'a> {
    server: Postgres,
    rounds: u32,
    time: Duration,
    tags: usize,
    smoke: bool,
    duplicates: &'a mut Duplicates,
}

/// A measurement's name and function.
type Measurement = (&'static str, fn(&mut Bench<'_>) -> Result<Vec<Section>>);

/// In order. Everything that one has started ends before the next begins.
const MEASUREMENTS: [Measurement; 4] = [
    ("database: strict tags beside nextval", strict::measure),
    ("database: claims", claims::measure),
    ("database: calls", calls::measure),
    ("database: rates", rates::measure),
];

/// One measurement's own database, with leafd's tables.
struct Database<'a> {
    server: &'a Postgres,
    name: String,
}

/// The names of all measurements.
pub(crate) fn names() -> Vec<String> {
    MEASUREMENTS.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// Runs the selected measurements.
///
/// # Errors
/// Something can't be measured, or an id came twice; the user stops the run.
///
/// # Panics
/// A server or a daemon can't be started.
pub(crate) fn measure(plan: &Plan, duplicates: &mut Duplicates, report: &mut Report) -> Result<()> {
    let wanted: Vec<Measurement> =
        MEASUREMENTS.into_iter().filter(|(name, _)| plan.wants(name)).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    if !Path::new(POSTGRES).exists() {
        report.not_measured.push("database: PostgreSQL is not installed".to_owned());
        return Ok(());
    }
    let mut bench = Bench {
        server: server(),
        rounds: plan.rounds(ROUNDS),
        time: if plan.smoke { SMOKE } else { plan.time(TIME) },
        tags: if plan.smoke { SMOKE_TAGS } else { TAGS },
        smoke: plan.smoke,
        duplicates,
    };
    for (name, measure) in wanted {
        progress(name);
        let sections = measure(&mut bench).with_context(|| format!("cannot measure {name:?}"))?;
        report.sections.extend(sections);
    }
    Ok(())
}

/// A server without passwords. On a disk, it syncs at each commit.
pub(crate) fn server() -> Postgres {
    let fsync = if place() == memory() { "fsync=off" } else { "fsync=on" };
    let server = Postgres::empty(&[fsync, "shared_buffers=128MB", "max_connections=300"]);
    server.without_passwords();
    server
}

/// A count of something, in words.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn client(host: &Host) -> Result<Client> {
    Ok(Client::builder().socket(host.socket()).deadline(DEADLINE).build()?)
}

/// How many claims these hosts have made so far.
fn claims_of(hosts: &[Host]) -> Result<u64> {
    let mut claims = 0;
    for host in hosts {
        let status: Value = serde_json::from_str(&client(host)?.status_json()?)?;
        claims += status["segments"]["claims"].as_u64().context("the status tells no claims")?;
    }
    Ok(claims)
}

// === impl Bench ===

impl Bench<'_> {
    /// A table's description: what it measures, and how.
    fn about(&self, what: &str) -> String {
        let files = match place() {
            place if place == memory() => "in memory, where a commit waits for no disk".to_owned(),
            place => format!("in {}, synced at each commit", place.display()),
        };
        format!(
            "{what}.\nPostgreSQL, daemons and clients on this machine; the server's files {files}. {} s a measurement, \
             medians of {} rounds",
            self.time.as_secs_f64(),
            self.rounds
        )
    }
}

// === impl Database ===

impl Database<'_> {
    fn new(server: &Postgres) -> Database<'_> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ids{}", COUNT.fetch_add(1, Ordering::Relaxed));
        server.create_database(&name);
        let database = Database { server, name };
        apply_schema(&database.url());
        database
    }

    fn url(&self) -> String {
        Postgres::url_of(&[self.server.port()], &self.name)
    }

    fn sql(&self, sql: &str) {
        self.server.ask(&self.name, sql);
    }

    /// Running daemons that use this database.
    fn hosts(&self, count: usize, settings: &[(&str, &str)]) -> Vec<Host> {
        let set = |host: Host, (key, value): &(&str, &str)| host.set(key, value);
        let host = |_| settings.iter().fold(Host::on_store(&self.url()), set);
        let mut hosts: Vec<Host> = (0..count).map(host).collect();
        let begun: Vec<usize> = hosts.iter_mut().map(Host::begin).collect();
        for (host, said_from) in hosts.iter_mut().zip(begun) {
            if let Err(refusal) = host.answering(said_from) {
                panic!("leafd does not start: {refusal:?}");
            }
        }
        hosts
    }
}
