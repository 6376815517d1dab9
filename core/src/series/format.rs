//! The texts of document numbers: how a number is written, and how it is read back. No two numbers of a series have the
//! same text: each part has a fixed width or ends at a known character, and the text names the period and the tenant.

use std::fmt::Write as _;

use jiff::civil::{Date, ISOWeekDate, Weekday};
use serde::{Deserialize, Serialize};

use super::check::CheckSystem;
use super::{Overflow, Period, PeriodKind, TENANT_BYTES_MAX};

/// How a series writes its numbers, such as `INV-{yyyy}-{n:6}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Format {
    text: String,
    parts: Vec<Field>,
    check: Option<CheckSystem>,
    kind: PeriodKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Literal(String),
    Year,
    /// The last two digits of a year from 2000 to 2099.
    ShortYear,
    Month,
    Day,
    Week,
    Quarter,
    Tenant,
    Count(Count),
}

/// How the number itself is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    width: u8,
    radix: u64,
}

/// What surrounds the numbers of a tenant in a period.
#[derive(Clone, Debug)]
pub struct Template {
    before: String,
    after: String,
    count: Count,
    check: Option<CheckSystem>,
}

/// What a text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    pub period: Period,
    /// In lower case; empty if the format has no tenant.
    pub tenant: String,
    pub number: u64,
}

/// Why a text isn't a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("it must have 1 to {LENGTH_MAX} printable ASCII characters")]
    Characters,
    #[error(
        "{{{0}}} is not one of {{yyyy}} {{yy}} {{q}} {{MM}} {{ww}} {{dd}} {{tenant}} {{n:6}} {{n:6:base32}} {{check}} {{check:mod11}}"
    )]
    Unknown(String),
    #[error("it has an unmatched brace")]
    Brace,
    #[error("it needs {{n:WIDTH}}, with a width of 1 to 18, or of 1 to 12 in base 32")]
    Count,
    #[error("{0} appears twice, or beside a field that says the same")]
    Twice(&'static str),
    #[error("{{check}} must be at the end")]
    CheckInside,
    #[error(
        "the period can't be read from its numbers, so they would repeat: use {{yyyy}} or {{yy}}, alone or with {{q}}, {{MM}}, \
         {{ww}}, or {{MM}} and {{dd}}; or no date at all"
    )]
    Period,
    #[error(
        "{0} has no fixed length, so a character that is neither letter nor digit must follow, or the end: its numbers \
         could be read in two ways"
    )]
    Ambiguous(&'static str),
}

/// Why a text isn't a number of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum ReadError {
    #[error("it doesn't have the series' format")]
    Format,
    #[error("its check digits are wrong: it was mistyped")]
    Check,
}

/// The longest format, in bytes. So a text has at most 160.
const LENGTH_MAX: usize = 100;

const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

