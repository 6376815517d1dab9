//! Tags: made, shown, changed, listed, told apart.

use leafd::store::Store;
use leafd_core::Tag;
use leafd_core::store::{
    CEILING_MAX, ClaimWish, Generation, NewTag, STEP_MAX, StoreError, TagChange, UNFINISHED,
};

use crate::{Backend, claim, create, generations, new_tag, refused_in_words, tag, try_claim};

pub fn unknown_tags_are_said_so(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let unknown =
        |error: StoreError| matches!(error, StoreError::UnknownTag { tag } if tag.as_str() == "no");
    let wish = ClaimWish::new(1, 1);
    assert!(unknown(try_claim(&mut store, &tag("no"), wish).unwrap_err()));
    assert!(unknown(store.show(&tag("no")).unwrap_err()));
    assert!(unknown(store.set(&tag("no"), &TagChange::default()).unwrap_err()));
    assert_eq!(generations(&mut store, &[tag("no")]), [None]);
    assert_eq!(store.list(None, 10).unwrap(), []);
}

pub fn a_created_tag_is_shown_as_created(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let new = NewTag {
        ceiling: 1 << 53,
        description: Some("order numbers, „Aufträge“".to_owned()),
        ..new_tag("orders", 1000, 200)
    };
    let created = create(&mut store, &new).unwrap();
    assert_eq!((created.max_id, created.step, created.ceiling), (1000, 200, 1 << 53));
    assert_eq!(created.description, new.description);
    assert!(created.generation > Generation(0));
    let updated = created.updated.clone().unwrap();
    assert!(
        updated.len() == 20 && updated.starts_with("20") && updated.ends_with('Z'),
        "{updated}"
    );
    assert_eq!(store.show(&tag("orders")).unwrap(), created);
    assert_eq!(claim(&mut store, "orders", 1).generation, created.generation);
}

pub fn a_tag_is_created_once(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    claim(&mut store, "t", 1);
    let before = store.show(&tag("t")).unwrap();
    let again = create(&mut backend.connect(), &new_tag("t", 900, 10));
    assert!(matches!(again, Err(StoreError::TagExists { .. })), "{again:?}");
    assert_eq!(store.show(&tag("t")).unwrap(), before);
}

pub fn an_unfinished_tag_gives_no_ids_until_it_has_a_ceiling(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &NewTag { ceiling: UNFINISHED, ..new_tag("t", 7, 10) }).unwrap();
    let refused = try_claim(&mut store, &tag("t"), ClaimWish::new(1, 1)).unwrap_err();
    assert!(matches!(refused, StoreError::Exhausted { left: 0, .. }), "{refused:?}");
    assert!(refused.to_string().contains("its creation was interrupted"), "{refused}");
    store.set(&tag("t"), &TagChange { ceiling: Some(100), ..TagChange::default() }).unwrap();
    assert_eq!(claim(&mut store, "t", 1).run.range(), 7..17);
}

pub fn values_out_of_range_are_refused(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let good = new_tag("t", 1, 10);
    let bad = [
        NewTag { start: 0, ..good.clone() },
        NewTag { start: CEILING_MAX, ..good.clone() },
        NewTag { start: 6, ceiling: 5, ..good.clone() },
        NewTag { step: 0, ..good.clone() },
        NewTag { step: STEP_MAX + 1, ..good.clone() },
        NewTag { ceiling: CEILING_MAX + 1, ..good.clone() },
        NewTag { description: Some("x".repeat(257)), ..good.clone() },
        NewTag { description: Some("a\0b".to_owned()), ..good.clone() },
    ];
    for new in &bad {
        let refused = create(&mut store, new);
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{new:?}: {refused:?}");
    }
    create(&mut store, &NewTag { description: Some("ä".repeat(256)), ..good }).unwrap();
    let bad = [
        TagChange { step: Some(0), ..TagChange::default() },
        TagChange { step: Some(STEP_MAX + 1), ..TagChange::default() },
        TagChange { ceiling: Some(0), ..TagChange::default() },
        TagChange { ceiling: Some(u64::MAX), ..TagChange::default() },
        TagChange { description: Some("x".repeat(257)), ..TagChange::default() },
    ];
    for change in &bad {
        let refused = store.set(&tag("t"), change);
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{change:?}: {refused:?}");
    }
}

