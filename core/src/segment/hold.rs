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

#[cfg(test)]
mod tests {
    use super::*;

    const NEED: HoldNeed = HoldNeed {
        hold_ms: 1_000,
        waited_for: 0,
        drawn: 40,
        claimed_last: 100,
        ceiling: 1_000_101,
        most: 1_000,
    };

    /// The share of the ids below the ceiling that may be held.
    const SHARE: u64 = 62_500;

    const SENT: BootMs = BootMs(1_000);

    const FREE: Holding = Holding::Free { wanted: false };

    fn run(first: u64, count: u32) -> Run {
        Run { first, count, stride: 1 }
    }

    /// Claimed the ids from 1 to 100. If the tag is held, those from 81 on are left.
    fn claimed(holding: Holding) -> StrictHold {
        let mut hold = StrictHold::new();
        hold.granted(run(1, 100), holding, SENT);
        let all = hold.with_held(run(1, 100));
        hold.keep(all.without_first(80));
        hold.dropped = 0;
        hold
    }

    fn held() -> StrictHold {
        claimed(Holding::Held(1_000))
    }

    /// The store's record, the ids left and dropped, and since when the host is alone.
    fn state(hold: &StrictHold) -> (InStore, u64, u64, u64) {
        (hold.in_store, hold.left(), hold.dropped, hold.alone_since.0)
    }

    /// How many ids to claim, and for how long to hold the tag.
    fn wish(hold: &mut StrictHold, now: u64, need: HoldNeed) -> Option<(u64, u64)> {
        let (want, wish) = hold.wish(BootMs(now), need)?;
        assert_eq!((wish.own_end, wish.over), (101, 0));
        Some((want, wish.ms))
    }

    #[test]
    fn a_hold_is_renewed_in_time_and_ends_when_nobody_draws() {
        let waited = |waited_for| HoldNeed { waited_for, ..NEED };
        let drawn = |drawn| HoldNeed { drawn, ..NEED };
        // How many ids were issued from memory.
        for (issued, now, need, expected) in [
            (0, 1_249, NEED, None),
            (0, 1_250, NEED, Some((1, 0))),
            (1, 1_250, NEED, Some((21, 1_000))),
            (0, 1_250, waited(1), Some((21, 1_000))),
            // Ids run out before the time.
            (0, 1_249, waited(1), Some((381, 1_000))),
            (10, 1_249, NEED, None),
            (11, 1_249, NEED, Some((391, 1_000))),
            (1, 1_250, drawn(10), Some((1, 1_000))),
            (1, 1_250, drawn(SHARE), Some((981, 1_000))),
            (1, 1_250, drawn(SHARE + 1), Some((1, 0))),
            (1, 1_249, drawn(SHARE + 1), Some((1, 0))),
            (1, 1_250, HoldNeed { most: SHARE * 2, ..drawn(SHARE - 1) }, Some((SHARE - 20, 1_000))),
            (
                11,
                1_249,
                HoldNeed { most: SHARE * 2, claimed_last: SHARE, ..NEED },
                Some((SHARE - 9, 1_000)),
            ),
            (1, 1_250, HoldNeed { hold_ms: 0, ..waited(3) }, Some((3, 0))),
        ] {
            let mut hold = held();
            assert!(issued == 0 || hold.issue(issued, BootMs(1_100)).is_some());
            assert_eq!(wish(&mut hold, now, need), expected, "{issued} issued, {now} ms, {need:?}");
            assert_eq!(hold.is_open(BootMs(now)), expected.is_none_or(|(_, ms)| ms > 0));
        }
    }

    #[test]
    fn a_host_that_was_alone_and_draws_much_holds_the_tag() {
        let waits = HoldNeed { waited_for: 1, ..NEED };
        let long = HoldNeed { hold_ms: 5_000, ..waits };
        for (now, need, expected) in [
            (2_000, NEED, None),
            (1_999, waits, Some((1, 0))),
            (2_000, waits, Some((41, 1_000))),
            (2_000, HoldNeed { drawn: 8, ..waits }, Some((9, 1_000))),
            (2_000, HoldNeed { drawn: 7, ..waits }, Some((1, 0))),
            (2_000, HoldNeed { drawn: SHARE + 1, ..waits }, Some((1, 0))),
            (2_000, HoldNeed { hold_ms: 0, ..waits }, Some((1, 0))),
            (2_999, long, Some((1, 0))),
            (3_000, long, Some((41, 5_000))),
        ] {
            assert_eq!(wish(&mut claimed(FREE), now, need), expected, "{now} ms, {need:?}");
        }
    }

    #[test]
    fn ids_are_issued_from_memory_until_shortly_before_the_end() {
        let mut hold = held();
        assert!(hold.is_held() && hold.is_timed(BootMs(1_794)) && !hold.is_timed(BootMs(1_795)));
        assert_eq!(hold.issue(21, BootMs(1_794)), None);
        assert_eq!(hold.issue(1, BootMs(1_795)), None);
        assert!(!hold.drawn);
        assert_eq!(hold.issue(5, BootMs(1_794)), Some(run(81, 5)));
        assert!(hold.drawn);
        assert_eq!(hold.issue(15, BootMs(1_794)), Some(run(86, 15)));
        assert_eq!((hold.issue(1, BootMs(1_794)), hold.left()), (None, 0));
    }

