//! Snowflake layouts: passes requests to the layout's generator, and keeps the journal's mark above the issued ids.
//!
//! - `marks`: moves that mark, and handles a refusal by the journal.

mod marks;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use leafd_wire::{Layout, Run, Status};
use tracing::error;

use super::TICK;
use super::lease::Worker;
use super::quotas::Quotas;
use super::writer::Writer;
use crate::clock;
use crate::journal::LayoutRecord;
use crate::reply::Failure;
use crate::reply::given::TagMark;
use crate::reply::outbox::ReplyTo;
use leafd_core::lines::Lines;
use leafd_core::snowflake::{Generator, Now, Refusal};
use leafd_core::{Backoff, BootMs, Tag, UnixMs, Want};

pub struct Snowflakes {
    layouts: Vec<Rc<SnowflakeTag>>,
    /// The worker under whose number ids are issued.
    pub worker: Worker,
    /// Ids before this instant may have been issued in layouts that are no longer configured.
    dropped_mark: UnixMs,
    writer: Rc<Writer>,
    waiters_max: usize,
}

/// A layout. Its name is the tag that clients draw from.
pub struct SnowflakeTag {
    pub(crate) name: Tag,
    /// Identifies the layout in the records of which process got which ids.
    pub(crate) trace_key: TagMark,
    pub(crate) layout: Layout,
    pub(crate) generator: RefCell<Generator>,
    waiting: RefCell<Lines<Waiter>>,
    pub(crate) quotas: RefCell<Quotas>,
    mark_in_flight: Cell<bool>,
    /// Set after the journal refused a mark: why no id is issued until the layout has been read from the journal again.
    contradicted: RefCell<Option<Failure>>,
    /// Counts such refusals in a row.
    restarts: RefCell<Backoff>,
    /// When a timer will serve the waiting requests.
    timer: Cell<Option<BootMs>>,
    used: Cell<BootMs>,
    /// When the log last warned that the time bits end.
    warned: Cell<Option<BootMs>>,
}

struct Waiter {
    left: u32,
    allow_partial: bool,
    deadline: BootMs,
    runs: Vec<Run>,
    reply: ReplyTo,
}

/// How many ids one connection's requests take from a capped layout before another one has its turn.
const TURN_IDS: u32 = 1_024;

/// How long a process may hold snowflake ids, in milliseconds. It is short, because an id's time must be close to that
/// of its use.
pub const HOLD_MS: u32 = 8;

/// The maximum number of ticks from which a request may take ids, which limits the runs in a reply.
const REQUEST_TICKS_MAX: u64 = 2_048;

/// What a request waited for that got no id by its deadline, unless a better reason is known.
const USED_UP: &str = "earlier requests exhausted the sequence of each tick";

/// How long before the end of a layout's time bits the log warns of it, and how often, in milliseconds.
const END_WARNED_MS: u64 = 365 * 86_400_000;
const END_WARNED_EVERY_MS: u64 = 86_400_000;

impl Snowflakes {
    /// The layouts, each with the mark below which ids may have been issued. `recorded` are all layouts in the
    /// journal, including those that only earlier starts had in their configuration.
    pub fn new(
        layouts: Vec<LayoutRecord>,
        recorded: &[LayoutRecord],
        worker: Worker,
        drift_max_ms: u64,
        waiters_max: usize,
        writer: Rc<Writer>,
    ) -> Rc<Self> {
        let dropped = recorded
            .iter()
            .filter(|record| layouts.iter().all(|layout| layout.name != record.name));
        let dropped_mark = dropped.map(|record| record.mark).max().unwrap_or_default();
        let layouts: Vec<Rc<SnowflakeTag>> = layouts
            .into_iter()
            .map(|LayoutRecord { name, layout, mark }| {
                Rc::new(SnowflakeTag {
                    trace_key: TagMark::of(&name),
                    name,
                    layout,
                    generator: RefCell::new(Generator::new(layout, mark, drift_max_ms)),
                    waiting: RefCell::new(Lines::new(waiters_max as u64)),
                    quotas: RefCell::default(),
                    mark_in_flight: Cell::new(false),
                    contradicted: RefCell::default(),
                    restarts: RefCell::default(),
                    timer: Cell::default(),
                    used: Cell::default(),
                    warned: Cell::default(),
                })
            })
            .collect();
        let recorded_mark = layouts.iter().map(|tag| tag.generator.borrow().mark).max();
        let reached = worker.journal_reached(dropped_mark.max(recorded_mark.unwrap_or_default()));
        let snowflakes = Rc::new(Snowflakes { layouts, worker, dropped_mark, writer, waiters_max });
        match reached {
            Ok(()) => snowflakes.follow_worker(),
            Err(why) => snowflakes.give_up_worker(why),
        }
        snowflakes
    }

