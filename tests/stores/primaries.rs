//! Independent primaries of both kinds for the same tags, under a load of three daemons. Whichever of them is
//! unavailable, ids continue, each id belongs to the residue class of the primary that granted it, and none is issued
//! twice.

use std::time::{Duration, Instant};

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::{Draw, Drawn, Load};
use leafd_tests::raw::ids_request;
use leafd_tests::servers::{MariaDb, Postgres, Server};
use leafd_wire::Status;
use mysql::prelude::Queryable;

use crate::scene::{create, report};
use crate::tags::percent;

/// How long a returning store may take to be used again, on a busy machine.
pub const WITHIN: Duration = Duration::from_secs(60);

/// The tag that the load draws.
const TAG: &str = "events.a";

/// How long each primary is unavailable: long enough to exhaust the ids claimed from it.
const AWAY: Duration = Duration::from_secs(3);

/// How long claimed ids last: so short that claims move to the other primaries each time.
const AUTONOMY: &str = "1s";

/// One of several primaries, of either kind.
pub enum Primary {
    OfPostgres(Postgres),
    OfMariaDb(MariaDb),
}

/// Does the same with either kind.
macro_rules! either {
    ($primary:expr, $one:ident => $call:expr) => {
        match $primary {
            Primary::OfPostgres($one) => $call,
            Primary::OfMariaDb($one) => $call,
        }
    };
}

/// How a primary becomes unavailable.
#[derive(Clone, Copy, Debug)]
pub enum End {
    Kill,
    Stop,
}

impl Primary {
    pub fn away(&mut self, how: End) {
        match how {
            End::Kill => either!(self, one => one.kill()),
            End::Stop => either!(self, one => one.stop()),
        }
    }

    pub fn back(&mut self) {
        either!(self, one => one.start());
    }

    pub fn sql(&self, sql: &str) {
        drop(self.ask(sql));
    }

    /// The rows of an answer.
    pub fn ask(&self, sql: &str) -> Vec<Vec<String>> {
        either!(self, one => one.sql(sql))
    }

    /// Waits until ids of a tag may be claimed from it.
    pub fn await_ceiling(&self, tag: &str) {
        let sql = format!("SELECT tag FROM leafd_tag WHERE tag = '{tag}' AND ceiling > 0");
        eventually("its release", WITHIN, || {
            either!(self, one => !one.sql(&sql).is_empty()).then_some(())
        });
    }

    pub fn rows(&self) -> Vec<Vec<String>> {
        let sql = "SELECT biz_tag, max_id FROM leaf_alloc ORDER BY biz_tag";
        either!(self, one => one.sql(sql))
    }
}

/// The primaries' names, in their order.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Several primaries and the daemons' configuration.
pub struct Primaries {
    pub all: Vec<Primary>,
}

impl Primaries {
    /// Two or three primaries: a PostgreSQL, a MariaDB, and another PostgreSQL.
    pub fn new(count: usize) -> Primaries {
        let make = |index| match index {
            1 => Primary::OfMariaDb(MariaDb::new()),
            _ => Primary::OfPostgres(Postgres::new()),
        };
        Primaries { all: (0..count).map(make).collect() }
    }

    /// A host with these primaries in this order and this era.
    fn host_by(&self, order: &[usize], era: u32) -> Host {
        let stores: Vec<(&str, String)> = order
            .iter()
            .map(|index| (NAMES[*index], either!(&self.all[*index], one => one.url())))
            .collect();
        let names: Vec<&str> = stores.iter().map(|(name, _)| *name).collect();
        let routes = format!("[{{ tags = [\"events.*\"], primaries = {names:?}, era = {era} }}]");
        Host::on_stores(&stores, &routes).set("autonomy", AUTONOMY)
    }

    pub fn host(&self) -> Host {
        let order: Vec<usize> = (0..self.all.len()).collect();
        self.host_by(&order, 1)
    }

    /// A started host that draws a tag's ids from one of them. Each daemon chooses at random which primary it tries
    /// first, so hosts are created until one chooses this primary. The ids that they draw meanwhile are added to `ids`.
    fn host_that_draws_from(&self, place: usize, ids: &mut Vec<u64>) -> Host {
        loop {
            let mut host = self.host();
            host.start();
            let drawn = host.raw().draw(TAG, 1);
            ids.extend(&drawn);
            if drawn[0] % self.all.len() as u64 == place as u64 {
                return host;
            }
        }
    }

