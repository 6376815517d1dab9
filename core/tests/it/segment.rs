//! The allocator alone, with a store and a journal that answer at any time, crashes included.

use std::collections::HashSet;
use std::ops::Range;

use leafd_core::segment::{Allocator, MarkMove, PrefetchPolicy};
use leafd_core::{BootMs, Want};
use leafd_wire::Run;

use crate::seed::seeds;

const PROVISION: PrefetchPolicy =
    PrefetchPolicy { autonomy_ms: 600_000, step_max: 10_000_000, mark_ahead_ms: 5_000, hold_ms: 0 };

fn one() -> Want {
    Want { count: 1, allow_partial: false }
}

fn run(numbers: Range<u64>) -> Run {
    Run { first: numbers.start, count: (numbers.end - numbers.start) as u32, stride: 1 }
}

/// A store and a journal that answer at once.
struct Instant {
    allocator: Allocator<u32>,
    max_id: u64,
    step: u64,
    claims: Vec<u64>,
    marks: u64,
    now: BootMs,
}

impl Instant {
    fn new(start: u64, step: u64) -> Self {
        Instant {
            allocator: Allocator::new(PROVISION, 1, BootMs(0)),
            max_id: start,
            step,
            claims: Vec::new(),
            marks: 0,
            now: BootMs(0),
        }
    }

    fn attend(&mut self) {
        let moves = self.allocator.marks_wanted(self.now);
        if !moves.is_empty() {
            self.marks += 1;
            self.allocator.marked(self.now, &moves);
        }
        if let Some(order) = self.allocator.claim_wanted(self.now) {
            let size = order.want.max(self.step.min(order.step_max));
            let claimed = run(self.max_id..self.max_id + size);
            self.max_id = claimed.end();
            self.claims.push(size);
            let moved =
                self.allocator.claimed(self.now, 0, claimed, self.step).expect("it ascends");
            assert!(self.allocator.add_segment(0, claimed, moved.mark).is_empty());
        }
    }

    fn draw(&mut self, want: Want) -> Vec<Run> {
        let mut runs = Vec::new();
        if self.allocator.take(want, &mut runs) {
            if self.allocator.held.wants_attention() {
                self.attend();
            }
            return runs;
        }
        self.allocator.waiting.push(0, want, BootMs(u64::MAX), 0);
        for _ in 0..10 {
            self.attend();
            if self.allocator.serve_next(&mut runs).is_some() {
                return runs;
            }
        }
        panic!("a request is not served by a store that answers");
    }
}

#[test]
fn a_row_seeded_with_1_issues_1_first_and_then_each_number_once() {
    let mut tag = Instant::new(1, 1_000);
    for expected in 1..=5_000 {
        let runs = tag.draw(one());
        assert_eq!(runs, [Run { first: expected, count: 1, stride: 1 }]);
    }
}

/// As for dense series: nothing is claimed ahead, and what a request that gave up leaves goes to the next one.
#[test]
fn without_a_reserve_only_what_requests_wait_for_is_claimed() {
    let policy = PrefetchPolicy { step_max: 0, ..PROVISION };
    let mut tag: Allocator<u32> = Allocator::new(policy, 1, BootMs(0));
    let wanted = |tag: &mut Allocator<u32>| {
        tag.claim_wanted(BootMs(0)).map(|wish| (wish.want, wish.least, wish.step_max))
    };
    let wait = |tag: &mut Allocator<u32>, uid, count, ms| {
        tag.waiting.push(uid, Want { count, allow_partial: false }, BootMs(ms), uid);
    };
    assert_eq!(wanted(&mut tag), None);
    wait(&mut tag, 1, 3, 90);
    wait(&mut tag, 2, 2, 10);
    wait(&mut tag, 1, 1, 90);
    assert_eq!(wanted(&mut tag), Some((6, 3, 1)));
    assert_eq!(tag.waiting.expire(BootMs(10)), [2]);
    // The step in the store's row doesn't matter.
    let moved = tag.claimed(BootMs(10), 0, run(1..7), 1_000).expect("it ascends");
    // A restart after a crash issues none of them.
    assert_eq!(moved.mark, 7);
    assert!(tag.add_segment(0, run(1..7), moved.mark).is_empty());
    let mut runs = Vec::new();
    while tag.serve_next(&mut runs).is_some() {}
    assert_eq!(runs, [run(1..4), run(4..5)]);
    assert_eq!(wanted(&mut tag), None);
    runs.clear();
    assert!(tag.take(Want { count: 2, allow_partial: false }, &mut runs));
    assert_eq!(runs, [run(5..7)]);
    assert_eq!(wanted(&mut tag), None);
    wait(&mut tag, 1, 1, 90);
    assert_eq!(wanted(&mut tag), Some((1, 1, 1)));
}