impl Format {
    /// # Errors
    /// [`FormatError`]
    pub fn parse(text: &str) -> Result<Format, FormatError> {
        let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if text.is_empty() || text.len() > LENGTH_MAX || !printable {
            return Err(FormatError::Characters);
        }
        let (mut parts, mut check, mut rest) = (Vec::new(), None, text);
        while !rest.is_empty() {
            if check.is_some() {
                return Err(FormatError::CheckInside);
            }
            let (literal, field) = rest.split_at(rest.find('{').unwrap_or(rest.len()));
            if literal.contains('}') {
                return Err(FormatError::Brace);
            }
            if !literal.is_empty() {
                parts.push(Field::Literal(literal.to_owned()));
            }
            let Some(field) = field.strip_prefix('{') else { break };
            let (name, behind) = field.split_once('}').ok_or(FormatError::Brace)?;
            rest = behind;
            match name {
                "check" => check = Some(CheckSystem::Mod97),
                "check:mod11" => check = Some(CheckSystem::Mod11),
                name => parts.push(Field::parse(name)?),
            }
        }
        let kind = kind_of(&parts)?;
        for (index, part) in parts.iter().enumerate() {
            let delimited = match parts.get(index + 1) {
                None => true,
                Some(Field::Literal(next)) => {
                    !next.starts_with(|c: char| c.is_ascii_alphanumeric())
                }
                Some(_) => false,
            };
            if let (false, Field::Tenant | Field::Count(_)) = (delimited, part) {
                return Err(FormatError::Ambiguous(part.name()));
            }
        }
        Ok(Format { text: text.to_owned(), parts, check, kind })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How long its periods are.
    pub fn kind(&self) -> PeriodKind {
        self.kind
    }

    pub(super) fn has_tenant(&self) -> bool {
        self.parts.contains(&Field::Tenant)
    }

    /// The largest number that fits its width.
    pub(super) fn capacity(&self) -> u64 {
        let count = self.count();
        count.radix.pow(count.width.into()) - 1
    }

    fn count(&self) -> Count {
        let mut counts = self.parts.iter().filter_map(|part| match part {
            Field::Count(count) => Some(*count),
            _ => None,
        });
        counts.next().expect("a format has a count")
    }

    /// What surrounds a tenant's numbers in a period of its kind. `None` if the format can't tell the period's year from
    /// others.
    pub fn template(&self, period: Period, tenant: &str) -> Option<Template> {
        let (mut before, mut after) = (String::new(), None);
        for part in &self.parts {
            let text = after.as_mut().unwrap_or(&mut before);
            match part {
                Field::Literal(literal) => text.push_str(literal),
                Field::Year => write!(text, "{}", period.year()).ok()?,
                Field::ShortYear if period.year() < 2100 => {
                    write!(text, "{:02}", period.year() - 2000).ok()?;
                }
                Field::ShortYear => return None,
                Field::Month => write!(text, "{:02}", period.first().month()).ok()?,
                Field::Day => write!(text, "{:02}", period.first().day()).ok()?,
                Field::Week => write!(text, "{:02}", period.week()).ok()?,
                Field::Quarter => write!(text, "{}", period.quarter()).ok()?,
                Field::Tenant => text.push_str(&tenant.to_ascii_uppercase()),
                Field::Count(_) => after = Some(String::new()),
            }
        }
        let after = after.unwrap_or_default();
        Some(Template { before, after, count: self.count(), check: self.check })
    }

    /// Reads a number.
    ///
    /// # Errors
    /// [`ReadError`]
    pub fn read(&self, text: &str, overflow: Overflow) -> Result<Number, ReadError> {
        let width = self.check.map_or(0, CheckSystem::width);
        let split = text.len().checked_sub(width).and_then(|at| text.split_at_checked(at));
        let (body, digits) = split.ok_or(ReadError::Format)?;
        let number = self.take_apart(body, overflow).ok_or(ReadError::Format)?;
        match self.check {
            Some(check) if check.digits(body) != digits => Err(ReadError::Check),
            _ => Ok(number),
        }
    }

    fn take_apart(&self, mut text: &str, overflow: Overflow) -> Option<Number> {
        let (mut year, mut month, mut day, mut week) = (2000, 1, 1, None);
        let (mut tenant, mut number) = (String::new(), 0);
        for part in &self.parts {
            // A part without a fixed length ends where no letter or digit follows.
            let word = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
            match part {
                Field::Literal(literal) => text = text.strip_prefix(literal.as_str())?,
                Field::Year => year = digits(&mut text, 4)?,
                Field::ShortYear => year = 2000 + digits(&mut text, 2)?,
                Field::Month => month = digits(&mut text, 2)?,
                Field::Day => day = digits(&mut text, 2)?,
                Field::Week => week = Some(digits(&mut text, 2)?),
                Field::Quarter => month = digits(&mut text, 1)? * 3 - 2,
                Field::Tenant => {
                    let (found, behind) = text.split_at(word);
                    let lower = found.bytes().any(|byte| byte.is_ascii_lowercase());
                    if lower || !(1..=TENANT_BYTES_MAX).contains(&word) {
                        return None;
                    }
                    (tenant, text) = (found.to_ascii_lowercase(), behind);
                }
                Field::Count(count) => {
                    let (found, behind) = text.split_at(word);
                    (number, text) = (count.read(found, overflow)?, behind);
                }
            }
        }
        let date = match week {
            Some(week) => ISOWeekDate::new(year, small(week)?, Weekday::Monday).ok()?.date(),
            None => Date::new(year, small(month)?, small(day)?).ok()?,
        };
        let period = Period::of(self.kind, date)?;
        text.is_empty().then_some(Number { period, tenant, number })
    }
}

impl Field {
    fn parse(name: &str) -> Result<Field, FormatError> {
        let count = name.strip_prefix("n:").map(|width| match width.strip_suffix(":base32") {
            Some(width) => (width, 32, 12),
            None => (width, 10, 18),
        });
        if let Some((width, radix, most)) = count {
            let width = width.parse::<u8>().ok().filter(|width| (1..=most).contains(width));
            return Ok(Field::Count(Count { width: width.ok_or(FormatError::Count)?, radix }));
        }
        Ok(match name {
            "yyyy" => Field::Year,
            "yy" => Field::ShortYear,
            "q" => Field::Quarter,
            "MM" => Field::Month,
            "ww" => Field::Week,
            "dd" => Field::Day,
            "tenant" => Field::Tenant,
            "n" => return Err(FormatError::Count),
            other => return Err(FormatError::Unknown(other.to_owned())),
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Field::Literal(_) => "text",
            Field::Year | Field::ShortYear => "the year",
            Field::Month => "{MM}",
            Field::Day => "{dd}",
            Field::Week => "{ww}",
            Field::Quarter => "{q}",
            Field::Tenant => "{tenant}",
            Field::Count(_) => "{n}",
        }
    }
}

/// How long the periods are, by the fields that the parts show.
fn kind_of(parts: &[Field]) -> Result<PeriodKind, FormatError> {
    let mut names: Vec<&str> =
        parts.iter().map(Field::name).filter(|name| *name != "text").collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(FormatError::Twice(twice[0]));
    }
    if !names.contains(&"{n}") {
        return Err(FormatError::Count);
    }
    names.retain(|name| !["{n}", "{tenant}"].contains(name));
    match names[..] {
        [] => Ok(PeriodKind::All),
        ["the year"] => Ok(PeriodKind::Year),
        ["the year", "{q}"] => Ok(PeriodKind::Quarter),
        ["the year", "{MM}"] => Ok(PeriodKind::Month),
        ["the year", "{ww}"] => Ok(PeriodKind::Week),
        ["the year", "{MM}", "{dd}"] => Ok(PeriodKind::Day),
        _ => Err(FormatError::Period),
    }
}

impl Count {
    fn write(self, number: u64, text: &mut String) {
        let (mut places, mut rest) = ([b'0'; 20], number);
        let mut first = places.len();
        while rest > 0 || places.len() - first < self.width.into() {
            first -= 1;
            places[first] = DIGITS[(rest % self.radix) as usize];
            rest /= self.radix;
        }
        text.extend(places[first..].iter().map(|digit| char::from(*digit)));
    }

