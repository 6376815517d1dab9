//! The host's journal: what this host has claimed and how much of it may be out, on disk before use.
//!
//! A SQLite database (WAL, `synchronous=FULL`) in the state directory, written by a thread of its own.
//! Requests never wait for it while ids below the marks last; marks of all tags move in one
//! transaction. A restart goes on at the marks without asking anybody.

use std::ops::Range;
use std::path::PathBuf;

use leafd_wire::Layout;

use crate::id::{Tag, UnixMs};
use crate::store::{Generation, HostId, StartToken, StoreId};

/// What the journal told at start.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Who this host is.
    pub host: HostId,
    /// Start tokens that the store may have, oldest first: the last one confirmed and those of starts
    /// whose check-in was never confirmed.
    pub tokens_known: Vec<StartToken>,
    /// This start's token: new, and already in the journal.
    pub token: StartToken,
    /// Where a journal of another host went, when there was one.
    pub set_aside: Option<PathBuf>,
    /// Each layout with the bound below which ids may have been issued.
    pub layouts: Vec<LayoutRecord>,
    /// Whether the last stop wrote exact marks.
    pub stopped_cleanly: bool,
}

/// A layout as recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutRecord {
    /// Its name.
    pub name: Tag,
    /// Its definition; another one under the same name is refused.
    pub layout: Layout,
    /// Ids whose tick ends at or before this instant may have been issued; later ones have not.
    pub bound: UnixMs,
}

/// What the journal has of a tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagRecord {
    /// The generation that the segments belong to.
    pub generation: Generation,
    /// The highest end of any claim ever made by this host, whatever the generation.
    pub highest_end: u64,
    /// Numbers claimed and certainly not issued, ascending, none empty: from each mark to its end.
    pub unissued: Vec<Range<u64>>,
}

/// A change to be made durable. A batch of them is one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// A claim: nothing in it below `mark` is certain to be unissued. Raises the tag's highest end.
    /// Segments of another generation of the tag are forgotten.
    Segment {
        /// Where it was claimed.
        store: StoreId,
        /// Whose numbers.
        tag: Tag,
        /// The tag's generation.
        generation: Generation,
        /// The numbers.
        numbers: Range<u64>,
        /// Numbers of the segment below this may be issued once this is durable.
        mark: u64,
    },
    /// Moves a mark (on a clean stop: to exactly the first unissued number). A mark at the segment's
    /// end forgets the segment.
    Mark {
        /// Where the segment was claimed.
        store: StoreId,
        /// Whose numbers.
        tag: Tag,
        /// The segment's end, which names it.
        end: u64,
        /// See [`Write::Segment`].
        mark: u64,
    },
    /// Forgets a tag's segments: the tag is gone or made anew. Its highest end stays.
    Forget {
        /// Where they were claimed.
        store: StoreId,
        /// Whose numbers.
        tag: Tag,
    },
    /// Records a layout or moves its bound (down only on a clean stop).
    Bound(LayoutRecord),
    /// The store has taken this start's token: the earlier ones are forgotten.
    CheckedIn,
    /// Every mark and bound is exact.
    StoppedCleanly,
}

/// Why the journal can't be used. Nothing is issued until it can.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the journal {path} can't be used: {cause}", path = path.display())]
pub struct JournalError {
    /// The file or directory.
    pub path: PathBuf,
    /// What was tried, what happened and what to do next.
    pub cause: String,
}
