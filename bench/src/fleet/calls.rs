//! What each of a daemon's calls costs the server's processors, and from that the cost of a large fleet.

use anyhow::{Context as _, Result, ensure};

use super::Bench;
use super::callers::{self, Called};
use super::claims::{claimer, connect, name, tag, with_tags};
use crate::report::Section;

const CONNECTIONS: usize = 10;

/// The size of the calculated fleet.
const HOSTS: f64 = 10_000.0;
const TAGS_OF_HOST: usize = 10;

/// The defaults of `autonomy` and `removed_tag_check`, and the mean time between two probes, in seconds.
const AUTONOMY: f64 = 600.0;
const CHECK_EVERY: f64 = 30.0;
const PROBE_EVERY: f64 = 1.875;

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Section>> {
    let about = bench
        .about("What a call takes of the server, by ten connections that call as fast as they can");
    let columns = ["calls/s", "p50 us", "p99 us", "store CPU us"];
    let mut calls = Section::new("call", about, &columns);
    let database = with_tags(&bench.server, bench.tags);
    let under = connect(&database)?.identity()?;
    let tags: Vec<_> = (0..bench.tags).map(|number| tag(&name(number))).collect::<Result<_>>()?;
    for _ in 0..bench.rounds {
        let claim = callers::run(&bench.server, CONNECTIONS, bench.time, |number| {
            claimer(&database, &under, &tags, number * tags.len() / CONNECTIONS)
        })?;
        let look_up = callers::run(&bench.server, CONNECTIONS, bench.time, |number| {
            let mut store = connect(&database)?;
            let from = number * (tags.len() / CONNECTIONS);
            let some = &tags[from..(from + TAGS_OF_HOST).min(tags.len())];
            let under = &under;
            Ok(move || {
                let found = store.look_up(under, some)?;
                ensure!(found.iter().all(Option::is_some), "a tag is not found");
                Ok(0)
            })
        })?;
        let probe = callers::run(&bench.server, CONNECTIONS, bench.time, |_| {
            let (mut store, under) = (connect(&database)?, &under);
            Ok(move || {
                ensure!(store.identity()? == *under, "the store is another one");
                Ok(0)
            })
        })?;
        for (row, called) in
            [("a claim", claim), ("a look-up of 10 tags", look_up), ("a probe", probe)]
        {
            put(&mut calls, row, &called);
        }
    }
    let fleet = fleet(&calls)?;
    Ok(vec![calls, fleet])
}

fn put(section: &mut Section, row: &str, called: &Called) {
    section.put(row, "calls/s", called.per_second());
    section.put(row, "p50 us", called.percentile_us(0.5));
    section.put(row, "p99 us", called.percentile_us(0.99));
    section.put(row, "store CPU us", called.store_cpu_us(called.count()));
}

/// The calculated cost of a large fleet's calls.
fn fleet(calls: &Section) -> Result<Section> {
    let about = "10,000 hosts of 10 tags each, at up to 16,667 ids a second a tag and host, by the default settings";
    let columns = ["calls/s", "store CPU us", "cores"];
    let mut section = Section::new("10,000 hosts", about.to_owned(), &columns);
    let rates = [
        ("a claim", HOSTS * TAGS_OF_HOST as f64 / AUTONOMY),
        ("a look-up of 10 tags", HOSTS / CHECK_EVERY),
        ("a probe", HOSTS / PROBE_EVERY),
    ];
    let mut cores = 0.0;
    for (row, rate) in rates {
        let micros = calls.median(row, "store CPU us").context("a call was not measured")?;
        section.put(row, "calls/s", rate);
        section.put(row, "store CPU us", micros);
        section.put(row, "cores", rate * micros / 1e6);
        cores += rate * micros / 1e6;
    }
    section.put("together", "cores", cores);
    Ok(section)
}
