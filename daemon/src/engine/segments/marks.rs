//! Marks: what the journal records about held ids before they are issued, and when they are dropped.

use std::rc::Rc;

use super::{SegmentTag, Segments};
use crate::clock;
use crate::journal::Write;
use leafd_core::Tag;
use leafd_core::segment::{MarkMove, Truncation};
use leafd_core::store::{Generation, StoreId};

impl Segments {
    /// Makes the journal move marks ahead of use.
    pub(crate) fn move_marks(self: &Rc<Self>, tag: &Rc<SegmentTag>, moves: Vec<MarkMove>) {
        let write = |moved: &MarkMove| {
            let shard = &tag.shards[moved.shard as usize];
            let store =
                shard.upstream.key().expect("what is held was claimed from a store that is known");
            Write::Mark { store, tag: tag.tag.clone(), end: moved.end, mark: moved.mark }
        };
        let Some(first) = moves.first() else { return };
        let shard = &tag.shards[first.shard as usize];
        let writes = moves.iter().map(write).collect();
        let (segments, marked) = (Rc::clone(self), Rc::clone(tag));
        self.write_journal(tag, shard, writes, move || {
            marked.allocator.borrow_mut().marked(clock::boot(), &moves);
            segments.drive(&marked);
        });
    }

    /// Makes the journal record which ids will not be issued.
    pub(crate) fn journal_cut(
        self: &Rc<Self>,
        tag: &Rc<SegmentTag>,
        index: usize,
        cut: Truncation,
    ) {
        let shard = &tag.shards[index];
        if tag.is_masked() {
            // In the journal, these ids already count as used.
            return;
        }
        let Some(store) = shard.upstream.key() else { return };
        let writes = cut_writes(&cut, &store, &tag.tag, shard.generation.get());
        if !writes.is_empty() {
            self.write_journal(tag, shard, writes, || {});
        }
    }

    /// The exact marks of all tags, for a clean stop.
    pub fn exact_marks(&self) -> Vec<Write> {
        let mut writes = Vec::new();
        for tag in self.tags.borrow().values().filter(|tag| !tag.is_masked()) {
            let allocator = tag.allocator.borrow();
            // This writes the segment and not just its mark: the journal has forgotten a segment whose mark was at its
            // end.
            writes.extend(allocator.held.exact_marks().filter_map(|(shard, run, mark)| {
                let shard = &tag.shards[shard as usize];
                let (store, generation) = (shard.upstream.key()?, shard.generation.get()?);
                Some(Write::Segment { store, tag: tag.tag.clone(), generation, run, mark })
            }));
        }
        writes
    }
}

/// What the journal records about a cut. The mark of the rest of a segment moves down, because it may have risen if
/// this is recorded a second time.
pub(crate) fn cut_writes(
    cut: &Truncation,
    store: &StoreId,
    tag: &Tag,
    generation: Option<Generation>,
) -> Vec<Write> {
    let closed = cut.closed.iter().map(|closed| {
        let (store, tag) = (store.clone(), tag.clone());
        Write::Mark { store, tag, end: closed.end, mark: closed.mark }
    });
    let kept = cut.kept.zip(generation).map(|((run, mark), generation)| {
        let (store, tag) = (store.clone(), tag.clone());
        Write::DrawBack { store, tag, generation, run, mark }
    });
    closed.chain(kept).collect()
}
