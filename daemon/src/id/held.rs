//! The numbers that a host holds of one tag: segments in the order in which they are issued, each with its
//! mark in the journal. Numbers are a lane's own counter here; only issuing makes ids of them.

use std::collections::VecDeque;
use std::ops::Range;

use leafd_wire::Run;

use super::Want;

/// A mark to be made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkMove {
    /// The lane that the segment was claimed in.
    pub lane: u32,
    /// The segment's end, which names it within its lane.
    pub end: u64,
    /// Numbers below this may be issued once it is durable.
    pub mark: u64,
}

/// Numbers claimed that will never be issued, and what the journal must record at once, in this order and
/// before anything else of the tag: or a restart would take them up again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "the journal must record what was cut"]
pub struct Cut {
    /// How many numbers are lost.
    pub lost: u64,
    /// Marks that end segments. They are not reported back.
    pub closed: Vec<MarkMove>,
    /// What is left of one of those segments, and its mark: a segment of its own from now on.
    pub kept: Option<(Range<u64>, u64)>,
}

/// A claimed range.
#[derive(Clone, Debug)]
struct Segment {
    start: u64,
    /// The first number not issued.
    next: u64,
    /// Numbers below it may be issued: the journal says so.
    mark: u64,
    end: u64,
    lane: u32,
}

/// What is held of one tag.
#[derive(Debug)]
pub(super) struct Held {
    segments: VecDeque<Segment>,
    /// How many lanes share the ids: number k of a lane is the id k * stride + lane.
    stride: u32,
    /// Below this `next` of the current segment nothing needs the caller's attention.
    watch: u64,
}

impl Held {
    /// Nothing is held.
    pub(super) fn new(stride: u32) -> Self {
        Held { segments: VecDeque::new(), stride, watch: 0 }
    }

    /// Takes a segment in, to be issued after all others. The caller sees to it that a lane's ascend.
    pub(super) fn push(&mut self, lane: u32, numbers: &Range<u64>, mark: u64) {
        let Range { start, end } = *numbers;
        self.segments.push_back(Segment { start, next: start, mark, end, lane });
        self.watch = 0;
    }

    /// Issues numbers as ids into `runs`, if there are enough below the marks. The answer is how many.
    #[inline]
    pub(super) fn issue(&mut self, want: Want, runs: &mut Vec<Run>) -> Option<u32> {
        let current = self.segments.front_mut()?;
        if u64::from(want.count) <= current.mark - current.next {
            runs.push(current.issue(want.count, self.stride));
            self.drop_used_up();
            return Some(want.count);
        }
        self.issue_across(want, runs)
    }

    /// Issues from several segments, or fewer than wanted.
    fn issue_across(&mut self, want: Want, runs: &mut Vec<Run>) -> Option<u32> {
        // Only what lies below an unbroken row of marks: an earlier number must not follow a later one.
        let mut reach = 0;
        for segment in &self.segments {
            reach += segment.mark - segment.next;
            if segment.mark < segment.end {
                break;
            }
        }
        let count = u32::try_from(reach).map_or(want.count, |reach| want.count.min(reach));
        if count == 0 || (count < want.count && !want.fewer_will_do) {
            return None;
        }
        let mut left = count;
        while left > 0 {
            let current = self.segments.front_mut().expect("reach counted these segments");
            let marked = current.mark - current.next;
            let taken = u32::try_from(marked).map_or(left, |marked| left.min(marked));
            if taken > 0 {
                runs.push(current.issue(taken, self.stride));
                left -= taken;
            }
            self.drop_used_up();
        }
        Some(count)
    }

    /// Whether the current segment is used as far as [`Held::look_after`] said, or there is none.
    #[inline]
    pub(super) fn wants_attention(&self) -> bool {
        self.segments.front().is_none_or(|current| current.next >= self.watch)
    }

    /// Asks for attention when so many more are issued of the current segment, or when it ends.
    pub(super) fn look_after(&mut self, issued: u64) {
        if let Some(current) = self.segments.front() {
            self.watch = current.next + issued.clamp(1, current.end - current.next);
        }
    }

