//! The table of Leaf's fork, with the fork's hosts beside ours.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use ::mysql::prelude::Queryable as _;
use leafd::registry::Registry as _;
use leafd::store::{Store, mysql};
use leafd_core::registry::{Entry, Holder, LeaseRecord, Mode, RegistryError};
use leafd_core::store::StartToken;
use leafd_core::{UnixMs, WorkerId};

use crate::mysql::{Database, client, shared};
use crate::mysqld::Engine;
use crate::tables::{AsRegistry, Tables};
use crate::together::Together;
use crate::{conflict, entry, held, holder, holding, refused, snapshot, take};

/// As a host of the fork enters itself, with the number that the table counts up to.
fn enter(backend: &mut impl Tables, number: u64, port: &str, time: u64) {
    backend.sql(&format!(
        "INSERT INTO leaf_workerid_alloc (id, ip, port, ip_port, max_timestamp)
         VALUES ({number}, '10.0.0.1', '{port}', '10.0.0.1:{port}', {time})"
    ));
}

fn of_fork(worker: u64, port: &str, bound: u64, time: u64) -> Entry {
    let id = format!("10.0.0.1:{port}");
    let incarnation = StartToken("".into());
    let holder = Holder { id: id.as_str().into(), name: id.into(), incarnation };
    let holding = LeaseRecord { holder: Some(holder), expires: UnixMs(bound) };
    Entry { worker: WorkerId(worker), holding, seen: UnixMs(time), written: UnixMs(time) }
}

pub fn numbers_given_for_good_are_not_leased(backend: &mut impl Tables) {
    const LAST: u64 = i64::MAX as u64;
    let mut registry = backend.connect(Mode::Leased);
    take(&mut *registry, 2, None, &held("a", 100)).unwrap();
    enter(backend, 1, "8080", 50);
    let taken = of_fork(1, "8080", LAST, 50);
    assert_eq!(entry(&mut *registry, 1), Some(taken.clone()));
    conflict(take(&mut *registry, 1, None, &held("a", 200)), 1, Some(&taken));
    let by_force = take(&mut *registry, 1, Some(&taken.holding), &held("a", 200));
    refused(by_force, &["10.0.0.1:8080", "leaf_workerid_alloc"]);
    // The fork takes no notice of what is leased. Our host then learns that it has lost its number.
    enter(backend, 2, "8081", 60);
    let lost = of_fork(2, "8081", LAST, 60);
    conflict(take(&mut *registry, 2, Some(&held("a", 100)), &held("a", 200)), 2, Some(&lost));
    assert_eq!(snapshot(&mut *registry, 0..3).entries, [taken, lost]);
}

/// The table counts on from its highest number, and its hosts don't look at what is leased.
pub fn numbers_that_the_forks_next_hosts_get_are_not_leased(backend: &mut impl Tables) {
    let mut registry = backend.connect(Mode::Leased);
    take(&mut *registry, 9, None, &held("a", 100)).unwrap();
    take(&mut *registry, 50, None, &held("b", 100)).unwrap();
    assert_eq!(snapshot(&mut *registry, 0..1024).entries.len(), 2);
    enter(backend, 8, "8080", 50);
    let kept_out = holding(&mut *registry, 9).unwrap();
    assert_eq!((kept_out.holder, kept_out.expires.0), (None, i64::MAX as u64));
    let renewed = take(&mut *registry, 9, Some(&held("a", 100)), &held("a", 200));
    assert!(matches!(renewed, Err(RegistryError::Conflict { .. })), "{renewed:?}");
    let new = take(&mut *registry, 10, None, &held("c", 200));
    assert!(matches!(new, Err(RegistryError::Conflict { .. })), "{new:?}");
    // The ones below and far above are free.
    take(&mut *registry, 7, None, &held("c", 200)).unwrap();
    take(&mut *registry, 50, Some(&held("b", 100)), &held("b", 200)).unwrap();
}

