//! Tags that several stores feed, and ceilings that move while they are drawn from: the allocator by itself,
//! case by case. All of it together, at random, is in `core_lives`.

use std::ops::Range;

use leafd::id::segment::{Allocator, Cut, MarkMove, Provision};
use leafd::id::{BootMs, Want};
use leafd_wire::Run;

const PROVISION: Provision =
    Provision { autonomy_ms: 600_000, step_max: 10_000_000, mark_ahead_ms: 5_000 };

const START: BootMs = BootMs(0);

const ID_MAX: u64 = i64::MAX as u64;

fn exactly(count: u32) -> Want {
    Want { count, fewer_will_do: false }
}

fn tag(lanes: u32) -> Allocator<u32> {
    Allocator::new(PROVISION, lanes, START)
}

/// Claims `numbers` and has the journal record them, marked to their end.
fn feed(tag: &mut Allocator<u32>, lane: u32, numbers: Range<u64>) -> Cut {
    send(tag);
    tag.claimed(START, lane, &numbers, 1).expect("it ascends");
    tag.hold(lane, &numbers, numbers.end)
}

/// Has a claim sent, for a request that nothing else can serve.
fn send(tag: &mut Allocator<u32>) {
    tag.enqueue(exactly(u32::MAX), BootMs(u64::MAX), 0);
    assert!(tag.claim_wanted(START).is_some());
    assert_eq!(tag.abandon(), [0]);
}

fn draw(tag: &mut Allocator<u32>, count: u32) -> Vec<Run> {
    let mut runs = Vec::new();
    tag.take(Want { count, fewer_will_do: true }, &mut runs);
    runs
}

fn closed(lane: u32, end: u64) -> MarkMove {
    MarkMove { lane, end, mark: end }
}

#[test]
fn a_store_s_numbers_become_every_nth_id() {
    for (lanes, lane, k, first) in [(1, 0, 7, 7), (2, 0, 7, 14), (2, 1, 7, 15), (5, 4, 1, 9)] {
        let mut tag = tag(lanes);
        assert!(feed(&mut tag, lane, k..k + 10).is_empty());
        assert_eq!(draw(&mut tag, 4), [Run { first, count: 4, stride: lanes }]);
    }
}

#[test]
fn a_lane_goes_on_while_another_one_is_away_and_a_request_may_span_both() {
    let mut tag = tag(2);
    assert!(feed(&mut tag, 1, 100..102).is_empty());
    assert!(feed(&mut tag, 0, 10..12).is_empty());
    let runs = draw(&mut tag, 3);
    let expected =
        [Run { first: 201, count: 2, stride: 2 }, Run { first: 20, count: 1, stride: 2 }];
    assert_eq!(runs, expected);
    assert_eq!((tag.highest_end(0), tag.highest_end(1)), (12, 102));
}

#[test]
fn a_lane_met_late_brings_its_leftovers() {
    let mut tag = tag(2);
    assert!(feed(&mut tag, 0, 10..12).is_empty());
    assert!(tag.restore(1, vec![5..7, 9..12], 50).is_empty());
    assert_eq!(
        tag.exact_marks().collect::<Vec<_>>(),
        [(0, 10..12, 10), (1, 5..7, 5), (1, 9..12, 9)]
    );
    assert_eq!(tag.highest_end(1), 50);
}

#[test]
fn leftovers_that_would_go_back_are_cut() {
    let mut tag = tag(1);
    assert!(feed(&mut tag, 0, 100..110).is_empty());
    let cut = tag.restore(0, std::iter::once(40..50).collect(), 60);
    assert_eq!(cut, Cut { lost: 10, closed: vec![closed(0, 50)], kept: None });
    assert_eq!(draw(&mut tag, 1), [Run { first: 100, count: 1, stride: 1 }]);
}

