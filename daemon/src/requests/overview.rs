//! What the web page shows at one moment: the state for administrators and for others, and the busiest tags among those
//! that the reader searches for. Any user may ask for it over and over, so it takes a small part of the request loop's
//! time, in slices.

use std::rc::Rc;
use std::time::Duration;

use leafd_checkup::snapshot::{PageSnapshot, Snapshot, TagNumbers};
use serde::Serialize;

use super::Dispatcher;
use super::snapshot::tag_snapshot;
use crate::clock::{self, monotonic_us};
use crate::engine::segments::SegmentTag;

/// All that the page shows at one moment.
#[derive(Debug)]
pub struct Overview {
    pub all: Snapshot,
    /// For all other users who can connect: what the metrics and the status tell them as well.
    pub public: PageSnapshot,
    /// How many of the busiest tags other users see: as many as the metrics list individually.
    pub public_tags: usize,
    /// The sums over all tags in use whose names contain the text.
    pub sums: Sums,
    /// The busiest of them.
    pub busiest: Vec<TagNumbers>,
}

/// The sums over all tags of a search.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sums {
    tags: u64,
    ids_per_second: f64,
    held: u64,
    waiting: u64,
}

/// How many tags are shown individually.
const BUSIEST: usize = 50;

/// How many problems are shown.
const CONDITIONS_SHOWN: usize = 20;

/// How long a slice may take, in microseconds, and how long requests alone are served after it.
const SLICE_US: u64 = 200;
const PAUSE: Duration = Duration::from_millis(1);

/// Work that is done in slices.
struct Slices {
    ends_us: u64,
}

impl Slices {
    fn new() -> Slices {
        Slices { ends_us: monotonic_us() + SLICE_US }
    }

    /// Lets requests be served if the slice has taken its time.
    async fn give_way(&mut self) {
        if monotonic_us() >= self.ends_us {
            tokio::time::sleep(PAUSE).await;
            *self = Slices::new();
        }
    }
}

/// A tag whose name contains the text.
struct Match {
    tag: Rc<SegmentTag>,
    ids_per_second: f64,
}

impl Dispatcher {
    /// Gathers what the page shows for a search for this text. An empty text finds all tags.
    pub async fn overview(self: &Rc<Self>, text: &str) -> Overview {
        let mut slices = Slices::new();
        let (mut sums, mut matches) = (Sums::default(), Vec::new());
        for tag in self.segments.all_in_use() {
            slices.give_way().await;
            if contains(tag.tag.as_str(), text) {
                let mut allocator = tag.allocator.borrow_mut();
                let ids_per_second = allocator.ids_per_second(clock::boot());
                sums.tags += 1;
                sums.ids_per_second += ids_per_second;
                sums.held += allocator.unissued();
                sums.waiting += allocator.waiting() as u64;
                drop(allocator);
                matches.push(Match { tag, ids_per_second });
                if matches.len() >= 2 * BUSIEST {
                    keep_busiest(&mut matches);
                }
            }
        }
        keep_busiest(&mut matches);
        let mut busiest = Vec::new();
        for Match { tag, .. } in matches {
            slices.give_way().await;
            busiest.push(tag_snapshot(&tag, clock::boot()).numbers);
        }
        sums.ids_per_second = sums.ids_per_second.round();
        tokio::time::sleep(PAUSE).await;
        let all = self.snapshot(CONDITIONS_SHOWN);
        tokio::time::sleep(PAUSE).await;
        let public = self.page_snapshot(CONDITIONS_SHOWN);
        Overview { all, public, public_tags: self.about.metrics_tags, sums, busiest }
    }
}

fn keep_busiest(matches: &mut Vec<Match>) {
    matches.sort_by(|one, other| {
        let busier = other.ids_per_second.total_cmp(&one.ids_per_second);
        busier.then_with(|| one.tag.tag.as_str().cmp(other.tag.tag.as_str()))
    });
    matches.truncate(BUSIEST);
}

/// Whether a name contains a text. The case of ASCII letters doesn't matter.
fn contains(name: &str, text: &str) -> bool {
    let (name, text) = (name.as_bytes(), text.as_bytes());
    text.is_empty() || name.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_anywhere_in_a_name() {
        for (name, text) in [("orders", ""), ("orders", "RDE"), ("é", "é"), ("", "")] {
            assert!(contains(name, text), "{name} {text}");
        }
        for (name, text) in [("orders", "orders2"), ("", "a"), ("é", "É")] {
            assert!(!contains(name, text), "{name} {text}");
        }
    }
}
