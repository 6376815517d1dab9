//! SIGHUP: settings that can change while the daemon serves do so, on open connections too, and the others wait for a
//! restart.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use leafd_client::opcode;
use leafd_wire::Status;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::access::{STRANGER, raw_as};
use crate::host::{Host, eventually};
use crate::raw::ids_request;

const WITHIN: Duration = Duration::from_secs(60);

/// A host with a configuration file, together with the file.
fn host(config: &str) -> (Host, PathBuf) {
    let host = Host::new().set("socket_mode", "0666");
    let file = host.path("leafd.toml");
    fs::write(&file, config).unwrap();
    let mut host = host.variable("LEAFD_CONFIG", &file);
    host.start();
    (host, file)
}

/// Makes the daemon reload its configuration, and returns when the log contains `so`.
#[track_caller]
fn reload(host: &Host, so: &str) {
    let before = host.log().len();
    host.signal(Signal::SIGHUP);
    eventually(so, WITHIN, || host.log()[before..].contains(so).then_some(()));
}

#[test]
fn access_changes_on_open_connections() {
    let (host, file) = host("");
    host.create("orders");
    let mut stranger = raw_as(&host, STRANGER, STRANGER, &[]);
    assert_eq!(stranger.draw("orders", 1), [1]);
    fs::write(&file, "[[access]]\ntags = ['orders']\nuids = [1]").unwrap();
    reload(&host, "applied: access");
    stranger.send(&ids_request("orders", 1, 1, 1_000));
    stranger.reply().refused(Status::Denied);
    stranger.request(opcode::TAG_LIST, 2, b"{}");
    stranger.reply().refused(Status::Denied);
    fs::write(&file, format!("admin_uids = [{STRANGER}]")).unwrap();
    reload(&host, "applied: admin_uids, access");
    assert_eq!(stranger.draw("orders", 1), [2]);
    stranger.request(opcode::TAG_LIST, 3, b"{}");
    assert_eq!(stranger.reply().status(), Status::Ok);
}

#[test]
fn how_far_ahead_is_claimed_changes_for_tags_in_use() {
    let (host, file) = host("max_step = 10");
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "orders", "step": 2_000 }));
    assert_eq!(host.raw().draw("orders", 1), [1]);
    let claimed = || host.status()["segments"]["tags"][0]["highest_ends"][0].as_u64().unwrap();
    let small = claimed();
    assert!(small <= 100, "{small} numbers are claimed, 10 at a time");
    fs::write(&file, "max_step = 5000\nautonomy = '1m'\nmark_ahead = '1s'").unwrap();
    reload(&host, "applied: autonomy, max_step, mark_ahead");
    let ids = host.raw().draw("orders", u32::try_from(small).unwrap());
    assert_eq!(ids[0], 2);
    eventually("a claim by the new step", WITHIN, || (claimed() > small + 1_000).then_some(()));
}

#[test]
fn the_rest_waits_for_a_restart_and_what_cant_be_used_changes_nothing() {
    let (host, file) = host("log = 'warn'");
    assert!(!host.log().contains("INFO"), "{}", host.log());
    fs::write(&file, "log = 'info'\nwaiters_max = 5").unwrap();
    reload(&host, "changed settings that need a restart: waiters_max");
    assert!(host.log().contains("applied: log"));
    // It is reported again as long as it applies.
    reload(&host, "changed settings that need a restart: waiters_max");
    for bad in ["log = 'loud'", "nosuch = 1", "= = =", "[[access]]\ntags = []"] {
        fs::write(&file, bad).unwrap();
        reload(&host, "nothing was changed");
    }
    fs::remove_file(&file).unwrap();
    reload(&host, "nothing was changed");
    host.create("orders");
    assert_eq!(host.raw().draw("orders", 1), [1]);
}
