//! What it costs a store to remember who claims: claims of one connection with and without it, in turn, on PostgreSQL and in
//! an embedded file; and the room that a row takes, from which what a fleet fills follows.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use leafd::store::{Store, sqlite};
use leafd_core::Tag;
use leafd_core::store::{CEILING_MAX, ClaimWish, ClaimedBy, HostId, Identity, NewTag};
use leafd_tests::servers::Server as _;

use super::claims::{connect, tag, with_tags};
use super::{Bench, Database};
use crate::host::daemon::new_dir;
use crate::report::Section;
use crate::stats::{call_ns, percentile};

/// The tag that is claimed.
const TAG: &str = "hot";

/// Rows of which the room is measured.
const ROWS: u64 = 100_000;
const SMOKE_ROWS: u64 = 1_000;

/// Tags of each host of a fleet.
const TAGS_OF_A_HOST: f64 = 10.0;

/// Claims of each tag a day: one per `autonomy`.
const CLAIMS_A_DAY: f64 = 144.0;

/// For how many days they are kept by default.
const DAYS_KEPT: f64 = 30.0;

/// The numbers of hosts.
const FLEETS: [u32; 2] = [100, 10_000];

const PER_SECOND: &str = "claims/s";
const P50: &str = "p50 us";
const P99: &str = "p99 us";

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Section>> {
    let mut claims = Section::new(
        "history",
        bench.about("Claims of one connection, each after the last one, with and without history"),
        &[PER_SECOND, P50, P99],
    );
    let dir = new_dir()?;
    for round in 0..bench.rounds {
        let database = with_tags(&bench.server, 1);
        let mut server = connect(&database)?;
        take_turns(bench, "PostgreSQL", &database.name, &mut server, &mut claims)?;
        let file = format!("store-{round}.db");
        let mut store = sqlite::open(&dir.path().join(&file), "the bench's")?;
        take_turns(bench, "SQLite", &file, &mut store, &mut claims)?;
    }
    let rows = if bench.smoke { SMOKE_ROWS } else { ROWS };
    Ok(vec![claims, room(bench, dir.path(), rows)?])
}

/// A store's claims, without history and with it.
fn take_turns(
    bench: &mut Bench<'_>,
    what: &str,
    place: &str,
    store: &mut dyn Store,
    section: &mut Section,
) -> Result<()> {
    let (under, tag) = (store.identity()?, tag(TAG)?);
    if what == "SQLite" {
        let new = NewTag {
            tag: tag.clone(),
            start: 1,
            step: 1,
            ceiling: CEILING_MAX,
            strict: false,
            masked: None,
            description: None,
        };
        store.create(&under, &new)?;
    }
    let mut ids = Vec::new();
    for (row, by) in [("without", None), ("with", Some(host()))] {
        let mut latencies_ns = claim(store, by.as_ref(), &under, &tag, bench.time, &mut ids)?;
        let row = format!("{what}, {row}");
        let count = latencies_ns.len() as f64;
        section.put(&row, PER_SECOND, count / bench.time.as_secs_f64());
        latencies_ns.sort_unstable();
        for (column, share) in [(P50, 0.5), (P99, 0.99)] {
            if let Some(ns) = percentile(&latencies_ns, share) {
                section.put(&row, column, f64::from(ns) / 1e3);
            }
        }
    }
    bench.duplicates.add(&format!("{place}/{TAG}"), crate::duplicates::spans_of(&mut ids))
}

fn claim(
    store: &mut dyn Store,
    by: Option<&ClaimedBy>,
    under: &Identity,
    tag: &Tag,
    time: Duration,
    ids: &mut Vec<u64>,
) -> Result<Vec<u32>> {
    let (begun, mut latencies_ns) = (Instant::now(), Vec::new());
    while begun.elapsed() < time {
        crate::stop::check()?;
        let asked = Instant::now();
        ids.push(store.claim_as(by, under, tag, ClaimWish::new(1, 1))?.run.first);
        latencies_ns.push(call_ns(asked.elapsed()));
    }
    Ok(latencies_ns)
}

/// A host as others are: an id of 32 characters and a name of 16.
fn host() -> ClaimedBy {
    ClaimedBy {
        host: HostId(Arc::from("0123456789abcdef0123456789abcdef")),
        name: Arc::from("web-0123456789ab"),
        holds_from: Some(1),
    }
}

/// What rows take, with their indexes, and what fleets fill by that.
fn room(bench: &Bench<'_>, dir: &Path, rows: u64) -> Result<Section> {
    let about = format!(
        "What is remembered of claims, by the room of {rows} rows with their indexes. Each host uses {TAGS_OF_A_HOST} tags \
         and claims once per autonomy of 10 min"
    );
    let columns = ["bytes a row", "rows a day", "MB a day", "MB in 30 days"];
    let mut section = Section::new("room of history", about, &columns);
    for (what, bytes) in [
        ("PostgreSQL", on_server(&with_tags(&bench.server, 1), rows)?),
        ("SQLite", in_file(&dir.join("room.db"), rows)?),
    ] {
        for hosts in FLEETS {
            let a_day = f64::from(hosts) * TAGS_OF_A_HOST * CLAIMS_A_DAY;
            let (row, mb_a_day) = (format!("{what}, {hosts} hosts"), a_day * bytes / 1e6);
            section.put(&row, columns[0], bytes);
            section.put(&row, columns[1], a_day);
            section.put(&row, columns[2], mb_a_day);
            section.put(&row, columns[3], mb_a_day * DAYS_KEPT);
        }
    }
    Ok(section)
}

/// Rows as hosts would write them, in one statement. `series`: what yields the numbers.
fn insertion(series: &str) -> String {
    let ClaimedBy { host, name, .. } = host();
    format!(
        "INSERT INTO leafd_claim (tag, end_id, claimed_ms, first_id, stride, generation, host, name, holds_from)
         SELECT '{TAG}', 1000 * number, 1700000000000 + number, 1000 * number - 999, 1, 1, '{}', '{name}', 1 FROM {series}",
        host.0
    )
}

fn on_server(database: &Database<'_>, rows: u64) -> Result<f64> {
    database.sql(&insertion(&format!("generate_series(1, {rows}) AS number")));
    let asked = "SELECT pg_total_relation_size('leafd_claim')::text";
    let told = database.server.ask(&database.name, asked);
    let bytes: u64 = told.first().and_then(|row| row.first()).context("no size")?.parse()?;
    Ok(bytes as f64 / rows as f64)
}

fn in_file(path: &Path, rows: u64) -> Result<f64> {
    sqlite::open(path, "the bench's")?.identity()?;
    let connection = rusqlite::Connection::open(path)?;
    let size = || -> Result<u64> {
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(fs::metadata(path)?.len())
    };
    let before = size()?;
    let numbers = format!(
        "(WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < {rows})
          SELECT number FROM numbers)"
    );
    connection.execute(&insertion(&numbers), [])?;
    Ok((size()? - before) as f64 / rows as f64)
}
