//! The busiest tags individually, and all others together. A host may use tens of thousands, and each would be a
//! series of every metric.

use crate::clock;
use crate::engine::segments::{SegmentTag, Segments};
use leafd_core::health::Lasts;

/// How many tags are looked at before requests are served.
const SLICE: usize = 256;

/// The name under which the other tags are listed. A tag with this very name is one of them.
pub(super) const OTHERS: &str = "(others)";

/// The numbers of a tag.
#[derive(Clone, Debug, Default)]
pub(crate) struct TagFigures {
    pub tag: String,
    pub issued: u64,
    pub ids_per_second: f64,
    pub held: u64,
    pub waiting: u64,
    /// How long the held ids last at the present rate; `None` also for a strict tag, of which none are held.
    pub lasts_seconds: Option<f64>,
    pub ceiling_used: f64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    /// The busiest, in descending order.
    pub named: Vec<TagFigures>,
    pub others: Others,
}

/// The numbers of the tags that are not listed individually.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Others {
    pub tags: u64,
    pub ids_per_second: f64,
    pub held: u64,
    pub waiting: u64,
    /// The shortest time of them.
    pub lasts_seconds: Option<f64>,
    /// The highest of them.
    pub ceiling_used: f64,
}

/// Looks at all tags in use, in slices.
pub(super) async fn gather(segments: &Segments, tags_max: usize) -> Gathered {
    let mut gathered = Gathered::default();
    for (count, tag) in segments.all_in_use().into_iter().enumerate() {
        if count % SLICE == SLICE - 1 {
            // So at most this many are kept at any time.
            gathered.keep(tags_max);
            tokio::task::yield_now().await;
        }
        gathered.named.push(figures(&tag));
    }
    gathered.keep(tags_max);
    gathered
}

fn figures(tag: &SegmentTag) -> TagFigures {
    let now = clock::boot();
    let lasts_ms = tag.lasts(now).and_then(Lasts::ms);
    let mut allocator = tag.allocator.borrow_mut();
    let lasts_ms = lasts_ms.filter(|_| !allocator.is_strict());
    TagFigures {
        tag: tag.tag.as_str().to_owned(),
        issued: allocator.issued(),
        ids_per_second: allocator.ids_per_second(now),
        held: allocator.unissued(),
        waiting: allocator.waiting() as u64,
        lasts_seconds: lasts_ms.map(|ms| ms as f64 / 1_000.0),
        // More digits would tell how many ids of a masked tag there are.
        ceiling_used: (allocator.ceiling_used() * 100.0).round() / 100.0,
    }
}

impl Gathered {
    /// Keeps the busiest tags, and adds the others to `others`.
    pub(super) fn keep(&mut self, most: usize) {
        self.named.sort_by(|one, other| {
            let busier = other.ids_per_second.total_cmp(&one.ids_per_second);
            busier.then(other.issued.cmp(&one.issued)).then_with(|| one.tag.cmp(&other.tag))
        });
        let (others, named) = std::mem::take(&mut self.named)
            .into_iter()
            .enumerate()
            .partition::<Vec<_>, _>(|(place, tag)| *place >= most || tag.tag == OTHERS);
        self.named = named.into_iter().map(|(_, tag)| tag).collect();
        for (_, tag) in others {
            let lasts = tag.lasts_seconds;
            let others = &mut self.others;
            others.tags += 1;
            others.ids_per_second += tag.ids_per_second;
            others.held += tag.held;
            others.waiting += tag.waiting;
            others.lasts_seconds = match (others.lasts_seconds, lasts) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            others.ceiling_used = others.ceiling_used.max(tag.ceiling_used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_are_named_and_nothing_is_lost_of_the_others() {
        let tag = |name: &str, ids_per_second, held| TagFigures {
            tag: name.to_owned(),
            ids_per_second,
            held,
            lasts_seconds: Some(held as f64 / ids_per_second),
            ..TagFigures::default()
        };
        let named =
            vec![tag("a", 1.0, 10), tag(OTHERS, 9.0, 9), tag("b", 5.0, 10), tag("c", 2.0, 4)];
        let mut all = Gathered { named, others: Others::default() };
        all.keep(3);
        let names: Vec<&str> = all.named.iter().map(|tag| &*tag.tag).collect();
        assert_eq!(names, ["b", "c"]);
        all.keep(1);
        assert_eq!(all.named.len(), 1);
        let others = all.others;
        assert_eq!((others.tags, others.held, others.ids_per_second), (3, 23, 12.0));
        assert_eq!(others.lasts_seconds, Some(1.0));
    }
}