    /// Uses the worker that is available now, and serves the requests that wait for one.
    pub fn follow_worker(self: &Rc<Self>) {
        let claim = self.worker.claim(clock::now());
        for tag in &self.layouts {
            tag.generator.borrow_mut().follow(claim);
            self.serve(tag);
        }
    }

    /// The layout of this name.
    pub fn layout(&self, name: &str) -> Option<&Rc<SnowflakeTag>> {
        self.layouts.iter().find(|layout| layout.name.as_str() == name)
    }

    pub fn layouts(&self) -> &[Rc<SnowflakeTag>] {
        &self.layouts
    }

    /// Whether ids of at least one layout can be issued: the journal, the worker and the clock allow it.
    pub fn ready(&self) -> bool {
        let now = clock::now();
        self.writer.works() && self.worker.ready(now) && self.layouts_allow(now)
    }

    /// Whether the layouts allow it. A clock that is behind stops draws of every layout. The end of its time bits, or a
    /// contradiction in the journal, stops only one layout.
    fn layouts_allow(&self, now: Now) -> bool {
        let mut some_allowed = false;
        for tag in &self.layouts {
            match self.clock_refusal(tag, now) {
                Some(Refusal::TimeExhausted) => {}
                Some(_) => return false,
                None => some_allowed |= tag.contradicted.borrow().is_none(),
            }
        }
        some_allowed
    }

    /// Why the host's clock allows no id of a layout now; `None` if it does.
    pub fn clock_refusal(&self, tag: &SnowflakeTag, now: Now) -> Option<Refusal> {
        tag.generator.borrow().clock_refusal(self.worker.believed_time(now))
    }

    /// Checks that a reply can carry this many ids.
    ///
    /// # Errors
    /// The error for the client.
    pub fn check_count(&self, tag: &SnowflakeTag, count: u32) -> Result<(), Failure> {
        let count_max = REQUEST_TICKS_MAX.saturating_mul(tag.layout.sequence_max() + 1);
        if u64::from(count) <= count_max {
            return Ok(());
        }
        Err(Failure::new(
            Status::CountInvalid,
            format!(
                "a request can draw 1 to {count_max} ids of layout {:?}, not {count}",
                tag.name
            ),
        ))
    }

    /// Draws ids at once: all of them, or fewer if a process will hold them. If it returns true, they are in `runs`.
    pub fn take(
        self: &Rc<Self>,
        tag: &Rc<SnowflakeTag>,
        want: Want,
        now: Now,
        runs: &mut Vec<Run>,
    ) -> bool {
        if !tag.waiting.borrow().is_empty() || tag.contradicted.borrow().is_some() {
            return false;
        }
        let mut left = want.count;
        if let Err(_refused) = self.draw(tag, now, &mut left, want.allow_partial, runs) {
            // The part of a batch that was drawn so far is not lost: the caller passes it to `wait`.
            return false;
        }
        true
    }

    /// Lets a request wait. `drawn` are the ids that [`Snowflakes::take`] has already drawn for it.
    pub fn wait(
        self: &Rc<Self>,
        tag: &Rc<SnowflakeTag>,
        want: Want,
        deadline: BootMs,
        drawn: Vec<Run>,
        reply: ReplyTo,
    ) {
        if let Some(failure) = &*tag.contradicted.borrow() {
            return reply.failure(failure);
        }
        if tag.generator.borrow().grant.is_none() && !self.worker.want() {
            return reply.failure(&self.worker.unavailable_reason());
        }
        let left = want.count - drawn.iter().map(|run| run.count).sum::<u32>();
        let allow_partial = want.allow_partial;
        let asker = reply.asker();
        let waiter = Waiter { left, allow_partial, deadline, runs: drawn, reply };
        let refused = tag.waiting.borrow_mut().push(asker, waiter).err();
        if let Some(waiter) = refused {
            return waiter.reply.failure(&Failure::overloaded(
                "too many of this user's requests are waiting for the layout",
                "waiters_max",
                self.waiters_max,
            ));
        }
        self.watch(tag, deadline, clock::boot());
        self.serve(tag);
    }

