//! How numbers are written and read.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use leafd_core::UnixMs;
use leafd_core::series::{Format, FormatError, Number, Overflow, Period, ReadError, Series};

use crate::seed::{Seeded, seeds};

fn format(text: &str) -> Format {
    Format::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
}

fn period_of(format: &Format, text: &str) -> Period {
    Period::parse(format.kind(), text).unwrap()
}

fn write(format: &Format, period: &str, tenant: &str, number: u64) -> String {
    let mut text = String::new();
    let template = format.template(period_of(format, period), tenant).unwrap();
    template.write(number, &mut text);
    text
}

/// Numbers in use must stay readable for ever.
#[test]
fn the_texts_stay_as_they_are() {
    for (text, period, tenant, number, expected) in [
        ("INV-{yyyy}-{n:6}", "2026", "", 123, "INV-2026-000123"),
        ("ORD-{tenant}-{yyyy}{MM}{dd}-{n:5}", "2026-11-24", "acme", 17, "ORD-ACME-20261124-00017"),
        ("{yy}W{ww}/{n:3}", "2026-W53", "", 9, "26W53/009"),
        ("{n:4:base32}-{q}.{yyyy}", "2026-Q4", "", 32, "0010-4.2026"),
        ("{n:1}", "all", "", 1234, "1234"),
        // As in an IBAN: 98 - (RE26000123 in digits, times 100) modulo 97.
        ("RE{yy}{n:6}{check}", "2026", "", 123, "RE2600012349"),
        // The example of ISO 7064: 0794 has the check digit 5.
        ("{n:4}{check:mod11}", "all", "", 794, "07945"),
    ] {
        assert_eq!(write(&format(text), period, tenant, number), expected, "{text}");
    }
    // Whoever checks it takes the digits, 10 for A to 35 for Z, modulo 97.
    assert_eq!(27_14_26_00_01_23_49_u64 % 97, 1);
}

#[test]
fn a_format_whose_numbers_would_repeat_or_be_misread_is_refused() {
    use FormatError::*;
    let refused = |text: &str| Format::parse(text).expect_err(text);
    for (text, expected) in [
        ("", Characters),
        ("INV\n{n:6}", Characters),
        ("INV-{n:6", Brace),
        ("INV-}{n:6}", Brace),
        ("INV-{n}", Count),
        ("INV-{n:0}", Count),
        ("INV-{n:19}", Count),
        ("{n:13:base32}", Count),
        ("INV-{yyyy}", Count),
        ("{YYYY}-{n:6}", Unknown("YYYY".into())),
        ("{n:6}-{n:6}", Twice),
        ("{MM}{yyyy}{MM}-{n:6}", Twice),
        ("{check}{n:6}", CheckInside),
        ("{n:6:base32}{check:mod11}", CheckDigits),
        ("{n:6}{yyyy}", Ambiguous),
        ("{n:6}7", Ambiguous),
        ("{tenant}{n:6}", Ambiguous),
        ("{tenant}{yyyy}-{n:6}", Ambiguous),
    ] {
        assert_eq!(refused(text), expected, "{text}");
    }
    for text in [
        "{MM}-{n:6}",
        "{dd}{yyyy}-{n:6}",
        "{yyyy}{q}{MM}-{n:6}",
        "{yyyy}{ww}{dd}-{n:6}",
        "{q}-{n:6}",
        "{yy}{yyyy}-{n:6}",
    ] {
        assert_eq!(refused(text), Period, "{text}");
    }
}

/// A format of random parts that is valid.
fn some_format(rng: &mut Seeded) -> Format {
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
        text += ["", "{check}", "{check:mod11}"][rng.usize(..3)];
        if let Ok(format) = Format::parse(&text) {
            return format;
        }
    }
}

