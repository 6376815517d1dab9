//! Holding a strict tag: while only one host draws from it, that host answers from memory for a short time.
//!
//! A claim can record in the tag's row that the tag is held for some time (see [`plan_hold`](crate::store::plan_hold)).
//! Another host's claim then gets no ids. It only records that the tag is wanted. The host waits until the holder has
//! cleared the record, or until the row has not changed for the recorded time by the host's own clock. Each claim moves
//! the row's end, so an unchanged end means that no host has claimed.
//!
//! The holder counts the time from before it sent the claim, and stops a little earlier, so no other host gets ids
//! while the holder may still issue lower ones. It reads the clock after it has received the request. So if an answer
//! leaves late, because the daemon was stopped meanwhile, no other host's answer preceded its request.

use leafd_wire::Run;

use crate::BootMs;
use crate::store::{HoldWish, Holding};

/// The holder renews its hold after 1/`RENEWED_AFTER` of the hold's time. That is also how long another host waits for
/// a healthy holder.
const RENEWED_AFTER: u64 = 4;

/// The holder stops early by 1/`CLOCKS_DIFFER` of the hold's time, because its clock may be slower than another host's.
/// Linux lets programs change a clock's speed by a tenth. chrony changes it by a twelfth while it corrects a large
/// error.
const CLOCKS_DIFFER: u64 = 5;

/// Clocks are read in milliseconds.
const CLOCKS_ROUNDED_MS: u64 = 5;

/// A host starts to hold a tag once it has been alone for as long as it may hold the tag, or for this long if that is
/// shorter.
const ALONE_MS_MAX: u64 = 2_000;

/// How long a host waits before it checks again whether another one still holds the tag.
const LOOK_AGAIN_MS: u64 = 50;

/// A tag is held only if about this many ids are drawn between two renewals.
const DRAWN_AT_LEAST: u64 = 2;

/// A host holds at most 1/`CEILING_SHARE` of the ids below the ceiling, because unused ones are lost.
const CEILING_SHARE: u64 = 16;

/// What a claim should cover.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldNeed {
    /// How long the tag may be held; 0 if it may not.
    pub(super) hold_ms: u64,
    /// How many ids the waiting requests need.
    pub(super) waited_for: u64,
    /// How many ids will be drawn in `hold_ms`.
    pub(super) drawn: u64,
    /// How many ids the last claim took.
    pub(super) claimed_last: u64,
    /// The largest id that may be issued.
    pub(super) ceiling: u64,
    /// How many ids may be claimed ahead.
    pub(super) most: u64,
}

/// What a host knows about a strict tag from which it draws.
#[derive(Debug)]
pub(super) struct StrictHold {
    /// Held ids. They end at `own_end`, and may be issued until `until`.
    ids: Option<Run>,
    /// From this time on, no id is issued from memory.
    until: BootMs,
    renew_at: BootMs,
    /// The host claims again when fewer ids than this are left.
    low: u64,
    drawn: bool,
    in_store: InStore,
    /// Since when no other host has claimed, as far as this host's claims show.
    alone_since: BootMs,
    /// The end of this host's last claim; 0 if there is none.
    own_end: u64,
    /// Another host's hold, if there is one.
    other: Option<OtherHold>,
    /// Ids that were dropped and not yet reported.
    pub(super) dropped: u64,
}

/// The store's record of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InStore {
    Nothing,
    Held,
    /// It is held, and the next claim must clear the record. No id is issued from memory.
    ToClear,
}

/// The record in the row of a tag that another host holds.
#[derive(Clone, Copy, Debug)]
struct OtherHold {
    end: u64,
    first_seen: BootMs,
    ms: u64,
}

impl OtherHold {
    fn is_over(self, now: BootMs) -> bool {
        now >= BootMs(self.first_seen.0.saturating_add(self.ms))
    }
}

impl StrictHold {
    pub(super) fn new() -> StrictHold {
        StrictHold {
            ids: None,
            until: BootMs(0),
            renew_at: BootMs(0),
            low: 0,
            drawn: false,
            in_store: InStore::Nothing,
            alone_since: BootMs(0),
            own_end: 0,
            other: None,
            dropped: 0,
        }
    }

    /// Whether the store records that this host holds the tag.
    pub(super) fn is_held(&self) -> bool {
        self.in_store != InStore::Nothing
    }

    /// Whether it must be checked regularly, because a claim may become due as time passes.
    pub(super) fn is_timed(&self, now: BootMs) -> bool {
        self.in_store == InStore::ToClear || self.is_open(now)
    }

    /// Whether ids may be issued from memory now.
    pub(super) fn is_open(&self, now: BootMs) -> bool {
        self.in_store == InStore::Held && now < self.until
    }

    /// Issues ids from memory.
    pub(super) fn issue(&mut self, count: u32, now: BootMs) -> Option<Run> {
        let ids = self.ids.filter(|ids| count <= ids.count && self.is_open(now))?;
        self.ids = ids.without_first(count);
        self.drawn = true;
        Some(Run { count, ..ids })
    }

    /// How many ids are held.
    pub(super) fn left(&self) -> u64 {
        self.ids.map_or(0, |ids| u64::from(ids.count))
    }

    /// Whether a claim is due now.
    pub(super) fn is_due(&self, now: BootMs) -> bool {
        let renews = now >= self.renew_at || self.left() < self.low;
        self.in_store == InStore::ToClear || self.in_store == InStore::Held && renews
    }

