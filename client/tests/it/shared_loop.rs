//! Shared runs that an event loop asks for by itself, from pages that the test publishes.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::ptr;

use leafd_client::{Client, Draw, Held, Place, Run, Tag};
use leafd_wire::ShareReply;
use leafd_wire::share::{DESCRIPTORS, Published, RunPage, TICKETS_PER_ENTRY, TicketPage};

use crate::checks::check_unique;
use crate::forks::in_child;

const PAGE_BYTES: usize = 4_096;

/// What the daemon would have of a shared run.
struct Pages {
    run_file: File,
    ticket_file: File,
    run: &'static RunPage,
    tickets: &'static TicketPage,
    number: u64,
}

impl Pages {
    fn new(number: u64) -> Pages {
        let (run_file, run) = memory();
        let (ticket_file, tickets) = memory();
        // SAFETY: both are mapped for good, zeroed, and large enough; others change them through atomics.
        let (run, tickets) = unsafe { (&*run.cast::<RunPage>(), &*tickets.cast::<TicketPage>()) };
        run.begin(number);
        run.renew(boot_ns() + 900_000_000);
        Pages { run_file, ticket_file, run, tickets, number }
    }

    fn publish(&self, first: u64, count: u32) {
        self.run.renew(boot_ns() + 900_000_000);
        self.run.publish(Published {
            base: self.run.published(),
            run: Run { first, count, stride: 1 },
        });
    }

    fn descriptors(&self) -> [BorrowedFd<'_>; DESCRIPTORS] {
        [self.run_file.as_fd(), self.ticket_file.as_fd()]
    }

    /// Answers SHARE with these pages.
    fn give(&self, tag: &Tag) {
        let body = ShareReply::Pages { page: self.number }.body();
        tag.share(&body, Some(self.descriptors()), boot_ns()).unwrap();
        assert_eq!(tag.shared_page(), self.number);
    }
}

fn memory() -> (File, *mut libc::c_void) {
    // SAFETY: the name ends with a zero; the descriptor is new; a new mapping touches no memory that is in use.
    unsafe {
        let descriptor = libc::memfd_create(c"pages".as_ptr(), libc::MFD_ALLOW_SEALING);
        assert!(descriptor >= 0);
        let file = File::from_raw_fd(descriptor);
        file.set_len(PAGE_BYTES as u64).unwrap();
        assert_eq!(libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK), 0);
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let place = libc::mmap(ptr::null_mut(), PAGE_BYTES, both, libc::MAP_SHARED, descriptor, 0);
        assert_ne!(place, libc::MAP_FAILED);
        (file, place)
    }
}

fn boot_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is valid for writes.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) }, 0);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
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
    pages.give(&tag);
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
    old.give(&tag);
    let mut ids = vec![id_of(tag.draw())];
    let mut place = Place::default();
    assert_eq!(tag.draw_asked(&mut place), Draw::Ask);
    // Another daemon's, of which others have drawn as many tickets.
    for first in [300, 10_000] {
        new.publish(first, 4_096);
    }
    new.give(&tag);
    ids.extend((0..5_000).map(|_| id_of(tag.draw())));
    ids.push(id_of(tag.draw_asked(&mut place)));
    ids.push(id_of(tag.draw()));
    check_unique(ids);
}

#[test]
fn a_child_has_none_of_its_parents_tickets() {
    let (pages, tag) = (Pages::new(7), tag(true));
    pages.publish(100, 1);
    pages.give(&tag);
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
        pages.give(&tag);
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
    pages.give(&tag);
    let drawn = id_of(tag.draw());
    let mut place = Place::default();
    assert_eq!(tag.draw_asked(&mut place), Draw::Ask);
    pages.publish(200, 8);
    pages.run.retire();
    assert_eq!((tag.draw(), tag.draw_asked(&mut place)), (Draw::Ask, Draw::Ask));
    check_unique(vec![drawn]);
}