pub fn a_host_of_the_fork_is_taken_over_in_place(backend: &mut impl Tables) {
    enter_after_look(backend);
    let mut registry = backend.connect(Mode::Permanent);
    let under = snapshot(&mut *registry, 0..0).registry;
    let was = of_fork(7, "8080", 5000, 5000);
    assert_eq!(snapshot(&mut *registry, 0..1024).entries, std::slice::from_ref(&was));
    assert_eq!(registry.assign(&under, 0..1024, &held("8080", 1)).unwrap(), was);
    let ours = held("8080", 8000);
    take(&mut *registry, 7, Some(&was.holding), &ours).unwrap();
    assert_eq!(time_of(backend, 7), 8000);
    // What the fork's host writes is lower while it runs behind our bound, and doesn't count.
    backend.sql("UPDATE leaf_workerid_alloc SET max_timestamp = 6000 WHERE id = 7");
    assert_eq!(holding(&mut *registry, 7), Some(ours.clone()));
    take(&mut *registry, 7, Some(&ours), &held("8080", 7000)).unwrap();
    assert_eq!(time_of(backend, 7), 7000);
    // Above our bound it shows that somebody else goes by this name.
    backend.sql("UPDATE leaf_workerid_alloc SET max_timestamp = 9000 WHERE id = 7");
    let both = entry(&mut *registry, 7).unwrap();
    assert_eq!(both.holding, held("8080", 9000));
    conflict(take(&mut *registry, 7, Some(&held("8080", 7000)), &ours), 7, Some(&both));
    // The number goes to another host by hand: it starts above all that was written.
    backend.sql("UPDATE leaf_workerid_alloc SET ip_port = '10.0.0.1:9999', max_timestamp = NULL WHERE id = 7");
    assert_eq!(entry(&mut *registry, 7), Some(of_fork(7, "9999", 7000, 0)));
    refused(take(&mut *registry, 7, Some(&of_fork(7, "9999", 7000, 0).holding), &ours), &["9999"]);
    let next = held("9999", 9500);
    take(&mut *registry, 7, Some(&of_fork(7, "9999", 7000, 0).holding), &next).unwrap();
    assert_eq!((holding(&mut *registry, 7), time_of(backend, 7)), (Some(next), 9500));
}

fn enter_after_look(backend: &mut impl Tables) {
    // The embedded store makes its tables when it is opened.
    snapshot(&mut *backend.connect(Mode::Permanent), 0..0);
    enter(backend, 7, "8080", 5000);
}

/// What the fork's host would read, by the only way that every backend has.
fn time_of(backend: &mut impl Tables, number: u64) -> u64 {
    backend.sql(&format!(
        "INSERT INTO leafd_worker (worker, bound, seen, written)
         SELECT 1000000, max_timestamp, 0, 0 FROM leaf_workerid_alloc WHERE id = {number}"
    ));
    let found = holding(&mut *backend.connect(Mode::Leased), 1_000_000).unwrap();
    backend.sql("DELETE FROM leafd_worker WHERE worker = 1000000");
    found.expires.0
}

pub fn numbers_count_on_from_the_highest(backend: &mut impl Tables) {
    enter_after_look(backend);
    enter(backend, 5000, "5000", 1);
    let mut registry = backend.connect(Mode::Permanent);
    let under = snapshot(&mut *registry, 0..0).registry;
    let given = registry.assign(&under, 0..1024, &held("1", 5)).unwrap();
    assert_eq!(given.worker, WorkerId(8));
    backend.sql("DELETE FROM leaf_workerid_alloc WHERE id = 7");
    assert_eq!(registry.assign(&under, 0..1024, &held("2", 5)).unwrap().worker, WorkerId(9));
    // Nor does a number come back that leafd has written of.
    backend.sql("DELETE FROM leaf_workerid_alloc WHERE id IN (8, 9)");
    assert_eq!(registry.assign(&under, 0..1024, &held("3", 5)).unwrap().worker, WorkerId(1));
    assert_eq!(registry.assign(&under, 8..1024, &held("4", 5)).unwrap().worker, WorkerId(10));
    let outside = registry.assign(&under, 0..1024, &held("5000", 5));
    match outside {
        Err(RegistryError::Exhausted(words)) => {
            assert!(words.contains("5000") && words.contains("1023"), "{words}");
        }
        other => panic!("{other:?}"),
    }
    // Names without a port have none.
    let named = Holder { id: "host-1".into(), ..holder("a") };
    let named = LeaseRecord { holder: Some(named), expires: UnixMs(1) };
    assert_eq!(registry.assign(&under, 0..1024, &named).unwrap().holding, named);
}

