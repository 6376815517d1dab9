//! Shares between users, and quotas: no user takes what is left for the others.

use std::cell::RefCell;
use std::rc::Rc;

use leafd_core::BootMs;
use leafd_core::lines::{Asker, Lines};
use leafd_core::quota::{Bucket, Quota};
use leafd_core::shares::{Claimant, ShareSlot, Shares};

use crate::seed::seeds;

fn user(uid: u32) -> Claimant {
    Claimant { uid, trusted: false }
}

const ROOT: Claimant = Claimant { uid: 0, trusted: true };

fn fill(shares: &mut Shares, claimant: Claimant) -> u64 {
    let mut taken = 0;
    while shares.take(claimant, 1) {
        taken += 1;
    }
    taken
}

#[test]
fn one_user_leaves_half_and_root_finds_the_reserve() {
    let mut shares = Shares::new(4_096);
    assert_eq!(fill(&mut shares, user(1000)), 1_984, "half of what is not reserved");
    assert_eq!(fill(&mut shares, user(1001)), 992, "half of what was left");
    assert!(fill(&mut shares, user(1002)) > 400);
    for uid in 2_000..2_006 {
        assert!(fill(&mut shares, user(uid)) > 0, "user {uid} finds room");
    }
    assert!(fill(&mut shares, ROOT) >= 128, "the reserve is root's");
    assert_eq!(shares.taken, 4_096);
    assert!(!shares.take(ROOT, 1));
}

#[test]
fn a_single_place_goes_to_whoever_comes_first() {
    let mut shares = Shares::new(1);
    assert!(shares.take(user(1), 1));
    assert!(!shares.take(user(2), 1));
    shares.give_back(user(1), 1);
    assert!(shares.take(user(2), 1));
}

#[test]
fn a_dropped_slot_returns_its_place() {
    let places = Rc::new(RefCell::new(Shares::new(1)));
    let slot = ShareSlot::take(&places, user(1)).unwrap();
    assert!(ShareSlot::take(&places, user(2)).is_none());
    drop(slot);
    assert!(ShareSlot::take(&places, user(2)).is_some());
}

#[test]
fn what_is_taken_and_given_back_at_random_adds_up() {
    for mut random in seeds(50) {
        let mut shares = Shares::new(random.u64(1..2_000));
        let unused = format!("{shares:?}");
        let mut held = [0u64; 5];
        for _ in 0..2_000 {
            let index = random.usize(0..held.len());
            let uid = u32::try_from(index).unwrap();
            let claimant = Claimant { uid, trusted: index == 0 };
            let amount = random.u64(0..50);
            if random.bool() {
                if shares.take(claimant, amount) {
                    held[index] += amount;
                }
            } else {
                let amount = amount.min(held[index]);
                shares.give_back(claimant, amount);
                held[index] -= amount;
            }
            assert_eq!(shares.taken, held.iter().sum::<u64>());
            assert_eq!(shares.of(uid), held[index]);
            assert!(shares.taken <= shares.capacity);
        }
        for (uid, held) in (0..).zip(held) {
            shares.give_back(user(uid), held);
        }
        assert!(shares.take(user(5), 0));
        assert_eq!(format!("{shares:?}"), unused, "nothing is kept of a user that holds nothing");
    }
}

#[test]
fn a_quota_lets_a_burst_through_and_then_its_rate() {
    let quota = Quota { ids_per_second: 10, burst: 100 };
    let mut bucket = Bucket::new(quota, BootMs(5_000));
    assert_eq!(bucket.draw(100, BootMs(5_000)), Ok(()));
    assert_eq!(bucket.draw(1, BootMs(5_000)), Err(Some(100)));
    assert_eq!(bucket.draw(1, BootMs(5_099)), Err(Some(1)));
    assert_eq!(bucket.draw(1, BootMs(5_100)), Ok(()));
    assert_eq!(bucket.draw(101, BootMs(9_000_000)), Err(None), "more than a burst never comes");
    assert_eq!(bucket.draw(100, BootMs(9_000_000)), Ok(()), "it holds no more than a burst");
    assert_eq!([9_000_999, 9_001_000].map(|ms| bucket.available(BootMs(ms))), [9, 10]);
    assert!(!bucket.is_full(BootMs(9_009_999)) && bucket.is_full(BootMs(9_010_000)));
}

