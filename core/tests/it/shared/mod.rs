//! Shared runs: what a daemon publishes, and until when.
//!
//! - `model`: whole lives of daemons and processes.

mod model;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use leafd_core::shared::{AFTER_CRASH_MS, Publisher, RENEW_MS, Tampered, VALID_MS, valid_until_ns};
use leafd_core::{BootMs, Run};
use leafd_wire::share::{ENTRIES, RunPage, TICKETS_PER_ENTRY, TicketPage};

use crate::seed::{Seeded, seeds};

const STEP: u64 = TICKETS_PER_ENTRY;
const NOW: BootMs = BootMs(10_000);
const NO_END: BootMs = BootMs(u64::MAX);

fn run(first: u64, count: u32) -> Run {
    Run { first, count, stride: 1 }
}

#[test]
fn little_is_published_at_first_and_more_the_faster_it_is_drawn() {
    let mut publisher = Publisher::default();
    assert_eq!(publisher.wanted(0), Ok(32));
    let (mut cursor, mut now, mut largest) = (0, NOW, 0);
    for _ in 0..40 {
        let wanted = publisher.wanted(cursor).unwrap();
        if wanted > 0 {
            publisher.place(&[run(1, wanted)], cursor, now);
        }
        largest = largest.max(wanted);
        cursor += STEP;
        now.0 += 10;
    }
    assert!(u64::from(largest) > 4 * STEP, "{largest}");
    let mut least = largest;
    for _ in 0..40 {
        let wanted = publisher.wanted(cursor).unwrap();
        if wanted > 0 {
            publisher.place(&[run(1, wanted)], cursor, now);
            least = least.min(wanted);
        }
        cursor += STEP;
        now.0 += 5_000;
    }
    assert_eq!(least, 32);
}

#[test]
fn what_is_published_keeps_clear_of_what_may_be_read() {
    let mut publisher = Publisher::default();
    let entries = publisher.place(&[run(1, 1_000_000)], 0, NOW);
    assert_eq!(entries.len(), ENTRIES / 2);
    assert_eq!(publisher.wanted(0), Ok(0));
    assert!(publisher.has_ids(0) && !publisher.has_ids(entries.len() as u64 * STEP));
}

#[test]
fn an_entry_with_fewer_ids_than_tickets_ends_with_its_ids() {
    let mut publisher = Publisher::default();
    let entries = publisher.place(&[run(1, 3), run(50, 2)], 0, NOW);
    assert_eq!(entries.iter().map(|entry| entry.base).collect::<Vec<_>>(), [0, STEP]);
    for (cursor, has) in [(0, true), (3, true), (STEP, true), (STEP + 1, true), (STEP + 2, false)] {
        assert_eq!(publisher.has_ids(cursor), has, "{cursor}");
    }
}

#[test]
fn tickets_taken_in_vain_take_no_ids() {
    let mut publisher = Publisher::default();
    publisher.place(&[run(1, 32)], 0, NOW);
    let far = 1_000 * STEP + 5;
    assert!(publisher.wanted(far).unwrap() > 0);
    let entries = publisher.place(&[run(33, 32)], far, NOW);
    assert_eq!(entries[0].base, 1_000 * STEP);
    assert!(publisher.has_ids(far));
}

#[test]
fn what_is_drawn_is_counted_by_ids_and_not_by_tickets() {
    let mut publisher = Publisher::default();
    assert_eq!(publisher.drawn(5), 0, "nothing is published");
    publisher.place(&[run(1, 3), run(50, 2)], 0, NOW);
    for (cursor, drawn) in [(0, 0), (2, 2), (900, 3), (STEP + 1, 4), (STEP, 4), (9 * STEP, 5)] {
        assert_eq!(publisher.drawn(cursor), drawn, "{cursor}");
    }
    publisher.place(&[run(60, 8)], 9 * STEP, NOW);
    assert_eq!([publisher.drawn(0), publisher.drawn(u64::MAX)], [5, 13]);
}

#[test]
fn a_cursor_that_goes_back_ends_the_page() {
    let mut publisher = Publisher::default();
    assert!(publisher.wanted(10).is_ok() && publisher.wanted(10).is_ok());
    assert_eq!(publisher.wanted(9), Err(Tampered));
    assert_eq!(Publisher::default().wanted(u64::MAX), Err(Tampered));
}

#[test]
fn a_page_is_valid_for_a_second_and_never_beyond_the_ids_own_end() {
    let ns = |ms: u64| ms * 1_000_000;
    assert_eq!(valid_until_ns(NOW, NO_END), ns(NOW.0 + VALID_MS));
    assert_eq!(valid_until_ns(NOW, BootMs(NOW.0 + 300)), ns(NOW.0 + 250));
    assert_eq!(valid_until_ns(NOW, BootMs(0)), 0);
    const { assert!(RENEW_MS * 3 < VALID_MS && AFTER_CRASH_MS > VALID_MS) };
}

type Pages = Rc<(RunPage, TicketPage)>;

/// One user's process writes its own ticket page at random. Its user may get ids twice, but only ids that were published
/// for it; another user's are as if nothing had happened.
#[test]
fn whoever_writes_the_ticket_page_harms_its_own_user_alone() {
    for mut random in seeds(20) {
        let mut next = 1;
        let mut users = [(Pages::default(), Publisher::default()), Default::default()];
        users.iter().for_each(|(pages, _)| pages.0.begin(1));
        let mut published: [HashSet<u64>; 2] = Default::default();
        let mut drawn: [HashMap<u64, u32>; 2] = Default::default();
        for _ in 0..20_000 {
            let index = random.usize(0..2);
            let (pages, publisher) = &mut users[index];
            if index == 0 && random.u32(0..20) == 0 {
                *pages = with_cursor(pages, &mut random);
            }
            pages.0.renew(valid_until_ns(NOW, NO_END));
            match pages.0.draw(&pages.1, NOW.0 * 1_000_000) {
                Some(Ok(taken)) => *drawn[index].entry(taken.id).or_default() += 1,
                _ => match publisher.wanted(pages.1.taken()) {
                    Err(Tampered) => {
                        pages.0.retire();
                        *pages = Pages::default();
                        pages.0.begin(2);
                        *publisher = Publisher::default();
                    }
                    Ok(wanted) => {
                        let issued = run(next, wanted.clamp(1, 5));
                        next = issued.end();
                        published[index].extend(issued.ids());
                        for entry in publisher.place(&[issued], pages.1.taken(), NOW) {
                            pages.0.publish(entry);
                        }
                    }
                },
            }
        }
        assert!(drawn[0].keys().all(|id| published[0].contains(id)));
        assert!(drawn[1].keys().all(|id| published[1].contains(id)));
        assert!(drawn[1].values().all(|times| *times == 1), "the other user's ids are unique");
        assert!(drawn[1].len() > 1_000, "{}", drawn[1].len());
    }
}

/// The pages, with whatever a process of the user wrote as their cursor.
fn with_cursor(pages: &Pages, random: &mut Seeded) -> Pages {
    let cursor = match random.u32(0..4) {
        0 => random.u64(..),
        1 => pages.1.taken().saturating_sub(random.u64(0..10_000)),
        2 => pages.1.taken() + random.u64(0..10_000),
        _ => 0,
    };
    pages.1.overwrite(cursor);
    Rc::clone(pages)
}
