//! A strict tag's requests compared with `nextval` of a sequence on the same server, with equally many
//! clients, in turns.

use std::time::{Duration, Instant};

use anyhow::Result;
use leafd_client::opcode;
use leafd_tests::host::Host;
use leafd_tests::servers::{Server as _, USER};
use postgres::{Config, NoTls};
use serde_json::json;

use super::callers::{self, Called};
use super::{Bench, Database, claims_of, client, counted};
use crate::report::Section;

/// Numbers of clients that ask at once.
const CLIENTS: [usize; 3] = [1, 8, 32];

/// In the third row the clients are spread over this many hosts.
const HOSTS: usize = 4;

const TAG: &str = "ledger";

/// How long hosts draw before they are measured: by then, one alone holds the tag, and several share it.
const WARM_UP: Duration = Duration::from_secs(3);

/// How often the tag goes from a host that holds it to another one that asks, in each round.
const HAND_OVERS: usize = 4;

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Section>> {
    let about = bench.about(
        "A strict tag beside nextval on the same server: requests by so many clients that ask again when they are answered",
    );
    let columns = [
        "requests/s",
        "x nextval",
        "p50 us",
        "p99 us",
        "requests a claim",
        "store CPU us a request",
    ];
    let mut section = Section::new("strict", about, &columns);
    let database = Database::new(&bench.server);
    database.sql(&format!("CREATE SEQUENCE plain; GRANT ALL ON SEQUENCE plain TO {USER}"));
    let hosts = database.hosts(HOSTS, &[]);
    hosts[0].admin(opcode::TAG_CREATE, &json!({ "tag": TAG, "strict": true }));
    let ids = format!("{}/{TAG}", database.name);
    for _ in 0..bench.rounds {
        for clients in CLIENTS {
            let plain = callers::run(&bench.server, clients, bench.time, |_| nextval(&database))?;
            let name = format!("nextval, {}", counted(clients, "client"));
            put(&mut section, &name, &plain, plain.per_second());
            for spread in [1, HOSTS] {
                if spread > clients {
                    continue;
                }
                let hosts = &hosts[..spread];
                let mut before = warm_up(bench, hosts)?;
                bench.duplicates.add(&ids, before.spans())?;
                let before = claims_of(hosts)?;
                let mut of_tag = callers::run(&bench.server, clients, bench.time, |number| {
                    next(&hosts[number % spread])
                })?;
                let claimed = (claims_of(hosts)? - before) as f64;
                let on = counted(spread, "host");
                let name = format!("strict, {} on {on}", counted(clients, "client"));
                put(&mut section, &name, &of_tag, plain.per_second());
                section.put(&name, "requests a claim", of_tag.count() / claimed);
                bench.duplicates.add(&ids, of_tag.spans())?;
            }
        }
        let mut took_us = Vec::new();
        for turn in 0..HAND_OVERS {
            let [holder, other] = [&hosts[turn % 2], &hosts[(turn + 1) % 2]];
            let mut alone = warm_up(bench, std::slice::from_ref(holder))?;
            bench.duplicates.add(&ids, alone.spans())?;
            let mut next = next(other)?;
            let begun = Instant::now();
            next()?;
            took_us.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        let row = "the first request on another host";
        section.put(row, "p50 us", took_us.iter().sum::<f64>() / HAND_OVERS as f64);
        section.put(row, "p99 us", took_us.into_iter().fold(0.0, f64::max));
    }
    Ok(vec![section])
}

/// Draws from these hosts until one host holds the tag, or several share it.
fn warm_up(bench: &Bench<'_>, hosts: &[Host]) -> Result<Called> {
    callers::run(&bench.server, hosts.len(), WARM_UP, |number| next(&hosts[number]))
}

fn put(section: &mut Section, name: &str, called: &Called, plain: f64) {
    section.put(name, "requests/s", called.per_second());
    section.put(name, "x nextval", called.per_second() / plain);
    section.put(name, "p50 us", called.percentile_us(0.5));
    section.put(name, "p99 us", called.percentile_us(0.99));
    section.put(name, "store CPU us a request", called.store_cpu_us(called.count()));
}

/// As an application with its own connection does: over TCP, with a prepared statement.
fn nextval(database: &Database<'_>) -> Result<impl FnMut() -> Result<u64> + use<>> {
    let mut client = Config::new()
        .host("127.0.0.1")
        .port(database.server.port())
        .user(USER)
        .dbname(&database.name)
        .connect(NoTls)?;
    let statement = client.prepare("SELECT nextval('plain')")?;
    Ok(move || Ok(client.query_one(&statement, &[])?.try_get::<_, i64>(0)?.unsigned_abs()))
}

fn next(host: &Host) -> Result<impl FnMut() -> Result<u64> + use<>> {
    let tag = client(host)?.tag(TAG)?.direct();
    Ok(move || Ok(tag.next()?))
}