#[test]
fn a_quota_is_kept_over_any_pattern_of_draws() {
    for mut random in seeds(50) {
        let quota = Quota { ids_per_second: random.u64(1..5_000), burst: random.u64(1..10_000) };
        let mut bucket = Bucket::new(quota, BootMs(0));
        let (mut now, mut drawn) = (0, 0u64);
        for _ in 0..1_000 {
            now += random.u64(0..50);
            let count = random.u64(1..=quota.burst);
            if let Err(wait) = bucket.draw(count, BootMs(now)) {
                now += wait.expect("it fits the burst");
                bucket.draw(count, BootMs(now)).expect("the wait was long enough");
            }
            drawn += count;
            assert!(drawn <= quota.burst + now * quota.ids_per_second / 1_000 + 1);
        }
    }
}

fn by(claimant: Claimant, connection: u64) -> Asker {
    Asker { claimant, connection }
}

#[test]
fn lines_are_served_in_turn() {
    let mut lines = Lines::new(1_000);
    for number in 0..3 {
        lines.push(by(user(7), 1), (7, number)).unwrap();
    }
    lines.push(by(user(9), 2), (9, 0)).unwrap();
    lines.push(by(user(8), 3), (8, 0)).unwrap();
    let first = lines.pop().unwrap();
    assert_eq!(first.1, (7, 0));
    assert!(!lines.is_empty());
    lines.put_back(first.0, first.1);
    let order: Vec<_> = std::iter::from_fn(|| lines.pop()).map(|(_, handle)| handle).collect();
    assert_eq!(order, [(9, 0), (8, 0), (7, 0), (7, 1), (7, 2)], "others come before a second turn");
    assert!(lines.is_empty());
}

#[test]
fn connections_of_one_user_are_served_in_turn() {
    let mut lines = Lines::new(1_000);
    for number in 0..3 {
        lines.push(by(user(7), 1), (1, number)).unwrap();
    }
    lines.push(by(user(7), 2), (2, 0)).unwrap();
    lines.push(by(user(9), 3), (3, 0)).unwrap();
    let order: Vec<_> = std::iter::from_fn(|| lines.pop()).map(|(_, handle)| handle).collect();
    assert_eq!(order, [(1, 0), (3, 0), (2, 0), (1, 1), (1, 2)], "users first, then connections");
    lines.push(by(user(7), 1), (1, 0)).unwrap();
    lines.push(by(user(7), 2), (2, 0)).unwrap();
    assert_eq!(lines.take_out(|handle| handle.0 == 1).len(), 1);
    assert_eq!((lines.connections(), lines.pop().unwrap().1), (1, (2, 0)));
    assert!(lines.is_empty() && lines.pop().is_none());
}

#[test]
fn a_user_who_fills_his_lines_leaves_places() {
    let mut lines = Lines::new(320);
    let mut admitted = 0;
    while lines.push(by(user(7), admitted % 3), 7).is_ok() {
        admitted += 1;
    }
    assert_eq!(admitted, 155, "half of what is not reserved");
    assert_eq!(lines.push(by(user(8), 4), 8), Ok(()));
    assert_eq!(lines.push(by(ROOT, 5), 0), Ok(()));
    assert_eq!(lines.take_out(|handle| *handle == 7).len(), 155);
    assert_eq!((lines.len(), lines.connections()), (2, 2));
    assert_eq!(lines.push(by(user(7), 1), 7), Ok(()), "places came back");
    while lines.pop().is_some() {}
    assert!((0..155).all(|_| lines.push(by(user(7), 1), 7).is_ok()), "again");
}