#[test]
fn a_tag_that_turns_hot_converges_in_a_few_claims() {
    let mut tag = Instant::new(1, 1_000);
    for ms in 0..10_000 {
        tag.now = BootMs(ms);
        for _ in 0..10 {
            tag.draw(Want { count: 100, allow_partial: false });
        }
    }
    // A million ids a second: ten million drawn, and the claims soon reach their largest size.
    assert!(tag.claims.len() <= 10, "claims: {:?}", tag.claims);
    assert!(tag.claims.iter().max() >= Some(&(PROVISION.step_max / 2)), "claims: {:?}", tag.claims);
    assert!(tag.marks < 60, "{} mark moves in ten seconds", tag.marks);
}

/// Draws a million ids a second for this long.
fn burst(tag: &mut Instant, ms: u64) {
    for _ in 0..ms {
        tag.now.0 += 1;
        tag.draw(Want { count: 1_000, allow_partial: false });
        assert!(
            tag.allocator.held.unissued() <= PROVISION.step_max,
            "{}",
            tag.allocator.held.unissued()
        );
    }
}

/// What a crash would skip: everything below the marks.
fn issuable(tag: &mut Instant) -> u64 {
    let mut runs = Vec::new();
    tag.allocator.take(Want { count: u32::MAX, allow_partial: true }, &mut runs);
    runs.iter().map(|run| u64::from(run.count)).sum()
}

#[test]
fn a_burst_holds_no_more_than_step_max_and_a_crash_in_it_skips_a_million_at_most() {
    let mut tag = Instant::new(1, 1_000);
    burst(&mut tag, 30_000);
    let skipped = issuable(&mut tag);
    assert!((400_000..=1_001_000).contains(&skipped), "{skipped}");
}

#[test]
fn a_journal_that_is_slow_is_asked_further_ahead() {
    let mut tag = Instant::new(1, 1_000);
    // So that marks are not limited by what is held.
    tag.allocator.set_provision(PrefetchPolicy { step_max: 100_000_000, ..PROVISION });
    for _ in 0..10_000 {
        tag.now.0 += 1;
        tag.draw(Want { count: 1_000, allow_partial: false });
    }
    let mut allocator = tag.allocator;
    let mut runs = Vec::new();
    allocator.take(Want { count: 600_000, allow_partial: true }, &mut runs);
    let moves = allocator.marks_wanted(tag.now);
    allocator.marked(BootMs(tag.now.0 + 700), &moves);
    allocator.take(Want { count: 500_000, allow_partial: true }, &mut runs);
    let moves = allocator.marks_wanted(BootMs(tag.now.0 + 1_000));
    allocator.marked(BootMs(tag.now.0 + 1_700), &moves);
    tag.allocator = allocator;
    assert!(issuable(&mut tag) > 2_000_000, "four commits' worth of the rate");
}

#[test]
fn marks_are_drawn_back_when_the_rate_falls_and_nothing_is_issued_beyond() {
    let mut tag = Instant::new(1, 1_000);
    burst(&mut tag, 10_000);
    let quiet = BootMs(tag.now.0 + 300_000);
    assert_eq!(tag.allocator.draw_marks_back(tag.now), []);
    let drawn_back = tag.allocator.draw_marks_back(quiet);
    let exact: Vec<_> = tag.allocator.held.exact_marks().collect();
    let [(0, run, mark), ..] = drawn_back[..] else { panic!("{drawn_back:?}") };
    let (_, first, next) = exact[0];
    assert_eq!(run, first);
    // A rate of thirty thousand a second remains, and the marks last five seconds.
    assert!((100_000..200_000).contains(&(mark - next)), "{next} {mark}");
    let mut runs = Vec::new();
    tag.allocator.take(Want { count: u32::MAX, allow_partial: true }, &mut runs);
    assert_eq!(runs.last().map(Run::end), Some(mark));
    assert_eq!(tag.allocator.draw_marks_back(quiet), [], "nothing is marked any more");
    // Issuing continues.
    tag.now = quiet;
    assert_eq!(tag.draw(one())[0].first, mark);
    // A day later almost nothing is marked; that costs few commits.
    burst(&mut tag, 10_000);
    let mut commits = 0;
    for ten_seconds in 0..8_640 {
        let now = BootMs(tag.now.0 + ten_seconds * 10_000);
        commits += u32::from(!tag.allocator.draw_marks_back(now).is_empty());
    }
    assert!(commits <= 16, "{commits}");
    assert!(issuable(&mut tag) <= 64 * 2 + 1);
}

