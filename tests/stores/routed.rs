//! Tags spread over four stores, two databases each of a PostgreSQL and a MariaDB: by name, by prefix and by hash. Each
//! tag's row is only in its own store, an unavailable store stops only its own tags, and a host that would look for
//! tags elsewhere gets none.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use leafd_tests::host::Host;
use leafd_tests::load::{Draw, Drawn, Load};
use leafd_tests::raw::{Raw, Reply, ids_request};
use leafd_tests::relay::Relay;
use leafd_tests::servers::{MariaDb, Postgres, Server, apply_schema};
use leafd_wire::Status;
use serde_json::{Value, json};

use crate::scene::{RESUMES_WITHIN, create, first_of, report};

/// The second database of each server.
const SECOND: &str = "ids2";

/// Routes for some tags by name, for some by prefix, and for others by hash. No rule matches all possible tags.
const ROUTES: &str = r#"[
    { tags = ["orders", "order-*"], store = "c" },
    { tags = ["pay.*"], store = "d" },
    { tags = ["t*", "a"], hash = ["a", "b"] },
]"#;

/// The number of tags that are assigned by hash.
const HASHED: usize = 24;

/// How long a request may wait for an unavailable store: longer than the store's own time limits.
const DEADLINE_MS: u32 = 5_000;

/// The exit status of `leafctl ping` if something that must be ready is not.
const NOT_READY: i32 = 4;

/// Four stores.
struct Stores {
    postgres: Postgres,
    mariadb: MariaDb,
    /// In front of store b, so that it can be unavailable while a, on the same server, is not.
    relay: Relay,
}

impl Stores {
    fn new() -> Stores {
        let (postgres, mariadb) = (Postgres::new(), MariaDb::new());
        postgres.create_database(SECOND);
        mariadb.create_database(SECOND);
        apply_schema(&Postgres::url_of(&[postgres.port()], SECOND));
        apply_schema(&MariaDb::url_of(&[mariadb.port()], SECOND));
        let relay = Relay::to(postgres.port());
        Stores { postgres, mariadb, relay }
    }

