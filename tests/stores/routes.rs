//! Routes that are changed by `leafd routes apply`: stores with tags get their roles, and lists of primaries change
//! with a new era, while daemons with the former routes run under load and the command is killed at various points. No
//! tag moves, and no id is issued twice.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use leafd_tests::host::{Host, die_with_parent, eventually, leafd_binary};
use leafd_tests::load::{Draw, Drawn, Load};
use leafd_tests::raw::{Raw, ids_request};
use leafd_tests::seed::seeds;
use leafd_tests::servers::{DATABASE, MariaDb, PASSWORD, Postgres, Server, apply_schema};
use leafd_wire::{Status, opcode};
use serde_json::json;
use tempfile::NamedTempFile;

/// Small, so that draws need many claims.
pub const STEP: u64 = 40;

/// How long a daemon may take to notice a change of the store's role and to have ids again.
pub const WITHIN: Duration = Duration::from_secs(60);

/// The number of tags in primaries, and their ceiling.
const TAGS: usize = 60;
const CEILING: u64 = 1_000_000;

/// Three databases on two servers.
pub struct Databases {
    postgres: Postgres,
    mariadb: MariaDb,
    password: NamedTempFile,
}

/// Stores by name, and their routes.
#[derive(Clone)]
pub struct Fleet {
    stores: Vec<(&'static str, String)>,
    pub routes: String,
    password_file: PathBuf,
}

impl Databases {
    pub fn new() -> Databases {
        let (postgres, mariadb) = (Postgres::new(), MariaDb::new());
        postgres.create_database("ids_c");
        let password = NamedTempFile::new().unwrap();
        fs::write(password.path(), PASSWORD).unwrap();
        let databases = Databases { postgres, mariadb, password };
        apply_schema(&databases.url("c"));
        databases
    }

    pub fn url(&self, name: &str) -> String {
        match name {
            "a" => self.postgres.url(),
            "b" => self.mariadb.url(),
            _ => Postgres::url_of(&[self.postgres.port()], "ids_c"),
        }
    }

    pub fn sql(&self, name: &str, sql: &str) -> Vec<Vec<String>> {
        match name {
            "a" => self.postgres.sql(sql),
            "b" => self.mariadb.ask(DATABASE, sql),
            _ => self.postgres.ask("ids_c", sql),
        }
    }

    /// The role that a store has recorded.
    pub fn place(&self, name: &str) -> String {
        let rows = self.sql(name, "SELECT value FROM leafd_meta WHERE name = 'role'");
        // New tables contain no role.
        let record = serde_json::from_str::<serde_json::Value>(&rows[0][0]).unwrap_or_default();
        record["role"].as_str().unwrap_or_default().to_owned()
    }

    pub fn fleet(&self, names: &[&'static str], routes: &str) -> Fleet {
        let stores = names.iter().map(|name| (*name, self.url(name))).collect();
        let password_file = self.password.path().to_owned();
        Fleet { stores, routes: routes.to_owned(), password_file }
    }
}

impl Fleet {
    pub fn host(&self) -> Host {
        let mut host = Host::new().set("failover_settle", "1s").set("max_step", "200");
        self.configure(&mut host);
        host
    }

    /// Configures a host with these stores and routes.
    pub fn configure(&self, host: &mut Host) {
        let file = &self.password_file;
        let stores = self.stores.iter();
        let stores = stores
            .map(|(name, url)| format!("{name} = {{ url = {url:?}, password_file = {file:?} }}"));
        let stores: Vec<String> = stores.collect();
        host.change("stores", &format!("{{ {} }}", stores.join(", ")));
        host.change("routes", &self.routes);
    }

    pub fn stores_toml(&self) -> String {
        let urls = self.stores.iter().map(|(name, url)| format!("{name} = {url:?}"));
        format!("{{ {} }}", urls.collect::<Vec<_>>().join(", "))
    }

