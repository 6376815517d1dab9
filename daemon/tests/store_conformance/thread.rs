//! A store on its own thread: calls arrive, limits hold, panics and closing are told.

use std::future::Future;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};

use leafd::blocking::Backend as _;
use leafd::registry::Registry;
use leafd::store::*;
use leafd_core::mask::KeyNumber;
use leafd_core::registry::Mode;
use leafd_core::store::*;
use leafd_core::{Tag, WorkerId};

use crate::sqlite::Throwaway;
use crate::{Backend, new_tag, tag};

const CALLS_WAITING_MAX: usize = <dyn Store>::CALLS_WAITING_MAX;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// Answers `identity` with the thread's name after a permit came in, and panics at `raise`.
struct Stub {
    permits: mpsc::Receiver<()>,
    dropped: mpsc::Sender<()>,
}

impl Drop for Stub {
    fn drop(&mut self) {
        let _ = self.dropped.send(());
    }
}

fn stub() -> (StoreHandle, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (permit, permits) = mpsc::channel();
    let (dropped, was_dropped) = mpsc::channel();
    let handle = StoreHandle::spawn("stub", Box::new(Stub { permits, dropped })).unwrap();
    (handle, permit, was_dropped)
}

fn nobody(id: &str) -> Identity {
    Identity { id: StoreId(id.into()), history: History::default(), role: Role::default() }
}

impl Store for Stub {
    fn identity(&mut self) -> Result<Identity, StoreError> {
        self.permits.recv().unwrap();
        Ok(nobody(std::thread::current().name().unwrap_or_default()))
    }
    fn take_role(&mut self, _: &Identity, _: &Role) -> Result<(), StoreError> {
        Ok(())
    }
    fn replace_role(&mut self, _: &Identity, _: &Role) -> Result<(), StoreError> {
        Ok(())
    }
    fn is_settled(&mut self, _: &Identity) -> Result<Option<bool>, StoreError> {
        unreachable!("not asked here")
    }

    fn renew(&mut self, _: &Identity, _: Option<&History>) -> Result<bool, StoreError> {
        unreachable!("not asked here")
    }

    fn trust(&mut self, _: &History, _: u64) {}

    fn written(&self, _: &History) -> u64 {
        unreachable!("not asked here")
    }

    fn claim_as(
        &mut self,
        _: Option<&ClaimedBy>,
        _: &Identity,
        _: &Tag,
        _: ClaimWish,
    ) -> Result<Claim, StoreError> {
        Err(StoreError::Refused("stub".into()))
    }
    fn claims_after(&mut self, _: &Tag, _: u64, _: u32) -> Result<Vec<ClaimRecord>, StoreError> {
        Ok(Vec::new())
    }
    fn forget_claims(&mut self, _: std::time::Duration, _: u32) -> Result<u64, StoreError> {
        Ok(0)
    }
    fn conflicts(&self) -> Arc<AtomicU64> {
        Arc::default()
    }
    fn claimed_end(&mut self, _: &Tag) -> Result<u64, StoreError> {
        Err(StoreError::Refused("stub".into()))
    }
    fn show(&mut self, _: &Tag) -> Result<TagRow, StoreError> {
        Err(StoreError::Refused("stub".into()))
    }
    fn list(&mut self, _: Option<&Tag>, _: u32) -> Result<Vec<TagRow>, StoreError> {
        Ok(Vec::new())
    }
    fn ends(&mut self, _: Option<&Tag>, _: u32) -> Result<Vec<(Tag, u64)>, StoreError> {
        Ok(Vec::new())
    }
    fn create(&mut self, _: &Identity, _: &NewTag) -> Result<TagRow, StoreError> {
        Err(StoreError::Refused("stub".into()))
    }
    fn set(&mut self, _: &Tag, _: &TagChange) -> Result<TagRow, StoreError> {
        Err(StoreError::Refused("stub".into()))
    }
    fn delete(&mut self, _: &Tag, _: Generation) -> Result<TagRow, StoreError> {
        Err(StoreError::Refused("stub".into()))
    }
    fn look_up(&mut self, _: &Identity, _: &[Tag]) -> Result<Vec<Option<TagTerms>>, StoreError> {
        Ok(Vec::new())
    }
    fn raise(&mut self, _: &Identity, _: &[(Tag, u64)], _: bool) -> Result<Vec<bool>, StoreError> {
        panic!("the stub breaks")
    }
    fn check_in(
        &mut self,
        _: &Identity,
        _: &HostId,
        _: &[StartToken],
        _: &StartToken,
    ) -> Result<CheckIn, StoreError> {
        Ok(CheckIn::New)
    }
    fn note_static_worker(
        &mut self,
        _: &Identity,
        _: WorkerId,
        _: &StartToken,
        _: &str,
    ) -> Result<Vec<StaticUser>, StoreError> {
        unreachable!("not asked here")
    }
    fn note_mask_key(&mut self, _: &Identity, _: KeyNumber, _: u64) -> Result<u64, StoreError> {
        unreachable!("not asked here")
    }
    fn workers(&mut self, _: Mode) -> Box<dyn Registry + '_> {
        unreachable!("not asked here")
    }
}

