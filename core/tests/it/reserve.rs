//! What a host holds in reserve of a tag: how soon it lasts for the autonomy, and what a crash leaves of it.

use leafd_core::segment::{Allocator, PrefetchPolicy};
use leafd_core::{BootMs, Want};
use leafd_wire::Run;

use crate::seed::{Seeded, seeds};

const AUTONOMY_S: u64 = 600;

const POLICY: PrefetchPolicy = PrefetchPolicy {
    autonomy_ms: AUTONOMY_S * 1_000,
    step_max: 10_000_000,
    mark_ahead_ms: 5_000,
    hold_ms: 0,
};

const STEP: u64 = 1_000;

/// How long a reserve may take, in milliseconds.
const REACHED_MS: u64 = 30_000;

/// How often the daemon looks at each tag, in milliseconds.
const LOOK_MS: u64 = 10_000;

/// A tag on a host whose journal answers at once, and whose store may be away.
struct Host {
    allocator: Allocator<u32>,
    max_id: u64,
    claims: u64,
    store_away: bool,
    now: BootMs,
    /// Ids are drawn at this rate; the fraction that is owed.
    owed: f64,
}

impl Host {
    fn new() -> Host {
        let allocator = Allocator::new(POLICY, 1, BootMs(0));
        Host { allocator, max_id: 1, claims: 0, store_away: false, now: BootMs(0), owed: 0.0 }
    }

    /// Does what the allocator wants until it wants nothing more.
    fn attend(&mut self) {
        loop {
            let moves = self.allocator.marks_wanted(self.now);
            if !moves.is_empty() {
                self.allocator.marked(self.now, &moves);
            }
            let order = self.allocator.claim_wanted(self.now);
            if order.is_none() && moves.is_empty() {
                return;
            }
            let Some(order) = order else { continue };
            if self.store_away {
                self.allocator.claim_failed(BootMs(self.now.0 + 1_000));
                return;
            }
            let count = order.want.max(STEP.min(order.step_max));
            let claimed = Run { first: self.max_id, count: count as u32, stride: 1 };
            self.max_id = claimed.end();
            self.claims += 1;
            let moved = self.allocator.claimed(self.now, 0, claimed, STEP).expect("it ascends");
            assert!(self.allocator.add_segment(0, claimed, moved.mark).is_empty());
        }
    }

    /// Draws ids for this long. Those that can't be had are not asked for again.
    fn draw(&mut self, rate: f64, ms: u64) {
        for _ in 0..ms / 100 {
            self.now.0 += 100;
            self.owed += rate / 10.0;
            while self.owed >= 1.0 {
                let count = self.owed.min(100_000.0) as u32;
                self.owed -= f64::from(count);
                self.request(count);
            }
            if self.now.0.is_multiple_of(LOOK_MS) {
                self.attend();
            }
        }
    }

    fn request(&mut self, count: u32) {
        let (want, mut runs) = (Want { count, allow_partial: false }, Vec::new());
        if self.allocator.take(want, &mut runs) {
            if self.allocator.held.wants_attention() {
                self.attend();
            }
            return;
        }
        self.allocator.waiting.push(0, want, self.now, 0);
        self.attend();
        while self.allocator.serve_next(&mut runs).is_some() {}
        self.allocator.waiting.expire(self.now);
    }

    /// The daemon ends and starts again.
    fn restart(&mut self, crash: bool) {
        let mut left: Vec<Run> = self
            .allocator
            .held
            .exact_marks()
            .filter_map(|(_, run, first)| run.without_first(run.count_below(first)))
            .collect();
        if crash {
            let mut runs = Vec::new();
            self.allocator.take(Want { count: u32::MAX, allow_partial: true }, &mut runs);
            let skipped = runs.last().map_or(0, Run::end);
            left = left
                .into_iter()
                .filter_map(|run| run.without_first(run.count_below(skipped)))
                .collect();
        }
        self.allocator = Allocator::new(POLICY, 1, self.now);
        self.allocator.set_step(STEP);
        assert!(self.allocator.restore(0, left, self.max_id).is_empty());
        self.attend();
    }

