//! The tags in use, by name and in a list. The list allows work on some tags at a time. There may be a hundred thousand,
//! and work on all of them at once would delay every request.

use std::ops::Range;
use std::rc::Rc;

use indexmap::IndexMap;

use super::SegmentTag;
use leafd_core::Tag;

/// The tags in use.
#[derive(Default)]
pub(super) struct InUse {
    tags: IndexMap<Tag, Rc<SegmentTag>>,
    /// In this round, the tags before this index were checked; see [`InUse::next`].
    checked: usize,
}

/// When tags leave, room for this many is kept.
const ROOM_KEPT: usize = 1_024;

impl InUse {
    pub(super) fn len(&self) -> usize {
        self.tags.len()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Rc<SegmentTag>> {
        self.tags.get(name)
    }

    /// All tags in use.
    pub(super) fn all(&self) -> impl Iterator<Item = &Rc<SegmentTag>> {
        self.tags.values()
    }

    /// A part of the list.
    pub(super) fn part(&self, indexes: Range<usize>) -> Vec<Rc<SegmentTag>> {
        self.tags[indexes].values().cloned().collect()
    }

    /// Adds a tag. It replaces another one of its name.
    pub(super) fn insert(&mut self, tag: Rc<SegmentTag>) {
        self.tags.insert(tag.tag.clone(), tag);
    }

    /// Removes the tag of this name.
    pub(super) fn remove(&mut self, name: &str) {
        let Some(mut hole) = self.tags.get_index_of(name) else { return };
        if hole < self.checked {
            // The last tag that was checked fills the hole, and one that was not checked takes its index.
            self.checked -= 1;
            self.tags.swap_indices(hole, self.checked);
            hole = self.checked;
        }
        self.tags.swap_remove_index(hole);
        if self.tags.len() < self.tags.capacity() / 4 && self.tags.capacity() > ROOM_KEPT {
            self.tags.shrink_to(self.tags.len() * 2);
        }
    }

    /// The next tags in a round over all. Each tag that stays is returned once in a round, even if others come and go.
    pub(super) fn next(&mut self, count: usize) -> Vec<Rc<SegmentTag>> {
        if self.checked >= self.tags.len() {
            self.checked = 0;
        }
        let begin = self.checked;
        self.checked = self.tags.len().min(begin.saturating_add(count));
        self.part(begin..self.checked)
    }
}
