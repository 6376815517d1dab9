//! Strict tags: one queue alone, and several hosts' queues over one store that answers at any time.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use leafd_core::segment::{Allocator, Distribution, PrefetchPolicy};
use leafd_core::store::{Generation, Holding, TagRow};
use leafd_core::{BootMs, Tag, Want};
use leafd_wire::Run;

use crate::seed::seeds;

const PROVISION: PrefetchPolicy =
    PrefetchPolicy { autonomy_ms: 600_000, step_max: 1_000, mark_ahead_ms: 5_000, hold_ms: 0 };

const FREE: Holding = Holding::Free { wanted: false };

const START: BootMs = BootMs(0);

fn exactly(count: u32) -> Want {
    Want { count, allow_partial: false }
}

/// A tag that is known to be strict because its id 1 was drawn, and its waiting requests.
fn queue(wants: &[Want]) -> Allocator<usize> {
    let policy = PrefetchPolicy { step_max: 100, ..PROVISION };
    let mut queue = Allocator::new(policy, 1, START);
    queue.waiting.push(0, exactly(1), BootMs(10), usize::MAX);
    assert_eq!(wanted(&mut queue, START), Some(1));
    let shared = share(&mut queue, run(1, 1)).expect("nothing was seen yet");
    assert_eq!(shared, Distribution { served: vec![(usize::MAX, run(1, 1))], dropped: 0 });
    for (handle, want) in wants.iter().enumerate() {
        queue.waiting.push(0, *want, BootMs(10), handle);
    }
    queue
}

/// The store grants these ids, and the journal records them at once.
fn share<T>(queue: &mut Allocator<T>, claimed: Run) -> Result<Distribution<T>, u64> {
    queue.claimed_strictly(claimed, FREE)?;
    Ok(queue.distribute(claimed))
}

/// How many ids are to be claimed.
fn wanted<T>(queue: &mut Allocator<T>, now: BootMs) -> Option<u64> {
    queue.claim_wanted(now).map(|order| order.want)
}

fn run(first: u64, count: u32) -> Run {
    Run { first, count, stride: 1 }
}

fn all(numbers: Range<u64>) -> Run {
    run(numbers.start, (numbers.end - numbers.start) as u32)
}

#[test]
fn who_waited_when_a_claim_was_sent_shares_it_and_the_rest_is_dropped() {
    let leased = Want { count: 1_000, allow_partial: true };
    let mut queue = queue(&[exactly(3), leased, exactly(2)]);
    assert_eq!(wanted(&mut queue, START), Some(6));
    assert_eq!(wanted(&mut queue, START), None, "a claim in flight is never doubled");
    queue.waiting.push(0, exactly(1), BootMs(10), 3);
    let served = vec![(0, run(50, 3)), (1, run(53, 1)), (2, run(54, 2))];
    assert_eq!(share(&mut queue, all(50..60)), Ok(Distribution { served, dropped: 4 }));
    assert_eq!((queue.waiting.len(), queue.issued(), queue.highest_end(0)), (1, 7, 60));
    assert_eq!(wanted(&mut queue, START), Some(1));
    assert_eq!(
        share(&mut queue, all(60..61)),
        Ok(Distribution { served: vec![(3, run(60, 1))], dropped: 0 })
    );
    assert_eq!(wanted(&mut queue, START), None, "nobody waits");
    assert!(queue.ids_per_second(BootMs(1_000)) > 0.0);
}

#[test]
fn a_claim_also_serves_requests_that_arrive_before_its_commit_is_sent() {
    let mut queue = queue(&[exactly(2)]);
    let wish = queue.claim_wanted(START).unwrap();
    let arrivals = queue.arrivals().expect("it is strict");
    assert_eq!((wish.want, arrivals.cover(Some)), (2, Some(0)));
    queue.waiting.push(0, exactly(3), BootMs(10), 1);
    queue.waiting.push(0, exactly(50), BootMs(0), 2);
    assert_eq!(queue.waiting.expire_last(BootMs(1)), Some(2));
    queue.waiting.push(0, Want { count: 9, allow_partial: true }, BootMs(10), 3);
    // The claim conflicted with another host's, and is repeated. Nothing is claimed for the request that has left.
    assert_eq!(arrivals.cover(Some), Some(4));
    queue.waiting.push(0, exactly(1), BootMs(10), 4);
    // There are too few ids for that one, so it is not covered.
    assert_eq!(arrivals.cover(|more| (more < 5).then_some(())), None);
    let shared = share(&mut queue, run(2, 8)).unwrap();
    let served = vec![(0, run(2, 2)), (1, run(4, 3)), (3, run(7, 1))];
    assert_eq!(shared, Distribution { served, dropped: 2 }, "the last one came too late");
    // What arrived during an earlier claim counts only once.
    assert_eq!(queue.claim_wanted(START).map(|wish| wish.want), Some(1));
    assert_eq!(queue.arrivals().unwrap().cover(Some), Some(0));
}