    #[test]
    fn what_is_due_depends_on_the_record_the_time_and_what_is_left() {
        let mut hold = held();
        assert_eq!([1_249, 1_250].map(|ms| hold.is_due(BootMs(ms))), [false, true]);
        hold.issue(11, SENT);
        assert!(hold.is_due(SENT));
        hold.give_up();
        assert_eq!(state(&hold), (InStore::ToClear, 0, 9, 1_000));
        assert!(hold.is_due(BootMs(0)) && hold.is_timed(BootMs(9_000)) && hold.is_held());
        assert_eq!(wish(&mut hold, 1_001, NEED), Some((1, 0)));
        assert_eq!(wish(&mut hold, 1_001, HoldNeed { waited_for: 3, ..NEED }), Some((3, 0)));
        hold.give_up();
        hold.claim_failed();
        assert_eq!(state(&hold), (InStore::Nothing, 0, 9, 1_000));
        assert!(!hold.is_due(BootMs(9_000)) && !hold.is_timed(BootMs(0)) && !hold.is_held());
        hold.give_up();
        assert_eq!(hold.in_store, InStore::Nothing);
        let mut hold = held();
        hold.claim_failed();
        assert_eq!(state(&hold), (InStore::Held, 20, 0, 1_000));
        hold.exhausted();
        assert_eq!(state(&hold), (InStore::Nothing, 0, 20, 1_000));
        let mut hold = held();
        hold.forget();
        assert_eq!((state(&hold), hold.own_end), ((InStore::Nothing, 0, 20, 0), 0));
    }

    #[test]
    fn an_answer_of_the_store_decides_what_is_held() {
        let wanted = Holding::Free { wanted: true };
        let hour = Holding::Held(3_600_000);
        for (given_up, first, holding, expected) in [
            (false, 101, hour, (InStore::Held, 70, 0, 1_000)),
            (false, 101, FREE, (InStore::Nothing, 0, 70, 1_000)),
            (false, 101, wanted, (InStore::Nothing, 0, 70, 2_000)),
            (false, 101, Holding::Wanted, (InStore::ToClear, 0, 70, 2_000)),
            (true, 101, hour, (InStore::ToClear, 0, 70, 1_000)),
            // Another host has claimed.
            (false, 102, hour, (InStore::Held, 50, 20, 2_000)),
        ] {
            let mut hold = held();
            if given_up {
                hold.give_up();
            }
            hold.drawn = true;
            hold.granted(run(first, 50), holding, BootMs(2_000));
            assert_eq!(hold.drawn, holding != hour);
            let all = hold.with_held(run(first, 50));
            hold.keep(Some(all));
            assert_eq!(state(&hold), expected, "{given_up} {first} {holding:?}");
            assert_eq!((hold.own_end, hold.low), (first + 50, u64::from(all.count) / 2));
        }
    }

    #[test]
    fn a_record_that_was_given_up_for_lost_is_cleared_when_the_store_still_has_it() {
        let mut hold = held();
        hold.exhausted();
        hold.granted(run(101, 50), Holding::Wanted, BootMs(2_000));
        assert_eq!(hold.in_store, InStore::ToClear);
    }

    #[test]
    fn more_ids_than_a_run_has_are_dropped() {
        let mut hold = held();
        assert_eq!(hold.with_held(run(101, u32::MAX)), run(101, u32::MAX));
        assert_eq!((hold.left(), hold.dropped), (0, 20));
    }

    #[test]
    fn another_host_s_hold_is_over_when_its_end_has_not_moved_for_its_time() {
        let mut hold = held();
        assert_eq!(hold.held_elsewhere(BootMs(2_000), 150, 500), BootMs(2_050));
        assert_eq!(state(&hold), (InStore::Nothing, 0, 20, 2_000));
        let waits = HoldNeed { waited_for: 1, ..NEED };
        let over = |hold: &mut StrictHold, now| {
            hold.wish(BootMs(now), waits).map(|(_, wish)| wish.over).unwrap()
        };
        assert_eq!([2_499, 2_500].map(|now| over(&mut hold, now)), [0, 150]);
        hold.held_elsewhere(BootMs(2_400), 150, 600);
        assert_eq!([2_599, 2_600].map(|now| over(&mut hold, now)), [0, 150]);
        hold.held_elsewhere(BootMs(2_450), 160, 500);
        assert_eq!([2_949, 2_950].map(|now| over(&mut hold, now)), [0, 160]);
        assert_eq!(hold.alone_since, BootMs(2_450));
        hold.granted(run(160, 1), FREE, BootMs(3_000));
        assert_eq!(over(&mut hold, 4_000), 0);
    }
}
