//! Periods in time zones.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use leafd_core::UnixMs;
use leafd_core::series::{Period, PeriodKind};

use crate::seed::seeds;

const KINDS: [PeriodKind; 5] =
    [PeriodKind::Year, PeriodKind::Quarter, PeriodKind::Month, PeriodKind::Week, PeriodKind::Day];

/// Time zones with their clocks set at 2 h, at midnight, and never.
fn zones() -> Vec<TimeZone> {
    let rules = [
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "CLT4CLST,M9.1.6/24,M4.1.6/24",
        "NST3:30NDT,M3.2.0/0:01,M11.1.0/0:01",
        "UTC0",
    ];
    rules.iter().map(|rule| TimeZone::posix(rule).unwrap()).collect()
}

fn at(text: &str) -> UnixMs {
    let instant: jiff::Timestamp = text.parse().unwrap();
    UnixMs(instant.as_millisecond() as u64)
}

#[test]
fn each_kind_has_its_names() {
    let berlin = &zones()[0];
    let now = at("2026-12-31T22:59:59.999Z");
    let names = KINDS.map(|kind| Period::at(kind, berlin, now).unwrap().to_string());
    assert_eq!(names, ["2026", "2026-Q4", "2026-12", "2026-W53", "2026-12-31"]);
    let next = KINDS.map(|kind| Period::at(kind, berlin, UnixMs(now.0 + 1)).unwrap().to_string());
    assert_eq!(next, ["2027", "2027-Q1", "2027-01", "2026-W53", "2027-01-01"]);
    let leap = Period::at(PeriodKind::Day, berlin, at("2028-02-28T23:00:00Z")).unwrap();
    assert_eq!(leap.to_string(), "2028-02-29");
    assert_eq!(leap.next().unwrap().to_string(), "2028-03-01");
    let all = Period::at(PeriodKind::All, berlin, now).unwrap();
    assert_eq!((all.to_string().as_str(), all.next()), ("all", None));
    // A year of two digits must not mean two years.
    assert!(Period::at(PeriodKind::Year, berlin, at("2099-12-31T22:59:59Z")).is_some());
    assert_eq!(Period::at(PeriodKind::Year, berlin, at("2099-12-31T23:00:00Z")), None);
    assert_eq!(Period::at(PeriodKind::Day, berlin, at("1999-12-31T22:00:00Z")), None);
    for text in ["2026-13", "2026-1", "26-01", "2026-01-01", "", "2026-W54"] {
        assert_eq!(Period::parse(PeriodKind::Month, text), None, "{text}");
    }
    assert_eq!(Period::parse(PeriodKind::Week, "2026-W54"), None);
    assert_eq!(Period::parse(PeriodKind::Day, "2026-02-29"), None);
}

/// A day lasts 23 or 25 hours when clocks are set, and periods follow one another without a gap.
#[test]
fn periods_cover_all_time_once() {
    for mut rng in seeds(300) {
        for zone in zones() {
            for kind in KINDS {
                let now = UnixMs(rng.u64(1_600_000_000_000..2_000_000_000_000));
                let period = Period::at(kind, &zone, now).unwrap();
                let (start, end) = (period.start(&zone), period.end(&zone).unwrap());
                assert!(start <= now && now < end, "{period} {start:?} {now:?} {end:?}");
                assert_eq!(Period::at(kind, &zone, start), Some(period));
                assert_eq!(Period::at(kind, &zone, UnixMs(end.0 - 1)), Some(period));
                assert_eq!(Period::at(kind, &zone, end), period.next());
                assert_eq!(Period::parse(kind, &period.to_string()), Some(period));
            }
        }
    }
}

#[test]
fn a_day_begins_once_where_clocks_are_set_at_midnight() {
    let chile = &zones()[1];
    let day = |text| Period::at(PeriodKind::Day, chile, at(text)).unwrap();
    // On 5 September 2026 at 24:00 the clocks go to 1:00.
    let spring = day("2026-09-06T12:00:00Z");
    assert_eq!(spring.end(chile).unwrap().0 - spring.start(chile).0, 23 * 3_600_000);
    assert_eq!(spring.start(chile), at("2026-09-06T04:00:00Z"));
    // In Newfoundland they went back from 0:01 to 23:01: the day that has begun goes on.
    let newfoundland = &zones()[2];
    let begun = "2026-11-01T00:00:00".parse::<DateTime>().unwrap();
    let begun = newfoundland.to_ambiguous_timestamp(begun).earlier().unwrap();
    for minutes in [0, 1, 30, 59, 60, 61] {
        let now = UnixMs(begun.as_millisecond() as u64 + minutes * 60_000);
        let period = Period::at(PeriodKind::Day, newfoundland, now).unwrap();
        assert_eq!(period.to_string(), "2026-11-01", "{minutes}");
    }
}