#[test]
fn a_claim_takes_nothing_for_requests_that_have_left_before_its_commit() {
    let leaves: [fn(&mut Allocator<usize>); 3] = [
        |queue| assert_eq!(queue.waiting.expire_last(BootMs(9)), Some(2)),
        |queue| assert_eq!(queue.waiting.expire(BootMs(9)), [2]),
        |queue| queue.waiting.drop_where(|handle| *handle == 2),
    ];
    for leave in leaves {
        let mut queue = queue(&[exactly(2)]);
        assert_eq!(wanted(&mut queue, START), Some(2));
        let arrivals = queue.arrivals().unwrap();
        queue.waiting.push(0, exactly(3), BootMs(10), 1);
        queue.waiting.push(0, exactly(50), BootMs(9), 2);
        assert_eq!(arrivals.cover(Some), Some(53));
        leave(&mut queue);
        assert_eq!(arrivals.cover(Some), Some(3));
    }
}

#[test]
fn a_claim_covers_arrivals_only_if_there_are_ids_for_all() {
    let mut queue = queue(&[exactly(90)]);
    let wish = queue.claim_wanted(START).unwrap();
    queue.waiting.push(1, exactly(5), BootMs(10), 1);
    assert_eq!(wish.with_more(5).map(|wish| (wish.want, wish.least)), Some((95, 95)));
    assert_eq!(wish.with_more(11), None, "more than a claim may take");
    let row = |ceiling| TagRow {
        tag: Tag::parse(b"t").unwrap(),
        max_id: 2,
        step: 1,
        ceiling,
        generation: Generation(0),
        strict: true,
        masked: None,
        description: None,
        updated: None,
    };
    let arrivals = queue.arrivals().unwrap();
    let taken = |ceiling| arrivals.plan(&row(ceiling), 0, wish).map(|plan| plan.run.count);
    assert_eq!((taken(95), taken(96)), (Ok(90), Ok(95)));
    assert!(taken(90).is_err());
}

#[test]
fn a_claim_serves_no_more_than_it_may_but_always_its_first_request() {
    for (counts, most) in
        [(&[60, 30, 10, 1][..], 100), (&[60, 30, 11, 1], 90), (&[101, 1], 101), (&[99, 500], 99)]
    {
        let wants: Vec<Want> = counts.iter().copied().map(exactly).collect();
        assert_eq!(wanted(&mut queue(&wants), START), Some(most), "{counts:?}");
    }
}

#[test]
fn who_finds_too_few_left_waits_for_the_next_claim_and_nobody_overtakes() {
    let mut queue = queue(&[exactly(2), exactly(3), exactly(1)]);
    assert_eq!(wanted(&mut queue, START), Some(6));
    assert_eq!(
        share(&mut queue, all(10..14)),
        Ok(Distribution { served: vec![(0, run(10, 2))], dropped: 2 })
    );
    assert_eq!(wanted(&mut queue, START), Some(4));
    let served = vec![(1, run(14, 3)), (2, run(17, 1))];
    assert_eq!(share(&mut queue, all(14..18)), Ok(Distribution { served, dropped: 0 }));
}