    /// The command `leafd routes apply` with these arguments, for these routes. The passwords are in the environment.
    pub fn apply(&self, words: &[&str]) -> Command {
        let mut command = Command::new(leafd_binary());
        command.args(["routes", "apply"]).args(words).env_clear().env("HOME", "/nonexistent");
        command.args(["--set", &format!("stores={}", self.stores_toml())]);
        command.args(["--set", &format!("routes={}", self.routes)]);
        for name in ["A", "B", "C"] {
            command.env(format!("LEAFD_STORE_PASSWORD_{name}"), PASSWORD);
        }
        command
    }
}

#[track_caller]
pub fn done(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[track_caller]
pub fn refused(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

/// Draws from a daemon that may claim no more: its held ids, and then errors of the store.
fn drain(raw: &mut Raw, tag: &str, drawn: &mut Drawn) {
    for _ in 0..50 {
        raw.send(&ids_request(tag, 20, 1, 300));
        let reply = raw.reply();
        match reply.status() {
            Status::Ok => drawn.add_ids(tag, &reply.ids()),
            status => {
                let refusals = [Status::StoreRefused, Status::StoreUnavailable, Status::Deadline];
                assert!(refusals.contains(&status), "{status}: {}", reply.text());
                return;
            }
        }
    }
    panic!("{tag}: a daemon of the former routes claims on");
}

/// Runs a command, and kills it as soon as `due` is true. Returns whether that was before its end.
fn killed_when(mut command: Command, due: impl Fn() -> bool) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = die_with_parent(&mut command).spawn().unwrap();
    loop {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        if due() {
            child.kill().unwrap();
            return !child.wait().unwrap().success();
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn stores_with_tags_get_their_places() {
    let databases = Databases::new();
    let mut former = Host::on_store(&databases.url("a")).set("max_step", "200");
    former.start();
    for tag in ["orders", "pay.in", "pay.out"] {
        former.admin(opcode::TAG_CREATE, &json!({ "tag": tag, "step": STEP }));
    }
    let mut drawn = Drawn::default();
    for tag in ["orders", "pay.in"] {
        drawn.add_ids(tag, &former.raw().draw(tag, 100));
    }
    let hashed = databases.fleet(&["a", "b"], "[{ tags = ['*'], hash = ['a', 'b'] }]");
    let said = refused(&hashed.apply(&["--yes"]).output().unwrap());
    assert!(said.contains("nothing was changed") && said.contains(" in a: "), "{said}");
    let fleet = databases.fleet(
        &["a", "b"],
        "[{ tags = ['orders', 'pay.*'], store = 'a' }, { tags = ['*'], store = 'b' }]",
    );
    let said = done(&fleet.apply(&[]).output().unwrap());
    assert!(said.contains("add --yes") && said.contains("3 tags"), "{said}");
    assert_eq!(databases.place("a"), "");

    let load = Load::start(vec![Draw::steady(&former.socket(), "orders")]);
    load.under_way();
    done(&fleet.apply(&["--yes"]).output().unwrap());
    assert!(databases.place("a").starts_with("store a, of: "));
    assert!(databases.place("b").starts_with("store b, of: "));
    let said = done(&fleet.apply(&["--yes"]).output().unwrap());
    assert!(said.contains("nothing was changed"), "{said}");
    drain(&mut former.raw(), "pay.in", &mut drawn);
    let mut host = fleet.host();
    host.start();
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "elsewhere", "step": STEP }));
    assert_eq!(databases.sql("b", "SELECT biz_tag FROM leaf_alloc"), [["elsewhere"]]);
    for tag in ["orders", "pay.in"] {
        drawn.add_ids(tag, &host.raw().draw(tag, 500));
    }
    drawn.add(load.stop());
    assert_eq!(drawn.duplicates(), 0);

    // Another change of routes, and one that would move a tag.
    let moves = databases
        .fleet(&["a", "b"], "[{ tags = ['orders'], store = 'a' }, { tags = ['*'], store = 'b' }]");
    let said = refused(&moves.apply(&["--yes"]).output().unwrap());
    assert!(said.contains("pay.in in a: the new routes send it to b"), "{said}");
    assert!(said.contains("2 tags"), "{said}");
    let stays = databases.fleet(
        &["a", "b"],
        "[{ tags = ['elsewhere'], store = 'b' }, { tags = ['*'], store = 'a' }]",
    );
    done(&stays.apply(&["--yes"]).output().unwrap());
    host.stop();
    stays.configure(&mut host);
    host.start();
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "anywhere" }));
    for tag in ["orders", "pay.in", "elsewhere"] {
        drawn.add_ids(tag, &host.raw().draw(tag, 500));
    }
    assert_eq!(drawn.duplicates(), 0);
}

