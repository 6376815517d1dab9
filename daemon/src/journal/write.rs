//! The changes that the journal records, and its records of tags and layouts.

use std::sync::Arc;

use leafd_wire::{Layout, Run};

use super::records::LayoutFields;
use leafd_core::lease::Recorded;
use leafd_core::store::{Generation, HostId, StoreId};
use leafd_core::{Tag, UnixMs};

/// The journal's record of a layout.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LayoutRecord {
    /// The layout's name.
    pub name: Tag,
    /// The layout's definition. Another definition under the same name is refused.
    #[serde(with = "LayoutFields")]
    pub layout: Layout,
    /// Ids whose tick ends at or before this instant may have been issued; later ids have not.
    pub mark: UnixMs,
}

/// The journal's record of a tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagRecord {
    /// The generation that the segments belong to.
    pub generation: Generation,
    /// The highest end of any claim that this host ever made, in any generation. For an embedded store this includes
    /// the identities that it had before it was lost, restored or adopted.
    pub highest_end: u64,
    /// Ids that were claimed and certainly not issued, in ascending order: those of each segment from its mark on.
    pub unissued: Vec<Run>,
}

/// A change to be made durable. A batch of them is one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// A claim: ids below `mark` may be issued. Raises the tag's highest end, and forgets segments of another
    /// generation of the tag. The same claim again moves its mark. On a clean stop it also brings back a segment that
    /// was forgotten too early; then the segment may also be given as what an earlier start found left of it. A claim
    /// that overlaps another is refused.
    Segment {
        /// Where it was claimed.
        store: StoreId,
        /// The tag of the ids.
        tag: Tag,
        /// The tag's generation.
        generation: Generation,
        /// The ids.
        run: Run,
        /// Ids of the segment below this may be issued once this is durable.
        mark: u64,
    },
    /// Moves a mark up. On a clean stop it may also move down, to exactly the first unissued id. A mark at the
    /// segment's end forgets the segment. For a forgotten segment, any mark is true.
    Mark {
        /// Where the segment was claimed.
        store: StoreId,
        /// The tag of the ids.
        tag: Tag,
        /// The segment's end, which identifies the segment.
        end: u64,
        /// See [`Write::Segment`].
        mark: u64,
    },
    /// Moves a segment's mark down. No id from the new mark on was issued, and none will be before the mark moves up
    /// again. Brings back a segment that was forgotten because its mark was at its end.
    DrawBack {
        /// Where the segment was claimed.
        store: StoreId,
        /// The tag of the ids.
        tag: Tag,
        /// The tag's generation.
        generation: Generation,
        /// The segment, or what an earlier start found left of it.
        run: Run,
        /// Ids of the segment below this may be issued.
        mark: u64,
    },
    /// Forgets a tag's segments, because the tag was deleted or created again. Its highest end stays.
    Forget {
        /// Where they were claimed.
        store: StoreId,
        /// The tag of the ids.
        tag: Tag,
    },
    /// Forgets all segments of a store. They don't belong to this host any more, because the store knows a later start
    /// of this host, or lost its last commits while this host was off. The highest ends stay.
    ForgetAll {
        /// Where they were claimed.
        store: StoreId,
    },
    /// Records a layout or moves its mark (down only on a clean stop).
    LayoutMark(LayoutRecord),
    /// A store has recorded this start's token, so it no longer has an earlier one. Records where the store was found;
    /// from now on, the URL refers to no other store. Refused when a text is too long.
    CheckedIn {
        /// The URL where it was found, without secrets; at most 8 KiB.
        url: Arc<str>,
        /// Which store it is; at most 1 KiB.
        store: StoreId,
        /// Its history, at most [`HISTORY_BYTES_MAX`](super::HISTORY_BYTES_MAX) bytes. It is recorded only for a store
        /// that has no record yet; [`Write::History`] records a change.
        history: Arc<str>,
    },
    /// A store's history changed, and this host has settled in the new one: it has reported every highest end, and
    /// other hosts had time to report theirs. Refused for a store that never checked in, and when the history is too
    /// long.
    History {
        /// Which store.
        store: StoreId,
        /// Its current history, at most [`HISTORY_BYTES_MAX`](super::HISTORY_BYTES_MAX) bytes.
        history: Arc<str>,
    },
    /// A store has confirmed this host's write with this number, in its recorded history. Refused for a store that never
    /// checked in.
    Written {
        /// Which store.
        store: StoreId,
        /// The number.
        number: u64,
    },
    /// The latest era that a primary of a store's list has recorded. Refused for a store that never checked in.
    LaterEra {
        /// Which store.
        store: StoreId,
        /// The era; 0 unless it is later than this host's.
        era: u32,
    },
    /// A worker was claimed, renewed, or kept for a restart. Replaces the recorded claim. Refused when a text is too
    /// long.
    Worker(Recorded),
    /// No worker is claimed any more.
    NoWorker,
    /// This host continues as a new one, because a store knows a later start of it than the journal does. Ids that an
    /// earlier start held don't belong to this host any more, and no store knows any of its starts. The lower limits of
    /// ids stay.
    BeginAnew {
        /// The new host.
        host: HostId,
    },
    /// Every mark in this batch is exact, and nothing is issued any more. The journal refuses every later batch except
    /// another one of this kind, whether or not this one was recorded.
    StoppedCleanly,
}
