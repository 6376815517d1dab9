//! The claim on a worker: it is recorded, replaced and forgotten, and never taken from another host's journal.

use super::*;
use leafd_core::WorkerId;
use leafd_core::lease::Recorded;
use leafd_core::registry::{Holder, LeaseRecord, RegistryId};
use leafd_core::store::{History, StartToken};

pub(super) fn claim(bound: u64, incarnation: &str) -> Recorded {
    let holder = Holder {
        id: "holder".into(),
        name: "name".into(),
        incarnation: StartToken(incarnation.into()),
    };
    Recorded {
        place: "postgres://db/ids".into(),
        registry: RegistryId { id: StoreId("store".into()), history: History("1".into()) },
        worker: WorkerId(17),
        start: UnixMs(5),
        holding: LeaseRecord { holder: Some(holder), expires: UnixMs(bound) },
        earlier: None,
    }
}

/// The claim that the next start finds.
async fn reopened(dir: &Path, writes: Vec<Write>) -> Option<Recorded> {
    let (journal, _) = open(dir);
    for write in writes {
        journal.commit(vec![write]).await.unwrap();
    }
    journal.close().await;
    let (journal, recovered) = open(dir);
    journal.close().await;
    recovered.claim
}

#[test]
fn the_last_claim_is_found_by_the_next_start() {
    let place = place();
    run(async {
        assert_eq!(reopened(place.path(), vec![]).await, None);
        let renewed = vec![Write::Worker(claim(10, "a")), Write::Worker(claim(20, "a"))];
        assert_eq!(reopened(place.path(), renewed).await, Some(claim(20, "a")));
        let stopped = Recorded { earlier: Some(claim(20, "a").holding), ..claim(15, "stopped-a") };
        let found = reopened(place.path(), vec![Write::Worker(stopped.clone())]).await;
        assert_eq!(found, Some(stopped));
        assert_eq!(reopened(place.path(), vec![Write::NoWorker]).await, None);
    });
}

#[test]
fn a_claim_that_can_t_be_recorded_whole_is_refused() {
    let place = place();
    run(async {
        let (journal, _) = open(place.path());
        let nobody = LeaseRecord { holder: None, expires: UnixMs(10) };
        let odd = [
            claim(u64::MAX, "a"),
            claim(10, &"a".repeat(8_193)),
            Recorded { place: "p".repeat(8_193).into(), ..claim(10, "a") },
            Recorded { holding: nobody, ..claim(10, "a") },
        ];
        for odd in odd {
            let error = journal.commit(vec![Write::Worker(odd.clone())]).await.unwrap_err();
            assert!(error.refused, "{odd:?}");
        }
        journal.close().await;
        assert_eq!(reopened(place.path(), vec![]).await, None);
    });
}

#[test]
fn a_copy_s_claim_is_not_taken_over() {
    let place = place();
    let (original, copy) = (place.path().join("original"), place.path().join("copy"));
    run(async {
        reopened(&original, vec![Write::Worker(claim(10, "a"))]).await;
        let status =
            std::process::Command::new("cp").arg("-a").args([&original, &copy]).status().unwrap();
        assert!(status.success());
        assert_eq!(reopened(&copy, vec![]).await, None);
        assert_eq!(reopened(&original, vec![]).await, Some(claim(10, "a")));
    });
}

#[test]
fn a_claim_that_was_tampered_with_is_damage() {
    let place = place();
    run(async {
        reopened(place.path(), vec![Write::Worker(claim(10, "a"))]).await;
        let file = rusqlite::Connection::open(place.path().join("journal.db")).unwrap();
        let later = "UPDATE records SET value = replace(value, ':10', ':11') WHERE kind = 'lease'";
        assert_eq!(file.execute(later, []).unwrap(), 1);
        drop(file);
        let error = try_open(place.path()).unwrap_err();
        assert!(error.cause.contains("the record lease"), "{error}");
    });
}
