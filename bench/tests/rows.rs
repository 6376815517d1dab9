//! Everything is measured for an instant: that it can be, and that it leaves nothing behind. What it measures says nothing
//! here.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(temporary: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_leafd-bench"))
        .args(args)
        .env("TMPDIR", temporary)
        .output()
        .unwrap()
}

#[track_caller]
fn measured(rows: &[&str]) -> Value {
    let temporary = tempfile::tempdir().unwrap();
    let output = bench(temporary.path(), &[&["--smoke", "--json", "-"], rows].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn section<'a>(json: &'a Value, name: &str) -> &'a [Value] {
    let sections = json["sections"].as_array().unwrap();
    let section = sections.iter().find(|section| section["name"] == name);
    section.unwrap_or_else(|| panic!("no section {name} in {json}"))["rows"].as_array().unwrap()
}

#[test]
fn every_row_of_a_host_brings_numbers() {
    let json = measured(&["echo", "redis", "segment", "snowflake", "daemon"]);
    let rows = section(&json, "row");
    let of = |system: &str| {
        rows.iter().filter(|row| row["row"].as_str().unwrap().starts_with(system)).count()
    };
    assert_eq!((of("echo: "), of("segment: "), of("snowflake: ")), (2, 15, 16));
    let without_redis = json["not_measured"].to_string().contains("redis-server");
    assert_eq!(of("redis: "), if without_redis { 0 } else { 8 });
    for row in rows {
        assert!(row["medians"]["ids/s"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert_eq!(section(&json, "daemon").len(), 8);
    assert!(json["ids_compared"].as_u64().unwrap() > 0);
}

#[test]
fn many_tags_bring_numbers() {
    let json = measured(&["many tags"]);
    let medians = &section(&json, "many tags")[0]["medians"];
    for column in ["daemon MiB", "p99 us", "clean stop, ms"] {
        assert!(medians[column].as_f64().unwrap() > 0.0, "{column}: {json}");
    }
    assert_eq!(json["budgets"].as_array().unwrap().len(), 3);
}

#[test]
fn everything_of_a_database_brings_numbers() {
    let json = measured(&["database"]);
    for (name, rows) in
        [("strict", 9), ("claims", 6), ("call", 3), ("10,000 hosts", 4), ("rate", 3)]
    {
        assert_eq!(section(&json, name).len(), rows, "{name}");
    }
    let median = |name: &str, row: &str, column: &str| {
        let found = section(&json, name).iter().find(|one| one["row"] == row);
        found.unwrap_or_else(|| panic!("no row {row} in {json}"))["medians"][column].as_f64()
    };
    for (name, row, column) in [
        ("strict", "strict, 32 clients on 4 hosts", "requests/s"),
        ("claims", "10 daemons, one tag", "claims/s"),
        ("claims", "100 claimers, 100 tags", "store CPU us a claim"),
        ("call", "a probe", "p99 us"),
        ("10,000 hosts", "together", "cores"),
        ("rate", "10000 ids/s", "ids/s"),
    ] {
        assert!(median(name, row, column).unwrap() > 0.0, "{row}, {column}");
    }
}

#[test]
fn a_fleet_goes_through_all_its_phases() {
    let temporary = tempfile::tempdir().unwrap();
    let phases = ["--steady", "1", "--away", "1", "--after", "1"];
    let args = [&["fleet", "--daemons", "4", "--json", "-"], &phases[..]].concat();
    let output = bench(temporary.path(), &args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let phases = section(&json, "phase");
    assert_eq!(phases.len(), 6);
    for phase in phases {
        assert!(phase["medians"]["recovered after s"].as_f64().unwrap() > 0.0, "{phase}");
        assert_eq!(phase["medians"]["failed"], 0.0, "{phase}");
    }
    assert_eq!(section(&json, "fleet").len(), 4);
    assert!(json["ids_compared"].as_u64().unwrap() > 0);
}

#[test]
fn a_row_that_is_not_there_is_refused_with_those_that_are() {
    let temporary = tempfile::tempdir().unwrap();
    let output = bench(temporary.path(), &["segmint"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("\"segmint\"") && said.contains("segment: held, 1 thread"), "{said}");
}
