//! Divides a range of a tag's ids into pieces that lie in one claim, or in none. Stores that feed a tag together have
//! one residue class of ids each, so their claims interleave. The list of stores may have changed: claims of the former
//! list lie below those of the current one, and have a different stride.

use std::ops::Range;

use leafd_core::store::Shard;
use leafd_wire::Run;

/// Ids `first`, `first + stride`, … `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StridedIds {
    pub first: u64,
    pub last: u64,
    pub stride: u32,
}

/// Some ids, and the index of the claim that contains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub ids: StridedIds,
    pub claim: Option<usize>,
}

impl StridedIds {
    /// The ids of a residue class that lie in a range; `None` if there are none.
    pub(super) fn of(class: Shard, range: &Range<u64>) -> Option<StridedIds> {
        let (first, stride) = (class.first_from(range.start), class.of);
        let past = range.end.checked_sub(1)?.checked_sub(first)?;
        Some(StridedIds { first, last: first + past - past % u64::from(stride), stride })
    }

    pub(super) fn class(self) -> Shard {
        class_of(self.first, self.stride)
    }

    /// Those of these ids that lie in a range.
    pub(super) fn within(self, range: &Range<u64>) -> Option<StridedIds> {
        StridedIds::of(self.class(), &(range.start.max(self.first)..range.end.min(self.last + 1)))
    }
}

/// The residue class of an id, for this many classes.
pub(super) fn class_of(id: u64, of: u32) -> Shard {
    let index = id % u64::from(of);
    Shard { index: u32::try_from(index).expect("a remainder is below its divisor"), of }
}

/// Divides `range` among these claims, of which none has the stride 0. `of` is how many stores feed the tag now. The
/// pieces are ordered by their first ids and contain each id of the range once; for an id that was claimed twice, the
/// first claim counts.
pub(super) fn pieces(range: &Range<u64>, of: u32, claims: &[Run]) -> Vec<Piece> {
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|index| claims[*index].first);
    // Stretches of claims of one list of stores: where each begins, its stride and its claims.
    let mut stretches: Vec<(u64, u32, Vec<usize>)> = Vec::new();
    let mut end = range.start;
    for index in order {
        let Run { first, stride, .. } = claims[index];
        match stretches.last_mut() {
            Some((_, of, claims)) if *of == stride => claims.push(index),
            Some(_) => stretches.push((first, stride, vec![index])),
            None => stretches.push((range.start, stride, vec![index])),
        }
        end = end.max(claims[index].end());
    }
    if stretches.last().is_none_or(|(_, stride, _)| *stride != of) {
        stretches.push((end, of, Vec::new()));
    }
    let mut pieces = Vec::new();
    for (index, (start, stride, of_stretch)) in stretches.iter().enumerate() {
        let end = stretches.get(index + 1).map_or(range.end, |(start, ..)| *start).min(range.end);
        for class in (0..*stride).map(|index| Shard { index, of: *stride }) {
            let mut add = |ids: Range<u64>, claim| {
                pieces.extend(StridedIds::of(class, &ids).map(|ids| Piece { ids, claim }));
            };
            let mut next = (*start).max(range.start);
            for index in of_stretch {
                let run = &claims[*index];
                if class_of(run.first, *stride) == class {
                    add(next..run.first.min(end), None);
                    add(next.max(run.first)..run.end().min(end), Some(*index));
                    next = next.max(run.end());
                }
            }
            add(next..end, None);
        }
    }
    pieces.sort_by_key(|piece| piece.ids.first);
    pieces
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The claim of each id of a range.
    fn each(range: &Range<u64>, of: u32, claims: &[Run]) -> BTreeMap<u64, Option<usize>> {
        let mut found = BTreeMap::new();
        let pieces = pieces(range, of, claims);
        assert!(pieces.is_sorted_by_key(|piece| piece.ids.first));
        for Piece { ids, claim } in pieces {
            for id in (ids.first..=ids.last).step_by(ids.stride as usize) {
                assert!(range.contains(&id), "{id} in {range:?}");
                assert_eq!(found.insert(id, claim), None, "{id} is in two pieces");
            }
        }
        assert_eq!(found.len() as u64, range.end - range.start, "each id is in one");
        found
    }

    #[test]
    fn a_longer_list_of_stores_goes_on_above_the_former_one() {
        let claims = [(1, 10, 1), (12, 3, 2), (13, 5, 2), (24, 4, 3), (25, 2, 3), (26, 1, 3)]
            .map(|(first, count, stride)| Run { first, count, stride });
        let found = each(&(1..60), 3, &claims);
        for (id, claim) in found {
            let has = |run: &Run| run.ids().any(|one| one == id);
            assert_eq!(claim, claims.iter().position(has), "{id}");
        }
        assert_eq!(pieces(&(1..5), 1, &[]).len(), 1);
        assert_eq!(
            pieces(&(7..8), 3, &[]),
            [Piece { ids: StridedIds { first: 7, last: 7, stride: 3 }, claim: None }]
        );
    }

    proptest! {
        #[test]
        fn each_id_is_in_one_piece_and_in_its_claim(
            lists in prop::collection::vec(
                (1u32..6, prop::collection::vec((0u64..4, 1u32..9, 0u32..6), 0..8)),
                1..4,
            ),
            from in 1u64..80,
            len in 1u64..200,
        ) {
            let (mut claims, mut begin) = (Vec::new(), 1);
            for (stride, of_list) in &lists {
                let mut ends = vec![begin; *stride as usize];
                for (skipped, count, index) in of_list {
                    let class = Shard { index: index % stride, of: *stride };
                    let end = &mut ends[class.index as usize];
                    let first = class.first_from(*end + skipped);
                    let run = Run { first, count: *count, stride: *stride };
                    *end = run.end();
                    claims.push(run);
                }
                begin = ends.into_iter().max().unwrap();
            }
            let of = lists.last().unwrap().0;
            for (id, claim) in each(&(from..from + len), of, &claims) {
                let has = |run: &Run| run.ids().any(|one| one == id);
                prop_assert_eq!(claim, claims.iter().position(has), "{}", id);
            }
        }

        /// A store may have these after a manual repair.
        #[test]
        fn any_rows_are_divided(
            claims in prop::collection::vec((1u64..100, 1u32..20, 1u32..5), 0..12),
            of in 1u32..5,
            len in 1u64..150,
        ) {
            let claims: Vec<Run> = claims
                .into_iter()
                .map(|(first, count, stride)| Run { first, count, stride })
                .collect();
            each(&(1..1 + len), of, &claims);
        }
    }
}
