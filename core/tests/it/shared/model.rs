//! A model of a shared run over whole lives: processes draw, stop anywhere in a draw, sleep, and die, with answers that take
//! time; daemons publish, revoke, learn that their ids end, stop and are killed. Then the same with each promise broken.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use leafd_core::shared::{AFTER_CRASH_MS, Publisher, Tampered, valid_until_ns};
use leafd_core::{BootMs, Run};
use leafd_wire::share::{Drawn, RunPage, TicketPage};

use super::{NO_END, run};
use crate::seed::{Seeded, seeds};

/// What keeps ids unique, in order and where they may be drawn, and is left out to see whether the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// Ids are published that the journal has not recorded.
    MarkNotDurable,
    /// A daemon publishes at once after a crash.
    NoWaitAfterCrash,
    /// A page is replaced and not retired.
    NotRetired,
    /// The cursor of a page starts over.
    CursorReset,
    /// Processes don't see that a page was retired.
    EndUnseen,
    /// Processes don't see that a page is over.
    TimeUnseen,
    /// Processes go by a clock that stands still while they sleep.
    ClockStopsInSleep,
    /// Pages are renewed beyond the end of their ids.
    OwnEndOverlooked,
}

/// What the model found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Twice,
    OutOfOrder,
    /// By a draw that began after the page was revoked.
    Revoked,
    /// By a draw that began when another host may have had the id.
    BeyondItsEnd,
}

/// A page, and when it was revoked by the count of events.
#[derive(Default)]
struct Page {
    run: RunPage,
    tickets: TicketPage,
    revoked_at: Cell<Option<u64>>,
    /// From then on nothing may be drawn, as the daemon knew when it last renewed the page, in milliseconds.
    own_until: Cell<u64>,
}

struct Daemon {
    /// Ids below may have been issued, as the journal has it.
    mark: u64,
    next: u64,
    page: Option<(Rc<Page>, Publisher)>,
    /// It publishes nothing before.
    opens: u64,
    numbers: u64,
    /// No id may be drawn from then on.
    own_until: BootMs,
}

/// Where a process is in its draw.
enum Step {
    Idle,
    /// The daemon has answered; the answer comes then.
    Answered(Option<Rc<Page>>, u64),
    /// It has found the page open.
    Open(Rc<Page>),
    Ticket(Rc<Page>, u64),
    /// It has an id, and no more to check.
    Found(Rc<Page>, u64),
}

struct Process {
    page: Option<Rc<Page>>,
    step: Step,
    /// The largest id that anybody had when its draw began.
    above: u64,
    /// When that was, by the count of events.
    began: u64,
    /// Then no id might be drawn any more.
    too_late: bool,
    /// It is stopped until then.
    frozen_until: u64,
    /// How far its clock is behind.
    behind_ms: u64,
}

struct World {
    daemon: Daemon,
    processes: Vec<Process>,
    now_ms: u64,
    events: u64,
    drawn: HashSet<u64>,
    largest: u64,
    broken: Broken,
}

impl Daemon {
    fn issue(&mut self, wanted: u32, now_ms: u64, broken: Broken) -> Vec<Run> {
        let durable = if broken == Broken::MarkNotDurable { u64::MAX } else { self.mark };
        let may = now_ms < self.own_until.0;
        let count = u64::from(if may { wanted } else { 0 }).min(durable - self.next) as u32;
        let runs = (count > 0).then(|| run(self.next, count));
        self.next += u64::from(count);
        runs.into_iter().collect()
    }

    fn retire(&mut self, at: u64) {
        if let Some((page, _)) = self.page.take() {
            page.run.retire();
            page.revoked_at.set(Some(at));
        }
    }

    fn renew(&self, page: &Page, now_ms: u64, broken: Broken) {
        page.own_until.set(self.own_until.0);
        let end = if broken == Broken::OwnEndOverlooked { NO_END } else { self.own_until };
        page.run.renew(valid_until_ns(BootMs(now_ms), end));
    }

