//! What each call that a daemon makes takes of the server's processors, and from that what a large fleet would.

use std::time::Duration;

use leafd::config::{StorePassword, StoreUrl};
use leafd::store::network::Target;
use leafd::store::{Identity, Store as _, postgres};

use super::callers::{self, Called};
use super::claims::{claimer, name, tag, with_tags};
use super::{Database, Plan, Section};
use crate::servers::Postgres;

/// Connections that call at once.
const CONNECTIONS: usize = 10;

/// A fleet to reckon with.
const HOSTS: f64 = 10_000.0;
const TAGS_OF_HOST: usize = 10;

/// The defaults of `autonomy`, `removed_tag_check`, and the mean of the times between two looks, in seconds.
const AUTONOMY: f64 = 600.0;
const CHECK_EVERY: f64 = 30.0;
const LOOK_EVERY: f64 = 1.875;

pub(super) fn measure(plan: &Plan, server: &Postgres) -> Vec<Section> {
    let mut calls = Section::new(
        "call",
        "What a call takes of the server, by ten connections that call as fast as they can",
        &["calls/s", "p50 us", "p99 us", "store CPU us"],
    );
    let database = with_tags(server, plan.tags);
    let under = identity(&database);
    for _ in 0..plan.rounds {
        let tags: Vec<_> = (0..plan.tags).map(|number| tag(&name(number))).collect();
        let claim = callers::run(server, CONNECTIONS, plan.time, |number| {
            claimer(&database, &under, &tags, number * tags.len() / CONNECTIONS)
        });
        let look_up = callers::run(server, CONNECTIONS, plan.time, |number| {
            let mut store = connect(&database);
            let from = number * (tags.len() / CONNECTIONS);
            let some = &tags[from..(from + TAGS_OF_HOST).min(tags.len())];
            let under = &under;
            move || {
                assert!(store.look_up(under, some).unwrap().iter().all(Option::is_some));
                0
            }
        });
        let look = callers::run(server, CONNECTIONS, plan.time, |_| {
            let (mut store, under) = (connect(&database), &under);
            move || {
                assert_eq!(store.identity().unwrap(), *under);
                0
            }
        });
        for (row, called) in
            [("a claim", claim), ("a look-up of 10 tags", look_up), ("a look", look)]
        {
            put(&mut calls, row, &called);
        }
    }
    let fleet = fleet(&calls);
    vec![calls, fleet]
}

fn put(section: &mut Section, row: &str, called: &Called) {
    section.put(row, "calls/s", called.per_second());
    section.put(row, "p50 us", called.percentile(0.5));
    section.put(row, "p99 us", called.percentile(0.99));
    section.put(row, "store CPU us", called.store_cpu.as_secs_f64() * 1e6 / called.count());
}

/// What the calls of a large fleet would take.
fn fleet(calls: &Section) -> Section {
    let mut section = Section::new(
        "10,000 hosts",
        "10,000 hosts of 10 tags each, at up to 16,667 ids a second a tag and host, by the default settings",
        &["calls/s", "store CPU us", "cores"],
    );
    let rates = [
        ("a claim", HOSTS * TAGS_OF_HOST as f64 / AUTONOMY),
        ("a look-up of 10 tags", HOSTS / CHECK_EVERY),
        ("a look", HOSTS / LOOK_EVERY),
    ];
    let mut cores = 0.0;
    for (row, rate) in rates {
        let micros = calls.median(row, "store CPU us").unwrap();
        section.put(row, "calls/s", rate);
        section.put(row, "store CPU us", micros);
        section.put(row, "cores", rate * micros / 1e6);
        cores += rate * micros / 1e6;
    }
    section.put("together", "cores", cores);
    section
}

/// A connection to a store, as a daemon has one.
pub(super) fn connect(database: &Database<'_>) -> postgres::PostgresStore {
    let url = database.url().parse();
    let Ok(StoreUrl::Postgres(url)) = url else { panic!("a server's URL is one of PostgreSQL's") };
    let limit = Duration::from_secs(30);
    postgres::open(Target {
        url,
        password: StorePassword::None,
        connect_timeout: limit,
        statement_timeout: limit,
        leaf_only: false,
    })
}

pub(super) fn identity(database: &Database<'_>) -> Identity {
    connect(database).identity().unwrap()
}