    /// Draws from tick after tick. After an error `left` is the number of missing ids.
    fn draw(
        self: &Rc<Self>,
        tag: &Rc<SnowflakeTag>,
        now: Now,
        left: &mut u32,
        allow_partial: bool,
        runs: &mut Vec<Run>,
    ) -> Result<(), Refusal> {
        let now = self.worker.believed_time(now);
        let mut generator = tag.generator.borrow_mut();
        let mut outcome = Ok(());
        while *left > 0 {
            match generator.take(now, *left, fastrand::u64(..)) {
                Ok(run) => {
                    *left -= run.count;
                    append(runs, run);
                    if allow_partial {
                        break;
                    }
                }
                Err(refused) => {
                    outcome = Err(refused);
                    break;
                }
            }
        }
        tag.used.set(now.boot);
        self.keep_mark(tag, &generator, now);
        outcome
    }

    /// Serves the waiting requests as far as there are ids: each connection's in their order, and users and their
    /// connections in turn.
    fn serve(self: &Rc<Self>, tag: &Rc<SnowflakeTag>) {
        if self.writer.failed() || tag.contradicted.borrow().is_some() {
            return;
        }
        let now = clock::now();
        loop {
            let others_wait = tag.waiting.borrow().connections() > 1;
            let Some((asker, mut waiter)) = tag.waiting.borrow_mut().pop() else { return };
            if waiter.reply.gone() {
                continue;
            }
            let turn = if others_wait { waiter.left.min(TURN_IDS) } else { waiter.left };
            let mut undrawn = turn;
            let drawn = self.draw(tag, now, &mut undrawn, waiter.allow_partial, &mut waiter.runs);
            waiter.left -= turn - undrawn;
            let done = waiter.left == 0 || waiter.allow_partial && !waiter.runs.is_empty();
            if done {
                waiter.reply.given(tag.trace_key, &waiter.runs);
                waiter.reply.ids(HOLD_MS, &waiter.runs);
                continue;
            }
            let Err(refused) = drawn else {
                tag.waiting.borrow_mut().put_back(asker, waiter);
                continue;
            };
            let until_deadline_ms = waiter.deadline.0.saturating_sub(now.boot.0);
            let wait_ms = match refused {
                // The answer of the journal or the registry will serve the request; this timer only watches the
                // deadline.
                Refusal::MarkReached => until_deadline_ms,
                Refusal::NoWorker | Refusal::LeaseEnds => {
                    if self.worker.want() {
                        until_deadline_ms
                    } else {
                        u64::MAX
                    }
                }
                Refusal::TickUsedUp { wait_ms } | Refusal::ClockBehind { wait_ms, .. } => wait_ms,
                Refusal::TimeExhausted | Refusal::BeforeEpoch => u64::MAX,
            };
            // If the wait would outlast the deadline, the client learns that immediately, with the length of the wait.
            let overdue = waiter.deadline <= now.boot;
            if overdue || now.boot.0.saturating_add(wait_ms) > waiter.deadline.0 {
                waiter.reply.failure(&match refused {
                    Refusal::NoWorker | Refusal::LeaseEnds => self.worker.unavailable_reason(),
                    refusal => Failure::refusal(&tag.name, refusal, now.unix),
                });
                continue;
            }
            tag.waiting.borrow_mut().put_back(asker, waiter);
            self.set_timer(tag, BootMs(now.boot.0.saturating_add(wait_ms.max(1))));
            return;
        }
    }

    /// Serves again at this instant, or in a second if that is sooner.
    fn set_timer(self: &Rc<Self>, tag: &Rc<SnowflakeTag>, at: BootMs) {
        if tag.timer.get().is_some_and(|set| set <= at) {
            return;
        }
        tag.timer.set(Some(at));
        let (snowflakes, tag) = (Rc::clone(self), Rc::clone(tag));
        tokio::task::spawn_local(async move {
            clock::wait_until(Some(at)).await;
            // Otherwise an earlier one was set meanwhile.
            if tag.timer.get() == Some(at) {
                tag.timer.set(None);
                snowflakes.expire(&tag);
                snowflakes.serve(&tag);
                let next = tag.waiting.borrow().iter().map(|waiter| waiter.deadline).min();
                if let Some(next) = next {
                    snowflakes.watch(&tag, next, clock::boot());
                }
            }
        });
    }

