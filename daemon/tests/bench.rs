//! Runs `leafctl bench` for an instant: that every row can be measured, and that it leaves nothing behind.
//! What it measures says nothing here.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::path::Path;
use std::process::Command;

fn bench(temporary: &Path, args: &[&str]) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_leafctl"))
        .args(["bench", "--rounds", "1", "--seconds", "0.02", "--json", "-"])
        .args(args)
        .env("TMPDIR", temporary)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_row_brings_numbers_and_nothing_is_left_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let json = bench(temporary.path(), &["--only", ""]);
    let rows = json["rows"].as_array().unwrap();
    let of = |system: &str| rows.iter().filter(|row| row["system"] == system).count();
    assert_eq!((of("echo"), of("segment"), of("snowflake")), (2, 11, 12));
    assert_eq!(of("redis"), if json["redis"] == true { 5 } else { 0 });
    for row in rows {
        assert!(row["medians"]["ids_per_second"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert!(json["ids_compared"].as_u64().unwrap() > 0);
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}
