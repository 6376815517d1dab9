//! The ids of one tag that a host holds: segments in the order of issue, each with its mark in the journal.

use std::collections::VecDeque;

use leafd_wire::Run;

use super::Want;

/// A mark to be made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkMove {
    /// The shard that the segment was claimed in.
    pub shard: u32,
    /// The segment's end. It identifies the segment within its shard.
    pub end: u64,
    /// Ids of the segment below this may be issued once the mark is durable.
    pub mark: u64,
}

/// Claimed ids that will never be issued, and what the journal must record immediately, in this order, before anything
/// else of the tag. Otherwise a restart would load the ids again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "the journal must record what was cut"]
pub struct Truncation {
    /// How many ids are lost.
    pub lost: u64,
    /// Marks that end segments. The caller doesn't report them back.
    pub closed: Vec<MarkMove>,
    /// What is left of one of these segments, and its mark. From now on it is a segment of its own.
    pub kept: Option<(Run, u64)>,
}

#[derive(Clone, Debug)]
struct HeldSegment {
    shard: u32,
    claimed: Run,
    /// How many of its ids are issued.
    issued: u32,
    /// How many of its ids may be issued according to the journal.
    marked: u32,
}

/// The ids held of one tag.
#[derive(Debug, Default)]
pub struct SegmentBuffer {
    segments: VecDeque<HeldSegment>,
    /// Once this many ids of the current segment are issued, the caller must attend to the tag.
    watch: u32,
}

impl SegmentBuffer {
    /// Adds a segment behind all others. The caller must make sure that a shard's segments ascend.
    pub(super) fn push(&mut self, shard: u32, claimed: Run, mark: u64) {
        let marked = claimed.count_below(mark);
        self.segments.push_back(HeldSegment { shard, claimed, issued: 0, marked });
        self.watch = 0;
    }

    /// Issues ids into `runs` if there are enough below the marks. Returns how many.
    #[inline]
    pub(super) fn issue(&mut self, want: Want, runs: &mut Vec<Run>) -> Option<u32> {
        let current = self.segments.front_mut()?;
        if want.count <= current.issuable() {
            runs.push(current.issue(want.count));
            self.drop_used_up();
            return Some(want.count);
        }
        self.issue_across(want, runs)
    }

    /// Issues ids of several segments, or fewer ids than wanted.
    fn issue_across(&mut self, want: Want, runs: &mut Vec<Run>) -> Option<u32> {
        // Only ids below an unbroken series of marks, because a later id must not precede an earlier one.
        let mut reach = 0;
        for segment in self.segments.iter() {
            reach += u64::from(segment.issuable());
            if segment.marked < segment.claimed.count {
                break;
            }
        }
        let count = u32::try_from(reach).map_or(want.count, |reach| want.count.min(reach));
        if count == 0 || (count < want.count && !want.allow_partial) {
            return None;
        }
        let mut left = count;
        while left > 0 {
            let current = self.segments.front_mut().expect("reach counted these segments");
            let taken = left.min(current.issuable());
            runs.push(current.issue(taken));
            left -= taken;
            self.drop_used_up();
        }
        Some(count)
    }

    /// Whether the caller should ask for claims and marks now, because the current segment is used up to the point set
    /// by `look_after`, or there is no segment. Cheap enough to call after each
    /// [`Allocator::take`](super::Allocator::take).
    #[inline]
    pub fn wants_attention(&self) -> bool {
        self.segments.front().is_none_or(|current| current.issued >= self.watch)
    }

    /// Makes the caller check again after this many more ids of the current segment, or at its end.
    pub(super) fn look_after(&mut self, issued: u64) {
        if let Some(current) = self.segments.front() {
            let left = current.unissued();
            let ahead = u32::try_from(issued).map_or(left, |issued| issued.clamp(1, left));
            self.watch = current.issued + ahead;
        }
    }

    /// The segments in order: how many ids of each are left, and how many it had when it was claimed or restored.
    pub fn segments(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.segments.iter().map(|segment| (segment.unissued(), segment.claimed.count))
    }

