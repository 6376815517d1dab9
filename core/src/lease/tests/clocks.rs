//! Clocks that are wrong, step, or are years ahead.

use super::*;
use crate::lease::{Clock, Reference, Skew};

const THRESHOLD_MS: u64 = 50;

fn at(unix: u64, boot: u64) -> Now {
    Now { unix: UnixMs(unix), boot: BootMs(boot) }
}

/// A clock that a registry has confirmed at 100,000.
fn confirmed() -> Clock {
    let mut clock = Clock::new(at(100_000, 1_000), THRESHOLD_MS);
    clock.judge(at(100_000, 1_000), at(100_000, 1_000), UnixMs(100_000), Vec::new());
    clock
}

#[test]
fn a_clock_is_measured_at_the_middle_between_question_and_answer() {
    let mut clock = Clock::new(at(100_000, 1_000), THRESHOLD_MS);
    clock.judge(at(100_000, 1_000), at(100_040, 1_040), UnixMs(99_980), Vec::new());
    assert_eq!((clock.offset_ms, clock.skew), (Some(40), None), "20 to 60 ms ahead");
}

#[test]
fn a_clock_may_differ_by_the_threshold_and_no_more() {
    for (own, by_ms) in [(100_050, 0), (100_051, 51), (99_950, 0), (99_949, 51)] {
        let mut clock = Clock::new(at(own, 1_000), THRESHOLD_MS);
        clock.judge(at(own, 1_000), at(own, 1_000), UnixMs(100_000), Vec::new());
        assert_eq!(clock.skew.map_or(0, |skew| skew.by_ms), by_ms, "at {own}");
    }
}

#[test]
fn a_confirmed_clock_is_doubted_only_by_three_peers() {
    let now = at(100_000, 1_000);
    for (mut clock, peers, doubted) in
        [(Clock::new(now, THRESHOLD_MS), 1, true), (confirmed(), 2, false), (confirmed(), 3, true)]
    {
        clock.judge(now, now, now.unix, vec![-60; peers]);
        let skew = Skew { by_ms: 60, ahead: true, of: Reference::Peers(peers) };
        assert_eq!(clock.skew, doubted.then_some(skew));
    }
}

#[test]
fn steps_count_from_the_last_confirmation() {
    let mut clock = confirmed();
    clock.judge(at(100_040, 1_000), at(100_040, 1_000), UnixMs(100_040), Vec::new());
    assert_eq!(clock.held_back_ms(at(100_090, 1_000)), 0, "within the threshold");
    assert_eq!(clock.held_back_ms(at(100_091, 1_000)), 51);
    assert_eq!(
        confirmed().held_back_ms(at(200_150, 101_000)),
        0,
        "it may have been slewed by 100 ms"
    );
    // The registry's clock is moved. This host's is accepted as long as it has not stepped back.
    clock.judge(at(100_040, 1_000), at(100_040, 1_000), UnixMs(200_000), Vec::new());
    assert_eq!(clock.refuses(at(99_990, 1_000)), None);
    assert_eq!(clock.refuses(at(99_989, 1_000)), clock.skew);
}

#[test]
fn a_host_whose_clock_is_off_claims_nothing_and_says_by_how_much() {
    for (offset_ms, ahead) in [(7_000, true), (-7_000, false), (10 * 365 * 86_400_000, true)] {
        let mut world = World::new();
        let settings = world.settings("a", 0..4);
        let mut host = Host::start(&mut world, settings, None, UnixMs(0), offset_ms);
        host.lease.want();
        host.settle(&mut world);
        let skew = Skew { by_ms: offset_ms.unsigned_abs(), ahead, of: Reference::Registry };
        assert_eq!(skew.to_string().contains("ms ahead of the worker registry's"), ahead);
        assert_eq!(host.worker(&world), Err(LeaseProblem::Clock(skew)));
        assert!(world.entries.is_empty() && host.journal.is_none());
        host.offset_ms = 0;
        host.pass(&mut world, 3);
        host.draw(&mut world).unwrap();
    }
}

#[test]
fn a_new_host_is_held_against_its_live_peers() {
    let mut world = World::new();
    let settings = world.settings("a", 0..8);
    let mut first = Host::start(&mut world, settings, None, UnixMs(0), 4_000);
    first.lease.want();
    first.settle(&mut world);
    first.draw(&mut world).unwrap();
    let settings = world.settings("b", 0..8);
    let mut second = Host::start(&mut world, settings, None, UnixMs(0), -4_000);
    second.lease.want();
    second.settle(&mut world);
    let skew = Skew { by_ms: 8_000, ahead: false, of: Reference::Peers(1) };
    assert_eq!(second.worker(&world), Err(LeaseProblem::Clock(skew)));
    let words = "the host's clock is 8000 ms behind those of 1 live hosts";
    assert_eq!(skew.to_string(), words);
}

