//! Sees to it that no id was drawn twice: every id of the run is kept, as ranges, and compared.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

/// Ids `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Everything drawn so far, by the name under which ids must differ.
#[derive(Debug, Default)]
pub(crate) struct Duplicates {
    spans: BTreeMap<String, Vec<Span>>,
    ids: u64,
}

/// Turns ids, in whatever order, into spans. An id that is there twice makes two spans that overlap.
pub(crate) fn spans_of(ids: &mut [u64]) -> Vec<Span> {
    // What one connection brings is sorted already, and then this costs a look at each.
    ids.sort_unstable();
    let mut spans: Vec<Span> = Vec::new();
    for &id in ids.iter() {
        match spans.last_mut() {
            Some(span) if span.last.checked_add(1) == Some(id) => span.last = id,
            _ => spans.push(Span { first: id, last: id }),
        }
    }
    spans
}

/// Whether ids of one connection came in strictly ascending order, as those that are drawn directly must.
pub(crate) fn check_ascending(ids: &[u64]) -> Result<()> {
    match ids.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => bail!("id {} was followed by {} on one connection", pair[0], pair[1]),
        None => Ok(()),
    }
}

// === impl Duplicates ===

impl Duplicates {
    /// Adds what was drawn, and compares it with all that was drawn before.
    pub(crate) fn add(&mut self, name: &str, spans: Vec<Span>) -> Result<()> {
        self.ids += spans.iter().map(|span| span.last - span.first + 1).sum::<u64>();
        let all = self.spans.entry(name.to_owned()).or_default();
        all.extend(spans);
        all.sort_unstable();
        let mut merged: Vec<Span> = Vec::with_capacity(all.len());
        for &span in all.iter() {
            match merged.last_mut() {
                Some(before) if span.first <= before.last => {
                    bail!(
                        "id {} of {name} was drawn twice: the results are worth nothing",
                        span.first
                    );
                }
                Some(before) if span.first == before.last + 1 => before.last = span.last,
                _ => merged.push(span),
            }
        }
        *all = merged;
        Ok(())
    }

    /// How many ids were compared.
    pub(crate) fn ids(&self) -> u64 {
        self.ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_comes_twice_is_found_within_a_row_and_between_rows() {
        let mut duplicates = Duplicates::default();
        duplicates.add("a", spans_of(&mut [5, 1, 2, 3])).unwrap();
        duplicates.add("b", spans_of(&mut [2])).unwrap();
        duplicates.add("a", spans_of(&mut [4, 6])).unwrap();
        assert_eq!(duplicates.ids(), 7);
        assert!(duplicates.add("a", spans_of(&mut [9, 9])).is_err());
        let mut duplicates = Duplicates::default();
        duplicates.add("a", spans_of(&mut [1, 2, 3])).unwrap();
        assert!(duplicates.add("a", spans_of(&mut [3])).is_err());
    }

    #[test]
    fn ascending_means_strictly() {
        assert!(check_ascending(&[1, 2, 9]).is_ok());
        assert!(check_ascending(&[1, 1]).is_err());
        assert!(check_ascending(&[2, 1]).is_err());
    }
}
