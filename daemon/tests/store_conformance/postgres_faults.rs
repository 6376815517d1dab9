//! PostgreSQL servers that are not as they should be, tables that others made, and rights that are missing.

use std::time::{Duration, Instant};

use leafd::config::StorePassword;
use leafd::store::{Store, postgres};
use leafd_core::store::{
    CheckIn, ClaimWish, Generation, History, HostId, Identity, Role, StartToken, StoreError,
    TagChange,
};
use nix::sys::signal::Signal;

use crate::identity::changed;
use crate::postgres::{Database, PASSWORD, client, is_up, new_server, shared, target, target_at};
use crate::tags::pages_are_complete;
use crate::{Backend, check_in, claim, generations, new_tag, raise, tag, try_claim};

const WISH: ClaimWish = ClaimWish::new(1, 1000);

#[track_caller]
fn unavailable(result: Result<impl std::fmt::Debug, StoreError>, part: &str) {
    match result {
        Err(StoreError::Unavailable { cause, .. }) => assert!(cause.contains(part), "{cause}"),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(result: Result<impl std::fmt::Debug, StoreError>, part: &str) {
    match result {
        Err(StoreError::Refused(words)) => assert!(words.contains(part), "{words}"),
        other => panic!("{other:?}"),
    }
}

fn url(hosts: &str) -> String {
    format!("postgres://postgres@{hosts}/postgres")
}

fn password(text: &str) -> StorePassword {
    StorePassword::Variable(text.to_owned())
}

#[test]
fn a_wrong_password_is_told_and_not_shown() {
    let host = format!("127.0.0.1:{}", shared().port);
    let result = postgres::open(target_at(&url(&host), password("hunter2"))).identity();
    let shown = format!("{result:?}");
    unavailable(result, "password authentication failed");
    assert!(!shown.contains("hunter2"), "{shown}");
    unavailable(postgres::open(target_at(&url(&host), StorePassword::None)).identity(), "password");
    refused(
        postgres::open(target_at(&url(&host), password(PASSWORD))).identity(),
        "leafd schema apply",
    );
}

#[test]
fn a_dead_first_host_and_a_read_only_one_are_passed_over() {
    let port = shared().port;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let read_only = new_server(&["default_transaction_read_only=on"]);
    let only = url(&format!("127.0.0.1:{}", read_only.port));
    unavailable(postgres::open(target_at(&only, password(PASSWORD))).identity(), "it is read-only");
    let hosts = format!("127.0.0.1:{closed},127.0.0.1:{},127.0.0.1:{port}", read_only.port);
    refused(
        postgres::open(target_at(&url(&hosts), password(PASSWORD))).identity(),
        "leafd schema apply",
    );
    let none = url(&format!("127.0.0.1:{closed}"));
    unavailable(postgres::open(target_at(&none, password(PASSWORD))).identity(), "refused");
}

#[test]
fn a_frozen_server_holds_a_call_no_longer_than_its_bound() {
    let server = new_server(&[]);
    let mut target = target(&server, "postgres", "postgres");
    postgres::apply(&target).unwrap();
    target.connect_timeout = Duration::from_millis(700);
    target.statement_timeout = Duration::from_millis(900);
    let mut store = postgres::open(target.clone());
    store.create(&new_tag("t", 1, 10)).unwrap();
    let under = store.identity().unwrap();
    for process in processes(&server) {
        nix::sys::signal::kill(process, Signal::SIGSTOP).unwrap();
    }
    let mut bounded = |bound_ms: u64| {
        let begun = Instant::now();
        unavailable(store.claim(&under, &tag("t"), WISH), "no answer");
        let took = begun.elapsed();
        assert!(took < Duration::from_millis(bound_ms + 400), "{took:?}");
    };
    // In a statement; then, with the connection given up, while logging in.
    bounded(900);
    bounded(700);
    for process in processes(&server) {
        nix::sys::signal::kill(process, Signal::SIGCONT).unwrap();
    }
    assert!(claim(&mut store, "t", 1).run.first >= 1);
}

/// The server's process and those of its connections.
fn processes(server: &crate::server::Server) -> Vec<nix::unistd::Pid> {
    let main = server.pid();
    let of_main = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        parent == Some(main.as_raw())
    };
    let names = std::fs::read_dir("/proc").unwrap().filter_map(|one| one.ok());
    let pids = names.filter_map(|one| one.file_name().to_str()?.parse().ok());
    let children = pids.filter(of_main).map(nix::unistd::Pid::from_raw);
    std::iter::once(main).chain(children).collect()
}

#[test]
fn a_restarted_server_is_used_by_the_next_call() {
    let mut server = new_server(&[]);
    let target = target(&server, "postgres", "postgres");
    postgres::apply(&target).unwrap();
    let mut store = postgres::open(target);
    store.create(&new_tag("t", 1, 10)).unwrap();
    let under = store.identity().unwrap();
    server.kill();
    // What was said depends on how much of it was gone by then.
    unavailable(store.claim(&under, &tag("t"), WISH), "");
    server.start(is_up);
    assert_eq!(store.claim(&under, &tag("t"), WISH).unwrap().run.range(), 1..11);
    // The connection breaks between two calls: the next one doesn't notice.
    server.stop();
    server.start(is_up);
    assert_eq!(store.claim(&under, &tag("t"), WISH).unwrap().run.range(), 11..21);
    server.stop();
    server.start(is_up);
    assert_eq!(store.show(&tag("t")).unwrap().max_id, 21);
    assert_eq!(store.identity().unwrap(), under);
}

#[test]
fn a_server_that_stops_taking_writes_is_left() {
    let server = new_server(&[]);
    let target = target(&server, "postgres", "postgres");
    postgres::apply(&target).unwrap();
    let mut store = postgres::open(target);
    store.create(&new_tag("t", 1, 10)).unwrap();
    let under = store.identity().unwrap();
    let alter = |setting: &str| {
        let mut client = client(&server, "postgres").unwrap();
        client.batch_execute("SET transaction_read_only = off").unwrap();
        client.batch_execute(setting).unwrap();
        client.batch_execute("SELECT pg_reload_conf()").unwrap();
        client
            .batch_execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leafd'",
            )
            .unwrap();
        std::thread::sleep(Duration::from_millis(300));
    };
    alter("ALTER SYSTEM SET default_transaction_read_only = on");
    unavailable(store.claim(&under, &tag("t"), WISH), "it is read-only");
    alter("ALTER SYSTEM RESET default_transaction_read_only");
    assert_eq!(store.claim(&under, &tag("t"), WISH).unwrap().run.range(), 1..11);
}

