//! Servers that are not as they should be, tables that others made, and privileges that are missing: one suite for
//! every engine.

use std::time::{Duration, Instant};

use leafd::config::StorePassword;
use leafd::store::sql::Target;
use leafd_core::store::{
    CheckIn, ClaimWish, Generation, History, HostId, Identity, Role, StartToken, StoreError,
    TagChange, Why,
};

use crate::engines::Engine;
use crate::identity::changed;
use crate::server::Server;
use crate::tags::pages_are_complete;
use crate::{check_in, claim, create, generations, new_tag, raise, tag, try_claim};

const WISH: ClaimWish = ClaimWish::new(1, 1000);

/// Makes a test of each check for each engine.
macro_rules! on_each_engine {
    ($($check:ident),+ $(,)?) => {
        mod on_mariadb {
            $(#[test]
            fn $check() {
                super::$check::<crate::mysql::Database>();
            })+
        }
        mod on_mysql {
            $(#[test]
            fn $check() {
                if crate::mysqld::Engine::Mysql.is_tested() {
                    super::$check::<crate::mysql::Mysql>();
                }
            })+
        }
        mod on_postgres {
            $(#[test]
            fn $check() {
                super::$check::<crate::postgres::Database>();
            })+
        }
    };
}

on_each_engine!(
    a_wrong_password_is_told_and_not_shown,
    a_failed_connection_gives_one_line_with_its_cause,
    a_dead_first_host_and_a_read_only_one_are_passed_over,
    a_frozen_server_holds_a_call_no_longer_than_its_bound,
    a_restarted_server_is_used_by_the_next_call,
    a_server_that_stops_taking_writes_is_left,
    select_and_update_on_leafs_table_are_enough_to_claim,
    missing_privileges_are_named,
    applying_twice_changes_nothing_and_other_tables_are_refused,
    a_table_made_anew_has_another_history,
    with_only_leafs_table_one_made_anew_has_another_history,
    a_copied_database_is_the_same_store_with_another_history,
    a_folding_collation_never_gives_two_names_one_row,
    a_role_is_replaced_after_the_claim_that_is_under_way,
    a_claim_whose_right_is_revoked_meanwhile_leaves_nothing_behind,
    a_former_primary_is_no_refuge_from_one_slow_call,
    of_two_servers_that_take_writes_the_later_one_is_used,
    a_name_that_is_reported_meanwhile_is_not_created_below,
);

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

fn password(text: &str) -> StorePassword {
    StorePassword::Variable(text.to_owned())
}

fn a_wrong_password_is_told_and_not_shown<E: Engine>() {
    let host = format!("127.0.0.1:{}", E::shared().port);
    let [wrong, none] = E::DENIES;
    let result = E::open(E::target_at(&E::url(&host), password("hunter2"))).identity();
    let shown = format!("{result:?}");
    unavailable(result, wrong);
    assert!(!shown.contains("hunter2"), "{shown}");
    unavailable(E::open(E::target_at(&E::url(&host), StorePassword::None)).identity(), none);
    refused(
        E::open(E::target_at(&E::url(&host), password(E::REMOTE.1))).identity(),
        "leafd schema apply",
    );
}

/// Each cause has its class, which decides the advice, and its words name the address once.
fn a_failed_connection_gives_one_line_with_its_cause<E: Engine>() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = |listener: &std::net::TcpListener| listener.local_addr().unwrap().port();
    let closed = port(&std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let (up, silent) = (E::shared().port, port(&silent));
    let url = |port| E::url(&format!("127.0.0.1:{port}"));
    let elsewhere = format!("{}/nowhere", url(up).rsplit_once('/').unwrap().0);
    let encrypted = format!("{}?sslmode=require", url(up));
    let cases = [
        (url(closed), closed, E::REMOTE.1, Why::Other, "refused"),
        (url(silent), silent, E::REMOTE.1, Why::Other, "no answer"),
        (url(up), up, "hunter2", Why::Login, E::DENIES[0]),
        (elsewhere, up, E::REMOTE.1, Why::UnknownDatabase, "nowhere"),
        (encrypted, up, E::REMOTE.1, E::WITHOUT_ITS_CA.0, E::WITHOUT_ITS_CA.1),
    ];
    for (url, port, secret, why, part) in cases {
        let mut target = E::target_at(&url, password(secret));
        if port == silent {
            target.connect_timeout = Duration::from_millis(300);
        }
        match E::open(target).identity() {
            Err(StoreError::Unavailable { cause, .. }) => {
                assert_eq!(cause.why, why, "{url}: {cause}");
                assert!(cause.contains(part) && !cause.contains('\n'), "{url}: {cause}");
                assert!(!cause.contains("Error {"), "{url}: {cause}");
                let address = format!("127.0.0.1:{port}");
                assert_eq!(cause.matches(&*address).count(), 1, "{url}: {cause}");
            }
            other => panic!("{url}: {other:?}"),
        }
    }
}

