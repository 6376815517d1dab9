//! What a fleet costs its database, measured on a real PostgreSQL with real daemons:
//! `cargo bench -p leafd-tests --bench fleet`.
//!
//! - `strict`: a strict tag beside the same server's `nextval`;
//! - `claims`: one daemon, ten daemons and a hundred claimers, on one tag and on ten thousand;
//! - `calls`: what each call of a daemon's takes of the server's processors, and from that a fleet's bill;
//! - `rates`: how many claims a tag costs as its rate grows;
//! - `callers`: clients that ask again as soon as they are answered; `machine`, `report`: what the figures are of.

mod callers;
mod calls;
mod claims;
mod machine;
mod rates;
mod report;
mod strict;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::host::Host;
use crate::servers::process::{memory, place};
use crate::servers::{Postgres, Server, apply_schema};
use machine::Machine;
pub use report::{Report, Section};

/// What is measured, and for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How long each measurement takes.
    pub time: Duration,
    /// How often each is made; what is told is the median.
    pub rounds: usize,
    /// Tags of a store with many.
    pub tags: usize,
    /// The highest rate of a tag, in ids a second.
    pub rate_max: u64,
    /// Only sections whose name has this in it.
    pub only: String,
}

/// A section's name and how it is measured.
type Measure = (&'static str, fn(&Plan, &Postgres) -> Vec<Section>);

/// In their order. What one has started has ended before the next.
const SECTIONS: [Measure; 4] = [
    ("strict", strict::measure),
    ("claims", claims::measure),
    ("calls", calls::measure),
    ("rates", rates::measure),
];

/// A database of one measurement's own, with leafd's tables.
struct Database<'a> {
    server: &'a Postgres,
    name: String,
}

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

    /// Daemons on it that are up.
    fn hosts(&self, count: usize, settings: &[(&str, &str)]) -> Vec<Host> {
        let set = |host: Host, (key, value): &(&str, &str)| host.set(key, value);
        let host = |_| settings.iter().fold(Host::on_store(&self.url()), set);
        let mut hosts: Vec<Host> = (0..count).map(host).collect();
        let begun: Vec<usize> = hosts.iter_mut().map(Host::begin).collect();
        for (host, said_from) in hosts.iter_mut().zip(begun) {
            host.answering(said_from).unwrap();
        }
        hosts
    }
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            time: Duration::from_secs(3),
            rounds: 3,
            tags: 10_000,
            rate_max: 1_000_000,
            only: String::new(),
        }
    }
}

/// A server that lets everybody in. On a disk it waits for that at each commit.
fn server() -> Postgres {
    let fsync = if place() == memory() { "fsync=off" } else { "fsync=on" };
    let server = Postgres::empty(&[fsync, "shared_buffers=128MB", "max_connections=300"]);
    server.without_passwords();
    server
}

/// Measures.
///
/// # Panics
/// When something can't be measured, or an id came twice.
pub fn run(plan: &Plan) -> Report {
    let (begun, machine) = (Instant::now(), Machine::look());
    let server = server();
    let wanted = SECTIONS.into_iter().filter(|(name, _)| name.contains(&plan.only));
    let sections: Vec<Section> = wanted.flat_map(|(_, measure)| measure(plan, &server)).collect();
    drop(server);
    Report::new(machine.about(plan, begun.elapsed()), sections)
}
