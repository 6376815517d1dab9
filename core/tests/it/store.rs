//! What all backends decide alike: which tags can be created and changed, which starts of a host are trusted, and what
//! errors say.

use leafd_core::Tag;
use leafd_core::mask::{KeyNumber, MaskBits, Masking};
use leafd_core::store::*;
use leafd_wire::Run;

fn tag(name: &str) -> Tag {
    Tag::parse(name.as_bytes()).unwrap()
}

fn masking(bits: u8, key: u8) -> Masking {
    let (bits, key) = (MaskBits::new(bits).unwrap(), KeyNumber::new(key).unwrap());
    Masking { bits, key, check_value: 7 }
}

fn new_tag(start: u64, step: u64, ceiling: u64) -> NewTag {
    let (masked, description) = (None, None);
    NewTag { tag: tag("t"), start, step, ceiling, strict: false, masked, description }
}

/// What a refusal says; empty if there is none.
fn words(result: Result<(), StoreError>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn a_tag_is_shown_as_it_is_or_quoted() {
    assert_eq!(format!("{0} {0:?}", tag("orders")), "orders \"orders\"");
}

#[test]
fn a_new_tag_s_values_are_within_their_ranges() {
    let described = |text: &str| NewTag { description: Some(text.into()), ..new_tag(1, 1, 1) };
    let masked = |ceiling| NewTag { masked: Some(masking(20, 1)), ..new_tag(1, 1, ceiling) };
    for (new, refusal) in [
        (new_tag(1, 1, 1), ""),
        (new_tag(START_MAX, STEP_MAX, CEILING_MAX), ""),
        (new_tag(START_MAX, 1, UNFINISHED), ""),
        (described(&"ä".repeat(DESCRIPTION_CHARACTERS_MAX)), ""),
        (masked((1 << 20) - 1), ""),
        (new_tag(1, 0, 1), "step can't be 0; allowed: 1 to 2147483647"),
        (new_tag(1, STEP_MAX + 1, 1), "step can't be 2147483648"),
        (new_tag(1, 1, CEILING_MAX + 1), "ceiling can't be 9223372036854775808"),
        (new_tag(0, 1, 9), "start can't be 0; allowed: 1 to 9"),
        (new_tag(10, 1, 9), "start can't be 10; allowed: 1 to 9"),
        (new_tag(CEILING_MAX, 1, CEILING_MAX), "allowed: 1 to 9223372036854775806"),
        (new_tag(CEILING_MAX, 1, UNFINISHED), "allowed: 1 to 9223372036854775806"),
        (described(&"ä".repeat(DESCRIPTION_CHARACTERS_MAX + 1)), "be 257 characters long"),
        (described("a\nb"), "text without control characters"),
        (masked(1 << 20), "ceiling can't be 1048576; allowed: 1 to 1048575, because"),
        (NewTag { strict: true, ..masked(9) }, "both strict and masked"),
    ] {
        let said = words(new.check());
        assert!(said.contains(refusal) && said.is_empty() == refusal.is_empty(), "{new:?}: {said}");
    }
}

#[test]
fn a_change_s_values_are_within_their_ranges() {
    let (step, ceiling, description) = (Some(1), Some(CEILING_MAX), Some(String::new()));
    let good = TagChange { step, ceiling, description };
    assert_eq!((good.check(), TagChange::default().check()), (Ok(()), Ok(())));
    for (bad, what) in [
        (TagChange { step: Some(0), ..good.clone() }, "step"),
        (TagChange { ceiling: Some(0), ..good.clone() }, "ceiling"),
        (TagChange { description: Some("\u{7}".into()), ..good }, "description"),
    ] {
        assert!(words(bad.check()).contains(what), "{bad:?}");
    }
}

#[test]
fn a_tag_made_anew_starts_above_what_was_claimed_and_is_masked_as_before() {
    let ends = [i64::MIN, 0, 9, 10, 11, i64::MAX];
    let above = ends.map(|end| words(new_tag(10, 1, 99).check_above(end)).is_empty());
    assert_eq!(above, [true, true, true, true, false, false]);
    let [one, other] = [masking(20, 1), masking(21, 2)];
    let masked = |masked| NewTag { masked, ..new_tag(1, 1, 1) };
    for (new, former, refusal) in [
        (None, None, ""),
        (Some(one), Some(one.to_string()), ""),
        (None, Some(one.to_string()), "were masked with 20 bits and key 1:"),
        (Some(one), Some(other.to_string()), "were masked with 21 bits and key 2:"),
        (Some(one), Some("x".into()), "were masked differently:"),
        (Some(one), None, "were not masked:"),
        (Some(one), Some(MASK_UNKNOWN.into()), "doesn't know its mask"),
        (None, Some(MASK_UNKNOWN.into()), "doesn't know its mask"),
    ] {
        let said = words(masked(new).check_mask(former.as_deref()));
        assert!(said.contains(refusal) && said.is_empty() == refusal.is_empty(), "{new:?}: {said}");
    }
}

#[test]
fn a_row_is_changed_only_as_the_tag_that_was_seen() {
    let (max_id, step, ceiling, generation) = (1, 1, 1 << 20, Generation(5));
    let (strict, masked, description, updated) = (false, None, None, None);
    let row = TagRow {
        tag: tag("t"),
        max_id,
        step,
        ceiling,
        generation,
        strict,
        masked,
        description,
        updated,
    };
    assert_eq!((row.check_generation(Generation(5)), row.check_masked()), (Ok(()), Ok(())));
    assert!(words(row.check_generation(Generation(6))).contains("is 5, not 6"));
    assert!(
        words(TagRow { masked: Some(masking(20, 1)), ..row }.check_masked()).contains("20 bits")
    );
}

#[test]
fn a_start_is_trusted_if_the_store_knows_none_or_one_of_the_journal() {
    let [old, older, next, foreign] =
        ["old", "older", "next", "foreign"].map(|t| StartToken(t.into()));
    for (found, expected) in [
        (None, (CheckIn::New, true)),
        (Some(&next), (CheckIn::Current, false)),
        (Some(&old), (CheckIn::Current, true)),
        (Some(&foreign), (CheckIn::Stale, false)),
    ] {
        let found = found.map(|token| &*token.0);
        assert_eq!(judge_start(found, &[old.clone(), older.clone()], &next), expected, "{found:?}");
    }
}

#[test]
fn a_record_has_the_ids_of_its_run() {
    let run = Run { first: 5, count: 3, stride: 3 };
    let by = ClaimedBy { host: HostId("h".into()), name: "n".into(), holds_from: None };
    let record = ClaimRecord { run, generation: Generation(0), by, at: leafd_core::UnixMs(0) };
    let has: Vec<u64> = (0..20).filter(|id| record.has(*id)).collect();
    assert_eq!(has, [5, 8, 11]);
}

#[test]
fn a_wish_grows_up_to_the_most_that_a_claim_may_take() {
    let more = |want, ids| {
        ClaimWish::new(want, 10).with_more(ids).map(|wish| (wish.want, wish.least, wish.step_max))
    };
    assert_eq!([more(7, 2), more(7, 3), more(7, 4)], [Some((9, 3, 10)), Some((10, 4, 10)), None]);
    assert_eq!(more(11, 0), Some((11, 1, 10)), "as large as it was");
    assert_eq!(more(7, u64::MAX), None);
}

#[test]
fn the_used_part_is_a_percentage() {
    let used = [(0, 10), (1, 0), (7, 10), (10, 10), (u64::MAX, 1), (CEILING_MAX - 1, CEILING_MAX)];
    let percent = used.map(|(claimed_to, ceiling)| percent_used(claimed_to, ceiling));
    assert_eq!(percent, [0, 100, 70, 100, 100, 99]);
}

#[test]
fn an_error_says_what_to_do_and_keeps_the_class_of_its_reason() {
    let login = || Reason::new(Why::Login, "no");
    let exhausted = |name, ceiling, left| StoreError::Exhausted { tag: tag(name), ceiling, left };
    let away = StoreError::Unavailable { store: "s".into(), cause: login() };
    let raise = "raise the ceiling with: leafctl tag set";
    for (error, why, says) in [
        (away, Why::Login, "the store s can't be used: no"),
        (StoreError::Refused(login()), Why::Login, "no"),
        (exhausted("t", UNFINISHED, 0), Why::Other, "some of the independent primaries lack it"),
        (exhausted("t", 9, 0), Why::Other, &format!("ceiling 9 is claimed; {raise} \"t\"")),
        (
            exhausted("t", 9, 2),
            Why::Other,
            &format!("has only 2 ids left up to its ceiling 9: request fewer at once, or {raise}"),
        ),
        (
            exhausted("t", 9, 1),
            Why::Other,
            "has only 1 id left up to its ceiling 9: request it alone",
        ),
        (exhausted("series/inv/2026", 9, 0), Why::Other, "wait for the next period"),
        (exhausted("series.dense/inv/tenants", 9, 0), Why::Other, raise),
    ] {
        assert_eq!(error.why(), why);
        assert!(error.to_string().contains(says), "{error}");
    }
    let joined = Reason::joined(&["a".into(), login(), Reason::new(Why::NoTls, "b")]);
    assert_eq!((joined.to_string().as_str(), joined.why), ("a; no; b", Why::Login));
}

#[test]
fn an_identity_is_shown_with_its_history_and_role() {
    let (id, history, role) = (StoreId("s".into()), History("1".into()), Role("r 1".into()));
    let [alone, shard] = [Role::default(), role.clone()].map(|role| role.configured());
    assert_eq!([alone, shard], ["for this store alone", "for \"r 1\""]);
    let identity = Identity { id, history, role };
    assert_eq!(identity.to_string(), "s with history \"1\" and role \"r 1\"");
    assert_eq!(
        (identity.history.to_string(), HostId("h".into()).to_string()),
        ("1".into(), "h".into())
    );
}