#[test]
fn users_share_a_claim_in_turn_and_who_comes_later_takes_nothing_of_it_away() {
    let mut queue = queue(&[exactly(40), exactly(40), exactly(40)]);
    assert_eq!(wanted(&mut queue, START), Some(80), "as many as fit into a claim of 100");
    queue.waiting.push(7, exactly(1), BootMs(10), 70);
    queue.waiting.push(7, exactly(1), BootMs(10), 71);
    let served = vec![(0, run(10, 40)), (1, run(50, 40))];
    assert_eq!(share(&mut queue, all(10..90)), Ok(Distribution { served, dropped: 0 }));
    // The new user's turn comes with the next claim.
    assert_eq!(wanted(&mut queue, START), Some(42));
    let served = vec![(70, run(90, 1)), (2, run(91, 40)), (71, run(131, 1))];
    assert_eq!(share(&mut queue, all(90..132)), Ok(Distribution { served, dropped: 0 }));
}

#[test]
fn a_claim_that_is_too_small_for_all_is_sized_for_those_whose_turn_comes_first() {
    let mut queue = queue(&[exactly(40), exactly(40), exactly(40)]);
    queue.waiting.push(7, exactly(15), BootMs(10), 70);
    assert_eq!(wanted(&mut queue, START), Some(95));
    let served = vec![(0, run(10, 40)), (70, run(50, 15)), (1, run(65, 40))];
    assert_eq!(share(&mut queue, all(10..105)), Ok(Distribution { served, dropped: 0 }));
}

#[test]
fn who_gave_up_is_skipped() {
    let mut queue = queue(&[exactly(1), exactly(1)]);
    queue.waiting.push(0, exactly(1), BootMs(20), 2);
    assert_eq!(wanted(&mut queue, START), Some(3));
    queue.waiting.drop_head_while(|handle| *handle == 0);
    assert_eq!(queue.waiting.expire(BootMs(10)), [1]);
    queue.waiting.push(0, exactly(1), BootMs(5), 3);
    assert_eq!(queue.waiting.expire_last(BootMs(10)), Some(3));
    assert_eq!(
        share(&mut queue, all(11..14)),
        Ok(Distribution { served: vec![(2, run(11, 1))], dropped: 2 })
    );
}

#[test]
fn nothing_is_kept_for_those_who_come_after_all_have_left() {
    let ways: [fn(&mut Allocator<usize>); 5] = [
        |queue| assert_eq!(queue.waiting.abandon(), [0]),
        |queue| assert_eq!(queue.waiting.expire(BootMs(10)), [0]),
        |queue| assert_eq!(queue.waiting.expire_last(BootMs(10)), Some(0)),
        |queue| queue.waiting.drop_where(|_| true),
        |queue| queue.waiting.drop_head_while(|_| true),
    ];
    for (way, all_leave) in ways.into_iter().enumerate() {
        let mut queue = queue(&[exactly(1)]);
        assert_eq!(wanted(&mut queue, START), Some(1));
        all_leave(&mut queue);
        assert!(queue.waiting.is_empty(), "way {way}");
        queue.waiting.push(0, exactly(1), BootMs(10), 1);
        let shared = share(&mut queue, all(2..3));
        assert_eq!(shared, Ok(Distribution { served: Vec::new(), dropped: 1 }), "way {way}");
        assert_eq!(queue.waiting.len(), 1);
    }
}

/// The earliest deadline may be that of a request that was served long ago.
#[test]
fn deadlines_are_checked_in_time_after_earlier_requests_were_served() {
    let mut queue = queue(&[exactly(1)]);
    let _ = queue.waiting.abandon();
    let check_at = |queue: &Allocator<usize>, now| queue.check_at(BootMs(now), 1, 100);
    queue.waiting.push(0, exactly(1), BootMs(10), 1);
    queue.waiting.drop_head_while(|_| true);
    assert_eq!(check_at(&queue, 20), None);
    queue.waiting.push(0, exactly(1), BootMs(30), 2);
    queue.waiting.push(0, exactly(1), BootMs(60), 3);
    assert_eq!(check_at(&queue, 20), Some(BootMs(30)));
    queue.waiting.drop_head_while(|handle| *handle == 2);
    assert_eq!(check_at(&queue, 40), Some(BootMs(30)), "a check finds the next one");
    assert!(queue.waiting.expire(BootMs(40)).is_empty());
    assert_eq!(check_at(&queue, 40), Some(BootMs(60)));
}

