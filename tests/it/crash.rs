//! `kill -9` at random instants under load, again and again: no id is issued twice, and few are skipped.

use std::time::{Duration, Instant};

use leafd_wire::opcode;

use crate::drawing::{Drawers, drawn};
use crate::host::Host;
use crate::seed::seeds;

/// How many kills, unless the environment says otherwise.
const ROUNDS: &str = "LEAFD_TEST_KILL_ROUNDS";
const ROUNDS_DEFAULT: u32 = 25;

/// How far marks move ahead of use, in seconds; the default setting.
const MARK_AHEAD_S: f64 = 5.0;

/// How many numbers a crash may skip at any rate: the marks of a burst, runs held by processes, and answers in transit.
const SKIPPED_FLOOR: f64 = 50_000.0;

/// The store is unavailable during a burst, and the daemon crashes after it.
#[test]
fn a_burst_and_a_kill_during_an_outage_leave_half_of_the_reserve() {
    for (step, burst) in [(8_500, 300), (45_000, 5_000)] {
        let mut host = Host::new();
        host.start();
        host.admin(opcode::TAG_CREATE, &serde_json::json!({ "tag": "orders", "step": step }));
        let mut raw = host.raw();
        let last = raw.draw("orders", 1)[0];
        let show = serde_json::json!({ "tag": "orders" });
        let end = host.admin(opcode::TAG_SHOW, &show)["max_id"].as_u64().unwrap();
        let held = end - last - 1;
        let store = rusqlite::Connection::open(host.state_dir().join("store.db")).unwrap();
        store.execute_batch("BEGIN IMMEDIATE").unwrap();
        raw.draw("orders", burst);
        host.kill();
        host.start();
        let mut raw = host.raw();
        let next = raw.draw("orders", 1)[0];
        let kept = end - next;
        assert!(kept >= held / 2, "{kept} of {held} after a burst of {burst}");
        raw.draw("orders", u32::try_from(kept - 1).unwrap());
    }
}

#[test]
fn kills_at_random_instants_give_no_id_twice() {
    let rounds = std::env::var(ROUNDS).ok().map(|text| text.parse().expect("a number of rounds"));
    let rounds: u32 = rounds.unwrap_or(ROUNDS_DEFAULT);
    for mut random in seeds(1) {
        let mut host = Host::new().worker(17);
        host.start();
        host.create("orders");
        let record = host.path("drawn");
        let drawers = Drawers::start(3, &host.socket(), &record);
        drawers.under_way();
        let started = Instant::now();
        let (mut ready_ms_max, mut down) = (0, Duration::ZERO);
        for _ in 0..rounds {
            std::thread::sleep(Duration::from_micros(random.u64(0..600_000)));
            host.kill();
            let killed = Instant::now();
            host.start();
            ready_ms_max = ready_ms_max.max(killed.elapsed().as_millis());
            down += killed.elapsed();
        }
        std::thread::sleep(Duration::from_millis(300));
        let seconds = (started.elapsed() - down).as_secs_f64();
        let errors = drawers.stop();
        let (orders, snowflakes) = (drawn(&record, "orders"), drawn(&record, "snowflake"));
        orders.assert_unique();
        snowflakes.assert_unique();
        assert!(snowflakes.ids.len() > 100 * rounds as usize, "hardly anything was drawn");

        let issued = orders.ids.len() as f64;
        let skipped = (*orders.ids.last().unwrap() as f64 - issued) / f64::from(rounds);
        let rate = issued / seconds;
        // The measured rate rises quickly and falls slowly, so twice its mean is allowed.
        let allowed = 2.0 * MARK_AHEAD_S * rate + SKIPPED_FLOOR;
        println!(
            "{rounds} kills in {seconds:.0} s of service: {} segment ids, {} snowflake ids, none twice; a crash skipped \
             {skipped:.0} numbers on average at {rate:.0} ids/s (allowed: {allowed:.0}); longest restart \
             {ready_ms_max} ms; errors: {errors:?}",
            orders.ids.len(),
            snowflakes.ids.len(),
        );
        assert!(skipped <= allowed, "a crash skips {skipped:.0} numbers at {rate:.0} ids/s");
        host.stop();
    }
}

#[test]
fn clean_restarts_under_load_give_no_errors_and_no_id_twice() {
    for mut random in seeds(1) {
        let mut host = Host::new().worker(17);
        host.start();
        host.create("orders");
        let record = host.path("drawn");
        let drawers = Drawers::start(4, &host.socket(), &record);
        drawers.under_way();
        for _ in 0..5 {
            std::thread::sleep(Duration::from_micros(random.u64(0..400_000)));
            host.stop();
            host.start();
            // A request that was cut off is retried once, so the retry must not be cut off as well.
            drawers.under_way();
        }
        let errors = drawers.stop();
        for tag in ["orders", "snowflake"] {
            let drawn = drawn(&record, tag);
            drawn.assert_unique();
            println!("{} ids of {tag} over five restarts", drawn.ids.len());
        }
        assert_eq!(errors, crate::drawing::Errors::default());
    }
}
