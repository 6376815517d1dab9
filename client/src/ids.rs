//! Drawn ids: a few runs instead of millions of numbers.

use std::iter::FusedIterator;
use std::vec;

use leafd_wire::{COUNT_MAX, Run};

use crate::error::{Error, Result};

/// The maximum number of ids in a batch.
pub const BATCH_MAX: u64 = 1_000_000_000;

/// Ids that were drawn together, in the order of issue.
///
/// It iterates over the ids; [`Ids::into_runs`] returns the runs themselves. The ids belong to the
/// caller. If the process forks halfway through, only one of the two processes may use the rest.
#[derive(Clone, Debug)]
pub struct Ids {
    /// The rest of the first run; its count may be 0.
    front: Run,
    rest: vec::IntoIter<Run>,
    left: u64,
}

impl Ids {
    pub(crate) fn of(runs: Vec<Run>) -> Ids {
        let left = runs.iter().map(|run| u64::from(run.count)).sum();
        Ids { front: Run { first: 1, count: 0, stride: 1 }, rest: runs.into_iter(), left }
    }

    /// Returns the number of remaining ids.
    pub fn remaining(&self) -> u64 {
        self.left
    }

    /// Returns the rest as runs, none of them empty.
    pub fn into_runs(self) -> impl Iterator<Item = Run> {
        std::iter::once(self.front).chain(self.rest).filter(|run| run.count > 0)
    }
}

impl Iterator for Ids {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        while self.front.count == 0 {
            self.front = self.rest.next()?;
        }
        let id = self.front.first;
        self.front.count -= 1;
        // The number after the run's last id may not be a valid id. It is never used.
        self.front.first = id.wrapping_add(u64::from(self.front.stride));
        self.left -= 1;
        Some(id)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match usize::try_from(self.left) {
            Ok(left) => (left, Some(left)),
            Err(_) => (usize::MAX, None),
        }
    }
}

impl FusedIterator for Ids {}

/// The number of ids in each request for a batch.
pub(crate) fn requests_of_batch(count: u64) -> Result<impl Iterator<Item = u32>> {
    if count > BATCH_MAX {
        return Err(Error::invalid(format!(
            "a batch has at most {BATCH_MAX} ids, not {count}; draw several batches"
        )));
    }
    let most = u64::from(COUNT_MAX);
    Ok((0..count.div_ceil(most)).map(move |index| (count - index * most).min(most) as u32))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn runs_come_out_id_by_id() {
        let last = i64::MAX as u64;
        let runs = vec![
            Run { first: 5, count: 2, stride: 1 },
            Run { first: 10, count: 3, stride: 4 },
            Run { first: last, count: 1, stride: u32::MAX },
        ];
        let mut ids = Ids::of(runs);
        assert_eq!(ids.remaining(), 6);
        assert_eq!(ids.next(), Some(5));
        let runs: Vec<Run> = ids.clone().into_runs().collect();
        assert_eq!(runs[0], Run { first: 6, count: 1, stride: 1 });
        assert_eq!(ids.collect::<Vec<_>>(), [6, 10, 14, 18, last]);
        assert_eq!(Ids::of(Vec::new()).next(), None);
    }
}