#[test]
fn a_failed_claim_is_sent_again_when_it_may_be_and_for_all_who_wait_then() {
    let mut queue = queue(&[exactly(1)]);
    assert_eq!(wanted(&mut queue, START), Some(1));
    queue.waiting.push(0, exactly(1), BootMs(10), 1);
    queue.claim_failed(BootMs(5));
    assert!(!queue.claiming());
    assert_eq!(queue.check_at(BootMs(4), 1, 100), Some(BootMs(5)), "the retry");
    assert_eq!(queue.check_at(BootMs(5), 1, 100), Some(BootMs(10)), "the deadline");
    assert_eq!(queue.check_at(BootMs(10), 1, 100), Some(BootMs(10)), "it has passed");
    assert_eq!(wanted(&mut queue, BootMs(4)), None);
    assert_eq!(wanted(&mut queue, BootMs(5)), Some(2));
}

#[test]
fn numbers_below_what_was_seen_are_refused() {
    let mut queue = queue(&[exactly(1)]);
    queue.raise_highest_end(0, 100);
    assert_eq!(wanted(&mut queue, START), Some(1));
    assert_eq!(share(&mut queue, all(99..200)), Err(100));
    assert!(queue.claiming());
    // Also if they show that the tag is strict.
    let mut tag: Allocator<usize> = Allocator::new(PROVISION, 1, START);
    assert!(tag.restore(0, vec![all(5..9)], 9).is_empty());
    tag.waiting.push(0, exactly(10), BootMs(10), 0);
    assert!(wanted(&mut tag, START).is_some());
    assert_eq!(share(&mut tag, all(8..20)), Err(9));
    assert!(tag.is_strict() && tag.held.unissued() == 0);
    queue.claim_failed(START);
    assert_eq!(wanted(&mut queue, START), Some(1));
    assert!(share(&mut queue, all(100..101)).is_ok());
}

#[test]
fn a_tag_that_turns_out_to_be_strict_keeps_who_waits_and_who_shares_the_claim() {
    let mut tag: Allocator<usize> = Allocator::new(PROVISION, 1, START);
    assert!(tag.restore(0, vec![all(5..9)], 9).is_empty());
    tag.waiting.push(0, exactly(10), BootMs(10), 0);
    let asked = wanted(&mut tag, START).expect("somebody waits").max(10);
    tag.waiting.push(0, exactly(1), BootMs(10), 1);
    let served = vec![(0, run(9, 10))];
    assert_eq!(
        share(&mut tag, all(9..9 + asked)),
        Ok(Distribution { served, dropped: asked - 10 })
    );
    assert!(tag.is_strict() && tag.held.unissued() == 0);
    assert_eq!(wanted(&mut tag, START), Some(1));
}

#[test]
fn a_grant_of_a_store_that_was_replaced_before_the_journal_had_it_serves_nobody() {
    let mut queue = queue(&[exactly(1)]);
    assert_eq!(wanted(&mut queue, START), Some(1));
    queue.claimed_strictly(all(2..4), FREE).unwrap();
    queue.forget();
    assert_eq!(queue.distribute(all(2..4)), Distribution { served: Vec::new(), dropped: 2 });
    assert_eq!(wanted(&mut queue, START), Some(1));
}

#[test]
fn what_an_earlier_life_held_of_a_strict_tag_is_not_issued() {
    let mut queue = queue(&[exactly(1)]);
    assert_eq!(wanted(&mut queue, BootMs(0)), Some(1));
    assert_eq!(share(&mut queue, run(300, 1)).unwrap().served, [(0, run(300, 1))]);
    let cut = queue.restore(0, vec![run(400, 5)], 405);
    assert_eq!((cut.lost, queue.held.unissued()), (5, 0));
}

