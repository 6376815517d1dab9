//! What a leafd was built without it refuses, and says how to get it; all else it does.
//!
//! The same test for every build: `cargo test -p leafd --no-default-features` is SQLite alone.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::process::{Command, Output};

/// Settings, the feature that they need, and whether this program was built with it.
const NEED: [(&[&str], &str, bool); 6] = [
    (&["--store", "postgres://leafd@db/ids"], "postgres", cfg!(feature = "postgres")),
    (&["--store", "mysql://leafd@db/ids"], "mysql", cfg!(feature = "mysql")),
    (&["--store", "mariadb://leafd@db/ids"], "mysql", cfg!(feature = "mysql")),
    (
        &["--worker", "zookeeper", "--set", "zookeeper=zk1,zk2"],
        "zookeeper",
        cfg!(feature = "zookeeper"),
    ),
    (&["--set", "http=127.0.0.1:9644"], "http", cfg!(feature = "http")),
    (&["--set", "leaf_http=127.0.0.1:8080"], "http", cfg!(feature = "http")),
];

fn leafd(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leafd"));
    command.env_clear().env("HOME", "/nonexistent").args(words).output().unwrap()
}

#[test]
fn what_it_was_built_without_is_refused_with_how_to_get_it() {
    for (settings, feature, built) in NEED {
        for command in [&["check-config", "--quiet"][..], &["schema", "print"]] {
            let output = leafd(&[command, settings].concat());
            let said = String::from_utf8_lossy(&output.stderr);
            if built {
                assert_eq!(output.status.code(), Some(0), "{settings:?}: {said}");
                continue;
            }
            assert_eq!(output.status.code(), Some(64), "{settings:?}: {said}");
            for words in
                [&format!("built without {feature}"), &format!("--features {feature}"), settings[1]]
            {
                let shown = words.replace("mariadb:", "mysql:");
                assert!(said.contains(&shown) || said.contains(words), "{settings:?}: {said}");
            }
        }
    }
}

#[test]
fn sqlite_is_always_there() {
    let output = leafd(&["demo", "--exit"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("\n  1 2 3 4 5\n"), "{said}");
}
