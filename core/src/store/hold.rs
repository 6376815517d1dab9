//! The record, in a strict tag's row, of the host that holds it. It is in the number that says whether the tag is
//! strict: 0 for a plain tag, 1 for a strict tag that no host holds, 1 more than the time in milliseconds if a host
//! holds it, and the negative of that if another host wants it.
//!
//! The record doesn't name the host. Each claim moves the row's end, so the host that claimed last is the one whose last
//! claim ended there.

/// The largest time for which a tag is held, in milliseconds. leafd writes no larger one.
const HOLD_MS_MAX: u64 = 60_000;

/// The number of a strict tag that no host holds.
const FREE: i64 = 1;

/// A claim's wishes for a strict tag's row. The default has none, and doesn't override another host's record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldWish {
    /// The end of this host's last claim. If the row still has it, no other host has claimed since.
    pub own_end: u64,
    /// The row's end at which another host's hold has expired, so that this claim may override it.
    pub over: u64,
    /// How long to hold the tag, in milliseconds, if no other host has claimed since; 0 to release it.
    pub ms: u64,
}

/// The record in a tag's row after a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// No host holds the tag. If another host `wanted` it, that host no longer waits.
    Free { wanted: bool },
    /// This host holds it for this time, in milliseconds, from before it sent the claim.
    Held(u64),
    /// This host still holds it and must stop, because another host wants it.
    Wanted,
}

/// A claim's effect on the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldPlan {
    /// It claims, and writes this number.
    Claim { holding: Holding, number: i64 },
    /// It claims nothing, and writes this number, because another host holds the tag for this time, in milliseconds.
    Wait { ms: u64, number: i64 },
}

/// Decides about a row with this number in which the next claim begins at `end`.
pub fn plan_hold(number: i64, end: u64, wish: HoldWish) -> HoldPlan {
    let held_ms = number.unsigned_abs().saturating_sub(FREE.unsigned_abs()).min(HOLD_MS_MAX);
    let (is_held, is_own) = (held_ms > 0, end == wish.own_end);
    if number == 0 {
        return HoldPlan::Claim { holding: Holding::Free { wanted: false }, number };
    }
    if is_held && !is_own && end != wish.over {
        return HoldPlan::Wait { ms: held_ms, number: -number.saturating_abs() };
    }
    let ms = wish.ms.min(HOLD_MS_MAX);
    if ms == 0 || !is_own {
        let wanted = is_held && is_own && number.is_negative();
        return HoldPlan::Claim { holding: Holding::Free { wanted }, number: FREE };
    }
    if is_held && number.is_negative() {
        return HoldPlan::Claim { holding: Holding::Wanted, number };
    }
    HoldPlan::Claim { holding: Holding::Held(ms), number: FREE + ms.cast_signed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number and what the claim makes of it, for a row that ends at 100.
    fn check(number: i64, wish: HoldWish, expected: HoldPlan) {
        assert_eq!(plan_hold(number, 100, wish), expected, "{number}, {wish:?}");
    }

    const STRANGER: HoldWish = HoldWish { own_end: 90, over: 0, ms: 2_000 };
    const OWN: HoldWish = HoldWish { own_end: 100, over: 0, ms: 2_000 };

    #[test]
    fn only_the_host_that_claimed_last_may_hold_the_tag() {
        let free = HoldPlan::Claim { holding: Holding::Free { wanted: false }, number: 1 };
        let held = HoldPlan::Claim { holding: Holding::Held(2_000), number: 2_001 };
        check(1, HoldWish::default(), free);
        check(1, STRANGER, free);
        check(1, OWN, held);
        check(501, OWN, held);
        check(2_001, HoldWish { ms: 0, ..OWN }, free);
        let plain = HoldPlan::Claim { holding: Holding::Free { wanted: false }, number: 0 };
        check(0, OWN, plain);
    }

    #[test]
    fn another_host_gets_nothing_and_is_noted() {
        check(501, STRANGER, HoldPlan::Wait { ms: 500, number: -501 });
        check(-501, STRANGER, HoldPlan::Wait { ms: 500, number: -501 });
        check(501, HoldWish { over: 99, ..STRANGER }, HoldPlan::Wait { ms: 500, number: -501 });
        let over = HoldWish { over: 100, ..STRANGER };
        let free = HoldPlan::Claim { holding: Holding::Free { wanted: false }, number: 1 };
        check(501, over, free);
        check(-501, over, free);
    }

    #[test]
    fn a_holder_hears_that_it_is_wanted_until_it_gives_up() {
        check(-2_001, OWN, HoldPlan::Claim { holding: Holding::Wanted, number: -2_001 });
        let gives_up = HoldWish { ms: 0, ..OWN };
        let holding = Holding::Free { wanted: true };
        check(-2_001, gives_up, HoldPlan::Claim { holding, number: 1 });
    }

    #[test]
    fn a_number_that_leafd_never_writes_delays_for_a_minute_at_most() {
        for number in [i64::MIN, i64::MAX] {
            let plan = plan_hold(number, 100, STRANGER);
            assert!(matches!(plan, HoldPlan::Wait { ms: HOLD_MS_MAX, .. }), "{plan:?}");
        }
        check(-1, OWN, HoldPlan::Claim { holding: Holding::Held(2_000), number: 2_001 });
    }
}
