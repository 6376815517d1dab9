//! Public ids as text.

use leafd_core::mask::{KeyNumber, MaskBits, Prefix, PublicText, TextError};

use crate::seed::seeds;

const DIGITS: &str = "0123456789abcdefghjkmnpqrstvwxyz";

fn bits(bits: u8) -> MaskBits {
    MaskBits::new(bits).unwrap()
}

fn prefix(text: &str) -> Prefix<'_> {
    Prefix::new(text).unwrap()
}

fn key(number: u8) -> KeyNumber {
    KeyNumber::new(number).unwrap()
}

fn encode(key_number: u8, id: u64, width: u8) -> String {
    PublicText { key: key(key_number), id }.encode(prefix("ord"), bits(width))
}

fn decode(text: &str, width: u8) -> Result<PublicText, TextError> {
    PublicText::decode(text.as_bytes(), prefix("ord"), bits(width))
}

/// Texts in use must stay readable for ever.
#[test]
fn the_form_stays_as_it_is() {
    assert_eq!(encode(1, 1, 63), "ord_10000000000001z");
    assert_eq!(encode(1, i64::MAX as u64, 63), "ord_17zzzzzzzzzzzzv");
    assert_eq!(encode(31, 1 << 52, 53), "ord_z40000000000q");
    for id in [1, i64::MAX as u64] {
        assert_eq!(decode(&encode(1, id, 63), 63), Ok(PublicText { key: key(1), id }));
    }
    let bare = PublicText { key: key(2), id: 17 }.encode(prefix(""), bits(40));
    assert_eq!(bare, "20000000hp");
    assert_eq!(PublicText::decode(bare.as_bytes(), prefix(""), bits(40)).unwrap().id, 17);
}

#[test]
fn texts_come_back() {
    let mut rng = seeds(1).next().unwrap();
    for width in 20..=63 {
        for _ in 0..200 {
            let text = PublicText {
                key: key(rng.u64(1..32) as u8),
                id: rng.u64(1..bits(width).largest()),
            };
            let written = text.encode(prefix("ord"), bits(width));
            assert_eq!(decode(&written, width), Ok(text), "{written}");
            let misread = written[4..].to_uppercase().replace('0', "O").replace('1', "l");
            assert_eq!(decode(&format!("ord_{misread}"), width), Ok(text), "{misread}");
        }
    }
}

#[test]
fn every_wrong_character_and_every_swap_is_found() {
    let mut rng = seeds(1).next().unwrap();
    for _ in 0..50 {
        let id = rng.u64(1..1 << 53);
        let good = encode(3, id, 53).into_bytes();
        for place in 4..good.len() {
            for digit in DIGITS.bytes().filter(|digit| *digit != good[place]) {
                let mut bad = good.clone();
                bad[place] = digit;
                let bad = String::from_utf8(bad).unwrap();
                assert_eq!(decode(&bad, 53), Err(TextError::Check), "{bad} for {id}");
            }
            for other in (place + 1..good.len()).filter(|other| good[*other] != good[place]) {
                let mut bad = good.clone();
                bad.swap(place, other);
                let bad = String::from_utf8(bad).unwrap();
                assert_eq!(decode(&bad, 53), Err(TextError::Check), "{bad} for {id}");
            }
        }
    }
}

#[test]
fn other_text_is_refused() {
    let good = encode(1, 4_503_599_627, 53);
    for (text, error) in [
        ("", TextError::Prefix),
        ("cus_1002", TextError::Prefix),
        ("ord", TextError::Prefix),
        (&good[4..], TextError::Prefix),
        (&format!("ord_cus_{}", &good[4..]), TextError::Prefix),
        ("ord_", TextError::Length { bits: bits(53) }),
        (&good[..good.len() - 1], TextError::Length { bits: bits(53) }),
        (&format!("{good}0"), TextError::Length { bits: bits(53) }),
        (&format!("{}u", &good[..good.len() - 1]), TextError::Character),
        (&format!("{} ", &good[..good.len() - 1]), TextError::Character),
        // All zeros have a correct check character, but no key and no id.
        ("ord_0000000000000", TextError::Range { bits: bits(53) }),
    ] {
        assert_eq!(decode(text, 53), Err(error), "{text:?}");
    }
    // Another width with as many characters: 54 and 55 bits are eleven digits too.
    let wide = encode(1, 1 << 54, 55);
    assert_eq!(decode(&wide, 53), Err(TextError::Range { bits: bits(53) }));
    assert!(PublicText::decode("ord_é".as_bytes(), prefix("ord"), bits(53)).is_err());
}

#[test]
fn prefixes_are_short_words() {
    let long = "a".repeat(33);
    for bad in ["_", "ord_", "1st", "Ord", "o-d", "é", &long] {
        assert!(Prefix::new(bad).is_none(), "{bad:?}");
    }
    for good in ["", "o", "ord", "line_item", "v2", &long[1..]] {
        assert_eq!(Prefix::new(good).map(|prefix| prefix.to_string()).as_deref(), Some(good));
    }
}
