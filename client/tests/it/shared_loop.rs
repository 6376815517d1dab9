//! Shared runs that an event loop asks for by itself, from pages that the test publishes.

use leafd_client::{Client, Draw, Held, Place, Tag};
use leafd_wire::ShareReply;
use leafd_wire::share::TICKETS_PER_ENTRY;

use crate::checks::check_unique;
use crate::forks::in_child;
use crate::shared_pages::{Pages, boot_ns};

/// Answers SHARE with these pages.
fn give(pages: &Pages, tag: &Tag) {
    let body = ShareReply::Pages { page: pages.number }.body();
    tag.share(&body, Some(pages.descriptors()), boot_ns()).unwrap();
    assert_eq!(tag.shared_page(), pages.number);
}

/// Of a client that never connects.
fn tag(shared: bool) -> Tag {
    let client = Client::builder().socket("/nowhere/at/all").shared(shared).build().unwrap();
    client.tag("orders").unwrap()
}

fn id_of(draw: Draw) -> u64 {
    match draw {
        Draw::Id(Held { id, .. }) => id,
        other => panic!("{other:?} for an id"),
    }
}

#[test]
fn a_loop_draws_asks_and_draws_on() {
    let (pages, tag) = (Pages::new(7), tag(true));
    assert_eq!((tag.draw(), tag.shared_page()), (Draw::Ask, 0));
    pages.publish(100, 8);
    give(&pages, &tag);
    let (mut ids, mut refills) = (Vec::new(), 0);
    while let Draw::Id(held) = tag.draw() {
        ids.push(held.id);
        refills += usize::from(held.refill_due);
        assert!(ids.len() <= 8, "there are no more");
    }
    assert_eq!((ids.clone(), refills), ((100..108).collect(), 1));
    // Whoever waits has a turn before those who come later, however often the daemon is asked.
    let (mut first, mut second) = (Place::default(), Place::default());
    for _ in 0..2 {
        assert_eq!([&mut first, &mut second].map(|place| tag.draw_asked(place)), [Draw::Ask; 2]);
    }
    assert_eq!(pages.tickets.taken(), TICKETS_PER_ENTRY + 2, "a ticket each");
    assert_eq!(tag.draw(), Draw::Ask);
    assert_eq!(pages.tickets.taken(), TICKETS_PER_ENTRY + 2, "and none for who would lose it");
    pages.publish(200, 8);
    tag.share(&ShareReply::Same { page: 7 }.body(), None, boot_ns()).unwrap();
    ids.push(id_of(tag.draw()));
    ids.extend([id_of(tag.draw_asked(&mut second)), id_of(tag.draw_asked(&mut first))]);
    assert_eq!(ids[8..], [202, 201, 200]);
    assert_eq!((first, second), (Place::default(), Place::default()));
    check_unique(ids);
}

#[test]
fn a_ticket_is_good_for_its_own_pages_only() {
    let (old, new, tag) = (Pages::new(7), Pages::new(8), tag(true));
    old.publish(100, 1);
    give(&old, &tag);
    let mut ids = vec![id_of(tag.draw())];
    let mut place = Place::default();
    assert_eq!(tag.draw_asked(&mut place), Draw::Ask);
    // Another daemon's, of which others have drawn as many tickets.
    for first in [300, 10_000] {
        new.publish(first, 4_096);
    }
    give(&new, &tag);
    ids.extend((0..5_000).map(|_| id_of(tag.draw())));
    ids.push(id_of(tag.draw_asked(&mut place)));
    ids.push(id_of(tag.draw()));
    check_unique(ids);
}

#[test]
fn a_child_has_none_of_its_parents_tickets() {
    let (pages, tag) = (Pages::new(7), tag(true));
    pages.publish(100, 1);
    give(&pages, &tag);
    let mut ids = vec![id_of(tag.draw())];
    let mut place = Place::default();
    assert_eq!(tag.draw_asked(&mut place), Draw::Ask);
    pages.publish(200, 100);
    ids.extend(in_child(|| {
        assert_eq!(
            tag.draw_asked(&mut place.clone()),
            Draw::Ask,
            "the way to the pages is its own"
        );
        give(&pages, &tag);
        vec![id_of(tag.draw_asked(&mut place.clone())), id_of(tag.draw())]
    }));
    ids.push(id_of(tag.draw_asked(&mut place)));
    assert_eq!(check_unique(ids), 4);
}

#[test]
fn what_is_not_shared_is_drawn_as_without() {
    let tag = tag(true);
    let again_ms = 60_000;
    tag.share(&ShareReply::NotShared { again_ms: 0 }.body(), None, boot_ns()).unwrap();
    assert_eq!(tag.draw(), Draw::Ask, "it could not be told");
    tag.share(&ShareReply::NotShared { again_ms }.body(), None, boot_ns()).unwrap();
    assert_eq!((tag.draw(), tag.draw_asked(&mut Place::default())), (Draw::Nothing, Draw::Nothing));
    // Pages by another clock than this process's.
    let (pages, other) = (Pages::new(7), self::tag(true));
    pages.run.renew(boot_ns() + 3_600_000_000_000);
    let body = ShareReply::Pages { page: 7 }.body();
    other.share(&body, Some(pages.descriptors()), boot_ns()).unwrap();
    assert_eq!(other.draw(), Draw::Nothing);
    // Nor does a client share that was not made to.
    let (pages, without) = (Pages::new(8), self::tag(false));
    pages.publish(100, 8);
    let body = ShareReply::Pages { page: 8 }.body();
    without.share(&body, Some(pages.descriptors()), boot_ns()).unwrap();
    assert_eq!((without.draw(), without.shared_page()), (Draw::Nothing, 0));
    assert_eq!(pages.tickets.taken(), 0);
}

#[test]
fn pages_that_are_revoked_give_no_id() {
    let (pages, tag) = (Pages::new(7), tag(true));
    pages.publish(100, 1);
    give(&pages, &tag);
    let drawn = id_of(tag.draw());
    let mut place = Place::default();
    assert_eq!(tag.draw_asked(&mut place), Draw::Ask);
    pages.publish(200, 8);
    pages.run.retire();
    assert_eq!((tag.draw(), tag.draw_asked(&mut place)), (Draw::Ask, Draw::Ask));
    check_unique(vec![drawn]);
}
