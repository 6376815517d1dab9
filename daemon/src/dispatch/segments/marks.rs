//! Marks: what the journal is told of the numbers held, before they are issued and when they won't be.

use std::rc::Rc;

use super::supply::Supply;
use super::{SegmentTag, Segments};
use crate::id::segment::{Cut, MarkMove};
use crate::journal::Write;

impl Segments {
    /// Has the journal move marks ahead of use.
    pub(super) fn move_marks(self: &Rc<Self>, tag: &Rc<SegmentTag>, moves: Vec<MarkMove>) {
        let moves = Rc::new(moves);
        for (index, moved) in moves.iter().enumerate() {
            let lane = &tag.lanes[moved.lane as usize];
            let store =
                lane.home.key().expect("what is held was claimed from a store that is known");
            let write =
                Write::Mark { store, tag: tag.tag.clone(), end: moved.end, mark: moved.mark };
            let last = index + 1 == moves.len();
            let (segments, tag, moves) = (Rc::clone(self), Rc::clone(tag), Rc::clone(&moves));
            self.writer.write(write, move || {
                if last {
                    if let Supply::Held(allocator) = &mut *tag.supply.borrow_mut() {
                        allocator.marked(&moves);
                    }
                    segments.attend(&tag);
                }
            });
        }
    }

    /// Has the journal record what will not be issued.
    pub(super) fn journal_cut(&self, tag: &SegmentTag, index: usize, cut: Cut) {
        let lane = &tag.lanes[index];
        let Some(store) = lane.home.key() else { return };
        for closed in cut.closed {
            let (store, tag) = (store.clone(), tag.tag.clone());
            self.writer
                .write(Write::Mark { store, tag, end: closed.end, mark: closed.mark }, || {});
        }
        if let (Some((numbers, mark)), Some(generation)) = (cut.kept, lane.generation.get()) {
            let tag = tag.tag.clone();
            self.writer.write(Write::Segment { store, tag, generation, numbers, mark }, || {});
        }
    }

    /// The exact marks of all tags, for a clean stop.
    #[must_use]
    pub fn exact_marks(&self) -> Vec<Write> {
        let mut writes = Vec::new();
        for tag in self.tags.borrow().values() {
            let Supply::Held(allocator) = &*tag.supply.borrow() else { continue };
            // A segment and not just a mark: one that was marked to its end is forgotten by now.
            writes.extend(allocator.exact_marks().filter_map(|(lane, numbers, mark)| {
                let lane = &tag.lanes[lane as usize];
                let (store, generation) = (lane.home.key()?, lane.generation.get()?);
                Some(Write::Segment { store, tag: tag.tag.clone(), generation, numbers, mark })
            }));
        }
        writes
    }
}
