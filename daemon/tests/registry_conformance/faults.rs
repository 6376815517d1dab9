//! Missing privileges and tables, histories that change, and servers that go away.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::mysql::prelude::Queryable as _;
use leafd::registry::Registry;
use leafd::store::sql::Target;
use leafd::store::{Store, StoreHandle, mysql, postgres};
use leafd_core::Tag;
use leafd_core::registry::{Mode, RegistryError};
use leafd_core::store::{CEILING_MAX, ClaimWish, NewTag, Why};

use crate::mysqld::Engine;
use crate::server::Server;
use crate::tables::{AsRegistry, Tables};
use crate::{HOUR, compare_and_set, held, holding, refused, snapshot, take};

fn leased(store: Box<Store>) -> AsRegistry {
    AsRegistry { store, mode: Mode::Leased }
}

fn new_tag(name: &str) -> NewTag {
    let tag = Tag::parse(name.as_bytes()).unwrap();
    NewTag {
        tag,
        start: 1,
        step: 10,
        ceiling: CEILING_MAX,
        strict: false,
        masked: None,
        description: None,
    }
}

/// Tags are claimed from as if nothing was missing.
#[track_caller]
fn claims_go_on(store: &mut Store) {
    let under = store.identity().unwrap();
    let tag = Tag::parse(b"orders").unwrap();
    store.claim(None, &under, &tag, ClaimWish::new(1, 10), None).unwrap();
}

#[track_caller]
fn unavailable<T: Debug>(result: Result<T, RegistryError>) {
    assert!(matches!(result, Err(RegistryError::Unavailable { .. })), "{result:?}");
}

const ROW: &str = "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 10)";

// --- Privileges ---

/// Refused because the user lacks privileges on this table.
#[track_caller]
fn denied<T: Debug>(result: Result<T, RegistryError>, table: &str) {
    match result {
        Err(RegistryError::Refused(reason)) => {
            assert_eq!(reason.why, Why::MissingPrivileges, "{reason:?}");
            assert!(reason.words.contains(table), "{reason:?} lacks {table}");
        }
        other => panic!("{other:?}"),
    }
}

/// Everything that is refused to a user who may see the tables of tags, and of workers what `grant` gave before.
fn privileges_are_named(store: Box<Store>, mut grant: impl FnMut(&str, &str)) {
    let mut registry = leased(store);
    claims_go_on(&mut registry.store);
    let layouts = [(Tag::parse(b"snowflake").unwrap(), leafd_wire::Layout::LEAF)];
    let hidden = registry.snapshot(0..9);
    assert!(matches!(hidden, Err(RegistryError::Refused(_))), "{hidden:?}");
    for table in ["leafd_worker", "leafd_worker_taken", "leafd_layout", "leaf_workerid_alloc"] {
        grant("SELECT", table);
    }
    assert_eq!(snapshot(&mut registry, 0..9).entries, []);
    denied(take(&mut registry, 1, None, &held("a", 5)), "leafd_worker");
    denied(registry.register_layouts(&layouts), "leafd_layout");
    for table in ["leafd_worker", "leafd_layout"] {
        grant("INSERT, UPDATE", table);
    }
    denied(take(&mut registry, 1, None, &held("a", 5)), "leafd_worker_taken");
    grant("INSERT", "leafd_worker_taken");
    take(&mut registry, 1, None, &held("a", 5)).unwrap();
    take(&mut registry, 1, Some(&held("a", 5)), &held("a", 6)).unwrap();
    registry.register_layouts(&layouts).unwrap();
    let under = snapshot(&mut registry, 0..0).registry;
    registry.mode = Mode::Permanent;
    denied(registry.assign(&under, 0..9, &held("a", 5)), "leaf_workerid_alloc");
    grant("INSERT, UPDATE", "leaf_workerid_alloc");
    let number = registry.assign(&under, 0..9, &held("a", 5)).unwrap().worker.0;
    take(&mut registry, number, Some(&held("a", 5)), &held("a", 6)).unwrap();
    claims_go_on(&mut registry.store);
}

const OF_TAGS: [(&str, &str); 5] = [
    ("SELECT, UPDATE", "leaf_alloc"),
    ("SELECT, INSERT, UPDATE", "leafd_meta"),
    ("SELECT, INSERT, UPDATE", "leafd_tag"),
    ("SELECT, INSERT, UPDATE", "leafd_host"),
    ("SELECT, INSERT, DELETE", "leafd_claim"),
];

#[test]
fn privileges_are_named_by_mariadb() {
    let mut database = crate::mysql::Database::new();
    database.execute(ROW);
    database.execute("CREATE USER IF NOT EXISTS worker@localhost");
    let grant = |database: &mut crate::mysql::Database, privileges: &str, table: &str| {
        let name = database.name().to_owned();
        database.execute(&format!("GRANT {privileges} ON {name}.{table} TO worker@localhost"));
    };
    for (privileges, table) in OF_TAGS {
        grant(&mut database, privileges, table);
    }
    let store = database.connect_as("worker");
    privileges_are_named(store, |privileges, table| grant(&mut database, privileges, table));
}

