//! Decides which store of a list a tag belongs to. This must never change, because the tag's ids would start over in
//! another store.

/// The index of a tag's store in a list of `length` stores: the finished hash of the tag's bytes modulo `length`, which
/// is not 0.
pub(super) fn place(tag: &str, length: usize) -> usize {
    let length = u64::try_from(length).unwrap_or(u64::MAX).max(1);
    usize::try_from(finish(fnv1a(tag.as_bytes())) % length).unwrap_or(0)
}

/// 64-bit FNV-1a.
fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The finalizer of 64-bit MurmurHash3: the low bits of FNV alone spread short tags badly.
fn finish(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_changes() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
        let hashes = [
            ("a", 0x82a2_a958_a9be_ce5b),
            ("b", 0x6e67_3288_764a_d2d0),
            ("orders", 0x3252_0fbd_b4da_d5b9),
            ("pay.eu", 0xd655_32d7_ad64_1971),
            ("Bestellung \u{e4}", 0xfe93_6570_ffad_5ac2),
        ];
        for (tag, hash) in hashes {
            assert_eq!(finish(fnv1a(tag.as_bytes())), hash, "{tag}");
        }
        let places = |tag: &str| [2, 3, 7, 64].map(|length| place(tag, length));
        assert_eq!(places("a"), [1, 2, 1, 27]);
        assert_eq!(places("orders"), [1, 1, 5, 57]);
        assert_eq!(places("orders.1"), [0, 1, 2, 22]);
        assert_eq!(places("pay.eu"), [1, 0, 2, 49]);
        assert_eq!(places(&"x".repeat(128)), [1, 2, 1, 19]);
    }

    #[test]
    fn it_spreads_evenly() {
        for length in [2, 3, 7, 64] {
            let mut counts = vec![0; length];
            for i in 0..100_000 {
                counts[place(&format!("tag {i}"), length)] += 1;
            }
            let fair = 100_000 / length;
            let off =
                counts.iter().find(|count| **count < fair * 9 / 10 || **count > fair * 11 / 10);
            assert_eq!(off, None, "of {length}: {counts:?}");
        }
    }
}
