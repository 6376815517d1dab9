//! The texts of document numbers: how a number is written, and how it is read back. No two numbers of a series have the
//! same text: each part has a fixed width or ends at a known character, and the text names the period and the tenant.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::check::CheckSystem;
use super::{Overflow, Period, PeriodKind, TENANT_BYTES_MAX};

/// How a series writes its numbers, such as `INV-{yyyy}-{n:6}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Format {
    text: String,
    parts: Vec<Field>,
    count: Count,
    check: Option<CheckSystem>,
    kind: PeriodKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Literal(String),
    /// One of [`DATES`].
    Date(&'static str, usize),
    Tenant,
    Count,
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
    #[error("a field appears twice")]
    Twice,
    #[error("{{check}} must be at the end")]
    CheckInside,
    #[error("{{check:mod11}} checks digits only: use {{check}} with base32")]
    CheckDigits,
    #[error(
        "the period can't be read from its numbers, so they would repeat: use {{yyyy}} or {{yy}}, alone or with {{q}}, {{MM}}, \
         {{ww}}, or {{MM}} and {{dd}}; or no date at all"
    )]
    Period,
    #[error(
        "a tenant or number has no fixed length, so a character that is neither letter nor digit must follow it, or the \
         end: otherwise two numbers could look alike"
    )]
    Ambiguous,
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

/// The fields of a date, each with its width.
const DATES: [(&str, usize); 6] =
    [("yyyy", 4), ("yy", 2), ("q", 1), ("MM", 2), ("ww", 2), ("dd", 2)];

const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

impl Format {
    /// # Errors
    /// [`FormatError`]
    pub fn parse(text: &str) -> Result<Format, FormatError> {
        let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if text.is_empty() || text.len() > LENGTH_MAX || !printable {
            return Err(FormatError::Characters);
        }
        let (mut parts, mut count, mut check, mut rest) = (Vec::new(), None, None, text);
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
            let date = DATES.iter().find(|(date, _)| *date == name);
            match (name, date) {
                (_, Some((date, width))) => parts.push(Field::Date(date, *width)),
                ("check", _) => check = Some(CheckSystem::Mod97),
                ("check:mod11", _) => check = Some(CheckSystem::Mod11),
                ("tenant", _) => parts.push(Field::Tenant),
                (name, _) if name.starts_with('n') => {
                    count = Some(Count::parse(name).ok_or(FormatError::Count)?);
                    parts.push(Field::Count);
                }
                (other, _) => return Err(FormatError::Unknown(other.to_owned())),
            }
        }
        let count = count.ok_or(FormatError::Count)?;
        if check == Some(CheckSystem::Mod11) && count.radix != 10 {
            return Err(FormatError::CheckDigits);
        }
        for (index, part) in parts.iter().enumerate() {
            if parts[..index].contains(part) && !matches!(part, Field::Literal(_)) {
                return Err(FormatError::Twice);
            }
            let delimited = match parts.get(index + 1) {
                None => true,
                Some(Field::Literal(next)) => {
                    !next.starts_with(|c: char| c.is_ascii_alphanumeric())
                }
                Some(_) => false,
            };
            if !delimited && matches!(part, Field::Tenant | Field::Count) {
                return Err(FormatError::Ambiguous);
            }
        }
        Ok(Format { text: text.to_owned(), kind: kind_of(&parts)?, parts, count, check })
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
        self.count.radix.pow(self.count.width.into()) - 1
    }

    /// What surrounds a tenant's numbers in a period of its kind. `None` if the format can't tell the period's year from
    /// others.
    pub fn template(&self, period: Period, tenant: &str) -> Option<Template> {
        let (mut before, mut after) = (String::new(), None);
        for part in &self.parts {
            let text = after.as_mut().unwrap_or(&mut before);
            match part {
                Field::Literal(literal) => text.push_str(literal),
                Field::Date("yy", _) if period.field("yyyy") > 2099 => return None,
                Field::Date(name, width) => write!(text, "{:0width$}", period.field(name)).ok()?,
                Field::Tenant => text.push_str(&tenant.to_ascii_uppercase()),
                Field::Count => after = Some(String::new()),
            }
        }
        let after = after.unwrap_or_default();
        Some(Template { before, after, count: self.count, check: self.check })
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
        let (mut year, mut inner, mut day) = (2000, 1, 1);
        let (mut tenant, mut number) = (String::new(), 0);
        for part in &self.parts {
            let width = match part {
                Field::Literal(literal) => literal.len(),
                Field::Date(_, width) => *width,
                // It ends where no letter or digit follows.
                _ => text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len()),
            };
            let (found, behind) = text.split_at_checked(width)?;
            text = behind;
            match part {
                Field::Literal(literal) if literal == found => {}
                Field::Literal(_) => return None,
                Field::Date("yyyy", _) => year = digits(found)?,
                Field::Date("yy", _) => year = 2000 + digits(found)?,
                Field::Date("dd", _) => day = digits(found)?,
                Field::Date(..) => inner = digits(found)?,
                Field::Tenant => tenant = found.to_ascii_lowercase(),
                Field::Count => number = self.count.read(found, overflow)?,
            }
            if *part == Field::Tenant
                && (found.to_ascii_uppercase() != found || !(1..=TENANT_BYTES_MAX).contains(&width))
            {
                return None;
            }
        }
        let period = Period::of_fields(self.kind, year, inner, day)?;
        text.is_empty().then_some(Number { period, tenant, number })
    }
}

/// How long the periods are, by the fields that the parts show.
fn kind_of(parts: &[Field]) -> Result<PeriodKind, FormatError> {
    let mut names: Vec<&str> = Vec::new();
    for part in parts {
        match part {
            Field::Date("yy", _) => names.push("yyyy"),
            Field::Date(name, _) => names.push(name),
            _ => {}
        }
    }
    names.sort_unstable();
    match names[..] {
        [] => Ok(PeriodKind::All),
        ["yyyy"] => Ok(PeriodKind::Year),
        ["q", "yyyy"] => Ok(PeriodKind::Quarter),
        ["MM", "yyyy"] => Ok(PeriodKind::Month),
        ["ww", "yyyy"] => Ok(PeriodKind::Week),
        ["MM", "dd", "yyyy"] => Ok(PeriodKind::Day),
        _ => Err(FormatError::Period),
    }
}

impl Count {
    fn parse(name: &str) -> Option<Count> {
        let width = name.strip_prefix("n:")?;
        let (width, radix, most) = match width.strip_suffix(":base32") {
            Some(width) => (width, 32, 12),
            None => (width, 10, 18),
        };
        let width = width.parse().ok().filter(|width| (1..=most).contains(width))?;
        Some(Count { width, radix })
    }

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

fn digits(text: &str) -> Option<i16> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
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
