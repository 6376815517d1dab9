//! What is written to the journal, and what it tells of a tag and of a layout.

use std::sync::Arc;

use leafd_wire::{Layout, Run};

use leafd_core::lease::Recorded;
use leafd_core::store::{Generation, HostId, StoreId};
use leafd_core::{Tag, UnixMs};

/// A layout as recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutRecord {
    /// Its name.
    pub name: Tag,
    /// Its definition; another one under the same name is refused.
    pub layout: Layout,
    /// Ids whose tick ends at or before this instant may have been issued; later ones have not.
    pub mark: UnixMs,
}

/// What the journal has of a tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagRecord {
    /// The generation that the segments belong to.
    pub generation: Generation,
    /// The highest end of any claim ever made by this host, whatever the generation; of an embedded store
    /// also under the identities that it had before it was lost, restored or adopted.
    pub highest_end: u64,
    /// Ids claimed and certainly not issued, ascending: those of each segment from its mark on.
    pub unissued: Vec<Run>,
}

/// A change to be made durable. A batch of them is one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// A claim: nothing in it below `mark` is certain to be unissued. Raises the tag's highest end.
    /// Segments of another generation of the tag are forgotten. The same claim once more moves its
    /// mark (or, on a clean stop, brings back one that was forgotten too early; then it may also be named
    /// by what an earlier start found left of it); one that overlaps another is refused.
    Segment {
        /// Where it was claimed.
        store: StoreId,
        /// Whose numbers.
        tag: Tag,
        /// The tag's generation.
        generation: Generation,
        /// The ids.
        run: Run,
        /// Numbers of the segment below this may be issued once this is durable.
        mark: u64,
    },
    /// Moves a mark up (on a clean stop also down, to exactly the first unissued number). A mark at
    /// the segment's end forgets the segment, and of a forgotten segment any mark is true.
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
    /// Moves a segment's mark down: nothing from it on was issued, nor will be before it is moved up again. Brings a segment
    /// back that was forgotten because it was marked to its end.
    DrawBack {
        /// Where the segment was claimed.
        store: StoreId,
        /// Whose ids.
        tag: Tag,
        /// The tag's generation.
        generation: Generation,
        /// The segment, or what an earlier start found left of it.
        run: Run,
        /// Ids of the segment below this may be issued.
        mark: u64,
    },
    /// Forgets a tag's segments: the tag is gone or made anew. Its highest end stays.
    Forget {
        /// Where they were claimed.
        store: StoreId,
        /// Whose numbers.
        tag: Tag,
    },
    /// Forgets all segments of a store: they are not this host's any more, because the store knows a later
    /// start of it or lost its last commits while this host was off. The highest ends stay.
    ForgetAll {
        /// Where they were claimed.
        store: StoreId,
    },
    /// Records a layout or moves its mark (down only on a clean stop).
    LayoutMark(LayoutRecord),
    /// A store has taken this start's token: of earlier ones it can have none any more. Records where it was
    /// found; the URL leads to no other store from now on. Refused when a text is too long.
    CheckedIn {
        /// Where it was found, without secrets; at most 8 KiB.
        url: Arc<str>,
        /// Which store it is; at most 1 KiB.
        store: StoreId,
        /// Its history, up to [`HISTORY_BYTES_MAX`](super::HISTORY_BYTES_MAX). Taken only of a store that is not recorded yet: a
        /// change is entered by [`Write::History`].
        history: Arc<str>,
    },
    /// A store's history changed, and that was dealt with: every highest end was pushed, and the others had
    /// their time to do so. Refused for a store that never checked in, or when it is too long.
    History {
        /// Which store.
        store: StoreId,
        /// Its history now, up to [`HISTORY_BYTES_MAX`](super::HISTORY_BYTES_MAX).
        history: Arc<str>,
    },
    /// A worker is claimed, renewed or kept for a restart; it replaces what was recorded. Refused when a text is too
    /// long.
    Worker(Recorded),
    /// No worker is claimed any more.
    NoWorker,
    /// This host goes on as a new one, because a store knows a later start of the old one than the journal does: no
    /// number of an earlier start is this host's, and no store knows any start of it. What limits ids from below stays.
    BeginAnew {
        /// The new host.
        host: HostId,
    },
    /// Every mark in this batch is exact, and nothing is issued any more: the journal refuses
    /// every later batch but another of this kind, whether or not this one came through.
    StoppedCleanly,
}
