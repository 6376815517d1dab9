//! Tests runs that an event loop fetches itself, and that the client holds.

use leafd_client::{Client, Error, Run, Tag};

use crate::checks::check_unique;

const HOLD_MS: u32 = 60_000;

/// A tag of a client that never connects.
fn tag(direct: bool) -> Tag {
    let client = Client::builder().socket("/nowhere/at/all").direct(direct).build().unwrap();
    client.tag("orders").unwrap()
}

/// Encodes the body of a reply.
fn body(hold_ms: u32, runs: &[Run]) -> Vec<u8> {
    let mut body = hold_ms.to_le_bytes().to_vec();
    body.extend((runs.len() as u16).to_le_bytes());
    body.extend([0; 2]);
    for run in runs {
        body.extend(run.first.to_le_bytes());
        body.extend(run.count.to_le_bytes());
        body.extend(run.stride.to_le_bytes());
    }
    body
}

fn run(first: u64, count: u32, stride: u32) -> Run {
    Run { first, count, stride }
}

/// Takes all held ids. Returns them, and how many refills became due.
fn drained(tag: &Tag) -> (Vec<u64>, usize) {
    let (mut ids, mut refills) = (Vec::new(), 0);
    while let Some(id) = tag.advance() {
        ids.push(id);
        while let Some(held) = tag.take_for_loop() {
            ids.push(held.id);
            refills += usize::from(held.refill_due);
        }
    }
    (ids, refills)
}

#[test]
fn runs_are_taken_one_after_another() {
    let tag = tag(false);
    assert_eq!((tag.take_for_loop(), tag.advance()), (None, None));
    let first = body(HOLD_MS, &[run(10, 8, 1), run(100, 4, 7)]);
    assert_eq!(tag.hold(&first, 12, u64::MAX).unwrap(), None);
    // A run that arrives before the end of the held one is queued behind it.
    let (held, next) = (tag.advance(), body(HOLD_MS, &[run(200, 8, 1)]));
    assert_eq!(held, Some(10));
    assert_eq!(tag.hold(&next, 8, u64::MAX).unwrap(), None);
    let (mut ids, refills) = drained(&tag);
    ids.insert(0, 10);
    let expected = (10..18).chain((0..4).map(|step| 100 + 7 * step)).chain(200..208);
    assert_eq!(ids, expected.collect::<Vec<_>>());
    assert_eq!(check_unique(ids), 20);
    assert_eq!(refills, 3);
    assert!(tag.wish(1) >= 1);
    assert!(tag.wish(500) >= 500);
}

#[test]
fn ids_that_may_not_be_held_go_to_the_one_who_asked() {
    let tag = tag(false);
    assert_eq!(tag.hold(&body(0, &[run(5, 1, 1)]), 8, u64::MAX).unwrap(), Some(5));
    assert_eq!((tag.take_for_loop(), tag.advance(), tag.wish(100)), (None, None, 1));
    // A tag that holds no runs doesn't hold them either.
    let direct = self::tag(true);
    assert_eq!(direct.hold(&body(HOLD_MS, &[run(5, 8, 1)]), 8, u64::MAX).unwrap(), Some(5));
    assert_eq!((direct.take_for_loop(), direct.advance()), (None, None));
}

#[test]
fn of_a_reply_too_late_to_be_held_one_id_goes_to_the_one_who_asked() {
    let tag = tag(false);
    // These ids were requested when the machine started.
    assert_eq!(tag.hold(&body(1, &[run(5, 8, 1), run(50, 1, 1)]), 9, 0).unwrap(), Some(5));
    assert_eq!((tag.take_for_loop(), tag.advance()), (None, None));
    // The next ids may be held.
    assert!(tag.wish(2) >= 2);
    assert_eq!(tag.hold(&body(HOLD_MS, &[run(60, 8, 1)]), 8, u64::MAX).unwrap(), None);
    assert_eq!(tag.advance(), Some(60));
}

#[test]
fn a_body_that_is_no_answer_is_refused() {
    let tag = tag(false);
    for (body, asked) in [
        (Vec::new(), 8),
        (body(HOLD_MS, &[]), 8),
        (body(HOLD_MS, &[run(0, 1, 1)]), 8),
        (body(HOLD_MS, &[run(5, 9, 1)]), 8),
        (body(HOLD_MS, &[run(i64::MAX as u64, 2, 1)]), 8),
        (body(HOLD_MS, &[run(5, 8, 1)])[..20].to_vec(), 8),
    ] {
        let error = tag.hold(&body, asked, u64::MAX).unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
    }
    assert_eq!(tag.advance(), None);
}