    /// How many held ids are not issued yet.
    pub fn unissued(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.unissued())).sum()
    }

    /// How many ids may be issued: those below the marks.
    pub(super) fn marked(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.issuable())).sum()
    }

    /// The mark moves after which `wanted` ids, or all held ids, are marked ahead of use.
    pub(super) fn mark_moves(&self, mut wanted: u64) -> Vec<MarkMove> {
        let mut moves = Vec::new();
        for segment in self.segments.iter() {
            let left = u64::from(segment.unissued());
            let ahead = segment.issued + wanted.min(left) as u32;
            if ahead > segment.marked {
                moves.push(segment.mark_at(ahead));
            }
            wanted -= wanted.min(left);
        }
        moves
    }

    /// Moves a segment's mark. Ignores a segment that is no longer held.
    pub(super) fn set_mark(&mut self, moved: MarkMove) {
        let mut segments = self.segments.iter_mut();
        let named =
            |held: &&mut HeldSegment| (held.shard, held.claimed.end()) == (moved.shard, moved.end);
        if let Some(segment) = segments.find(named) {
            let marked = segment.claimed.count_below(moved.mark);
            assert!(marked >= segment.marked && moved.mark <= moved.end, "marks move up");
            segment.marked = marked;
        }
        self.watch = 0;
    }

    /// Moves marks back so that only `wanted` ids stay marked ahead of use. Returns the segments whose marks move.
    pub(super) fn draw_marks_back(&mut self, mut wanted: u64) -> Vec<(u32, Run, u64)> {
        let mut moved = Vec::new();
        for segment in self.segments.iter_mut() {
            let ahead = u64::from(segment.issuable());
            if ahead > wanted {
                segment.marked = segment.issued + wanted as u32;
                moved.push((segment.shard, segment.claimed, segment.claimed.bound(segment.marked)));
            }
            wanted -= wanted.min(ahead);
        }
        self.watch = 0;
        moved
    }

    /// For a clean stop: each segment with its shard and its exact mark, which is its first unissued id. Ids that are
    /// marked but not issued are kept.
    pub fn exact_marks(&self) -> impl Iterator<Item = (u32, Run, u64)> + '_ {
        let segments = self.segments.iter();
        segments.map(|one| (one.shard, one.claimed, one.claimed.bound(one.issued)))
    }

    /// Drops a shard's ids from `first_lost` on.
    pub(super) fn cut_from(&mut self, shard: u32, first_lost: u64) -> Truncation {
        let mut cut = Truncation::default();
        self.segments.retain_mut(|segment| {
            let claimed = segment.claimed;
            if segment.shard != shard || claimed.end() <= first_lost {
                return true;
            }
            let left = claimed.count_below(first_lost).max(segment.issued);
            cut.close(shard, claimed, claimed.count - left);
            if segment.issued == left {
                return false;
            }
            segment.claimed = Run { count: left, ..claimed };
            segment.marked = segment.marked.min(left);
            if segment.marked < left {
                cut.kept = Some((segment.claimed, segment.claimed.bound(segment.marked)));
            }
            true
        });
        self.watch = 0;
        cut
    }

    /// Drops a shard's segments that start below `floor`.
    pub(super) fn cut_below(&mut self, shard: u32, floor: u64) -> Truncation {
        let mut cut = Truncation::default();
        self.segments.retain_mut(|segment| {
            let stays = segment.shard != shard || segment.claimed.first >= floor;
            if !stays {
                cut.close(shard, segment.claimed, segment.unissued());
            }
            stays
        });
        self.watch = 0;
        cut
    }

    /// Drops all held ids of a shard.
    pub(super) fn forget(&mut self, shard: u32) {
        self.segments.retain_mut(|segment| segment.shard != shard);
        self.watch = 0;
    }

    fn drop_used_up(&mut self) {
        if self.segments.front().is_some_and(|current| current.unissued() == 0) {
            self.segments.pop_front();
            self.watch = 0;
        }
    }
}

impl HeldSegment {
    /// How many ids may be issued now.
    fn issuable(&self) -> u32 {
        self.marked - self.issued
    }

    fn unissued(&self) -> u32 {
        self.claimed.count - self.issued
    }

    /// The mark move after which this many ids of the segment may be issued.
    fn mark_at(&self, marked: u32) -> MarkMove {
        MarkMove { shard: self.shard, end: self.claimed.end(), mark: self.claimed.bound(marked) }
    }

    /// Issues the next `count` ids. They lie below the mark.
    fn issue(&mut self, count: u32) -> Run {
        let Run { first, stride, .. } = self.claimed;
        let next = first + u64::from(self.issued) * u64::from(stride);
        self.issued += count;
        Run { first: next, count, stride }
    }
}

impl Truncation {
    /// Whether no ids were cut.
    pub fn is_empty(&self) -> bool {
        self.closed.is_empty()
    }

    /// Appends `other`.
    pub(super) fn and(mut self, other: Truncation) -> Truncation {
        self.lost += other.lost;
        self.closed.extend(other.closed);
        self.kept = other.kept.or(self.kept);
        self
    }