/// A role with nothing but what it is granted.
fn role(database: &mut Database, name: &str, grants: &str) {
    database.execute(&format!(
        "DO $$ BEGIN CREATE ROLE {name} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$; {grants}"
    ));
}

#[test]
fn select_and_update_on_leafs_table_are_enough_to_claim() {
    let mut database = Database::without_tables();
    database.execute(
        "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY DEFAULT '', max_id bigint NOT NULL DEFAULT 1,
         step int NOT NULL, description varchar(256), update_time timestamp NOT NULL DEFAULT now());
         INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 100)",
    );
    role(&mut database, "plain", "GRANT SELECT, UPDATE ON leaf_alloc TO plain");
    let mut target = database.target("plain");
    let hidden = postgres::open(target.clone()).identity().unwrap_err().to_string();
    for part in ["tags are strict", "leafd schema apply", "leaf_only = true"] {
        assert!(hidden.contains(part), "{hidden}");
    }
    target.leaf_only = true;
    let mut store = postgres::open(target);
    let store: &mut dyn Store = &mut store;
    assert_eq!(claim(&mut *store, "orders", 1).run.range(), 1..101);
    raise(&mut *store, "orders", 500);
    let again = claim(&mut *store, "orders", 1);
    assert_eq!((again.run.range(), again.generation), (500..600, Generation(0)));
    let (host, start) = (HostId("h".into()), StartToken("s".into()));
    assert_eq!(check_in(&mut *store, &host, &[], &start), CheckIn::Unsupported);
    let asked = [tag("orders"), tag("no")];
    assert_eq!(generations(&mut *store, &asked), [Some(Generation(0)), None]);
    assert_eq!(store.list(None, 10).unwrap().len(), 1);
    refused(store.create(&new_tag("new", 1, 10)), "creating a tag needs them");
    refused(store.delete(&tag("orders"), Generation(0)), "deleting a tag needs them");
    let under = store.identity().unwrap();
    refused(
        store.take_role(&under, &Role("1 of 2".into())),
        "a role among several stores needs them",
    );
    store.take_role(&under, &Role::default()).unwrap();
    refused(
        store.replace_role(&under, &Role("1 of 2".into())),
        "a role among several stores needs them",
    );
    let other = Identity { history: History("another".into()), ..under.clone() };
    changed(store.claim(&other, &tag("no"), WISH), &other, &under);
    changed(store.raise(&other, &[(tag("orders"), 9000)]), &other, &under);
    let change = TagChange { ceiling: Some(9), ..TagChange::default() };
    refused(store.set(&tag("orders"), &change), "a ceiling needs them");
    let change = TagChange { step: Some(7), ..TagChange::default() };
    assert_eq!(store.set(&tag("orders"), &change).unwrap().step, 7);
}

