//! Remembers which processes drew the most recent ids: a ring of fixed size in memory. Nothing depends on it, and a
//! restart clears it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use leafd_core::{Tag, UnixMs};
use leafd_wire::Run;

use crate::clock;

/// The maximum number of answers to one query.
const FOUND_MAX: usize = 8;

/// Ids that a process drew within one second.
#[derive(Clone, Copy, Debug)]
struct Grant {
    tag: TagMark,
    first: u64,
    count: u32,
    stride: u32,
    at_s: u32,
    process: Process,
}

/// Distinguishes tags in less space than their names take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagMark(u64);

/// A process that draws ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its effective user when it connected.
    pub uid: u32,
    /// Its pid, as this daemon sees it; 0 if it is in a container that this daemon can't see.
    pub pid: u32,
}

/// The ring.
#[derive(Debug)]
pub struct RecentDraws {
    /// How many entries are kept.
    most: usize,
    grants: RefCell<VecDeque<Grant>>,
    /// In seconds after the start, updated every second.
    now_s: Cell<u32>,
    started: UnixMs,
}

impl TagMark {
    /// The value of a tag. Outsiders can't construct tags with equal values.
    pub fn of(tag: &Tag) -> TagMark {
        static MARKS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        TagMark(MARKS.hash_one(tag.as_str()))
    }
}

impl RecentDraws {
    /// An empty one of this size. With 0, it records nothing.
    pub fn new(most: usize) -> RecentDraws {
        RecentDraws {
            most,
            // The kernel allocates pages as they are written to.
            grants: RefCell::new(VecDeque::with_capacity(most)),
            now_s: Cell::new(0),
            started: clock::now().unix,
        }
    }

    /// Updates the time for later entries, because drawing an id reads no clock.
    pub fn tick(&self) {
        let passed_s = clock::now().unix.0.saturating_sub(self.started.0) / 1_000;
        self.now_s.set(u32::try_from(passed_s).unwrap_or(u32::MAX));
    }

    /// Records ids that a process drew. Consecutive ids within a second share an entry.
    pub(super) fn note(&self, process: Process, tag: TagMark, runs: &[Run]) {
        if self.most == 0 {
            return;
        }
        let mut grants = self.grants.borrow_mut();
        let at_s = self.now_s.get();
        for run in runs {
            if let Some(last) = grants.back_mut()
                && last.follows(process, tag, at_s, run)
                && let Some(count) = last.count.checked_add(run.count)
            {
                last.count = count;
                continue;
            }
            if grants.len() == self.most {
                grants.pop_front();
            }
            let Run { first, count, stride } = *run;
            grants.push_back(Grant { tag, first, count, stride, at_s, process });
        }
    }

    /// Which processes last drew an id, and when.
    pub fn find(&self, tag: TagMark, id: u64) -> Vec<(Process, UnixMs)> {
        let grants = self.grants.borrow();
        let found = grants.iter().filter(|grant| grant.tag == tag && grant.has(id));
        let at = |grant: &Grant| UnixMs(self.started.0 + u64::from(grant.at_s) * 1_000);
        let mut found: Vec<(Process, UnixMs)> =
            found.map(|grant| (grant.process, at(grant))).collect();
        found.sort_by_key(|(_, at)| std::cmp::Reverse(*at));
        found.truncate(FOUND_MAX);
        found
    }
}

impl Grant {
    fn follows(&self, process: Process, tag: TagMark, at_s: u32, run: &Run) -> bool {
        let next = self.first.wrapping_add(u64::from(self.count) * u64::from(self.stride));
        (next, self.tag, self.process, self.at_s, self.stride)
            == (run.first, tag, process, at_s, run.stride)
    }

    fn has(&self, id: u64) -> bool {
        let stride = u64::from(self.stride.max(1));
        let Some(past) = id.checked_sub(self.first) else { return false };
        past.is_multiple_of(stride) && past / stride < u64::from(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 32_768;

    fn of(uid: u32) -> Process {
        Process { uid, pid: 1 }
    }

    fn run(first: u64, count: u32) -> Run {
        Run { first, count, stride: 1 }
    }

    #[test]
    fn what_was_given_last_is_found() {
        let given = RecentDraws::new(MOST);
        let tags = ["a", "b"].map(|name| TagMark::of(&Tag::parse(name.as_bytes()).unwrap()));
        given.note(
            of(7),
            tags[0],
            &[run(1, 4), run(5, 1), Run { first: 100, count: 3, stride: 10 }],
        );
        assert_eq!(given.grants.borrow().len(), 2, "ids that follow each other share an entry");
        let found = |tag, id| given.find(tag, id).iter().map(|(of, _)| of.uid).collect::<Vec<_>>();
        for id in [1, 4, 5, 100, 110, 120] {
            assert_eq!(found(tags[0], id), [7], "{id}");
            assert_eq!(found(tags[1], id), [0_u32; 0], "{id}");
        }
        for id in [0, 6, 99, 101, 130] {
            assert_eq!(found(tags[0], id), [0_u32; 0], "{id}");
        }
    }

    #[test]
    fn the_ring_is_bounded() {
        let given = RecentDraws::new(MOST);
        let tag = TagMark::of(&Tag::parse(b"a").unwrap());
        let most = MOST as u64;
        for id in 0..most + 10 {
            // Skips every other id; otherwise they would share an entry.
            given.note(of(1), tag, &[run(1 + 2 * id, 1)]);
        }
        assert_eq!(given.grants.borrow().len(), MOST);
        assert!(given.find(tag, 19).is_empty(), "the oldest are overwritten");
        assert_eq!(given.find(tag, 21).len(), 1);
        assert_eq!(given.find(tag, 1 + 2 * (most + 9)).len(), 1);
        let none = RecentDraws::new(0);
        none.note(of(1), tag, &[run(1, 1)]);
        assert!(none.find(tag, 1).is_empty());
    }
}
