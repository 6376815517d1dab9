//! Pages drawn from by one thread: what tickets stand for, when a page is open, and what is where.

use super::*;

const STEP: u64 = TICKETS_PER_ENTRY;

fn pages() -> (RunPage, TicketPage) {
    let page = RunPage::default();
    page.begin(7);
    page.renew(VALID_MAX_NS);
    (page, TicketPage::default())
}

fn publish(page: &RunPage, base: u64, first: u64, count: u32) {
    page.publish(Published { base, run: Run { first, count, stride: 1 } });
}

fn ids(page: &RunPage, tickets: &TicketPage) -> Vec<u64> {
    let draw = || page.draw(tickets, 1)?.ok();
    std::iter::from_fn(draw).map(|taken| taken.id).collect()
}

#[test]
fn a_page_of_zeros_gives_nothing() {
    let (page, tickets) = (RunPage::default(), TicketPage::default());
    assert!(!page.is_known() && !page.is_open(0));
    assert_eq!(page.draw(&tickets, 0), None);
    assert_eq!(tickets.taken(), 0, "nothing is lost by looking");
    assert_eq!(page.find(0), Drawn::Lost);
}

#[test]
fn entries_are_drawn_in_their_order_and_no_further() {
    let (page, tickets) = pages();
    assert!(page.is_known() && page.number() == 7);
    publish(&page, 0, 100, 3);
    page.publish(Published { base: STEP, run: Run { first: 200, count: 2, stride: 7 } });
    assert_eq!(ids(&page, &tickets), [100, 101, 102, 200, 207]);
    let Some(Err(ticket)) = page.draw(&tickets, 1) else { panic!("a ticket waits") };
    publish(&page, 2 * STEP, 300, 10);
    assert!(ticket > 2 * STEP && ticket < 3 * STEP, "{ticket}");
    let Drawn::Taken(taken) = page.find(ticket) else { panic!("it is published") };
    assert_eq!(taken.id, 300 + ticket - 2 * STEP);
}

#[test]
fn more_is_due_once_an_entry() {
    for count in [1, 2, 3, 64, STEP as u32] {
        let (page, tickets) = pages();
        publish(&page, 0, 1, count);
        let draw = || page.draw(&tickets, 1).unwrap().unwrap();
        let due: Vec<u64> =
            (0..count).map(|_| draw()).filter(|it| it.refill_due).map(|it| it.id).collect();
        assert_eq!(due, [u64::from(count / 2) + 1], "of {count}");
    }
}

#[test]
fn a_ticket_whose_entry_was_written_over_is_lost() {
    let (page, tickets) = pages();
    publish(&page, 0, 1, 1);
    let late = tickets.take();
    for turn in 1..=ENTRIES as u64 {
        publish(&page, turn * STEP, 1_000 * turn, 1);
    }
    assert_eq!(page.find(late), Drawn::Lost);
    assert_eq!(ids(&page, &tickets)[..2], [1_000, 2_000]);
}

#[test]
fn bases_that_are_passed_over_are_lost() {
    let (page, tickets) = pages();
    publish(&page, 5 * STEP, 50, 1);
    assert_eq!(page.find(0), Drawn::Lost);
    assert_eq!(ids(&page, &tickets), [50]);
}

#[test]
fn nothing_is_drawn_when_the_time_is_over_or_the_clock_is_another() {
    let (page, tickets) = pages();
    publish(&page, 0, 1, 100);
    page.renew(5_000_000_000);
    for (now_ns, open) in [
        (4_999_999_999, true),
        (3_900_000_000, true),
        (5_000_000_000, false),
        (5_000_000_001, false),
        (3_899_999_999, false),
        (0, false),
        (u64::MAX, false),
    ] {
        assert_eq!(page.draw(&tickets, now_ns).is_some(), open, "at {now_ns}");
    }
    assert_eq!(tickets.taken(), 2, "a draw in vain takes no ticket");
}

#[test]
fn a_daemon_with_another_clock_is_told_from_one_that_answers_late() {
    let (page, _) = pages();
    page.renew(5_000_000_000);
    for (asked_ns, now_ns, another) in [
        (4_100_000_000, 4_100_000_000, false),
        // Who asked was stopped before it looked.
        (4_100_000_000, 60_000_000_000, false),
        (5_100_000_000, 5_100_000_000, false),
        (5_100_000_001, 5_100_000_001, true),
        (3_899_999_999, 3_899_999_999, true),
        (3_899_999_999, 3_900_000_000, false),
        (u64::MAX, u64::MAX, true),
    ] {
        assert_eq!(page.is_of_another_clock(asked_ns, now_ns), another, "{asked_ns} {now_ns}");
    }
    page.retire();
    assert!(!page.is_of_another_clock(60_000_000_000, 60_000_000_000));
}