fn a_dead_first_host_and_a_read_only_one_are_passed_over<E: Engine>() {
    let port = E::shared().port;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let read_only = E::new_server(&[E::READ_ONLY]);
    let only = E::url(&format!("127.0.0.1:{}", read_only.port));
    unavailable(E::open(E::target_at(&only, password(E::REMOTE.1))).identity(), "read-only");
    let hosts = format!("127.0.0.1:{closed},127.0.0.1:{},127.0.0.1:{port}", read_only.port);
    refused(
        E::open(E::target_at(&E::url(&hosts), password(E::REMOTE.1))).identity(),
        "leafd schema apply",
    );
    let none = E::url(&format!("127.0.0.1:{closed}"));
    unavailable(E::open(E::target_at(&none, password(E::REMOTE.1))).identity(), "refused");
}

fn a_frozen_server_holds_a_call_no_longer_than_its_bound<E: Engine>() {
    let server = E::new_server(&[]);
    let mut target = E::target_of(&server);
    E::apply(&target).unwrap();
    target.connect_timeout = Duration::from_millis(700);
    target.statement_timeout = Duration::from_millis(900);
    let mut store = E::open(target.clone());
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let under = store.identity().unwrap();
    server.freeze();
    let mut bounded = |bound_ms: u64| {
        let begun = Instant::now();
        unavailable(store.claim(None, &under, &tag("t"), WISH, None), "no answer");
        let took = begun.elapsed();
        // Without a bound it would take for ever.
        assert!(took < Duration::from_millis(bound_ms + 3_000), "{took:?}");
    };
    // In a statement; then, with the connection given up, while logging in.
    bounded(900);
    bounded(700);
    server.thaw();
    assert!(claim(&mut store, "t", 1).run.first >= 1);
}

fn a_restarted_server_is_used_by_the_next_call<E: Engine>() {
    let mut server = E::new_server(&[]);
    let target = E::target_of(&server);
    E::apply(&target).unwrap();
    let mut store = E::open(target);
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let under = store.identity().unwrap();
    server.kill();
    // What was said depends on how much of it was gone by then.
    unavailable(store.claim(None, &under, &tag("t"), WISH, None), "");
    server.start(E::is_up);
    assert_eq!(store.claim(None, &under, &tag("t"), WISH, None).unwrap().run.range(), 1..11);
    // The connection breaks between two calls: the next one doesn't notice.
    server.stop();
    server.start(E::is_up);
    assert_eq!(store.claim(None, &under, &tag("t"), WISH, None).unwrap().run.range(), 11..21);
    server.stop();
    server.start(E::is_up);
    assert_eq!(store.show(&tag("t")).unwrap().max_id, 21);
    assert_eq!(store.identity().unwrap(), under);
}

fn a_server_that_stops_taking_writes_is_left<E: Engine>() {
    let server = E::new_server(&[]);
    let target = E::target_of(&server);
    E::apply(&target).unwrap();
    create(&mut E::open(target), &new_tag("t", 1, 10)).unwrap();
    let mut store = E::open(E::target(&server, E::writer(&server), E::REMOTE.2));
    let under = store.identity().unwrap();
    assert_eq!(store.claim(None, &under, &tag("t"), WISH, None).unwrap().run.range(), 1..11);
    E::set_writes(&server, false);
    // In the connection that there was, where it stays open, and in a new one.
    for _ in 0..2 {
        unavailable(store.claim(None, &under, &tag("t"), WISH, None), "read-only");
    }
    E::set_writes(&server, true);
    assert_eq!(store.claim(None, &under, &tag("t"), WISH, None).unwrap().run.range(), 11..21);
}

