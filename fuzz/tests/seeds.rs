//! Every seed through its target, as an ordinary test: what a fuzzer found once is noticed without one.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use leafd_fuzz::TARGETS;

fn seeds_of(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let seeds = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    seeds.map(|seed| seed.unwrap().path()).collect()
}

/// What is being tried, for a message that comes from deep below.
struct Tried(PathBuf);

impl Drop for Tried {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed is {}", self.0.display());
        }
    }
}

fn try_all(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let seeds = seeds_of(name);
    assert!(!seeds.is_empty(), "{name} has no seeds");
    for seed in seeds {
        let input = fs::read(&seed).unwrap();
        assert!(input.len() <= target.input_bytes_max, "{} is too long", seed.display());
        let _tried = Tried(seed);
        (target.run)(&input);
        // Cut off, too.
        (target.run)(&input[..input.len() / 2]);
    }
}

#[test]
fn frames() {
    try_all("frames");
}

#[test]
fn configuration() {
    try_all("configuration");
}

#[test]
fn journal() {
    try_all("journal");
}

#[test]
fn stores() {
    try_all("stores");
}

#[test]
fn zookeeper() {
    try_all("zookeeper");
}

#[test]
fn masks() {
    try_all("masks");
}

#[test]
fn every_folder_of_seeds_is_a_targets_and_every_target_is_tested() {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let mut folders: Vec<String> = fs::read_dir(folders)
        .unwrap()
        .map(|folder| folder.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert_eq!(folders, names);
    let tests = include_str!("seeds.rs");
    for name in names {
        assert!(tests.contains(&format!("try_all({name:?})")), "{name} is not tested");
    }
}