#[test]
fn missing_rights_are_named() {
    let mut database = Database::new();
    database.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 1, 10)");
    role(
        &mut database,
        "reader",
        "GRANT SELECT ON leaf_alloc, leafd_meta, leafd_tag TO reader; GRANT UPDATE ON leafd_meta TO reader",
    );
    let mut store = database.connect_as("reader");
    assert_eq!(store.show(&tag("t")).unwrap().max_id, 1);
    refused(try_claim(&mut *store, &tag("t"), WISH), "Claims need SELECT and UPDATE on leaf_alloc");
    database.execute(
        "GRANT UPDATE ON leaf_alloc TO reader; GRANT INSERT, UPDATE ON leafd_tag TO reader",
    );
    assert_eq!(claim(&mut *store, "t", 1).run.range(), 1..11);
}

#[test]
fn applying_twice_changes_nothing_and_other_tables_are_refused() {
    let mut database = Database::without_tables();
    let target = database.target("postgres");
    assert_eq!(postgres::apply(&target).unwrap().len(), 7);
    let name = database.connect().identity().unwrap();
    assert_eq!(postgres::apply(&target).unwrap(), Vec::<&str>::new());
    assert_eq!(database.connect().identity().unwrap(), name);
    let cases = [
        (
            "CREATE TABLE leaf_alloc (biz_tag text PRIMARY KEY, max_id int)",
            "leaf_alloc.max_id is integer instead of bigint; leaf_alloc lacks the column step",
        ),
        (
            "CREATE TABLE leaf_alloc (biz_tag text, max_id bigint, step int, description text, update_time timestamp)",
            "not unique",
        ),
        ("CREATE VIEW leaf_alloc AS SELECT 'x' AS biz_tag", "is no table"),
        ("CREATE TABLE leafd_tag (x int)", "leafd_tag lacks the column tag"),
    ];
    for (sql, part) in cases {
        let mut database = Database::without_tables();
        database.execute(sql);
        refused(postgres::apply(&database.target("postgres")), part);
    }
}

#[test]
fn a_table_made_anew_has_another_history() {
    let mut database = Database::new();
    let mut store = database.connect();
    store.create(&new_tag("t", 1, 10)).unwrap();
    let was = store.identity().unwrap();
    assert_eq!(store.claim(&was, &tag("t"), WISH).unwrap().run.range(), 1..11);
    database.execute("DROP TABLE leaf_alloc");
    postgres::apply(&database.target("postgres")).unwrap();
    let is = database.connect().identity().unwrap();
    assert_eq!(is.id, was.id);
    assert_ne!(is.history, was.history);
    // The connection is the same as before.
    changed(store.claim(&was, &tag("t"), WISH), &was, &is);
    changed(store.look_up(&was, &[tag("t")]), &was, &is);
    changed(store.raise(&was, &[(tag("t"), 500)]), &was, &is);
    assert_eq!(store.identity().unwrap(), is);
    database.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 1, 10)");
    // Below what leafd's own row has seen, until a daemon pushes what it has seen.
    refused(store.claim(&is, &tag("t"), WISH), "--start 11");
    assert_eq!(store.raise(&is, &[(tag("t"), 5)]).unwrap(), [true]);
    assert_eq!(store.claim(&is, &tag("t"), WISH).unwrap().run.range(), 11..21);
}

/// It may also be the same one, altered: whoever has seen more of it then says so, and goes on.
#[test]
fn with_only_leafs_table_one_made_anew_has_another_history() {
    let mut database = Database::without_tables();
    let mut target = database.target("postgres");
    target.leaf_only = true;
    let mut store = postgres::open(target);
    database.execute("CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint, step int, description varchar(256),
         update_time timestamptz)");
    database.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 1, 10)");
    let was = store.identity().unwrap();
    assert_eq!(store.claim(&was, &tag("t"), WISH).unwrap().run.range(), 1..11);
    database.execute("DROP TABLE leaf_alloc");
    database.execute("CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint, step int, description varchar(256),
         update_time timestamptz)");
    database.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 1, 10)");
    let again = store.claim(&was, &tag("t"), WISH);
    let is = store.identity().unwrap();
    assert_eq!(is.id, was.id);
    assert_ne!(is.history, was.history);
    changed(again, &was, &is);
}

/// The name goes with leafd's tables; the rest tells that it is not where it was.
#[test]
fn a_copied_database_is_the_same_store_with_another_history() {
    let mut original = Database::new();
    let was = original.connect().identity().unwrap();
    let mut copy = Database::new();
    let mut store = copy.connect();
    store.create(&new_tag("t", 1, 10)).unwrap();
    let other = store.identity().unwrap();
    assert_ne!(other.id, was.id);
    let name = was.id.0.split_once(':').unwrap().1;
    copy.execute(&format!("UPDATE leafd_meta SET value = '{name}' WHERE name = 'identity'"));
    let is = store.identity().unwrap();
    assert_eq!(is.id, was.id);
    assert_ne!(is.history, was.history);
    changed(store.claim(&other, &tag("t"), WISH), &other, &is);
    copy.execute("DELETE FROM leafd_meta WHERE name = 'role'");
    refused(store.claim(&is, &tag("t"), WISH), "complete it with: leafd schema apply");
    postgres::apply(&copy.target("postgres")).unwrap();
    assert_eq!(store.claim(&is, &tag("t"), WISH).unwrap().run.range(), 1..11);
}