fn select_and_update_on_leafs_table_are_enough_to_claim<E: Engine>() {
    let mut database = E::without_tables();
    database.execute(E::LEAF_TABLE);
    database.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 100)");
    database.grant("leaf", &[("SELECT, UPDATE", "leaf_alloc")]);
    let mut target = database.own_target("leaf");
    let hidden = E::open(target.clone()).identity().unwrap_err().to_string();
    for part in ["tags are strict", "leafd schema apply", "leaf_only = true"] {
        assert!(hidden.contains(part), "{hidden}");
    }
    target.leaf_only = true;
    let mut store = E::open(target);
    assert_eq!(claim(&mut store, "orders", 1).run.range(), 1..101);
    raise(&mut store, "orders", 500);
    let again = claim(&mut store, "orders", 1);
    assert_eq!((again.run.range(), again.generation), (500..600, Generation(0)));
    let (host, start) = (HostId("h".into()), StartToken("s".into()));
    assert_eq!(check_in(&mut store, &host, &[], &start), CheckIn::Unsupported);
    let asked = [tag("orders"), tag("no")];
    assert_eq!(generations(&mut store, &asked), [Some(Generation(0)), None]);
    assert_eq!(store.list(None, 10).unwrap().len(), 1);
    refused(create(&mut store, &new_tag("new", 1, 10)), "creating a tag needs them");
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
    changed(store.claim(None, &other, &tag("no"), WISH, None), &other, &under);
    changed(store.raise(&other, &[(tag("orders"), 9000)], false), &other, &under);
    let change = TagChange { ceiling: Some(9), ..TagChange::default() };
    refused(store.set(&tag("orders"), &change), "a ceiling needs them");
    let change = TagChange { step: Some(7), ..TagChange::default() };
    assert_eq!(store.set(&tag("orders"), &change).unwrap().step, 7);
}

