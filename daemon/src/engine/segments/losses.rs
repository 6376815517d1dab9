//! Claimed ids that are never issued: how many by cause, and which ones, to explain later why they are missing. Issuing
//! doesn't depend on these records. The latest are kept in a small file in the state directory, written with a delay.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use std::{fs, io};

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::tag::shard_number;
use super::{SegmentTag, Segments};
use crate::clock;
use leafd_core::store::Claim;
use leafd_core::{Run, Tag, UnixMs};

const FILE: &str = "gaps";

/// How many gaps are remembered. The oldest are forgotten.
const GAPS_MAX: usize = 4_096;

/// How many gaps of one tag are reported.
const GAPS_OF_A_TAG_MAX: usize = 400;

/// How long gaps are collected before they are written.
const WRITTEN_AFTER: Duration = Duration::from_millis(200);

/// Why some ids are never issued. The first `COUNTED` variants are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A strict tag's claim had more ids than the waiting requests took.
    Surplus,
    /// They lie above a ceiling that was lowered.
    Ceiling,
    /// The tag was deleted, or the journal contradicted its held ids.
    Removed,
    /// Their store failed over or was replaced by another one, so another host may have them.
    Store,
    /// At the start, it was uncertain which ids in the journal's records were unused.
    Journal,
    /// The host lacked the key of a masked tag.
    MaskKey,
    /// The daemon did not stop cleanly. It continued at its marks, and skipped unused ids below them.
    Crash,
    /// A failed claim may have been executed all the same. The ids that it may have taken are lost.
    Unanswered,
    /// Numbers of a series: their period had ended when they arrived.
    Period,
}

/// A range of ids that are never issued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    pub at: UnixMs,
    /// The tag of the ids.
    pub tag: Tag,
    pub cause: Cause,
    /// The ids. After a crash: from the id at which the daemon continued, up to the end of all its claims.
    pub ids: Range<u64>,
}

/// The lost ids of this host.
#[derive(Debug)]
pub struct Losses {
    counts: [Cell<u64>; Cause::COUNTED.len()],
    gaps: RefCell<VecDeque<Gap>>,
    file: PathBuf,
    /// When the daemon started, if that was after a crash.
    crashed: Option<UnixMs>,
    /// Whether a write is scheduled.
    writing: Cell<bool>,
}

impl Cause {
    /// The causes whose ids are counted, in the order of their declaration.
    const COUNTED: [Cause; 5] =
        [Cause::Surplus, Cause::Ceiling, Cause::Removed, Cause::Store, Cause::Journal];

    /// The name of the cause.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Surplus => "surplus",
            Cause::Ceiling => "ceiling",
            Cause::Removed => "removed",
            Cause::Store => "store",
            Cause::Journal => "journal",
            Cause::MaskKey => "mask_key",
            Cause::Crash => "crash",
            Cause::Unanswered => "unanswered",
            Cause::Period => "period",
        }
    }
}

impl Gap {
    /// Whether the gap can include ids of the residue class of `id` modulo `stride`. Each of several stores that feed a
    /// tag grants the ids of one residue class.
    pub fn is_of(&self, id: u64, stride: u32) -> bool {
        // A gap ends past an id that was claimed. A claim without an answer ended where the next one begins, and after
        // a crash no ids may have been left.
        let Range { start, end } = self.ids;
        let of_class = match self.cause {
            Cause::Unanswered => end,
            Cause::Crash if start < end => start,
            _ => end.saturating_sub(1),
        };
        of_class.abs_diff(id).is_multiple_of(stride.into())
    }
}