#[test]
fn numbers_come_back_and_no_two_are_alike() {
    for mut rng in seeds(1_000) {
        let format = some_format(&mut rng);
        let tenants: &[&str] =
            if format.as_str().contains("{tenant}") { &["a", "aa", "7", "acme7"] } else { &[""] };
        let mut texts: BTreeMap<String, (String, &str, u64)> = BTreeMap::new();
        for _ in 0..100 {
            let at = UnixMs(rng.u64(947_000_000_000..4_070_000_000_000));
            let period = Period::at(format.kind(), &TimeZone::UTC, at).unwrap();
            let tenant = tenants[rng.usize(..tenants.len())];
            let number = rng.u64(1..=i64::MAX as u64) >> rng.u8(..62) | 1;
            let text = write(&format, &period.to_string(), tenant, number);
            let expected = Number { period, tenant: tenant.to_owned(), number };
            let name = format.as_str();
            assert_eq!(format.read(&text, Overflow::Grow), Ok(expected.clone()), "{name}: {text}");
            let strictly = format.read(&text, Overflow::Refuse);
            assert!(strictly == Ok(expected) || strictly.is_err(), "{name}: {text}");
            let shown = (period.to_string(), tenant, number);
            let former = texts.insert(text.clone(), shown.clone());
            assert!(former.is_none_or(|former| former == shown), "{name}: {text}");
        }
    }
}

#[test]
fn whatever_is_read_is_written_the_same_way() {
    for mut rng in seeds(1_000) {
        let format = some_format(&mut rng);
        let tenant = if format.as_str().contains("{tenant}") { "b2" } else { "" };
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
            if let Ok(Number { period, tenant, number }) = format.read(&damaged, Overflow::Grow) {
                assert_eq!(write(&format, &period.to_string(), &tenant, number), damaged);
            }
        }
    }
}

#[test]
fn every_wrong_digit_and_every_swap_is_found() {
    let format = format("INV-{yyyy}-{n:6}{check}");
    let single = self::format("{n:8}{check:mod11}");
    let mut rng = seeds(1).next().unwrap();
    for _ in 0..200 {
        let number = rng.u64(1..1_000_000);
        for (format, text) in [
            (&format, write(&format, "2026", "", number)),
            (&single, write(&single, "all", "", number)),
        ] {
            let bytes = text.as_bytes();
            for at in text.find("2026").map_or(0, |at| at + 5)..text.len() {
                for digit in b'0'..=b'9' {
                    let mut wrong = bytes.to_vec();
                    wrong[at] = digit;
                    let wrong = String::from_utf8(wrong).unwrap();
                    let read = format.read(&wrong, Overflow::Refuse);
                    assert_eq!(read.is_ok(), wrong == text, "{text} {wrong}");
                }
                if at + 1 < text.len()
                    && format.as_str().contains("INV")
                    && bytes[at] != bytes[at + 1]
                {
                    let mut wrong = bytes.to_vec();
                    wrong.swap(at, at + 1);
                    let wrong = String::from_utf8(wrong).unwrap();
                    assert!(format.read(&wrong, Overflow::Refuse).is_err(), "{text} {wrong}");
                }
            }
        }
    }
    assert_eq!(format.read("INV-2026-00012399", Overflow::Refuse), Err(ReadError::Check));
    assert_eq!(format.read("INV-2026/00012399", Overflow::Refuse), Err(ReadError::Format));
    assert_eq!(format.read("", Overflow::Refuse), Err(ReadError::Format));
}

#[test]
fn overflow_is_as_chosen() {
    let series = |overflow| Series {
        format: format("INV-{yyyy}-{n:3}"),
        timezone: "UTC".into(),
        overflow,
        dense: false,
        tenants_max: 1,
        retention_days: None,
    };
    let (grow, refuse) = (series(Overflow::Grow), series(Overflow::Refuse));
    assert_eq!((refuse.ceiling(), refuse.warn_from()), (999, 796));
    assert_eq!((grow.ceiling(), grow.warn_from()), (i64::MAX as u64, 796));
    let text = write(&grow.format, "2026", "", 1_000);
    assert_eq!(text, "INV-2026-1000");
    assert_eq!(grow.format.read(&text, grow.overflow).unwrap().number, 1_000);
    assert!(refuse.format.read(&text, refuse.overflow).is_err());
    // A number is written in one way only.
    assert!(grow.format.read("INV-2026-0999", grow.overflow).is_err());
}

#[test]
fn a_year_of_two_digits_is_not_written_after_2099() {
    let format = format("{yy}-{n:3}");
    assert!(format.template(period_of(&format, "2099"), "").is_some());
    assert!(format.template(period_of(&format, "2100"), "").is_none());
}
