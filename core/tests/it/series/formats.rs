//! How numbers are written and read.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use leafd_core::UnixMs;
use leafd_core::series::{Format, Number, Overflow, Period};

use crate::seed::{Seeded, seeds};

fn format(text: &str) -> Format {
    Format::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
}

fn period_of(format: &Format, text: &str) -> Period {
    Period::parse(format.kind(), text).unwrap()
}

fn write(format: &Format, period: &str, tenant: &str, number: u64) -> String {
    format.writer(period_of(format, period), tenant)(number)
}

/// Numbers in use must stay readable for ever.
#[test]
fn the_texts_stay_as_they_are() {
    for (text, period, tenant, number, expected) in [
        ("INV-{yyyy}-{n:6}", "2026", "", 123, "INV-2026-000123"),
        ("ORD-{tenant}-{yyyy}{MM}{dd}-{n:5}", "2026-11-24", "acme", 17, "ORD-ACME-20261124-00017"),
        ("{yy}W{ww}/{n:3}", "2026-W53", "", 9, "26W53/009"),
        ("{n:4:base32}-{q}.{yyyy}", "2026-Q4", "", 32, "0010-4.2026"),
        ("{MM}/{yyyy}-{n:3}", "2026-11", "", 9, "11/2026-009"),
        ("{n:1}", "all", "", 1234, "1234"),
        // A counts as 10, so that one more digit moves what is before it.
        ("R{tenant}-{n:2}{check}", "all", "a", 1, "RA-0152"),
        // As in an IBAN: 98 - (RE26000123 in digits, times 100) modulo 97.
        ("RE{yy}{n:6}{check}", "2026", "", 123, "RE2600012349"),
    ] {
        let format = format(text);
        assert_eq!(write(&format, period, tenant, number), expected, "{text}");
        let content =
            Number { period: period_of(&format, period), tenant: tenant.to_owned(), number };
        assert_eq!(format.read(expected, Overflow::Grow), Some(content), "{text}");
    }
    // Whoever checks it takes the digits, 10 for A to 35 for Z, modulo 97.
    assert_eq!(27_14_26_00_01_23_49_u64 % 97, 1);
}

#[test]
fn a_format_whose_numbers_would_repeat_or_be_misread_is_refused() {
    let refused = |text: &str| Format::parse(text).expect_err(text);
    for (text, expected) in [
        ("", "printable"),
        ("INV\n{n:6}", "printable"),
        (&format!("{}{{n:6}}", "-".repeat(96)), "printable"),
        ("INV-{n:6", "brace"),
        ("INV-}{n:6}", "brace"),
        ("INV-{n:6}}", "brace"),
        ("INV-{n}", "{n:WIDTH}"),
        ("INV-{n:0}", "{n:WIDTH}"),
        ("INV-{n:19}", "{n:WIDTH}"),
        ("{n:13:base32}", "{n:WIDTH}"),
        ("INV-{yyyy}", "{n:WIDTH}"),
        ("{YYYY}-{n:6}", "its fields can be"),
        ("{}-{n:6}", "its fields can be"),
        ("{check}{n:6}", "at the end {check}"),
        ("{n:6}-{n:6}", "twice"),
        ("{MM}{yyyy}{MM}-{n:6}", "twice"),
        ("{n:6}{yyyy}", "no fixed length"),
        ("{n:6}7", "no fixed length"),
        ("{tenant}{n:6}", "no fixed length"),
        ("{tenant}{yyyy}-{n:6}", "no fixed length"),
        ("{MM}-{n:6}", "can't be read"),
        ("{dd}{yyyy}-{n:6}", "can't be read"),
        ("{yyyy}{q}{MM}-{n:6}", "can't be read"),
        ("{yyyy}{ww}{dd}-{n:6}", "can't be read"),
        ("{q}-{n:6}", "can't be read"),
        ("{yy}{yyyy}-{n:6}", "can't be read"),
    ] {
        assert!(refused(text).contains(expected), "{text}: {}", refused(text));
    }
    format(&format!("{}{{n:6}}", "-".repeat(95)));
}

/// A format of random parts that is valid.
fn some_format(rng: &mut Seeded) -> (String, Format) {
    loop {
        let dates: [&[&str]; 6] = [
            &[],
            &["{yyyy}"],
            &["{q}", "{yyyy}"],
            &["{MM}", "{yy}"],
            &["{yyyy}", "{ww}"],
            &["{dd}", "{MM}", "{yyyy}"],
        ];
        let mut parts: Vec<String> =
            dates[rng.usize(..dates.len())].iter().map(|&part| part.to_owned()).collect();
        let base = if rng.bool() { ":base32" } else { "" };
        parts.push(format!("{{n:{}{base}}}", rng.u8(1..=12)));
        if rng.bool() {
            parts.push("{tenant}".to_owned());
        }
        for _ in 0..rng.usize(..4) {
            parts.push(["-", "/", "A", "7", ". ", "RE"][rng.usize(..6)].to_owned());
        }
        let mut text = String::new();
        while !parts.is_empty() {
            text += &parts.swap_remove(rng.usize(..parts.len()));
        }
        text += ["", "{check}"][rng.usize(..2)];
        if let Ok(format) = Format::parse(&text) {
            return (text, format);
        }
    }
}

