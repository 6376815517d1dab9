//! Shared runs: what a daemon publishes, and a model in which processes draw, stop anywhere in a draw, and die, while
//! daemons publish, revoke, stop and are killed.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use leafd_core::shared::{AFTER_CRASH_MS, Publisher, RENEW_MS, Tampered, VALID_MS, valid_until_ns};
use leafd_core::{BootMs, Run};
use leafd_wire::share::{Drawn, ENTRIES, RunPage, TICKETS_PER_ENTRY, TicketPage};

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

// === The model ===

/// What keeps ids unique and in order, and is left out to see whether the model notices.
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
}

type Pages = Rc<(RunPage, TicketPage)>;

struct Daemon {
    /// Ids below may have been issued, as the journal has it.
    mark: u64,
    next: u64,
    page: Option<(Pages, Publisher)>,
    /// It publishes nothing before.
    opens: u64,
    numbers: u64,
}

/// Where a process is in its draw.
enum Step {
    Idle,
    /// It has found the page open.
    Open(Pages),
    Ticket(Pages, u64),
    /// It has an id, and no more to check.
    Found(u64),
}

struct Process {
    page: Option<Pages>,
    step: Step,
    /// The largest id that anybody had when its draw began.
    above: u64,
    /// It is stopped until then.
    frozen_until: u64,
}

struct World {
    daemon: Daemon,
    processes: Vec<Process>,
    now_ms: u64,
    drawn: HashSet<u64>,
    largest: u64,
    broken: Broken,
}

/// What the model found.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Twice(u64),
    OutOfOrder { id: u64, after: u64 },
}

impl Daemon {
    fn issue(&mut self, wanted: u32, broken: Broken) -> Vec<Run> {
        let durable = if broken == Broken::MarkNotDurable { u64::MAX } else { self.mark };
        let count = u64::from(wanted).min(durable - self.next) as u32;
        let runs = (count > 0).then(|| run(self.next, count));
        self.next += u64::from(count);
        runs.into_iter().collect()
    }

    fn retire(&mut self) {
        if let Some((pages, _)) = self.page.take() {
            pages.0.retire();
        }
    }

    /// Answers SHARE.
    fn share(&mut self, now_ms: u64, broken: Broken) -> Option<Pages> {
        if now_ms < self.opens {
            return None;
        }
        if self.page.is_none() {
            self.numbers += 1;
            let pages = Pages::default();
            pages.0.begin(self.numbers);
            self.page = Some((pages, Publisher::default()));
        }
        let (pages, mut publisher) = self.page.clone()?;
        let now = BootMs(now_ms);
        match publisher.wanted(pages.1.taken()) {
            Err(Tampered) => {
                self.retire();
                return None;
            }
            Ok(wanted) => {
                let runs = self.issue(wanted, broken);
                if !runs.is_empty() {
                    let entries = publisher.place(&runs, pages.1.taken(), now);
                    entries.into_iter().for_each(|entry| pages.0.publish(entry));
                }
                pages.0.renew(valid_until_ns(now, NO_END));
            }
        }
        self.page = Some((Rc::clone(&pages), publisher));
        Some(pages)
    }
}

impl World {
    fn new(processes: usize, broken: Broken) -> World {
        let daemon = Daemon { mark: 1, next: 1, page: None, opens: 0, numbers: 0 };
        let process = || Process { page: None, step: Step::Idle, above: 0, frozen_until: 0 };
        World {
            daemon,
            processes: (0..processes).map(|_| process()).collect(),
            now_ms: 5_000,
            drawn: HashSet::new(),
            largest: 0,
            broken,
        }
    }

    fn now_ns(&self) -> u64 {
        self.now_ms * 1_000_000
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
            42..46 => self.daemon.retire(),
            46 if self.broken == Broken::CursorReset => {
                if let Some((pages, publisher)) = &mut self.daemon.page {
                    let fresh = Pages::default();
                    fresh.0.begin(pages.0.number());
                    *publisher = Publisher::default();
                    *pages = fresh;
                    self.daemon.next = self.daemon.next.saturating_sub(50).max(1);
                }
            }
            46..60 => drop(self.daemon.page.is_some().then(|| {
                self.daemon.share(self.now_ms, self.broken);
            })),
            60..90 => self.now_ms += random.u64(0..20),
            90..92 => self.now_ms += random.u64(0..2_000),
            _ => {}
        }
    }

    fn process_acts(&mut self, index: usize, random: &mut Seeded) -> Option<Found> {
        let (now_ms, now_ns) = (self.now_ms, self.now_ns());
        let process = &mut self.processes[index];
        if now_ms < process.frozen_until {
            return None;
        }
        if random.u32(0..400) == 0 {
            process.frozen_until = now_ms + random.u64(0..5_000);
            return None;
        }
        if random.u32(0..2_000) == 0 {
            // Killed, and another begins.
            *process = Process { page: None, step: Step::Idle, above: 0, frozen_until: 0 };
        }
        process.step = match std::mem::replace(&mut process.step, Step::Idle) {
            Step::Idle => {
                process.above = self.largest;
                match process.page.clone().filter(|pages| pages.0.is_open(now_ns)) {
                    Some(pages) => Step::Open(pages),
                    None => {
                        process.page = self.daemon.share(now_ms, self.broken);
                        Step::Idle
                    }
                }
            }
            Step::Open(pages) => {
                let ticket = pages.1.take();
                Step::Ticket(pages, ticket)
            }
            Step::Ticket(pages, ticket) => match pages.0.find(ticket) {
                Drawn::Taken(taken) if pages.0.is_open(now_ns) => Step::Found(taken.id),
                Drawn::Unpublished => {
                    self.daemon.share(now_ms, self.broken);
                    if random.bool() { Step::Ticket(pages, ticket) } else { Step::Idle }
                }
                Drawn::Taken(_) | Drawn::Lost => Step::Idle,
            },
            Step::Found(id) => {
                if !self.drawn.insert(id) {
                    return Some(Found::Twice(id));
                }
                if id <= process.above {
                    return Some(Found::OutOfOrder { id, after: process.above });
                }
                self.largest = self.largest.max(id);
                Step::Idle
            }
        };
        None
    }

    fn lives(&mut self, steps: u32, random: &mut Seeded) -> Option<Found> {
        for _ in 0..steps {
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
        assert!(world.drawn.len() > 50, "only {} ids were drawn", world.drawn.len());
    }
}

#[test]
fn the_model_notices_what_is_left_out() {
    for broken in
        [Broken::MarkNotDurable, Broken::NoWaitAfterCrash, Broken::NotRetired, Broken::CursorReset]
    {
        let noticed = (0..40).any(|seed| {
            let mut random = Seeded::new(seed);
            World::new(4, broken).lives(30_000, &mut random).is_some()
        });
        assert!(noticed, "{broken:?} is not noticed");
    }
}

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
