//! Strict tags: the queue by itself, and several hosts' queues over one store that answers when it likes.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use leafd::id::segment::{Allocator, Provision};
use leafd::id::strict::{Shared, StrictQueue};
use leafd::id::{BootMs, Want};
use leafd_wire::Run;

use crate::seed::seeds;

const PROVISION: Provision =
    Provision { autonomy_ms: 600_000, step_max: 1_000, mark_ahead_ms: 5_000 };

const START: BootMs = BootMs(0);

fn exactly(count: u32) -> Want {
    Want { count, fewer_will_do: false }
}

fn queue(wants: &[Want]) -> StrictQueue<usize> {
    let mut queue = StrictQueue::new(100, START);
    for (handle, want) in wants.iter().enumerate() {
        queue.enqueue(*want, BootMs(10), handle);
    }
    queue
}

fn run(first: u64, count: u32) -> Run {
    Run { first, count, stride: 1 }
}

#[test]
fn who_waited_when_a_claim_was_sent_shares_it_and_the_rest_is_dropped() {
    let leased = Want { count: 1_000, fewer_will_do: true };
    let mut queue = queue(&[exactly(3), leased, exactly(2)]);
    assert_eq!(queue.claim_wanted(START), Some(6));
    assert_eq!(queue.claim_wanted(START), None, "a claim in flight is never doubled");
    queue.enqueue(exactly(1), BootMs(10), 3);
    let served = vec![(0, run(50, 3)), (1, run(53, 1)), (2, run(54, 2))];
    assert_eq!(queue.claimed(50..60), Ok(Shared { served, dropped: 4 }));
    assert_eq!((queue.waiting(), queue.issued(), queue.highest_end()), (1, 6, 60));
    assert_eq!(queue.claim_wanted(START), Some(1));
    assert_eq!(queue.claimed(60..61), Ok(Shared { served: vec![(3, run(60, 1))], dropped: 0 }));
    assert_eq!(queue.claim_wanted(START), None, "nobody waits");
    assert!(queue.ids_per_second(BootMs(1_000)) > 0.0);
}

#[test]
fn a_claim_serves_no_more_than_it_may_but_always_its_first_request() {
    for (counts, wanted) in
        [(&[60, 30, 10, 1][..], 100), (&[60, 30, 11, 1], 90), (&[101, 1], 101), (&[99, 500], 99)]
    {
        let wants: Vec<Want> = counts.iter().copied().map(exactly).collect();
        assert_eq!(queue(&wants).claim_wanted(START), Some(wanted), "{counts:?}");
    }
}

#[test]
fn who_finds_too_few_left_waits_for_the_next_claim_and_nobody_overtakes() {
    let mut queue = queue(&[exactly(2), exactly(3), exactly(1)]);
    assert_eq!(queue.claim_wanted(START), Some(6));
    assert_eq!(queue.claimed(10..14), Ok(Shared { served: vec![(0, run(10, 2))], dropped: 2 }));
    assert_eq!(queue.claim_wanted(START), Some(4));
    let served = vec![(1, run(14, 3)), (2, run(17, 1))];
    assert_eq!(queue.claimed(14..18), Ok(Shared { served, dropped: 0 }));
}

#[test]
fn who_gave_up_is_skipped() {
    let mut queue = queue(&[exactly(1), exactly(1)]);
    queue.enqueue(exactly(1), BootMs(20), 2);
    assert_eq!(queue.claim_wanted(START), Some(3));
    queue.drop_head_while(|handle| *handle == 0);
    assert_eq!(queue.expire(BootMs(10)), [1]);
    queue.enqueue(exactly(1), BootMs(5), 3);
    assert_eq!(queue.expire_last(BootMs(10)), Some(3));
    assert_eq!(queue.claimed(1..4), Ok(Shared { served: vec![(2, run(1, 1))], dropped: 2 }));
}

#[test]
fn nothing_is_kept_for_those_who_come_after_all_have_left() {
    let mut queue = queue(&[exactly(1)]);
    assert_eq!(queue.claim_wanted(START), Some(1));
    assert_eq!(queue.abandon(), [0]);
    queue.enqueue(exactly(1), BootMs(10), 1);
    assert_eq!(queue.claimed(1..2), Ok(Shared { served: Vec::new(), dropped: 1 }));
    assert_eq!(queue.waiting(), 1);
}

#[test]
fn a_failed_claim_is_sent_again_when_it_may_be_and_for_all_who_wait_then() {
    let mut queue = queue(&[exactly(1)]);
    assert_eq!(queue.claim_wanted(START), Some(1));
    queue.enqueue(exactly(1), BootMs(10), 1);
    queue.claim_failed(BootMs(5));
    assert!(queue.retrying() && !queue.claiming());
    assert_eq!(queue.claim_wanted(BootMs(4)), None);
    assert_eq!(queue.claim_wanted(BootMs(5)), Some(2));
}

#[test]
fn numbers_below_what_was_seen_are_refused() {
    let mut queue = queue(&[exactly(1)]);
    queue.raise_highest_end(100);
    assert_eq!(queue.claim_wanted(START), Some(1));
    assert_eq!(queue.claimed(99..200), Err(100));
    assert!(queue.claiming());
    queue.claim_failed(START);
    assert_eq!(queue.claim_wanted(START), Some(1));
    assert!(queue.claimed(100..101).is_ok());
}