#[test]
fn a_peer_that_stopped_or_is_silent_casts_no_doubt() {
    for stopped in [true, false] {
        let mut world = World::new();
        let settings = world.settings("a", 0..8);
        let mut first = Host::start(&mut world, settings, None, UnixMs(0), 4_000);
        first.lease.want();
        first.settle(&mut world);
        if stopped {
            first.stop(&mut world);
        } else {
            world.time_ms += first.settings.alive_ms() + 1;
        }
        let settings = world.settings("b", 0..8);
        let mut second = Host::start(&mut world, settings, None, UnixMs(0), -4_000);
        second.lease.want();
        second.settle(&mut world);
        second.draw(&mut world).unwrap();
    }
}

#[test]
fn a_boot_years_ahead_burns_neither_worker_nor_journal() {
    let years_ms = 20 * 365 * 86_400_000;
    for away in [true, false] {
        let mut world = World::new();
        let mut host = drawing(&mut world, "a", 0..4);
        let worker = host.worker(&world).unwrap();
        host.offset_ms = years_ms;
        world.away = away;
        let mut host = host.restart(&mut world);
        host.settle(&mut world);
        assert!(host.draw(&mut world).is_err());
        world.away = false;
        host.offset_ms = 0;
        host.pass(&mut world, 3);
        assert_eq!(host.worker(&world), Ok(worker));
        host.draw(&mut world).unwrap();
        assert!(host.layout_bound.0 < world.time_ms + 2 * LEASE_MS);
    }
}

#[test]
fn a_forward_step_is_left_out_until_the_registry_confirms_it() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..4);
    host.offset_ms = 3_600_000;
    for _ in 0..20 {
        host.pass(&mut world, 1);
        host.draw(&mut world).unwrap();
    }
    assert!(host.layout_bound.0 < world.time_ms + 5_000);
    assert!(matches!(host.lease.clock.skew, Some(Skew { ahead: true, .. })));
    assert_eq!(host.lease.clock.held_back_ms(host.now(&world)), 3_600_000);
    // A paused virtual machine: its boot-time clock stood still too, and the registry agrees with the wall clock.
    world.time_ms += 3_600_000;
    world.offset_ms = 0;
    host.offset_ms = 0;
    host.pass(&mut world, 4);
    host.draw(&mut world).unwrap();
}

#[test]
fn a_step_back_beyond_the_threshold_stops_and_says_so() {
    let mut world = World::new();
    let mut host = drawing(&mut world, "a", 0..4);
    host.offset_ms = -60_000;
    host.pass(&mut world, 10);
    let Err(LeaseProblem::Clock(skew)) = host.worker(&world) else { panic!("{:?}", host.lease) };
    assert!(!skew.ahead && skew.by_ms >= 59_000, "{skew}");
    host.offset_ms = 0;
    host.pass(&mut world, 4);
    host.draw(&mut world).unwrap();
}

/// A stop covers everything that was issued, even if the clock shows an earlier time at the stop, and even if the clock
/// allowed no ids during a whole life.
#[test]
fn a_stop_under_a_clock_that_is_behind_gives_nothing_back_that_was_issued() {
    for restarted in [false, true] {
        let mut world = World::new();
        let mut settings = world.settings("a", 0..1);
        settings.restart_grace_ms = 0;
        let mut host = Host::start(&mut world, settings, None, UnixMs(0), 4_000);
        host.lease.want();
        host.settle(&mut world);
        host.draw(&mut world).unwrap();
        let issued_below = host.generator.issued_below();
        host.offset_ms = -3_600_000;
        if restarted {
            host = host.restart(&mut world);
        }
        host.pass(&mut world, 5);
        assert!(matches!(host.worker(&world), Err(LeaseProblem::Clock(_))));
        host.stop(&mut world);
        assert!(world.entries[&0].holding.expires >= issued_below);
    }
}

#[test]
fn a_registry_whose_clock_moved_stops_nobody_who_has_a_worker() {
    for offset_ms in [3_600_000, -3_600_000] {
        let mut world = World::new();
        let mut host = drawing(&mut world, "a", 0..4);
        world.offset_ms = offset_ms;
        host.pass(&mut world, 100);
        host.draw(&mut world).unwrap();
        assert!(host.lease.clock.skew.is_some());
        let mut late = world.host("b", 0..4);
        late.lease.want();
        late.settle(&mut world);
        assert!(matches!(late.worker(&world), Err(LeaseProblem::Clock(_))));
    }
}