pub fn odd_numbers_are_not_used(backend: &mut impl Tables) {
    snapshot(&mut *backend.connect(Mode::Permanent), 0..0);
    for (number, identity, time) in [
        ("1", "10.0.0.1 :80", "5"),
        ("2", "10.0.0.1:81", "-5"),
        ("3", "10.0.0.1:82", "NULL"),
        ("-4", "10.0.0.1:83", "5"),
        ("0", "10.0.0.1:84", "5"),
    ] {
        // MySQL takes 0 for the next number, unless it is set later.
        let first = if number == "0" { "900" } else { number };
        backend.sql(&format!(
            "INSERT INTO leaf_workerid_alloc (id, ip_port, max_timestamp) VALUES ({first}, '{identity}', {time})"
        ));
        backend.sql(&format!(
            "UPDATE leaf_workerid_alloc SET id = {number} WHERE ip_port = '{identity}'"
        ));
    }
    let mut permanent = backend.connect(Mode::Permanent);
    let under = snapshot(&mut *permanent, 0..0).registry;
    let mut assign = |port: &str| permanent.assign(&under, 0..1024, &held(port, 5));
    refused(assign("81"), &["worker 2 ", "its max_timestamp is \"-5\""]);
    assert_eq!(assign("82").unwrap(), of_fork(3, "82", 0, 0));
    refused(assign("83"), &["10.0.0.1:83", "no usable id"]);
    assert_eq!(assign("84").unwrap(), of_fork(0, "84", 5, 5));
    assert_eq!(assign("85").unwrap().worker, WorkerId(4));
    for mode in [Mode::Leased, Mode::Permanent] {
        let mut registry = backend.connect(mode);
        let entries = snapshot(&mut *registry, 0..5).entries;
        assert!(entries.iter().map(|entry| entry.worker.0).eq(0..5), "{entries:?}");
        for worker in [1, 2] {
            let found = &entries[worker as usize];
            assert_eq!(found.holding.expires, UnixMs(i64::MAX as u64));
            assert!(found.holding.holder.is_none());
        }
        let by_force = take(&mut *registry, 2, None, &held("81", 9));
        match mode {
            Mode::Leased => conflict(by_force, 2, Some(&entries[2])),
            Mode::Permanent => refused(by_force, &["worker 2 ", "its max_timestamp"]),
        }
    }
}

// --- As the fork's own scripts make it ---

/// The table in the database's own collation, with the columns that one of them has beside those that count.
fn table_of_fork(name: &str, columns: &str, engine: &str) -> Database {
    let mut database = Database::without_tables();
    database.execute(&format!("ALTER DATABASE {} COLLATE utf8mb4_general_ci", database.name()));
    database.execute(&format!(
        "CREATE TABLE leaf_workerid_alloc (id bigint(20) NOT NULL AUTO_INCREMENT, ip varchar(127), port varchar(127),
         ip_port varchar(127) NOT NULL, max_timestamp bigint(20), {columns}, PRIMARY KEY (id),
         UNIQUE KEY {name} (ip_port)) ENGINE = {engine} AUTO_INCREMENT = 0"
    ));
    database
}

fn permanent(store: Box<Store>) -> AsRegistry {
    AsRegistry { store, mode: Mode::Permanent }
}