fn missing_privileges_are_named<E: Engine>() {
    let mut database = E::new();
    database.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 1, 10)");
    database.grant(
        "reader",
        &[
            ("SELECT", "leaf_alloc"),
            ("SELECT, UPDATE", "leafd_meta"),
            ("SELECT", "leafd_tag"),
            ("SELECT", "leafd_host"),
            ("SELECT", "leafd_claim"),
        ],
    );
    let mut store = E::open(database.own_target("reader"));
    assert_eq!(store.show(&tag("t")).unwrap().max_id, 1);
    match try_claim(&mut store, &tag("t"), WISH) {
        Err(StoreError::Refused(reason)) => {
            assert_eq!(reason.why, Why::MissingPrivileges, "{reason}");
            // An engine names the table whose right it checks first.
            let tables = ["leaf_alloc", "leafd_tag"];
            assert!(tables.iter().any(|table| reason.contains(table)), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    database.grant("reader", &[("UPDATE", "leaf_alloc"), ("INSERT, UPDATE", "leafd_tag")]);
    assert_eq!(claim(&mut store, "t", 1).run.range(), 1..11);
}

fn applying_twice_changes_nothing_and_other_tables_are_refused<E: Engine>() {
    let mut database = E::without_tables();
    assert_eq!(database.apply_here().unwrap().len(), E::MADE);
    let name = database.connect().identity().unwrap();
    assert_eq!(database.apply_here().unwrap(), Vec::<&str>::new());
    assert_eq!(database.connect().identity().unwrap(), name);
    for (sql, part) in E::ODD_TABLES {
        let mut database = E::without_tables();
        database.execute(sql);
        refused(database.apply_here(), part);
    }
}

fn a_table_made_anew_has_another_history<E: Engine>() {
    let mut database = E::new();
    let mut store = database.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let was = store.identity().unwrap();
    assert_eq!(store.claim(None, &was, &tag("t"), WISH, None).unwrap().run.range(), 1..11);
    database.execute("DROP TABLE leaf_alloc");
    database.apply_here().unwrap();
    let is = database.connect().identity().unwrap();
    assert_eq!(is.id, was.id);
    assert_ne!(is.history, was.history);
    // The connection is the same as before.
    changed(store.claim(None, &was, &tag("t"), WISH, None), &was, &is);
    changed(store.look_up(&was, &[tag("t")]), &was, &is);
    changed(store.raise(&was, &[(tag("t"), 500)], false), &was, &is);
    assert_eq!(store.identity().unwrap(), is);
    database.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 1, 10)");
    // Nothing is claimed before a host has noted that it is another history.
    assert!(is.history.is_in_doubt());
    refused(store.claim(None, &is, &tag("t"), WISH, None), "in doubt");
    assert!(store.renew(&is, Some(&was.history)).unwrap());
    let is = store.identity().unwrap();
    // Below what leafd's own row has seen, until a daemon pushes what it has seen.
    refused(store.claim(None, &is, &tag("t"), WISH, None), "--start 11");
    assert_eq!(store.raise(&is, &[(tag("t"), 5)], false).unwrap(), [true]);
    assert_eq!(store.claim(None, &is, &tag("t"), WISH, None).unwrap().run.range(), 11..21);
}

/// It may also be the same one, altered: whoever has seen more of it then says so, and goes on.
fn with_only_leafs_table_one_made_anew_has_another_history<E: Engine>() {
    let mut database = E::without_tables();
    let mut target = database.own_target(E::ADMINISTRATOR);
    target.leaf_only = true;
    let mut store = E::open(target);
    database.execute(E::LEAF_TABLE);
    database.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 1, 10)");
    let was = store.identity().unwrap();
    assert_eq!(store.claim(None, &was, &tag("t"), WISH, None).unwrap().run.range(), 1..11);
    std::thread::sleep(E::TABLES_TIME);
    database.execute("DROP TABLE leaf_alloc");
    database.execute(E::LEAF_TABLE);
    database.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 1, 10)");
    let again = store.claim(None, &was, &tag("t"), WISH, None);
    let is = store.identity().unwrap();
    assert_eq!(is.id, was.id);
    assert_ne!(is.history, was.history);
    changed(again, &was, &is);
}

/// The name goes with leafd's tables; the rest tells that it is not where it was.
fn a_copied_database_is_the_same_store_with_another_history<E: Engine>() {
    let mut original = E::new();
    let was = original.connect().identity().unwrap();
    let mut copy = E::new();
    let mut store = copy.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let other = store.identity().unwrap();
    assert_ne!(other.id, was.id);
    let name = was.id.0.split_once(':').unwrap().1;
    copy.execute(&format!("UPDATE leafd_meta SET value = '{name}' WHERE name = 'identity'"));
    let is = store.identity().unwrap();
    assert_eq!(is.id, was.id);
    assert_ne!(is.history, was.history);
    changed(store.claim(None, &other, &tag("t"), WISH, None), &other, &is);
    copy.execute("DELETE FROM leafd_meta WHERE name = 'role'");
    refused(store.claim(None, &is, &tag("t"), WISH, None), "complete it with: leafd schema apply");
    copy.apply_here().unwrap();
    assert_eq!(store.claim(None, &is, &tag("t"), WISH, None).unwrap().run.range(), 1..11);
    copy.execute("UPDATE leafd_meta SET value = 'one' WHERE name = 'role'");
    refused(
        store.claim(None, &is, &tag("t"), WISH, None),
        "\"role\" in leafd_meta that leafd did not write",
    );
    copy.execute("UPDATE leafd_meta SET value = '' WHERE name = 'role'");
    assert_eq!(store.claim(None, &is, &tag("t"), WISH, None).unwrap().run.range(), 11..21);
}

