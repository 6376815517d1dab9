//! What a release reports about itself, and what later versions must still be able to read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use leafd::config::settings;
use leafd_tests::http::get;
use serde_json::Value;

use crate::host::{Host, eventually, leafd_binary};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The names in 1.0, one per line. Later versions keep them: see RELEASING.md.
const SETTINGS_OF_1_0: &str = include_str!("releases/settings-1.0.txt");
const METRICS_OF_1_0: &str = include_str!("releases/metrics-1.0.txt");
const STATUS_OF_1_0: &str = include_str!("releases/status-1.0.txt");

/// A store of 1.0 on SQLite, and the first id of `orders` that it has not granted.
const SQLITE_STORE_OF_1_0: &[u8] = include_bytes!("releases/sqlite-1.0.db");
const FIRST_ID_LEFT: u64 = 1001;

/// Names a folder to write the names and the store of this version to.
const WRITE_TO: &str = "LEAFD_TEST_WRITE_FORMATS";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

#[test]
fn every_package_has_the_same_version() {
    let python = VERSION.replace("-rc.", "rc");
    for (file, line) in [
        ("client/python/pyproject.toml", format!("version = \"{python}\"")),
        ("client/node/package.json", format!("  \"version\": \"{VERSION}\",")),
        ("kubernetes/Chart.yaml", format!("version: {VERSION}")),
        ("kubernetes/Chart.yaml", format!("appVersion: {VERSION}")),
        ("CHANGELOG.md", format!("## {VERSION}")),
    ] {
        assert!(read(file).lines().any(|one| one == line), "{file} lacks the line {line:?}");
    }
}

#[test]
fn every_registry_learns_whose_package_it_is() {
    let repository = read("Cargo.toml");
    let (_, repository) = repository.split_once("\nrepository = \"").unwrap();
    let (repository, _) = repository.split_once('"').unwrap();
    for file in ["client/python/pyproject.toml", "client/node/package.json"] {
        let text = read(file);
        assert!(text.contains(repository) && text.contains("The leafd developers"), "{file}");
    }
    for file in ["client/Cargo.toml", "client/wire/Cargo.toml"] {
        let text = read(file);
        for key in ["description", "license", "repository", "readme", "keywords", "categories"] {
            let known = text.lines().any(|line| line.starts_with(key));
            assert!(known, "{file} lacks {key}");
        }
    }
}

fn leafd(words: &[&str]) -> String {
    let output = Command::new(leafd_binary()).args(words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_program_says_what_it_was_built_from() {
    let plain = format!("leafd {VERSION}\n");
    assert_eq!(leafd(&["-V"]), plain);
    let version = leafd(&["--version"]);
    let origin = version.strip_prefix(&plain).unwrap();
    let names: Vec<&str> = origin.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(names, ["commit", "toolchain", "target", "features", "sqlite"], "{version}");
    for part in ["toolchain: rustc 1.", "features: http mysql postgres zookeeper\n", "sqlite: 3."] {
        assert!(origin.contains(part), "{part:?} is not in {version}");
    }
}

fn setting_names() -> BTreeSet<String> {
    settings().map(|setting| setting.key.to_string()).collect()
}

/// The metrics and status of a host on which all have values, because it has issued ids of each kind and has a problem:
/// returns the metrics with their types, and the members of the status.
fn metrics_and_status() -> [BTreeSet<String>; 2] {
    let mut host = Host::new().set("http", "127.0.0.1:0");
    host.start();
    let address = host.http("serving metrics and health");
    host.create("orders");
    assert_eq!(host.client().next("orders").unwrap(), 1);
    assert!(host.client().next("snowflake").unwrap() > 0);
    let store = rusqlite::Connection::open(host.state_dir().join("store.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    let text = eventually("the store is away", Duration::from_secs(60), || {
        let text = get(&address, "/metrics").body;
        text.contains("leafd_condition_remaining_seconds").then_some(text)
    });
    let metrics = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).map(str::to_owned);
    let mut status = BTreeSet::new();
    members("", &host.status(), &mut status);
    [metrics.collect(), status]
}

/// The paths of all members.
fn members(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(named) => {
            for (name, value) in named {
                members(&format!("{path}.{name}"), value, found);
            }
        }
        Value::Array(values) => {
            values.iter().for_each(|value| members(&format!("{path}[]"), value, found));
        }
        _ => drop(found.insert(path.trim_start_matches('.').to_owned())),
    }
}

