//! Which snowflake ids of one layout may be issued: a logical clock over the wall clock, and a sequence within each of
//! its ticks.
//!
//! The logical clock is `max(last, now)`. When the wall clock steps back, the logical one continues from the last id,
//! at the pace of the boot-time clock, until it is `drift_max_ms` ahead. An id is issued only if its whole tick lies
//! before the mark.
//!
//! Workers change with their leases. The journal's mark stays above the ids of all of them, so a host's ids ascend
//! across a change of worker too.
//!
//! A start may lie ahead of the clock, because an earlier life may have issued ids up to there. This lift is added to
//! the allowed drift, and shrinks as time passes.

use leafd_wire::{Layout, Parts, Run};

use crate::lease::IssueWindow;
pub use crate::time::Now;
use crate::{BootMs, UnixMs};

/// Why no id can be issued right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no worker.
    NoWorker,
    /// The tick's sequence is exhausted. The next tick comes within `wait_ms`.
    TickUsedUp {
        /// Milliseconds, from 1.
        wait_ms: u64,
    },
    /// The mark must be moved first.
    MarkReached,
    /// The worker's lease ends before the id's tick does.
    LeaseEnds,
    /// The wall clock is behind the last id by more than the drift allows.
    ClockBehind {
        /// By how many milliseconds.
        behind_ms: u64,
        /// When the clock will have caught up, in milliseconds.
        wait_ms: u64,
    },
    /// The time doesn't fit the layout's time bits.
    TimeExhausted,
    /// The wall clock is before the layout's epoch.
    BeforeEpoch,
}

/// The tick from which ids are issued.
#[derive(Clone, Copy, Debug)]
struct Tick {
    number: u64,
    /// The next sequence number; one past the largest if the tick is exhausted.
    sequence: u64,
    /// When it was opened; `None` for the tick before a restart's first one, which was never opened.
    opened: Option<BootMs>,
}

/// How far a start lies ahead of the clock.
#[derive(Clone, Copy, Debug)]
struct Lift {
    began: Now,
    left_ms: u64,
}

/// Issues one layout's ids while there is a worker.
#[derive(Clone, Debug)]
pub struct Generator {
    layout: Layout,
    drift_max_ms: u64,
    /// The worker that it issues for now, and the instants between which it may be used.
    pub grant: Option<IssueWindow>,
    /// Whether there has been a worker. If so, the end of use is known exactly.
    begun: bool,
    /// The last tick used, `None` before the first.
    last: Option<Tick>,
    /// The journal's mark: ids whose tick ends at or before it may be issued.
    pub mark: UnixMs,
    /// When the clock was first within the drift, and how far the start lay ahead then, less the time that has passed
    /// since. If the clock steps back, ids may run ahead of it by the drift plus this lift.
    lift: Option<Lift>,
    /// Whether a request found the tick exhausted and waits. Ticks that pass meanwhile can still be used.
    starved: bool,
    /// Ids issued since the generator was made.
    pub issued: u64,
}

/// How far behind the wall clock a starved generator may start its next tick, in milliseconds. Timers wake up late, and
/// without this the ticks missed meanwhile would be lost, so the layout would not reach its full rate.
const CATCH_UP_MS: u64 = 4;

/// How far the mark moves ahead of the clock, in milliseconds, if the drift allows.
const MARK_AHEAD_MS: u64 = 3_000;

/// How far it moves at least, in milliseconds.
const MARK_AHEAD_MS_MIN: u64 = 1_000;

impl Generator {
    /// A generator without a worker. `mark` is the last one recorded. All new ids lie at or above it, and none is
    /// issued until a higher mark is recorded. `drift_max_ms`: how far the logical clock may run ahead of the wall
    /// clock.
    pub fn new(layout: Layout, mark: UnixMs, drift_max_ms: u64) -> Self {
        let (grant, begun, last, lift, starved, issued) = (None, false, None, None, false, 0);
        Generator { layout, drift_max_ms, grant, begun, last, mark, lift, starved, issued }
    }

