//! A strict tag's requests beside `nextval` of a sequence on the same server, by as many clients, in turns.

use std::time::Duration;

use leafd_client::Client;
use leafd_wire::opcode;
use postgres::{Config, NoTls};
use serde_json::json;

use super::callers::{self, Called, assert_unique};
use super::{Database, Plan, Section};
use crate::host::Host;
use crate::servers::{Postgres, Server, USER};

/// Clients that ask at once.
const CLIENTS: [usize; 3] = [1, 8, 32];

/// Hosts that the clients are spread over in the third row.
const HOSTS: usize = 4;

const TAG: &str = "ledger";

pub(super) fn measure(plan: &Plan, server: &Postgres) -> Vec<Section> {
    let mut section = Section::new(
        "strict",
        "A strict tag beside nextval on the same server: requests by so many clients that ask again when they are answered",
        &[
            "requests/s",
            "x nextval",
            "p50 us",
            "p99 us",
            "requests a claim",
            "store CPU us a request",
        ],
    );
    let database = Database::new(server);
    database.sql(&format!("CREATE SEQUENCE plain; GRANT ALL ON SEQUENCE plain TO {USER}"));
    let hosts = database.hosts(HOSTS, &[]);
    hosts[0].admin(opcode::TAG_CREATE, &json!({ "tag": TAG, "strict": true }));
    let mut strict = Vec::new();
    for _ in 0..plan.rounds {
        for clients in CLIENTS {
            let plain = callers::run(server, clients, plan.time, |_| nextval(&database));
            let name = format!("nextval, {clients} clients");
            put(&mut section, &name, &plain, plain.per_second());
            for spread in [1, HOSTS] {
                if spread > clients {
                    continue;
                }
                let hosts = &hosts[..spread];
                let before = claims(hosts);
                let of_tag = callers::run(server, clients, plan.time, |number| {
                    next(&hosts[number % spread])
                });
                let claimed = (claims(hosts) - before) as f64;
                let name = format!("strict, {clients} clients on {spread} hosts");
                put(&mut section, &name, &of_tag, plain.per_second());
                section.put(&name, "requests a claim", of_tag.count() / claimed);
                strict.push(of_tag);
            }
        }
    }
    assert_unique(&strict);
    vec![section]
}

fn put(section: &mut Section, name: &str, called: &Called, plain: f64) {
    section.put(name, "requests/s", called.per_second());
    section.put(name, "x nextval", called.per_second() / plain);
    section.put(name, "p50 us", called.percentile(0.5));
    section.put(name, "p99 us", called.percentile(0.99));
    let cpu = called.store_cpu.as_secs_f64() * 1e6 / called.count();
    section.put(name, "store CPU us a request", cpu);
}

/// As an application would that has a connection of its own: over TCP, prepared.
fn nextval(database: &Database<'_>) -> impl FnMut() -> u64 + use<> {
    let mut client = Config::new()
        .host("127.0.0.1")
        .port(database.server.port())
        .user(USER)
        .dbname(&database.name)
        .connect(NoTls)
        .unwrap();
    let statement = client.prepare("SELECT nextval('plain')").unwrap();
    move || client.query_one(&statement, &[]).unwrap().get::<_, i64>(0).unsigned_abs()
}

fn next(host: &Host) -> impl FnMut() -> u64 + use<> {
    let client = Client::builder().socket(host.socket()).deadline(Duration::from_secs(30)).build();
    let tag = client.unwrap().tag(TAG).unwrap().unleased();
    move || tag.next().unwrap()
}

/// Claims that hosts have made so far.
pub(super) fn claims(hosts: &[Host]) -> u64 {
    hosts.iter().map(|host| host.status()["segments"]["claims"].as_u64().unwrap()).sum()
}