/// In the files of releases/, each version lists the names that it added.
#[test]
fn names_of_former_releases_are_kept_and_new_ones_recorded() {
    let [metrics, status] = metrics_and_status();
    for (what, file, recorded, now) in [
        ("settings", "settings-1.0.txt", SETTINGS_OF_1_0, setting_names()),
        ("metrics", "metrics-1.0.txt", METRICS_OF_1_0, metrics),
        ("members of the status", "status-1.0.txt", STATUS_OF_1_0, status),
    ] {
        if let Some(folder) = std::env::var_os(WRITE_TO) {
            let lines: String = now.iter().map(|name| format!("{name}\n")).collect();
            fs::write(Path::new(&folder).join(file), lines).unwrap();
            continue;
        }
        let recorded: BTreeSet<String> = recorded.lines().map(str::to_owned).collect();
        let gone: Vec<&String> = recorded.difference(&now).collect();
        assert!(gone.is_empty(), "these {what} are gone or changed: {gone:?}");
        let new: Vec<&String> = now.difference(&recorded).collect();
        assert!(new.is_empty(), "these {what} are not recorded in tests/it/releases: {new:?}");
    }
}

#[test]
fn a_sqlite_store_of_the_first_release_is_used_as_it_is() {
    let mut host = Host::new();
    let store = host.path("store.db");
    host.change("store", &format!("sqlite:{}", store.display()));
    if let Some(folder) = std::env::var_os(WRITE_TO) {
        host.start();
        host.create("orders");
        assert_eq!(host.raw().draw("orders", 1_000).len(), 1_000);
        host.stop();
        fs::copy(store, Path::new(&folder).join("sqlite-1.0.db")).unwrap();
        return;
    }
    fs::write(&store, SQLITE_STORE_OF_1_0).unwrap();
    // The store counts as a copy, as after a move to another machine.
    let refused = host.try_start().unwrap_err();
    assert!(refused.said.contains("adopt-store"), "{refused:?}");
    let (status, said) = host.run("adopt-store");
    assert_eq!(status, Some(0), "{said}");
    host.start();
    let first = host.raw().draw("orders", 1)[0];
    assert!(first >= FIRST_ID_LEFT, "id {first} was given out before");
}

/// Changes a database to look as if a later leafd had written it.
fn change(file: &Path, sql: &str) {
    let conn = rusqlite::Connection::open(file).unwrap();
    conn.execute_batch(sql).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

#[test]
fn stores_and_journals_of_a_later_release_are_refused_in_words() {
    let mut host = Host::new();
    let store = host.path("store.db");
    host.change("store", &format!("sqlite:{}", store.display()));
    host.start();
    host.create("orders");
    host.stop();

    change(&store, "UPDATE leafd_meta SET value = '3' WHERE name = 'format'");
    let refused = host.try_start().unwrap_err();
    assert!(refused.said.contains("format 3; this one supports 2"), "{refused:?}");
    change(&store, "UPDATE leafd_meta SET value = '2' WHERE name = 'format'");

    let journal = host.path("state").join("journal.db");
    let version: i64 = rusqlite::Connection::open(&journal)
        .unwrap()
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .unwrap();
    change(&journal, &format!("PRAGMA user_version = {}", version + 1));
    let refused = host.try_start().unwrap_err();
    assert!(refused.said.contains("run the newer leafd that wrote it"), "{refused:?}");
    assert!(refused.said.trim_end().lines().count() <= 2, "{refused:?}");

    // Neither was changed: the version that they need continues at the next id.
    change(&journal, &format!("PRAGMA user_version = {version}"));
    host.start();
    assert_eq!(host.raw().draw("orders", 1), [1]);
}