#[test]
fn every_call_reaches_the_store() {
    let mut place = Throwaway::new();
    let direct = place.connect().identity().unwrap();
    let handle = StoreHandle::spawn("store.db", place.connect()).unwrap();
    runtime().block_on(async {
        assert_eq!(handle.identity().await.unwrap(), direct);
        let row = handle.create(&direct, new_tag("t", 1, 10)).await.unwrap();
        let wish = ClaimWish::new(1, 10);
        let by = ClaimedBy { host: HostId("h".into()), name: "web-1".into(), holds_from: None };
        let claim = handle.claim_as(Some(by.clone()), &direct, &tag("t"), wish).await.unwrap();
        assert_eq!(claim.run.range(), 1..11);
        let claims = handle.claims_after(&tag("t"), 0, 5).await.unwrap();
        assert_eq!(
            claims.iter().map(|one| (one.run, &one.by)).collect::<Vec<_>>(),
            [(claim.run, &by)]
        );
        assert_eq!(handle.forget_claims(std::time::Duration::from_secs(60), 5).await.unwrap(), 0);
        let ends = vec![(tag("t"), 50), (tag("u"), 9)];
        assert_eq!(handle.raise(&direct, ends, false).await.unwrap(), [true, false]);
        let change = TagChange { step: Some(3), ..TagChange::default() };
        assert_eq!(handle.set(&tag("t"), change).await.unwrap().step, 3);
        assert_eq!(handle.show(&tag("t")).await.unwrap().max_id, 50);
        assert_eq!(handle.list(None, 5).await.unwrap().len(), 1);
        assert_eq!(handle.ends(Some(&tag("s")), 5).await.unwrap(), [(tag("t"), 50), (tag("u"), 9)]);
        let terms = handle.look_up(&direct, vec![tag("t"), tag("u")]).await.unwrap();
        assert_eq!((terms[0].unwrap().generation, terms[1]), (row.generation, None));
        assert_eq!(handle.delete(&tag("t"), row.generation).await.unwrap().max_id, 50);
        let (host, start) = (HostId("h".into()), StartToken("s".into()));
        assert_eq!(handle.check_in(&direct, &host, vec![], &start).await.unwrap(), CheckIn::New);
        assert_eq!(handle.note_mask_key(&direct, KeyNumber::FIRST, 7).await.unwrap(), 7);
        handle.take_role(&direct, &Role("1 of 2".into())).await.unwrap();
        let now = handle.identity().await.unwrap();
        handle.replace_role(&now, &direct.role).await.unwrap();
        handle.close().await;
        let closed = handle.identity().await.unwrap_err().to_string();
        assert!(closed.contains("store.db") && closed.contains("closed"), "{closed}");
        handle.close().await;
    });
}

#[test]
fn a_panic_is_one_calls_error() {
    let (handle, permit, _) = stub();
    runtime().block_on(async {
        let broken = handle.raise(&nobody(""), vec![], false).await.unwrap_err().to_string();
        assert!(broken.contains("the stub breaks"), "{broken}");
        permit.send(()).unwrap();
        assert_eq!(&*handle.identity().await.unwrap().id.0, "leafd-store");
    });
}

#[test]
fn the_queue_is_bounded_and_callers_that_left_are_not_served() {
    let (handle, permit, _) = stub();
    let mut context = Context::from_waker(Waker::noop());
    let mut calls: Vec<_> =
        (0..CALLS_WAITING_MAX + 20).map(|_| Box::pin(handle.identity())).collect();
    let mut refused = 0;
    for call in &mut calls {
        if let Poll::Ready(Err(error)) = call.as_mut().poll(&mut context) {
            assert!(matches!(error, StoreError::Overloaded { waiting_max: CALLS_WAITING_MAX, .. }));
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
            match handle.identity().await {
                Err(StoreError::Overloaded { .. }) => tokio::task::yield_now().await,
                answer => break assert!(answer.is_ok(), "{answer:?}"),
            }
        }
    });
}

#[test]
fn the_store_is_dropped_with_the_last_handle() {
    let (handle, _permit, was_dropped) = stub();
    drop(handle.clone());
    assert!(was_dropped.try_recv().is_err());
    drop(handle);
    was_dropped.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
}