pub fn set_changes_only_what_it_names(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let first = create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let none = TagChange::default();
    assert_eq!(store.set(&tag("t"), &none).unwrap().step, 10);
    let row = store.set(&tag("t"), &TagChange { step: Some(STEP_MAX), ..none.clone() }).unwrap();
    assert_eq!((row.step, row.ceiling, row.max_id), (STEP_MAX as i64, CEILING_MAX, 1));
    let text = |text: &str| TagChange { description: Some(text.to_owned()), ..none.clone() };
    assert_eq!(store.set(&tag("t"), &text("why")).unwrap().description.as_deref(), Some("why"));
    let row = store.set(&tag("t"), &TagChange { ceiling: Some(99), ..none.clone() }).unwrap();
    assert_eq!((row.ceiling, row.description.as_deref()), (99, Some("why")));
    let row = store.set(&tag("t"), &text("")).unwrap();
    assert_eq!((row.description, row.generation), (None, first.generation));
}

pub fn lists_come_in_pages(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let mut names: Vec<String> = (0..23).map(|number| format!("tag {number}")).collect();
    names.extend(["Zed", "~", "é", "ta", "tag", "\u{10000}", "\u{ffff}"].map(str::to_owned));
    for name in &names {
        create(&mut store, &new_tag(name, 1, 10)).unwrap();
    }
    names.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    for limit in [1, 7, 30, 1000] {
        let mut listed: Vec<String> = Vec::new();
        loop {
            let after = listed.last().map(|name| tag(name));
            let page = store.list(after.as_ref(), limit).unwrap();
            assert!(page.len() <= limit as usize);
            if page.is_empty() {
                break;
            }
            listed.extend(page.iter().map(|row| row.tag.as_str().to_owned()));
        }
        assert_eq!(listed, names);
    }
    assert_eq!(store.list(None, 0).unwrap(), []);
}

pub fn tags_are_told_apart_byte_for_byte(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &new_tag("order", 1, 10)).unwrap();
    for other in ["Order", "order ", " order", "ordér", "orde", "order%", "o_der"] {
        let unknown = try_claim(&mut store, &tag(other), ClaimWish::new(1, 1));
        assert!(matches!(unknown, Err(StoreError::UnknownTag { .. })), "{other:?}: {unknown:?}");
        assert_eq!(generations(&mut store, &[tag(other)]), [None]);
    }
    for (other, start) in [("Order", 1000), ("order ", 2000)] {
        if other.ends_with(' ') && backend.folds_trailing_spaces() {
            let refused = create(&mut store, &new_tag(other, start, 10)).unwrap_err().to_string();
            assert!(refused.contains("treats them as equal"), "{refused}");
            continue;
        }
        create(&mut store, &new_tag(other, start, 10)).unwrap();
        assert_eq!(claim(&mut store, other, 1).run.first, start);
    }
    assert_eq!(claim(&mut store, "order", 1).run.range(), 1..11);
}

pub fn the_longest_tag_fits(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let name = "\u{1F34D}".repeat(128);
    let shorter = "\u{1F34D}".repeat(127);
    create(&mut store, &new_tag(&name, 1, 10)).unwrap();
    assert_eq!(claim(&mut store, &name, 1).run.range(), 1..11);
    assert_eq!(generations(&mut store, &[tag(&shorter)]), [None]);
    assert_eq!(store.list(None, 10).unwrap()[0].tag.as_str(), name);
}

pub fn a_deleted_tag_comes_back_as_another(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let first = create(&mut store, &new_tag("t", 1, 100)).unwrap();
    assert_eq!(claim(&mut store, "t", 1).run.range(), 1..101);
    backend.execute("DELETE FROM leaf_alloc WHERE biz_tag = 't'");
    let gone = try_claim(&mut store, &tag("t"), ClaimWish::new(1, 1));
    assert!(matches!(gone, Err(StoreError::UnknownTag { .. })), "{gone:?}");
    assert_eq!(generations(&mut store, &[tag("t")]), [None]);
    match create(&mut store, &new_tag("t", 100, 10)) {
        Err(StoreError::Refused(words)) => assert!(words.contains("101"), "{words}"),
        other => panic!("{other:?}"),
    }
    let second = create(&mut store, &new_tag("t", 101, 10)).unwrap();
    assert!(second.generation > Generation(0) && second.generation != first.generation);
    assert_eq!(claim(&mut store, "t", 1).run.range(), 101..111);
}

pub fn a_tag_is_deleted_by_who_has_seen_it(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let first = create(&mut store, &new_tag("t", 1, 100)).unwrap();
    claim(&mut store, "t", 1);
    let before = store.show(&tag("t")).unwrap();
    let other = store.delete(&tag("t"), Generation(first.generation.0 ^ 1));
    assert!(matches!(other, Err(StoreError::Refused(_))), "{other:?}");
    assert_eq!(store.show(&tag("t")).unwrap(), before);
    assert_eq!(store.delete(&tag("t"), first.generation).unwrap(), before);
    for gone in [store.delete(&tag("t"), first.generation), store.show(&tag("t"))] {
        assert!(matches!(gone, Err(StoreError::UnknownTag { .. })), "{gone:?}");
    }
    assert_eq!(generations(&mut store, &[tag("t")]), [None]);
    // One that another program made has no generation to tell it by.
    backend.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('leaf', -3, 0)");
    assert_eq!(store.delete(&tag("leaf"), Generation(0)).unwrap().max_id, -3);
    assert_eq!(create(&mut store, &new_tag("leaf", 1, 10)).unwrap().max_id, 1);
}

