//! A backend on its own thread: calls arrive, limits hold, panics and closing are reported.

use std::future::Future;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

use leafd::blocking::{Backend, Handle};
use leafd::store::StoreHandle;

use crate::Backend as _;
use crate::sqlite::Throwaway;

/// Answers with the thread's name after a permit came in.
struct Stub {
    permits: mpsc::Receiver<()>,
    dropped: mpsc::Sender<()>,
}

impl Backend for Stub {
    type Error = String;

    const THREAD_NAME: &'static str = "leafd-stub";
    const CALLS_WAITING_MAX: usize = 64;

    fn unavailable(name: &str, cause: String) -> String {
        format!("{name}: {cause}")
    }

    fn overloaded(_: &str) -> String {
        "overloaded".to_owned()
    }
}

impl Stub {
    fn name(&mut self) -> Result<String, String> {
        self.permits.recv().unwrap();
        Ok(std::thread::current().name().unwrap_or_default().to_owned())
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        let _ = self.dropped.send(());
    }
}

fn stub() -> (Handle<Stub>, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (permit, permits) = mpsc::channel();
    let (dropped, was_dropped) = mpsc::channel();
    let handle = Handle::spawn("stub", Box::new(Stub { permits, dropped })).unwrap();
    (handle, permit, was_dropped)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
fn calls_reach_a_store_until_it_is_closed() {
    let mut place = Throwaway::new();
    let direct = place.connect().identity().unwrap();
    let handle = StoreHandle::spawn("store.db", place.connect()).unwrap();
    runtime().block_on(async {
        assert_eq!(handle.call(|store| store.identity()).await.unwrap(), direct);
        handle.close().await;
        let closed = handle.call(|store| store.identity()).await.unwrap_err().to_string();
        assert!(closed.contains("store.db") && closed.contains("closed"), "{closed}");
        handle.close().await;
    });
}

#[test]
fn a_panic_is_one_calls_error() {
    let (handle, permit, _) = stub();
    runtime().block_on(async {
        let broken = handle.call(|_| -> Result<(), String> { panic!("the stub breaks") }).await;
        let broken = broken.unwrap_err();
        assert!(broken.contains("the stub breaks"), "{broken}");
        permit.send(()).unwrap();
        assert_eq!(handle.call(Stub::name).await.unwrap(), Stub::THREAD_NAME);
    });
}

#[test]
fn the_queue_is_bounded_and_callers_that_left_are_not_served() {
    let (handle, permit, _) = stub();
    let mut context = Context::from_waker(Waker::noop());
    let mut calls: Vec<_> =
        (0..Stub::CALLS_WAITING_MAX + 20).map(|_| Box::pin(handle.call(Stub::name))).collect();
    let mut refused = 0;
    for call in &mut calls {
        if let Poll::Ready(Err(error)) = call.as_mut().poll(&mut context) {
            assert_eq!(error, "overloaded");
            refused += 1;
        }
    }
    // The thread may have taken one out of the queue.
    assert!(refused == 20 || refused == 19, "{refused}");
    drop(calls);
    runtime().block_on(async {
        // One for the call that is running already, one for ours: the rest is skipped.
        permit.send(()).unwrap();
        permit.send(()).unwrap();
        loop {
            match handle.call(Stub::name).await {
                Err(error) if error == "overloaded" => tokio::task::yield_now().await,
                answer => break assert!(answer.is_ok(), "{answer:?}"),
            }
        }
    });
}

#[test]
fn the_backend_is_dropped_with_the_last_handle() {
    let (handle, _permit, was_dropped) = stub();
    drop(handle.clone());
    assert!(was_dropped.try_recv().is_err());
    drop(handle);
    was_dropped.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
}
