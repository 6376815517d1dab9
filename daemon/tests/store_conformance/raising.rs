//! Raising tags to what was seen of them, and where their next claims start.

use std::sync::Barrier;
use std::thread;

use leafd_core::Tag;
use leafd_core::store::{CEILING_MAX, ClaimWish, NewTag, StoreError, TagTerms};

use crate::{Backend, claim, create, look_up, new_tag, raise, refused_in_words, tag, try_claim};

pub fn raise_lifts_and_never_lowers(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &NewTag { ceiling: 2000, ..new_tag("t", 1, 10) }).unwrap();
    assert!(raise(&mut store, "t", 500));
    assert_eq!(claim(&mut store, "t", 1).run.range(), 500..510);
    assert!(!raise(&mut store, "t", 7));
    assert!(!raise(&mut store, "t", 510));
    assert_eq!(claim(&mut store, "t", 1).run.range(), 510..520);
    assert!(raise(&mut store, "t", CEILING_MAX + 1));
    assert_eq!(store.show(&tag("t")).unwrap().max_id, i64::MAX);
    let used_up = try_claim(&mut store, &tag("t"), ClaimWish::new(1, 1));
    assert!(matches!(used_up, Err(StoreError::Exhausted { ceiling: 2000, .. })), "{used_up:?}");
}

pub fn many_are_raised_at_once(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    // Every third is there; of these, every second is behind.
    let there = |number: u64| number.is_multiple_of(3);
    let behind = |number: u64| number.is_multiple_of(6);
    let rows: Vec<String> = (0..1000)
        .filter(|number| there(*number))
        .map(|number| format!("('t{number}', {}, 10)", if behind(number) { 1 } else { 9000 }))
        .collect();
    let head = "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES";
    backend.execute(&format!("{head} {}", rows.join(", ")));
    let ends: Vec<(Tag, u64)> =
        (0..1000).map(|number| (tag(&format!("t{number}")), 1000 + number)).collect();
    let under = store.identity().unwrap();
    let moved = store.raise(&under, &ends, false).unwrap();
    let expect: Vec<bool> = (0..1000).map(behind).collect();
    assert_eq!(moved, expect);
    assert_eq!(store.raise(&under, &ends, false).unwrap(), [false; 1000]);
    assert_eq!(store.raise(&under, &[], false).unwrap(), [] as [bool; 0]);
    for number in (0..1000).step_by(59) {
        let name = format!("t{number}");
        if there(number) {
            let start = if behind(number) { 1000 + number } else { 9000 };
            assert_eq!(claim(&mut store, &name, 1).run.first, start, "{name}");
        } else {
            let unknown = store.show(&tag(&name));
            assert!(matches!(unknown, Err(StoreError::UnknownTag { .. })), "{unknown:?}");
        }
    }
    // What a tag was raised to is remembered when its row is set back, and raising another end lifts it to that.
    backend.execute("UPDATE leaf_alloc SET max_id = 1");
    refused_in_words(&mut store, "t6", &["--start 1006"]);
    assert!(raise(&mut store, "t6", 7));
    assert_eq!(claim(&mut store, "t6", 1).run.first, 1006);
}

pub fn the_higher_of_two_ends_counts(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    assert!(!raise(&mut store, "other", 5));
    let under = store.identity().unwrap();
    let ends = [(tag("t"), 300), (tag("t"), 700), (tag("t"), 20)];
    assert!(store.raise(&under, &ends, false).unwrap().contains(&true));
    assert_eq!(store.show(&tag("t")).unwrap().max_id, 700);
}

/// As while a backup is restored, or when it is older than the tag.
pub fn what_a_missing_tag_was_raised_to_is_remembered(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    assert!(!raise(&mut store, "late", 500));
    assert!(!raise(&mut store, "made", 700));
    backend.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('late', 20, 10)");
    refused_in_words(&mut store, "late", &["--start 500"]);
    assert!(raise(&mut store, "late", 500));
    assert_eq!(claim(&mut store, "late", 1).run.range(), 500..510);
    let below = create(&mut store, &new_tag("made", 699, 10));
    assert!(matches!(below, Err(StoreError::Refused(_))), "{below:?}");
    create(&mut store, &new_tag("made", 700, 10)).unwrap();
}

