//! The units: what starts the daemon, who may connect, what systemd and its journal learn, and how the daemon is kept
//! alive.

use std::time::Instant;

use leafd_client::Error;
use serde_json::json;

use crate::host::eventually;
use crate::machine::{Machine, STRANGER, WITHIN, as_stranger};

/// The maximum exposures that `systemd-analyze security` may report: with any store, and with the embedded one without
/// a network.
const EXPOSURE_MAX: [f64; 2] = [1.3, 0.6];

#[test]
fn the_socket_outlives_the_daemon_and_starts_it() {
    let machine = Machine::with_leafd();
    let inode = machine.ok("stat --format=%i /run/leafd/leafd.sock");
    assert_eq!(machine.ok("leafctl next orders"), "1\n");
    machine.ok("systemctl stop leafd.service");
    assert_eq!(machine.unit("ActiveState"), "inactive");
    machine.logged("stopped cleanly: the next start");
    // The first client starts the daemon, and is answered.
    assert_eq!(machine.client().next("orders").unwrap(), 2);
    assert_eq!(machine.unit("ActiveState"), "active");
    assert_eq!(
        machine.ok("stat --format=%i /run/leafd/leafd.sock"),
        inode,
        "it is the same socket"
    );
    machine.ok("systemctl stop leafd.socket");
    assert_eq!(machine.unit("ActiveState"), "inactive");
    let (code, said) = machine.fails("leafctl ping");
    assert!(code == Some(3) && said.contains("No such file"), "{code:?} {said}");
    // If the service is not running at all, starting the socket is enough.
    machine.ok("systemctl start leafd.socket");
    machine.ok("leafctl ping");
    // Stale variables of a past activation are ignored.
    machine.ok("systemctl stop leafd.socket; rm -rf /run/leafd; LISTEN_PID=1 LISTEN_FDS=1 timeout --preserve-status 2 leafd --set state_dir=/root/state --set socket=/root/leafd.sock");
}

#[test]
fn a_stop_of_both_units_lasts() {
    let machine = Machine::with_leafd();
    machine.ok("systemctl stop leafd.socket leafd");
    assert_eq!(machine.fails("leafctl ping").0, Some(3));
    assert_eq!(machine.unit("ActiveState"), "inactive");
    machine.ok("systemctl start leafd; leafctl ping");
}

#[test]
fn operators_commands_use_the_units_own_settings() {
    let machine = Machine::with_leafd();
    let as_leafd = "runuser -u leafd -- leafd doctor --config /etc/leafd/leafd.toml";
    for doctor in ["leafd doctor", as_leafd] {
        let said = machine.ok(doctor);
        assert!(said.contains("/var/lib/leafd has owner") && said.contains("0 failed"), "{said}");
    }
    // Root adopts the store on the daemon's behalf, and none of its files becomes root's.
    machine.ok("systemctl stop leafd.socket leafd");
    let said = machine.ok("leafd adopt-store");
    assert!(said.contains("sqlite:/var/lib/leafd/store.db"), "{said}");
    assert_eq!(machine.ok("find /var/lib/leafd ! -user leafd"), "");
    let said = machine.ok("leafd doctor");
    assert!(said.contains("leafd.service is inactive"), "{said}");
    machine.ok("systemctl start leafd; leafctl next orders");
}

