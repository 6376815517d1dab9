//! Claims: what they take, and that nobody gets a number twice.

use std::thread;

use leafd_core::store::{CEILING_MAX, ClaimWish, NewTag, StoreError, TagChange, Why};

use crate::{Backend, claim, create, look_up, new_tag, raise, refused_in_words, tag, try_claim};

pub fn a_row_seeded_with_1_issues_1_first(backend: &mut dyn Backend) {
    backend.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 100)");
    let mut store = backend.connect();
    let first = claim(&mut store, "orders", 1);
    assert_eq!((first.run.range(), first.step, first.ceiling), (1..101, 100, CEILING_MAX));
    assert_eq!(store.show(&tag("orders")).unwrap().max_id, 101);
    assert_eq!(claim(&mut store, "orders", 1).run.range(), 101..201);
}

pub fn sizes_follow_want_step_and_step_max(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &new_tag("t", 1, 50)).unwrap();
    let mut sized = |want, step_max| {
        let claim = try_claim(&mut store, &tag("t"), ClaimWish::new(want, step_max)).unwrap();
        claim.run.end() - claim.run.first
    };
    assert_eq!(sized(1, 1000), 50);
    assert_eq!(sized(51, 1000), 51);
    assert_eq!(sized(1, 20), 20);
    assert_eq!(sized(30, 20), 30);
    assert_eq!(sized(0, 0), 1);
    store.set(&tag("t"), &TagChange { step: Some(7), ..TagChange::default() }).unwrap();
    assert_eq!(claim(&mut store, "t", 1).step, 7);
}

pub fn a_claim_is_cut_at_the_ceiling(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &NewTag { ceiling: 12, ..new_tag("t", 1, 10) }).unwrap();
    assert_eq!(claim(&mut store, "t", 1).run.range(), 1..11);
    let last = claim(&mut store, "t", 100);
    assert_eq!((last.run.range(), last.ceiling), (11..13, 12));
    let used_up = try_claim(&mut store, &tag("t"), ClaimWish::new(1, 1));
    assert!(matches!(used_up, Err(StoreError::Exhausted { ceiling: 12, .. })), "{used_up:?}");
    store.set(&tag("t"), &TagChange { ceiling: Some(20), ..TagChange::default() }).unwrap();
    assert_eq!(claim(&mut store, "t", 1).run.range(), 13..21);
}

pub fn numbers_end_before_the_last_one(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &new_tag("t", CEILING_MAX - 3, 100)).unwrap();
    assert_eq!(claim(&mut store, "t", u64::MAX).run.range(), CEILING_MAX - 3..CEILING_MAX);
    let used_up = try_claim(&mut store, &tag("t"), ClaimWish::new(1, 1));
    assert!(matches!(used_up, Err(StoreError::Exhausted { .. })), "{used_up:?}");
}

pub fn connections_get_disjoint_numbers(backend: &mut dyn Backend) {
    const CONNECTIONS: u64 = 4;
    const CLAIMS: u64 = 25;
    let mut first = backend.connect();
    create(&mut first, &new_tag("a", 1, 3)).unwrap();
    create(&mut first, &new_tag("b", 1000, 1)).unwrap();
    let threads: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let mut store = backend.connect();
            thread::spawn(move || {
                let sized = |claim: u64| 1 + (number + claim) % 5;
                let claims = (0..CLAIMS).map(|one| {
                    let name = if one % 4 == 3 { "b" } else { "a" };
                    (name, claim(&mut store, name, sized(one)).run.range())
                });
                claims.collect::<Vec<_>>()
            })
        })
        .collect();
    let claimed: Vec<_> = threads.into_iter().flat_map(|one| one.join().unwrap()).collect();
    assert_eq!(claimed.len() as u64, CONNECTIONS * CLAIMS);
    for (name, start) in [("a", 1), ("b", 1000)] {
        let mut ranges: Vec<_> =
            claimed.iter().filter(|(of, _)| *of == name).map(|(_, numbers)| numbers).collect();
        ranges.sort_by_key(|numbers| numbers.start);
        let mut end = start;
        for numbers in ranges {
            assert_eq!(numbers.start, end, "numbers of {name} overlap or are lost");
            end = numbers.end;
        }
        assert_eq!(first.show(&tag(name)).unwrap().max_id as u64, end);
    }
}

