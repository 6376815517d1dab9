//! The journal through its public surface; here is what all of its tests share.
// What is left of a tag is a list of ranges, most often of one.
#![allow(clippy::single_range_in_vec_init)]

mod claim;
mod damage;
mod faults;
mod identity;
mod refused;
mod restart;
mod stores;

use std::ops::Range;
use std::path::Path;

use leafd_wire::Layout;
use tempfile::TempDir;

use super::{Identity, Journal, JournalError, LayoutRecord, Recovered, TagRecord, Write};
use crate::id::{Tag, UnixMs};
use crate::state_dir::StateDir;
use crate::store::{Generation, StoreId};

/// A state directory that goes with the test.
fn place() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn try_open(dir: &Path) -> Result<(Journal, Recovered), JournalError> {
    try_open_as(dir, "0123456789abcdef", None)
}

fn try_open_as(
    dir: &Path,
    machine_id: &str,
    configured: Option<&str>,
) -> Result<(Journal, Recovered), JournalError> {
    let file = dir.with_extension("machine-id");
    std::fs::write(&file, machine_id).unwrap();
    let identity = Identity::of_host(&file, configured);
    std::fs::remove_file(&file).unwrap();
    Journal::open(&StateDir::open(dir).unwrap(), &identity)
}

fn open(dir: &Path) -> (Journal, Recovered) {
    try_open(dir).unwrap()
}

/// Runs what a test has to say on a runtime like the daemon's.
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
    Write::Segment { store: store(), tag: tag(name), generation, numbers, mark }
}

fn mark(name: &str, end: u64, mark: u64) -> Write {
    Write::Mark { store: store(), tag: tag(name), end, mark }
}

fn layout(name: &str, bound: u64) -> LayoutRecord {
    LayoutRecord { name: tag(name), layout: Layout::LEAF, bound: UnixMs(bound) }
}

async fn tag_of(journal: &Journal, name: &str) -> Option<TagRecord> {
    journal.tag(&store(), &tag(name)).await.unwrap()
}

async fn unissued(journal: &Journal, name: &str) -> Vec<Range<u64>> {
    tag_of(journal, name).await.unwrap_or_default().unissued
}