    /// Reads a number in the one way in which it is written.
    fn read(self, text: &str, overflow: Overflow) -> Option<u64> {
        let longer = text.len() > self.width.into();
        if text.len() < self.width.into()
            || longer && (overflow == Overflow::Refuse || text.starts_with('0'))
        {
            return None;
        }
        let mut number = 0_u64;
        for digit in text.bytes() {
            let value = DIGITS.iter().position(|known| *known == digit)? as u64;
            let value = Some(value).filter(|value| *value < self.radix)?;
            number = number.checked_mul(self.radix)?.checked_add(value)?;
        }
        (1..=i64::MAX as u64).contains(&number).then_some(number)
    }
}

impl Template {
    /// Appends the text of a number.
    pub fn write(&self, number: u64, text: &mut String) {
        let start = text.len();
        text.push_str(&self.before);
        self.count.write(number, text);
        text.push_str(&self.after);
        if let Some(check) = self.check {
            let digits = check.digits(&text[start..]);
            text.push_str(&digits);
        }
    }
}

/// Takes a number with this many decimal digits off the front of a text.
fn digits(text: &mut &str, width: usize) -> Option<i16> {
    let (found, rest) = text.split_at_checked(width)?;
    *text = rest;
    let is_number = found.bytes().all(|byte| byte.is_ascii_digit());
    found.parse().ok().filter(|_| is_number)
}

fn small(number: i16) -> Option<i8> {
    i8::try_from(number).ok()
}

impl TryFrom<String> for Format {
    type Error = FormatError;

    fn try_from(text: String) -> Result<Format, FormatError> {
        Format::parse(&text)
    }
}

impl From<Format> for String {
    fn from(format: Format) -> String {
        format.text
    }
}
