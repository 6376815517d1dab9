//! Checks that reviewers would otherwise have to make again and again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The maximum length of a file that people can read in one sitting.
const LINES_MAX: usize = 700;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Every source file of the project, with its text.
fn sources() -> Vec<(String, String)> {
    let mut sources = Vec::new();
    for folder in ["bench", "client", "core", "daemon", "fuzz", "leafctl", "tests"] {
        gather(&root().join(folder), &mut sources);
    }
    assert!(sources.len() > 50, "only {} files were found", sources.len());
    sources
}

fn gather(folder: &Path, sources: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name() != Some("target".as_ref()) {
            gather(&path, sources);
        } else if path.extension() == Some("rs".as_ref()) {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            sources.push((name, fs::read_to_string(path).unwrap()));
        }
    }
}

#[test]
fn every_file_of_tests_is_a_module_of_the_test() {
    let main = include_str!("main.rs");
    for entry in fs::read_dir(root().join("tests/it")).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap();
        let named = main.lines().any(|line| line == format!("mod {module};"));
        assert!(named || module == "main", "tests/it/{module} is not named in main.rs");
    }
}

#[test]
fn every_file_says_first_what_it_is_for() {
    for (name, text) in sources() {
        assert!(text.starts_with("//! "), "{name} starts without a line of //!");
    }
}

#[test]
fn no_file_is_too_long_to_read() {
    for (name, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{name} has {lines} lines; at most {LINES_MAX} are read");
    }
}

/// With musl, the standard library leaves out O_PATH: the file is really opened, and closing it takes SQLite's locks.
#[test]
fn no_file_is_opened_by_the_standard_library_with_o_path() {
    for (name, text) in sources() {
        let calls = text.split("custom_flags(").skip(1).filter_map(|rest| rest.split(')').next());
        let with_path = calls.filter(|flags| flags.contains("O_PATH")).count();
        assert_eq!(with_path, 0, "{name}: open it with nix::fcntl::open");
    }
}

#[test]
fn no_test_is_left_out() {
    // The text is assembled here, so that this file doesn't match.
    let left_out = ["#[ign", "ore"].concat();
    for (name, text) in sources() {
        assert!(!text.contains(&left_out), "{name} leaves out a test");
    }
}

/// The minimum number of lines that are known to matter, each with a test that notices if it is broken.
const MUTATIONS_MIN: usize = 60;

#[test]
fn every_mutation_has_its_line() {
    let mut list = Command::new(root().join("tests/run.d/mutations"));
    let list =
        list.arg("list").output().expect("tests/run.d/mutations runs (it needs Python 3.11)");
    let stale = String::from_utf8_lossy(&list.stderr);
    assert!(list.status.success(), "tests/mutations: {stale}");
    let mutations = String::from_utf8_lossy(&list.stdout).lines().count();
    assert!(mutations >= MUTATIONS_MIN, "tests/mutations has {mutations} entries");
}
