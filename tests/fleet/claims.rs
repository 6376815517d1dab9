//! As many claims as one daemon, ten daemons, and a hundred connections can make: of one tag, which all of them want, and
//! of ten thousand.

use std::time::Duration;

use leafd::id::Tag;
use leafd::store::{ClaimWish, Identity, Store as _};
use leafd_client::Client;

use super::callers::{self, Called, assert_unique};
use super::calls::{connect, identity};
use super::strict::claims;
use super::{Database, Plan, Section};
use crate::host::Host;
use crate::servers::Postgres;

/// Daemon processes, each with one client that asks again when it is answered.
const DAEMONS: [usize; 2] = [1, 10];

/// Connections that claim as a daemon does, each as fast as it can: what a hundred daemons in a hurry would do.
const CLAIMERS: usize = 100;

/// The tag that all want.
const HOT: &str = "hot";

pub(super) fn measure(plan: &Plan, server: &Postgres) -> Vec<Section> {
    let mut section = Section::new(
        "claims",
        "As many claims as can be made. Of one tag: of one number each. Of many: a client draws one id of each in turn, and \
         a tag's first id costs a claim",
        &["claims/s", "p50 us", "p99 us", "store CPU us a claim", "store CPU %"],
    );
    for _ in 0..plan.rounds {
        for daemons in DAEMONS {
            one_tag(plan, server, daemons, &mut section);
            many_tags(plan, server, daemons, &mut section);
        }
        claimers(plan, server, &mut section);
    }
    vec![section]
}

/// Every id costs a claim where no more than one may be claimed.
fn one_tag(plan: &Plan, server: &Postgres, daemons: usize, section: &mut Section) {
    let database = with_tags(server, plan.tags);
    let hosts = database.hosts(daemons, &[("max_step", "1")]);
    let called = callers::run(server, daemons, plan.time, |number| {
        let tag = client(&hosts[number]).tag(HOT).unwrap().unleased();
        move || tag.next().unwrap()
    });
    let claims = claims(&hosts) as f64;
    put(section, &format!("{daemons} daemons, one tag"), &called, claims);
    assert_unique([&called]);
}

fn many_tags(plan: &Plan, server: &Postgres, daemons: usize, section: &mut Section) {
    let database = with_tags(server, plan.tags);
    let hosts = database.hosts(daemons, &[]);
    let called = callers::run(server, daemons, plan.time, |number| {
        let client = client(&hosts[number]);
        // Each daemon its own way through the tags.
        let mut next = number * plan.tags / daemons;
        move || {
            next += 1;
            client.next_unleased(&name(next % plan.tags)).unwrap()
        }
    });
    let claims = claims(&hosts) as f64;
    put(section, &format!("{daemons} daemons, {} tags", plan.tags), &called, claims);
}

fn claimers(plan: &Plan, server: &Postgres, section: &mut Section) {
    let database = with_tags(server, plan.tags);
    let under = identity(&database);
    let tags: Vec<Tag> = (0..plan.tags).map(|number| tag(&name(number))).collect();
    let hot = [tag(HOT)];
    for (of, tags) in [("one tag".to_owned(), &hot[..]), (format!("{} tags", plan.tags), &tags)] {
        let called = callers::run(server, CLAIMERS, plan.time, |number| {
            claimer(&database, &under, tags, number * tags.len() / CLAIMERS)
        });
        put(section, &format!("{CLAIMERS} claimers, {of}"), &called, called.count());
        if tags.len() == 1 {
            assert_unique([&called]);
        }
    }
}

/// Claims one number of a tag after the other, from one of them on.
pub(super) fn claimer<'a>(
    database: &Database<'_>,
    under: &Identity,
    tags: &'a [Tag],
    from: usize,
) -> impl FnMut() -> u64 + use<'a> {
    let (mut store, under, mut next) = (connect(database), under.clone(), from);
    store.identity().unwrap();
    move || {
        next += 1;
        let wish = ClaimWish { want: 1, step_max: 1 };
        store.claim(&under, &tags[next % tags.len()], wish).unwrap().numbers.start
    }
}

/// A database with the hot tag and so many others, made by hand.
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

pub(super) fn tag(name: &str) -> Tag {
    Tag::parse(name.as_bytes()).unwrap()
}

fn client(host: &Host) -> Client {
    Client::builder().socket(host.socket()).deadline(Duration::from_secs(30)).build().unwrap()
}

fn put(section: &mut Section, row: &str, called: &Called, claims: f64) {
    section.put(row, "claims/s", claims / called.seconds);
    section.put(row, "p50 us", called.percentile(0.5));
    section.put(row, "p99 us", called.percentile(0.99));
    let cpu = called.store_cpu.as_secs_f64();
    section.put(row, "store CPU us a claim", cpu * 1e6 / claims);
    section.put(row, "store CPU %", cpu / called.seconds * 100.0);
}
