//! MariaDB servers that are not as they should be, tables that others made, and rights that are missing.

use std::time::{Duration, Instant};

use ::mysql::prelude::Queryable as _;
use leafd::config::StorePassword;
use leafd::store::{Store, mysql};
use leafd_core::store::{
    CheckIn, ClaimWish, Generation, History, HostId, Identity, Role, StartToken, StoreError,
    TagChange,
};
use nix::sys::signal::Signal;

use crate::identity::changed;
use crate::mysql::{Database, PASSWORD, client, is_up, new_server, shared, target, target_at};
use crate::tags::pages_are_complete;
use crate::{Backend, check_in, claim, generations, new_tag, raise, tag, try_claim};

/// Leaf's own, to the letter, in a database whose default collation folds case and trailing spaces.
const LEAF_TABLE: &str = "CREATE TABLE `leaf_alloc` (
    `biz_tag` varchar(128) NOT NULL DEFAULT '',
    `max_id` bigint(20) NOT NULL DEFAULT '1',
    `step` int(11) NOT NULL,
    `description` varchar(256) DEFAULT NULL,
    `update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (`biz_tag`)
    ) ENGINE=InnoDB";

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
    format!("mysql://remote@{hosts}/ids")
}

fn password(text: &str) -> StorePassword {
    StorePassword::Variable(text.to_owned())
}

#[test]
fn a_wrong_password_is_told_and_not_shown() {
    let host = format!("127.0.0.1:{}", shared().port);
    let result = mysql::open(target_at(&url(&host), password("hunter2"))).identity();
    let shown = format!("{result:?}");
    unavailable(result, "Access denied");
    assert!(!shown.contains("hunter2"), "{shown}");
    unavailable(
        mysql::open(target_at(&url(&host), StorePassword::None)).identity(),
        "Access denied",
    );
    refused(
        mysql::open(target_at(&url(&host), password(PASSWORD))).identity(),
        "leafd schema apply",
    );
}

#[test]
fn a_dead_first_host_and_a_read_only_one_are_passed_over() {
    let port = shared().port;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let read_only = new_server(&["--read-only=1"]);
    let only = url(&format!("127.0.0.1:{}", read_only.port));
    unavailable(mysql::open(target_at(&only, password(PASSWORD))).identity(), "read-only");
    let hosts = format!("127.0.0.1:{closed},127.0.0.1:{},127.0.0.1:{port}", read_only.port);
    refused(
        mysql::open(target_at(&url(&hosts), password(PASSWORD))).identity(),
        "leafd schema apply",
    );
    let none = url(&format!("127.0.0.1:{closed}"));
    unavailable(mysql::open(target_at(&none, password(PASSWORD))).identity(), "refused");
}

#[test]
fn a_frozen_server_holds_a_call_no_longer_than_its_bound() {
    let server = new_server(&[]);
    let mut target = target(&server, "root", "ids");
    mysql::apply(&target).unwrap();
    target.connect_timeout = Duration::from_millis(700);
    target.statement_timeout = Duration::from_millis(900);
    let mut store = mysql::open(target.clone());
    store.create(&new_tag("t", 1, 10)).unwrap();
    let under = store.identity().unwrap();
    nix::sys::signal::kill(server.pid(), Signal::SIGSTOP).unwrap();
    let mut bounded = |bound_ms: u64| {
        let begun = Instant::now();
        unavailable(store.claim(&under, &tag("t"), WISH), "no answer");
        let took = begun.elapsed();
        assert!(took < Duration::from_millis(bound_ms + 400), "{took:?}");
    };
    // In a statement; then, with the connection given up, while logging in.
    bounded(900);
    bounded(700);
    nix::sys::signal::kill(server.pid(), Signal::SIGCONT).unwrap();
    assert!(claim(&mut store, "t", 1).run.first >= 1);
}

#[test]
fn a_restarted_server_is_used_by_the_next_call() {
    let mut server = new_server(&[]);
    let target = target(&server, "root", "ids");
    mysql::apply(&target).unwrap();
    let mut store = mysql::open(target);
    store.create(&new_tag("t", 1, 10)).unwrap();
    let under = store.identity().unwrap();
    server.kill();
    unavailable(store.claim(&under, &tag("t"), WISH), "socket");
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
    let target = target(&server, "root", "ids");
    mysql::apply(&target).unwrap();
    mysql::open(target).create(&new_tag("t", 1, 10)).unwrap();
    let alter = |setting: &str| {
        client(&server, "ids").unwrap().query_drop(format!("SET GLOBAL {setting}")).unwrap();
    };
    // As on a primary that becomes a replica; our user has no right to write there all the same.
    client(&server, "ids")
        .unwrap()
        .query_drop("GRANT SELECT, INSERT, UPDATE ON ids.* TO plain@localhost IDENTIFIED BY ''")
        .unwrap();
    let mut plain = mysql::open(crate::mysql::target(&server, "plain", "ids"));
    let under = plain.identity().unwrap();
    assert_eq!(plain.claim(&under, &tag("t"), WISH).unwrap().run.range(), 1..11);
    alter("read_only = 1");
    unavailable(plain.claim(&under, &tag("t"), WISH), "read-only");
    unavailable(plain.claim(&under, &tag("t"), WISH), "read-only, as replicas are");
    alter("read_only = 0");
    assert_eq!(plain.claim(&under, &tag("t"), WISH).unwrap().run.range(), 11..21);
}

/// A user with nothing but these rights, which end with what they are on.
fn user(database: &mut Database, name: &str, grants: &[(&str, &str)]) {
    database.execute(&format!("CREATE USER IF NOT EXISTS {name}@localhost"));
    for (rights, table) in grants {
        database
            .execute(&format!("GRANT {rights} ON {}.{table} TO {name}@localhost", database.name()));
    }
}

#[test]
fn select_and_update_on_leafs_table_are_enough_to_claim() {
    let mut database = Database::without_tables();
    database.execute(LEAF_TABLE);
    database.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 100)");
    user(&mut database, "leaf", &[("SELECT, UPDATE", "leaf_alloc")]);
    let mut target = database.target("leaf");
    let hidden = mysql::open(target.clone()).identity().unwrap_err().to_string();
    for part in ["tags are strict", "leafd schema apply", "leaf_only = true"] {
        assert!(hidden.contains(part), "{hidden}");
    }
    target.leaf_only = true;
    let mut store = mysql::open(target);
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
    user(
        &mut database,
        "reader",
        &[
            ("SELECT", "leaf_alloc"),
            ("SELECT, UPDATE", "leafd_meta"),
            ("SELECT", "leafd_tag"),
            ("SELECT", "leafd_host"),
        ],
    );
    let mut store = database.connect_as("reader");
    assert_eq!(store.show(&tag("t")).unwrap().max_id, 1);
    refused(try_claim(&mut *store, &tag("t"), WISH), "Claims need SELECT and UPDATE on leaf_alloc");
    user(&mut database, "reader", &[("UPDATE", "leaf_alloc"), ("INSERT, UPDATE", "leafd_tag")]);
    assert_eq!(claim(&mut *store, "t", 1).run.range(), 1..11);
}

#[test]
fn applying_twice_changes_nothing_and_other_tables_are_refused() {
    let mut database = Database::without_tables();
    let target = database.target("root");
    // Seven tables and the mark.
    assert_eq!(mysql::apply(&target).unwrap().len(), 8);
    let name = database.connect().identity().unwrap();
    assert_eq!(mysql::apply(&target).unwrap(), Vec::<&str>::new());
    assert_eq!(database.connect().identity().unwrap(), name);
    let cases = [
        (
            "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id int)",
            "leaf_alloc.max_id is int(11) instead of bigint; leaf_alloc lacks the column step",
        ),
        (
            "CREATE TABLE leaf_alloc (biz_tag varchar(128), max_id bigint, step int, description text, update_time timestamp)",
            "not unique",
        ),
        (
            "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint, step int, description text,
             update_time timestamp) ENGINE = Aria",
            "has the engine Aria instead of InnoDB",
        ),
        ("CREATE VIEW leaf_alloc AS SELECT 'x' AS biz_tag", "of a view"),
        ("CREATE TABLE leafd_tag (x int)", "leafd_tag lacks the column tag"),
    ];
    for (sql, part) in cases {
        let mut database = Database::without_tables();
        database.execute(sql);
        refused(mysql::apply(&database.target("root")), part);
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
    mysql::apply(&database.target("root")).unwrap();
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
    let mut target = database.target("root");
    target.leaf_only = true;
    let mut store = mysql::open(target);
    database.execute(LEAF_TABLE);
    database.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 1, 10)");
    let was = store.identity().unwrap();
    assert_eq!(store.claim(&was, &tag("t"), WISH).unwrap().run.range(), 1..11);
    // The server tells the time at which a table was made in seconds.
    std::thread::sleep(Duration::from_millis(1100));
    database.execute("DROP TABLE leaf_alloc");
    database.execute(LEAF_TABLE);
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
    mysql::apply(&copy.target("root")).unwrap();
    assert_eq!(store.claim(&is, &tag("t"), WISH).unwrap().run.range(), 1..11);
}

#[test]
fn a_folding_collation_never_gives_two_names_one_row() {
    let mut database = Database::without_tables();
    // As Leaf's table is on a server with the usual defaults.
    database.execute(LEAF_TABLE);
    database.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('Order', 1, 10)");
    mysql::apply(&database.target("root")).unwrap();
    let mut store = database.connect();
    assert_eq!(claim(&mut *store, "Order", 1).run.range(), 1..11);
    for other in ["order", "Order ", "Orde\u{301}r", "\u{d6}rder"] {
        let unknown = try_claim(&mut *store, &tag(other), WISH);
        assert!(matches!(unknown, Err(StoreError::UnknownTag { .. })), "{other:?}: {unknown:?}");
        assert_eq!(generations(&mut *store, &[tag(other)]), [None]);
    }
    refused(store.create(&new_tag("order", 1, 10)), "treats them as equal");
    assert_eq!(claim(&mut *store, "Order", 1).run.range(), 11..21);
    pages_are_complete(&mut *store, &["bb", "\u{ffff}"]);
}

/// What the operator is then told holds for good.
#[test]
fn a_role_is_replaced_after_the_claim_that_is_under_way() {
    let mut database = Database::new();
    let target = database.target("root");
    let (mut store, mut operator) = (database.connect(), mysql::open(target));
    store.create(&new_tag("t", 1, 10)).unwrap();
    let under = store.identity().unwrap();
    let next = Identity { role: Role("1 of 2".into()), ..under.clone() };
    operator.identity().unwrap();
    let mut other = client(shared(), database.name()).unwrap();
    other.query_drop("START TRANSACTION").unwrap();
    other.query_drop("SELECT * FROM leafd_tag WHERE tag = 't' FOR UPDATE").unwrap();
    let mut observer = client(shared(), database.name()).unwrap();
    let waiting = "SELECT COUNT(*) FROM information_schema.INNODB_TRX AS t
        JOIN information_schema.PROCESSLIST AS p ON p.ID = t.trx_mysql_thread_id
        WHERE t.trx_state = 'LOCK WAIT' AND p.DB = DATABASE()";
    let mut until_waiting = |count: i64| {
        let begun = Instant::now();
        while observer.query_first::<i64, _>(waiting).unwrap() < Some(count) {
            assert!(begun.elapsed() < Duration::from_secs(4), "fewer than {count} wait");
            // Asked more often than every 100 ms, the server repeats what it said.
            std::thread::sleep(Duration::from_millis(150));
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
        other.query_drop("ROLLBACK").unwrap();
        (claiming.join().unwrap().unwrap(), replacing.join().unwrap())
    });
    assert_eq!((claimed.run.range(), told), (1..11, 11));
}