#[test]
fn a_request_that_can_t_be_met_takes_nothing_and_keeps_nobody_waiting() {
    let mut tag = queue(&[exactly(60), exactly(2_000), exactly(1)]);
    // The store has 50 left.
    let order = tag.claim_wanted(START).expect("they wait");
    assert_eq!((order.want, order.least), (60, 60), "all or none: what is left over would be lost");
    assert_eq!(tag.exhausted(50, START), [0, 1]);
    assert_eq!(wanted(&mut tag, START), Some(1));
    let served = vec![(2, run(11, 1))];
    assert_eq!(share(&mut tag, all(11..12)), Ok(Distribution { served, dropped: 0 }));
    // Each of them could be met, but not both.
    tag.waiting.push(0, exactly(30), BootMs(10), 3);
    tag.waiting.push(0, exactly(30), BootMs(10), 4);
    assert_eq!(wanted(&mut tag, START), Some(60));
    assert_eq!(tag.exhausted(49, START), []);
    assert_eq!(wanted(&mut tag, START), Some(30));
    let served = vec![(3, run(12, 30))];
    assert_eq!(share(&mut tag, all(12..42)), Ok(Distribution { served, dropped: 0 }));
    assert_eq!(wanted(&mut tag, START), Some(30));
    assert_eq!(tag.exhausted(19, START), [4]);
}

#[test]
fn a_host_that_is_alone_holds_the_tag_for_less_than_the_time_granted() {
    let policy = PrefetchPolicy { hold_ms: 1_000, ..PROVISION };
    let mut tag: Allocator<usize> = Allocator::new(policy, 1, START);
    let (mut end, mut runs) = (1, Vec::new());
    let mut claim = |tag: &mut Allocator<usize>, now, holding| {
        let wish = tag.claim_wanted(BootMs(now)).expect("it wants a claim");
        let claimed = all(end..end + wish.want);
        tag.claimed_strictly(claimed, holding).unwrap();
        assert_eq!(wish.hold.own_end, if end == 1 { 0 } else { end });
        end += wish.want;
        let served = tag.distribute(claimed).served;
        (wish.hold.ms, wish.want, served.len())
    };
    // It draws ten ids a second. Until it has been alone for as long as it may hold the tag, it claims for requests.
    for now in (0..1_000).step_by(100) {
        tag.waiting.push(0, exactly(1), BootMs(u64::MAX), 0);
        assert_eq!(claim(&mut tag, now, FREE), (0, 1, 1), "{now} ms");
        assert!(!tag.take_held(exactly(1), BootMs(now), &mut runs));
    }
    tag.waiting.push(0, exactly(1), BootMs(u64::MAX), 0);
    let (ms, want, _) = claim(&mut tag, 1_000, Holding::Held(1_000));
    assert!(ms == 1_000 && want > 5, "{ms}, {want}");
    // Counted from before the claim was sent, less a fifth and some milliseconds for the clocks.
    assert!(tag.holds() && tag.held_strictly() == want - 1);
    assert!(tag.take_held(exactly(2), BootMs(1_794), &mut runs));
    assert_eq!(runs, [run(12, 2)]);
    assert!(!tag.take_held(exactly(1), BootMs(1_795), &mut runs));
    tag.waiting.push(0, exactly(1), BootMs(u64::MAX), 0);
    assert_eq!(tag.serve_next_held(BootMs(1_795), &mut runs), None);

    // The renewal comes late, but nobody else has claimed: what is held goes on.
    assert!(tag.hold_is_due(BootMs(2_500)) && !tag.is_idle());
    assert_eq!(claim(&mut tag, 2_500, Holding::Held(1_000)).2, 1);
    assert!(tag.take_held(exactly(1), BootMs(2_600), &mut runs));
    assert_eq!(runs.pop(), Some(run(15, 1)));
    // A lowered ceiling, like whatever else changes the tag, ends it.
    assert!(tag.set_ceiling(0, 1_000_000).is_empty());
    assert!(!tag.take_held(exactly(1), BootMs(2_600), &mut runs) && tag.held_strictly() == 0);
    assert_eq!(claim(&mut tag, 2_600, FREE), (0, 1, 0));
    assert!(!tag.holds() && tag.is_idle());
}

/// A tag that this host holds for a second, from 2,000 ms on, with 49 ids from the returned one on.
fn held() -> (Allocator<usize>, u64) {
    let policy = PrefetchPolicy { hold_ms: 1_000, ..PROVISION };
    let mut tag: Allocator<usize> = Allocator::new(policy, 1, START);
    assert!(tag.set_ceiling(0, 1_000_000).is_empty());
    let mut end = 1;
    for now in (0..=2_000).step_by(100) {
        tag.waiting.push(0, exactly(1), BootMs(u64::MAX), 0);
        assert!(tag.claim_wanted(BootMs(now)).is_some());
        let (count, holding) = if now == 2_000 { (50, Holding::Held(1_000)) } else { (1, FREE) };
        tag.claimed_strictly(run(end, count), holding).unwrap();
        assert_eq!(tag.distribute(run(end, count)).served, [(0, run(end, 1))]);
        end += 1;
    }
    (tag, end)
}