#[test]
fn an_idle_tag_leaves_memory_without_a_gap() {
    let mut tag = Instant::new(1, 1_000);
    let last = (0..100).flat_map(|_| tag.draw(one())).map(|run| run.first).max();
    assert!(tag.allocator.is_idle());
    let drawn_back = tag.allocator.draw_all_marks_back();
    let [(0, run, mark)] = drawn_back[..] else { panic!("{drawn_back:?}") };
    assert_eq!(Some(mark), last.map(|last| last + 1));
    assert!(!tag.allocator.take(one(), &mut Vec::new()), "nothing is marked any more");
    assert_eq!(tag.allocator.draw_all_marks_back(), [], "the journal has been told");
    // A request keeps it in memory.
    tag.allocator.waiting.push(0, one(), BootMs(u64::MAX), 0);
    assert!(!tag.allocator.is_idle());
    assert_eq!(tag.allocator.waiting.abandon(), [0]);

    let left = run.without_first(run.count_below(mark)).unwrap();
    let mut back = Instant::new(tag.max_id, 1_000);
    assert!(back.allocator.restore(0, vec![left], run.end()).is_empty());
    assert_eq!(back.draw(one())[0].first, mark);
}

#[test]
fn marks_are_not_drawn_back_while_the_journal_moves_them_up() {
    let mut tag = Instant::new(1, 1_000);
    burst(&mut tag, 10_000);
    let mut runs = Vec::new();
    let mut moves = tag.allocator.marks_wanted(tag.now);
    while moves.is_empty() {
        assert!(tag.allocator.take(Want { count: 50_000, allow_partial: false }, &mut runs));
        moves = tag.allocator.marks_wanted(tag.now);
    }
    let quiet = BootMs(tag.now.0 + 600_000);
    assert_eq!(tag.allocator.draw_marks_back(quiet), [], "what is under way would undo it");
    tag.allocator.marked(quiet, &moves);
    assert!(!tag.allocator.draw_marks_back(quiet).is_empty());
}

#[test]
fn a_first_id_claims_once_and_only_what_is_needed() {
    let mut tag = Instant::new(1, 100);
    tag.draw(one());
    assert_eq!(tag.claims, [100]);
    for _ in 0..32 {
        tag.draw(one());
    }
    assert_eq!(tag.claims.len(), 2, "its rate is known by then");
    let mut fresh: Allocator<u32> = Allocator::new(PROVISION, 1, BootMs(0));
    fresh.waiting.push(0, one(), BootMs(100), 0);
    let order = fresh.claim_wanted(BootMs(0)).expect("somebody waits");
    assert_eq!((order.want, order.least), (1, 1), "it may turn out to be strict");
}

#[test]
fn who_can_t_be_served_up_to_the_ceiling_is_told_and_the_others_go_on() {
    let exactly = |count| Want { count, allow_partial: false };
    let mut tag: Allocator<u32> = Allocator::new(PROVISION, 1, BootMs(0));
    assert!(tag.restore(0, vec![run(1..51)], 51).is_empty());
    for (handle, count) in [(0, 2_000), (1, 60), (2, 1), (3, 59)] {
        tag.waiting.push(0, exactly(count), BootMs(100), handle);
    }
    let order = tag.claim_wanted(BootMs(0)).expect("they wait");
    assert_eq!(order.least, 1_950, "no fewer are of use to who comes first");
    assert_eq!(tag.exhausted(9, BootMs(0)), [0, 1]);
    let moves = tag.marks_wanted(BootMs(0));
    tag.marked(BootMs(0), &moves);
    assert_eq!(tag.serve_next(&mut Vec::new()), Some(2));
}

/// A tag with these numbers left over from an earlier life.
fn restored(numbers: Range<u64>) -> Allocator<u32> {
    let mut tag = Allocator::new(PROVISION, 1, BootMs(0));
    assert!(tag.restore(0, vec![run(numbers.clone())], numbers.end).is_empty());
    tag
}

fn take(tag: &mut Allocator<u32>, count: u32) -> bool {
    tag.take(Want { count, allow_partial: false }, &mut Vec::new())
}

