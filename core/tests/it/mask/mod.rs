//! Masks: checks FF1 against the crate `fpe`, and checks that it is a bijection.

mod text;

use std::collections::BTreeSet;

use aes::Aes128;
use aes::cipher::KeyInit;
use fpe::ff1::{FF1, FlexibleNumeralString};
use leafd_core::Tag;
use leafd_core::mask::{
    KeyNumber, Mask, MaskBits, MaskKey, MaskKeys, MaskKeysError, Masking, NoSuchKey,
};

use crate::seed::seeds;

fn tag(name: &str) -> Tag {
    Tag::parse(name.as_bytes()).unwrap()
}

fn bits(bits: u8) -> MaskBits {
    MaskBits::new(bits).unwrap()
}

fn mask(secret: &[u8; 16], name: &str, width: u8) -> Mask {
    Mask::new(&MaskKey::new(KeyNumber::FIRST, secret), &tag(name), bits(width))
}

fn random_secret(rng: &mut fastrand::Rng) -> [u8; 16] {
    std::array::from_fn(|_| rng.u64(0..256) as u8)
}

/// `fpe` passes NIST's own samples.
#[test]
fn masks_agree_with_fpe() {
    let mut rng = seeds(1).next().unwrap();
    // Names around the lengths at which the tweak needs another block.
    let names: Vec<String> =
        [1, 6, 10, 11, 12, 13, 26, 27, 28, 128].map(|length| "n".repeat(length)).into();
    for width in 20..=63 {
        for name in &names {
            let secret = random_secret(&mut rng);
            let fpe = FF1::<Aes128>::new(&secret, 2).unwrap();
            let mask = mask(&secret, name, width);
            let number = rng.u64(1..bits(width).largest() + 1);
            let numeral = |number: u64| -> FlexibleNumeralString {
                (0..width).rev().map(|bit| (number >> bit & 1) as u16).collect::<Vec<_>>().into()
            };
            let value = |numeral: FlexibleNumeralString| {
                Vec::<u16>::from(numeral).into_iter().fold(0, |id, bit| id << 1 | u64::from(bit))
            };
            let encrypted = |number| value(fpe.encrypt(name.as_bytes(), &numeral(number)).unwrap());
            let id = encrypted(number);
            assert_ne!(id, 0, "as likely as two equal keys");
            // The number whose id would be 0 has the id of 0.
            let of_0 = value(fpe.decrypt(name.as_bytes(), &numeral(0)).unwrap());
            for (number, id) in [(number, id), (of_0, encrypted(0))] {
                assert_eq!(mask.mask(number).unwrap(), id, "{width} bits, {name}");
                assert_eq!(mask.unmask(id).unwrap(), number, "{width} bits, {name}");
            }
        }
    }
}

/// Every number of the smallest width.
#[test]
fn a_small_mask_is_a_bijection() {
    let mask = mask(b"a small domain's", "orders", 20);
    let largest = bits(20).largest();
    let mut ids: Vec<u64> = (1..=largest).collect();
    mask.mask_all(&mut ids).unwrap();
    let mut seen = vec![false; largest as usize + 1];
    for id in &ids {
        assert!((1..=largest).contains(id), "{id}");
        assert!(!std::mem::replace(&mut seen[*id as usize], true), "{id} stands for two numbers");
    }
    mask.unmask_all(&mut ids).unwrap();
    assert!(ids.iter().copied().eq(1..=largest), "some id leads to another number");
}

#[test]
fn large_masks_come_back_whatever_the_batch() {
    let mut rng = seeds(1).next().unwrap();
    for width in [40, 53, 62, 63] {
        let mask = mask(&random_secret(&mut rng), "orders", width);
        let largest = bits(width).largest();
        let numbers: BTreeSet<u64> =
            (0..2_000).map(|_| rng.u64(1..largest)).chain([1, 2, largest]).collect();
        let numbers: Vec<u64> = numbers.into_iter().collect();
        let mut ids = numbers.clone();
        mask.mask_all(&mut ids).unwrap();
        for (number, id) in numbers.iter().zip(&ids) {
            assert_eq!(mask.mask(*number).unwrap(), *id, "a batch and one by itself, {width} bits");
        }
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{width} bits");
        mask.unmask_all(&mut ids).unwrap();
        assert_eq!(ids, numbers, "{width} bits");
    }
}

/// Neither 0 nor a number beyond the width has an id. A batch with such a number stays unchanged.
#[test]
fn numbers_outside_are_refused() {
    let mask = mask(b"0123456789abcdef", "orders", 53);
    for bad in [0, 1 << 53, u64::MAX] {
        let mut batch = [1, bad, 3];
        let error = mask.mask_all(&mut batch).unwrap_err();
        assert_eq!((error.number, batch), (bad, [1, bad, 3]));
        assert!(mask.unmask(bad).is_err());
    }
    assert!(error_text(&mask).contains("2^53 - 1"));
    assert!(MaskBits::new(19).is_none() && MaskBits::new(64).is_none());
    assert_eq!(bits(31).largest(), 2_147_483_647);
}

fn error_text(mask: &Mask) -> String {
    mask.mask(0).unwrap_err().to_string()
}