#[test]
fn nothing_is_drawn_from_a_retired_page() {
    let (page, tickets) = pages();
    publish(&page, 0, 1, 100);
    assert!(page.draw(&tickets, 1).is_some());
    page.retire();
    page.renew(VALID_MAX_NS);
    assert_eq!(page.draw(&tickets, 1), None);
}

#[test]
fn a_cursor_that_somebody_wrote_hangs_nobody() {
    let (page, tickets) = pages();
    for turn in 0..100 {
        publish(&page, turn * STEP, 1 + turn * STEP, STEP as u32);
    }
    for cursor in [0, 1, 98 * STEP, u64::MAX, u64::MAX - STEP, 1 << 63] {
        tickets.overwrite(cursor);
        for _ in 0..200 {
            if let Some(Ok(taken)) = page.draw(&tickets, 1) {
                assert!((1..=100 * STEP).contains(&taken.id), "{cursor}: {taken:?}");
            }
        }
    }
}

#[test]
fn ids_up_to_the_largest_positive_number_can_be_drawn() {
    let (page, tickets) = pages();
    let last = i64::MAX as u64;
    publish(&page, 0, last - 1, 2);
    assert_eq!(ids(&page, &tickets), [last - 1, last]);
}

#[test]
fn no_content_of_a_page_makes_an_id_that_is_none() {
    let (page, _) = pages();
    publish(&page, 0, 1, 3);
    let entry = &page.ring[0];
    let last = i64::MAX as u64;
    for (first, stride, ids_found) in [
        (0, 0, vec![]),
        (0, 1, vec![1, 2]),
        (last, 1, vec![last]),
        (last + 1, 1, vec![]),
        (u64::MAX, 1, vec![]),
        (u64::MAX - 1, u32::MAX, vec![]),
    ] {
        entry.first.store(first, Ordering::Relaxed);
        entry.shape.store(u64::from(stride) << 32 | 3, Ordering::Relaxed);
        let found: Vec<u64> = (0..3)
            .filter_map(|ticket| match page.find(ticket) {
                Drawn::Taken(taken) => Some(taken.id),
                Drawn::Unpublished | Drawn::Lost => None,
            })
            .collect();
        assert_eq!(found, ids_found, "{first} by {stride}");
    }
}

#[test]
fn the_layout_is_as_described() {
    let (page, _) = pages();
    publish(&page, 0, 0x0102_0304, 5);
    page.publish(Published { base: STEP, run: Run { first: 9, count: 6, stride: 3 } });
    page.renew(0x0a0b_0c0d);
    // SAFETY: the page is plain memory of this size without padding.
    let bytes =
        unsafe { std::slice::from_raw_parts((&raw const page).cast::<u8>(), size_of::<RunPage>()) };
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(&bytes[..8], b"leafdrun");
    assert_eq!([half(8), half(12), half(16), half(20)], [1, 4_096, 32, 1]);
    assert_eq!([word(24), word(32), word(40)], [7, 2 * STEP, 0x0a0b_0c0d]);
    assert!(bytes[48..128].iter().all(|byte| *byte == 0));
    assert_eq!([word(128), word(136), word(152)], [0, 0x0102_0304, 0]);
    assert_eq!([word(160), word(168), word(176)], [STEP, 9, 3 << 32 | 6]);
    assert_eq!(word(192), u64::MAX);
}

/// The reader looks at what is written over next. (loom tries every order, of two entries.)
#[test]
fn an_entry_that_is_written_over_while_it_is_read_gives_no_others_id() {
    let (page, _) = pages();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (page, stop) = (&page, &stop);
        scope.spawn(move || {
            // Of each ticket the id is one more.
            for base in (0..).step_by(STEP as usize) {
                publish(page, base, base + 1, STEP as u32);
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut found = 0;
        while found < 200_000 {
            let oldest = page.published().saturating_sub(ENTRIES as u64 * STEP);
            for ahead in 0..3 {
                let ticket = oldest + ahead * STEP + found % STEP;
                if let Drawn::Taken(taken) = page.find(ticket) {
                    assert_eq!(taken.id, ticket + 1);
                    found += 1;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
