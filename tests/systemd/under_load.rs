//! Restarts, crashes and upgrades while applications draw: no application gets an error, and no id is issued twice.

use std::time::Duration;

use crate::host::eventually;
use crate::load::{Draw, Drawn, Load};
use crate::machine::{Machine, WITHIN};
use crate::package::packages;

const TAG: &str = "orders";

/// The number of threads that draw.
const CLIENTS: usize = 4;

/// The time between two disruptions.
const BETWEEN: Duration = Duration::from_millis(500);

/// A machine, and clients that draw from its daemon.
fn drawing() -> (Machine, Load) {
    let machine = Machine::with_leafd();
    machine.ok("echo 'worker = \"static:3\"' >>/etc/leafd/leafd.toml; systemctl restart leafd");
    let draw = |thread| {
        let tag = if thread % 2 == 0 { TAG } else { "snowflake" };
        Draw::steady(&machine.socket(), tag)
    };
    let load = Load::start((0..CLIENTS).map(draw).collect());
    load.under_way();
    (machine, load)
}

/// Fails if an application got an error, and prints what it got.
#[track_caller]
fn nobody_noticed(what: &str, times: usize, load: Load, machine: &Machine) {
    load.each_draws(WITHIN);
    let drawn: Drawn = load.stop();
    let (requests, longest) = (drawn.requests, drawn.longest);
    let (errors, duplicates) = (drawn.error_count(), drawn.duplicates());
    println!(
        "{times} {what}: {requests} requests, {} ids, {errors} errors, {duplicates} duplicates, longest wait {longest:?}",
        drawn.count()
    );
    assert!(drawn.errors.is_empty(), "{what}: {:?}\n{}", drawn.errors, machine.log());
    drawn.assert_sound();
}

#[test]
fn restarts_go_unnoticed() {
    let (machine, load) = drawing();
    for _ in 0..4 {
        std::thread::sleep(BETWEEN);
        let before = machine.unit("MainPID");
        machine.ok("systemctl restart leafd");
        assert_ne!(machine.unit("MainPID"), before);
        load.each_draws(WITHIN);
    }
    nobody_noticed("restarts", 4, load, &machine);
    assert!(machine.log().contains("stopped cleanly: the next start"));
}

#[test]
fn crashes_go_unnoticed() {
    let (machine, load) = drawing();
    for crash in 1..=4 {
        std::thread::sleep(BETWEEN);
        machine.ok("systemctl kill --signal=KILL leafd");
        eventually("an automatic restart", WITHIN, || {
            let restarted = machine.unit("NRestarts") == crash.to_string();
            (restarted && machine.unit("ActiveState") == "active").then_some(())
        });
        load.each_draws(WITHIN);
    }
    nobody_noticed("kill -9", 4, load, &machine);
}

#[test]
fn upgrades_of_the_package_go_unnoticed() {
    let (machine, load) = drawing();
    for package in &packages().later {
        std::thread::sleep(BETWEEN);
        let before = machine.unit("MainPID");
        machine.install(package);
        assert_ne!(machine.unit("MainPID"), before, "the new daemon runs");
        load.each_draws(WITHIN);
    }
    let version = machine.ok("dpkg-query --show --showformat '${Version}' leafd");
    assert!(version.ends_with("+test3"), "{version}");
    nobody_noticed("package upgrades", packages().later.len(), load, &machine);
}
