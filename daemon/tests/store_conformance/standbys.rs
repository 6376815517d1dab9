//! PostgreSQL with a synchronous standby that doesn't confirm.

use std::time::Duration;

use leafd::store::{Store as _, postgres};
use leafd_core::store::{ClaimWish, StoreError};

use crate::postgres::{client, new_server, target};
use crate::{create, new_tag, tag};

const WISH: ClaimWish = ClaimWish::new(1, 1000);

#[test]
fn a_claim_that_no_synchronous_standby_confirmed_is_none() {
    let server = new_server(&[]);
    let target = target(&server, "postgres", "postgres");
    postgres::apply(&target).unwrap();
    let mut store = postgres::open(target);
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let under = store.identity().unwrap();
    let mut admin = client(&server, "postgres").unwrap();
    admin.batch_execute("SET synchronous_commit = local").unwrap();
    let standby_is = |name: &str, admin: &mut ::postgres::Client| {
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'");
        admin.batch_execute(&set).unwrap();
        admin.batch_execute("SELECT pg_reload_conf()").unwrap();
        std::thread::sleep(Duration::from_millis(300));
    };
    standby_is("nobody", &mut admin);
    let claim = std::thread::scope(|scope| {
        let claiming = scope.spawn(|| store.claim(&under, &tag("t"), WISH));
        let cancel =
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        while admin.query(cancel, &[]).unwrap().is_empty() {
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
    assert_eq!(store.claim(&under, &tag("t"), WISH).unwrap().run.range(), 11..21);
}