#[test]
fn privileges_are_named_by_postgres() {
    let mut database = crate::postgres::Database::new();
    database.execute(ROW);
    database.execute(
        "DO $$ BEGIN CREATE ROLE worker LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
    );
    for (privileges, table) in OF_TAGS {
        database.execute(&format!("GRANT {privileges} ON {table} TO worker"));
    }
    let store = database.connect_as("worker");
    privileges_are_named(store, |privileges, table| {
        database.execute(&format!("GRANT {privileges} ON {table} TO worker"));
    });
}

// --- Tables ---

/// Dropped under an open connection too.
fn missing_tables_are_named(store: Box<Store>, mut sql: impl FnMut(&str), apply: impl Fn()) {
    let mut registry = leased(store);
    sql(ROW);
    snapshot(&mut registry, 0..9);
    for table in ["leafd_worker", "leaf_workerid_alloc"] {
        sql(&format!("DROP TABLE {table}"));
        // On the connection that knew them, and on a new one.
        for _ in 0..2 {
            refused(registry.snapshot(0..9), &[table, "leafd schema apply"]);
            claims_go_on(&mut registry.store);
        }
        apply();
        assert_eq!(snapshot(&mut registry, 0..9).entries, []);
    }
    sql("ALTER TABLE leafd_worker DROP COLUMN seen");
    refused(registry.snapshot(0..9), &["seen"]);
    refused(registry.snapshot(0..9), &["leafd_worker lacks the column seen"]);
    claims_go_on(&mut registry.store);
}

#[test]
fn missing_tables_are_named_on_mariadb() {
    let mut database = crate::mysql::Database::new();
    let target = database.target("root");
    let store = database.connect_as("root");
    let apply = || drop(mysql::ENGINE.apply(&target).unwrap());
    missing_tables_are_named(store, |sql| database.execute(sql), apply);
}

#[test]
fn missing_tables_are_named_on_postgres() {
    let mut database = crate::postgres::Database::new();
    let target = database.target("postgres");
    let store = database.connect_as("postgres");
    let apply = || drop(postgres::ENGINE.apply(&target).unwrap());
    missing_tables_are_named(store, |sql| database.execute(sql), apply);
}

#[test]
fn where_only_leafs_table_is_no_worker_can_be_had() {
    let mut mariadb = crate::mysql::Database::without_tables();
    mariadb.execute(
        "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint, step int, description text,
         update_time timestamp)",
    );
    let mut postgres = crate::postgres::Database::without_tables();
    postgres.execute(
        "CREATE TABLE leaf_alloc (biz_tag text PRIMARY KEY, max_id bigint, step int, description text,
         update_time timestamp)",
    );
    let only = |target: Target| Target { leaf_only: true, ..target };
    let stores: [Box<Store>; 2] = [
        Box::new(leafd::store::mysql::ENGINE.open(only(mariadb.target("root")))),
        Box::new(leafd::store::postgres::ENGINE.open(only(postgres.target("postgres")))),
    ];
    mariadb.execute(ROW);
    postgres.execute(ROW);
    for store in stores {
        let mut registry = leased(store);
        let words = ["only Leaf's table", "snowflake workers", "leafd schema apply"];
        refused(registry.snapshot(0..9), &words);
        refused(registry.register_layouts(&[]), &words);
        claims_go_on(&mut registry.store);
    }
}

// --- Histories ---

pub fn a_declared_loss_changes_the_history(backend: &mut impl Tables) {
    let mut registry = leased(backend.store());
    take(&mut registry, 1, None, &held("a", 5)).unwrap();
    let before = snapshot(&mut registry, 0..9);
    assert!(before.history_age.unwrap() > HOUR);
    let was = registry.store.identity().unwrap();
    let mut other = backend.store();
    assert!(other.renew(&was, None).unwrap());
    let stale = registry
        .compare_and_set(&before.registry, &compare_and_set(1, Some(&held("a", 5)), &held("a", 6)));
    let Err(RegistryError::Changed { expected, found }) = stale else { panic!("{stale:?}") };
    let after = snapshot(&mut registry, 0..9);
    assert_eq!((&expected, &found), (&before.registry, &after.registry));
    assert_eq!(found.id, expected.id);
    assert_eq!(after.entries, before.entries);
    // Seen just now, and no claim was made since. Each host measures the time for itself.
    let age = after.history_age.unwrap();
    assert!(age < HOUR, "{age:?}");
    std::thread::sleep(Duration::from_millis(20));
    let seen = snapshot(&mut registry, 0..9).history_age.unwrap();
    assert!(seen >= age + Duration::from_millis(15), "{seen:?} {age:?}");
    registry
        .compare_and_set(&found, &compare_and_set(1, Some(&held("a", 5)), &held("a", 6)))
        .unwrap();
    assert!(snapshot(&mut registry, 0..9).history_age.unwrap() < HOUR, "a renewal is no claim");
    // A worker may be a lease that the store had lost, so it proves nothing.
    let mut other = leased(other);
    take(&mut other, 2, None, &held("b", 5)).unwrap();
    assert!(snapshot(&mut registry, 0..9).history_age.unwrap() < HOUR);
    // From the first claim of ids on nobody needs to wait.
    let under = other.store.identity().unwrap();
    other.store.create(&under, &new_tag("orders")).unwrap();
    claims_go_on(&mut other.store);
    assert!(snapshot(&mut registry, 0..9).history_age.unwrap() > HOUR);
}