#[test]
fn a_folding_collation_never_gives_two_names_one_row() {
    let mut database = Database::without_tables();
    database.execute(
        "CREATE COLLATION folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         CREATE TABLE leaf_alloc (biz_tag varchar(128) COLLATE folding PRIMARY KEY DEFAULT '',
         max_id bigint NOT NULL DEFAULT 1, step int NOT NULL, description varchar(256),
         update_time timestamptz NOT NULL DEFAULT now());
         INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('Order', 1, 10)",
    );
    postgres::apply(&database.target("postgres")).unwrap();
    let mut store = database.connect();
    assert_eq!(claim(&mut *store, "Order", 1).run.range(), 1..11);
    let other = try_claim(&mut *store, &tag("order"), WISH);
    assert!(matches!(other, Err(StoreError::UnknownTag { .. })), "{other:?}");
    assert_eq!(generations(&mut *store, &[tag("order")]), [None]);
    refused(store.create(&new_tag("order", 1, 10)), "treats them as equal");
    pages_are_complete(&mut *store, &["ab", "\u{10000}"]);
}

/// What the operator is then told holds for good.
#[test]
fn a_role_is_replaced_after_the_claim_that_is_under_way() {
    let mut database = Database::new();
    let target = database.target("postgres");
    let (mut store, mut operator) = (database.connect(), postgres::open(target.clone()));
    store.create(&new_tag("t", 1, 10)).unwrap();
    let under = store.identity().unwrap();
    let next = Identity { role: Role("1 of 2".into()), ..under.clone() };
    operator.identity().unwrap();
    let mut other = client(shared(), &target.url.database).unwrap();
    other.batch_execute("BEGIN; SELECT * FROM leafd_tag WHERE tag = 't' FOR UPDATE").unwrap();
    let mut observer = client(shared(), &target.url.database).unwrap();
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let mut until_waiting = |count: i64| {
        let begun = Instant::now();
        while observer.query_one(waiting, &[]).unwrap().get::<_, i64>(0) < count {
            assert!(begun.elapsed() < Duration::from_secs(4), "fewer than {count} wait");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let under = &under;
    let (claimed, told) = std::thread::scope(|scope| {
        let claiming = scope.spawn(move || store.claim(under, &tag("t"), WISH));
        until_waiting(1);
        let replacing = scope.spawn(|| {
            operator.replace_role(under, &next.role).unwrap();
            operator.look_up(&next, &[tag("t")]).unwrap()[0].unwrap().end
        });
        until_waiting(2);
        other.batch_execute("ROLLBACK").unwrap();
        (claiming.join().unwrap().unwrap(), replacing.join().unwrap())
    });
    assert_eq!((claimed.run.range(), told), (1..11, 11));
}

/// As on Aurora with its default settings, where the functions for the write-ahead log fail.
#[test]
fn functions_that_an_engine_lacks_are_done_without() {
    let mut database = Database::new();
    let name = database.target("postgres").url.database;
    role(&mut database, "aurora", "GRANT ALL ON ALL TABLES IN SCHEMA public TO aurora");
    database.execute(&format!(
        "CREATE SCHEMA shim; GRANT USAGE ON SCHEMA shim TO aurora;
         CREATE FUNCTION shim.pg_current_wal_lsn() RETURNS pg_lsn LANGUAGE plpgsql AS $$ BEGIN
             RAISE EXCEPTION 'WAL control functions cannot be executed' USING ERRCODE = '55000';
         END $$;
         ALTER ROLE aurora IN DATABASE {name} SET search_path = shim, pg_catalog, public"
    ));
    let mut store = database.connect_as("aurora");
    store.create(&new_tag("t", 1, 10)).unwrap();
    let was = store.identity().unwrap();
    assert_eq!(was.id, database.connect().identity().unwrap().id);
    assert_eq!(store.claim(&was, &tag("t"), WISH).unwrap().run.range(), 1..11);
    // What is left of the history shows a table that was filled anew.
    database.execute("CREATE TABLE backup AS SELECT * FROM leafd_tag; DELETE FROM leafd_tag");
    database.execute("INSERT INTO leafd_tag SELECT * FROM backup");
    let is = store.identity().unwrap();
    assert_ne!(is.history, was.history);
    changed(store.claim(&was, &tag("t"), WISH), &was, &is);
}
