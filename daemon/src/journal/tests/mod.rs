//! Tests the journal through its public functions. This file contains what its tests share. The remaining ids of a tag
//! are a list of ranges, usually a single one.
// The ids left of a tag are a list of ranges, most often of one.
#![allow(clippy::single_range_in_vec_init)]

mod damage;
mod faults;
mod formats;
mod identity;
mod lease;
mod refused;
mod restart;
mod restored;
mod stores;

use std::ops::Range;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use leafd_wire::{Layout, Run};
use tempfile::TempDir;

use super::{
    Identity, Journal, JournalError, LayoutRecord, Outside, Recovered, SetAside, TagRecord, Write,
};
use crate::state_dir::StateDir;
use leafd_core::store::{Generation, StoreId};
use leafd_core::{Tag, UnixMs};

/// A state directory, and room beside it, that is removed with the test.
struct Place {
    _folder: TempDir,
    state: PathBuf,
}

impl Place {
    fn path(&self) -> &Path {
        &self.state
    }
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    std::fs::DirBuilder::new().mode(0o700).create(&state).unwrap();
    Place { _folder: folder, state }
}

const MACHINE_ID: &str = "0123456789abcdef";

fn try_open(dir: &Path) -> Result<(Journal, Recovered), JournalError> {
    try_open_as(dir, MACHINE_ID, None)
}

fn try_open_as(
    dir: &Path,
    machine_id: &str,
    configured: Option<&str>,
) -> Result<(Journal, Recovered), JournalError> {
    let identity = identity(dir, machine_id, configured);
    let memory = dir.with_extension("memory");
    Journal::open(&open_state_dir(dir), &identity, outside(Some(&memory)))
}

/// Opens the directory, and tries again if it is locked: a process that another test starts holds every lock for a
/// moment, until it runs its own program.
fn open_state_dir(dir: &Path) -> StateDir {
    for _ in 0..100 {
        if let Ok(state_dir) = StateDir::open(dir) {
            return state_dir;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    StateDir::open(dir).unwrap()
}

fn identity(dir: &Path, machine_id: &str, configured: Option<&str>) -> Identity {
    let root = dir.with_extension("root");
    std::fs::create_dir_all(root.join("etc")).unwrap();
    std::fs::write(root.join("etc/machine-id"), machine_id).unwrap();
    Identity::in_root(&root, configured)
}

fn outside(memory: Option<&Path>) -> Outside<'_> {
    Outside { memory, may_begin_anew: &|_| Ok(()) }
}

fn open(dir: &Path) -> (Journal, Recovered) {
    try_open(dir).unwrap()
}

/// Runs a test on a runtime like the daemon's.
fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn store() -> StoreId {
    StoreId("store".into())
}

fn tag(name: &str) -> Tag {
    Tag::parse(name.as_bytes()).unwrap()
}

fn segment(name: &str, numbers: Range<u64>, mark: u64) -> Write {
    segment_of(name, 1, numbers, mark)
}

fn segment_of(name: &str, generation: u64, numbers: Range<u64>, mark: u64) -> Write {
    let generation = Generation(generation);
    Write::Segment { store: store(), tag: tag(name), generation, run: run_of(numbers), mark }
}

fn run_of(numbers: Range<u64>) -> Run {
    Run { first: numbers.start, count: (numbers.end - numbers.start) as u32, stride: 1 }
}

fn mark(name: &str, end: u64, mark: u64) -> Write {
    Write::Mark { store: store(), tag: tag(name), end, mark }
}

fn layout(name: &str, bound: u64) -> LayoutRecord {
    LayoutRecord { name: tag(name), layout: Layout::LEAF, mark: UnixMs(bound) }
}

async fn tag_of(journal: &Journal, name: &str) -> Option<TagRecord> {
    journal.tag(&store(), &tag(name)).await.unwrap()
}

async fn unissued(journal: &Journal, name: &str) -> Vec<Range<u64>> {
    ranges(tag_of(journal, name).await.unwrap_or_default().unissued)
}

fn ranges(runs: Vec<Run>) -> Vec<Range<u64>> {
    assert!(runs.iter().all(|run| run.stride == 1), "{runs:?}");
    runs.iter().map(Run::range).collect()
}
