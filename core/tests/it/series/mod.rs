//! Document numbers: formats, periods, and what a host knows of the store's clock.

mod boundaries;
mod formats;
mod periods;

use leafd_core::Tag;
use leafd_core::series::{Overflow, Series, is_dense, is_name};

#[test]
fn the_names_of_tags_stay_as_they_are() {
    let mut series = Series {
        name: "invoices".to_owned(),
        format: "INV-{n:6}".to_owned(),
        timezone: "UTC".to_owned(),
        overflow: Overflow::Grow,
        dense: false,
        tenants_max: 10,
        retention_days: None,
    };
    assert_eq!(series.tags_of(""), "series/invoices/");
    assert_eq!(series.tags_of("acme"), "series/invoices/acme/");
    series.dense = true;
    assert_eq!(series.tags_of(""), "series.dense/invoices/");
    for (tag, dense) in [("series.dense/invoices/all", true), ("series/invoices/all", false)] {
        assert_eq!(is_dense(&Tag::parse(tag.as_bytes()).unwrap()), dense, "{tag}");
    }
}

#[test]
fn a_name_is_a_lower_case_letter_and_what_may_follow_it() {
    let longest = "x".repeat(40);
    for (text, fits) in [
        ("invoices", true),
        ("a", true),
        ("a2_b-c", true),
        (&longest, true),
        (&format!("{longest}x"), false),
        ("", false),
        ("2a", false),
        ("-a", false),
        ("aB", false),
        ("a/b", false),
    ] {
        assert_eq!(is_name(text), fits, "{text}");
    }
}