    fn urls(&self) -> [(&'static str, String); 4] {
        [
            ("a", self.postgres.url()),
            ("b", Postgres::url_of(&[self.relay.port()], SECOND)),
            ("c", self.mariadb.url()),
            ("d", MariaDb::url_of(&[self.mariadb.port()], SECOND)),
        ]
    }

    fn host(&self, routes: &str) -> Host {
        Host::on_stores(&self.urls(), routes)
    }

    /// The tags whose rows each store contains.
    fn tags(&self) -> [BTreeSet<String>; 4] {
        let sql = "SELECT biz_tag FROM leaf_alloc";
        let rows = [
            self.postgres.sql(sql),
            self.postgres.ask(SECOND, sql),
            self.mariadb.sql(sql),
            self.mariadb.ask(SECOND, sql),
        ];
        rows.map(|rows| rows.into_iter().flatten().collect())
    }
}

/// Whether each store is ready according to a daemon's status, in the order of their names.
fn ready(host: &Host) -> Vec<bool> {
    let status = host.status();
    let stores = status["segments"]["stores"].as_array().unwrap();
    stores.iter().map(|store| store["ready"].as_bool().unwrap()).collect()
}

/// The texts with which requests for an id of each tag are refused, with this status.
#[track_caller]
fn refusals(host: &Host, tags: &[&str], status: Status) -> Vec<String> {
    let mut raw = host.raw();
    for tag in tags {
        raw.send(&ids_request(tag, 1, 1, 1_000));
    }
    tags.iter().map(|_| raw.reply().refused(status)).collect()
}

/// Every tag that `leafctl tag list` shows, as often as it shows it.
fn listed(host: &Host) -> Vec<String> {
    let output = host.leafctl(&["tag", "list", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let row = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
    lines.lines().map(|line| row(line)["tag"].as_str().unwrap().to_owned()).collect()
}

/// Requests ids of a tag of each store from every host while some stores are unavailable: only their ids fail, and the
/// others are answered first.
#[track_caller]
fn outage(hosts: &[Host], tags: &[String; 4], away: [bool; 4], urls: &[(&str, String)]) -> Drawn {
    let mut drawn = Drawn::default();
    for host in hosts {
        let mut raw = host.raw();
        for (number, tag) in (0..).zip(tags) {
            raw.send(&ids_request(tag, 1, number, DEADLINE_MS));
        }
        let replies: Vec<Reply> = tags.iter().map(|_| raw.reply()).collect();
        let there = away.iter().filter(|away| !**away).count();
        for (place, reply) in replies.iter().enumerate() {
            let store = reply.header.request_id as usize;
            if place < there {
                assert!(!away[store], "{}: {}", urls[store].0, reply.text());
                drawn.add_ids(&tags[store], &reply.ids());
                continue;
            }
            let text = reply.refused(Status::StoreUnavailable);
            // The URL's parameters are not shown.
            assert!(text.contains(urls[store].1.split('?').next().unwrap()), "{text}");
            *drawn.errors.entry(format!("{}: {text}", reply.status())).or_default() += 1;
        }
        assert_eq!(ready(host), away.map(|away| !away));
        // As long as any store is available, there are tags whose ids are available.
        let expected = if away.iter().all(|away| *away) { NOT_READY } else { 0 };
        assert_eq!(host.leafctl(&["ping", "--ready", "segments"]).status.code(), Some(expected));
    }
    drawn
}

/// Waits until ids of these tags are available again on every host. Returns how long the last one took.
#[track_caller]
fn back(hosts: &[Host], tags: &[&String], drawn: &mut Drawn) -> Duration {
    let begun = Instant::now();
    let mut raws: Vec<Raw> = hosts.iter().map(Host::raw).collect();
    for tag in tags {
        drawn.add_ids(tag, &first_of(&mut raws, tag).0);
    }
    let recovered = begun.elapsed();
    assert!(recovered < RESUMES_WITHIN, "ids came again after {recovered:?}");
    hosts.iter().for_each(|host| assert_eq!(ready(host), [true; 4]));
    recovered
}

/// `leafctl fleet` lists both hosts. Its errors and its exit status show which store is unavailable.
#[track_caller]
fn the_fleet_is_listed_without(host: &Host, away: Option<&str>) {
    let [shown, parsed] = [&["fleet"][..], &["fleet", "--json"]].map(|words| {
        let output = host.leafctl(words);
        assert_eq!(output.status.code(), Some(away.is_some().into()), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let told = away.map(|store| format!("the store {store} is missing from this list: "));
        assert_eq!(said.lines().count(), told.iter().len(), "{said}");
        assert!(told.is_none_or(|told| said.contains(&told)), "{said}");
        String::from_utf8(output.stdout).unwrap()
    });
    assert_eq!(shown.matches("\nactive").count(), 2, "{shown}");
    let lines: Vec<Value> =
        parsed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let in_state = |state: &str| lines.iter().filter(|line| line["state"] == state).count();
    assert_eq!((in_state("active"), in_state("away")), (2, away.iter().len()), "{parsed}");
    let source = lines.iter().find(|line| line["state"] == "away").map(|line| &line["source"]);
    assert_eq!(source, away.map(|store| json!(format!("store {store}"))).as_ref(), "{parsed}");
}

#[test]
fn tags_are_at_home_and_a_store_that_is_away_stops_only_its_own() {
    let mut stores = Stores::new();
    let mut hosts = [stores.host(ROUTES), stores.host(ROUTES)];
    hosts.iter_mut().for_each(Host::start);
    let hashed: Vec<String> = (0..HASHED).map(|number| format!("t{number}")).collect();
    let by_name = ["orders", "order-1", "order-2", "order-3"];
    let by_prefix = ["pay.1", "pay.2", "pay.3", "pay.eu"];
    let named = by_name.into_iter().chain(by_prefix).chain(["a"]);
    let all: BTreeSet<&str> = hashed.iter().map(String::as_str).chain(named).collect();
    for (number, tag) in all.iter().enumerate() {
        // Whichever host is asked, the tag is created in the same store.
        create(&hosts[number % 2], tag, 1_000_000);
    }
    let text = refusals(&hosts[0], &["nowhere"], Status::TagUnknown).join("");
    assert!(text.contains("no rule in routes"), "{text}");

    let homes = stores.tags();
    let set = |tags: [&str; 4]| BTreeSet::from(tags.map(str::to_owned));
    assert_eq!((&homes[2], &homes[3]), (&set(by_name), &set(by_prefix)));
    assert_eq!(homes.iter().map(BTreeSet::len).sum::<usize>(), all.len(), "{homes:?}");
    assert!(homes[0].len() >= 4 && homes[1].len() >= 4, "spread by their names: {homes:?}");
    assert!(homes[1].contains("a"), "its hash has it there for ever: {homes:?}");
    let listed = listed(&hosts[1]);
    assert_eq!(listed.len(), all.len());
    assert_eq!(listed.iter().map(String::as_str).collect::<BTreeSet<_>>(), all);

    // One tag of each store is for the load, and two more are left without claims.
    let nth = |nth| homes.each_ref().map(|tags| tags.iter().nth(nth).expect("4 at least").clone());
    let [held, cut_off, killed] = [nth(0), nth(1), nth(2)];
    let draw = |host: &Host| held.each_ref().map(|tag| Draw::steady(&host.socket(), tag));
    let load = Load::start(hosts.iter().flat_map(draw).collect());
    load.under_way();
    let urls = stores.urls();

    let before = load.issued();
    stores.relay.refuse();
    the_fleet_is_listed_without(&hosts[0], Some("b"));
    let mut drawn = outage(&hosts, &cut_off, [false, true, false, false], &urls);
    load.each_draws(Duration::from_secs(30));
    let issued = load.issued() - before;
    stores.relay.pass();
    let recovered = back(&hosts, &[&cut_off[1]], &mut drawn);
    report::<Postgres>("one of four stores cut off", issued, &drawn, Some(recovered));
    the_fleet_is_listed_without(&hosts[0], None);

    let before = load.issued();
    stores.mariadb.kill();
    let mut of_second = outage(&hosts, &killed, [false, false, true, true], &urls);
    load.each_draws(Duration::from_secs(30));
    let issued = load.issued() - before;
    stores.mariadb.start();
    let recovered = back(&hosts, &[&killed[2], &killed[3]], &mut of_second);
    report::<MariaDb>("two of four stores killed", issued, &of_second, Some(recovered));

    drawn.add(of_second);
    drawn.errors.clear();
    drawn.add(load.stop());
    drawn.assert_sound();
    assert!(drawn.errors.is_empty(), "of what is claimed: {:?}", drawn.errors);
    assert_eq!(stores.tags(), homes, "nothing came to another store");
}

#[test]
fn a_host_that_would_look_elsewhere_gets_no_ids() {
    let stores = Stores::new();
    let mut host = stores.host(ROUTES);
    host.start();
    let tags = ["a", "t1", "t2", "t3", "orders", "pay.eu"];
    tags.iter().for_each(|tag| create(&host, tag, 100));
    let mut drawn = Drawn::default();
    let mut draw = |host: &Host| {
        for tag in tags {
            drawn.add_ids(tag, &host.raw().draw(tag, 150));
        }
    };
    draw(&host);
    // It claims ahead without a request.
    host.stop();
    let rows = |stores: &Stores| {
        let sql = "SELECT biz_tag, max_id FROM leaf_alloc ORDER BY biz_tag";
        let postgres = [stores.postgres.sql(sql), stores.postgres.ask(SECOND, sql)];
        let mariadb = [stores.mariadb.sql(sql), stores.mariadb.ask(SECOND, sql)];
        [postgres, mariadb]
    };
    let claimed = rows(&stores);

    // Routes of other hosts that contradict this host's, and the part of them that the refusal repeats.
    let other_order = ROUTES.replace(r#"["a", "b"]"#, r#"["b", "a"]"#);
    let other_home = ROUTES.replace(r#"["pay.*"], store = "d""#, r#"["pay.*"], store = "c""#);
    let other_home =
        other_home.replace(r#""orders", "order-*"], store = "c""#, r#""orders"], store = "d""#);
    for (routes, says) in [(other_order, "hash(b,a)"), (other_home, "pay.*->c")] {
        let mut other = stores.host(&routes);
        other.start();
        for text in refusals(&other, &tags, Status::StoreRefused) {
            for part in ["orders,order-*->c", "pay.*->d", "hash(a,b)", says] {
                assert!(text.contains(part), "no {part} in {text}");
            }
        }
        for words in [["create", "t4"], ["show", "orders"], ["set", "orders"], ["raise", "t1"]] {
            let more: &[&str] = match words[0] {
                "set" => &["--step", "5"],
                "raise" => &["--to", "5000"],
                _ => &[],
            };
            let output = other.leafctl(&[&["tag"], &words[..], more].concat());
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success() && text.contains("hash(a,b)"), "{words:?}: {text}");
        }
        assert_eq!(ready(&other), [false; 4]);
    }
    // This host knows only one store.
    let mut other = Host::on_store(&stores.postgres.url());
    other.start();
    let text = refusals(&other, &["a"], Status::StoreRefused).join("");
    assert!(text.contains("hash(a,b)"), "{text}");

    assert_eq!(rows(&stores), claimed, "nothing was claimed or made");
    host.start();
    draw(&host);
    drawn.assert_sound();
}