/// Lets a request for this many wait, and then no longer.
fn mark_for(tag: &mut Allocator<u32>, count: u32) -> Vec<MarkMove> {
    tag.waiting.push(0, Want { count, allow_partial: false }, BootMs(9), 0);
    let moves = tag.marks_wanted(BootMs(0));
    assert_eq!(tag.waiting.abandon(), [0]);
    moves
}

#[test]
fn marks_move_when_half_is_used_and_back_when_twice_as_much_is_marked() {
    let mut tag = restored(10..1_000);
    let moves = tag.marks_wanted(BootMs(0));
    assert!(!tag.is_idle(), "marks are in flight");
    tag.marked(BootMs(0), &moves);
    assert!(tag.is_idle() && take(&mut tag, 31));
    let later = BootMs(3_600_000);
    assert_eq!(tag.marks_wanted(later), []);
    assert!(take(&mut tag, 1));
    assert_eq!(tag.marks_wanted(later).len(), 1);

    for (waited_for, drawn_back) in [(64, false), (66, true)] {
        let mut tag = restored(10..1_000);
        let moves = mark_for(&mut tag, waited_for);
        tag.marked(BootMs(0), &moves);
        assert_eq!(mark_for(&mut tag, 64 + waited_for), []);
        assert_eq!(!tag.draw_marks_back(BootMs(0)).is_empty(), drawn_back);
    }
}

#[test]
fn a_claim_follows_the_step_what_is_expected_and_what_is_marked() {
    let mut tag = restored(10..20);
    let moves = tag.marks_wanted(BootMs(0));
    tag.marked(BootMs(0), &moves);
    tag.expect(70);
    assert_eq!(tag.claim_wanted(BootMs(0)).map(|wish| wish.want), Some(61));
    assert!(!tag.is_idle(), "a claim is in flight");
    let moved = tag.claimed(BootMs(0), 0, run(100..300), 5_000).expect("it ascends");
    assert_eq!(moved.mark, 154, "ten of the 64 are marked already");
    for mark in [99, 301] {
        let mut tag = Allocator::<u32>::new(PROVISION, 1, BootMs(0));
        tag.expect(1);
        assert!(tag.claim_wanted(BootMs(0)).is_some());
        tag.claimed(BootMs(0), 0, run(100..300), 1).expect("it ascends");
        let add = std::panic::AssertUnwindSafe(|| tag.add_segment(0, run(100..300), mark));
        assert!(std::panic::catch_unwind(add).is_err(), "{mark} lies outside");
    }
    assert!(tag.add_segment(0, run(100..300), moved.mark).is_empty());
    for (count, is_enough) in [(1, true), (210, true), (211, false)] {
        assert!(tag.has_enough(), "without a request");
        tag.waiting.push(0, Want { count, allow_partial: false }, BootMs(9), 0);
        assert_eq!(tag.has_enough(), is_enough, "{count}");
        tag.waiting.abandon();
    }
    tag.expect(300);
    assert_eq!(tag.claim_wanted(BootMs(0)).map(|wish| wish.want), Some(5_090));
}

#[test]
fn an_idle_tag_claims_no_more_than_its_step() {
    let mut tag = Instant::new(1, 1_000);
    for hour in 0..100 {
        tag.now = BootMs(hour * 3_600_000);
        tag.draw(one());
    }
    assert_eq!(tag.claims, [1_000]);
}

#[test]
fn a_steady_tag_claims_once_per_autonomy() {
    let mut tag = Instant::new(1, 1_000);
    // An hour at 100 ids a second.
    for tick in 0..36_000 {
        tag.now = BootMs(tick * 100);
        tag.draw(Want { count: 10, allow_partial: false });
    }
    assert!(tag.claims.len() <= 6 + 6, "claims in six times autonomy: {:?}", tag.claims);
}

#[test]
fn a_request_larger_than_max_step_is_served() {
    let mut tag = Instant::new(1, 10);
    tag.allocator = Allocator::new(PrefetchPolicy { step_max: 100, ..PROVISION }, 1, BootMs(0));
    let runs = tag.draw(Want { count: 1_000_000, allow_partial: false });
    assert_eq!(runs.iter().map(|run| u64::from(run.count)).sum::<u64>(), 1_000_000);
}

#[test]
fn a_leased_request_takes_what_is_there() {
    let mut tag = Instant::new(1, 10);
    tag.draw(one());
    let runs = tag.draw(Want { count: 1_000_000, allow_partial: true });
    let count: u32 = runs.iter().map(|run| run.count).sum();
    assert!((1..=1_000_000).contains(&count));
}

