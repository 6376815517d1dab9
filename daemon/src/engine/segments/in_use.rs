//! The tags in use, which are found by name. They are also in a list, so that some can be looked at at a time: there
//! may be a hundred thousand, and a look at all at once would delay every request.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use super::SegmentTag;

/// The tags in use.
#[derive(Default)]
pub(super) struct InUse {
    by_name: HashSet<ByName>,
    row: Vec<Rc<SegmentTag>>,
    /// In this round, the tags before this place in the list were checked: see [`InUse::next`].
    checked: usize,
}

/// A tag that is found by its name.
struct ByName(Rc<SegmentTag>);

/// Room for so few tags is kept when tags leave.
const ROOM_KEPT: usize = 1_024;

impl InUse {
    pub(super) fn len(&self) -> usize {
        self.row.len()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Rc<SegmentTag>> {
        self.by_name.get(name).map(|found| &found.0)
    }

    /// All tags in use.
    pub(super) fn all(&self) -> &[Rc<SegmentTag>] {
        &self.row
    }

    /// Adds a tag, and removes another one of its name.
    pub(super) fn insert(&mut self, tag: Rc<SegmentTag>) {
        self.remove(tag.tag.as_str());
        tag.place.set(place(self.row.len()));
        self.row.push(Rc::clone(&tag));
        self.by_name.insert(ByName(tag));
    }

    /// Removes the tag of this name.
    pub(super) fn remove(&mut self, name: &str) {
        let Some(ByName(tag)) = self.by_name.take(name) else { return };
        let mut hole = tag.place.get() as usize;
        if hole < self.checked {
            // The last tag that was checked fills the hole, and one that was not checked takes its place.
            self.checked -= 1;
            self.row.swap(hole, self.checked);
            self.row[hole].place.set(place(hole));
            hole = self.checked;
        }
        self.row.swap_remove(hole);
        if let Some(moved) = self.row.get(hole) {
            moved.place.set(place(hole));
        }
        if self.row.len() < self.row.capacity() / 4 && self.row.capacity() > ROOM_KEPT {
            self.row.shrink_to(self.row.len() * 2);
            self.by_name.shrink_to(self.row.len() * 2);
        }
    }

    /// The next tags in a round over all. Whichever tags come and go, each tag that stays is returned once in a round.
    pub(super) fn next(&mut self, count: usize) -> Vec<Rc<SegmentTag>> {
        if self.checked >= self.row.len() {
            self.checked = 0;
        }
        let end = self.row.len().min(self.checked.saturating_add(count));
        let next = self.row[self.checked..end].to_vec();
        self.checked = end;
        next
    }
}

/// There are never so many, as each takes hundreds of bytes.
fn place(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 tags are in use")
}

impl Borrow<str> for ByName {
    fn borrow(&self) -> &str {
        self.0.tag.as_str()
    }
}

impl Hash for ByName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.tag.as_str().hash(state);
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.tag == other.0.tag
    }
}

impl Eq for ByName {}