#[test]
fn no_number_above_the_largest_id_is_issued() {
    let last = i64::MAX as u64;
    let mut queue = queue(&[exactly(1), exactly(1)]);
    assert_eq!(queue.claim_wanted(START), Some(2));
    let shared = queue.claimed(last..last + 2);
    assert_eq!(shared, Ok(Shared { served: vec![(0, run(last, 1))], dropped: 1 }));
}

#[test]
fn a_tag_that_turns_out_to_be_strict_keeps_who_waits_and_who_shares_the_claim() {
    let mut tag: Allocator<usize> = Allocator::new(PROVISION, 1, START);
    assert!(tag.restore(0, std::iter::once(5..9).collect(), 9).is_empty());
    tag.enqueue(exactly(10), BootMs(10), 0);
    let wanted = tag.claim_wanted(START).expect("somebody waits");
    tag.enqueue(exactly(1), BootMs(10), 1);
    let mut queue = tag.into_strict();
    assert!(queue.claiming());
    assert_eq!((queue.waiting(), queue.highest_end()), (2, 9));
    let served = vec![(0, run(9, 10))];
    let shared = queue.claimed(9..9 + wanted.max(10));
    assert_eq!(shared, Ok(Shared { served, dropped: wanted.max(10) - 10 }));
    assert_eq!(queue.claim_wanted(START), Some(1));
}

/// A host's tag: taken for a plain one until its first claim is answered.
enum Host {
    Unknown(Allocator<u64>),
    Strict(StrictQueue<u64>),
}

/// A claim on its way: to the store, then back.
enum Claim {
    Sent(u64),
    Granted(Range<u64>),
}

impl Host {
    fn enqueue(&mut self, want: Want, deadline: BootMs, handle: u64) {
        match self {
            Host::Unknown(tag) => tag.enqueue(want, deadline, handle),
            Host::Strict(queue) => queue.enqueue(want, deadline, handle),
        }
    }

    fn claim_wanted(&mut self, now: BootMs) -> Option<u64> {
        match self {
            Host::Unknown(tag) => tag.claim_wanted(now),
            Host::Strict(queue) => queue.claim_wanted(now),
        }
    }

    fn claim_failed(&mut self, retry_at: BootMs) {
        match self {
            Host::Unknown(tag) => tag.claim_failed(retry_at),
            Host::Strict(queue) => queue.claim_failed(retry_at),
        }
    }

    fn expire(&mut self, now: BootMs) -> Vec<u64> {
        match self {
            Host::Unknown(tag) => tag.expire(now),
            Host::Strict(queue) => queue.expire(now),
        }
    }

    fn claimed(&mut self, numbers: Range<u64>) -> Result<Shared<u64>, u64> {
        if let Host::Unknown(tag) = self {
            let tag = std::mem::replace(tag, Allocator::new(PROVISION, 1, START));
            *self = Host::Strict(tag.into_strict());
        }
        let Host::Strict(queue) = self else { unreachable!("it was made strict") };
        queue.claimed(numbers)
    }
}

/// Several hosts, one counter, answers that come late or never: who asks after another was answered gets the
/// larger id, whichever hosts they are on, and no id is given twice.
#[test]
fn who_asks_after_an_answer_gets_larger_ids_on_any_host() {
    let mut answered = 0;
    for mut random in seeds(200) {
        let mut hosts: Vec<(Host, Option<Claim>)> = (0..random.usize(1..5))
            .map(|_| (Host::Unknown(Allocator::new(PROVISION, 1, START)), None))
            .collect();
        let mut counter = 1;
        let mut now = START;
        // Each request: what it wants, and the highest id that was answered before it.
        let mut asked: HashMap<u64, (Want, u64)> = HashMap::new();
        let mut highest_answered = 0;
        let mut ids = HashSet::new();
        for request in 0..2_000 {
            now = BootMs(now.0 + random.u64(0..10));
            let index = random.usize(0..hosts.len());
            let (host, claim) = &mut hosts[index];
            for expired in host.expire(now) {
                asked.remove(&expired);
            }
            match random.u32(0..5) {
                0..2 => {
                    let count = if random.u32(0..20) == 0 { 2_000 } else { random.u32(1..20) };
                    let want = Want { count, fewer_will_do: random.bool() };
                    asked.insert(request, (want, highest_answered));
                    host.enqueue(want, BootMs(now.0 + random.u64(1..500)), request);
                }
                2 if claim.is_none() => *claim = host.claim_wanted(now).map(Claim::Sent),
                3 => {
                    if let Some(Claim::Sent(want)) = claim {
                        // A store may give more, or less just below a ceiling.
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
                        let size = numbers.end - numbers.start;
                        let shared = host.claimed(numbers.clone()).expect("the store ascends");
                        let mut served = 0;
                        for (request, run) in shared.served {
                            let (want, floor) = asked.remove(&request).expect("it still waits");
                            let count = if want.fewer_will_do { 1 } else { want.count };
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
                    // The answer is lost, or the request for it.
                    Some(_) => host.claim_failed(BootMs(now.0 + random.u64(0..20))),
                    None => {}
                },
            }
        }
    }
    assert!(answered > 500, "only {answered} requests were answered");
}