#[test]
fn waiters_are_served_in_order_and_nobody_overtakes() {
    let mut allocator: Allocator<u32> = Allocator::new(PROVISION, 1, BootMs(0));
    for handle in 0..3 {
        allocator.waiting.push(0, one(), BootMs(100), handle);
    }
    assert!(allocator.claim_wanted(BootMs(0)).is_some());
    assert_eq!(allocator.claim_wanted(BootMs(0)), None, "a claim in flight is never doubled");
    let moved = allocator.claimed(BootMs(0), 0, run(1..11), 10).expect("it ascends");
    assert!(allocator.add_segment(0, run(1..11), moved.mark).is_empty());
    let mut runs = Vec::new();
    assert!(!allocator.take(one(), &mut runs), "those who wait come first");
    for handle in 0..3 {
        assert_eq!(allocator.serve_next(&mut runs), Some(handle));
        assert_eq!(runs.pop().map(|run| run.first), Some(u64::from(handle) + 1));
    }
    assert_eq!(allocator.serve_next(&mut runs), None);
}

#[test]
fn users_have_their_turns_and_each_is_served_in_order() {
    let mut allocator: Allocator<u32> = Allocator::new(PROVISION, 1, BootMs(0));
    for (uid, handle) in [(1, 10), (1, 11), (1, 12), (1, 13), (2, 20), (3, 30), (2, 21)] {
        allocator.waiting.push(uid, one(), BootMs(100), handle);
    }
    assert!(allocator.claim_wanted(BootMs(0)).is_some());
    let moved = allocator.claimed(BootMs(0), 0, run(1..101), 100).expect("it ascends");
    assert!(allocator.add_segment(0, run(1..101), moved.mark).is_empty());
    let mut runs = Vec::new();
    let mut serve = |allocator: &mut Allocator<u32>| allocator.serve_next(&mut runs);
    assert_eq!([(); 2].map(|()| serve(&mut allocator)), [Some(10), Some(20)]);
    // Whoever comes has a turn as soon as all others had one, and so has a user who comes back.
    allocator.waiting.push(4, one(), BootMs(100), 40);
    allocator.waiting.push(3, one(), BootMs(0), 31);
    assert_eq!(allocator.waiting.expire_last(BootMs(0)), Some(31));
    allocator.waiting.push(3, one(), BootMs(100), 32);
    allocator.waiting.drop_where(|handle| *handle == 11);
    assert_eq!((allocator.waiting.len(), allocator.waiting.expire_last(BootMs(0))), (6, None));
    let order: Vec<_> = std::iter::from_fn(|| serve(&mut allocator)).collect();
    assert_eq!(order, [30, 12, 21, 40, 32, 13]);
    assert!(runs.iter().map(|run| run.first).eq(1..=8), "{runs:?}");
}

#[test]
fn deadlines_take_out_only_those_that_are_due() {
    let mut allocator: Allocator<u32> = Allocator::new(PROVISION, 1, BootMs(0));
    for (handle, deadline) in [(0, 30), (1, 10), (2, 20)] {
        allocator.waiting.push(0, one(), BootMs(deadline), handle);
    }
    assert_eq!(allocator.waiting.expire(BootMs(5)), Vec::<u32>::new());
    assert_eq!(allocator.waiting.expire(BootMs(20)), [1, 2]);
    assert_eq!(allocator.waiting.abandon(), [0]);
}

#[test]
fn a_claim_below_what_was_seen_is_refused() {
    let mut allocator: Allocator<u32> = Allocator::new(PROVISION, 1, BootMs(0));
    assert!(allocator.restore(0, vec![run(50..60)], 1_000).is_empty());
    allocator.waiting.push(0, Want { count: 20, allow_partial: false }, BootMs(100), 0);
    assert!(allocator.claim_wanted(BootMs(0)).is_some());
    assert_eq!(allocator.claimed(BootMs(0), 0, run(900..910), 10), Err(1_000));
    allocator.claim_failed(BootMs(50));
    assert_eq!(allocator.claim_wanted(BootMs(49)), None);
    assert!(allocator.claim_wanted(BootMs(50)).is_some());
    // A grant counts as seen even though it was forgotten.
    assert!(allocator.claimed(BootMs(50), 0, run(1_000..1_020), 10).is_ok());
    allocator.forget();
    assert_eq!(allocator.add_segment(0, run(1_000..1_020), 1_000).lost, 20);
    assert!(allocator.claim_wanted(BootMs(51)).is_some());
    assert_eq!(allocator.claimed(BootMs(51), 0, run(1_000..1_020), 10), Err(1_020));
}