#[test]
fn a_bad_configuration_and_a_waiting_client_fail_the_socket() {
    let machine = Machine::with_leafd();
    machine.ok("cp /etc/leafd/leafd.toml /root/good.toml
        echo 'autonmy = \"5m\"' >>/etc/leafd/leafd.toml
        systemctl stop leafd");
    let (_, said) = machine.fails("leafctl next orders --deadline-ms 60000");
    eventually("the socket fails", WITHIN, || {
        let state = machine.run("systemctl show leafd.socket --property Result").stdout;
        (state == b"Result=trigger-limit-hit\n").then_some(())
    });
    let starts = machine.log().matches("did you mean autonomy?").count();
    assert!((1..=25).contains(&starts), "{starts} starts; the client said {said}");
    // Once the configuration is fixed, one command starts both.
    machine.ok("cp /root/good.toml /etc/leafd/leafd.toml; systemctl start leafd; leafctl ping");
}

#[test]
fn only_members_of_the_group_come_in() {
    let machine = Machine::with_leafd();
    let group = machine.ok("getent group leafd | cut -d: -f3");
    let alone = as_stranger("--clear-groups");
    let member = as_stranger(&format!("--groups={}", group.trim_end()));
    let (code, said) = machine.fails(&format!("{alone} leafctl next orders"));
    assert!(code == Some(3) && said.contains("Permission denied"), "{code:?} {said}");
    assert_eq!(machine.ok(&format!("{member} leafctl next orders")), "1\n");
    // They may draw, but nothing else. In the sandbox, the daemon still sees their users.
    let (code, said) = machine.fails(&format!("{member} leafctl tag create mine"));
    assert!(code == Some(1) && said.contains(&format!("uid {STRANGER} ")), "{code:?} {said}");
    let (_, said) = machine.fails(&format!("{member} cat /var/lib/leafd/journal.db"));
    assert!(said.contains("Permission denied"), "{said}");
}

#[test]
fn the_sandbox_is_tight_and_lets_it_work() {
    let machine = Machine::with_leafd();
    let exposure = || {
        let table = machine.ok("systemd-analyze security leafd.service --no-pager");
        let (_, last) = table.split_once("exposure level for leafd.service: ").unwrap();
        let level = last.split_whitespace().next().unwrap().parse::<f64>().unwrap();
        (level, table)
    };
    let (network, table) = exposure();
    assert!(network <= EXPOSURE_MAX[0], "{table}");
    machine.ok(
        "install -D -m 644 /usr/share/doc/leafd/examples/sqlite.conf /etc/systemd/system/leafd.service.d/sqlite.conf
        echo 'worker = \"static:5\"' >>/etc/leafd/leafd.toml
        systemctl daemon-reload; systemctl restart leafd",
    );
    let (embedded, table) = exposure();
    assert!(embedded <= EXPOSURE_MAX[1], "{table}");
    println!("exposure: {network} with stores on other hosts, {embedded} with sqlite.conf");
    machine.ok(
        "leafctl ping --ready segments --ready snowflake; leafctl next orders -n 2000; leafctl next snowflake -n 2000",
    );
    let pid = machine.unit("MainPID");
    let user = machine.ok(&format!("ps -o user= -p {pid}"));
    assert_eq!(user.trim(), "leafd");
    // The sandbox has not blocked anything that the daemon needs.
    let complaints = machine.ok("journalctl --no-pager -u leafd.service -p err");
    assert!(complaints.contains("-- No entries --"), "{complaints}");
}

/// This works even in the sandbox, which hides other users' processes.
#[test]
fn the_process_that_drew_an_id_is_shown() {
    let machine = Machine::with_leafd();
    let draw = "systemd-run --quiet --wait --pipe --unit=shop.service --property=User=nobody --property=Group=leafd \
        leafctl next orders";
    let id = machine.ok(draw).trim().to_owned();
    let answer = machine.ok(&format!("leafctl whose --tag orders --json {id}"));
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let process = &answer["processes"][0];
    assert_eq!(process["uid"], json!(65_534));
    let pid = process["pid"].as_u64().filter(|pid| *pid > 1).expect("a pid");
    let words = machine.ok(&format!("leafctl whose --tag orders {id}"));
    assert!(words.contains(&format!("uid 65534, pid {pid} at ")), "{words}");
}

#[test]
fn systemd_and_its_journal_are_told_how_it_is() {
    let machine = Machine::with_leafd();
    assert_eq!(machine.unit("Type"), "notify");
    let text = machine.unit("StatusText");
    assert_eq!(text, "OK: segment and snowflake ids available");
    // Each line has its own priority, and doesn't repeat time and level.
    let priority = |what: &str| {
        let command = format!(
            "journalctl --no-pager -o json -u leafd.service --output-fields=PRIORITY,MESSAGE -g '{what}'"
        );
        let lines = machine.ok(&command);
        let line: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        let message = line["MESSAGE"].as_str().unwrap().to_owned();
        assert!(message.starts_with("leafd::"), "{message}");
        line["PRIORITY"].as_str().unwrap().to_owned()
    };
    assert_eq!(priority("ready socket="), "6");
    // This machine's files are in memory, which is worth a warning.
    assert_eq!(priority("is lost with the machine"), "4");

    // A configuration that can't be used fails the unit, and is logged as an error. Once it is fixed, a client starts
    // the daemon.
    machine.ok("echo 'nosuch = 1' >>/etc/leafd/leafd.toml");
    machine.fails("timeout 3 systemctl restart leafd");
    assert_eq!(machine.unit("ActiveState"), "failed", "it is not started again and again");
    machine.logged("nosuch");
    let errors = machine.ok("journalctl --no-pager -u leafd.service -p err -g nosuch -o cat");
    assert!(errors.starts_with("leafd: "), "{errors}");
    machine.ok("sed -i /nosuch/d /etc/leafd/leafd.toml");
    assert_eq!(machine.client().next("orders").unwrap(), 1);
}

#[test]
fn a_daemon_that_hangs_is_killed_and_started_again() {
    let machine = Machine::with_leafd();
    machine
        .write("/etc/systemd/system/leafd.service.d/watchdog.conf", "[Service]\nWatchdogSec=2s\n");
    machine.ok("systemctl daemon-reload; systemctl restart leafd");
    let client = machine.client();
    let first = client.next_batch("orders", 1).unwrap().next().unwrap();
    // A healthy daemon is left alone for longer than the watchdog waits.
    let pid = machine.unit("MainPID");
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(machine.unit("MainPID"), pid);
    machine.ok(&format!("kill -STOP {pid}"));
    let hung = Instant::now();
    let next = client.next_batch("orders", 1).unwrap().next().unwrap();
    println!("a hung daemon's client waited {:?}", hung.elapsed());
    assert!(next > first);
    machine.logged("Watchdog timeout");
    assert_ne!(machine.unit("MainPID"), pid);
    assert_eq!(machine.unit("NRestarts"), "1");
}

#[test]
fn a_reload_changes_what_can_change_while_it_serves() {
    let machine = Machine::with_leafd();
    let group = machine.ok("getent group leafd | cut -d: -f3");
    let member = as_stranger(&format!("--groups={}", group.trim_end()));
    let draw = format!("{member} leafctl next orders");
    machine.ok(&draw);
    let pid = machine.unit("MainPID");
    machine.ok("cat >>/etc/leafd/leafd.toml <<END
log = \"debug\"
autonomy = \"30m\"
connections_max = 100
[[access]]
tags = [\"orders\"]
uids = [1000]
END
        systemctl reload leafd");
    machine.logged("applied: autonomy, log, access");
    machine.logged("changed settings that need a restart: connections_max");
    eventually("the rule is in force", WITHIN, || {
        let denied = machine.run(&draw);
        (!denied.status.success()).then_some(())
    });
    machine.ok(&format!(
        "sed -i 's/uids = .1000./uids = [{STRANGER}]/' /etc/leafd/leafd.toml; systemctl reload leafd"
    ));
    machine.logged("applied: access");
    machine.ok(&draw);
    assert_eq!(machine.unit("ActiveState"), "active");

    // An invalid configuration makes the reload fail, and changes nothing.
    machine.ok("echo 'autonomy = 1' >>/etc/leafd/leafd.toml");
    machine.fails("systemctl reload leafd");
    machine.logged("autonomy");
    machine.ok(&draw);
    assert_eq!(machine.unit("MainPID"), pid, "it is the same daemon all the time");
    assert!(!matches!(machine.client().next("orders"), Err(Error::Service { .. })));
}

#[test]
fn the_keys_of_public_ids_are_a_credential() {
    let machine = Machine::with_leafd();
    let (_, said) = machine.fails("leafctl mask orders 17");
    assert!(said.contains("MASK_KEY"), "{said}");
    machine.ok("install -d -m 700 /etc/credstore
        leafd mask-key new /etc/credstore/leafd.mask_key
        systemctl restart leafd");
    let shown = machine.ok("leafctl mask orders 17 18 --prefix ord");
    let texts: Vec<&str> = shown.lines().collect();
    let [first, second] = texts[..] else { panic!("{shown}") };
    let read = |text: &str| machine.ok(&format!("leafctl unmask orders {text} --prefix ord"));
    assert_eq!((read(first).trim(), read(second).trim()), ("17", "18"));
    // No other user can read it, neither there nor where systemd puts it.
    for file in ["/etc/credstore/leafd.mask_key", "/run/credentials/leafd.service/mask_key"] {
        machine.ok(&format!("test -s {file}"));
        let alone = as_stranger("--clear-groups");
        let (_, said) = machine.fails(&format!("{alone} cat {file}"));
        assert!(said.contains("Permission denied"), "{said}");
    }
    // A new key needs a restart, and existing public ids stay valid.
    machine.ok("leafd mask-key new /etc/credstore/leafd.mask_key --add
        sed -i '1{h;d};2G' /etc/credstore/leafd.mask_key
        systemctl restart leafd");
    assert!(machine.ok("leafctl mask orders 17 --prefix ord").starts_with("ord_2"));
    assert_eq!(read(first).trim(), "17");
    // A host without the file still issues ids.
    machine.ok("rm /etc/credstore/leafd.mask_key; systemctl restart leafd; leafctl next orders");
    let (_, said) = machine.fails("leafctl mask orders 17");
    assert!(said.contains("MASK_KEY"), "{said}");
}

#[test]
fn the_example_service_starts_after_leafd_and_draws() {
    let machine = Machine::with_leafd();
    machine.write(
        "/etc/systemd/system/orders.service",
        include_str!("../../examples/systemd/orders.service"),
    );
    machine.ok("systemd-analyze verify /etc/systemd/system/orders.service");
    machine.ok("systemctl stop leafd.service; systemctl daemon-reload; systemctl start orders");
    eventually("an id of the example's", WITHIN, || {
        machine
            .ok("journalctl --no-pager -o cat -t sh -u orders")
            .lines()
            .any(|line| line == "1")
            .then_some(())
    });
}