#[test]
fn numbers_come_back_and_no_two_are_alike() {
    for mut rng in seeds(1_000) {
        let (name, format) = some_format(&mut rng);
        let tenants: &[&str] = if format.has_tenant() { &["a", "aa", "7", "acme7"] } else { &[""] };
        let mut texts: BTreeMap<String, (String, &str, u64)> = BTreeMap::new();
        for _ in 0..100 {
            let at = UnixMs(rng.u64(947_000_000_000..4_070_000_000_000));
            let period = Period::at(format.kind(), &TimeZone::UTC, at).unwrap();
            let tenant = tenants[rng.usize(..tenants.len())];
            let number = rng.u64(1..=i64::MAX as u64) >> rng.u8(..62) | 1;
            let text = write(&format, &period.to_string(), tenant, number);
            let expected = Number { period, tenant: tenant.to_owned(), number };
            let read = format.read(&text, Overflow::Grow);
            assert_eq!(read.as_ref(), Some(&expected), "{name}: {text}");
            let strictly = format.read(&text, Overflow::Refuse);
            assert!(strictly.is_none_or(|read| read == expected), "{name}: {text}");
            let shown = (period.to_string(), tenant, number);
            let former = texts.insert(text.clone(), shown.clone());
            assert!(former.is_none_or(|former| former == shown), "{name}: {text}");
        }
    }
}

#[test]
fn whatever_is_read_is_written_the_same_way() {
    for mut rng in seeds(1_000) {
        let (_, format) = some_format(&mut rng);
        let tenant = if format.has_tenant() { "b2" } else { "" };
        let period = Period::at(format.kind(), &TimeZone::UTC, UnixMs(1_795_000_000_000)).unwrap();
        let text = write(&format, &period.to_string(), tenant, rng.u64(1..1_000_000));
        for _ in 0..100 {
            let mut damaged = text.clone().into_bytes();
            let at = rng.usize(..damaged.len());
            match rng.u8(..3) {
                0 => damaged[at] = b"0189AZaz-/. "[rng.usize(..12)],
                1 => drop(damaged.remove(at)),
                _ => damaged.insert(at, b"07A-"[rng.usize(..4)]),
            }
            let damaged = String::from_utf8(damaged).unwrap();
            if let Some(Number { period, tenant, number }) = format.read(&damaged, Overflow::Grow) {
                assert_eq!(write(&format, &period.to_string(), &tenant, number), damaged);
            }
        }
    }
}

#[test]
fn every_wrong_digit_and_every_swap_is_found() {
    let format = format("INV-{yyyy}-{n:6}{check}");
    let mut rng = seeds(1).next().unwrap();
    for _ in 0..200 {
        let text = write(&format, "2026", "", rng.u64(1..1_000_000));
        let bytes = text.as_bytes();
        for at in "INV-2026-".len()..text.len() {
            for digit in b'0'..=b'9' {
                let mut wrong = bytes.to_vec();
                wrong[at] = digit;
                let wrong = String::from_utf8(wrong).unwrap();
                let read = format.read(&wrong, Overflow::Refuse);
                assert_eq!(read.is_some(), wrong == text, "{text} {wrong}");
            }
            if at + 1 < text.len() && bytes[at] != bytes[at + 1] {
                let mut wrong = bytes.to_vec();
                wrong.swap(at, at + 1);
                let wrong = String::from_utf8(wrong).unwrap();
                assert_eq!(format.read(&wrong, Overflow::Refuse), None, "{text} {wrong}");
            }
        }
    }
    for text in ["INV-2026-00012399", "INV-2026/00012399", "INV-2026-0001239ä", "ä", ""] {
        assert_eq!(format.read(text, Overflow::Refuse), None, "{text}");
    }
}

#[test]
fn overflow_is_as_chosen() {
    let format = format("INV-{yyyy}-{n:3}");
    assert_eq!(format.ceiling(Overflow::Refuse), 999);
    assert_eq!(format.ceiling(Overflow::Grow), i64::MAX as u64);
    let text = write(&format, "2026", "", 1_000);
    assert_eq!(text, "INV-2026-1000");
    assert_eq!(format.read(&text, Overflow::Grow).unwrap().number, 1_000);
    assert_eq!(format.read(&text, Overflow::Refuse), None);
    // A number is written in one way only.
    assert_eq!(format.read("INV-2026-0999", Overflow::Grow), None);
    let base32 = self::format("{n:4:base32}");
    assert_eq!(base32.read("001O", Overflow::Grow), None);
    assert_eq!(base32.read("0010", Overflow::Grow).unwrap().number, 32);
}

#[test]
fn tenants_are_letters_and_digits() {
    let (with, without) = (format("{tenant}-{n:3}"), format("{n:3}"));
    assert_eq!(with.tenant("Acme7").unwrap(), "acme7");
    assert_eq!(without.tenant("").unwrap(), "");
    let longest = "x".repeat(32);
    assert_eq!(with.tenant(&longest).unwrap(), longest);
    for text in ["", "a-b", "ä", &"x".repeat(33)] {
        assert!(with.tenant(text).is_err(), "{text}");
    }
    assert!(without.tenant("a").is_err());
    assert_eq!(with.read("acme-001", Overflow::Grow), None);
}