/// What is on disk: the store's row and the host's journal.
#[derive(Default)]
struct Disk {
    max_id: u64,
    segments: Vec<(Range<u64>, u64)>,
    highest_end: u64,
}

/// Random requests, late answers, and crashes between any two steps. No number is issued twice, the
/// numbers of one life ascend, and nothing is issued at or above a durable mark.
#[test]
fn no_number_is_issued_twice_whatever_comes_between() {
    for mut random in seeds(50) {
        let mut disk = Disk { max_id: 1, ..Disk::default() };
        let mut issued = HashSet::new();
        let mut last = 0;
        let mut now = BootMs(0);
        for _life in 0..8 {
            let mut allocator: Allocator<u32> = Allocator::new(PROVISION, 1, now);
            let leftovers = disk
                .segments
                .iter()
                .filter(|(numbers, mark)| *mark < numbers.end)
                .map(|(numbers, mark)| run(*mark..numbers.end))
                .collect();
            assert!(allocator.restore(0, leftovers, disk.highest_end).is_empty());
            let mut marks_in_flight: Option<Vec<MarkMove>> = None;
            let mut claim_in_flight: Option<u64> = None;
            let mut segment_in_flight: Option<(Range<u64>, u64)> = None;
            for _step in 0..random.usize(1..400) {
                now = BootMs(now.0 + random.u64(0..50));
                let mut runs = Vec::new();
                match random.u32(0..8) {
                    0..3 => {
                        let allow_partial = random.bool();
                        let count = if random.u32(0..10) == 0 { 5_000 } else { random.u32(1..200) };
                        let want = Want { count, allow_partial };
                        if !allocator.take(want, &mut runs) {
                            allocator.waiting.push(0, want, BootMs(now.0 + 500), 0);
                        }
                    }
                    3 if marks_in_flight.is_none() => {
                        let moves = allocator.marks_wanted(now);
                        marks_in_flight = (!moves.is_empty()).then_some(moves);
                    }
                    4 => {
                        if let Some(moves) = marks_in_flight.take() {
                            for moved in &moves {
                                let segment = disk
                                    .segments
                                    .iter_mut()
                                    .find(|(numbers, _)| numbers.end == moved.end);
                                let (numbers, mark) =
                                    segment.expect("only held segments are marked");
                                assert!(moved.mark > *mark && moved.mark <= numbers.end);
                                *mark = moved.mark;
                            }
                            allocator.marked(now, &moves);
                        }
                    }
                    5 if claim_in_flight.is_none() && segment_in_flight.is_none() => {
                        claim_in_flight = allocator.claim_wanted(now).map(|order| order.want);
                    }
                    6 => {
                        if let Some(want) = claim_in_flight.take() {
                            if random.u32(0..4) == 0 {
                                // The commit's answer is lost, so the numbers are given up.
                                disk.max_id += want;
                                allocator.claim_failed(BootMs(now.0 + random.u64(0..100)));
                            } else {
                                let numbers = disk.max_id..disk.max_id + want.max(10);
                                disk.max_id = numbers.end;
                                let moved = allocator
                                    .claimed(now, 0, run(numbers.clone()), 10)
                                    .expect("it ascends");
                                segment_in_flight = Some((numbers, moved.mark));
                            }
                        }
                    }
                    _ => {
                        if let Some((numbers, mark)) = segment_in_flight.take() {
                            disk.segments.push((numbers.clone(), mark));
                            disk.highest_end = numbers.end;
                            assert!(allocator.add_segment(0, run(numbers), mark).is_empty());
                        }
                    }
                }
                allocator.waiting.expire(now);
                while allocator.serve_next(&mut runs).is_some() {}
                for id in runs.into_iter().flat_map(Run::ids) {
                    assert!(issued.insert(id), "{id} is issued twice");
                    assert!(id > last, "{id} follows {last}");
                    last = id;
                    let held = disk.segments.iter().find(|(numbers, _)| numbers.contains(&id));
                    assert!(
                        held.is_some_and(|(_, mark)| id < *mark),
                        "{id} is not below a durable mark"
                    );
                }
            }
            if random.bool() {
                // A clean stop records exact marks.
                for (_, held, mark) in allocator.held.exact_marks() {
                    let segment =
                        disk.segments.iter_mut().find(|(numbers, _)| numbers.end == held.end());
                    segment.expect("only held segments are marked").1 = mark;
                }
            }
        }
    }
}