/// What an outsider would compare: the ids of neighbours, the size and sign of their difference, and each of their
/// bits.
#[test]
fn neighbours_look_unrelated() {
    const PAIRS: usize = 20_000;
    let mask = mask(b"sixteen bytes it", "orders", 53);
    let mut ids: Vec<u64> = (1..=PAIRS as u64 + 1).collect();
    mask.mask_all(&mut ids).unwrap();
    // Six standard deviations of this many coin tosses.
    let fair = |count: usize| count.abs_diff(PAIRS / 2) < 6 * (PAIRS as f64).sqrt() as usize / 2;
    assert!(fair(ids.windows(2).filter(|pair| pair[0] < pair[1]).count()), "order shows");
    for bit in 0..53 {
        let flips = ids.windows(2).filter(|pair| (pair[0] ^ pair[1]) >> bit & 1 == 1).count();
        assert!(fair(flips), "bit {bit} flips {flips} times of {PAIRS}");
    }
    // Differences modulo 2^53 in 64 classes: chi-squared with 63 degrees of freedom.
    let mut classes = [0usize; 64];
    for pair in ids.windows(2) {
        classes[(pair[1].wrapping_sub(pair[0]) >> 47 & 63) as usize] += 1;
    }
    let expected = PAIRS as f64 / 64.0;
    let chi: f64 = classes.iter().map(|n| (*n as f64 - expected).powi(2) / expected).sum();
    assert!(chi < 63.0 + 6.0 * (2.0f64 * 63.0).sqrt(), "differences are not uniform: {chi}");
}

#[test]
fn keys_tags_and_widths_are_unrelated() {
    let ids = [
        mask(b"0123456789abcdef", "orders", 53),
        mask(b"0123456789abcdeg", "orders", 53),
        mask(b"0123456789abcdef", "order", 53),
        mask(b"0123456789abcdef", "orders", 54),
    ]
    .map(|mask| mask.mask(17).unwrap());
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 4, "{ids:?}");
}

#[test]
fn a_file_of_keys_is_read_or_refused_without_quoting_it() {
    let text = "# made 2026-11-22\n2 00112233445566778899aabbccddEEFF\n\n  1\tffeeddccbbaa99887766554433221100 \n";
    let keys = MaskKeys::parse(text).unwrap();
    assert_eq!(keys.current().number.get(), 2);
    assert_eq!(keys.iter().map(|key| key.number.get()).collect::<Vec<_>>(), [2, 1]);
    assert!(keys.get(KeyNumber::new(3).unwrap()).is_none());
    let [second, first] =
        [2, 1].map(|n| keys.get(KeyNumber::new(n).unwrap()).unwrap().check_value());
    assert_ne!(first, second);
    // Two programs must agree on this: AES-128 of `leafd mask check` under the second key.
    let cipher = Aes128::new_from_slice(&[
        0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee,
        0xff,
    ])
    .unwrap();
    let mut block = aes::Block::from(*b"leafd mask check");
    aes::cipher::BlockCipherEncrypt::encrypt_block(&cipher, &mut block);
    assert_eq!(second.to_be_bytes(), block[..8]);
    assert!(!format!("{keys:?}").to_lowercase().contains("aabb"), "{keys:?}");
    assert_eq!(format!("{:?}", keys.current()), "MaskKey { number: KeyNumber(2), .. }");

    let key = "00112233445566778899aabbccddeeff";
    for (text, error) in [
        (String::new(), MaskKeysError::Empty),
        ("# nothing\n".to_owned(), MaskKeysError::Empty),
        (format!("0 {key}"), MaskKeysError::Line { line: 1 }),
        (format!("32 {key}"), MaskKeysError::Line { line: 1 }),
        (format!("1 {key}\n2 {key}0"), MaskKeysError::Line { line: 2 }),
        (format!("1 {}g", &key[1..]), MaskKeysError::Line { line: 1 }),
        (format!("1 +{}", &key[1..]), MaskKeysError::Line { line: 1 }),
        (format!("1 {}é", &key[2..]), MaskKeysError::Line { line: 1 }),
        (key.to_owned(), MaskKeysError::Line { line: 1 }),
        (format!("1 {key}\n1 {key}"), MaskKeysError::Twice { number: KeyNumber::FIRST }),
    ] {
        assert_eq!(MaskKeys::parse(&text).unwrap_err(), error);
        assert!(!error.to_string().contains("2233"), "{error}");
    }
}

#[test]
fn a_tag_is_masked_with_the_key_that_its_record_names() {
    let keys = MaskKeys::parse("2 00112233445566778899aabbccddeeff").unwrap();
    let masking = Masking::new(keys.current(), bits(40));
    let with = |masking: Masking, keys| masking.mask(&tag("orders"), keys).map(|mask| mask.bits);
    let two = keys.current().number;
    assert_eq!(with(masking, Some(&keys)), Ok(bits(40)));
    assert_eq!(with(masking, None), Err(NoSuchKey::Missing(two)));
    let unknown = Masking { key: KeyNumber::FIRST, ..masking };
    assert_eq!(with(unknown, Some(&keys)), Err(NoSuchKey::Missing(KeyNumber::FIRST)));
    let another = Masking { check_value: masking.check_value + 1, ..masking };
    assert_eq!(with(another, Some(&keys)), Err(NoSuchKey::Another(two)));
    let text = masking.to_string();
    assert_eq!(Masking::parse(&text), Some(masking));
    assert_eq!(Masking::parse(&format!("{text} 1")), None);
    let mask = masking.mask(&tag("orders"), Some(&keys)).unwrap();
    assert_eq!(format!("{mask:?}"), "Mask { bits: MaskBits(40), .. }");
}
