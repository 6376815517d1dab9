//! The wall clock steps while the real daemon serves.

use std::time::Duration;

use leafd_tests::wall_clock::{self, WallClock};
use leafd_wire::Status;

use crate::host::{Host, eventually};
use crate::raw::{Raw, ids_request};
use crate::seed::seeds;

/// How long a daemon may take for anything, on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

/// Ids count as having the right time if their time differs by less than this.
const RIGHT_MS: i64 = 1_500;

/// A host whose wall clock the test controls.
struct Faked {
    host: Host,
    clock: WallClock,
}

impl Faked {
    fn start() -> Faked {
        let (mut host, clock) = WallClock::of(Host::new().worker(17));
        host.start();
        host.create("orders");
        Faked { host, clock }
    }

    /// Sets the clock this many seconds off the right time.
    fn step(&self, seconds: i64) {
        self.clock.step(seconds);
    }
}

/// Draws, and checks that ids only increase.
struct Rising {
    raw: Raw,
    last: u64,
    drawn: u64,
}

impl Rising {
    fn new(host: &Host) -> Rising {
        Rising { raw: host.raw(), last: 0, drawn: 0 }
    }

    #[track_caller]
    fn draw(&mut self, tag: &str, count: u32) {
        for id in self.raw.draw(tag, count) {
            assert!(id > self.last, "{id} follows {}", self.last);
            self.last = id;
            self.drawn += 1;
        }
    }

    /// How far the last id's time is ahead of the right time, in milliseconds.
    fn ahead_ms(&self) -> i64 {
        wall_clock::ahead_ms(self.last)
    }
}

/// Draws some ids of both kinds.
#[track_caller]
fn draw_both(snowflakes: &mut Rising, orders: &mut Rising) {
    snowflakes.draw("snowflake", 20);
    orders.draw("orders", 20);
}

/// Draws both kinds until the ids have the right time. A new journal's first ids are ahead of it by max_drift.
#[track_caller]
fn until_right(snowflakes: &mut Rising, orders: &mut Rising) {
    eventually("ids of the right time", WITHIN, || {
        draw_both(snowflakes, orders);
        (snowflakes.ahead_ms().abs() < RIGHT_MS).then_some(())
    });
}

#[test]
fn a_clock_that_steps_back_two_seconds_stops_nothing() {
    let faked = Faked::start();
    let (mut snowflakes, mut orders) = (Rising::new(&faked.host), Rising::new(&faked.host));
    // An id that arrives before the clock has caught up with the ids before the step has not waited for it. If the
    // machine stalls for too long, the clock steps once more.
    eventually("ids without a wait for the clock", WITHIN, || {
        until_right(&mut snowflakes, &mut orders);
        let before = snowflakes.last;
        faked.step(-2);
        draw_both(&mut snowflakes, &mut orders);
        let caught_up = wall_clock::ahead_ms(before) < -2_000;
        faked.step(0);
        (!caught_up).then_some(())
    });
    // This lasts so long that the clock catches up with the ids.
    faked.step(-2);
    let before = snowflakes.last;
    eventually("the clock has caught up", WITHIN, || {
        draw_both(&mut snowflakes, &mut orders);
        (wall_clock::ahead_ms(before) < -2_500).then_some(())
    });
    let status = faked.host.status();
    let layout = status["snowflake"]["layouts"].as_array().unwrap();
    assert_eq!(
        layout.iter().map(|layout| layout["issued"].as_u64().unwrap()).sum::<u64>(),
        snowflakes.drawn
    );
    // The clock steps forward again, and the ids follow it.
    faked.step(0);
    until_right(&mut snowflakes, &mut orders);
}

/// As when two programs set it against each other.
#[test]
fn a_clock_that_jumps_to_and_fro_stops_nothing() {
    for mut random in seeds(1) {
        let mut faked = Faked::start();
        let (mut snowflakes, mut orders) = (Rising::new(&faked.host), Rising::new(&faked.host));
        until_right(&mut snowflakes, &mut orders);
        for _ in 0..3 {
            for _ in 0..300 {
                faked.clock.step_ms(random.i64(-1_000..=1_000));
                draw_both(&mut snowflakes, &mut orders);
            }
            faked.host.kill();
            faked.host.start();
            // After a crash, ids begin further ahead of the clock than the clock jumps.
            for rising in [&mut snowflakes, &mut orders] {
                rising.raw = faked.host.raw();
            }
            faked.step(0);
            until_right(&mut snowflakes, &mut orders);
        }
        let last = snowflakes.last;
        faked.host.stop();
        faked.host.start();
        snowflakes.raw = faked.host.raw();
        snowflakes.draw("snowflake", 1);
        assert!(snowflakes.last > last);
    }
}

