//! What a host knows about its own claimed ids, and what happened to each.

use std::ops::Range;

use leafd_wire::Run;

use super::classes::{StridedIds, class_of};
use crate::engine::segments::{Cause, Gap};

/// What this host knows about its own ids of a tag.
pub(super) struct Own {
    /// Ids that are not issued yet.
    pub held: Vec<Run>,
    /// Ids that are never issued, and why.
    pub gaps: Vec<Gap>,
}

/// A part of a claim of this host, and what happened to it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub ids: StridedIds,
    pub why: &'static str,
    pub at_ms: Option<u64>,
    pub cause: Option<&'static str>,
}

impl Own {
    /// What happened to these ids in a claim of this host, as parts in ascending order. `seen` is one past the highest
    /// id that this host has seen claimed in the claim's store; `next` is where this host's next claim there begins.
    pub(super) fn parts(&self, claim: &Run, ids: StridedIds, seen: u64, next: u64) -> Vec<Part> {
        // Parts begin and end where known facts do. This divides the whole claim, so that the result for an id doesn't
        // depend on the requested range.
        let whole = claim.range();
        let class = class_of(claim.first, claim.stride);
        let mut edges = vec![whole.start, whole.end];
        let (crashes, dropped): (Vec<&Gap>, Vec<&Gap>) = self
            .gaps
            .iter()
            .filter(|gap| gap.is_of(claim.first, claim.stride))
            .partition(|gap| gap.cause == Cause::Crash);
        let held: Vec<Range<u64>> = self
            .held
            .iter()
            .filter(|run| class_of(run.first, claim.stride) == class)
            .map(Run::range)
            .collect();
        edges.extend(held.iter().flat_map(|held| [held.start, held.end]));
        edges.extend(dropped.iter().flat_map(|gap| [gap.ids.start, gap.ids.end]));
        edges.extend(crashes.iter().map(|gap| gap.ids.start));
        edges.retain(|edge| (whole.start..=whole.end).contains(edge));
        edges.sort_unstable();
        edges.dedup();
        let part = |range: &Range<u64>| {
            let is_in = |known: &Range<u64>| known.contains(&range.start);
            let (why, gap) = if claim.first >= seen {
                ("lost", None)
            } else if let Some(gap) = dropped.iter().find(|gap| is_in(&gap.ids)) {
                (if gap.cause == Cause::Unanswered { "lost" } else { "dropped" }, Some(*gap))
            } else if held.iter().any(is_in) {
                ("held", None)
            } else {
                // Up to the id at which the daemon continued after a crash: in this claim, at its beginning or above,
                // or at the beginning of the next claim, because ids of other hosts may lie between the two.
                let ends_here = |gap: &&&Gap| {
                    let went_on = gap.ids.start;
                    went_on == range.end
                        || (range.end == whole.end && whole.end < went_on && went_on <= next)
                };
                let up_to = crashes.iter().find(ends_here).copied();
                (if up_to.is_some() { "issued_until_crash" } else { "issued" }, up_to)
            };
            let cause = gap.filter(|gap| gap.cause != Cause::Crash).map(|gap| gap.cause.name());
            let ids = ids.within(range)?;
            Some(Part { ids, why, at_ms: gap.map(|gap| gap.at.0), cause })
        };
        edges.windows(2).filter_map(|pair| part(&(pair[0]..pair[1]))).collect()
    }
}
