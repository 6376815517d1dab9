//! The run page of `protocol-vectors.json`, held against the code that draws from such pages.
#![cfg(target_endian = "little")]

use leafd_wire::share::{Drawn, RunPage};

use super::file::{Open, Sharing, Ticket, exactly, vectors};

/// A page's memory, with the page's alignment.
#[repr(C, align(128))]
struct Memory([u8; size_of::<RunPage>()]);

#[test]
fn tickets_stand_for_what_the_file_says() {
    let Sharing { run_page, page: number, open, tickets } = vectors().shared;
    let mut memory = Memory([0; size_of::<RunPage>()]);
    for base in memory.0[128..].chunks_mut(32) {
        base[..8].fill(0xff);
    }
    let given = exactly(&run_page);
    memory.0[..given.len()].copy_from_slice(&given);
    // SAFETY: the memory is large and aligned enough, and the page's fields are atomic numbers, which take any bits.
    let page = unsafe { &*(&raw mut memory).cast::<RunPage>() };
    assert!(page.is_known());
    assert_eq!(page.number(), number);
    for Open { now_ns, open } in open {
        assert_eq!(page.is_open(now_ns), open, "at {now_ns}");
    }
    assert!(tickets.len() >= 10, "{tickets:?}");
    for Ticket { ticket, id } in tickets {
        let found = match page.find(ticket) {
            Drawn::Taken(taken) => Some(taken.id),
            Drawn::Unpublished | Drawn::Lost => None,
        };
        assert_eq!(found, id, "ticket {ticket}");
    }
}