#[test]
fn a_clock_that_steps_back_an_hour_is_refused_until_it_is_right_again() {
    let faked = Faked::start();
    let (mut snowflakes, mut orders) = (Rising::new(&faked.host), Rising::new(&faked.host));
    draw_both(&mut snowflakes, &mut orders);
    faked.step(-3_600);
    let mut raw = faked.host.raw();
    let text = raw.refused(&ids_request("snowflake", 1, 1, 1_000), Status::ClockBehind);
    assert!(text.contains("max_drift"), "{text}");
    // The client reports how long: an hour less the allowed drift.
    let error = faked.host.client().within(Duration::from_secs(1)).next("snowflake").unwrap_err();
    assert_eq!(error.status(), Some(Status::ClockBehind), "{error}");
    let after = error.retry_after().expect("it says when").as_secs();
    assert!((3_580..=3_600).contains(&after), "{after} s");
    for _ in 0..50 {
        orders.draw("orders", 10);
        raw.refused(&ids_request("snowflake", 1, 1, 0), Status::ClockBehind);
    }
    // The status reports it as well, before any id is requested.
    let status = faked.host.status();
    let found = &status["health"]["conditions"][0];
    assert_eq!([&found["code"], &found["severity"]], ["clock_behind", "error"], "{status}");
    assert!(found["message"].as_str().unwrap().contains("another 59 min"), "{found}");
    assert_eq!(
        (&status["snowflake"]["ready"], &status["segments"]["ready"]),
        (&false.into(), &true.into())
    );
    assert!(
        status["snowflake"]["worker_error"].as_str().unwrap().contains("max_drift"),
        "{status}"
    );
    assert_eq!(faked.host.leafctl(&["ping", "--ready", "snowflake"]).status.code(), Some(4));
    faked.step(0);
    eventually("ids again", WITHIN, || {
        raw.ask("snowflake", 1, 1);
        (raw.reply().status() == Status::Ok).then_some(())
    });
    draw_both(&mut snowflakes, &mut orders);
    assert_eq!(faked.host.status()["health"]["state"], "ok");
}

/// The clock is behind by more than any lease lasts. This is reported before anybody requests an id, whether the daemon
/// was running when the clock stepped or was started later, and with a static worker as well as a leased one.
#[test]
fn a_clock_that_is_a_year_behind_makes_snowflake_ids_not_ready_and_says_why() {
    for host in [Host::new().worker(17), Host::new()] {
        let (mut host, clock) = WallClock::of(host);
        host.start();
        let first = host.raw().draw_until("snowflake", WITHIN);
        clock.step(-365 * 86_400);
        told_to_be_behind(&host);
        host.kill();
        host.start();
        told_to_be_behind(&host);
        clock.step(0);
        assert!(host.raw().draw_until("snowflake", WITHIN) > first);
        eventually("its end is told", WITHIN, || {
            (host.status()["health"]["state"] == "ok").then_some(())
        });
    }
}

#[track_caller]
fn told_to_be_behind(host: &Host) {
    let status = eventually("it is told", WITHIN, || {
        let status = host.status();
        let told = status["snowflake"]["worker_error"].as_str();
        told.is_some_and(|told| told.contains("behind")).then_some(status)
    });
    assert_eq!(
        (&status["snowflake"]["ready"], &status["segments"]["ready"]),
        (&false.into(), &true.into()),
        "{status}"
    );
    let found = &status["health"]["conditions"][0];
    assert_eq!((&found["kind"], &found["severity"]), (&"snowflake".into(), &"error".into()));
    assert!(found["remedy"].as_str().unwrap().contains("clock"), "{found}");
    let info = host.raw().info();
    assert!(!info.snowflake_ready && info.segments_ready);
    let ping = host.leafctl(&["ping", "--ready", "snowflake"]);
    assert_eq!(ping.status.code(), Some(4), "{ping:?}");
}

#[test]
fn a_restart_under_a_clock_that_is_behind_issues_nothing_below_what_was_issued() {
    let mut faked = Faked::start();
    let mut snowflakes = Rising::new(&faked.host);
    snowflakes.draw("snowflake", 100);
    for seconds in [-2, -3_600] {
        faked.step(seconds);
        faked.host.kill();
        faked.host.start();
        snowflakes.raw = faked.host.raw();
        if seconds == -2 {
            // Its mark may lie further ahead than the drift allows. Then the daemon waits for the clock.
            let id = snowflakes.raw.draw_until("snowflake", WITHIN);
            assert!(id > snowflakes.last);
            snowflakes.last = id;
        } else {
            let request = ids_request("snowflake", 1, 1, 500);
            snowflakes.raw.refused(&request, Status::ClockBehind);
        }
    }
    faked.host.raw().draw("orders", 1);
    faked.step(0);
    assert!(snowflakes.raw.draw_until("snowflake", WITHIN) > snowflakes.last);
}

#[test]
fn a_clock_beyond_the_layouts_time_bits_is_an_error_that_says_so() {
    let faked = Faked::start();
    let mut raw = faked.host.raw();
    raw.draw("snowflake", 1);
    // The clock is past 2080, and then before 2010.
    faked.step(60 * 366 * 86_400);
    raw.refused(&ids_request("snowflake", 1, 1, 500), Status::TimeExhausted);
    raw.draw("orders", 1);
    faked.step(-20 * 366 * 86_400);
    raw.ask("snowflake", 1, 1);
    let reply = raw.reply();
    assert!([Status::TimeExhausted, Status::ClockBehind].contains(&reply.status()), "{reply:?}");
    faked.step(0);
    raw.draw("orders", 1);
}