    /// The end of the ids that each primary has granted.
    pub fn ends(&self, tag: &str) -> Vec<u64> {
        let end = |one: &Primary| either!(one, server => server.max_id(tag));
        self.all.iter().map(end).collect()
    }

    /// Checks that each id of a tag was granted by the primary with its residue class, and that every primary has
    /// granted some.
    #[track_caller]
    fn assert_theirs(&self, tag: &str, ids: &[u64]) {
        let of = self.all.len() as u64;
        let ends = self.ends(tag);
        let mut drawn_from = vec![false; self.all.len()];
        for id in ids {
            let place = (id % of) as usize;
            assert!((1..ends[place]).contains(id), "{id} of {of}: {ends:?}");
            drawn_from[place] = true;
        }
        assert!(drawn_from.iter().all(|drawn| *drawn), "of each some: {drawn_from:?}");
    }
}

#[test]
fn either_of_two_primaries_is_enough() {
    one_of_them_is_away(2);
}

#[test]
fn any_of_three_primaries_may_be_away() {
    one_of_them_is_away(3);
}

fn one_of_them_is_away(count: usize) {
    let mut primaries = Primaries::new(count);
    let mut first = primaries.host();
    first.start();
    create(&first, TAG, 100);
    let mut chosen = Vec::new();
    // This way, a host is using each primary that becomes unavailable.
    let mut hosts: Vec<Host> =
        (0..3).map(|index| primaries.host_that_draws_from(index % count, &mut chosen)).collect();
    let twice = hosts.iter().chain(&hosts);
    let load = Load::start(twice.map(|host| Draw::steady(&host.socket(), TAG)).collect());
    load.under_way();
    let before = load.issued();
    for (index, how) in (0..count).zip([End::Kill, End::Stop, End::Kill]) {
        primaries.all[index].away(how);
        let begun = Instant::now();
        while begun.elapsed() < AWAY {
            load.each_draws(Duration::from_secs(30));
        }
        // A daemon that restarts meanwhile also continues.
        hosts[index].kill();
        hosts[index].start();
        load.each_draws(Duration::from_secs(30));
        primaries.all[index].back();
        load.each_draws(Duration::from_secs(30));
    }
    let issued = load.issued() - before;
    let mut drawn = load.stop();
    drawn.add_ids(TAG, &chosen);
    // Ids from several primaries have no order.
    drawn.backwards.clear();
    report::<Postgres>(&format!("each of {count} primaries away in turn"), issued, &drawn, None);
    drawn.assert_sound();
    primaries.assert_theirs(TAG, &drawn.ids[TAG]);
    let of_a_restart = |text: &String| {
        ["no connection", "disconnected", "SHUTTING_DOWN"].iter().any(|part| text.starts_with(part))
    };
    assert!(drawn.errors.keys().all(of_a_restart), "{:?}", drawn.errors);
}

#[test]
fn primaries_of_another_number_order_or_era_are_refused() {
    let primaries = Primaries::new(3);
    let mut host = primaries.host();
    host.start();
    create(&host, TAG, 100);
    let mut drawn = Drawn::default();
    drawn.add_ids(TAG, &host.raw().draw(TAG, 500));
    // It claims ahead without a request.
    host.stop();
    let claimed: Vec<_> = primaries.all.iter().map(Primary::rows).collect();
    let others: [(&[usize], u32); 4] =
        [(&[0, 1], 1), (&[1, 0, 2], 1), (&[0, 1, 2], 2), (&[2, 1], 2)];
    for (order, era) in others {
        let mut other = primaries.host_by(order, era);
        other.start();
        let mut raw = other.raw();
        raw.send(&ids_request(TAG, 1, 1, 1_000));
        let text = raw.reply().refused(Status::StoreRefused);
        assert!(text.contains("primary ") && text.contains(", era 1"), "{text}");
        let status = other.status();
        let stores = status["segments"]["stores"].as_array().unwrap();
        for (place, index) in order.iter().enumerate() {
            let store = stores.iter().find(|store| store["name"] == NAMES[*index]).unwrap();
            let error = store["error"].as_str().expect("each refuses");
            let is = format!("primary {index} of 3, era 1");
            let configured = format!("primary {place} of {}, era {era}", order.len());
            assert!(error.contains(&is) && error.contains(&configured), "{error}");
        }
        for words in [&["raise", TAG, "--to", "1000000"][..], &["list"]] {
            let (done, said) = tag(&other, words);
            assert!(!done && said.contains("primary "), "{words:?}: {said}");
        }
    }
    let now: Vec<_> = primaries.all.iter().map(Primary::rows).collect();
    assert_eq!(now, claimed, "nothing was claimed or changed");
    host.start();
    drawn.add_ids(TAG, &host.raw().draw(TAG, 500));
    drawn.backwards.clear();
    drawn.assert_sound();
}