    /// Checks this deadline, but not sooner than in a [`TICK`], because that looks at all requests.
    fn watch(self: &Rc<Self>, tag: &Rc<SnowflakeTag>, deadline: BootMs, now: BootMs) {
        self.set_timer(tag, deadline.max(BootMs(now.0.saturating_add(clock::millis(TICK)))));
    }

    fn expire(&self, tag: &SnowflakeTag) {
        let now = clock::now();
        let late = tag.waiting.borrow_mut().take_out(|waiter| waiter.deadline <= now.boot);
        for waiter in late {
            let claim = tag.generator.borrow().grant;
            let holds =
                claim.is_some_and(|claim| claim.limit > self.worker.believed_time(now).unix);
            let trouble = self.writer.trouble().map(|trouble| trouble.message);
            let waited_for = trouble.as_deref().unwrap_or(USED_UP);
            waiter.reply.failure(&match holds {
                true => Failure::deadline(&tag.name, waited_for),
                false => self.worker.unavailable_reason(),
            });
        }
    }

    /// Drops the waiting requests of clients that have disconnected.
    pub fn drop_gone(&self, tag: &SnowflakeTag) {
        // They are dropped after the borrow ends, because that wakes their connections.
        let gone = tag.waiting.borrow_mut().take_out(|waiter| waiter.reply.gone());
        drop(gone);
    }

    /// This host may no longer use the worker number, or can't, so no more ids are issued.
    pub fn give_up_worker(self: &Rc<Self>, why: String) {
        error!("{why}; snowflake ids are refused until then");
        self.worker.give_up(why);
        self.follow_worker();
    }

    /// No id of this instant or later was issued in any layout, including those that are no longer configured.
    pub fn issued_below(&self) -> UnixMs {
        let ends = self.layouts.iter().map(|tag| tag.generator.borrow().issued_below());
        ends.max().unwrap_or_default().max(self.dropped_mark)
    }

    /// Issues no more ids under the current worker number.
    pub fn leave_worker(&self) {
        for tag in &self.layouts {
            tag.generator.borrow_mut().follow(None);
        }
    }

    /// Answers every waiting request with a failure.
    pub fn abandon_all(&self, failure: &Failure) {
        for tag in &self.layouts {
            let waiting = tag.waiting.borrow_mut().take_out(|_| true);
            for waiter in waiting {
                waiter.reply.failure(failure);
            }
        }
    }

    /// Serves every layout again, after the journal has recovered.
    pub fn serve_all(self: &Rc<Self>) {
        for tag in &self.layouts {
            self.serve(tag);
        }
    }
}

/// Adds a run. A run that continues the last one makes it longer, so that a reply has one run for each tick.
fn append(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last)
            if last.stride == 1
                && run.stride == 1
                && last.first + u64::from(last.count) == run.first =>
        {
            last.count += run.count;
        }
        _ => runs.push(run),
    }
}

impl SnowflakeTag {
    /// Whether a request waits for it.
    pub fn is_waited_for(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Why no ids are issued, while the journal's record of the layout contradicts them.
    pub fn contradicted(&self) -> Option<Failure> {
        self.contradicted.borrow().clone()
    }

    /// How long the time bits will last, in milliseconds.
    pub fn time_left_ms(&self, now: UnixMs) -> u64 {
        let end = self.layout.tick_start_ms(self.layout.tick_max().saturating_add(1));
        end.saturating_sub(now.0)
    }

    fn warn_of_the_end(&self, now: Now) {
        let left_ms = self.time_left_ms(now.unix);
        let due = self.warned.get().is_none_or(|at| now.boot.0 - at.0 >= END_WARNED_EVERY_MS);
        if left_ms < END_WARNED_MS && due {
            self.warned.set(Some(now.boot));
            tracing::warn!(
                layout = %self.name.as_str(),
                "the layout's time bits will be exhausted in {} days, after which no more ids are possible: move to a \
                 new layout",
                left_ms / 86_400_000
            );
        }
    }
}
