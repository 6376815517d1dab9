//! Remembers which claimed ids nobody gets, to explain later why they are missing. What is issued doesn't depend on
//! it. It is a small file in the state directory, written with a delay and limited in size.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use std::{fs, io};

use tracing::warn;

use super::skipped::Cause;
use super::tag::shard_number;
use super::{SegmentTag, Segments};
use crate::clock;
use crate::reply::Failure;
use leafd_core::shares::Claimant;
use leafd_core::store::Claim;
use leafd_core::{Tag, UnixMs};
use leafd_wire::Run;

/// The file's name.
const FILE: &str = "gaps";

/// How many gaps are remembered. The oldest are forgotten.
const GAPS_MAX: usize = 4_096;

/// How long it may take to read an unused tag from the journal, and how often to check whether it is read.
const LOADED_WITHIN: Duration = Duration::from_secs(5);
const LOOKED_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// How many gaps of one tag are reported.
const GAPS_OF_A_TAG_MAX: usize = 400;

/// How long gaps are collected before they are written.
const WRITTEN_AFTER: Duration = Duration::from_millis(200);

/// A range of ids that nobody gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The time.
    pub at: UnixMs,
    /// The tag of the ids.
    pub tag: Tag,
    /// The cause: the name of a cause of skipped ids, [`CRASH`] or [`UNANSWERED`].
    pub cause: String,
    /// The ids. After a crash: from the id at which the daemon went on, up to the end of all that it had claimed.
    pub ids: Range<u64>,
}

/// The daemon did not stop cleanly. It went on at its marks, and skipped unused ids below them.
pub const CRASH: &str = "crash";

/// A claim that failed may have been made all the same. The ids that the store gave this host in between are lost.
pub const UNANSWERED: &str = "unanswered";

/// The host lacked the key of a masked tag.
pub(super) const MASK_KEY: &str = "mask_key";

/// The gaps of this host.
#[derive(Debug)]
pub struct GapLog {
    file: PathBuf,
    gaps: RefCell<VecDeque<Gap>>,
    /// When the daemon started, if that was after a crash.
    crashed: Option<UnixMs>,
    /// Whether a write is under way.
    writing: Cell<bool>,
}

impl Gap {
    /// Whether ids of a claim with this stride, of which this is one, can be meant. Of several stores that feed a tag
    /// each has one residue class of ids.
    #[must_use]
    pub fn is_of(&self, id: u64, stride: u32) -> bool {
        // What is noted ends past an id that was claimed. A claim without an answer ended where the next one begins, and
        // after a crash nothing may have been left to go on with.
        let Range { start, end } = self.ids;
        let of_class = match &*self.cause {
            UNANSWERED => end,
            CRASH if start < end => start,
            _ => end.saturating_sub(1),
        };
        of_class.abs_diff(id).is_multiple_of(stride.into())
    }

