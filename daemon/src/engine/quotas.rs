//! What remains of the users' quotas of one tag, for as long as the tag is in use.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use leafd_core::BootMs;
use leafd_core::quota::{Bucket, Quota};

/// What remains of one user's quota of a tag, for all connections of the user.
pub type QuotaBucket = Rc<RefCell<Bucket>>;

/// What remains of the quotas of a tag's users, by user.
#[derive(Default)]
pub struct Quotas {
    buckets: HashMap<u32, QuotaBucket>,
}

impl Quotas {
    /// What remains of a user's quota. It is full if the user has drawn nothing for a long time, or if the rule has
    /// changed.
    pub fn bucket(&mut self, uid: u32, quota: Quota, now: BootMs) -> QuotaBucket {
        if self.buckets.len() == self.buckets.capacity() {
            self.forget_full(now);
        }
        let fresh = || Rc::new(RefCell::new(Bucket::new(quota, now)));
        let bucket = self.buckets.entry(uid).or_insert_with(fresh);
        if bucket.borrow().quota != quota {
            *bucket.borrow_mut() = Bucket::new(quota, now);
        }
        Rc::clone(bucket)
    }

    /// Whether all quotas are full again, so that nothing is lost if they are forgotten.
    pub fn are_full(&self, now: BootMs) -> bool {
        self.buckets.values().all(|bucket| bucket.borrow_mut().is_full(now))
    }

    /// Forgets full quotas, except those that a connection is using, because another connection of the user must find
    /// the same one.
    fn forget_full(&mut self, now: BootMs) {
        self.buckets
            .retain(|_, bucket| Rc::strong_count(bucket) > 1 || !bucket.borrow_mut().is_full(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: Quota = Quota { ids_per_second: 1_000, burst: 1_000 };

    #[test]
    fn full_quotas_that_nobody_draws_from_are_forgotten_and_no_others() {
        let mut quotas = Quotas::default();
        let held = quotas.bucket(1, QUOTA, BootMs(0));
        quotas.bucket(2, QUOTA, BootMs(0)).borrow_mut().draw(1_000, BootMs(0)).unwrap();
        for uid in 3..10_000 {
            quotas.bucket(uid, QUOTA, BootMs(500));
        }
        assert!(quotas.buckets.len() < 100, "{}", quotas.buckets.len());
        assert!(Rc::ptr_eq(&held, &quotas.bucket(1, QUOTA, BootMs(500))));
        assert_eq!(quotas.bucket(2, QUOTA, BootMs(500)).borrow_mut().available(BootMs(500)), 500);
        assert!(!quotas.are_full(BootMs(500)));
        assert!(quotas.are_full(BootMs(1_000)));
    }

    #[test]
    fn another_rule_begins_with_a_full_quota() {
        let mut quotas = Quotas::default();
        let drawn = quotas.bucket(1, QUOTA, BootMs(0));
        drawn.borrow_mut().draw(1_000, BootMs(0)).unwrap();
        let other = Quota { burst: 2_000, ..QUOTA };
        assert_eq!(quotas.bucket(1, other, BootMs(0)).borrow_mut().available(BootMs(0)), 2_000);
        assert_eq!(drawn.borrow().quota, other, "whoever draws already draws from the same");
    }
}
