//! When a shared run ends: at once, where the right to its ids does; and by itself, where no daemon renews it.

use std::fs;
use std::time::Duration;

use leafd_client::opcode;
use leafd_wire::{ShareReply, Status};
use nix::sys::signal::Signal;
use serde_json::json;

use super::pages::{ask, reply, share};
use super::sharing;
use crate::host::{Host, eventually};

const WITHIN: Duration = Duration::from_secs(30);

/// By then a page that nobody renews has ended, and clocks that lag have seen it.
const EXPIRED: Duration = Duration::from_millis(1_300);

fn begun() -> Host {
    let mut host = sharing();
    host.start();
    host.create("orders");
    host
}

#[test]
fn nothing_is_drawn_of_a_tag_that_was_deleted() {
    let host = begun();
    let mut raw = host.raw();
    let pages = share(&mut raw, "orders");
    assert!(pages.draw().is_some());
    let shown = host.admin(opcode::TAG_SHOW, &json!({ "tag": "orders" }));
    let generation = &shown["generation"];
    host.admin(opcode::TAG_DELETE, &json!({ "tag": "orders", "generation": generation }));
    assert_eq!(pages.draw(), None);
    ask(&mut raw, "orders", pages.number, 1_000);
    reply(&mut raw).0.refused(Status::TagUnknown);
}

#[test]
fn nothing_is_drawn_above_a_ceiling_that_was_lowered() {
    let host = begun();
    let mut raw = host.raw();
    let pages = share(&mut raw, "orders");
    let drawn = pages.draw().unwrap();
    let above = json!({ "tag": "orders", "ceiling": 1_000_000_000 });
    host.admin(opcode::TAG_SET, &above);
    assert!(pages.draw().is_some(), "all of it lies below this ceiling");
    host.admin(opcode::TAG_SET, &json!({ "tag": "orders", "ceiling": drawn + 5 }));
    assert_eq!(pages.draw(), None);
}

#[test]
fn nothing_is_drawn_by_whom_access_was_withdrawn_from() {
    let mut host = sharing();
    host.unset("access");
    let file = host.path("leafd.toml");
    let rule = "[[access]]\ntags = ['orders']\nshare_uids = [0]\n";
    fs::write(&file, rule).unwrap();
    let mut host = host.variable("LEAFD_CONFIG", &file);
    host.start();
    host.create("orders");
    let mut raw = host.raw();
    let pages = share(&mut raw, "orders");
    assert!(pages.draw().is_some());
    fs::write(&file, "").unwrap();
    let before = host.log().len();
    host.signal(Signal::SIGHUP);
    eventually("a reload", WITHIN, || host.log()[before..].contains("in force now").then_some(()));
    assert_eq!(pages.draw(), None);
    ask(&mut raw, "orders", pages.number, 1_000);
    let (answer, came) = reply(&mut raw);
    assert!(matches!(ShareReply::decode(&answer.body), Ok(ShareReply::NotShared { .. })));
    assert!(came.is_empty());
}

#[test]
fn a_daemon_that_stops_takes_its_pages_along_and_the_next_one_need_not_wait() {
    let mut host = begun();
    let pages = share(&mut host.raw(), "orders");
    let last = pages.draw().unwrap();
    host.stop();
    assert_eq!(pages.draw(), None);
    host.start();
    let next = share(&mut host.raw(), "orders");
    assert_ne!(next.number, pages.number);
    assert!(next.draw().unwrap() > last);
}

#[test]
fn what_a_killed_daemon_has_published_comes_before_what_the_next_one_publishes() {
    let mut host = begun();
    let mut raw = host.raw();
    let pages = share(&mut raw, "orders");
    // So that more is published.
    let mut published = Vec::new();
    for _ in 0..6 {
        published.extend(std::iter::from_fn(|| pages.draw()));
        ask(&mut raw, "orders", pages.number, 20_000);
        assert_eq!(reply(&mut raw).0.status(), Status::Ok);
    }
    host.kill();
    host.start();
    let mut raw = host.raw();
    ask(&mut raw, "orders", pages.number, 0);
    // One that does not want to wait is told why there is nothing; or the time is over already on a busy machine.
    let (answer, _) = reply(&mut raw);
    if answer.status() == Status::Deadline {
        assert!(answer.text().contains("the daemon before this one"), "{}", answer.text());
    }
    let next = share(&mut raw, "orders");
    assert!(!pages.is_open(), "the old page has ended before there is a new one");
    // Whatever the first daemon published lies below its marks.
    published.extend((0..pages.run.published()).filter_map(
        |ticket| match pages.run.find(ticket) {
            leafd_wire::share::Drawn::Taken(taken) => Some(taken.id),
            _ => None,
        },
    ));
    let last = published.into_iter().max().unwrap();
    assert!(next.draw().unwrap() > last, "above {last}");
}

#[test]
fn pages_of_a_daemon_that_is_stopped_end_by_themselves_and_live_on_with_it() {
    let host = begun();
    let mut raw = host.raw();
    let pages = share(&mut raw, "orders");
    assert!(pages.draw().is_some());
    host.signal(Signal::SIGSTOP);
    std::thread::sleep(EXPIRED);
    let drawn = pages.draw();
    host.signal(Signal::SIGCONT);
    assert_eq!(drawn, None);
    ask(&mut raw, "orders", pages.number, 20_000);
    let (answer, _) = reply(&mut raw);
    assert_eq!(ShareReply::decode(&answer.body), Ok(ShareReply::Same { page: pages.number }));
    eventually("an id", WITHIN, || {
        ask(&mut raw, "orders", pages.number, 20_000);
        reply(&mut raw);
        pages.draw()
    });
}

#[test]
fn a_page_that_is_used_is_renewed() {
    let host = begun();
    let mut raw = host.raw();
    let pages = share(&mut raw, "orders");
    let mut last = 0;
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(100));
        let drawn = pages.draw().or_else(|| {
            // On a busy machine a renewal may come late.
            ask(&mut raw, "orders", pages.number, 20_000);
            assert_eq!(reply(&mut raw).0.status(), Status::Ok);
            pages.draw()
        });
        assert!(drawn.unwrap() > last);
        last = drawn.unwrap();
    }
}
