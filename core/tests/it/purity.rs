//! What the core may depend on. Clippy checks that it calls no clock, file, socket or random source of the standard
//! library: see the bans in `core/clippy.toml`.

use std::collections::BTreeSet;
use std::process::Command;

/// Packages that the core's code is compiled with, macros left out. Those below `aes` compute. They ask the processor
/// which instructions it has, and use nothing else of the machine. `jiff` could read clocks and files: Clippy bans its
/// calls that do.
const ALLOWED: [&str; 15] = [
    "leafd-core",
    "leafd-wire",
    "jiff",
    "jiff-core",
    "serde",
    "serde_core",
    "thiserror",
    "aes",
    "cipher",
    "cpubits",
    "cpufeatures",
    "crypto-common",
    "hybrid-array",
    "inout",
    "typenum",
];

#[test]
fn the_core_depends_on_nothing_that_does_io() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            "leafd-core",
            "--edges",
            "normal,no-proc-macro",
            "--prefix",
            "none",
        ])
        .args([
            "--locked",
            "--offline",
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ])
        .output()
        .unwrap();
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let found: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(found, BTreeSet::from(ALLOWED), "the core's dependencies are not the allowed ones");
}
