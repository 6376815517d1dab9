//! What the web page shows at one moment: the status for administrators and for others, and the busiest tags among
//! those that somebody searches for. Tags are looked at in slices, so that requests are served in between.

use std::rc::Rc;

use leafd_checkup::snapshot::{PageSnapshot, Snapshot, TagNumbers};
use serde::Serialize;

use super::Dispatcher;
use super::snapshot::tag_snapshot;
use crate::clock;
use crate::engine::segments::SegmentTag;

/// All that the page shows at one moment.
#[derive(Debug)]
pub struct Overview {
    pub all: Snapshot,
    /// For all other users who can connect: what the metrics and the status tell them as well.
    pub public: PageSnapshot,
    /// How many tags of each search other users see: as many as the metrics list individually.
    pub public_tags: usize,
    /// The result of each search, in the order of the searches.
    pub found: Vec<Found>,
}

/// Tags in use whose names contain a text.
#[derive(Debug, Default)]
pub struct Found {
    /// The sums over all of them.
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

/// How many tags are looked at before requests are served.
const SLICE: usize = 256;

/// How many tags are shown individually.
const BUSIEST: usize = 50;

/// How many tags are rendered before requests are served.
const SHOWN_AT_ONCE: usize = 10;

/// How many troubles are shown.
const CONDITIONS_SHOWN: usize = 20;

/// A tag whose name contains the text.
struct Seen {
    tag: Rc<SegmentTag>,
    ids_per_second: f64,
}

/// The result of a search so far.
#[derive(Default)]
struct Search {
    seen: Vec<Seen>,
    sums: Sums,
}

impl Dispatcher {
    /// Gathers what the page shows for searches with these texts. An empty text finds all tags.
    pub async fn overview(self: &Rc<Self>, texts: &[String]) -> Overview {
        let mut searches: Vec<Search> = texts.iter().map(|_| Search::default()).collect();
        for (count, tag) in self.segments.all_in_use().into_iter().enumerate() {
            if count % SLICE == SLICE - 1 {
                searches.iter_mut().for_each(Search::keep_busiest);
                tokio::task::yield_now().await;
            }
            for (search, text) in searches.iter_mut().zip(texts) {
                if contains(tag.tag.as_str(), text) {
                    search.add(&tag);
                }
            }
        }
        let mut found = Vec::new();
        for mut search in searches {
            search.keep_busiest();
            found.push(search.finish().await);
        }
        let all = self.snapshot(CONDITIONS_SHOWN);
        tokio::task::yield_now().await;
        let public = self.page_snapshot(CONDITIONS_SHOWN);
        Overview { all, public, public_tags: self.about.metrics_tags, found }
    }
}

impl Search {
    fn add(&mut self, tag: &Rc<SegmentTag>) {
        let mut allocator = tag.allocator.borrow_mut();
        let ids_per_second = allocator.ids_per_second(clock::boot());
        self.sums.tags += 1;
        self.sums.ids_per_second += ids_per_second;
        self.sums.held += allocator.unissued();
        self.sums.waiting += allocator.waiting() as u64;
        self.seen.push(Seen { tag: Rc::clone(tag), ids_per_second });
    }

    fn keep_busiest(&mut self) {
        self.seen.sort_by(|one, other| {
            let busier = other.ids_per_second.total_cmp(&one.ids_per_second);
            busier.then_with(|| one.tag.tag.as_str().cmp(other.tag.tag.as_str()))
        });
        self.seen.truncate(BUSIEST);
    }

    async fn finish(self) -> Found {
        let mut busiest = Vec::new();
        for some in self.seen.chunks(SHOWN_AT_ONCE) {
            let now = clock::boot();
            busiest.extend(some.iter().map(|seen| tag_snapshot(&seen.tag, now).numbers));
            tokio::task::yield_now().await;
        }
        let ids_per_second = self.sums.ids_per_second.round();
        Found { sums: Sums { ids_per_second, ..self.sums }, busiest }
    }
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