#[test]
fn frozen_stores_get_their_places_back_when_the_change_is_refused() {
    const REFUSE: &str = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.value LIKE '%\"role\":\"frozen%' THEN RAISE EXCEPTION 'not yet'; END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON leafd_meta FOR EACH ROW EXECUTE FUNCTION refuse()";
    let databases = Databases::new();
    let former = databases.fleet(&["a", "b", "c"], "[{ tags = ['*'], hash = ['a', 'b', 'c'] }]");
    done(&former.apply(&["--yes"]).output().unwrap());
    let places = || ["a", "b", "c"].map(|name| databases.place(name));
    let before = places();
    let next = databases.fleet(
        &["a", "b", "c"],
        "[{ tags = ['x'], store = 'b' }, { tags = ['y'], hash = ['a', 'c'] }]",
    );
    // The command is interrupted, and then a tag without a home is found.
    databases.sql("c", REFUSE);
    let said = refused(&next.apply(&["--yes"]).output().unwrap());
    assert!(said.contains("not yet"), "{said}");
    assert!(databases.place("b").starts_with("frozen, "));
    databases.sql("c", "DROP TRIGGER refuse ON leafd_meta");
    databases.sql("a", "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('z', 1, 1)");
    let said = refused(&next.apply(&[]).output().unwrap());
    assert!(said.contains("z in a: no rule") && said.contains("--yes restores"), "{said}");
    assert_ne!(places(), before);
    let said = refused(&next.apply(&["--yes"]).output().unwrap());
    assert!(said.contains("z in a: no rule") && said.contains("former role again"), "{said}");
    assert_eq!(places(), before);
}

/// The command is killed while a COMMIT of its own is pending, which is then still carried out.
#[test]
fn a_commit_that_outlives_its_command_does_not_keep_the_next_one_from_finishing() {
    const SLOW: &str = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_sleep(2);
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON leaf_alloc DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION slow()";
    let databases = Databases::new();
    let routes = "[{ tags = ['*'], primaries = ['a', 'b'], era = 1 }]";
    let former = databases.fleet(&["a", "b"], routes);
    done(&former.apply(&["--yes"]).output().unwrap());
    let mut host = former.host();
    host.start();
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "events", "step": STEP, "ceiling": CEILING }));
    let mut drawn = Drawn::default();
    drawn.add_ids("events", &host.raw().draw("events", 30));
    host.stop();

    databases.sql("c", SLOW);
    let old = host.path("former.toml");
    let text = format!("stores = {}\nroutes = {}\n", former.stores_toml(), former.routes);
    fs::write(&old, text).unwrap();
    let words = ["--yes", "--former", old.to_str().unwrap()];
    let routes = "[{ tags = ['*'], primaries = ['a', 'b', 'c'], era = 2 }]";
    let next = databases.fleet(&["a", "b", "c"], routes);
    let commits = "SELECT 1 FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active'";
    assert!(killed_when(next.apply(&words), || !databases.sql("c", commits).is_empty()));
    done(&next.apply(&words).output().unwrap());

    next.configure(&mut host);
    host.start();
    drawn.add_ids("events", &host.raw().draw("events", 500));
    drawn.assert_sound();
    let shown = host.admin(opcode::TAG_SHOW, &json!({ "tag": "events" }));
    assert_eq!(shown["ceiling"], CEILING);
}