/// A role among several stores has nothing to do with workers.
pub fn a_role_changes_nothing(backend: &mut impl Tables) {
    let mut registry = leased(backend.store());
    let before = snapshot(&mut registry, 0..0).registry;
    let under = registry.store.identity().unwrap();
    registry.store.take_role(&under, &leafd_core::store::Role("1 of 2".into())).unwrap();
    assert_eq!(snapshot(&mut registry, 0..0).registry, before);
    registry.compare_and_set(&before, &compare_and_set(1, None, &held("a", 5))).unwrap();
}

// --- One connection ---

/// Tags are claimed and a worker is renewed by many tasks over one store.
pub fn claims_and_swaps_share_a_connection(backend: &mut impl Tables) {
    const ROUNDS: u64 = 25;
    let mut store = backend.store();
    let under = store.identity().unwrap();
    store.create(&under, &new_tag("orders")).unwrap();
    let registry = snapshot(&mut leased(backend.store()), 0..0).registry;
    let handle = StoreHandle::spawn("store", store).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let under = Arc::new(under);
        let claims: Vec<_> = (0..4)
            .map(|_| {
                let (handle, under) = (handle.clone(), Arc::clone(&under));
                tokio::spawn(async move {
                    let tag = Tag::parse(b"orders").unwrap();
                    let mut starts = Vec::new();
                    for _ in 0..ROUNDS {
                        let (under, tag, wish) =
                            (Arc::clone(&under), tag.clone(), ClaimWish::new(1, 10));
                        let claim =
                            handle.call(move |store| store.claim(None, &under, &tag, wish, None));
                        starts.push(claim.await.unwrap().run.first);
                    }
                    starts
                })
            })
            .collect();
        let mut expected = None;
        for bound in 0..ROUNDS {
            let (under, next) = (registry.clone(), held("a", bound));
            let asked = compare_and_set(3, expected.as_ref(), &next);
            let swap = move |store: &mut Store| {
                Ok(store.workers(Mode::Leased).compare_and_set(&under, &asked))
            };
            handle.call(swap).await.unwrap().unwrap();
            expected = Some(next);
        }
        let mut starts = Vec::new();
        for claims in claims {
            starts.extend(claims.await.unwrap());
        }
        starts.sort_unstable();
        assert!(
            starts.iter().copied().eq((0..4 * ROUNDS).map(|claim| 1 + 10 * claim)),
            "{starts:?}"
        );
        let look = |store: &mut Store| Ok(store.workers(Mode::Leased).snapshot(0..9));
        let seen = handle.call(look).await.unwrap().unwrap();
        assert_eq!(seen.entries[0].holding, expected.unwrap());
    });
}

// --- Locks ---

