//! A process that is stopped at any instruction of a draw, while others draw all that the pages have room for and more is
//! written over what it was reading. When it goes on it has an id that nobody else has, or none.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use leafd_wire::Status;
use leafd_wire::share::{ENTRIES, TICKETS_PER_ENTRY};

use super::pages::{Pages, ask, boot_ns, map_bytes, reply, share};
use super::sharing;
use crate::raw::Raw;
use crate::seed::seeds;

/// How often a draw is stopped.
const STOPS: usize = 40;

/// Tickets after which every entry has been written over.
const RING: u64 = ENTRIES as u64 * TICKETS_PER_ENTRY;

/// A draw that took this many instructions hangs.
const STEPS_MAX: u64 = 1_000_000;

/// A process that draws one id at a time, traced by the thread that started it.
struct Traced {
    pid: libc::pid_t,
    /// The id that it has drawn last, 0 for none.
    drawn: &'static AtomicU64,
}

impl Traced {
    fn start(pages: &Pages) -> Traced {
        let file = nix::sys::memfd::memfd_create("drawn", nix::sys::memfd::MFdFlags::empty());
        let file = file.unwrap();
        nix::unistd::ftruncate(&file, 4_096).unwrap();
        let place = map_bytes(&file, 4_096, libc::PROT_READ | libc::PROT_WRITE).unwrap();
        // SAFETY: it is never unmapped, and any bits are a number.
        let drawn: &'static AtomicU64 = unsafe { &*place.cast_const().cast() };
        // SAFETY: the child makes system calls and touches memory that is mapped, nothing else.
        match unsafe { libc::fork() } {
            -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
            0 => loop {
                // SAFETY: only this process is concerned. It dies with the thread that traces it.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                    libc::raise(libc::SIGSTOP);
                }
                let id = match pages.run.draw(pages.tickets, boot_ns()) {
                    Some(Ok(taken)) => taken.id,
                    _ => 0,
                };
                drawn.store(id, Ordering::SeqCst);
                // SAFETY: as above.
                unsafe { libc::raise(libc::SIGSTOP) };
            },
            pid => {
                let traced = Traced { pid, drawn };
                assert_eq!(traced.stopped_by(), libc::SIGSTOP);
                traced
            }
        }
    }

    fn stopped_by(&self) -> i32 {
        let mut status = 0;
        // SAFETY: the child is this process's own, and the address is a local's.
        let waited = unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        assert!(waited == self.pid && libc::WIFSTOPPED(status), "it has ended: {status:#x}");
        libc::WSTOPSIG(status)
    }

    /// Goes on by one instruction, or until it stops itself. True: it has stopped itself.
    fn go_on(&self, request: libc::c_uint) -> bool {
        // SAFETY: the child is traced by this thread, and stopped.
        let outcome = unsafe { libc::ptrace(request, self.pid, 0, 0) };
        assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
        self.stopped_by() == libc::SIGSTOP
    }

    /// The id of the draw that is under way; then it is about to begin the next one.
    fn finish(&self) -> u64 {
        assert!(self.go_on(libc::PTRACE_CONT));
        self.begin_next()
    }

    fn begin_next(&self) -> u64 {
        let id = self.drawn.load(Ordering::SeqCst);
        assert!(self.go_on(libc::PTRACE_CONT));
        id
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // SAFETY: the child is this process's own.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Draws until every entry has been written over, and notes which ids that gave.
fn overtake(raw: &mut Raw, pages: &Pages, others: &mut HashSet<u64>) {
    let until = pages.tickets.taken() + RING + TICKETS_PER_ENTRY;
    while pages.tickets.taken() < until {
        match pages.draw() {
            Some(id) => assert!(others.insert(id), "{id} comes twice"),
            None => refill(raw, pages),
        }
    }
}

fn refill(raw: &mut Raw, pages: &Pages) {
    ask(raw, "orders", pages.number, 20_000);
    let (answer, came) = reply(raw);
    assert_eq!(answer.status(), Status::Ok, "{}", answer.text());
    assert!(came.is_empty(), "the run goes on");
}

#[test]
fn whoever_is_stopped_at_any_instruction_of_a_draw_gets_no_others_id() {
    let mut host = sharing();
    host.start();
    host.create("orders");
    let mut raw = host.raw();
    let pages = share(&mut raw, "orders");
    let mut others = HashSet::new();
    overtake(&mut raw, &pages, &mut others);
    refill(&mut raw, &pages);
    let traced = Traced::start(&pages);

    // After how many instructions it takes its ticket, and after how many it has its id.
    let (before, mut ticket_at, mut steps) = (pages.tickets.taken(), 0, 0_u64);
    while !traced.go_on(libc::PTRACE_SINGLESTEP) {
        steps += 1;
        assert!(steps < STEPS_MAX, "a draw does not end");
        if ticket_at == 0 && pages.tickets.taken() > before {
            ticket_at = steps;
        }
    }
    let mut stopped = vec![traced.begin_next()];
    assert!(ticket_at > 0 && steps > ticket_at, "{ticket_at} of {steps} instructions");

    let mut missed = 0;
    for mut random in seeds(1) {
        for _ in 0..STOPS {
            match pages.draw() {
                Some(id) => assert!(others.insert(id), "{id} comes twice"),
                None => refill(&mut raw, &pages),
            }
            // From a little before it has its ticket. Not every draw takes as many instructions.
            let stop_at = random.u64(ticket_at.saturating_sub(20)..steps);
            if (0..stop_at).any(|_| traced.go_on(libc::PTRACE_SINGLESTEP)) {
                missed += 1;
                stopped.push(traced.begin_next());
                continue;
            }
            overtake(&mut raw, &pages, &mut others);
            stopped.push(traced.finish());
        }
    }
    assert!(missed < STOPS / 2, "{missed} draws had ended before they were stopped");
    let ids: Vec<u64> = stopped.into_iter().filter(|id| *id > 0).collect();
    for id in &ids {
        assert!(others.insert(*id), "{id} comes twice");
    }
    println!("{} of {} draws that were stopped brought an id", ids.len() - 1, STOPS);
}