/// The output of `leafctl tag`, and whether it succeeded.
pub fn tag(host: &Host, words: &[&str]) -> (bool, String) {
    let output = host.leafctl(&[&["tag"], words].concat());
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn tags_of_primaries_are_administered_in_ids() {
    let mut primaries = Primaries::new(2);
    let mut host = primaries.host();
    host.start();
    let done = |words: &[&str]| {
        let (done, said) = tag(&host, words);
        assert!(done, "{words:?}: {said}");
        said
    };
    let refused = |words: &[&str], why: &str| {
        let (done, said) = tag(&host, words);
        assert!(!done && said.contains(why), "{words:?}: {said}");
    };
    refused(&["create", "events.strict", "--strict"], "can't be strict");
    refused(&["create", "events.low", "--ceiling", "1"], "would have no id");
    done(&["create", "events.low", "--ceiling", "3"]);
    // The only id is not in primary b's residue class, so the tag is created in neither.
    refused(&["create", "events.one", "--start", "10", "--ceiling", "10"], "primary \"b\" would");
    refused(&["show", "events.one"], "no tag");
    done(&["create", "events.b", "--start", "1000", "--ceiling", "2000", "--step", "10"]);
    refused(&["set", "events.b", "--ceiling", "1"], "would have no id");
    let shown = done(&["show", "events.b"]);
    assert!(shown.contains(" 1000\n") && shown.contains(" 2000\n"), "{shown}");

    // Every id within the bounds is issued, whichever primary grants it, and none beyond.
    let mut drawn = Drawn::default();
    for (tag, all) in [("events.low", 1..=3), ("events.b", 1000..=2000)] {
        let mut raw = host.raw();
        let text = loop {
            raw.ask(tag, 1, 1);
            let reply = raw.reply();
            if reply.status() != Status::Ok {
                break reply.refused(Status::TagExhausted);
            }
            drawn.add_ids(tag, &reply.ids());
        };
        assert!(text.contains("exhausted"), "{text}");
        assert_eq!(drawn.ids[tag], all.collect::<Vec<u64>>());
    }
    drawn.assert_sound();
    let log = host.log();
    let warnings = log.lines().filter(|line| line.contains("% used") && line.contains("events.b"));
    let passed = |percent: u64| [99, 95, 90, 80].into_iter().find(|bound| percent >= *bound);
    let bounds: Vec<Option<u64>> = warnings.map(percent).map(passed).collect();
    let rise = bounds.is_sorted_by(|one, next| one < next) && !bounds.is_empty();
    assert!(rise, "both primaries together pass each bound once: {bounds:?}");

    // A change that all primaries need is made where possible, and must be repeated.
    primaries.all[1].away(End::Kill);
    let repeat = "repeat this when primary \"b\" is reachable again";
    refused(&["create", "events.c"], repeat);
    assert_eq!(primaries.all[0].rows().len(), 2, "it is in none of them");
    refused(&["set", "events.b", "--step", "20"], repeat);
    refused(&["delete", "events.b", "--yes-delete", "events.b"], "refused");
    let mut raw = host.raw();
    raw.send(&ids_request("events.c", 1, 1, 1_000));
    assert_ne!(raw.reply().status(), Status::Ok);
    primaries.all[1].back();
    // The daemon tries the primary again within a second.
    eventually("the tag is made in both", WITHIN, || {
        tag(&host, &["create", "events.c"]).0.then_some(())
    });
    assert!(primaries.all.iter().all(|primary| primary.rows().len() == 3));
    done(&["raise", "events.b", "--to", "2501"]);
    assert_eq!(primaries.ends("events.b"), [2501, 2501]);
    done(&["set", "events.b", "--step", "20", "--ceiling", "3000"]);
    drawn.add_ids("events.b", &host.raw().draw("events.b", 100));
    assert!(drawn.ids["events.b"][1001] >= 2501, "{:?}", &drawn.ids["events.b"][1000..]);
    drawn.assert_sound();
    done(&["delete", "events.b", "--yes-delete", "events.b"]);
    host.raw().refused(&ids_request("events.b", 1, 1, 1_000), Status::TagUnknown);
}

#[test]
fn a_deletion_that_a_primary_s_outage_interrupted_is_repeated() {
    let mut primaries = Primaries::new(2);
    let mut host = primaries.host();
    host.start();
    assert!(tag(&host, &["create", "events.b"]).0);
    let mut drawn = Drawn::default();
    drawn.add_ids("events.b", &host.raw().draw("events.b", 100));
    let delete = ["delete", "events.b", "--yes-delete", "events.b"];
    // The primary becomes unavailable between the check and the deletion.
    let Primary::OfMariaDb(b) = &primaries.all[1] else { panic!("b is a MariaDB") };
    let mut holder = b.connection().unwrap();
    holder.query_drop("BEGIN").unwrap();
    holder
        .query_drop("SELECT * FROM ids.leaf_alloc WHERE biz_tag = 'events.b' FOR UPDATE")
        .unwrap();
    let (done, said) = std::thread::scope(|scope| {
        let deleting = scope.spawn(|| tag(&host, &delete));
        eventually("it is deleted in a", WITHIN, || {
            primaries.all[0].rows().is_empty().then_some(())
        });
        primaries.all[1].away(End::Kill);
        deleting.join().unwrap()
    });
    assert!(!done && said.contains("repeat this when primary \"b\" is reachable again"), "{said}");
    let (done, said) = tag(&host, &delete);
    assert!(!done && !said.contains("no tag"), "whether b has it is not known: {said}");
    primaries.all[1].back();
    assert_eq!(primaries.all[1].rows().len(), 1);
    eventually("the daemon finds b again", WITHIN, || {
        tag(&host, &["show", "events.b"]).0.then_some(())
    });
    // A tag that is only half deleted can't be changed.
    for words in [&["raise", "events.b", "--to", "9000"], &["set", "events.b", "--step", "9"]] {
        let (done, said) = tag(&host, words);
        assert!(!done && said.contains("primary \"a\" doesn't have tag"), "{said}");
    }
    let (done, said) = tag(&host, &delete);
    assert!(done, "{said}");
    assert!(primaries.all.iter().all(|primary| primary.rows().is_empty()));
    host.raw().refused(&ids_request("events.b", 1, 1, 1_000), Status::TagUnknown);
    drawn.backwards.clear();
    drawn.assert_sound();
}

#[test]
fn tags_of_primaries_are_listed_as_they_are_shown() {
    let primaries = Primaries::new(2);
    let mut host = primaries.host();
    host.start();
    let done = |words: &[&str]| {
        let (done, said) = tag(&host, words);
        assert!(done, "{words:?}: {said}");
        said
    };
    done(&["create", "events.a"]);
    done(&["create", "events.b", "--start", "1000", "--ceiling", "2000"]);
    // The second primary is further ahead.
    primaries.all[1].sql("UPDATE leaf_alloc SET max_id = max_id + 900 WHERE biz_tag = 'events.a'");
    let rows = |lines: &str| -> Vec<serde_json::Value> {
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let listed = rows(&done(&["list", "--json"]));
    let shown =
        ["events.a", "events.b"].map(|name| rows(&done(&["show", name, "--json"])).remove(0));
    assert_eq!(listed, shown);
    assert!(listed[0]["max_id"].as_u64().unwrap() > 900, "{listed:?}");
}
