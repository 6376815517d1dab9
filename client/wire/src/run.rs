//! A run of ids: the form in which hosts claim ids from a store and keep them in the journal, and in which processes
//! hold them.

use std::ops::Range;

/// `count` ids: `first`, `first + stride`, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first id; at least 1.
    pub first: u64,
    /// How many ids; at least 1.
    pub count: u32,
    /// The distance between consecutive ids; at least 1.
    pub stride: u32,
}

impl Run {
    /// The run's last id; `None` if it would not be a positive signed 64-bit number.
    pub fn last(&self) -> Option<u64> {
        let steps = u64::from(self.count).checked_sub(1)?;
        let last = steps.checked_mul(u64::from(self.stride))?.checked_add(self.first)?;
        (last <= i64::MAX as u64).then_some(last)
    }

    /// The run's ids in order.
    pub fn ids(self) -> impl ExactSizeIterator<Item = u64> {
        (0..self.count).map(move |index| self.first + u64::from(index) * u64::from(self.stride))
    }

    /// One past the last id.
    ///
    /// # Panics
    /// When the run has no [`Run::last`] id.
    pub fn end(&self) -> u64 {
        self.last().expect("a run's ids are positive signed numbers") + 1
    }

    /// The range from the first id to one past the last. With a stride above 1, most numbers in it belong to other
    /// runs.
    ///
    /// # Panics
    /// When the run has no [`Run::last`] id.
    pub fn range(&self) -> Range<u64> {
        self.first..self.end()
    }

    /// How many of the ids are below `number`.
    pub fn count_below(&self, number: u64) -> u32 {
        let below = number.saturating_sub(self.first).div_ceil(u64::from(self.stride));
        u32::try_from(below).map_or(self.count, |below| below.min(self.count))
    }

    /// The number that separates the first `count` ids from the rest: the first id of the rest, or the end if nothing
    /// remains.
    ///
    /// # Panics
    /// When the run has no [`Run::last`] id, or fewer than `count` ids.
    pub fn bound(&self, count: u32) -> u64 {
        assert!(count <= self.count, "a run is parted within its ids");
        match count == self.count {
            true => self.end(),
            false => self.first + u64::from(count) * u64::from(self.stride),
        }
    }

    /// The run without its first `count` ids; `None` if nothing remains.
    pub fn without_first(self, count: u32) -> Option<Run> {
        let left = self.count.checked_sub(count).filter(|left| *left > 0)?;
        Some(Run { first: self.bound(count), count: left, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: Run = Run { first: 7, count: 3, stride: 2 };

    #[test]
    fn a_run_ends_after_its_last_id() {
        assert_eq!((ODD.last(), ODD.end(), ODD.range()), (Some(11), 12, 7..12));
        assert_eq!(ODD.ids().collect::<Vec<_>>(), [7, 9, 11]);
        let most = i64::MAX as u64;
        assert_eq!(Run { first: most, count: 1, stride: 5 }.end(), most + 1);
        assert_eq!(Run { first: most, count: 2, stride: 1 }.last(), None);
        assert_eq!(Run { first: 1, count: 0, stride: 1 }.last(), None);
    }

    #[test]
    fn a_run_is_parted_between_its_ids() {
        let below = |number| ODD.count_below(number);
        assert_eq!([0, 7, 8, 9, 10, 11, 12, u64::MAX].map(below), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!([0, 1, 2, 3].map(|count| ODD.bound(count)), [7, 9, 11, 12]);
        assert_eq!(ODD.without_first(0), Some(ODD));
        assert_eq!(ODD.without_first(2), Some(Run { first: 11, count: 1, stride: 2 }));
        assert_eq!(ODD.without_first(3), None);
        for count in 0..=3 {
            assert_eq!(ODD.count_below(ODD.bound(count)), count);
        }
    }
}