    /// Checks that what is held lasts for the autonomy at this rate, or is all that may be held ahead.
    fn check(&mut self, rate: f64, when: &str) {
        let needed = (rate * AUTONOMY_S as f64).min(POLICY.step_max as f64 / 2.0);
        let held = self.allocator.held.unissued() as f64;
        assert!(held >= needed * 0.85, "{when}, {rate} ids/s: {held} held of {needed}");
    }
}

/// From one in ten seconds to a million a second.
fn any_rate(random: &mut Seeded) -> f64 {
    10f64.powf(random.u32(0..700) as f64 / 100.0 - 1.0)
}

#[test]
fn the_reserve_lasts_for_the_autonomy_soon_after_whatever_happened() {
    for mut random in seeds(60) {
        let mut host = Host::new();
        for _ in 0..4 {
            let rate = any_rate(&mut random);
            let when = match random.u32(0..4) {
                0 => {
                    host.restart(random.bool());
                    "after a restart"
                }
                1 => {
                    host.draw(0.0, random.u64(1..2_000) * 1_000);
                    "after a rest"
                }
                2 => {
                    host.store_away = true;
                    host.draw(rate, random.u64(1..1_200) * 1_000);
                    host.store_away = false;
                    "after an outage"
                }
                _ => "at another rate",
            };
            host.now.0 += random.u64(0..100) * 100;
            host.now.0 -= host.now.0 % 100;
            host.draw(rate, REACHED_MS);
            let claims = host.claims;
            let most_s = if rate > 10_000.0 { 60 } else { 1_800 };
            for _ in 0..most_s {
                host.check(rate, when);
                host.draw(rate, 1_000);
            }
            let needed =
                (rate * AUTONOMY_S as f64).clamp(STEP as f64, POLICY.step_max as f64 / 2.0);
            let usual = rate * most_s as f64 / needed;
            let claims = host.claims - claims;
            assert!(
                claims as f64 <= 2.0 * usual + 2.0,
                "{claims} claims instead of {usual}: {rate} ids/s"
            );
        }
    }
}

#[test]
fn a_crash_during_an_outage_leaves_half_of_the_reserve_after_any_burst() {
    for mut random in seeds(300) {
        let mut host = Host::new();
        host.draw(any_rate(&mut random).min(1_000.0), 60_000);
        host.store_away = true;
        for _ in 0..random.usize(1..4) {
            let held = host.allocator.held.unissued();
            let burst = random.u64(1..=(held / 3).max(1));
            let (mut left, largest) = (burst, random.u64(1..=burst));
            while left > 0 {
                let count = left.min(largest);
                left -= count;
                host.request(count as u32);
                host.now.0 += random.u64(0..50);
            }
            host.restart(true);
            let kept = host.allocator.held.unissued();
            assert!(kept >= (held / 2).saturating_sub(64), "{kept} of {held} after {burst}");
        }
    }
}

#[test]
fn a_burst_through_all_that_is_held_needs_few_commits() {
    let mut host = Host::new();
    host.draw(10_000.0, 60_000);
    host.store_away = true;
    let mut commits = 0;
    while host.allocator.held.unissued() > 0 {
        let moves = host.allocator.marks_wanted(host.now);
        if !moves.is_empty() {
            commits += 1;
            host.allocator.marked(host.now, &moves);
        }
        let mut runs = Vec::new();
        if !host.allocator.take(Want { count: 1, allow_partial: false }, &mut runs) {
            host.allocator.waiting.push(0, Want { count: 1, allow_partial: false }, host.now, 0);
        }
        while host.allocator.serve_next(&mut runs).is_some() {}
    }
    assert!(commits <= 120, "{commits}");
}
