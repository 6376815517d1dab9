//! A journal that fails while processes draw from memory: they get what it has recorded, and nothing more.

use std::fs;
use std::time::Duration;

use leafd_tests::power::{Mode, PowerLoss};
use leafd_tests::small_disk::SmallDisk;
use leafd_wire::Status;

use super::pages::{Pages, ask, reply, share};
use super::sharing;
use crate::host::{Host, eventually};
use crate::raw::Raw;

const MENDED_WITHIN: Duration = Duration::from_secs(60);

/// A host whose store does not lie in the state directory, which is there.
fn store_elsewhere() -> Host {
    let mut host = sharing();
    let store = format!("sqlite:{}", host.path("store.db").display());
    host.change("store", &store);
    fs::create_dir(host.state_dir()).unwrap();
    host
}

/// Draws until the journal fails. Returns the last id.
#[track_caller]
fn draw_until_refused(raw: &mut Raw, pages: &Pages) -> u64 {
    let mut last = 0;
    for _ in 0..20_000_000 {
        if let Some(id) = pages.draw() {
            assert!(id > last, "{id} follows {last}");
            last = id;
            continue;
        }
        ask(raw, "orders", pages.number, 0);
        let (answer, came) = reply(raw);
        assert!(came.is_empty(), "no other run begins");
        match answer.status() {
            Status::Ok | Status::Deadline => {}
            _ => {
                let text = answer.refused(Status::Journal);
                assert!(text.contains("journal.db"), "{text}");
                return last;
            }
        }
    }
    panic!("the journal never fails");
}

#[test]
fn nothing_is_drawn_that_a_full_disk_did_not_record() {
    let host = store_elsewhere();
    let state_dir = host.state_dir();
    let (mut host, disk) = SmallDisk::of(host, &state_dir);
    host.start();
    host.create("orders");
    let mut raw = host.raw();
    let pages = share(&mut raw, "orders");
    assert!(pages.draw().is_some());
    disk.fill(&host);
    let last = draw_until_refused(&mut raw, &pages);
    assert_eq!(pages.draw(), None, "the run has ended with the journal");
    assert!(host.status()["shared_runs"]["ended"]["revoked"].as_u64() >= Some(1));
    disk.empty(&host);
    let next = eventually("ids come again", MENDED_WITHIN, || {
        ask(&mut raw, "orders", 0, 1_000);
        let (answer, came) = reply(&mut raw);
        (came.len() == 2).then(|| Pages::of(&answer, came))
    });
    assert!(next.draw().unwrap() > last);
    assert_eq!(pages.draw(), None, "what has ended does not begin again");
    host.stop();
}

#[test]
fn what_was_drawn_before_syncs_failed_is_not_drawn_again_after_a_crash() {
    let mut host = store_elsewhere();
    let scratch = tempfile::tempdir().unwrap();
    let power = PowerLoss::of(&host.state_dir(), scratch.path()).unwrap();
    host.watch(&power, Mode::Sync);
    host.start();
    host.create("orders");
    let mut raw = host.raw();
    let pages = share(&mut raw, "orders");
    assert!(pages.draw().is_some());
    power.break_disk(true).unwrap();
    let last = draw_until_refused(&mut raw, &pages);
    assert_eq!(pages.draw(), None, "the run has ended with the journal");
    // What was not synced is gone.
    host.kill();
    power.fail().unwrap();
    power.break_disk(false).unwrap();
    host.start();
    assert!(share(&mut host.raw(), "orders").draw().unwrap() > last);
}
