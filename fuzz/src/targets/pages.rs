//! The pages of shared runs: a run page of any content, and one that a daemon writes while others write the ticket page.

use std::collections::HashSet;

use leafd_wire::Run;
use leafd_wire::share::{Drawn, Published, RunPage, TICKETS_PER_ENTRY, TicketPage, VALID_MAX_NS};

use crate::input::Input;

pub(crate) fn run(input: &[u8]) {
    let mut input = Input::new(input);
    if input.u8().is_multiple_of(2) { any_content(input) } else { published(input) }
}

fn check(id: u64) {
    assert!(1 <= id && id <= i64::MAX as u64, "{id} is no id");
}

/// What a client makes of memory that a daemon gone wrong wrote.
fn any_content(mut input: Input<'_>) {
    let page = RunPage::default();
    let tickets = TicketPage::default();
    let now_ns = input.u64();
    tickets.overwrite(input.u64());
    let looked_at: [u64; 4] = std::array::from_fn(|_| input.u64());
    let bytes = input.bytes(size_of::<RunPage>());
    // SAFETY: the page is plain memory of at least so many bytes without padding, any bytes are values of its atomic
    // numbers, and nobody else uses it.
    unsafe {
        let start = (&raw const page).cast::<u8>().cast_mut();
        start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
    let _ = (page.is_known(), page.number(), page.published(), page.is_open(now_ns));
    for _ in 0..8 {
        if let Some(Ok(taken)) = page.draw(&tickets, now_ns) {
            check(taken.id);
        }
    }
    for ticket in looked_at {
        if let Drawn::Taken(taken) = page.find(ticket) {
            check(taken.id);
        }
    }
}

/// What clients draw while the daemon publishes and a process writes any cursor.
fn published(mut input: Input<'_>) {
    let (page, tickets) = (RunPage::default(), TicketPage::default());
    page.begin(input.u64());
    page.renew(VALID_MAX_NS);
    let (mut base, mut first) = (0, 1);
    // Of each entry, its base and ids.
    let mut entries: Vec<(u64, Run)> = Vec::new();
    let mut seen = HashSet::new();
    // Nobody draws a ticket twice unless somebody turns the cursor back.
    let (mut turned_back, mut highest) = (false, 0);
    while !input.is_empty() {
        match input.u8() % 4 {
            0 => {
                let count = 1 + u32::from(input.u16()) % TICKETS_PER_ENTRY as u32;
                let run = Run { first, count, stride: 1 + u32::from(input.u8()) };
                base += TICKETS_PER_ENTRY * u64::from(input.u8() % 3);
                let Some(last) = run.last() else { break };
                page.publish(Published { base, run });
                entries.push((base, run));
                first = last + 1 + u64::from(input.u8());
                base += TICKETS_PER_ENTRY;
            }
            1 => {
                let cursor = input.number().cast_unsigned();
                turned_back |= cursor < highest;
                tickets.overwrite(cursor);
            }
            _ => {
                let before = tickets.taken();
                let drawn = page.draw(&tickets, 1);
                highest = highest.max(tickets.taken());
                turned_back |= tickets.taken() < before;
                if let Some(Ok(taken)) = drawn {
                    let of = |(_, run): &&(u64, Run)| run.ids().any(|id| id == taken.id);
                    assert!(
                        entries.iter().any(|entry| of(&entry)),
                        "{} was never published",
                        taken.id
                    );
                    assert!(seen.insert(taken.id) || turned_back, "{} came twice", taken.id);
                }
            }
        }
    }
    page.retire();
    assert_eq!(page.draw(&tickets, 1), None);
}