#[test]
fn a_held_tag_serves_who_waits_and_is_checked_soon() {
    let (mut tag, first) = held();
    let (now, mut runs) = (BootMs(2_200), Vec::new());
    assert_eq!((tag.check_at(now, 7, 100), tag.hold_is_due(now)), (Some(BootMs(2_207)), false));
    for ceiling in [1_000_000, 2_000_000] {
        assert!(tag.set_ceiling(0, ceiling).is_empty());
        assert_eq!(tag.held_strictly(), 49, "a ceiling of {ceiling} takes nothing away");
    }
    let issued = tag.issued();
    tag.waiting.push(0, exactly(26), BootMs(u64::MAX), 7);
    assert_eq!(tag.serve_next_held(now, &mut runs), Some(7));
    assert_eq!((runs, tag.issued() - issued, tag.held_strictly()), (vec![run(first, 26)], 26, 23));
    // Ids run out: it claims four times as many as before.
    assert!(tag.hold_is_due(now));
    assert_eq!(wanted(&mut tag, now), Some(200 - 23));
    assert!(!tag.hold_is_due(now), "the claim is in flight");
    tag.claim_failed(now);
    assert!(tag.holds());
    tag.give_up();
    assert_eq!((wanted(&mut tag, now), tag.holds()), (Some(1), true));
    tag.claim_failed(now);
    assert!(!tag.holds());
}

#[test]
fn nothing_is_held_of_a_tag_that_is_exhausted_forgotten_or_held_elsewhere() {
    let ends: [fn(&mut Allocator<usize>); 3] = [
        |tag| assert_eq!(tag.exhausted(9, BootMs(2_200)), []),
        |tag| tag.forget(),
        |tag| tag.held_elsewhere(BootMs(2_200), 99, 500),
    ];
    for end in ends {
        let (mut tag, first) = held();
        assert_eq!((tag.holds(), tag.held_strictly(), tag.highest_end(0)), (true, 49, first + 49));
        end(&mut tag);
        assert_eq!((tag.holds(), tag.held_strictly()), (false, 0));
        assert!(tag.highest_end(0) >= 70);
    }
    let (mut tag, _) = held();
    tag.held_elsewhere(BootMs(2_200), 99, 500);
    assert_eq!(tag.highest_end(0), 99);
}

/// Linux lets programs change a clock's speed by a tenth, so no two clocks differ by more than these.
#[test]
fn a_slow_holder_stops_before_a_fast_host_takes_the_tag_over() {
    let (slow, fast) = (|ms| BootMs(ms * 9 / 10), |ms| BootMs(ms * 11 / 10));
    for hold_ms in [100, 1_000, 10_000] {
        let policy = PrefetchPolicy { hold_ms, ..PROVISION };
        let [mut holder, mut other] = [(); 2].map(|()| Allocator::<u32>::new(policy, 1, START));
        for tag in [&mut holder, &mut other] {
            tag.waiting.push(0, exactly(1), BootMs(u64::MAX), 0);
            assert_eq!(wanted(tag, START), Some(1));
        }
        let claimed = all(1..100_000);
        holder.claimed_strictly(claimed, Holding::Held(hold_ms)).unwrap();
        assert_eq!(holder.distribute(claimed).served.len(), 1);
        other.held_elsewhere(START, claimed.end(), hold_ms);

        let takes_over = |ms: &u64| {
            let Some(wish) = other.claim_wanted(fast(*ms)) else { return false };
            other.held_elsewhere(fast(*ms), claimed.end(), hold_ms);
            wish.hold.over == claimed.end()
        };
        let taken_over = (1..).find(takes_over).expect("it waits no longer than that");
        let mut issues = |ms: u64| holder.take_held(exactly(1), slow(ms), &mut Vec::new());
        assert!(issues(taken_over / 2), "{hold_ms}");
        assert!(!issues(taken_over), "{hold_ms}: both may answer after {taken_over} ms");
    }
}