fn a_folding_collation_never_gives_two_names_one_row<E: Engine>() {
    let mut database = E::without_tables();
    // As Leaf's table is on a server with the usual defaults.
    database.execute(E::FOLDING_TABLE);
    database.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('Order', 1, 10)");
    database.apply_here().unwrap();
    let mut store = database.connect();
    assert_eq!(claim(&mut store, "Order", 1).run.range(), 1..11);
    for other in E::LOOKALIKES {
        let unknown = try_claim(&mut store, &tag(other), WISH);
        assert!(matches!(unknown, Err(StoreError::UnknownTag { .. })), "{other:?}: {unknown:?}");
        assert_eq!(generations(&mut store, &[tag(other)]), [None]);
    }
    refused(create(&mut store, &new_tag("order", 1, 10)), "treats them as equal");
    assert_eq!(claim(&mut store, "Order", 1).run.range(), 11..21);
    pages_are_complete(&mut store, &E::AROUND);
}

/// What the operator is then told holds for good.
fn a_role_is_replaced_after_the_claim_that_is_under_way<E: Engine>() {
    let mut database = E::new();
    let target = database.own_target(E::ADMINISTRATOR);
    let (mut store, mut operator) = (database.connect(), E::open(target));
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let under = store.identity().unwrap();
    let next = Identity { role: Role("1 of 2".into()), ..under.clone() };
    operator.identity().unwrap();
    let mut other = E::session(E::shared(), &database.name());
    E::run(&mut other, "BEGIN");
    E::run(&mut other, "SELECT * FROM leafd_tag WHERE tag = 't' FOR UPDATE");
    let mut observer = E::session(E::shared(), &database.name());
    let mut until_waiting = |count: i64| {
        let begun = Instant::now();
        while E::number(&mut observer, E::WAITING) < count {
            assert!(begun.elapsed() < Duration::from_secs(4), "fewer than {count} wait");
            std::thread::sleep(E::ASKED_EVERY);
        }
    };
    let under = &under;
    let (claimed, told) = std::thread::scope(|scope| {
        let claiming = scope.spawn(move || store.claim(None, under, &tag("t"), WISH, None));
        until_waiting(1);
        let replacing = scope.spawn(|| {
            operator.replace_role(under, &next.role).unwrap();
            operator.look_up(&next, &[tag("t")]).unwrap()[0].unwrap().end
        });
        until_waiting(2);
        E::run(&mut other, "ROLLBACK");
        (claiming.join().unwrap().unwrap(), replacing.join().unwrap())
    });
    assert_eq!((claimed.run.range(), told), (1..11, 11));
}

/// Returns once a statement waits for another session's lock, or the call that should send it has ended without that.
#[track_caller]
fn until_it_waits<E: Engine>(observer: &mut E::Session, has_ended: impl Fn() -> bool) {
    let begun = Instant::now();
    while E::number(observer, E::WAITING) < 1 && !has_ended() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it doesn't wait");
        std::thread::sleep(E::ASKED_EVERY);
    }
}

/// The row of the right changes while the claim's last statements wait for it. The claim is made again.
fn a_claim_whose_right_is_revoked_meanwhile_leaves_nothing_behind<E: Engine>() {
    let mut database = E::new();
    let mut store = database.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    assert_eq!(claim(&mut store, "t", 1).run.range(), 1..11);
    let under = store.identity().unwrap();
    let mut other = E::session(E::shared(), &database.name());
    let mut observer = E::session(E::shared(), &database.name());
    E::run(&mut other, "BEGIN");
    E::run(&mut other, "UPDATE leafd_tag SET role_version = 7 WHERE tag = 't'");
    let claimed = std::thread::scope(|scope| {
        let claiming = scope.spawn(|| store.claim(None, &under, &tag("t"), WISH, None));
        until_it_waits::<E>(&mut observer, || claiming.is_finished());
        E::run(&mut other, "COMMIT");
        claiming.join().unwrap().unwrap()
    });
    assert_eq!(claimed.run.range(), 11..21, "the first attempt was rolled back");
    let recorded = "SELECT highest_end FROM leafd_tag WHERE tag = 't'";
    assert_eq!(E::number(&mut observer, recorded), 21);
    assert_eq!(store.conflicts.load(std::sync::atomic::Ordering::Relaxed), 1);
}

