//! Charges requests to the quotas of their users, if the access rules set some.

use leafd_core::Want;
use leafd_core::quota::{Bucket, Quota};
use leafd_wire::Status;

use crate::clock;
use crate::reply::Failure;

/// Takes the ids of a request from its user's quota. A request that accepts fewer ids gets what remains.
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
    let Quota { ids_per_second, burst } = bucket.quota;
    bucket.draw(u64::from(want.count), now).map_err(|wait_ms| {
        let tag = String::from_utf8_lossy(tag);
        let message = format!(
            "an access rule lets uid {uid} draw {ids_per_second} ids/s of tag {tag:?}, and {burst} at once; this \
             request for {} exceeds what is left",
            want.count
        );
        let retry_after_ms = wait_ms.map_or(0, |ms| u32::try_from(ms).unwrap_or(u32::MAX));
        let status = if wait_ms.is_some() { Status::Overloaded } else { Status::CountInvalid };
        Failure { retry_after_ms, ..Failure::new(status, message) }
    })
}