pub fn claims_outlive_connections(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let created = create(&mut store, &new_tag("t", 5, 10)).unwrap();
    assert_eq!(claim(&mut store, "t", 1).run.range(), 5..15);
    drop(store);
    let mut store = backend.connect();
    let again = claim(&mut store, "t", 1);
    assert_eq!((again.run.range(), again.generation), (15..25, created.generation));
}

pub fn a_row_set_back_is_refused_in_words(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &new_tag("t", 1, 100)).unwrap();
    assert_eq!(claim(&mut store, "t", 1).run.range(), 1..101);
    let before = look_up(&mut store, &[tag("t")])[0].unwrap().generation;
    backend.execute("UPDATE leaf_alloc SET max_id = 1 WHERE biz_tag = 't'");
    refused_in_words(&mut store, "t", &["leafctl tag raise \"t\" --to 101"]);
    let refused = try_claim(&mut store, &tag("t"), ClaimWish::new(1, 1)).unwrap_err();
    assert_eq!(refused.why(), Why::RowSetBack);
    // Whoever holds numbers of it is told that it is another one.
    assert_ne!(look_up(&mut store, &[tag("t")])[0].unwrap().generation, before);
    assert!(raise(&mut store, "t", 101));
    assert_eq!(look_up(&mut store, &[tag("t")])[0].unwrap().generation, before);
    assert_eq!(claim(&mut store, "t", 1).run.range(), 101..201);
}

/// Nothing but what claims have written tells of it.
pub fn a_row_made_anew_by_sql_is_refused_until_a_command_helps(backend: &mut dyn Backend) {
    backend.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 1, 100)");
    let mut store = backend.connect();
    assert_eq!(claim(&mut store, "t", 1).run.range(), 1..101);
    backend.execute("UPDATE leaf_alloc SET biz_tag = 'u'");
    let unknown = try_claim(&mut store, &tag("t"), ClaimWish::new(1, 1));
    assert!(matches!(unknown, Err(StoreError::UnknownTag { .. })), "{unknown:?}");
    assert_eq!(claim(&mut store, "u", 1).run.range(), 101..201);
    backend.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 1, 10)");
    refused_in_words(
        &mut store,
        "t",
        &["leafctl tag delete \"t\"", "leafctl tag create \"t\"", "--start 101"],
    );
    let seen = store.show(&tag("t")).unwrap().generation;
    store.delete(&tag("t"), seen).unwrap();
    create(&mut store, &new_tag("t", 101, 10)).unwrap();
    let anew = claim(&mut store, "t", 1);
    assert_eq!(anew.run.range(), 101..111);
    assert_ne!(anew.generation, seen);
}

pub fn a_claim_by_another_program_is_respected(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    assert_eq!(claim(&mut store, "t", 1).run.range(), 1..11);
    backend.execute("UPDATE leaf_alloc SET max_id = max_id + 1000 WHERE biz_tag = 't'");
    assert_eq!(claim(&mut store, "t", 1).run.range(), 1011..1021);
}

pub fn a_step_changed_by_another_program_counts(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    assert_eq!(claim(&mut store, "t", 1).run.range(), 1..11);
    let mut set = |step: i64, expect: (std::ops::Range<u64>, u64)| {
        backend.execute(&format!("UPDATE leaf_alloc SET step = {step} WHERE biz_tag = 't'"));
        let claim = claim(&mut store, "t", 1);
        assert_eq!((claim.run.range(), claim.step), expect);
    };
    set(500, (11..511, 500));
    set(2, (511..513, 2));
    set(0, (513..514, 1));
    set(i64::from(i32::MAX), (514..1514, i32::MAX as u64));
}