    /// Releases the tag. The next claim reports that to the store.
    pub(super) fn give_up(&mut self) {
        if self.in_store == InStore::Held {
            self.in_store = InStore::ToClear;
        }
        self.drop_ids();
    }

    /// Forgets everything. The ids must not be issued, because the tag or its store was replaced.
    pub(super) fn forget(&mut self) {
        self.drop_ids();
        *self = StrictHold { dropped: self.dropped, ..StrictHold::new() };
    }

    /// A claim failed. Clearing the record is not retried, because it expires on its own.
    pub(super) fn claim_failed(&mut self) {
        if self.in_store == InStore::ToClear {
            self.in_store = InStore::Nothing;
        }
    }

    /// The store has fewer ids left than were asked for. Its record stays, and expires on its own.
    pub(super) fn exhausted(&mut self) {
        self.drop_ids();
        self.in_store = InStore::Nothing;
    }

    pub(super) fn drop_ids(&mut self) {
        self.dropped += self.left();
        self.ids = None;
    }

    /// What to claim, if anything: how many ids, and what to record.
    pub(super) fn wish(&mut self, now: BootMs, need: HoldNeed) -> Option<(u64, HoldWish)> {
        let HoldNeed { waited_for, drawn, .. } = need;
        let share = need.ceiling.saturating_sub(self.own_end) / CEILING_SHARE;
        let hold_ms = if drawn > share { 0 } else { need.hold_ms };
        let is_idle = !self.drawn && waited_for == 0 && now >= self.renew_at;
        if self.in_store == InStore::Held && (is_idle || hold_ms == 0) {
            self.give_up();
        }
        let over = self.other.filter(|other| other.is_over(now)).map_or(0, |other| other.end);
        let shared = HoldWish { own_end: self.own_end, over, ms: 0 };
        let holds = match self.in_store {
            // The claim that clears the record takes an id, as every claim does.
            InStore::ToClear => return Some((waited_for.max(1), shared)),
            InStore::Held if waited_for > 0 || self.is_due(now) => true,
            InStore::Nothing if waited_for > 0 => {
                let alone_ms = now.0.saturating_sub(self.alone_since.0);
                let is_busy = drawn >= DRAWN_AT_LEAST * RENEWED_AFTER;
                hold_ms > 0 && alone_ms >= hold_ms.min(ALONE_MS_MAX) && is_busy
            }
            _ => return None,
        };
        if !holds {
            return Some((waited_for, shared));
        }
        // If ids run out before the renewal, the rate was underestimated.
        let ran_out = self.in_store == InStore::Held && now < self.renew_at;
        let grown = if ran_out { need.claimed_last.saturating_mul(RENEWED_AFTER) } else { 0 };
        let ahead = drawn.max(grown).min(share).min(need.most).saturating_sub(self.left()).max(1);
        Some((waited_for.saturating_add(ahead), HoldWish { ms: hold_ms, ..shared }))
    }

    /// Records the store's answer to a claim that was sent at `sent`.
    pub(super) fn granted(&mut self, claimed: Run, holding: Holding, sent: BootMs) {
        if claimed.first != self.own_end {
            // Another host has claimed, and may have answered.
            self.drop_ids();
            self.alone_since = sent;
        }
        self.own_end = claimed.end();
        self.other = None;
        match holding {
            Holding::Free { wanted } => {
                self.in_store = InStore::Nothing;
                if wanted {
                    self.alone_since = sent;
                }
            }
            Holding::Held(ms) => {
                let given_up = self.in_store == InStore::ToClear;
                self.in_store = InStore::Held;
                let less = ms / CLOCKS_DIFFER + CLOCKS_ROUNDED_MS;
                self.until = BootMs(sent.0.saturating_add(ms.saturating_sub(less)));
                self.renew_at = BootMs(sent.0.saturating_add(ms / RENEWED_AFTER));
                self.drawn = false;
                if given_up {
                    self.give_up();
                }
            }
            Holding::Wanted => {
                self.alone_since = sent;
                self.in_store = InStore::Held;
                self.give_up();
            }
        }
    }

    /// The ids to distribute: the rest of the held ones, and those just claimed, which begin where they end.
    pub(super) fn with_held(&mut self, claimed: Run) -> Run {
        let Some(held) = self.ids.take() else { return claimed };
        if let Some(count) = held.count.checked_add(claimed.count) {
            return Run { count, ..held };
        }
        self.dropped += u64::from(held.count);
        claimed
    }

    /// Keeps the ids that remain after a distribution, if the tag is held.
    pub(super) fn keep(&mut self, left: Option<Run>) {
        self.ids = left;
        self.low = self.left() / 2;
        if self.in_store != InStore::Held {
            self.drop_ids();
        }
    }

    /// Another host holds the tag: the row has this end and this time. Returns when to try again.
    pub(super) fn held_elsewhere(&mut self, now: BootMs, end: u64, ms: u64) -> BootMs {
        let seen = self.other.filter(|other| other.end == end);
        let other = OtherHold { end, ms, first_seen: seen.map_or(now, |other| other.first_seen) };
        self.drop_ids();
        self.in_store = InStore::Nothing;
        (self.other, self.alone_since) = (Some(other), now);
        BootMs(now.0.saturating_add(LOOK_AGAIN_MS))
    }
}