    /// Continues under this grant; without one, nothing is issued. Under another worker or a new lease it starts above
    /// the mark.
    ///
    /// # Panics
    /// If the worker doesn't fit the layout, because its ids would be another worker's.
    pub fn follow(&mut self, grant: Option<IssueWindow>) {
        let before = std::mem::replace(&mut self.grant, grant);
        let lease = |grant: IssueWindow| (grant.worker, grant.start);
        if before.map(lease) == grant.map(lease) {
            return;
        }
        (self.lift, self.starved) = (None, false);
        if let Some(grant) = grant {
            assert!(
                grant.worker.0 <= self.layout.worker_max(),
                "worker {} fits its field",
                grant.worker
            );
            self.begun = true;
            self.last = self.used_up_below(self.mark.max(grant.start));
        }
    }

    /// Continues above a mark that was found in the journal. Even without a worker, everything below it counts as used,
    /// so neither the record of a stop nor a released lease may lie below it.
    pub fn start_over(&mut self, mark: UnixMs) {
        self.marked(mark);
        self.last = self.used_up_below(self.mark);
        let grant = self.grant.take();
        self.follow(grant);
    }

    /// Issues up to `count_max` ids of one tick. `random` chooses where a new tick's sequence starts.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn take(&mut self, now: Now, count_max: u32, random: u64) -> Result<Run, Refusal> {
        assert!(count_max > 0, "a request is for at least one id");
        let grant = self.grant.ok_or(Refusal::NoWorker)?;
        let mut tick = self.tick(now, random)?;
        if tick.number > self.layout.tick_max() {
            return Err(Refusal::TimeExhausted);
        }
        let end = UnixMs(self.layout.tick_start_ms(tick.number + 1));
        if end > grant.limit {
            return Err(Refusal::LeaseEnds);
        }
        if end > self.mark {
            return Err(Refusal::MarkReached);
        }
        let left = self.layout.sequence_max() + 1 - tick.sequence;
        let count = u64::from(count_max).min(left);
        let first = self.layout.compose(Parts {
            tick: tick.number,
            worker: grant.worker.0,
            sequence: tick.sequence,
        });
        if first == 0 {
            // Worker 0's very first id would be 0, which is not an id.
            return Err(Refusal::BeforeEpoch);
        }
        tick.sequence += count;
        self.last = Some(tick);
        self.issued += count;
        let count = u32::try_from(count).expect("no more than was asked for");
        Ok(Run { first, count, stride: 1 })
    }

    /// Why the host's clock forbids ids now, if it does. This is what [`Generator::take`] would return, for the current
    /// worker or a future one, but it takes no ids.
    pub fn clock_refusal(&self, now: Now) -> Option<Refusal> {
        let mut trial = self.clone();
        if self.grant.is_none() {
            trial.last = self.used_up_below(self.mark);
        }
        match trial.tick(now, 0) {
            Ok(tick) if tick.number > self.layout.tick_max() => Some(Refusal::TimeExhausted),
            Err(refusal @ (Refusal::BeforeEpoch | Refusal::ClockBehind { .. })) => Some(refusal),
            _ => None,
        }
    }

    /// The mark to record now, so that use doesn't reach the current one; `None` while that is far enough ahead.
    pub fn mark_wanted(&self, now: Now) -> Option<UnixMs> {
        let grant = self.grant?;
        let ahead_ms = (self.drift_max_ms / 2).clamp(MARK_AHEAD_MS_MIN, MARK_AHEAD_MS);
        let used_ms = self.used_end().unwrap_or_default().0;
        if self.mark.0 > now.unix.0.max(used_ms).saturating_add(ahead_ms / 2) {
            return None;
        }
        // If use is ahead of the clock, move only an eighth above it. A host that crashes again and again must not
        // drive its own mark beyond the drift.
        let target = now.unix.0.saturating_add(ahead_ms).max(used_ms.saturating_add(ahead_ms / 8));
        // A whole tick must fit below it.
        let tick_ms = 2 * u64::from(self.layout.unit_ms);
        let target = target.max(now.unix.0.max(used_ms).saturating_add(tick_ms));
        // No id can be issued past the time bits, so a clock beyond them moves no mark.
        if self.layout.tick_at(now.unix.0).is_none_or(|tick| tick > self.layout.tick_max()) {
            return None;
        }
        let target = UnixMs(target).min(grant.limit);
        (target > self.mark).then_some(target)
    }

    /// Reports a mark as durable.
    pub fn marked(&mut self, mark: UnixMs) {
        self.mark = self.mark.max(mark);
    }

    /// The end of the last tick used: the exact mark for a clean stop. `None` when it is unknown because there was no
    /// worker yet.
    pub fn used_end(&self) -> Option<UnixMs> {
        let end = |tick: Tick| UnixMs(self.layout.tick_start_ms(tick.number + 1));
        self.begun.then(|| self.last.map_or(UnixMs(0), end))
    }

    /// No id at or after this instant was issued. A lease that ends early must cover everything before it.
    pub fn issued_below(&self) -> UnixMs {
        self.used_end().unwrap_or(self.mark)
    }

    /// The tick to issue from, with at least one sequence number left.
    fn tick(&mut self, now: Now, random: u64) -> Result<Tick, Refusal> {
        let wall = self.layout.tick_at(now.unix.0).ok_or(Refusal::BeforeEpoch)?;
        let Some(last) = self.last else { return Ok(self.open(wall, now, random)) };
        let used_up = self.is_used_up(last);
        if wall > last.number {
            let earliest = wall.saturating_sub(CATCH_UP_MS / u64::from(self.layout.unit_ms));
            let number = if self.starved { earliest.max(last.number + 1) } else { wall };
            self.starved &= number < wall;
            return Ok(self.open(number, now, random));
        }
        let number = if used_up { last.number + 1 } else { last.number };
        let ahead_ms = self.layout.tick_start_ms(number).saturating_sub(now.unix.0);
        let ahead_max_ms = self.drift_max_ms.saturating_add(self.lift_ms(now, ahead_ms));
        if wall < last.number && ahead_ms > ahead_max_ms {
            let wait_ms = ahead_ms - ahead_max_ms;
            return Err(Refusal::ClockBehind { behind_ms: ahead_ms, wait_ms });
        }
        if !used_up {
            return Ok(last);
        }
        let wait_ms = if wall == last.number {
            ahead_ms
        } else {
            // Ahead of the wall clock, ticks pass exactly as fast as time does.
            let passed_ms =
                last.opened.map_or(u64::MAX, |opened| now.boot.0.saturating_sub(opened.0));
            u64::from(self.layout.unit_ms).saturating_sub(passed_ms)
        };
        if wait_ms > 0 {
            self.starved = true;
            return Err(Refusal::TickUsedUp { wait_ms });
        }
        // As with the wall clock, waiting requests can still use the ticks that passed.
        let earliest_ms = now.boot.0.saturating_sub(CATCH_UP_MS);
        let opened = last.opened.map_or(now.boot, |opened| {
            BootMs(opened.0.saturating_add(u64::from(self.layout.unit_ms)).max(earliest_ms))
        });
        Ok(Tick { opened: Some(opened), ..self.open(number, now, random) })
    }

    /// The rest of the lift. It is measured by the boot-time clock, so it shrinks as time passes, and a step of the
    /// wall clock adds nothing to it. A start that lies ahead by more than the drift gives no lift; the generator waits
    /// for it.
    fn lift_ms(&mut self, now: Now, ahead_ms: u64) -> u64 {
        let begun =
            (ahead_ms <= self.drift_max_ms).then_some(Lift { began: now, left_ms: ahead_ms });
        let Some(lift) = self.lift.or(begun) else { return 0 };
        let steady_ms =
            lift.began.unix.0.saturating_add(now.boot.0.saturating_sub(lift.began.boot.0));
        let ahead_of_steady_ms = now.unix.0.saturating_add(ahead_ms).saturating_sub(steady_ms);
        let lift = Lift { left_ms: lift.left_ms.min(ahead_of_steady_ms), ..lift };
        self.lift = Some(lift);
        lift.left_ms
    }

    fn is_used_up(&self, tick: Tick) -> bool {
        tick.sequence > self.layout.sequence_max()
    }

    /// The last tick that begins below `floor`, marked as exhausted.
    fn used_up_below(&self, floor: UnixMs) -> Option<Tick> {
        let unit_ms = u64::from(self.layout.unit_ms);
        let first = floor.0.saturating_sub(self.layout.epoch_ms).div_ceil(unit_ms);
        let number = first.checked_sub(1)?;
        Some(Tick { number, sequence: self.layout.sequence_max() + 1, opened: None })
    }

    fn open(&self, number: u64, now: Now, random: u64) -> Tick {
        Tick { number, sequence: random % self.sequence_starts(), opened: Some(now.boot) }
    }

    /// How many sequence numbers a tick may start with: Leaf's 100, or a 64th of a short sequence.
    fn sequence_starts(&self) -> u64 {
        ((self.layout.sequence_max() + 1) / 64).clamp(1, 100)
    }
}
