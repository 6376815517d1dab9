//! Marks: how many of the held ids may be issued according to the journal. They move ahead of use, and move back when
//! use slows down, because a crash loses the ids between use and mark.

use leafd_wire::Run;

use super::{Allocator, MarkMove};
use crate::BootMs;

/// Marks move back when they lie at least this many times further ahead of use than needed.
const DRAWN_BACK_FROM: u64 = 2;

impl<T> Allocator<T> {
    /// The marks to move now, so that use doesn't reach them. The caller makes them durable and reports with
    /// [`Allocator::marked`]. No further moves are wanted before that.
    pub fn marks_wanted(&mut self, now: BootMs) -> Vec<MarkMove> {
        if self.marks_sent.is_some() {
            return Vec::new();
        }
        let target = self.mark_target(now, self.held.unissued());
        let marked = self.held.marked();
        // Look again when half of the marked ids are used.
        self.held.look_after(marked - marked.min(target / 2));
        if marked > target / 2 && marked >= self.waiting.waited_for {
            return Vec::new();
        }
        let moves = self.held.mark_moves(target);
        self.marks_sent = (!moves.is_empty()).then_some(now);
        moves
    }

    /// Reports marks as durable.
    pub fn marked(&mut self, now: BootMs, moves: &[MarkMove]) {
        let sent = self.marks_sent.take().expect("marks come back that were sent");
        self.sizing.commit_ms = now.0.saturating_sub(sent.0);
        // Ends and floors only rise, so a later segment never has the end of a forgotten one.
        moves.iter().for_each(|moved| self.held.set_mark(*moved));
    }

    /// Moves back marks that lie too far ahead for the current rate. Ids above the new marks are not issued before the
    /// marks move again. Returns each segment with its new mark, for the journal. The caller need not report back.
    #[must_use]
    pub fn draw_marks_back(&mut self, now: BootMs) -> Vec<(u32, Run, u64)> {
        let marked = self.held.marked();
        if self.marks_sent.is_some() || marked == 0 {
            return Vec::new();
        }
        let target = self.mark_target(now, self.held.unissued());
        match marked / DRAWN_BACK_FROM > target {
            true => self.held.draw_marks_back(target),
            false => Vec::new(),
        }
    }

    /// Moves all marks back to the last issued ids, so that the journal records exactly the held ids. The allocator may
    /// then be dropped if it still [is idle](Allocator::is_idle) and has issued no ids since. Returns the same as
    /// [`Allocator::draw_marks_back`].
    ///
    /// # Panics
    /// If marks are on their way to the journal, which would then record them above these.
    #[must_use]
    pub fn draw_all_marks_back(&mut self) -> Vec<(u32, Run, u64)> {
        assert!(self.marks_sent.is_none(), "no mark is on its way");
        self.held.draw_marks_back(0)
    }

    /// How many ids should be marked ahead of use when this many are held.
    pub(super) fn mark_target(&mut self, now: BootMs, held: u64) -> u64 {
        self.sizing.mark_target(now, held, self.waiting.waited_for)
    }
}
