//! Periods: the days, weeks, months, quarters or years of a time zone, each with its own count.

use std::fmt;

use jiff::civil::{Date, ISOWeekDate, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan as _};

use crate::UnixMs;

/// How long the periods of a series are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodKind {
    /// A single period without an end.
    All,
    Year,
    Quarter,
    Month,
    /// An ISO week.
    Week,
    Day,
}

/// A period, identified by its first day. A week is identified by its Thursday, which lies in the year that the week
/// belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    kind: PeriodKind,
    day: Date,
}

/// The years that a document number can name, even with two digits.
const YEARS: std::ops::RangeInclusive<i16> = 2000..=2099;

impl PeriodKind {
    /// The `strftime` pattern that names a period, and the length of the period.
    fn name_and_length(self) -> (&'static str, Span) {
        match self {
            PeriodKind::All => ("all", Span::new()),
            PeriodKind::Year => ("%Y", 1.year()),
            PeriodKind::Quarter => ("%Y-Q%q", 3.months()),
            PeriodKind::Month => ("%Y-%m", 1.month()),
            PeriodKind::Week => ("%Y-W%V", 1.week()),
            PeriodKind::Day => ("%Y-%m-%d", 1.day()),
        }
    }
}

impl Period {
    /// The period of an instant in a time zone: the last one that has begun. `None` outside of `YEARS`.
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
    fn of(kind: PeriodKind, date: Date) -> Option<Period> {
        let day = match kind {
            PeriodKind::All => Date::constant(2000, 1, 1),
            PeriodKind::Year => date.first_of_year(),
            PeriodKind::Quarter => {
                Date::new(date.year(), (date.month() - 1) / 3 * 3 + 1, 1).ok()?
            }
            PeriodKind::Month => date.first_of_month(),
            PeriodKind::Week => {
                let week = date.iso_week_date();
                ISOWeekDate::new(week.year(), week.week(), Weekday::Thursday).ok()?.date()
            }
            PeriodKind::Day => date,
        };
        YEARS.contains(&day.year()).then_some(Period { kind, day })
    }

    /// Formats the period with a `strftime` pattern.
    pub(super) fn text(self, pattern: &str) -> String {
        self.day.strftime(pattern).to_string()
    }

    /// The period with this year, this quarter, month or week of the year, and this day of the month.
    pub(super) fn of_fields(kind: PeriodKind, year: i16, inner: i16, day: i16) -> Option<Period> {
        let (inner, day) = (i8::try_from(inner).ok()?, i8::try_from(day).ok()?);
        let date = match kind {
            PeriodKind::Quarter => Date::new(year, inner.checked_mul(3)?.checked_sub(2)?, 1),
            PeriodKind::Week => {
                ISOWeekDate::new(year, inner, Weekday::Monday).map(|day| day.date())
            }
            // Fields that this kind of period doesn't have are 1.
            _ => Date::new(year, inner, day),
        };
        Period::of(kind, date.ok()?)
    }

    /// The period after it; `None` for the last one.
    pub fn next(self) -> Option<Period> {
        let day = self.day.checked_add(self.kind.name_and_length().1).ok()?;
        (day > self.day).then_some(Period { day, ..self })
    }

    /// When it begins.
    pub fn start(self, zone: &TimeZone) -> UnixMs {
        let since_monday = if self.kind == PeriodKind::Week { 3.days() } else { Span::new() };
        let first = self.day.saturating_sub(since_monday);
        // Where clocks are set forward over midnight, it begins with the first instant after that.
        let start = zone.to_ambiguous_timestamp(first.into()).compatible();
        UnixMs(start.map_or(0, |start| u64::try_from(start.as_millisecond()).unwrap_or(0)))
    }

    /// When it ends; `None`: never.
    pub fn end(self, zone: &TimeZone) -> Option<UnixMs> {
        Some(self.next()?.start(zone))
    }

    /// Reads what `Display` writes.
    pub fn parse(kind: PeriodKind, text: &str) -> Option<Period> {
        let words = text.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
        let mut numbers = words.map_while(|word| word.parse::<i16>().ok());
        let mut next = |otherwise| numbers.next().unwrap_or(otherwise);
        let period = Period::of_fields(kind, next(2000), next(1), next(1))?;
        (period.to_string() == text).then_some(period)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(self.kind.name_and_length().0))
    }
}
