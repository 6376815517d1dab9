//! PostgreSQL with a synchronous standby that doesn't confirm.

use std::time::{Duration, Instant};

use leafd::store::postgres;
use leafd_core::store::{ClaimWish, Identity, StoreError};

use crate::postgres::{client, new_server, target};
use crate::server::Server;
use crate::{create, new_tag, tag};

const WISH: ClaimWish = ClaimWish::new(1, 1000);

/// Commits that wait for the standby.
const WAITING: &str = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";

/// A store with a tag, on a server whose administrator doesn't wait for standbys.
fn store(
    server: &Server,
    statement_timeout: Duration,
) -> (leafd::store::Store, Identity, ::postgres::Client) {
    let mut target = target(server, "postgres", "postgres");
    postgres::ENGINE.apply(&target).unwrap();
    target.statement_timeout = statement_timeout;
    let mut store = postgres::ENGINE.open(target);
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let under = store.identity().unwrap();
    let mut admin = client(server, "postgres").unwrap();
    admin.batch_execute("SET synchronous_commit = local").unwrap();
    (store, under, admin)
}

fn standby_is(name: &str, admin: &mut ::postgres::Client) {
    let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'");
    admin.batch_execute(&set).unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").unwrap();
    // Every process of the server reads it for itself. When the last one has can't be seen.
    std::thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    while name.is_empty() && waiting(admin) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "commits still wait for a standby");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How many commits wait for a standby.
fn waiting(admin: &mut ::postgres::Client) -> i64 {
    admin.query_one(&format!("SELECT count(*) {WAITING}"), &[]).unwrap().get(0)
}

#[test]
fn a_claim_that_no_synchronous_standby_confirmed_is_none() {
    let server = new_server(&[]);
    let (mut store, under, mut admin) = store(&server, Duration::from_secs(5));
    standby_is("nobody", &mut admin);
    let claim = std::thread::scope(|scope| {
        let claiming = scope.spawn(|| store.claim(None, &under, &tag("t"), WISH, None));
        let cancel = format!("SELECT pg_cancel_backend(pid) {WAITING}");
        while admin.query(&cancel, &[]).unwrap().is_empty() {
            assert!(!claiming.is_finished(), "it did not wait for a standby");
            std::thread::sleep(Duration::from_millis(20));
        }
        claiming.join().unwrap()
    });
    // The server said that it had committed, and it had.
    match claim {
        Err(StoreError::Unavailable { cause, .. }) => {
            assert!(cause.contains("synchronous standby did not confirm"), "{cause}");
        }
        other => panic!("{other:?}"),
    }
    standby_is("", &mut admin);
    assert_eq!(store.claim(None, &under, &tag("t"), WISH, None).unwrap().run.range(), 11..21);
}

/// A commit that nobody waits for any more keeps its tag's row locked, so that no further claim of the tag waits as well.
#[test]
fn while_the_standby_is_away_one_commit_a_tag_waits_for_it() {
    let server = new_server(&[]);
    let (mut store, under, mut admin) = store(&server, Duration::from_millis(900));
    create(&mut store, &new_tag("u", 1, 10)).unwrap();
    // The first claims of tags all write one row.
    for name in ["t", "u"] {
        assert_eq!(store.claim(None, &under, &tag(name), WISH, None).unwrap().run.range(), 1..11);
    }
    standby_is("nobody", &mut admin);
    for (name, commits) in [("t", 1), ("t", 1), ("u", 2), ("t", 2), ("u", 2)] {
        match store.claim(None, &under, &tag(name), WISH, None) {
            Err(StoreError::Unavailable { .. }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(waiting(&mut admin), commits, "{name}");
    }
    standby_is("", &mut admin);
    // What waited is committed, and used by nobody.
    for name in ["t", "u"] {
        assert_eq!(store.claim(None, &under, &tag(name), WISH, None).unwrap().run.range(), 21..31);
    }
}

#[test]
fn each_claim_waits_for_disk_and_standby_whatever_the_server_is_set_to() {
    let server = new_server(&[]);
    let (mut store, under, mut admin) = store(&server, Duration::from_secs(5));
    // A trigger sees the setting of the claim's own transaction.
    admin
        .batch_execute(
            "CREATE TABLE seen (setting text);
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN new; END $$;
             CREATE TRIGGER note AFTER UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION note()",
        )
        .unwrap();
    let mut other = client(&server, "postgres").unwrap();
    for setting in ["local", "off"] {
        // Sessions that are open already follow it.
        admin.batch_execute(&format!("ALTER SYSTEM SET synchronous_commit = {setting}")).unwrap();
        admin.batch_execute("SELECT pg_reload_conf()").unwrap();
        let begun = Instant::now();
        while other.query_one("SHOW synchronous_commit", &[]).unwrap().get::<_, String>(0)
            != setting
        {
            assert!(begun.elapsed() < Duration::from_secs(20), "the setting is not reloaded");
            std::thread::sleep(Duration::from_millis(20));
        }
        store.claim(None, &under, &tag("t"), WISH, None).unwrap();
    }
    let seen = admin.query("SELECT setting FROM seen", &[]).unwrap();
    let seen: Vec<String> = seen.iter().map(|row| row.get(0)).collect();
    assert_eq!(seen, ["on", "on"]);
}
