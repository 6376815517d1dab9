//! Public ids as text, and the files of the keys that make them.

use leafd_core::Tag;
use leafd_core::mask::{KeyNumber, Mask, MaskBits, MaskKeys, Prefix, PublicText};

use crate::input::Input;

/// What differs in no way that readers notice.
fn canonical(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| match byte.to_ascii_lowercase() {
        b'o' => b'0',
        b'i' | b'l' => b'1',
        other => other,
    };
    text.iter().copied().map(digit).collect()
}

pub(crate) fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let bits = MaskBits::MIN.get() + input.u8() % (MaskBits::MAX.get() - MaskBits::MIN.get() + 1);
    let bits = MaskBits::new(bits).expect("within bounds");
    let prefix = input.u8();
    let prefix = String::from_utf8_lossy(input.bytes(usize::from(prefix % 40))).into_owned();
    if input.u8().is_multiple_of(2) {
        texts(input, Prefix::new(&prefix).unwrap_or_default(), bits);
    } else {
        keys(input, bits);
    }
}

fn texts(mut input: Input<'_>, prefix: Prefix<'_>, bits: MaskBits) {
    let (id, key) = (1 + input.u64() % bits.largest(), 1 + input.u8() % 31);
    let key = KeyNumber::new(key).expect("within bounds");
    let public = PublicText { key, id };
    let text = public.encode(prefix, bits);
    assert_eq!(PublicText::decode(text.as_bytes(), prefix, bits), Ok(public));

    // One wrong character.
    let (at, byte) = (input.below(text.len()), input.u8());
    let mut wrong = text.clone().into_bytes();
    wrong[at] = byte;
    let begins = prefix.to_string().len();
    let is_same = wrong[..begins] == text.as_bytes()[..begins]
        && canonical(&wrong[begins..]) == text.as_bytes()[begins..];
    let read = PublicText::decode(&wrong, prefix, bits);
    assert_eq!(read.is_ok(), is_same, "{text} and {wrong:?}: {read:?}");

    // Any text.
    let given = input.rest();
    if let Ok(read) = PublicText::decode(given, prefix, bits) {
        assert!((1..=bits.largest()).contains(&read.id));
        let begins = prefix.to_string().len();
        let again = read.encode(prefix, bits).into_bytes();
        assert_eq!(again[begins..], canonical(&given[begins..]), "an id has one text");
    }
}

fn keys(mut input: Input<'_>, bits: MaskBits) {
    let (number, name) = (1 + input.u64() % bits.largest(), input.text());
    let Ok(text) = std::str::from_utf8(input.rest()) else { return };
    let keys = match MaskKeys::parse(text) {
        Ok(keys) => keys,
        Err(refused) => {
            let words = refused.to_string();
            assert!(!words.is_empty() && words.len() < 100, "keys aren't quoted: {words}");
            return;
        }
    };
    let mut numbers: Vec<_> = keys.iter().map(|key| key.number).collect();
    assert_eq!(numbers.first(), Some(&keys.current().number));
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), keys.iter().count(), "each number is one key's");
    let Ok(tag) = Tag::parse(name.as_bytes()) else { return };
    for key in keys.iter() {
        let mask = Mask::new(key, &tag, bits);
        let id = mask.mask(number).expect("it is in range");
        assert!((1..=bits.largest()).contains(&id));
        assert_eq!(mask.unmask(id), Ok(number));
    }
}
