//! Checks that no id was drawn twice: keeps every id of the run, as ranges, and compares them.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

/// Ids `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Everything drawn so far, by the name under which ids must be unique.
#[derive(Debug, Default)]
pub(crate) struct Duplicates {
    spans: BTreeMap<String, Vec<Span>>,
    ids: u64,
}

/// Turns ids in any order into spans. An id that appears twice makes two overlapping spans.
pub(crate) fn spans_of(ids: &mut [u64]) -> Vec<Span> {
    // One connection's ids are sorted already; then this costs one look at each.
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

/// Checks that one connection's ids strictly ascend, as directly drawn ids must.
pub(crate) fn check_ascending(ids: &[u64]) -> Result<()> {
    match ids.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => bail!("id {} was followed by {} on one connection", pair[0], pair[1]),
        None => Ok(()),
    }
}

// === impl Duplicates ===

impl Duplicates {
    /// Adds drawn ids, and compares them with all earlier ones.
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