#[test]
fn a_tag_near_its_ceiling_is_not_held() {
    let policy = PrefetchPolicy { hold_ms: 1_000, ..PROVISION };
    let mut tag: Allocator<usize> = Allocator::new(policy, 1, START);
    assert!(tag.set_ceiling(0, 200).is_empty());
    for id in 1..200 {
        tag.waiting.push(0, exactly(1), BootMs(u64::MAX), 0);
        let wish = tag.claim_wanted(BootMs(id * 20)).expect("one waits");
        assert_eq!((wish.want, wish.hold.ms), (1, 0));
        assert_eq!(share(&mut tag, run(id, 1)).unwrap().served.len(), 1);
    }
}

/// A claim on its way: to the store, back, and into the journal.
enum Claim {
    Sent(u64),
    Granted(Range<u64>),
    Recording(Range<u64>),
}

/// Several hosts, one counter, answers that come late or never. A request made after another was answered
/// gets a larger id, on whichever hosts they are. No id is given twice.
#[test]
fn who_asks_after_an_answer_gets_larger_ids_on_any_host() {
    let mut answered = 0;
    for mut random in seeds(200) {
        let mut hosts: Vec<(Allocator<u64>, Option<Claim>)> =
            (0..random.usize(1..5)).map(|_| (Allocator::new(PROVISION, 1, START), None)).collect();
        let mut counter = 1;
        let mut now = START;
        // Each request: what it wants, and the highest id answered before it.
        let mut asked: HashMap<u64, (Want, u64)> = HashMap::new();
        let mut highest_answered = 0;
        let mut ids = HashSet::new();
        for request in 0..2_000 {
            now = BootMs(now.0 + random.u64(0..10));
            let index = random.usize(0..hosts.len());
            let (host, claim) = &mut hosts[index];
            for expired in host.waiting.expire(now) {
                asked.remove(&expired);
            }
            match random.u32(0..5) {
                0..2 => {
                    let count = if random.u32(0..20) == 0 { 2_000 } else { random.u32(1..20) };
                    let want = Want { count, allow_partial: random.bool() };
                    asked.insert(request, (want, highest_answered));
                    host.waiting.push(0, want, BootMs(now.0 + random.u64(1..500)), request);
                }
                2 if claim.is_none() => *claim = wanted(host, now).map(Claim::Sent),
                3 => {
                    if let Some(Claim::Sent(want)) = claim {
                        // A store may grant more, or less just below a ceiling.
                        let size = match random.u32(0..4) {
                            0 => *want + random.u64(0..50),
                            1 => random.u64(1..=*want),
                            _ => *want,
                        };
                        *claim = Some(Claim::Granted(counter..counter + size));
                        counter += size;
                    }
                }
                _ => match claim.take() {
                    Some(Claim::Granted(numbers)) if random.u32(0..5) > 0 => {
                        host.claimed_strictly(all(numbers.clone()), FREE)
                            .expect("the store ascends");
                        assert_eq!(wanted(host, now), None, "the journal has not recorded it yet");
                        *claim = Some(Claim::Recording(numbers));
                    }
                    Some(Claim::Recording(numbers)) => {
                        let size = numbers.end - numbers.start;
                        let shared = host.distribute(all(numbers.clone()));
                        let mut served = 0;
                        for (request, run) in shared.served {
                            let (want, floor) = asked.remove(&request).expect("it still waits");
                            let count = if want.allow_partial { 1 } else { want.count };
                            assert_eq!((run.count, run.stride), (count, 1));
                            assert!(run.first > floor, "{} comes after {floor}", run.first);
                            for id in run.ids() {
                                assert!(numbers.contains(&id), "{id} is not of {numbers:?}");
                                assert!(ids.insert(id), "{id} is issued twice");
                                highest_answered = highest_answered.max(id);
                                served += 1;
                            }
                            answered += 1;
                        }
                        assert_eq!(served + shared.dropped, size);
                    }
                    // The answer is lost, or the request.
                    Some(_) => host.claim_failed(BootMs(now.0 + random.u64(0..20))),
                    None => {}
                },
            }
        }
    }
    assert!(answered > 500, "only {answered} requests were answered");
}