    fn parse(line: &str) -> Option<Gap> {
        let mut words = line.splitn(5, ' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (at, first, end) = (UnixMs(number()?), number()?, number()?);
        let cause = words.next()?.to_owned();
        let tag = Tag::parse(words.next()?.as_bytes()).ok()?;
        Some(Gap { at, tag, cause, ids: first..end })
    }

    fn line(&self) -> String {
        let Gap { at, tag, cause, ids } = self;
        format!("{} {} {} {cause} {}\n", at.0, ids.start, ids.end, tag.as_str())
    }
}

impl GapLog {
    /// Reads what the file in this directory remembers. If it can't be read, a new one is begun: it only explains.
    #[must_use]
    pub fn open(state_dir: &Path, crashed: bool) -> GapLog {
        let file = state_dir.join(FILE);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                warn!(file = %file.display(), "the reasons for earlier gaps can't be read: {error}");
                String::new()
            }
        };
        let mut gaps: VecDeque<Gap> = text.lines().filter_map(Gap::parse).collect();
        gaps.drain(..gaps.len().saturating_sub(GAPS_MAX));
        let crashed = crashed.then(|| clock::now().unix);
        GapLog { file, gaps: RefCell::new(gaps), crashed, writing: Cell::new(false) }
    }

    /// The last gaps that are remembered of a tag's ids, in the order in which they happened.
    #[must_use]
    pub fn of(&self, tag: &Tag) -> Vec<Gap> {
        let gaps = self.gaps.borrow();
        let mut last: Vec<Gap> = gaps
            .iter()
            .rev()
            .filter(|gap| gap.tag == *tag)
            .take(GAPS_OF_A_TAG_MAX)
            .cloned()
            .collect();
        last.reverse();
        last
    }

    fn note(&self, gap: Gap) -> bool {
        let mut gaps = self.gaps.borrow_mut();
        // A tag that left memory is loaded again, and reports the same gap again.
        if gap.cause == CRASH && gaps.contains(&gap) {
            return false;
        }
        if gaps.len() >= GAPS_MAX {
            gaps.pop_front();
        }
        gaps.push_back(gap);
        !self.writing.replace(true)
    }

    /// Writes what is not written yet, for a stop.
    pub fn flush(&self) {
        if self.writing.replace(false) {
            GapLog::write(&self.file, &self.text());
        }
    }

    fn text(&self) -> String {
        self.gaps.borrow().iter().map(Gap::line).collect()
    }

    fn write(file: &Path, text: &str) {
        if let Err(error) = GapLog::replace(file, text) {
            warn!(file = %file.display(), "the reasons for gaps can't be written: {error}");
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
}

impl Segments {
    /// Why ids of this host are missing.
    #[must_use]
    pub fn gaps(&self) -> &GapLog {
        &self.gap_log
    }

    /// The ids of a tag that this host holds and has not issued, and for each of the tag's stores the highest end that it
    /// has seen there. Waits for the journal if the tag is not in use.
    ///
    /// # Errors
    /// As for [`Segments::tag`]; also when the journal or the store takes long.
    pub async fn held_of(
        self: &Rc<Self>,
        name: &Tag,
        claimant: Claimant,
    ) -> Result<(Vec<Run>, Vec<u64>), Failure> {
        let give_up = Instant::now() + LOADED_WITHIN;
        loop {
            let tag = self.tag(name, claimant)?;
            if tag.shards.iter().all(|shard| shard.is_loaded()) {
                let allocator = tag.allocator.borrow();
                let held = allocator.exact_marks().map(|(_, run, first)| Run {
                    first,
                    count: run.count - run.count_below(first),
                    ..run
                });
                let held = held.filter(|run| run.count > 0).collect();
                return Ok((held, allocator.highest_ends()));
            }
            if Instant::now() > give_up {
                return Err(tag.deadline(self.writer.trouble()));
            }
            tokio::time::sleep(LOOKED_AGAIN_AFTER).await;
        }
    }

    /// Remembers that nobody gets these ids.
    pub(super) fn note_gap(&self, tag: &Tag, cause: &str, ids: Range<u64>) {
        if !ids.is_empty() {
            let cause = cause.to_owned();
            self.remember(Gap { at: clock::now().unix, tag: tag.clone(), cause, ids });
        }
    }

    /// Remembers that nobody gets the held ids of a shard from this one on.
    pub(super) fn note_dropped(&self, tag: &SegmentTag, shard: usize, from: u64, cause: Cause) {
        let dropped: Vec<Range<u64>> = {
            let allocator = tag.allocator.borrow();
            let held = allocator.exact_marks().filter(|(of, ..)| *of == shard_number(shard));
            held.map(|(_, run, first)| first.max(from)..run.end()).collect()
        };
        dropped.into_iter().for_each(|ids| self.note_gap(&tag.tag, cause.name(), ids));
    }

    /// Remembers the ids that failed claims before this one may have taken without this host's knowledge.
    pub(super) fn note_unanswered(&self, tag: &SegmentTag, shard: usize, claim: &Claim) {
        let seen = tag.allocator.borrow().highest_end(shard_number(shard));
        if tag.may_have_claimed() {
            self.note_gap(&tag.tag, UNANSWERED, seen..claim.run.first);
        }
    }

    /// Remembers where a tag went on after a crash, if there was one.
    pub(super) fn note_crash(&self, tag: &SegmentTag, ids: Range<u64>) {
        if let Some(at) = self.gap_log.crashed {
            tag.in_trouble(|trouble| trouble.after_crash = true);
            self.remember(Gap { at, tag: tag.tag.clone(), cause: CRASH.to_owned(), ids });
        }
    }

    fn remember(&self, gap: Gap) {
        if !self.gap_log.note(gap) {
            return;
        }
        let log = Rc::clone(&self.gap_log);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(WRITTEN_AFTER).await;
            if log.writing.replace(false) {
                let (file, text) = (log.file.clone(), log.text());
                let write = move || GapLog::write(&file, &text);
                let _ = tokio::task::spawn_blocking(write).await;
            }
        });
    }
}
