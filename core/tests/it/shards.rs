//! Tags that several stores feed, and ceilings that move while ids are drawn: the allocator alone, case by
//! case. `lives` combines all of it at random.

use std::ops::Range;

use leafd_core::segment::{Allocator, MarkMove, PrefetchPolicy, Truncation};
use leafd_core::{BootMs, Want};
use leafd_wire::Run;

const PROVISION: PrefetchPolicy =
    PrefetchPolicy { autonomy_ms: 600_000, step_max: 10_000_000, mark_ahead_ms: 5_000, hold_ms: 0 };

const START: BootMs = BootMs(0);

const ID_MAX: u64 = i64::MAX as u64;

fn exactly(count: u32) -> Want {
    Want { count, allow_partial: false }
}

fn tag(shards: u32) -> Allocator<u32> {
    Allocator::new(PROVISION, shards, START)
}

/// Claims `numbers` and has the journal record them, marked up to their end.
fn feed(tag: &mut Allocator<u32>, shard: u32, numbers: Range<u64>) -> Truncation {
    send(tag);
    feed_run(tag, shard, run(numbers))
}

fn feed_run(tag: &mut Allocator<u32>, shard: u32, run: Run) -> Truncation {
    tag.claimed(START, shard, run, 1).expect("it ascends");
    tag.add_segment(shard, run, run.end())
}

fn run(numbers: Range<u64>) -> Run {
    Run { first: numbers.start, count: (numbers.end - numbers.start) as u32, stride: 1 }
}

/// Sends a claim, for a request that nothing else can serve.
fn send(tag: &mut Allocator<u32>) {
    tag.waiting.push(0, exactly(u32::MAX), BootMs(u64::MAX), 0);
    assert!(tag.claim_wanted(START).is_some());
    assert_eq!(tag.waiting.abandon(), [0]);
}

fn draw(tag: &mut Allocator<u32>, count: u32) -> Vec<Run> {
    let mut runs = Vec::new();
    tag.take(Want { count, allow_partial: true }, &mut runs);
    runs
}

fn closed(shard: u32, end: u64) -> MarkMove {
    MarkMove { shard, end, mark: end }
}

#[test]
fn a_strided_run_is_issued_cut_and_marked_by_its_own_ids() {
    let mut tag = tag(3);
    send(&mut tag);
    let claimed = Run { first: 8, count: 1_000, stride: 3 };
    let moved = tag.claimed(START, 2, claimed, 1).expect("it ascends");
    assert_eq!(moved, MarkMove { shard: 2, end: 3_006, mark: 8 + 64 * 3 });
    assert!(tag.add_segment(2, claimed, moved.mark).is_empty());
    assert_eq!(draw(&mut tag, 4), [Run { first: 8, count: 4, stride: 3 }]);
    assert_eq!(tag.held.exact_marks().collect::<Vec<_>>(), [(2, claimed, 20)]);
    // The ceiling lies between two of its ids.
    let cut = tag.set_ceiling(2, 300);
    let left = Run { count: 98, ..claimed };
    assert_eq!((left.last(), left.end()), (Some(299), 300));
    let kept = Some((left, moved.mark));
    assert_eq!(cut, Truncation { lost: 902, closed: vec![closed(2, 3_006)], kept });
    assert_eq!(draw(&mut tag, 100), [Run { first: 20, count: 60, stride: 3 }]);
    let moves = tag.marks_wanted(START);
    assert_eq!(moves, [MarkMove { shard: 2, end: 300, mark: 300 }]);
    tag.marked(START, &moves);
    assert_eq!(draw(&mut tag, 100), [Run { first: 200, count: 34, stride: 3 }]);
    assert_eq!(tag.held.unissued(), 0);
}

#[test]
fn leftovers_of_a_former_list_of_stores_are_issued_as_they_were_claimed() {
    let mut tag = tag(2);
    let left = vec![Run { first: 5, count: 3, stride: 4 }, run(20..22)];
    assert!(tag.restore(1, left.clone(), 22).is_empty());
    let moves = tag.marks_wanted(START);
    tag.marked(START, &moves);
    assert_eq!(draw(&mut tag, 100), left);
}

#[test]
fn a_shard_goes_on_while_another_one_is_away_and_a_request_may_span_both() {
    let mut tag = tag(2);
    let [odd, even] = [201, 20].map(|first| Run { first, count: 2, stride: 2 });
    send(&mut tag);
    assert!(feed_run(&mut tag, 1, odd).is_empty());
    send(&mut tag);
    assert!(feed_run(&mut tag, 0, even).is_empty());
    assert_eq!(draw(&mut tag, 3), [odd, Run { count: 1, ..even }]);
    assert_eq!((tag.highest_end(0), tag.highest_end(1)), (23, 204));
}