/// A swap that has waited for another one judges by the clock of its own turn.
fn the_clock_is_read_after_the_wait(
    store: Box<Store>,
    looking: Box<Store>,
    hold: impl FnOnce() -> Box<dyn FnOnce()>,
) {
    let (mut registry, mut looking) = (leased(store), leased(looking));
    take(&mut registry, 1, None, &held("a", 5)).unwrap();
    let under = snapshot(&mut looking, 0..0).registry;
    let release = hold();
    let renewing = std::thread::spawn(move || {
        registry
            .compare_and_set(&under, &compare_and_set(1, Some(&held("a", 5)), &held("a", 6)))
            .unwrap()
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(!renewing.is_finished(), "nothing kept it waiting");
    let waited = snapshot(&mut looking, 0..0).now;
    release();
    let now = renewing.join().unwrap();
    assert!(now >= waited, "{now:?} {waited:?}");
}

const HOLD: &str = "SELECT worker FROM leafd_worker WHERE worker = 1 FOR UPDATE";

#[test]
fn the_clock_is_read_after_the_wait_on_mariadb() {
    let database = crate::mysql::Database::new();
    let [store, looking] = [(); 2].map(|()| database.connect_as("root"));
    the_clock_is_read_after_the_wait(store, looking, || {
        let mut other =
            crate::mysql::client(crate::mysql::shared(Engine::MariaDb), database.name()).unwrap();
        other.query_drop("START TRANSACTION").unwrap();
        other.query_drop(HOLD).unwrap();
        Box::new(move || other.query_drop("COMMIT").unwrap())
    });
}

#[test]
fn the_clock_is_read_after_the_wait_on_postgres() {
    let database = crate::postgres::Database::new();
    let [store, looking] = [(); 2].map(|()| database.connect_as("postgres"));
    the_clock_is_read_after_the_wait(store, looking, || {
        let target = database.target("postgres");
        let shared = crate::postgres::shared();
        let mut other = crate::postgres::client(shared, &target.url.database).unwrap();
        other.batch_execute("BEGIN").unwrap();
        other.batch_execute(HOLD).unwrap();
        Box::new(move || other.batch_execute("COMMIT").unwrap())
    });
}

// --- Servers ---

fn away_and_back(mut server: Server, is_up: fn(&Server) -> bool, store: Box<Store>) {
    let mut registry = leased(store);
    take(&mut registry, 1, None, &held("a", 5)).unwrap();
    let before = snapshot(&mut registry, 0..9);
    server.kill();
    let renewal = compare_and_set(1, Some(&held("a", 5)), &held("a", 6));
    unavailable(registry.compare_and_set(&before.registry, &renewal));
    unavailable(registry.snapshot(0..9));
    unavailable(registry.register_layouts(&[]));
    server.start(is_up);
    let after = snapshot(&mut registry, 0..9);
    assert_eq!((&after.registry, &after.entries), (&before.registry, &before.entries));
    registry.compare_and_set(&before.registry, &renewal).unwrap();
    // Between two calls it goes unnoticed.
    server.stop();
    server.start(is_up);
    take(&mut registry, 1, Some(&held("a", 6)), &held("a", 7)).unwrap();
    // Not one of its processes answers.
    server.freeze();
    let begun = Instant::now();
    unavailable(registry.compare_and_set(
        &before.registry,
        &compare_and_set(1, Some(&held("a", 7)), &held("a", 8)),
    ));
    assert!(begun.elapsed() < 3 * BOUND, "{:?}", begun.elapsed());
    server.thaw();
    // It may have been carried out after all.
    let is = holding(&mut registry, 1).unwrap();
    assert!(is == held("a", 7) || is == held("a", 8), "{is:?}");
    take(&mut registry, 1, Some(&is), &held("a", 9)).unwrap();
}

const BOUND: Duration = Duration::from_secs(1);

fn bounded(target: Target) -> Target {
    Target { connect_timeout: BOUND, statement_timeout: BOUND, ..target }
}

#[test]
fn mariadb_goes_away_and_comes_back() {
    mysqld_goes_away_and_comes_back(Engine::MariaDb);
}

#[test]
fn mysql_goes_away_and_comes_back() {
    if Engine::Mysql.is_tested() {
        mysqld_goes_away_and_comes_back(Engine::Mysql);
    }
}

fn mysqld_goes_away_and_comes_back(engine: Engine) {
    let server = crate::mysql::new_server(engine, &[]);
    let target = crate::mysql::target(&server, "root", "ids");
    mysql::ENGINE.apply(&target).unwrap();
    let store = Box::new(mysql::ENGINE.open(bounded(target)));
    away_and_back(server, crate::mysql::is_up, store);
}

#[test]
fn postgres_goes_away_and_comes_back() {
    let server = crate::postgres::new_server(&[]);
    let target = crate::postgres::target(&server, "postgres", "postgres");
    postgres::ENGINE.apply(&target).unwrap();
    let store = Box::new(postgres::ENGINE.open(bounded(target)));
    away_and_back(server, crate::postgres::is_up, store);
}

#[test]
fn an_embedded_store_goes_away_and_comes_back() {
    let embedded = crate::tables::Embedded::new();
    let mut registry = leased(embedded.open());
    take(&mut registry, 1, None, &held("a", 5)).unwrap();
    let (path, aside) = (&embedded.path, embedded.path.with_extension("aside"));
    std::fs::rename(path, &aside).unwrap();
    unavailable(registry.snapshot(0..9));
    std::fs::rename(&aside, path).unwrap();
    assert_eq!(holding(&mut registry, 1), Some(held("a", 5)));
    // Another process keeps it for longer than a call waits.
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    unavailable(registry.snapshot(0..9));
    other.execute_batch("ROLLBACK").unwrap();
    take(&mut registry, 1, Some(&held("a", 5)), &held("a", 6)).unwrap();
}