impl Losses {
    /// Reads the file in this directory. If it can't be read, a new one is started, because it is only informative.
    pub fn open(state_dir: &Path, crashed: bool) -> Losses {
        let file = state_dir.join(FILE);
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                warn!(file = %file.display(), "can't read the causes of earlier gaps: {error}");
                String::new()
            }
            text => text.unwrap_or_default(),
        };
        let parsed = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        let mut gaps: VecDeque<Gap> = parsed.collect();
        gaps.drain(..gaps.len().saturating_sub(GAPS_MAX));
        Losses {
            counts: Default::default(),
            gaps: RefCell::new(gaps),
            file,
            crashed: crashed.then(|| clock::now().unix),
            writing: Cell::new(false),
        }
    }

    /// How many ids were lost since the start, by the names of the causes.
    pub fn by_cause(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Cause::COUNTED.iter().zip(&self.counts).map(|(cause, count)| (cause.name(), count.get()))
    }

    /// The latest gaps of a tag's ids, in the order in which they happened.
    pub fn of(&self, tag: &Tag) -> Vec<Gap> {
        let gaps = self.gaps.borrow();
        let latest = gaps.iter().rev().filter(|gap| gap.tag == *tag).take(GAPS_OF_A_TAG_MAX);
        let mut latest: Vec<Gap> = latest.cloned().collect();
        latest.reverse();
        latest
    }

    /// Writes everything that is not written yet, for a stop.
    pub fn flush(&self) {
        if self.writing.replace(false) {
            write(&self.file, &self.text());
        }
    }

    /// Counts lost ids. `cause` is one of those that are counted.
    pub(super) fn count(&self, cause: Cause, ids: u64) {
        let count = &self.counts[cause as usize];
        count.set(count.get().saturating_add(ids));
    }

    /// Counts a lost run of ids, and remembers it.
    pub(super) fn lose(self: &Rc<Self>, tag: &Tag, cause: Cause, run: Run) {
        self.count(cause, u64::from(run.count));
        self.note(tag, cause, run.range());
    }

    /// Remembers that these ids are never issued.
    pub fn note(self: &Rc<Self>, tag: &Tag, cause: Cause, ids: Range<u64>) {
        if !ids.is_empty() {
            self.remember(Gap { at: clock::now().unix, tag: tag.clone(), cause, ids });
        }
    }

    fn remember(self: &Rc<Self>, gap: Gap) {
        let mut gaps = self.gaps.borrow_mut();
        // A tag that left memory is loaded again, and reports the same gap again.
        if gap.cause == Cause::Crash && gaps.contains(&gap) {
            return;
        }
        if gaps.len() >= GAPS_MAX {
            gaps.pop_front();
        }
        gaps.push_back(gap);
        if self.writing.replace(true) {
            return;
        }
        let losses = Rc::clone(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(WRITTEN_AFTER).await;
            if losses.writing.replace(false) {
                let (file, text) = (losses.file.clone(), losses.text());
                let _ = tokio::task::spawn_blocking(move || write(&file, &text)).await;
            }
        });
    }

    fn text(&self) -> String {
        let gaps = self.gaps.borrow();
        let lines = gaps.iter().filter_map(|gap| serde_json::to_string(gap).ok());
        lines.map(|line| line + "\n").collect()
    }
}

fn write(file: &Path, text: &str) {
    if let Err(error) = replace(file, text) {
        warn!(file = %file.display(), "can't write the causes of gaps: {error}");
    }
}

/// Replaces the whole file at once, so that a reader never sees half of it.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let fresh = file.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let mut out = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    io::Write::write_all(&mut out, text.as_bytes())?;
    fs::rename(&fresh, file)
}

impl Segments {
    /// Counts and remembers the held ids of a shard from this one on, which are never issued.
    pub(super) fn lose_held(&self, tag: &SegmentTag, shard: usize, from: u64, cause: Cause) {
        let allocator = tag.allocator.borrow();
        let held = allocator.held.exact_marks().filter(|(of, ..)| *of == shard_number(shard));
        for (_, run, first) in held {
            let first = first.max(from);
            self.losses.count(cause, u64::from(run.count - run.count_below(first)));
            self.losses.note(&tag.tag, cause, first..run.end());
        }
    }

    /// Remembers the ids that failed claims before this one may have taken without this host's knowledge.
    pub(super) fn note_unanswered(&self, tag: &SegmentTag, shard: usize, claim: &Claim) {
        let seen = tag.allocator.borrow().highest_end(shard_number(shard));
        let trouble = tag.trouble.borrow();
        if trouble.backoff.failing() || trouble.after_crash {
            self.losses.note(&tag.tag, Cause::Unanswered, seen..claim.run.first);
        }
    }

    /// Remembers where a tag continued after a crash, if there was one.
    pub(super) fn note_crash(&self, tag: &SegmentTag, ids: Range<u64>) {
        if let Some(at) = self.losses.crashed {
            tag.trouble.borrow_mut().after_crash = true;
            self.losses.remember(Gap { at, tag: tag.tag.clone(), cause: Cause::Crash, ids });
        }
    }
}