/// Another host reports what it has seen of a name while a tag of that name is created: the one waits for the other.
fn a_name_that_is_reported_meanwhile_is_not_created_below<E: Engine>() {
    let mut database = E::new();
    let mut store = database.connect();
    let under = store.identity().unwrap();
    let mut other = E::session(E::shared(), &database.name());
    let mut observer = E::session(E::shared(), &database.name());
    E::run(&mut other, "BEGIN");
    E::run(&mut other, "INSERT INTO leafd_tag (tag, highest_end, masked) VALUES ('t', 1001, '?')");
    let created = std::thread::scope(|scope| {
        let creating = scope.spawn(|| store.create(&under, &new_tag("t", 1, 10)));
        until_it_waits::<E>(&mut observer, || creating.is_finished());
        E::run(&mut other, "COMMIT");
        creating.join().unwrap()
    });
    refused(created, "1001");
}

/// Two servers that have the same store and take writes, and a URL of both.
fn two_servers<E: Engine>() -> ([Server; 2], Target) {
    let servers = [E::new_server(&[]), E::new_server(&[])];
    let targets = servers.each_ref().map(E::target_of);
    targets.iter().for_each(|target| drop(E::apply(target).unwrap()));
    let sql = "UPDATE leafd_meta SET value = 'one' WHERE name = 'identity'";
    servers.iter().for_each(|server| E::run(&mut E::session(server, E::REMOTE.2), sql));
    let hosts = servers.each_ref().map(|server| format!("127.0.0.1:{}", server.port)).join(",");
    let target = E::target_at(&E::url(&hosts), password(E::REMOTE.1));
    (servers, target)
}

/// Nobody can tell which one is right, unless one has gone on from where the other one is.
fn of_two_servers_that_take_writes_the_later_one_is_used<E: Engine>() {
    let (servers, target) = two_servers::<E>();
    let mut store = E::open(target);
    unavailable(store.identity(), "both accept writes and neither follows the other");
    let [mut old, mut new] = servers.each_ref().map(|server| E::open(E::target_of(server)));
    let (former, under) = (old.identity().unwrap(), new.identity().unwrap());
    assert!(new.renew(&under, Some(&former.history)).unwrap());
    let is = new.identity().unwrap();
    assert!(former.history.is_former_of(&is.history));
    assert_eq!(store.identity().unwrap(), is);
}

/// Waits until a server answers so soon that no other one is asked.
fn answers_in_time<E: Engine>(server: &Server) {
    for _ in 0..600 {
        let begun = Instant::now();
        E::run(&mut E::session(server, E::REMOTE.2), "SELECT 1");
        if begun.elapsed() < Duration::from_millis(50) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the server stays slow");
}

/// Nobody stopped the former primary. While the present one answers, a call that it did not answer in time leads nobody
/// to the other.
fn a_former_primary_is_no_refuge_from_one_slow_call<E: Engine>() {
    let (servers, mut target) = two_servers::<E>();
    let sql = "UPDATE leafd_meta SET value =
        '{\"history\":\"0000000000000001\",\"settled\":true,\"engine\":\"another\"}' WHERE name = 'history'";
    E::run(&mut E::session(&servers[1], E::REMOTE.2), sql);
    target.statement_timeout = Duration::from_millis(900);
    let mut store = E::open(target);
    let under = store.identity().unwrap();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    servers[0].freeze();
    unavailable(store.claim(None, &under, &tag("t"), WISH, None), "no answer");
    servers[0].thaw();
    answers_in_time::<E>(&servers[0]);
    assert_eq!(store.claim(None, &under, &tag("t"), WISH, None).unwrap().run.count, 10);
    // When it is gone, the other one is what there is.
    servers[0].freeze();
    unavailable(store.claim(None, &under, &tag("t"), WISH, None), "no answer");
    let other = store.identity().unwrap();
    servers[0].thaw();
    assert_eq!(other.id, under.id);
    assert_ne!(other.history, under.history);
}