#[test]
fn a_store_that_is_away_or_left_out_keeps_routes_from_being_changed() {
    let mut databases = Databases::new();
    let hashed = databases.fleet(&["a", "b"], "[{ tags = ['*'], hash = ['a', 'b'] }]");
    done(&hashed.apply(&["--yes"]).output().unwrap());
    let place = databases.place("a");
    let other = databases.fleet(&["a", "c"], "[{ tags = ['*'], hash = ['a', 'c'] }]");
    let said = refused(&other.apply(&["--yes"]).output().unwrap());
    assert!(said.contains("--former"), "{said}");
    let said = other.apply(&["--former", "/nonexistent/old.toml"]).output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("argument --former: "), "{said}");
    databases.mariadb.kill();
    // The other store's tags are available meanwhile.
    let mut host = hashed.host();
    host.start();
    let mut raw = host.raw();
    eventually("it is ready", WITHIN, || raw.info().segments_ready.then_some(()));
    let shown = Command::new(leafd_binary().with_file_name("leafctl"))
        .args(["status", "--socket", host.socket().to_str().unwrap()])
        .output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    // The URL's parameters are not shown.
    let store = |name: &str, url: String, is: &str| {
        format!("STORE {name} ({}): {is}\n", url.split('?').next().unwrap())
    };
    assert!(shown.contains(&store("a", databases.url("a"), "ready")), "{shown}");
    assert!(shown.contains("ERROR store away (b)"), "{shown}");
    assert!(shown.contains(&store("b", databases.url("b"), "NOT READY")), "{shown}");
    host.stop();
    let all = databases.fleet(&["a", "b", "c"], "[{ tags = ['*'], hash = ['a', 'b', 'c'] }]");
    let said = refused(&all.apply(&["--yes"]).output().unwrap());
    assert!(said.contains("every store must be reachable"), "{said}");
    assert_eq!((databases.place("a"), databases.place("c")), (place, String::new()));
    databases.mariadb.start();
    done(&all.apply(&["--yes"]).output().unwrap());
    assert!(databases.place("c").starts_with("store c, of: "));
}

/// A restore brings back a primary's former era, and its ids. The other primary reports the later era, and a host
/// remembers it across a restart.
#[test]
fn a_primary_restored_from_a_former_era_is_refused_by_hosts_of_that_era() {
    let mut databases = Databases::new();
    let fleet = |era: u32| {
        let routes = format!("[{{ tags = ['*'], primaries = ['a', 'b'], era = {era} }}]");
        databases.fleet(&["a", "b"], &routes)
    };
    done(&fleet(1).apply(&["--yes"]).output().unwrap());
    let mut host = fleet(1).host();
    host.start();
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "orders", "step": STEP }));
    let mut drawn = Drawn::default();
    drawn.add_ids("orders", &host.raw().draw("orders", 100));
    let backup = databases.postgres.dump(DATABASE);
    done(&fleet(2).apply(&["--yes"]).output().unwrap());
    drain(&mut host.raw(), "orders", &mut drawn);
    databases.postgres.restore_over(DATABASE, &backup);
    assert!(databases.place("a").contains(", era 1, "), "{}", databases.place("a"));
    let before = databases.sql("a", "SELECT max_id FROM leaf_alloc");
    for _ in 0..2 {
        let mut raw = host.raw();
        eventually("the later era is named", WITHIN, || {
            raw.send(&ids_request("orders", 1, 1, 300));
            let reply = raw.reply();
            assert_ne!(reply.status(), Status::Ok, "an id of the former era");
            (reply.status() == Status::StoreRefused && reply.text().contains("recorded era 2"))
                .then_some(())
        });
        host.stop();
        databases.mariadb.stop();
        host.start();
    }
    assert_eq!(databases.sql("a", "SELECT max_id FROM leaf_alloc"), before);
}

