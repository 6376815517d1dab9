//! Periods: the days, weeks, months, quarters or years of a time zone, each with its own count.

use std::fmt;

use jiff::civil::{Date, ISOWeekDate, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan as _};

use crate::UnixMs;

/// How long the periods of a series are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodKind {
    /// There is only one.
    All,
    Year,
    Quarter,
    Month,
    /// An ISO week.
    Week,
    Day,
}

/// A period, by its first day.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Period {
    kind: PeriodKind,
    first: Date,
}

/// The first and the last year that a number can name.
const YEARS: std::ops::RangeInclusive<i16> = 2000..=9998;

impl Period {
    /// The period of an instant in a time zone: the last one that has begun. `None` for instants far from the present.
    pub fn at(kind: PeriodKind, zone: &TimeZone, at: UnixMs) -> Option<Period> {
        let instant = Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()?;
        let mut found = Period::of(kind, zone.to_datetime(instant).date())?;
        // Where clocks are set back over midnight, the day that has begun continues.
        while let Some(next) = found.next().filter(|next| next.start(zone) <= at) {
            found = next;
        }
        Some(found)
    }

    /// The period of a date.
    pub(super) fn of(kind: PeriodKind, date: Date) -> Option<Period> {
        let first = match kind {
            PeriodKind::All => Date::constant(2000, 1, 1),
            PeriodKind::Year => date.first_of_year(),
            PeriodKind::Quarter => {
                let month = (date.month() - 1) / 3 * 3 + 1;
                Date::new(date.year(), month, 1).ok()?
            }
            PeriodKind::Month => date.first_of_month(),
            PeriodKind::Week => {
                let week = date.iso_week_date();
                ISOWeekDate::new(week.year(), week.week(), Weekday::Monday).ok()?.date()
            }
            PeriodKind::Day => date,
        };
        let period = Period { kind, first };
        YEARS.contains(&period.year()).then_some(period)
    }

    /// The first day.
    pub(super) fn first(self) -> Date {
        self.first
    }

    /// The year that it belongs to; of a week, the year with most of its days.
    pub(super) fn year(self) -> i16 {
        match self.kind {
            PeriodKind::Week => self.first.iso_week_date().year(),
            _ => self.first.year(),
        }
    }

    /// The number of its ISO week.
    pub(super) fn week(self) -> i8 {
        self.first.iso_week_date().week()
    }

    /// The number of its quarter, from 1.
    pub(super) fn quarter(self) -> i8 {
        (self.first.month() - 1) / 3 + 1
    }

    /// The period after it; `None` for the last one.
    pub fn next(self) -> Option<Period> {
        let length: Span = match self.kind {
            PeriodKind::All => return None,
            PeriodKind::Year => 1.year(),
            PeriodKind::Quarter => 3.months(),
            PeriodKind::Month => 1.month(),
            PeriodKind::Week => 1.week(),
            PeriodKind::Day => 1.day(),
        };
        Some(Period { kind: self.kind, first: self.first.checked_add(length).ok()? })
    }

    /// When it begins.
    pub fn start(self, zone: &TimeZone) -> UnixMs {
        // Where clocks are set forward over midnight, it begins with the first instant after that.
        let start = zone.to_ambiguous_timestamp(self.first.into()).compatible();
        UnixMs(start.map_or(0, |start| u64::try_from(start.as_millisecond()).unwrap_or(0)))
    }

    /// When it ends; `None`: never.
    pub fn end(self, zone: &TimeZone) -> Option<UnixMs> {
        Some(self.next()?.start(zone))
    }

    /// Reads what `Display` writes.
    pub fn parse(kind: PeriodKind, text: &str) -> Option<Period> {
        let number = |text: &str| text.parse::<i16>().ok();
        let small = |text: &str| text.parse::<i8>().ok();
        let mut parts = text.split('-');
        let (year, rest) = (parts.next()?, parts.next());
        let date = match kind {
            PeriodKind::All => Date::constant(2000, 1, 1),
            PeriodKind::Year => Date::new(number(year)?, 1, 1).ok()?,
            PeriodKind::Quarter => {
                let quarter = small(rest?.strip_prefix('Q')?).filter(|it| (1..=4).contains(it))?;
                Date::new(number(year)?, quarter * 3 - 2, 1).ok()?
            }
            PeriodKind::Week => {
                let week = small(rest?.strip_prefix('W')?)?;
                ISOWeekDate::new(number(year)?, week, Weekday::Monday).ok()?.date()
            }
            PeriodKind::Month => Date::new(number(year)?, small(rest?)?, 1).ok()?,
            PeriodKind::Day => {
                Date::new(number(year)?, small(rest?)?, small(parts.next()?)?).ok()?
            }
        };
        Period::of(kind, date).filter(|period| period.to_string() == text)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let year = self.year();
        match self.kind {
            PeriodKind::All => f.write_str("all"),
            PeriodKind::Year => write!(f, "{year}"),
            PeriodKind::Quarter => write!(f, "{year}-Q{}", self.quarter()),
            PeriodKind::Month => write!(f, "{year}-{:02}", self.first.month()),
            PeriodKind::Week => write!(f, "{year}-W{:02}", self.week()),
            PeriodKind::Day => write!(f, "{}", self.first),
        }
    }
}

impl fmt::Debug for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
