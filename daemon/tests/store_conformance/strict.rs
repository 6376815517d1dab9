//! Strict tags: a claim is what is wanted and no more, and everybody is told.

use leafd_core::store::{ClaimWish, NewTag, StoreError};

use crate::{Backend, look_up, new_tag, tag, try_claim};

pub fn a_strict_tag_gives_what_is_wanted(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    store.create(&NewTag { strict: true, ceiling: 60, ..new_tag("s", 1, 1000) }).unwrap();
    let mut other = backend.connect();
    let mut claimed = |want| {
        // In turn, as two hosts would.
        std::mem::swap(&mut store, &mut other);
        let claim = try_claim(&mut *store, &tag("s"), ClaimWish::new(want, 1000));
        claim.map(|claim| (claim.run.range(), claim.strict))
    };
    assert_eq!(claimed(1).unwrap(), (1..2, true));
    assert_eq!(claimed(0).unwrap(), (2..3, true));
    assert_eq!(claimed(50).unwrap(), (3..53, true));
    assert_eq!(claimed(1).unwrap(), (53..54, true));
    assert_eq!(claimed(50).unwrap(), (54..61, true));
    let used_up = claimed(1);
    assert!(matches!(used_up, Err(StoreError::Exhausted { ceiling: 60, .. })), "{used_up:?}");
}

pub fn a_strict_tag_is_told_from_others(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let strict = store.create(&NewTag { strict: true, ..new_tag("s", 1, 10) }).unwrap();
    store.create(&new_tag("plain", 1, 10)).unwrap();
    backend.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('leaf', 1, 10)");
    assert!(strict.strict && store.show(&tag("s")).unwrap().strict);
    let listed = store.list(None, 10).unwrap();
    let listed: Vec<_> = listed.iter().map(|row| (row.tag.as_str(), row.strict)).collect();
    assert_eq!(listed, [("leaf", false), ("plain", false), ("s", true)]);
    let terms = look_up(&mut *store, &[tag("s"), tag("plain"), tag("leaf")]);
    let told: Vec<bool> = terms.iter().map(|terms| terms.unwrap().strict).collect();
    assert_eq!(told, [true, false, false]);
    // Strictness goes with the tag.
    store.delete(&tag("s"), strict.generation).unwrap();
    assert!(!store.create(&new_tag("s", 1, 10)).unwrap().strict);
}