#[test]
fn tables_of_the_fork_are_used_as_they_are() {
    let shapes = [
        "gmt_create timestamp NULL, gmt_modified timestamp NULL ON UPDATE CURRENT_TIMESTAMP",
        "create_time timestamp NULL, update_time timestamp NULL ON UPDATE CURRENT_TIMESTAMP",
    ];
    for shape in shapes {
        let database = table_of_fork("by_address", shape, "InnoDB");
        let enter = |port: u16| {
            let mut fork = client(shared(Engine::MariaDb), database.name()).unwrap();
            fork.query_drop(format!(
                "INSERT INTO leaf_workerid_alloc (ip_port, ip, port, max_timestamp)
                 VALUES ('10.0.0.1:{port}', '10.0.0.1', '{port}', 77)"
            ))
            .unwrap();
            fork.last_insert_id()
        };
        assert_eq!(enter(8080), 1);
        assert!(
            !mysql::ENGINE
                .apply(&database.target("root"))
                .unwrap()
                .contains(&"leaf_workerid_alloc")
        );
        let mut registry = permanent(database.connect_as("root"));
        let under = snapshot(&mut registry, 0..0).registry;
        let mut assign = |name: &str| registry.assign(&under, 0..1024, &held(name, 5));
        assert_eq!(assign("8080").unwrap(), of_fork(1, "8080", 77, 77));
        assert_eq!(assign("8081").unwrap().worker, WorkerId(2));
        // The fork counts on from ours, and we from the fork's.
        assert_eq!(enter(8082), 3);
        assert_eq!(assign("8083").unwrap().worker, WorkerId(4));
        assign("host").unwrap();
        refused(assign("HOST"), &["10.0.0.1:host", "10.0.0.1:HOST", "collation"]);
        refused(assign(&"9".repeat(127)), &["ip_port"]);
    }
}

/// Hosts of the fork look for their row and enter one, without a lock; some of ours go by the same names.
#[test]
fn hosts_of_the_fork_and_ours_enter_at_once() {
    const ROUNDS: u16 = 40;
    let database = Database::new();
    let mut registry = permanent(database.connect_as("root"));
    let under = snapshot(&mut registry, 0..0).registry;
    let together = Together::new(2);
    let (theirs, ours) = thread::scope(|scope| {
        let fork = scope.spawn(|| {
            let mut fork = client(shared(Engine::MariaDb), database.name()).unwrap();
            let enter = |port: u16| {
                together.wait();
                let row = format!("'10.0.0.1:{port}', '10.0.0.1', '{port}', 77");
                // It falls back to its file when the other one was faster.
                let entered = fork.query_drop(format!(
                    "INSERT INTO leaf_workerid_alloc (ip_port, ip, port, max_timestamp) VALUES ({row})"
                ));
                entered.ok().map(|()| (port, fork.last_insert_id()))
            };
            (0..ROUNDS).filter_map(enter).collect::<Vec<_>>()
        });
        let assign = |port: u16| {
            together.wait();
            // Every second one is the same host.
            let port = if port.is_multiple_of(2) { port } else { port + ROUNDS };
            let holding = held(&port.to_string(), 5);
            let bound = registry.assign(&under, 0..1024, &holding).unwrap();
            (port, bound.worker.0)
        };
        let ours: Vec<_> = (0..ROUNDS).map(assign).collect();
        (fork.join().unwrap(), ours)
    });
    let numbers: BTreeMap<_, _> = theirs.iter().chain(&ours).copied().collect();
    for (port, number) in theirs.iter().chain(&ours) {
        assert_eq!(numbers[port], *number, "two numbers for {port}");
    }
    let distinct: BTreeSet<_> = numbers.values().collect();
    assert_eq!(distinct.len(), numbers.len(), "{numbers:?}");
    assert_eq!(snapshot(&mut registry, 0..1024).entries.len(), numbers.len());
}

#[test]
fn a_table_that_forgets_is_refused_and_tags_go_on() {
    let mut database = table_of_fork("by_address", "create_time timestamp NULL", "Aria");
    let error = mysql::ENGINE.apply(&database.target("root")).unwrap_err().to_string();
    assert!(error.contains("leaf_workerid_alloc has the engine Aria instead of InnoDB"), "{error}");
    database.execute("DROP TABLE leaf_workerid_alloc");
    mysql::ENGINE.apply(&database.target("root")).unwrap();
    database.execute("ALTER TABLE leaf_workerid_alloc ENGINE = Aria");
    let mut registry = permanent(database.connect_as("root"));
    refused(registry.snapshot(0..9), &["the engine Aria"]);
    registry.store.list(None, 9).unwrap();
}

/// As many as have numbers of different lengths.
pub fn leased_numbers_are_not_given(backend: &mut dyn Tables) {
    backend.fill(0..12);
    let mut registry = backend.connect(Mode::Permanent);
    let under = snapshot(&mut *registry, 0..0).registry;
    for number in [12, 13] {
        let mine = held(&format!("host-{number}"), 5);
        assert_eq!(registry.assign(&under, 0..20, &mine).unwrap().worker.0, number);
    }
}
