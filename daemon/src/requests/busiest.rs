//! Finds the busiest tags in use, and sums up the others. Any user may request the page and the metrics repeatedly, so
//! this works in slices that take a small part of the request loop's time.

use std::time::Duration;

use leafd_checkup::snapshot::TagNumbers;
use serde::Serialize;

use super::snapshot::tag_snapshot;
use crate::clock::{self, monotonic_us};
use crate::engine::segments::Segments;

/// The name under which the metrics sum up the other tags. A tag with this name is one of them.
pub const OTHERS: &str = "(others)";

/// The maximum length of a slice, in microseconds, and the time after it during which only requests are served.
const SLICE_US: u64 = 200;
const PAUSE: Duration = Duration::from_millis(1);

/// The busiest tags, and the sums over the others.
#[derive(Clone, Debug, Default)]
pub struct Busiest {
    /// In descending order.
    pub named: Vec<TagNumbers>,
    pub others: Sums,
}

/// Sums over several tags.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sums {
    pub tags: u64,
    pub ids_per_second: f64,
    pub held: u64,
    pub waiting: u64,
    /// The shortest of their times.
    #[serde(skip)]
    pub lasts_ms: Option<u64>,
    /// The highest of their percentages.
    #[serde(skip)]
    pub ceiling_used_percent: u64,
}

impl Sums {
    /// The numbers of one tag.
    pub fn of(tag: &TagNumbers) -> Sums {
        let mut sums = Sums::default();
        sums.add(tag);
        sums
    }

    fn add(&mut self, tag: &TagNumbers) {
        self.tags += 1;
        self.ids_per_second += tag.ids_per_second;
        self.held += tag.held;
        self.waiting += tag.waiting;
        let lasts_ms = tag.lasts_ms.filter(|_| !tag.strict);
        self.lasts_ms = self.lasts_ms.into_iter().chain(lasts_ms).min();
        let used = tag.ceiling_used_percent.unwrap_or(0);
        self.ceiling_used_percent = self.ceiling_used_percent.max(used);
    }
}

impl Busiest {
    /// The `most` busiest tags in use with matching names.
    pub(super) async fn of(
        segments: &Segments,
        most: usize,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Busiest {
        let mut found = Busiest::default();
        let mut slice_ends_us = monotonic_us() + SLICE_US;
        for tag in segments.all_in_use() {
            if monotonic_us() >= slice_ends_us {
                tokio::time::sleep(PAUSE).await;
                slice_ends_us = monotonic_us() + SLICE_US;
            }
            if is_wanted(tag.tag.as_str()) {
                found.named.push(tag_snapshot(&tag, clock::boot()).numbers);
            }
            if found.named.len() > 2 * most {
                found.keep(most);
            }
        }
        found.keep(most);
        tokio::time::sleep(PAUSE).await;
        found
    }

    /// Keeps the busiest tags, and adds the rest to the others.
    pub fn keep(&mut self, most: usize) {
        self.named.sort_by(|one, other| {
            let busier = other.ids_per_second.total_cmp(&one.ids_per_second);
            busier.then(other.issued.cmp(&one.issued)).then_with(|| one.tag.cmp(&other.tag))
        });
        let mut place = 0;
        self.named.retain(|tag| {
            let stays = place < most && tag.tag != OTHERS;
            place += usize::from(stays);
            if !stays {
                self.others.add(tag);
            }
            stays
        });
    }

    /// The sums over all tags.
    pub fn sums(&self) -> Sums {
        let mut sums = self.others;
        self.named.iter().for_each(|tag| sums.add(tag));
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_are_named_and_nothing_is_lost_of_the_others() {
        let tag = |name: &str, ids_per_second, held| TagNumbers {
            tag: name.to_owned(),
            ids_per_second,
            held,
            lasts_ms: Some(held * 1_000 / ids_per_second as u64),
            ..TagNumbers::default()
        };
        let named =
            vec![tag("a", 1.0, 10), tag(OTHERS, 9.0, 9), tag("b", 5.0, 10), tag("c", 2.0, 4)];
        let mut all = Busiest { named, others: Sums::default() };
        let sums = all.sums();
        all.keep(3);
        let names: Vec<&str> = all.named.iter().map(|tag| &*tag.tag).collect();
        assert_eq!(names, ["b", "c", "a"]);
        all.keep(1);
        assert_eq!(all.named.len(), 1);
        let others = all.others;
        assert_eq!((others.tags, others.held, others.ids_per_second), (3, 23, 12.0));
        assert_eq!(others.lasts_ms, Some(1_000));
        assert_eq!((all.sums().held, all.sums().tags), (sums.held, 4));
    }
}