#[test]
fn a_shard_met_late_brings_its_leftovers() {
    let mut tag = tag(2);
    assert!(feed(&mut tag, 0, 10..12).is_empty());
    assert!(tag.restore(1, vec![run(5..7), run(9..12)], 50).is_empty());
    assert_eq!(
        tag.held.exact_marks().collect::<Vec<_>>(),
        [(0, run(10..12), 10), (1, run(5..7), 5), (1, run(9..12), 9)]
    );
    assert_eq!(tag.highest_end(1), 50);
}

#[test]
fn leftovers_that_would_go_back_are_cut() {
    let mut tag = tag(1);
    assert!(feed(&mut tag, 0, 100..110).is_empty());
    let cut = tag.restore(0, vec![run(40..50)], 60);
    assert_eq!(cut, Truncation { lost: 10, closed: vec![closed(0, 50)], kept: None });
    assert_eq!(draw(&mut tag, 1), [Run { first: 100, count: 1, stride: 1 }]);
}

#[test]
fn leftovers_are_cut_at_the_ceiling_and_go_on_where_held_ids_end() {
    let mut tag = tag(1);
    assert!(feed(&mut tag, 0, 10..20).is_empty());
    assert!(tag.set_ceiling(0, 44).is_empty());
    assert!(tag.restore(0, vec![run(20..25)], 10).is_empty());
    let cut = tag.restore(0, vec![run(30..50)], 15);
    let (closed, kept) = (vec![closed(0, 20), closed(0, 50)], Some((run(30..45), 30)));
    assert_eq!(cut, Truncation { lost: 15, closed, kept });
}

#[test]
fn what_is_claimed_and_how_much_of_it_may_be_issued_is_told_of_all_shards() {
    let mut two = tag(2);
    assert_eq!((two.ceiling(), two.claimed_to(), two.ceiling_used()), (None, 0, 0.0));
    assert!(feed(&mut two, 0, 10..20).is_empty());
    assert!(feed(&mut two, 1, 20..31).is_empty());
    assert!(two.set_ceiling(0, 76).is_empty() && two.set_ceiling(1, 40).is_empty());
    assert_eq!((two.ceiling(), two.claimed_to(), two.ceiling_used()), (Some(40), 30, 0.75));
    assert_eq!(two.highest_ends(), [20, 31]);
    two.forget();
    assert!(two.set_ceiling(1, 0).is_empty());
    assert_eq!(two.ceiling_used(), 30.0);
    // With several stores, the others may have the rest.
    for (shards, least) in [(1, 5), (2, 1)] {
        let mut tag = tag(shards);
        tag.waiting.push(0, exactly(5), BootMs(u64::MAX), 0);
        assert_eq!(tag.claim_wanted(START).map(|wish| wish.least), Some(least));
    }
    assert!(std::panic::catch_unwind(|| tag(0)).is_err());
}

#[test]
fn what_the_journal_saw_before_cuts_claims_of_a_store_that_went_back() {
    // Already held.
    let mut held = tag(1);
    assert!(feed(&mut held, 0, 100..110).is_empty());
    let cut = held.restore(0, Vec::new(), 105);
    assert_eq!(cut, Truncation { lost: 10, closed: vec![closed(0, 110)], kept: None });
    assert!(draw(&mut held, 1).is_empty());
    // On its way into the journal.
    let mut granted = tag(1);
    send(&mut granted);
    granted.claimed(START, 0, run(100..110), 1).expect("nothing was seen yet");
    assert!(granted.restore(0, Vec::new(), 105).is_empty());
    let cut = granted.add_segment(0, run(100..110), 110);
    assert_eq!(cut, Truncation { lost: 10, closed: vec![closed(0, 110)], kept: None });
    assert!(draw(&mut granted, 1).is_empty());
}

#[test]
fn a_raised_end_refuses_claims_below_it_in_its_shard_alone() {
    let mut tag = tag(2);
    tag.raise_highest_end(1, 500);
    tag.raise_highest_end(1, 400);
    send(&mut tag);
    assert_eq!(tag.claimed(START, 1, run(499..600), 1), Err(500));
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
    assert!(!cut.is_empty());
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
    assert!(tag.restore(0, vec![run(10..1_000)], 1_000).is_empty());
    let moves = tag.marks_wanted(START);
    assert_eq!(moves, [MarkMove { shard: 0, end: 1_000, mark: 74 }]);
    let cut = tag.set_ceiling(0, 499);
    let kept = Some((run(10..500), 10));
    assert_eq!(cut, Truncation { lost: 500, closed: vec![closed(0, 1_000)], kept });
    tag.marked(START, &moves);
    assert!(draw(&mut tag, 1).is_empty(), "that mark was of the segment before it was cut");
    let moves = tag.marks_wanted(START);
    assert_eq!(moves, [MarkMove { shard: 0, end: 500, mark: 74 }]);
    tag.marked(START, &moves);
    assert_eq!(draw(&mut tag, 100), [Run { first: 10, count: 64, stride: 1 }]);
}

