//! Tests the client for tokio: what it shares, what a dropped future leaves behind, and misbehaving daemons.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use leafd_client::{AsyncClient, Error, FakeClient, IdSource, Status};
use tokio::task::JoinSet;

use crate::checks::{check_unique, check_within, client, direct};
use crate::forks::fork;
use crate::server::Server;

const SOON: Duration = Duration::from_millis(100);

/// Runs a future on a single-threaded runtime.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(future)
}

async fn draw_some(client: &AsyncClient, tag: &str) -> Vec<u64> {
    let mut ids = Vec::new();
    for _ in 0..200 {
        ids.push(client.next(tag).await.unwrap());
    }
    ids.push(client.next_direct(tag).await.unwrap());
    ids.extend(client.next_batch(tag, 10).await.unwrap());
    ids
}

#[test]
fn tasks_and_threads_share_held_runs_and_no_id() {
    for tag in ["orders", "short", "brief", "strict", "strided", "pieces"] {
        let server = Server::start();
        let blocking = client(&server);
        let asynchronous = AsyncClient::from(blocking.clone());
        let mut ids = run(async {
            let mut tasks = JoinSet::new();
            for _ in 0..20 {
                let client = asynchronous.clone();
                tasks.spawn(async move { draw_some(&client, tag).await });
            }
            let thread = std::thread::spawn(move || {
                (0..2_000).map(|_| blocking.next(tag).unwrap()).collect::<Vec<_>>()
            });
            let mut ids = tasks.join_all().await.concat();
            ids.extend(thread.join().unwrap());
            ids
        });
        ids.extend(run(async { draw_some(&asynchronous, tag).await }));
        assert_eq!(check_unique(ids), 21 * 211 + 2_000, "{tag}");
    }
}

#[test]
fn a_forked_child_makes_a_client_of_its_own() {
    let server = Server::start();
    let mut parents = Some(AsyncClient::from(client(&server)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut ids = runtime.block_on(draw_some(parents.as_ref().unwrap(), "orders"));
    let child = fork(|| {
        let copy = parents.take().unwrap();
        for refused in [run(copy.next_direct("orders")), run(copy.next("orders"))] {
            assert!(matches!(refused, Err(Error::InvalidArgument { .. })), "{refused:?}");
        }
        let own = AsyncClient::from(copy.client().clone());
        // The parent's connections remain usable.
        drop(copy);
        run(draw_some(&own, "orders"))
    });
    ids.extend(runtime.block_on(draw_some(parents.as_ref().unwrap(), "orders")));
    ids.extend(child.ids());
    assert_eq!(check_unique(ids), 3 * 211);
}

#[test]
fn ids_come_from_a_run_of_the_blocking_client() {
    let server = Server::start();
    let blocking = client(&server);
    let first = blocking.next("orders").unwrap();
    let second = run(AsyncClient::from(blocking).next("orders")).unwrap();
    assert_eq!(second, first + 1);
    assert_eq!(server.shared().connections_made.load(Ordering::SeqCst), 1);
}

#[test]
fn a_dropped_future_leaves_nothing_behind() {
    let server = Server::start();
    let client = AsyncClient::from(client(&server));
    run(async {
        for tag in ["silent", "slow", "orders"] {
            let dropped = tokio::time::timeout(Duration::from_millis(1), client.next(tag)).await;
            assert!(dropped.is_err() || tag == "orders");
            let dropped = tokio::time::timeout(Duration::from_millis(1), client.next_direct(tag));
            let _ = dropped.await;
        }
        // The task that requests a run is dropped while another one waits for its turn.
        let asking = client.clone();
        let asking = tokio::spawn(async move { asking.next("slow").await });
        let waiting = client.clone();
        let waiting = tokio::spawn(async move { waiting.next("slow").await });
        tokio::time::sleep(Duration::from_millis(10)).await;
        asking.abort();
        check_unique([waiting.await.unwrap().unwrap(), client.next("slow").await.unwrap()]);
        check_unique(draw_some(&client, "orders").await);
    });
}

#[test]
fn a_call_ends_by_its_deadline() {
    let server = Server::start();
    let client = AsyncClient::from(client(&server)).within(SOON);
    run(async {
        let begun = Instant::now();
        let (one, other, batch) = tokio::join!(
            client.next("silent"),
            client.next_direct("silent"),
            client.next_batch("silent", 10)
        );
        check_within(begun.elapsed(), 100, 5_000);
        for error in [one.unwrap_err(), other.unwrap_err(), batch.unwrap_err()] {
            assert!(matches!(error, Error::Timeout { .. }) && error.is_timeout(), "{error}");
        }
    });
}

#[test]
fn a_request_is_sent_again_after_a_break() {
    let mut server = Server::start();
    let client = AsyncClient::from(direct(&server));
    run(async {
        let mut ids = vec![client.next("orders").await.unwrap()];
        for _ in 0..3 {
            server.restart();
            ids.push(client.next("orders").await.unwrap());
        }
        check_unique(ids);
        let error = client.next("half").await.unwrap_err();
        assert!(matches!(error, Error::Disconnected { .. }), "{error}");
        for tag in ["long", "garbage", "more", "stray"] {
            let error = client.next(tag).await.unwrap_err();
            assert!(matches!(error, Error::Protocol { .. }), "{tag}: {error}");
        }
        let error = client.next("unknown").await.unwrap_err();
        assert_eq!(error.status(), Some(Status::TagUnknown));
        assert!(client.next_batch("orders", u64::MAX).await.is_err());
    });
}

#[test]
fn a_missing_daemon_is_an_error_at_once() {
    let client = leafd_client::Client::builder().socket("/nowhere/at/all").build().unwrap();
    let error = run(AsyncClient::from(client).next("orders")).unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
}

#[test]
fn a_dropped_future_waits_no_longer_for_a_missing_daemon() {
    let waiting = leafd_client::Client::builder().socket("/nowhere/at/all");
    let client = AsyncClient::from(waiting.wait(Duration::from_secs(600)).build().unwrap());
    let begun = Instant::now();
    // A runtime ends when the last of its calls has ended.
    run(async { assert!(tokio::time::timeout(SOON, client.next("orders")).await.is_err()) });
    check_within(begun.elapsed(), 100, 30_000);
}

#[test]
fn info_and_layouts_are_reported() {
    let server = Server::start();
    let client = AsyncClient::from(client(&server));
    run(async {
        assert_eq!(client.info().await.unwrap(), client.client().info().unwrap());
        assert_eq!(client.layout("snowflake").await.unwrap(), leafd_client::Layout::LEAF);
        assert!(client.layout("other").await.is_err());
    });
}

#[test]
fn futures_can_move_between_threads() {
    fn check<T: Send>(_: T) {}
    let server = Server::start();
    let client = AsyncClient::from(client(&server));
    check(client.next("orders"));
    check(client.next_batch("orders", 1));
    check(client.info());
}

#[test]
fn a_fake_takes_a_clients_place() {
    fn two_of(ids: &dyn IdSource) -> [u64; 2] {
        [ids.next("orders").unwrap(), ids.next_direct("orders").unwrap()]
    }
    let server = Server::start();
    check_unique(two_of(&client(&server)));
    let fake = FakeClient::default();
    assert_eq!(two_of(&fake), [1, 2]);
    fake.fail_next(Status::TagUnknown);
    assert_eq!(fake.next("orders").unwrap_err().status(), Some(Status::TagUnknown));
    assert_eq!(fake.next_batch("items", 3).unwrap().collect::<Vec<_>>(), [1, 2, 3]);
}
