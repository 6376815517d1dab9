//! Wall clocks that step, or are wrong from the start, in a fleet whose other hosts continue.

use std::time::Duration;

use leafd_tests::host::eventually;
use leafd_tests::wall_clock::{WallClock, ahead_ms};

use crate::fleet::{Fleet, RESUMES_WITHIN, id_of, lease, only, recovery, refusal, served};
use crate::registry::{Backend, Registry};

const DAY: i64 = 86_400;

on_each_registry!(a_clock_that_steps, clocks_that_are_years_off_at_the_start);

fn a_clock_that_steps<B: Backend>() {
    let mut fleet = Fleet::<B>::new(Registry::shared(), 2, "30s", &[]);
    let (mut host, clock) = WallClock::of(fleet.registry.host("30s"));
    host.start();
    fleet.hosts.push(host);

    let errors = fleet.under_load("clock back 2 s", 3, |_, load| {
        clock.step(-2);
        served(load, Duration::from_secs(3));
        clock.step(0);
        Some(recovery(load))
    });
    only(&errors, &[]);

    let errors = fleet.under_load("clock back 1 h, then right", 3, |fleet, load| {
        clock.step(-3_600);
        let told = refusal(&fleet.hosts[2], RESUMES_WITHIN);
        assert!(told.contains("behind the worker registry's"), "{told}");
        clock.step(0);
        Some(recovery(load))
    });
    only(&errors, &["NO_WORKER", "CLOCK_BEHIND", "DEADLINE"]);

    for (fault, seconds) in
        [("clock forward 1 h, then right", 3_600), ("clock forward 20 years", 20 * 365 * DAY)]
    {
        let errors = fleet.under_load(fault, 3, |fleet, load| {
            clock.step(seconds);
            served(load, Duration::from_secs(3));
            let known = lease(&fleet.hosts[2]);
            assert!(known["clock_held_back_ms"].as_u64() > Some(3_000_000), "{known}");
            let ahead = ahead_ms(id_of(&fleet.hosts[2]));
            assert!(ahead.abs() < 2_000, "{ahead} ms ahead");
            clock.step(0);
            eventually("the clock is right", Duration::from_secs(10), || {
                (lease(&fleet.hosts[2])["clock_error"].is_null()).then_some(())
            });
            Some(recovery(load))
        });
        only(&errors, &[]);
    }
    fleet.finish();
}

fn clocks_that_are_years_off_at_the_start<B: Backend>() {
    let mut fleet = Fleet::<B>::new(Registry::shared(), 3, "30s", &[]);
    for (fault, years, said) in [
        ("a host starts with its clock 20 years ahead, then right", 20, "ahead of"),
        ("a host starts with its clock 5 years behind, then right", -5, "behind"),
    ] {
        let (mut host, clock) = WallClock::of(fleet.registry.host("30s"));
        let mut ids = Vec::new();
        let errors = fleet.under_load(fault, 3, |_, load| {
            clock.step(years * 365 * DAY);
            host.start();
            // On a busy machine, the registry's first answer can be late, which is reported before the clock.
            eventually("the clock is refused", RESUMES_WITHIN, || {
                let told = refusal(&host, RESUMES_WITHIN);
                (told.contains(said) && told.contains("the worker registry's")).then_some(())
            });
            assert!(lease(&host)["worker"].is_null(), "nothing is claimed");
            clock.step(0);
            let begun = std::time::Instant::now();
            ids.push(id_of(&host));
            let recovered = begun.elapsed();
            // The same with a journal, of which nothing is lost.
            host.kill();
            clock.step(years * 365 * DAY);
            host.start();
            refusal(&host, RESUMES_WITHIN);
            host.kill();
            clock.step(0);
            host.start();
            ids.push(id_of(&host));
            load.each_draws(Duration::from_secs(2));
            Some(recovered)
        });
        only(&errors, &[]);
        assert!(ahead_ms(ids[1]) < 8_000, "{} ms ahead", ahead_ms(ids[1]));
        fleet.add(&ids);
    }
    fleet.finish();
}