    /// Answers SHARE.
    fn share(&mut self, now_ms: u64, at: u64, broken: Broken) -> Option<Rc<Page>> {
        if now_ms < self.opens {
            return None;
        }
        if self.page.is_none() {
            self.numbers += 1;
            let page = Rc::<Page>::default();
            page.run.begin(self.numbers);
            self.page = Some((page, Publisher::default()));
        }
        let (page, mut publisher) = self.page.clone()?;
        match publisher.wanted(page.tickets.taken()) {
            Err(Tampered) => {
                self.retire(at);
                return None;
            }
            Ok(wanted) => {
                let runs = self.issue(wanted, now_ms, broken);
                if !runs.is_empty() {
                    let entries = publisher.place(&runs, page.tickets.taken(), BootMs(now_ms));
                    entries.into_iter().for_each(|entry| page.run.publish(entry));
                }
                self.renew(&page, now_ms, broken);
            }
        }
        self.page = Some((Rc::clone(&page), publisher));
        Some(page)
    }
}

impl Process {
    fn new() -> Process {
        Process {
            page: None,
            step: Step::Idle,
            above: 0,
            began: 0,
            too_late: false,
            frozen_until: 0,
            behind_ms: 0,
        }
    }
}

impl World {
    fn new(processes: usize, broken: Broken) -> World {
        let daemon =
            Daemon { mark: 1, next: 1, page: None, opens: 0, numbers: 0, own_until: NO_END };
        World {
            daemon,
            processes: (0..processes).map(|_| Process::new()).collect(),
            now_ms: 5_000,
            events: 0,
            drawn: HashSet::new(),
            largest: 0,
            broken,
        }
    }

    fn daemon_acts(&mut self, random: &mut Seeded) {
        match random.u32(0..200) {
            0..40 => self.daemon.mark += random.u64(0..200),
            40..42 => {
                // Killed: what lies between use and mark is lost, the pages stay as they are.
                self.daemon.page = None;
                self.daemon.next = self.daemon.mark;
                let wait = self.broken != Broken::NoWaitAfterCrash;
                self.daemon.opens = self.now_ms + if wait { AFTER_CRASH_MS } else { 0 };
            }
            42..46 if self.broken == Broken::NotRetired => self.daemon.page = None,
            // Stopped, or access is withdrawn for a moment.
            42..46 => self.daemon.retire(self.events),
            46 if self.broken == Broken::CursorReset => {
                if let Some((page, publisher)) = &mut self.daemon.page {
                    let fresh = Rc::<Page>::default();
                    fresh.run.begin(page.run.number());
                    *publisher = Publisher::default();
                    *page = fresh;
                    self.daemon.next = self.daemon.next.saturating_sub(50).max(1);
                }
            }
            46..60 if self.daemon.page.is_some() => {
                self.daemon.share(self.now_ms, self.events, self.broken);
            }
            60..90 => self.now_ms += random.u64(0..20),
            90..92 => self.now_ms += random.u64(0..2_000),
            // The store has failed over; and then it has heard of what is held.
            92 => {
                self.daemon.own_until = BootMs(self.now_ms + random.u64(0..500));
                if let Some((page, _)) = &self.daemon.page {
                    self.daemon.renew(page, self.now_ms, self.broken);
                }
            }
            93..98 => {
                self.daemon.own_until = NO_END;
                if let Some((page, _)) = &self.daemon.page {
                    self.daemon.renew(page, self.now_ms, self.broken);
                }
            }
            _ => {}
        }
    }

    /// Whether a process finds a page open, by a coarse clock.
    fn finds_open(&self, page: &Page, behind_ms: u64, random: &mut Seeded) -> bool {
        let now_ms = match self.broken {
            Broken::ClockStopsInSleep => self.now_ms.saturating_sub(behind_ms),
            _ => self.now_ms,
        };
        let now_ns = (now_ms - random.u64(0..10)) * 1_000_000;
        match self.broken {
            Broken::TimeUnseen => page.run.is_live(),
            Broken::EndUnseen => true,
            _ => page.run.is_open(now_ns),
        }
    }

    fn process_acts(&mut self, index: usize, random: &mut Seeded) -> Option<Found> {
        let mut process = std::mem::replace(&mut self.processes[index], Process::new());
        let found = self.acts(&mut process, random);
        self.processes[index] = process;
        found
    }

