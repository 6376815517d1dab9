//! Checks the configuration as an operator uses it: text in, typed values or a message out.

mod access;
mod documents;
mod routes;
mod shipped;
mod sources;
mod stores;

use std::path::Path;
use std::time::Duration;

use super::*;

/// Root's environment with these variables.
fn root_with(variables: &[(&str, &str)]) -> Env {
    let variables = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    Env { variables, uid: 0, host: "host-a".to_owned(), has_other_passwords: false }
}

fn user_with(variables: &[(&str, &str)]) -> Env {
    Env { uid: 1000, ..root_with(variables) }
}

fn set(pairs: &[&str]) -> Args {
    Args { set: pairs.iter().map(|pair| (*pair).to_owned()).collect(), ..Args::default() }
}

/// Loads this text as the file `leafd.toml`.
fn from_text(text: &str) -> Result<Config, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("leafd.toml");
    std::fs::write(&file, text).unwrap();
    let args = Args { config: Some(file), ..Args::default() };
    Config::load_from(&args, &root_with(&[]))
}

fn error_of(text: &str) -> String {
    match from_text(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

/// Checks that the error for this file has each of these parts.
#[track_caller]
fn check(text: &str, parts: &[&str]) {
    let error = error_of(text);
    for part in parts {
        assert!(error.contains(part), "{text:?} gave {error:?}, which lacks {part:?}");
    }
}

#[test]
fn defaults_are_as_documented() {
    let config = Config::load_from(&Args::default(), &root_with(&[])).unwrap();
    assert_eq!(config.socket, Path::new("/run/leafd/leafd.sock"));
    assert_eq!(config.state_dir, Path::new("/var/lib/leafd"));
    assert_eq!(config.routing.stores()[0].url, StoreUrl::Sqlite("/var/lib/leafd/store.db".into()));
    assert_eq!(config.socket_mode, 0o660);
    assert_eq!(config.autonomy, Duration::from_secs(600));
    assert_eq!(config.max_step, 10_000_000);
    assert_eq!((config.connections_max, config.waiters_max), (4096, 10_000));
    assert_eq!(config.worker, WorkerSpec::Store(0));
    assert_eq!(config.worker_range, 0..1024);
    assert!(config.polling && config.socket_group.is_none() && config.identity.is_none());
    assert_eq!(config.layouts.get("snowflake"), Some(&leafd_wire::Layout::LEAF));
}

#[test]
fn every_setting_takes_effect_once_and_in_order() {
    let config = Config::load_from(&Args::default(), &root_with(&[])).unwrap();
    let effective: Vec<&str> = config.effective.iter().map(|one| one.key).collect();
    let table: Vec<&str> = settings().map(|setting| &*setting.key).collect();
    assert_eq!(effective, table);
}

#[test]
fn what_is_shown_can_be_loaded_again() {
    let args = set(&["worker=static:3", "admin_uids=[5]", "autonomy=90s", "polling=false"]);
    let first = Config::load_from(&args, &root_with(&[])).unwrap();
    let again = from_text(&first.render()).unwrap();
    assert_eq!(again.autonomy, Duration::from_secs(90));
    assert_eq!(again.worker, first.worker);
    assert!(!again.polling);
    let values = |config: &Config| -> Vec<Option<String>> {
        config.effective.iter().map(|one| one.value.clone()).collect()
    };
    assert_eq!(values(&again), values(&first));
    for odd in ["a\u{200b}b", "\u{301}", "it's \"so\" \\\\ é", "\u{1f600}\u{feff}"] {
        let store = format!("store=sqlite:/{odd}.db");
        let first = Config::load_from(&set(&[&store]), &root_with(&[])).unwrap();
        let again = from_text(&first.render()).unwrap();
        assert_eq!(again.routing.stores()[0].url, first.routing.stores()[0].url, "{odd:?}");
    }
}

#[test]
fn bad_files_are_refused_with_place_key_value_and_range() {
    check("autonmy = '10m'", &["leafd.toml, line 1", "\"autonmy\"", "autonomy"]);
    check("\n\nautonomy = 600", &["line 3", "autonomy can't be 600", "1s to 24h"]);
    check("autonomy = '25h'", &["\"25h\"", "1s to 24h"]);
    check("autonomy = '10 m'", &["\"10 m\""]);
    check("autonomy = '99999999999999999999h'", &["99999999999999999999h"]);
    check("mark_ahead = '61s'", &["1s to 1m"]);
    check("max_drift = '2h'", &["0s to 1h"]);
    check("removed_tag_check = '5m'", &["1s to 1m"]);
    check("stop_within = '1ms'", &["100ms to 5m"]);
    check("max_step = 0", &["max_step can't be 0", "1 to 2147483647"]);
    check("max_step = -5", &["-5"]);
    check("max_step = 2147483648", &["2147483648"]);
    check("max_step = 1e6", &["1e6"]);
    check("max_step = '5'", &["\"5\""]);
    check("max_step = 99999999999999999999", &["max_step"]);
    check("connections_max = true", &["true", "1 to 65536"]);
    check("polling = 'yes'", &["\"yes\"", "true or false"]);
    check("polling = 1", &["true or false"]);
    check("socket = ''", &["107 bytes"]);
    check(&format!("socket = '/{}'", "x".repeat(107)), &["107 bytes"]);
    check("socket = \"/a\\u0000b\"", &["107 bytes"]);
    check("socket_mode = 0o660", &["432", "in quotes"]);
    check("socket_mode = '0060'", &["0060"]);
    check("socket_mode = '1777'", &["1777"]);
    check("socket_group = 'no-such-group-here'", &["no-such-group-here", "group on this host"]);
    check("state_dir = 7", &["state_dir can't be 7"]);
    check("worker = 'static'", &["workers", "host-a"]);
    check("worker = 'store:x'", &["store:NAME requires several stores"]);
    check("worker = 'zookeeper'", &["zookeeper"]);
    check("worker = 'redis'", &["static:N", "zookeeper"]);
    check("workers = {a = 1, b = 1}", &["workers.b", "\"a\""]);
    check("workers = {a = 1024}", &["workers.a", "1023", "snowflake"]);
    check("worker_mode = 'permanent'", &["identity"]);
    check(
        "worker_mode = 'permanent'\nworker = 'zookeeper'\nzookeeper = 'zk'\nidentity = '10.0.0.1:80'",
        &["leaf_name"],
    );
    let on_leafs_nodes = "worker = 'zookeeper'\nzookeeper = 'zk'\nleaf_name = 'leaf'\n";
    check(on_leafs_nodes, &["worker_mode", "permanent"]);
    for identity in ["host-a", "pod-1:80", "10.0.0.1", "10.0.0.1:080"] {
        let permanent = format!("worker_mode = 'permanent'\nidentity = '{identity}'\n");
        check(&format!("{permanent}{on_leafs_nodes}"), &["IP:PORT", identity, "worker"]);
    }
    check("zookeeper = 'zk1,,zk2'", &["HOST[:PORT]"]);
    for range in ["", "0", "5..5", "6..5", "0..1025", "a..b", "+1..2", "0...3"] {
        check(&format!("worker_range = '{range}'"), &["FIRST..END", "0..1024"]);
    }
    check("worker = 'static:-1'", &["static:N"]);
    check("worker = 'static:1024'", &["static:0 to static:1023", "snowflake"]);
    check("identity = ''", &["1 to 128"]);
    check("log = 'inof'", &["inof", "trace"]);
    check("log = 'leafd=loud'", &["leafd=loud"]);
    check("log = 'info,[span]=debug'", &["[span]"]);
    check("log_format = 'xml'", &["xml", "json"]);
    check("admin_uids = 5", &["[0, 1000]"]);
    check("admin_uids = [5, 'ann']", &["admin_uids[1] can't be \"ann\"", "4294967294"]);
    check("admin_uids = [4294967295]", &["4294967294"]);
    check("socket = '/a'\nsocket = '/b'", &["line 2", "socket: ", "duplicate key"]);
    check("socket = ", &["line 1", "not TOML"]);
}

#[test]
fn bad_layouts_are_refused() {
    let layout = |rest: &str| {
        format!("[layouts.x]\ntime_bits = 41\nworker_bits = 10\nsequence_bits = 12\n{rest}")
    };
    check(&layout(""), &["layouts.x", "epoch"]);
    check(&layout("epoch = -1"), &["layouts.x.epoch can't be -1", "line 5"]);
    check(&layout("epoch = 'yesterday'"), &["layouts.x.epoch"]);
    check(&layout("epoch = '2025-01-01T00:00:00.0001Z'"), &["whole milliseconds"]);
    check(&layout("epoch = '2025-01-01'"), &["layouts.x.epoch"]);
    check(&layout("epoch = 0\nunit = '0ms'"), &["layouts.x.unit can't be \"0ms\""]);
    check(&layout("epoch = 0\nunit = '2h'"), &["\"1ms\" to \"1h\""]);
    check(&layout("epoch = 0\nbits = 3"), &["layouts.x.bits", "only the keys"]);
    check(&layout("epoch = 9223372036854775807"), &["layouts.x"]);
    let sized = |time: i64, worker: i64, sequence: i64| {
        format!(
            "[layouts.x]\ntime_bits = {time}\nworker_bits = {worker}\nsequence_bits = {sequence}\nepoch = 0"
        )
    };
    check(&sized(42, 10, 12), &["more than 63 bits"]);
    check(&sized(0, 10, 12), &["at least one bit"]);
    check(&sized(300, 10, 12), &["layouts.x.time_bits can't be 300", "0 to 63"]);
    check("[layouts.'']\n", &["at least one character"]);
    check("layouts = 5", &["layouts can't be 5"]);
    check("[layouts]\nx = true", &["layouts.x can't be true", "true for js53"]);
    check("[layouts]\njs53 = false", &["layouts.js53 can't be false"]);
    check("[layouts]\nx = 5", &["layouts.x can't be 5"]);
    check(&format!("worker = 'static:8'\n{}", sized(41, 3, 12)), &["static:7", "\"x\""]);
    check("[layouts]\nsnowflake = false", &["layouts", "at least one layout"]);
    let wide = "[layouts]\nsnowflake = false\nwide = {time_bits = 39, worker_bits = 14, sequence_bits = 10, epoch = 0}";
    assert_eq!(from_text(wide).unwrap().worker_range, 0..16_384);
    let dated = layout("epoch = 2025-01-01T00:00:00Z");
    assert_eq!(from_text(&dated).unwrap().layouts.get("x").unwrap().epoch_ms, 1_735_689_600_000);
}