/// The lists are a and b, then a, b and c, then c and a, then these in another order, twice. Each change has a new era,
/// runs while daemons with the former era are under load, and is killed at various points.
#[test]
fn no_id_comes_twice_over_changes_of_era() {
    let mut random = seeds(1).next().expect("one seed");
    let databases = Databases::new();
    let fleet = |names: &[&'static str], era: u32| {
        let list: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        let list = list.join(", ");
        databases.fleet(names, &format!("[{{ tags = ['*'], primaries = [{list}], era = {era} }}]"))
    };
    let tags: Vec<String> = (0..TAGS).map(|number| format!("events.{number}")).collect();
    let mut drawn = Drawn::default();
    let mut present = fleet(&["a", "b"], 1);
    let mut hosts: Vec<Host> = (0..2).map(|_| present.host()).collect();
    hosts.iter_mut().for_each(Host::start);
    for tag in &tags {
        let body = json!({ "tag": tag, "step": STEP, "ceiling": CEILING });
        hosts[0].admin(opcode::TAG_CREATE, &body);
    }
    let mut kills = 0;
    let lists = [&["a", "b", "c"][..], &["c", "a"], &["a", "c"], &["c", "a"]];
    for (names, era) in lists.into_iter().zip(2..) {
        for tag in &tags {
            for host in &hosts {
                drawn.add_ids(tag, &host.raw().draw(tag, 30));
            }
        }
        let next = fleet(names, era);
        let wrong_era = refused(&fleet(names, era - 1).apply(&[]).output().unwrap());
        // The third list omits a store.
        let advice = if era == 3 { "--former".to_owned() } else { format!("set its era to {era}") };
        assert!(wrong_era.contains(&advice), "{wrong_era}");
        let former = hosts[0].path("former.toml");
        let text = format!("stores = {}\nroutes = {}\n", present.stores_toml(), present.routes);
        fs::write(&former, text).unwrap();
        let words = ["--yes", "--former", former.to_str().unwrap()];
        let draws = hosts.iter().flat_map(|host| {
            tags[..3].iter().map(|tag| Draw::steady(&host.socket(), tag)).collect::<Vec<_>>()
        });
        let load = Load::start(draws.collect());
        load.under_way();
        // When the first store is frozen, when the last one is, when the first one has its new role, and then at
        // random.
        let is_done = format!(", era {era}, ");
        let points: [(&str, &str, &str); 3] =
            [("a", "frozen, ", ""), ("c", "frozen, ", ""), ("a", "primary ", &is_done)];
        for (name, begins, holds) in points {
            kills += u32::from(killed_when(next.apply(&words), || {
                let place = databases.place(name);
                place.starts_with(begins) && place.contains(holds)
            }));
        }
        for _ in 0..2 {
            let end = Instant::now() + Duration::from_millis(random.u64(20..500));
            kills += u32::from(killed_when(next.apply(&words), || Instant::now() >= end));
        }
        done(&next.apply(&words).output().unwrap());
        for host in &hosts {
            for tag in &tags[..5] {
                drain(&mut host.raw(), tag, &mut drawn);
            }
        }
        drawn.add(load.stop());
        // One host has drawn before, and one is new.
        hosts[1] = next.host();
        hosts[0].stop();
        next.configure(&mut hosts[0]);
        hosts.iter_mut().for_each(Host::start);
        for tag in &tags {
            for host in &hosts {
                eventually("ids of the new era", WITHIN, || {
                    let mut raw = host.raw();
                    raw.send(&ids_request(tag, 60, 1, 2_000));
                    let reply = raw.reply();
                    (reply.status() == Status::Ok).then(|| drawn.add_ids(tag, &reply.ids()))
                });
            }
        }
        assert_eq!(drawn.duplicates(), 0);
        present = next;
    }
    let shown = hosts[0].admin(opcode::TAG_SHOW, &json!({ "tag": tags[7] }));
    assert_eq!(shown["ceiling"], CEILING);
    // The gaps are small: a few claims for each tag and daemon.
    let highest: BTreeMap<&String, u64> =
        drawn.ids.iter().map(|(tag, ids)| (tag, *ids.last().unwrap())).collect();
    assert!(highest[&tags[TAGS - 1]] < 40_000, "{highest:?}");
    assert_eq!(databases.place("b"), "retired");
    assert!(kills > 0, "the command was never killed before its end");
    println!(
        "{} ids of {} tags over four changes of era, {kills} kills",
        drawn.count(),
        tags.len()
    );
}