    fn acts(&mut self, process: &mut Process, random: &mut Seeded) -> Option<Found> {
        let now_ms = self.now_ms;
        if now_ms < process.frozen_until {
            return None;
        }
        if random.u32(0..400) == 0 {
            let sleeps_ms = random.u64(0..5_000);
            process.frozen_until = now_ms + sleeps_ms;
            process.behind_ms += sleeps_ms;
            return None;
        }
        if random.u32(0..2_000) == 0 {
            // Killed, and another begins.
            *process = Process::new();
        }
        process.step = match std::mem::replace(&mut process.step, Step::Idle) {
            Step::Idle => {
                process.above = self.largest;
                process.began = self.events;
                let open = process.page.clone();
                process.too_late = open.as_ref().is_some_and(|page| now_ms >= page.own_until.get());
                match open.filter(|page| self.finds_open(page, process.behind_ms, random)) {
                    Some(page) => Step::Open(page),
                    None => {
                        let answer = self.daemon.share(now_ms, self.events, self.broken);
                        Step::Answered(answer, now_ms + random.u64(0..30))
                    }
                }
            }
            Step::Answered(answer, at_ms) if at_ms > now_ms => Step::Answered(answer, at_ms),
            Step::Answered(answer, _) => {
                process.page = answer;
                Step::Idle
            }
            Step::Open(page) => {
                let ticket = page.tickets.take();
                Step::Ticket(page, ticket)
            }
            Step::Ticket(page, ticket) => match page.run.find(ticket) {
                Drawn::Taken(taken) if self.broken == Broken::EndUnseen || page.run.is_live() => {
                    Step::Found(page, taken.id)
                }
                Drawn::Unpublished => {
                    self.daemon.share(now_ms, self.events, self.broken);
                    // It goes on with its ticket only while the page is open.
                    let open = self.finds_open(&page, process.behind_ms, random);
                    if open && random.bool() { Step::Ticket(page, ticket) } else { Step::Idle }
                }
                Drawn::Taken(_) | Drawn::Lost => Step::Idle,
            },
            Step::Found(page, id) => {
                let unique = self.drawn.insert(id);
                self.largest = self.largest.max(id);
                return if !unique {
                    Some(Found::Twice)
                } else if id <= process.above {
                    Some(Found::OutOfOrder)
                } else if page.revoked_at.get().is_some_and(|at| at < process.began) {
                    Some(Found::Revoked)
                } else if process.too_late {
                    Some(Found::BeyondItsEnd)
                } else {
                    None
                };
            }
        };
        None
    }

    fn lives(&mut self, steps: u32, random: &mut Seeded) -> Option<Found> {
        for _ in 0..steps {
            self.events += 1;
            if random.u32(0..6) == 0 {
                self.daemon_acts(random);
            } else {
                let index = random.usize(0..self.processes.len());
                if let Some(found) = self.process_acts(index, random) {
                    return Some(found);
                }
            }
        }
        None
    }
}

#[test]
fn processes_draw_each_id_once_and_in_order_over_all_lives() {
    for mut random in seeds(30) {
        let mut world = World::new(1 + random.usize(0..6), Broken::Nothing);
        assert_eq!(world.lives(30_000, &mut random), None);
        assert!(!world.drawn.is_empty(), "nothing was drawn");
    }
}

/// Which broken promise is noticed by what.
#[test]
fn the_model_notices_what_is_left_out() {
    for (broken, noticed_by) in [
        (Broken::MarkNotDurable, &[Found::Twice][..]),
        (Broken::NoWaitAfterCrash, &[Found::OutOfOrder]),
        (Broken::NotRetired, &[Found::OutOfOrder]),
        (Broken::CursorReset, &[Found::Twice, Found::OutOfOrder]),
        (Broken::EndUnseen, &[Found::Revoked]),
        (Broken::TimeUnseen, &[Found::OutOfOrder, Found::BeyondItsEnd]),
        (Broken::ClockStopsInSleep, &[Found::OutOfOrder, Found::BeyondItsEnd]),
        (Broken::OwnEndOverlooked, &[Found::BeyondItsEnd]),
    ] {
        let mut noticed: BTreeMap<Found, u32> = BTreeMap::new();
        for seed in 0..40 {
            let found = World::new(4, broken).lives(30_000, &mut Seeded::new(seed));
            found.into_iter().for_each(|found| *noticed.entry(found).or_default() += 1);
        }
        println!("{broken:?}: in 40 lives {noticed:?}");
        for found in noticed_by {
            assert!(noticed.contains_key(found), "{broken:?} is noticed by {noticed:?}");
        }
    }
}