#[test]
fn a_grant_above_the_ceiling_is_held_as_far_as_it_lies_below() {
    let mut tag = tag(2);
    assert!(tag.set_ceiling(1, 14).is_empty());
    let cut = feed(&mut tag, 1, 10..20);
    assert_eq!(cut, Truncation { lost: 5, closed: vec![closed(1, 20)], kept: None });
    let cut = feed(&mut tag, 1, 20..30);
    assert_eq!(cut, Truncation { lost: 10, closed: vec![closed(1, 30)], kept: None });
    assert!(feed(&mut tag, 0, 20..22).is_empty(), "the other shard has its own ceiling");
    assert_eq!(draw(&mut tag, 100).iter().map(|run| run.count).sum::<u32>(), 7);
}

#[test]
fn no_ceiling_allows_an_id_above_the_largest() {
    let mut tag = tag(1);
    assert!(tag.set_ceiling(0, u64::MAX).is_empty());
    assert!(feed(&mut tag, 0, ID_MAX - 9..ID_MAX + 1).is_empty());
    assert_eq!(draw(&mut tag, 100), [run(ID_MAX - 9..ID_MAX + 1)]);
    assert!(tag.set_ceiling(0, u64::MAX).is_empty());
}

#[test]
fn a_shard_forgotten_takes_its_numbers_and_no_others() {
    let mut tag = tag(2);
    assert!(feed(&mut tag, 0, 10..12).is_empty());
    assert!(feed(&mut tag, 1, 12..14).is_empty());
    tag.forget_shard(0);
    assert_eq!(draw(&mut tag, 9), [run(12..14)]);
}

/// The claim is sent, granted or recorded when its shard is forgotten.
#[test]
fn a_claim_may_come_back_to_a_forgotten_shard() {
    let numbers = run(10..20);
    // Sent: the caller judges the grant, and here it uses it.
    let mut sent = tag(2);
    send(&mut sent);
    sent.forget();
    assert_eq!(sent.claim_wanted(START), None, "it is still in flight");
    sent.claimed(START, 1, numbers, 1).expect("it ascends");
    assert!(sent.add_segment(1, numbers, 20).is_empty());
    assert_eq!(sent.held.unissued(), 10);
    // Granted: the numbers are lost, and the journal is told.
    for forget_all in [false, true] {
        let mut granted = tag(2);
        send(&mut granted);
        granted.claimed(START, 1, numbers, 1).expect("it ascends");
        if forget_all {
            granted.forget()
        } else {
            granted.forget_shard(1)
        }
        assert!(granted.claiming());
        let cut = granted.add_segment(1, numbers, 20);
        assert_eq!(cut, Truncation { lost: 10, closed: vec![closed(1, 20)], kept: None });
        assert_eq!((granted.held.unissued(), granted.claiming()), (0, false));
    }
    // Another shard's claim is not affected.
    let mut other = tag(2);
    send(&mut other);
    other.claimed(START, 1, numbers, 1).expect("it ascends");
    other.forget_shard(0);
    assert!(other.add_segment(1, numbers, 20).is_empty());
}

#[test]
fn marks_may_come_back_to_a_forgotten_shard() {
    let mut tag = tag(1);
    assert!(tag.restore(0, vec![run(10..1_000)], 10).is_empty());
    let moves = tag.marks_wanted(START);
    assert_eq!(moves, [MarkMove { shard: 0, end: 1_000, mark: 74 }]);
    tag.forget();
    tag.waiting.push(0, exactly(1), BootMs(u64::MAX), 0);
    assert!(tag.claim_wanted(START).is_some());
    let same = tag.claimed(START, 0, run(10..1_000), 1);
    assert_eq!(same, Err(1_000), "so no later segment has that end");
    tag.claim_failed(START);
    assert!(tag.claim_wanted(START).is_some());
    tag.claimed(START, 0, run(1_000..1_010), 1).expect("it ascends");
    assert!(tag.add_segment(0, run(1_000..1_010), 1_000).is_empty());
    assert!(tag.marks_wanted(START).is_empty(), "marks are in flight");
    tag.marked(START, &moves);
    assert_eq!(tag.serve_next(&mut Vec::new()), None, "they were not of this segment");
    let moves = tag.marks_wanted(START);
    tag.marked(START, &moves);
    assert_eq!(tag.serve_next(&mut Vec::new()), Some(0));
}

#[test]
fn a_mark_moves_in_its_own_shard_alone() {
    // Leftovers of two lists of stores may have the same end.
    let mut tag = tag(2);
    assert!(tag.restore(0, vec![Run { first: 2, count: 10, stride: 2 }], 21).is_empty());
    assert!(tag.restore(1, vec![Run { first: 11, count: 10, stride: 1 }], 21).is_empty());
    let moves = tag.marks_wanted(START);
    assert_eq!(moves.iter().map(|moved| moved.end).collect::<Vec<_>>(), [21, 21]);
    tag.marked(START, &moves[1..]);
    assert_eq!(draw(&mut tag, 1), [], "the first shard's mark has not moved");
}