    /// Ends a segment that loses this many ids.
    pub(super) fn close(&mut self, shard: u32, claimed: Run, lost: u32) {
        let end = claimed.end();
        self.lost += u64::from(lost);
        self.closed.push(MarkMove { shard, end, mark: end });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Want = Want { count: 1, allow_partial: false };
    const ALL: Want = Want { count: 10, allow_partial: true };

    fn run(first: u64) -> Run {
        Run { first, count: 10, stride: 1 }
    }

    /// Ids of two shards, of which half are marked. The caller looks again after three of them.
    fn watched() -> SegmentBuffer {
        let mut held = SegmentBuffer::default();
        held.push(0, run(10), 15);
        held.push(1, run(30), 35);
        held.look_after(3);
        held
    }

    #[test]
    fn the_caller_looks_again_after_as_many_ids_as_it_said() {
        assert!(SegmentBuffer::default().wants_attention());
        let drawn = |watch: Option<u64>, marked| {
            let mut held = watched();
            held.segments[0].marked = marked;
            held.issue(ONE, &mut Vec::new());
            watch.into_iter().for_each(|ids| held.look_after(ids));
            let mut takes =
                || held.issue(ONE, &mut Vec::new()).is_some() && !held.wants_attention();
            (0..20).take_while(|_| takes()).count()
        };
        // One was issued before.
        assert_eq!([None, Some(3), Some(0), Some(1)].map(|watch| drawn(watch, 10)), [1, 2, 0, 0]);
        // The end of the segment, or of its marks.
        assert_eq!(
            [(Some(u64::MAX), 10), (Some(u64::MAX), 5)].map(|(watch, to)| drawn(watch, to)),
            [8, 4]
        );
    }

    #[test]
    fn whatever_changes_what_is_held_wants_attention() {
        type Change = fn(&mut SegmentBuffer);
        let changes: [(&str, Change); 7] = [
            ("push", |held| held.push(0, run(50), 50)),
            ("set_mark", |held| held.set_mark(MarkMove { shard: 1, end: 40, mark: 40 })),
            ("draw_marks_back", |held| drop(held.draw_marks_back(1))),
            ("cut_from", |held| drop(held.cut_from(1, 31))),
            ("cut_below", |held| drop(held.cut_below(1, 35))),
            ("forget", |held| held.forget(1)),
            ("issue", |held| _ = held.issue(ALL, &mut Vec::new())),
        ];
        for (what, change) in changes {
            let mut held = watched();
            held.segments[0].marked = 10;
            assert!(!held.wants_attention());
            change(&mut held);
            assert!(held.wants_attention(), "{what}");
        }
    }

    /// What is issued of the ids of which half are marked, and of the rest once the first segment is marked.
    #[test]
    fn a_request_gets_all_that_it_wants_unless_it_accepts_fewer() {
        for (marked, count, allow_partial, expected) in [
            (5, 5, false, Some(vec![(10, 5)])),
            (5, 6, false, None),
            (5, 6, true, Some(vec![(10, 5)])),
            (0, 1, true, None),
            (10, 14, false, Some(vec![(10, 10), (30, 4)])),
            (10, 15, false, Some(vec![(10, 10), (30, 5)])),
            (10, 16, false, None),
            (10, 16, true, Some(vec![(10, 10), (30, 5)])),
        ] {
            let (mut held, mut runs) = (watched(), Vec::new());
            held.segments[0].marked = marked;
            let issued = held.issue(Want { count, allow_partial }, &mut runs);
            let runs: Vec<_> = runs.iter().map(|run| (run.first, run.count)).collect();
            assert_eq!(runs, expected.clone().unwrap_or_default(), "{marked} {count}");
            let total = expected.map(|runs| runs.iter().map(|run| run.1).sum());
            assert_eq!(issued, total, "{marked} {count}");
        }
    }

    #[test]
    fn marks_move_as_far_as_wanted() {
        for (wanted, expected) in [
            (4, vec![]),
            (5, vec![]),
            (6, vec![(20, 16)]),
            (10, vec![(20, 20)]),
            (15, vec![(20, 20)]),
            (16, vec![(20, 20), (40, 36)]),
            (99, vec![(20, 20), (40, 40)]),
        ] {
            let moves = watched().mark_moves(wanted);
            let moves: Vec<_> = moves.iter().map(|moved| (moved.end, moved.mark)).collect();
            assert_eq!(moves, expected, "{wanted}");
        }
        for (wanted, expected) in [
            (0, vec![(0, 10), (1, 30)]),
            (4, vec![(0, 14), (1, 30)]),
            (5, vec![(1, 30)]),
            (7, vec![(1, 32)]),
            (10, vec![]),
        ] {
            let moved = watched().draw_marks_back(wanted);
            let moved: Vec<_> = moved.iter().map(|(shard, _, mark)| (*shard, *mark)).collect();
            assert_eq!(moved, expected, "{wanted}");
        }
    }

    #[test]
    fn a_mark_moves_up_within_its_segment() {
        for (mark, is_right) in [(14, false), (15, true), (20, true), (21, false)] {
            let set = || watched().set_mark(MarkMove { shard: 0, end: 20, mark });
            assert_eq!(std::panic::catch_unwind(set).is_ok(), is_right, "{mark}");
        }
    }
}