#[test]
fn what_the_journal_saw_before_cuts_claims_of_a_store_that_went_back() {
    // Held already.
    let mut held = tag(1);
    assert!(feed(&mut held, 0, 100..110).is_empty());
    let cut = held.restore(0, Vec::new(), 105);
    assert_eq!(cut, Cut { lost: 10, closed: vec![closed(0, 110)], kept: None });
    assert!(draw(&mut held, 1).is_empty());
    // On its way into the journal.
    let mut granted = tag(1);
    send(&mut granted);
    granted.claimed(START, 0, &(100..110), 1).expect("nothing was seen yet");
    assert!(granted.restore(0, Vec::new(), 105).is_empty());
    let cut = granted.hold(0, &(100..110), 110);
    assert_eq!(cut, Cut { lost: 10, closed: vec![closed(0, 110)], kept: None });
    assert!(draw(&mut granted, 1).is_empty());
}

#[test]
fn a_raised_end_refuses_claims_below_it_in_its_lane_alone() {
    let mut tag = tag(2);
    tag.raise_highest_end(1, 500);
    tag.raise_highest_end(1, 400);
    send(&mut tag);
    assert_eq!(tag.claimed(START, 1, &(499..600), 1), Err(500));
    tag.claim_failed(START);
    assert!(feed(&mut tag, 0, 1..2).is_empty());
    assert!(feed(&mut tag, 1, 500..600).is_empty());
}

#[test]
fn a_lowered_ceiling_cuts_and_a_raised_one_revives_nothing() {
    let mut tag = tag(1);
    assert!(feed(&mut tag, 0, 10..20).is_empty());
    assert!(feed(&mut tag, 0, 20..30).is_empty());
    draw(&mut tag, 2);
    let cut = tag.set_ceiling(0, 14);
    assert_eq!(cut.lost, 15);
    assert_eq!(cut.closed, [closed(0, 20), closed(0, 30)]);
    assert_eq!(cut.kept, None, "all that stays is marked: the journal needs no segment for it");
    assert!(tag.set_ceiling(0, 1_000).is_empty());
    assert!(feed(&mut tag, 0, 30..40).is_empty());
    let runs = draw(&mut tag, 100);
    let expected =
        [Run { first: 12, count: 3, stride: 1 }, Run { first: 30, count: 10, stride: 1 }];
    assert_eq!(runs, expected);
}

#[test]
fn a_segment_that_is_cut_short_is_a_new_one_to_the_journal() {
    let mut tag = tag(1);
    assert!(tag.restore(0, std::iter::once(10..1_000).collect(), 1_000).is_empty());
    let moves = tag.marks_wanted(START);
    assert_eq!(moves, [MarkMove { lane: 0, end: 1_000, mark: 74 }]);
    let cut = tag.set_ceiling(0, 499);
    let kept = Some((10..500, 10));
    assert_eq!(cut, Cut { lost: 500, closed: vec![closed(0, 1_000)], kept });
    tag.marked(&moves);
    assert!(draw(&mut tag, 1).is_empty(), "that mark was of the segment before it was cut");
    let moves = tag.marks_wanted(START);
    assert_eq!(moves, [MarkMove { lane: 0, end: 500, mark: 74 }]);
    tag.marked(&moves);
    assert_eq!(draw(&mut tag, 100), [Run { first: 10, count: 64, stride: 1 }]);
}

#[test]
fn a_grant_above_the_ceiling_is_held_as_far_as_it_lies_below() {
    let mut tag = tag(2);
    assert!(tag.set_ceiling(1, 14).is_empty());
    let cut = feed(&mut tag, 1, 10..20);
    assert_eq!(cut, Cut { lost: 5, closed: vec![closed(1, 20)], kept: None });
    let cut = feed(&mut tag, 1, 20..30);
    assert_eq!(cut, Cut { lost: 10, closed: vec![closed(1, 30)], kept: None });
    assert!(feed(&mut tag, 0, 20..22).is_empty(), "the other lane has its own ceiling");
    assert_eq!(draw(&mut tag, 100).iter().map(|run| run.count).sum::<u32>(), 7);
}

