//! How many claims one daemon, ten daemons and a hundred connections can make: of one tag that all of them want, and of
//! ten thousand tags.

use std::time::Duration;

use anyhow::{Result, bail};
use leafd::config::{StorePassword, StoreUrl};
use leafd::store::postgres;
use leafd::store::sql::Target;
use leafd_core::Tag;
use leafd_core::store::{ClaimWish, Identity};
use leafd_tests::servers::Postgres;

use super::callers::{self, Called};
use super::{Bench, Database, claims_of, client, counted};
use crate::report::Section;

/// Numbers of daemon processes; each has one client that asks again when it is answered.
const DAEMONS: [usize; 2] = [1, 10];

/// Connections that claim like a daemon, each as fast as it can: the load of a hundred daemons at full speed.
const CLAIMERS: usize = 100;

/// The tag that all of them want.
const HOT: &str = "hot";

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Section>> {
    let about = bench.about(
        "As many claims as can be made. Of one tag: of one number each. Of many: a client draws one id of each in turn, and \
         a tag's first id costs a claim",
    );
    let columns = ["claims/s", "p50 us", "p99 us", "store CPU us a claim", "store CPU %"];
    let mut section = Section::new("claims", about, &columns);
    for _ in 0..bench.rounds {
        for daemons in DAEMONS {
            one_tag(bench, daemons, &mut section)?;
            many_tags(bench, daemons, &mut section)?;
        }
        claimers(bench, &mut section)?;
    }
    Ok(vec![section])
}

/// With at most one id per claim, every id costs a claim.
fn one_tag(bench: &mut Bench<'_>, daemons: usize, section: &mut Section) -> Result<()> {
    let database = with_tags(&bench.server, bench.tags);
    let hosts = database.hosts(daemons, &[("max_step", "1")]);
    let mut called = callers::run(&bench.server, daemons, bench.time, |number| {
        let tag = client(&hosts[number])?.tag(HOT)?.direct();
        Ok(move || Ok(tag.next()?))
    })?;
    let claims = claims_of(&hosts)? as f64;
    put(section, &format!("{}, one tag", counted(daemons, "daemon")), &called, claims);
    bench.duplicates.add(&format!("{}/{HOT}", database.name), called.spans())
}

fn many_tags(bench: &Bench<'_>, daemons: usize, section: &mut Section) -> Result<()> {
    let database = with_tags(&bench.server, bench.tags);
    let hosts = database.hosts(daemons, &[]);
    let called = callers::run(&bench.server, daemons, bench.time, |number| {
        let client = client(&hosts[number])?;
        // Each daemon takes the tags in an order of its own.
        let mut next = number * bench.tags / daemons;
        Ok(move || {
            next += 1;
            Ok(client.next_direct(&name(next % bench.tags))?)
        })
    })?;
    let claims = claims_of(&hosts)? as f64;
    put(section, &format!("{}, {} tags", counted(daemons, "daemon"), bench.tags), &called, claims);
    Ok(())
}

fn claimers(bench: &mut Bench<'_>, section: &mut Section) -> Result<()> {
    let database = with_tags(&bench.server, bench.tags);
    let under = connect(&database)?.identity()?;
    let tags: Vec<Tag> = (0..bench.tags).map(|number| tag(&name(number))).collect::<Result<_>>()?;
    let hot = [tag(HOT)?];
    for (of, tags) in [("one tag".to_owned(), &hot[..]), (format!("{} tags", bench.tags), &tags)] {
        let mut called = callers::run(&bench.server, CLAIMERS, bench.time, |number| {
            claimer(&database, &under, tags, number * tags.len() / CLAIMERS)
        })?;
        put(section, &format!("{CLAIMERS} claimers, {of}"), &called, called.count());
        if tags.len() == 1 {
            bench.duplicates.add(&format!("{}/{HOT}", database.name), called.spans())?;
        }
    }
    Ok(())
}

/// Claims one number of a tag after the other, starting with a given tag.
pub(super) fn claimer<'a>(
    database: &Database<'_>,
    under: &Identity,
    tags: &'a [Tag],
    from: usize,
) -> Result<impl FnMut() -> Result<u64> + use<'a>> {
    let (mut store, under, mut next) = (connect(database)?, under.clone(), from);
    store.identity()?;
    Ok(move || {
        next += 1;
        let wish = ClaimWish::new(1, 1);
        Ok(store.claim(None, &under, &tags[next % tags.len()], wish, None)?.run.first)
    })
}

/// A database with the hot tag and `count` others, inserted directly.
pub(super) fn with_tags(server: &Postgres, count: usize) -> Database<'_> {
    let database = Database::new(server);
    let columns = "leaf_alloc (biz_tag, max_id, step)";
    database.sql(&format!("INSERT INTO {columns} VALUES ('{HOT}', 1, 1)"));
    database.sql(&format!(
        "INSERT INTO {columns} SELECT 't' || number, 1, 1000 FROM generate_series(0, {count} - 1) AS number"
    ));
    database.sql("VACUUM ANALYZE leaf_alloc");
    database
}

pub(super) fn name(number: usize) -> String {
    format!("t{number}")
}

pub(super) fn tag(name: &str) -> Result<Tag> {
    Ok(Tag::parse(name.as_bytes())?)
}

fn put(section: &mut Section, row: &str, called: &Called, claims: f64) {
    section.put(row, "claims/s", claims / called.seconds);
    section.put(row, "p50 us", called.percentile_us(0.5));
    section.put(row, "p99 us", called.percentile_us(0.99));
    section.put(row, "store CPU us a claim", called.store_cpu_us(claims));
    section.put(row, "store CPU %", called.store_cpu.as_secs_f64() / called.seconds * 100.0);
}

/// A connection to a store, like a daemon's.
pub(super) fn connect(database: &Database<'_>) -> Result<leafd::store::Store> {
    let url = database.url().parse();
    let Ok(StoreUrl::Postgres(url)) = url else { bail!("a server's URL is none of PostgreSQL's") };
    let limit = Duration::from_secs(30);
    Ok(postgres::ENGINE.open(Target {
        url,
        password: StorePassword::None,
        connect_timeout: limit,
        patience_max: limit,
        statement_timeout: limit,
        leaf_only: false,
        untested_engine: false,
    }))
}