    /// How many segments are held.
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Numbers held and not issued.
    pub(super) fn unissued(&self) -> u64 {
        self.segments.iter().map(|segment| segment.end - segment.next).sum()
    }

    /// Numbers that may be issued: those below the marks.
    pub(super) fn marked(&self) -> u64 {
        self.segments.iter().map(|segment| segment.mark - segment.next).sum()
    }

    /// The moves after which `wanted` numbers are marked ahead of use, as far as so many are held.
    pub(super) fn mark_moves(&self, mut wanted: u64) -> Vec<MarkMove> {
        let mut moves = Vec::new();
        for segment in &self.segments {
            let mark = segment.next.saturating_add(wanted).min(segment.end);
            if mark > segment.mark {
                moves.push(MarkMove { lane: segment.lane, end: segment.end, mark });
            }
            wanted -= wanted.min(segment.end - segment.next);
            if wanted == 0 {
                break;
            }
        }
        moves
    }

    /// Moves a segment's mark. One that is not held any more needs none.
    pub(super) fn set_mark(&mut self, moved: MarkMove) {
        let mut segments = self.segments.iter_mut();
        if let Some(segment) =
            segments.find(|held| (held.lane, held.end) == (moved.lane, moved.end))
        {
            assert!(moved.mark >= segment.mark && moved.mark <= segment.end, "marks move up");
            segment.mark = moved.mark;
        }
        self.watch = 0;
    }

    /// Each segment with its exact mark: the first number not issued.
    pub(super) fn exact_marks(&self) -> impl Iterator<Item = (u32, Range<u64>, u64)> + '_ {
        let segments = self.segments.iter();
        segments.map(|segment| (segment.lane, segment.start..segment.end, segment.next))
    }

    /// Drops a lane's numbers from `first_lost` up.
    pub(super) fn cut_from(&mut self, lane: u32, first_lost: u64) -> Cut {
        let mut cut = Cut::default();
        self.segments.retain_mut(|segment| {
            if segment.lane != lane || segment.end <= first_lost {
                return true;
            }
            let end = first_lost.max(segment.next);
            cut.close(lane, segment.end, segment.end - end);
            segment.end = end;
            segment.mark = segment.mark.min(end);
            if segment.mark < end {
                cut.kept = Some((segment.start..end, segment.mark));
            }
            segment.next < end
        });
        self.watch = 0;
        cut
    }

    /// Drops a lane's segments that start below `floor`.
    pub(super) fn cut_below(&mut self, lane: u32, floor: u64) -> Cut {
        let mut cut = Cut::default();
        self.segments.retain(|segment| {
            let stays = segment.lane != lane || segment.start >= floor;
            if !stays {
                cut.close(lane, segment.end, segment.end - segment.next);
            }
            stays
        });
        self.watch = 0;
        cut
    }

    /// Drops all that is held of a lane.
    pub(super) fn forget(&mut self, lane: u32) {
        self.segments.retain(|segment| segment.lane != lane);
        self.watch = 0;
    }

    fn drop_used_up(&mut self) {
        if self.segments.front().is_some_and(|current| current.next == current.end) {
            self.segments.pop_front();
            self.watch = 0;
        }
    }
}

impl Segment {
    /// Issues the next `count` numbers, which are below the mark. Every end is below the lane's ceiling, so
    /// that the ids are positive signed numbers.
    fn issue(&mut self, count: u32, stride: u32) -> Run {
        let first = self.next * u64::from(stride) + u64::from(self.lane);
        self.next += u64::from(count);
        Run { first, count, stride }
    }
}

impl Cut {
    /// Whether nothing was cut.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.closed.is_empty()
    }

    /// Both, this one first.
    pub(super) fn and(mut self, other: Cut) -> Cut {
        self.lost += other.lost;
        self.closed.extend(other.closed);
        self.kept = other.kept.or(self.kept);
        self
    }

    /// Ends the segment that is named by its end.
    pub(super) fn close(&mut self, lane: u32, end: u64, lost: u64) {
        self.lost += lost;
        self.closed.push(MarkMove { lane, end, mark: end });
    }
}
