//! Marks: how far of what is held may be issued, as the journal says. They move ahead of use, and are drawn back when
//! use slows down: what lies between use and mark is lost in a crash.

use leafd_wire::Run;

use super::{Allocator, MarkMove};
use crate::BootMs;

/// Marks are drawn back where they lie so many times further ahead than they need to.
const DRAWN_BACK_FROM: u64 = 2;

impl<T> Allocator<T> {
    /// Which marks to move now, so that use doesn't reach them. The caller makes them durable and reports
    /// with [`Allocator::marked`]; until then no further ones are wanted.
    pub fn marks_wanted(&mut self, now: BootMs) -> Vec<MarkMove> {
        if self.marks_sent.is_some() {
            return Vec::new();
        }
        let target = self.sizing.mark_target(now, self.waiting.waited_for());
        let marked = self.held.marked();
        // The next look is due when half of what is marked ahead is used.
        self.held.look_after(marked - marked.min(target / 2));
        if marked > target / 2 && marked >= self.waiting.waited_for() {
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
        // Ends and floors only rise, so that no later segment has the name of one that was forgotten.
        moves.iter().for_each(|moved| self.held.set_mark(*moved));
    }

    /// Draws marks back that lie far ahead of what the present rate needs. Nothing from the new marks on is issued
    /// before these are moved again. The answer is each segment with its new mark, for the journal; nothing needs to be
    /// reported back.
    #[must_use]
    pub fn draw_marks_back(&mut self, now: BootMs) -> Vec<(u32, Run, u64)> {
        let marked = self.held.marked();
        if self.marks_sent.is_some() || marked == 0 {
            return Vec::new();
        }
        let target = self.sizing.mark_target(now, self.waiting.waited_for());
        match marked / DRAWN_BACK_FROM > target {
            true => self.held.draw_marks_back(target),
            false => Vec::new(),
        }
    }

    /// Draws all marks back to what was issued: the journal then has exactly what is held, and the allocator may be
    /// dropped, when it still [is idle](Allocator::is_idle) and nothing was issued since. The answer is as that of
    /// [`Allocator::draw_marks_back`].
    ///
    /// # Panics
    /// When marks are on their way up: the journal would have them above these.
    #[must_use]
    pub fn draw_all_marks_back(&mut self) -> Vec<(u32, Run, u64)> {
        assert!(self.marks_sent.is_none(), "no mark is on its way");
        self.held.draw_marks_back(0)
    }

    /// What is held, each with its shard and exact mark, for a clean stop. Ids marked but not issued are kept.
    pub fn exact_marks(&self) -> impl Iterator<Item = (u32, Run, u64)> + '_ {
        self.held.exact_marks()
    }
}
