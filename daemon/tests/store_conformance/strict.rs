//! Strict tags: a claim is what is wanted and no more, and everybody is told; one host may hold the tag. Masked tags: everybody is told by which mask.

use leafd_core::mask::{KeyNumber, Masking};
use leafd_core::store::{ClaimWish, HoldWish, Holding, NewTag, StoreError, TagChange};

use crate::{Backend, claim, create, look_up, new_tag, raise, refused_in_words, tag, try_claim};

pub fn a_strict_tag_gives_what_is_wanted(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &NewTag { strict: true, ceiling: 60, ..new_tag("s", 1, 1000) }).unwrap();
    let mut other = backend.connect();
    let mut claimed = |want| {
        // In turn, as two hosts would.
        std::mem::swap(&mut store, &mut other);
        let claim = try_claim(&mut store, &tag("s"), ClaimWish::new(want, 1000));
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

pub fn a_strict_tag_that_one_host_holds_is_kept_from_others(backend: &mut dyn Backend) {
    let [mut holder, mut other] = [backend.connect(), backend.connect()];
    create(&mut holder, &NewTag { strict: true, ..new_tag("s", 1, 1000) }).unwrap();
    let wish = |own_end, ms| ClaimWish {
        hold: HoldWish { own_end, over: 0, ms },
        ..ClaimWish::new(10, 1000)
    };
    let mut holds = |own_end, ms| {
        let claim = try_claim(&mut holder, &tag("s"), wish(own_end, ms)).unwrap();
        assert!(claim.strict);
        (claim.run.range(), claim.holding)
    };
    let held_at = |found, end| {
        let held = StoreError::Held { tag: tag("s"), end, ms: 500 };
        assert_eq!(found, Err(held));
    };
    // The first claim doesn't know yet that nobody else claims.
    assert_eq!(holds(0, 500), (1..11, Holding::Free { wanted: false }));
    assert_eq!(holds(11, 500), (11..21, Holding::Held(500)));
    assert_eq!(holds(21, 500), (21..31, Holding::Held(500)));
    held_at(try_claim(&mut other, &tag("s"), wish(0, 0)), 31);
    held_at(try_claim(&mut other, &tag("s"), wish(21, 500)), 31);
    assert_eq!(holds(31, 500), (31..41, Holding::Wanted));
    held_at(try_claim(&mut other, &tag("s"), wish(0, 0)), 41);
    assert_eq!(holds(41, 0), (41..51, Holding::Free { wanted: true }));
    let claim = try_claim(&mut other, &tag("s"), wish(0, 500)).unwrap();
    assert_eq!((claim.run.range(), claim.holding), (51..61, Holding::Free { wanted: false }));
    assert_eq!(holds(51, 500), (61..71, Holding::Free { wanted: false }));

    // One that holds it for too long is passed over, unless it has claimed since.
    assert_eq!(holds(71, 500), (71..81, Holding::Held(500)));
    held_at(try_claim(&mut other, &tag("s"), wish(61, 0)), 81);
    let late =
        ClaimWish { hold: HoldWish { own_end: 61, over: 80, ms: 0 }, ..ClaimWish::new(10, 1000) };
    held_at(try_claim(&mut other, &tag("s"), late), 81);
    let late = ClaimWish { hold: HoldWish { over: 81, ..late.hold }, ..late };
    assert_eq!(try_claim(&mut other, &tag("s"), late).unwrap().run.range(), 81..91);
    assert_eq!(holds(81, 500), (91..101, Holding::Free { wanted: false }));
    assert!(other.show(&tag("s")).unwrap().strict);

    // A plain tag is never held.
    create(&mut other, &new_tag("plain", 1, 10)).unwrap();
    assert_eq!(try_claim(&mut other, &tag("plain"), wish(0, 500)).unwrap().run.first, 1);
    let claim = try_claim(&mut other, &tag("plain"), wish(11, 500)).unwrap();
    assert_eq!((claim.run.first, claim.holding), (11, Holding::Free { wanted: false }));
}

pub fn a_strict_tag_is_told_from_others(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let strict = create(&mut store, &NewTag { strict: true, ..new_tag("s", 1, 10) }).unwrap();
    create(&mut store, &new_tag("plain", 1, 10)).unwrap();
    backend.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('leaf', 1, 10)");
    assert!(strict.strict && store.show(&tag("s")).unwrap().strict);
    let listed = store.list(None, 10).unwrap();
    let listed: Vec<_> = listed.iter().map(|row| (row.tag.as_str(), row.strict)).collect();
    assert_eq!(listed, [("leaf", false), ("plain", false), ("s", true)]);
    let terms = look_up(&mut store, &[tag("s"), tag("plain"), tag("leaf")]);
    let told: Vec<bool> = terms.iter().map(|terms| terms.unwrap().strict).collect();
    assert_eq!(told, [true, false, false]);
    // Strictness goes with the tag.
    store.delete(&tag("s"), strict.generation).unwrap();
    assert!(!create(&mut store, &new_tag("s", 1, 10)).unwrap().strict);
}

pub fn a_masked_tag_tells_its_mask_with_each_claim(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let masked = Masking::parse("53 31 00000000000000ff");
    assert!(masked.is_some());
    let ceiling = (1 << 53) - 1;
    let new = NewTag { masked, ceiling, ..new_tag("m", 1, 10) };
    let row = create(&mut store, &new).unwrap();
    create(&mut store, &new_tag("plain", 1, 10)).unwrap();
    assert_eq!((row.masked, row.ceiling), (masked, ceiling));
    assert_eq!(store.show(&tag("m")).unwrap().masked, masked);
    let listed: Vec<_> = store.list(None, 10).unwrap().iter().map(|row| row.masked).collect();
    assert_eq!(listed, [masked, None]);
    let mut claim = |name| try_claim(&mut store, &tag(name), ClaimWish::new(1, 10)).unwrap();
    assert_eq!((claim("m").masked, claim("plain").masked), (masked, None));

    // Whatever doesn't fit is refused and leaves the tag as it is.
    for bad in
        [NewTag { strict: true, ..new.clone() }, NewTag { ceiling: ceiling + 1, ..new.clone() }]
    {
        let other = NewTag { tag: tag("other"), ..bad };
        assert!(matches!(create(&mut store, &other), Err(StoreError::Refused(_))));
    }
    let too_high = TagChange { ceiling: Some(ceiling + 1), ..TagChange::default() };
    assert!(matches!(store.set(&tag("m"), &too_high), Err(StoreError::Refused(_))));
    assert_eq!(store.show(&tag("m")).unwrap().ceiling, ceiling);
    backend.execute("UPDATE leafd_tag SET masked = '53 31 ff' WHERE tag = 'm'");
    refused_in_words(&mut store, "m", &["masked", "53 31 ff"]);
    backend.execute("UPDATE leafd_tag SET masked = '53 31 00000000000000ff' WHERE tag = 'm'");
    backend.execute("UPDATE leafd_tag SET strict = 1 WHERE tag = 'm'");
    refused_in_words(&mut store, "m", &["both strict and masked", "repair it with SQL"]);
    backend.execute("UPDATE leafd_tag SET strict = 0 WHERE tag = 'm'");

    // A tag of the same name could otherwise give ids that the former one gave.
    let plain = store.show(&tag("plain")).unwrap();
    store.delete(&tag("plain"), plain.generation).unwrap();
    store.delete(&tag("m"), row.generation).unwrap();
    let other = Masking::parse("53 30 00000000000000ff");
    for bad in [
        NewTag { masked: None, start: 11, ..new.clone() },
        NewTag { masked: other, start: 11, ..new.clone() },
        NewTag { tag: tag("plain"), start: 11, ..new.clone() },
    ] {
        let words = create(&mut store, &bad).unwrap_err().to_string();
        assert!(words.contains("another name"), "{words}");
    }
    assert_eq!(create(&mut store, &NewTag { start: 11, ..new }).unwrap().masked, masked);
}

/// A backup older than the tag was restored: a host knows up to where ids were given, and not how they were masked.
pub fn the_mask_of_a_tag_without_a_row_is_not_guessed(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    // As long as nothing was ever masked in the store, it was a plain tag.
    assert!(!raise(&mut store, "early", 1001));
    create(&mut store, &new_tag("early", 1001, 10)).unwrap();
    let under = store.identity().unwrap();
    store.note_mask_key(&under, KeyNumber::FIRST, 0xff).unwrap();
    let masked = Masking::parse("53 1 00000000000000ff");
    let ceiling = (1 << 53) - 1;
    assert!(!raise(&mut store, "t", 1001));
    for masked in [None, masked] {
        let error = create(&mut store, &NewTag { masked, ceiling, ..new_tag("t", 1001, 10) });
        let words = error.unwrap_err().to_string();
        assert!(
            words.contains("doesn't know its mask") && words.contains("another name"),
            "{words}"
        );
    }
    backend.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 1001, 10)");
    refused_in_words(&mut store, "t", &["masked", "?"]);
    backend.execute("DELETE FROM leaf_alloc WHERE biz_tag = 't'");
    // Tags that are there stay as they are.
    let new = NewTag { masked, ceiling, ..new_tag("m", 1, 10) };
    create(&mut store, &new).unwrap();
    backend.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('leaf', 1, 10)");
    let ends = ["early", "leaf", "m", "t"].map(|name| (tag(name), 2001));
    assert_eq!(store.raise(&under, &ends, false).unwrap(), [true, true, true, false]);
    for name in ["early", "leaf", "m"] {
        assert_eq!(claim(&mut store, name, 1).run.first, 2001, "{name}");
    }
    assert_eq!(store.show(&tag("m")).unwrap().masked, masked);
    // An operator may know.
    backend.execute("UPDATE leafd_tag SET masked = NULL WHERE tag = 't'");
    create(&mut store, &new_tag("t", 2001, 10)).unwrap();
    // A masked tag tells as much as a key.
    backend.execute("DELETE FROM leafd_meta WHERE name = 'mask_key_1'");
    assert!(!raise(&mut store, "other", 5));
    let words = create(&mut store, &new_tag("other", 5, 10)).unwrap_err().to_string();
    assert!(words.contains("doesn't know its mask"), "{words}");
}

/// The store itself may know nothing of masks any more: a host that has mask keys knows better.
pub fn a_host_with_mask_keys_says_that_a_lost_tag_may_have_been_masked(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let under = store.identity().unwrap();
    assert_eq!(store.raise(&under, &[(tag("t"), 1001)], true).unwrap(), [false]);
    for masked in [None, Masking::parse("53 1 00000000000000ff")] {
        let new = NewTag { masked, ceiling: (1 << 53) - 1, ..new_tag("t", 1001, 10) };
        let words = create(&mut store, &new).unwrap_err().to_string();
        assert!(words.contains("doesn't know its mask"), "{words}");
    }
}
