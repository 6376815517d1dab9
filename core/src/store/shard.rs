//! Which ids of a tag belong to a store, when several independent stores feed the tag.

/// Store `index` of `of` grants the ids with the remainder `index` when divided by `of`, so no two stores ever grant
/// the same id. The rows in all stores contain ids, not counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The store's index, from 0; below `of`.
    pub index: u32,
    /// How many stores there are, from 1.
    pub of: u32,
}

impl Shard {
    /// The shard of a tag's only store: every id.
    pub const WHOLE: Shard = Shard { index: 0, of: 1 };

    /// The shard's smallest id that is not below `id`. It saturates at a value above every id.
    pub fn first_from(self, id: u64) -> u64 {
        let (index, of, id) = (u64::from(self.index), u64::from(self.of), id.max(1));
        id.saturating_add((index + of - id % of) % of)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shards_begin_with_their_first_positive_id() {
        let firsts = |of: u32| (0..of).map(move |index| Shard { index, of }.first_from(0));
        assert_eq!(firsts(1).collect::<Vec<_>>(), [1]);
        assert_eq!(firsts(3).collect::<Vec<_>>(), [3, 1, 2]);
        assert_eq!(Shard { index: 1, of: 3 }.first_from(u64::MAX), u64::MAX);
    }

    proptest! {
        #[test]
        fn each_id_is_one_shard_s(id in 1..u64::MAX / 2, of in 1u32..=64) {
            let own: Vec<u32> =
                (0..of).filter(|index| Shard { index: *index, of }.first_from(id) == id).collect();
            prop_assert_eq!(own.len(), 1);
            let next = Shard { index: own[0], of }.first_from(id + 1);
            prop_assert_eq!(next, id + u64::from(of));
        }
    }
}