pub fn ends_are_told_of_rows_and_of_names_alone(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    assert_eq!(store.ends(None, 10).unwrap(), []);
    // Made and deleted by us, claimed from, deleted by another program, and never here.
    for name in ["gone", "kept", "Other", "unused"] {
        create(&mut store, &new_tag(name, 1, 10)).unwrap();
    }
    for name in ["gone", "kept", "Other"] {
        assert_eq!(claim(&mut store, name, 1).run.range(), 1..11);
    }
    let row = store.show(&tag("gone")).unwrap();
    store.delete(&tag("gone"), row.generation).unwrap();
    backend.execute("DELETE FROM leaf_alloc WHERE biz_tag = 'Other'");
    // Names of which no transaction holds all, in an order that is that of their bytes.
    let names: Vec<String> = (0..450)
        .map(|number| format!("n{number:03}"))
        .chain(["é".to_owned(), "\u{ffff}".to_owned(), "\u{10000}".to_owned()])
        .collect();
    let ends: Vec<(Tag, u64)> = names.iter().map(|name| (tag(name), CEILING_MAX)).collect();
    let under = store.identity().unwrap();
    store.raise(&under, &ends, false).unwrap();
    let mut expect = vec![(tag("Other"), 11), (tag("gone"), 11), (tag("kept"), 11)];
    expect.extend(ends);
    expect.push((tag("unused"), 0));
    expect.sort();
    for limit in [7, 453, 1000] {
        let mut told: Vec<(Tag, u64)> = Vec::new();
        loop {
            let page = store.ends(told.last().map(|(tag, _)| tag), limit).unwrap();
            assert!(page.len() <= limit as usize);
            if page.is_empty() {
                break;
            }
            told.extend(page);
        }
        assert_eq!(told, expect);
    }
    assert_eq!(store.ends(None, 0).unwrap(), []);
    // What is no tag is left out, and makes no page look like the last one.
    backend.execute("INSERT INTO leafd_tag (tag, highest_end) VALUES ('a\tb', 9), ('a\tc', 9)");
    for (limit, first) in [(1, &expect[..1]), (2, &expect[..2])] {
        assert_eq!(store.ends(None, limit).unwrap(), *first);
    }
    assert_eq!(store.ends(Some(&tag("Other")), 1).unwrap(), [(tag("gone"), 11)]);
}

/// As after a fail-over: each has seen something else, and all of them are in a hurry.
pub fn daemons_raise_at_once(backend: &mut dyn Backend) {
    const DAEMONS: u64 = 3;
    const TAGS: u64 = 250;
    let mut first = backend.connect();
    let rows: Vec<String> = (0..TAGS).map(|number| format!("('t{number}', 1, 10)")).collect();
    let head = "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES";
    backend.execute(&format!("{head} {}", rows.join(", ")));
    let under = first.identity().unwrap();
    let stores: Vec<_> = (0..DAEMONS).map(|_| backend.connect()).collect();
    let together = Barrier::new(stores.len());
    thread::scope(|scope| {
        for (daemon, mut store) in (0..).zip(stores) {
            let (under, together) = (&under, &together);
            scope.spawn(move || {
                let seen = |number: u64| 1000 + (number + daemon) % DAEMONS;
                let mut ends: Vec<_> =
                    (0..TAGS).map(|number| (tag(&format!("t{number}")), seen(number))).collect();
                // In orders that differ.
                ends.rotate_left((daemon * 77) as usize);
                together.wait();
                store.raise(under, &ends, false).unwrap();
            });
        }
    });
    for number in 0..TAGS {
        let row = first.show(&tag(&format!("t{number}"))).unwrap();
        assert_eq!(row.max_id as u64, 1000 + DAEMONS - 1, "{number}");
    }
}

pub fn look_up_knows_where_the_next_claim_starts(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let created = create(&mut store, &NewTag { ceiling: 5000, ..new_tag("t", 7, 100) }).unwrap();
    let mut terms = |name: &str| look_up(&mut store, &[tag(name)])[0].unwrap();
    let first = TagTerms {
        generation: created.generation,
        end: 7,
        step: 100,
        ceiling: 5000,
        strict: false,
    };
    assert_eq!(terms("t"), first);
    assert_eq!(claim(&mut backend.connect(), "t", 1).run.range(), 7..107);
    assert_eq!(terms("t"), TagTerms { end: 107, ..first });
    // The row alone is set back: what was claimed is still known.
    backend.execute("UPDATE leaf_alloc SET max_id = 7 WHERE biz_tag = 't'");
    let set_back = terms("t");
    assert_eq!(set_back, TagTerms { end: 107, generation: set_back.generation, ..first });
    assert_ne!(set_back.generation, first.generation);
    // As in a store that has lost the claim's commit: nothing knows of it.
    backend.execute("UPDATE leafd_tag SET highest_end = 0 WHERE tag = 't'");
    assert_eq!(terms("t"), TagTerms { end: 7, ..first });
    backend.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('odd', -5, 0)");
    let odd = terms("odd");
    assert_eq!((odd.end, odd.step, odd.ceiling), (1, 1, CEILING_MAX));
}
