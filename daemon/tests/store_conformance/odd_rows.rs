//! Rows that others wrote and that make no sense: survived without a number twice or out of range.

use leafd_core::store::{CEILING_MAX, ClaimWish, StoreError, TagChange};

use crate::{Backend, claim, tag, try_claim};

fn insert(backend: &mut dyn Backend, name: &str, max_id: i64, step: i64) {
    backend.execute(&format!(
        "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('{name}', {max_id}, {step})"
    ));
}

pub fn max_id_below_1_is_claimed_from_1(backend: &mut dyn Backend) {
    for (name, max_id) in [("zero", 0), ("minus", -7), ("storm", -50_000_000_000_000)] {
        insert(backend, name, max_id, 10);
        let mut store = backend.connect();
        assert_eq!(claim(&mut store, name, 1).run.range(), 1..11, "{name}");
        assert_eq!(claim(&mut store, name, 1).run.range(), 11..21, "{name}");
    }
}

pub fn max_id_near_the_end_never_wraps(backend: &mut dyn Backend) {
    for left in 0..4_i64 {
        let name = format!("left{left}");
        insert(backend, &name, i64::MAX - left, 1000);
        let mut store = backend.connect();
        let wish = ClaimWish::new(1, 1000);
        if left > 0 {
            let numbers = try_claim(&mut store, &tag(&name), wish).unwrap().run.range();
            assert_eq!(numbers, CEILING_MAX - left as u64..CEILING_MAX);
        }
        for want in [1, u64::MAX] {
            let used_up = try_claim(&mut store, &tag(&name), ClaimWish::new(want, 1000));
            assert!(matches!(used_up, Err(StoreError::Exhausted { .. })), "{name}: {used_up:?}");
        }
        assert!(store.show(&tag(&name)).unwrap().max_id > 0);
    }
}

pub fn odd_steps_count_as_1(backend: &mut dyn Backend) {
    for (name, step) in [("zero", 0), ("minus", -5)] {
        insert(backend, name, 1, step);
        let mut store = backend.connect();
        let first = claim(&mut store, name, 1);
        assert_eq!((first.run.range(), first.step), (1..2, 1), "{name}");
        assert_eq!(claim(&mut store, name, 8).run.range(), 2..10, "{name}");
        let repaired = TagChange { step: Some(5), ..TagChange::default() };
        assert_eq!(store.set(&tag(name), &repaired).unwrap().step, 5);
        assert_eq!(claim(&mut store, name, 1).run.range(), 10..15, "{name}");
    }
}

pub fn odd_rows_are_listed_as_they_are(backend: &mut dyn Backend) {
    insert(backend, "a", -3, -4);
    insert(backend, "b", i64::MAX, 0);
    backend.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('', 1, 1)");
    let rows = backend.connect().list(None, 10).unwrap();
    let shown: Vec<_> = rows.iter().map(|row| (row.tag.as_str(), row.max_id, row.step)).collect();
    assert_eq!(shown, [("a", -3, -4), ("b", i64::MAX, 0)]);
}