/// A host that was off still has numbers of the deleted tag.
pub fn what_is_left_of_a_deleted_tag_is_another_s(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &new_tag("t", 1, 100)).unwrap();
    let mut seen: Vec<Generation> = Vec::new();
    for end in [101, 201, 301] {
        let held = claim(&mut store, "t", 1);
        assert_eq!(held.run.end(), end);
        assert!(!seen.contains(&held.generation), "{held:?} {seen:?}");
        seen.push(held.generation);
        // Set back, so that only what is remembered tells how far it got.
        backend.execute("UPDATE leaf_alloc SET max_id = 1 WHERE biz_tag = 't'");
        store.delete(&tag("t"), held.generation).unwrap();
        match create(&mut store, &new_tag("t", end - 1, 100)) {
            Err(StoreError::Refused(words)) => assert!(words.contains(&end.to_string()), "{words}"),
            other => panic!("{other:?}"),
        }
        create(&mut store, &new_tag("t", end, 100)).unwrap();
    }
    let held = store.show(&tag("t")).unwrap();
    store.delete(&tag("t"), held.generation).unwrap();
    // Somebody makes it anew by hand, as it was at first.
    backend.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 1, 100)");
    refused_in_words(&mut store, "t", &["--start 301"]);
    assert_ne!(store.show(&tag("t")).unwrap().generation, held.generation);
    let late = store.delete(&tag("t"), held.generation);
    assert!(matches!(late, Err(StoreError::Refused(_))), "{late:?}");
}

pub fn look_ups_are_answered_in_order(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let names: Vec<String> = (0..600).map(|number| format!("t{number}")).collect();
    for name in names.iter().step_by(100) {
        create(&mut store, &new_tag(name, 1, 10)).unwrap();
    }
    let asked: Vec<Tag> = names.iter().rev().map(|name| tag(name)).collect();
    let answered = generations(&mut store, &asked);
    assert_eq!(answered.len(), asked.len());
    for (tag, generation) in asked.iter().zip(answered) {
        assert_eq!(generation, store.show(tag).ok().map(|row| row.generation), "{tag}");
    }
    assert_eq!(generations(&mut store, &[]), []);
}

pub fn a_row_by_another_program_is_a_tag(backend: &mut dyn Backend) {
    backend.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 77, 10)");
    let mut store = backend.connect();
    let row = store.show(&tag("t")).unwrap();
    assert_eq!((row.max_id, row.step, row.generation), (77, 10, Generation(0)));
    assert_eq!((row.ceiling, row.description), (CEILING_MAX, None));
    assert_eq!(claim(&mut store, "t", 1).generation, Generation(0));
    let change = TagChange { ceiling: Some(1000), ..TagChange::default() };
    assert_eq!(store.set(&tag("t"), &change).unwrap().generation, Generation(0));
    assert_eq!(generations(&mut store, &[tag("t")]), [Some(Generation(0))]);
}

/// Every row is on one page and none on two, in whatever order the key has. There is a tag `Order` already; `others` are
/// further names that the backend's collation tells apart.
pub fn pages_are_complete(store: &mut Store, others: &[&str]) {
    let mut names: Vec<String> = (0..20).map(|number| format!("tag-{number}")).collect();
    names.extend(["Zed", "_a", "äb", "AC", "a-c"].iter().chain(others).map(ToString::to_string));
    for name in &names {
        create(&mut *store, &new_tag(name, 1, 10)).unwrap();
    }
    names.push("Order".to_owned());
    names.sort();
    let mut orders = Vec::new();
    for limit in [1, 4, 100] {
        let mut listed: Vec<String> = Vec::new();
        loop {
            let after = listed.last().map(|name| tag(name));
            let page = store.list(after.as_ref(), limit).unwrap();
            if page.is_empty() {
                break;
            }
            listed.extend(page.iter().map(|row| row.tag.as_str().to_owned()));
        }
        orders.push(listed.clone());
        listed.sort();
        assert_eq!(listed, names, "pages of {limit}");
    }
    assert!(orders.windows(2).all(|pair| pair[0] == pair[1]), "{orders:?}");
}
