//! Limits how many ids users may draw, if the access rules say so.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use leafd_core::Want;
use leafd_core::quota::{Bucket, Quota};
use leafd_wire::Status;

use crate::clock;
use crate::reply::Failure;

/// What is left of the users' quotas, by user and tag.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    buckets: RefCell<HashMap<Owner, QuotaBucket>>,
}

/// What is left of one quota, for all connections of the user.
pub(super) type QuotaBucket = Rc<RefCell<Bucket>>;

/// A user and a tag.
type Owner = (u32, Box<[u8]>);

/// Once there are so many quotas, full ones are forgotten.
const BUCKETS_KEPT: usize = 10_000;

impl Quotas {
    /// What is left of a user's quota of a tag.
    pub(super) fn bucket(&self, uid: u32, tag: &[u8], quota: Quota) -> QuotaBucket {
        let now = clock::boot();
        let mut buckets = self.buckets.borrow_mut();
        if buckets.len() >= BUCKETS_KEPT {
            // A full quota says nothing that the rule doesn't say.
            buckets.retain(|_, bucket| !bucket.borrow_mut().is_full(now));
        }
        let bucket = buckets
            .entry((uid, tag.into()))
            .or_insert_with(|| Rc::new(RefCell::new(Bucket::new(quota, now))));
        if bucket.borrow().quota() != quota {
            *bucket.borrow_mut() = Bucket::new(quota, now);
        }
        Rc::clone(bucket)
    }

    /// Forgets what was drawn, because the rules have changed.
    pub(super) fn forget(&self) {
        self.buckets.borrow_mut().clear();
    }
}

/// Takes the ids of a request from its user's quota. A request that accepts fewer ids gets what is left.
pub(super) fn charge(
    bucket: &mut Bucket,
    want: &mut Want,
    uid: u32,
    tag: &[u8],
) -> Result<(), Failure> {
    let now = clock::boot();
    if want.allow_partial {
        let available = u32::try_from(bucket.available(now)).unwrap_or(u32::MAX);
        want.count = want.count.min(available.max(1));
    }
    let Quota { ids_per_second, burst } = bucket.quota();
    bucket.draw(u64::from(want.count), now).map_err(|wait_ms| {
        let tag = String::from_utf8_lossy(tag);
        let message = format!(
            "uid {uid} may draw {ids_per_second} ids/s of tag {tag:?}, {burst} at once (an access rule): this request for \
             {} exceeds what is left",
            want.count
        );
        let retry_after_ms = wait_ms.map_or(0, |ms| u32::try_from(ms).unwrap_or(u32::MAX));
        let status = if wait_ms.is_some() { Status::Overloaded } else { Status::CountInvalid };
        Failure { retry_after_ms, ..Failure::new(status, message) }
    })
}
