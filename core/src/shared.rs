//! Shared runs: how many ids the daemon publishes for all processes of a user to draw, and until when they may.
//!
//! What processes drew is known from the ticket page alone, which they can write as they like. So the cursor found there
//! decides only how much more is published. No id is ever worked out of it: what was published counts as issued.

use std::collections::VecDeque;

use leafd_wire::Run;
use leafd_wire::share::{ENTRIES, Published, TICKETS_PER_ENTRY, VALID_MAX_NS};

use crate::BootMs;

/// What one page has been told.
#[derive(Clone, Debug)]
pub struct Publisher {
    /// The first ticket that no entry was published for.
    next: u64,
    /// The first ticket after the last entry's ids.
    end: u64,
    /// The cursor as it was seen last.
    seen: u64,
    /// The cursor when its use was looked at last.
    used: u64,
    /// Entries that may have ids left: their first tickets and their ids.
    open: VecDeque<(u64, u32)>,
    /// Ids of the entries before.
    drawn: u64,
    /// How many ids were said to be drawn.
    told: u64,
    /// Ids of an entry.
    ids: u32,
    /// Entries that are kept ahead of the cursor.
    ahead: u64,
    published_at: Option<BootMs>,
}

/// The cursor is not what drawing makes of it: somebody wrote into the ticket page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tampered;

/// Ids of an entry at first: what a tag that is hardly used loses when its page ends.
const IDS_MIN: u32 = 32;

/// Entries kept ahead: the one in use and one more, so that nobody waits at an entry's end ...
const AHEAD_MIN: u64 = 2;

/// ... up to half of the ring: a process that stops in mid-draw for as long as it takes to draw the others' ids finds its
/// own still there.
const AHEAD_MAX: u64 = ENTRIES as u64 / 2;

/// What is published is to last longer than this, in milliseconds ...
const LASTS_MS_MIN: u64 = 100;

/// ... and not longer than this.
const LASTS_MS_MAX: u64 = 1_000;

/// No honest cursor gets here in a machine's life.
const TICKETS_MAX: u64 = 1 << 62;

/// How far clocks that tick by some milliseconds may lag.
const CLOCK_LAG_MS: u64 = 50;

const NS_PER_MS: u64 = 1_000_000;

/// How long a page is valid when it is renewed, in milliseconds.
pub const VALID_MS: u64 = VALID_MAX_NS / NS_PER_MS;

/// How often pages in use are renewed, in milliseconds: three turns may come late.
pub const RENEW_MS: u64 = VALID_MS / 4;

/// So long after its start a daemon publishes nothing if the one before it may have been killed: until then the pages of
/// that one may be drawn from, and their ids are to come before all others.
pub const AFTER_CRASH_MS: u64 = VALID_MS + CLOCK_LAG_MS;

/// Until when a page may be drawn from that is renewed now, in nanoseconds of the boot-time clock. `own_until`: no id of
/// the tag may be issued from then on.
#[must_use]
pub fn valid_until_ns(now: BootMs, own_until: BootMs) -> u64 {
    let end_ms = (now.0 + VALID_MS).min(own_until.0.saturating_sub(CLOCK_LAG_MS));
    end_ms.saturating_mul(NS_PER_MS)
}

// === impl Publisher ===

impl Default for Publisher {
    fn default() -> Self {
        Publisher {
            next: 0,
            end: 0,
            seen: 0,
            used: 0,
            open: VecDeque::new(),
            drawn: 0,
            told: 0,
            ids: IDS_MIN,
            ahead: AHEAD_MIN,
            published_at: None,
        }
    }
}

impl Publisher {
    /// How many ids to publish now, 0 for none, when the cursor is at `cursor`.
    ///
    /// # Errors
    /// The page is not to be used any more.
    pub fn wanted(&mut self, cursor: u64) -> Result<u32, Tampered> {
        if cursor < self.seen || cursor > TICKETS_MAX {
            return Err(Tampered);
        }
        self.seen = cursor;
        let wanted = match self.published_at {
            // What a user's first process is given may be all that the user ever needs.
            None => 1,
            Some(_) => self.ahead.saturating_sub(self.left(cursor)),
        };
        Ok(self.ids * u32::try_from(wanted).unwrap_or(0))
    }

    /// Whether a ticket that is taken now, or one of the next, stands for an id.
    #[must_use]
    pub fn has_ids(&self, cursor: u64) -> bool {
        cursor < self.end
    }

    /// The entries to publish for ids that were issued for that, in this order. Ids that find no room are lost.
    pub fn place(&mut self, runs: &[Run], cursor: u64, now: BootMs) -> Vec<Published> {
        self.pace(now);
        // Whose ids are all drawn need not be kept.
        self.drawn(cursor);
        // Tickets that were taken in vain are passed over, but for those of an entry that some may be waiting with.
        let waited_from = cursor.min(TICKETS_MAX) / TICKETS_PER_ENTRY * TICKETS_PER_ENTRY;
        self.next = self.next.max(waited_from);
        let mut entries = Vec::new();
        for run in runs {
            let mut left = *run;
            while left.count > 0 && self.left(cursor) < AHEAD_MAX {
                let count = left.count.min(TICKETS_PER_ENTRY as u32);
                entries.push(Published { base: self.next, run: Run { count, ..left } });
                self.end = self.next + u64::from(count);
                self.open.push_back((self.next, count));
                self.next += TICKETS_PER_ENTRY;
                left.first += u64::from(count) * u64::from(left.stride);
                left.count -= count;
            }
        }
        entries
    }

    /// Whether anybody has drawn since this was asked last.
    pub fn was_used(&mut self, cursor: u64) -> bool {
        std::mem::replace(&mut self.used, cursor) != cursor
    }

    /// How many ids were drawn, as far as the cursor tells. It is for people: nothing is issued by it.
    pub fn drawn(&mut self, cursor: u64) -> u64 {
        let taken = |(base, count): (u64, u32)| cursor.saturating_sub(base).min(u64::from(count));
        while let Some(entry) =
            self.open.front().copied().filter(|it| taken(*it) == u64::from(it.1))
        {
            self.open.pop_front();
            self.drawn += u64::from(entry.1);
        }
        // Not even a cursor that goes back makes it fewer.
        let open: u64 = self.open.iter().map(|entry| taken(*entry)).sum();
        self.told = self.told.max(self.drawn + open);
        self.told
    }

    /// Entries from the cursor on that have ids.
    fn left(&self, cursor: u64) -> u64 {
        match self.has_ids(cursor) {
            true => (self.next - cursor).div_ceil(TICKETS_PER_ENTRY),
            false => 0,
        }
    }

    /// Learns from how long the last ids have lasted.
    fn pace(&mut self, now: BootMs) {
        let Some(before) = self.published_at.replace(now) else { return };
        let lasted_ms = now.0.saturating_sub(before.0);
        if lasted_ms < LASTS_MS_MIN {
            match u64::from(self.ids) < TICKETS_PER_ENTRY {
                true => self.ids *= 2,
                false => self.ahead = (self.ahead * 2).min(AHEAD_MAX),
            }
        } else if lasted_ms > LASTS_MS_MAX {
            match self.ahead > AHEAD_MIN {
                true => self.ahead /= 2,
                false => self.ids = (self.ids / 2).max(IDS_MIN),
            }
        }
    }
}