#[test]
fn no_ceiling_allows_an_id_that_is_not_a_positive_signed_number() {
    for lanes in [1, 2, 3, 1_000] {
        for lane in [0, lanes - 1] {
            let mut tag = tag(lanes);
            assert!(tag.set_ceiling(lane, u64::MAX).is_empty());
            let last = (ID_MAX - u64::from(lane)) / u64::from(lanes);
            assert_eq!(feed(&mut tag, lane, last - 9..last + 100).lost, 99);
            let ids: Vec<u64> = draw(&mut tag, 100).into_iter().flat_map(Run::ids).collect();
            assert_eq!(ids.len(), 10);
            assert_eq!(ids.last(), Some(&(last * u64::from(lanes) + u64::from(lane))));
        }
    }
}

#[test]
fn a_lane_forgotten_takes_its_numbers_and_no_others() {
    let mut tag = tag(2);
    assert!(feed(&mut tag, 0, 10..12).is_empty());
    assert!(feed(&mut tag, 1, 10..12).is_empty());
    tag.forget_lane(0);
    assert_eq!(draw(&mut tag, 9), [Run { first: 21, count: 2, stride: 2 }]);
}

/// A claim is sent, granted or recorded when its lane is forgotten.
#[test]
fn a_claim_may_come_back_to_a_forgotten_lane() {
    let numbers = 10..20;
    // Sent: the caller judges the grant, and here it uses it.
    let mut sent = tag(2);
    send(&mut sent);
    sent.forget();
    assert_eq!(sent.claim_wanted(START), None, "it is still in flight");
    sent.claimed(START, 1, &numbers, 1).expect("it ascends");
    assert!(sent.hold(1, &numbers, 20).is_empty());
    assert_eq!(sent.unissued(), 10);
    // Granted: lost, and the journal is told.
    for forget_all in [false, true] {
        let mut granted = tag(2);
        send(&mut granted);
        granted.claimed(START, 1, &numbers, 1).expect("it ascends");
        if forget_all {
            granted.forget()
        } else {
            granted.forget_lane(1)
        }
        assert!(granted.claiming());
        let cut = granted.hold(1, &numbers, 20);
        assert_eq!(cut, Cut { lost: 10, closed: vec![closed(1, 20)], kept: None });
        assert_eq!((granted.unissued(), granted.claiming()), (0, false));
    }
    // Another lane's claim is not concerned.
    let mut other = tag(2);
    send(&mut other);
    other.claimed(START, 1, &numbers, 1).expect("it ascends");
    other.forget_lane(0);
    assert!(other.hold(1, &numbers, 20).is_empty());
}

#[test]
fn marks_may_come_back_to_a_forgotten_lane() {
    let mut tag = tag(1);
    assert!(tag.restore(0, std::iter::once(10..1_000).collect(), 10).is_empty());
    let moves = tag.marks_wanted(START);
    assert_eq!(moves, [MarkMove { lane: 0, end: 1_000, mark: 74 }]);
    tag.forget();
    tag.enqueue(exactly(1), BootMs(u64::MAX), 0);
    assert!(tag.claim_wanted(START).is_some());
    let same = tag.claimed(START, 0, &(10..1_000), 1);
    assert_eq!(same, Err(1_000), "so no later segment has that end");
    tag.claim_failed(START);
    assert!(tag.claim_wanted(START).is_some());
    tag.claimed(START, 0, &(1_000..1_010), 1).expect("it ascends");
    assert!(tag.hold(0, &(1_000..1_010), 1_000).is_empty());
    assert!(tag.marks_wanted(START).is_empty(), "marks are in flight");
    tag.marked(&moves);
    assert_eq!(tag.serve_next(&mut Vec::new()), None, "they were not of this segment");
    let moves = tag.marks_wanted(START);
    tag.marked(&moves);
    assert_eq!(tag.serve_next(&mut Vec::new()), Some(0));
}
