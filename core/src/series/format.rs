//! The texts of document numbers: how a number is written, and how it is read back. No two numbers of a series have the
//! same text: each part has a fixed width or ends at a known character, and the text names the period and the tenant.

use super::{Overflow, Period, PeriodKind};
use crate::mask::{DIGITS, value_of};
use crate::store::CEILING_MAX;

/// How a series writes its numbers, such as `INV-{yyyy}-{n:6}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    parts: Vec<Field>,
    /// How many digits a number has at least.
    width: u32,
    radix: u64,
    /// How many check digits follow.
    check: u32,
    kind: PeriodKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Literal(String),
    Date(DateField),
    Tenant,
    Count,
}

/// The content of a document number's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    pub period: Period,
    /// In lower case; empty if the format has no tenant.
    pub tenant: String,
    pub number: u64,
}

/// The longest format, in bytes. It limits texts to 160 bytes.
const LENGTH_MAX: usize = 100;

/// The longest name of a tenant.
const TENANT_BYTES_MAX: usize = 32;

/// A field of a date: its name, its `strftime` specifier, and its width.
type DateField = (&'static str, &'static str, usize);

const DATES: [DateField; 6] = [
    ("yyyy", "%Y", 4),
    ("yy", "%y", 2),
    ("q", "%q", 1),
    ("MM", "%m", 2),
    ("ww", "%V", 2),
    ("dd", "%d", 2),
];

const CHECK: &str = "{check}";

const BRACE: &str = "it has an unmatched brace";

const COUNT: &str = "it needs {n:WIDTH}, with a width of 1 to 18, or of 1 to 12 in base 32";

impl Format {
    /// # Errors
    /// Why the text isn't a format, in words.
    pub fn parse(text: &str) -> Result<Format, &'static str> {
        let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if text.is_empty() || text.len() > LENGTH_MAX || !printable {
            return Err("it must have 1 to 100 printable ASCII characters");
        }
        let (mut parts, mut count) = (Vec::new(), None);
        let body = text.strip_suffix(CHECK);
        for piece in body.unwrap_or(text).split_inclusive('}') {
            let (literal, field) = piece.split_once('{').unwrap_or((piece, "}"));
            if literal.contains('}') {
                return Err(BRACE);
            }
            if !literal.is_empty() {
                parts.push(Field::Literal(literal.to_owned()));
            }
            let name = field.strip_suffix('}').ok_or(BRACE)?;
            let date = DATES.into_iter().find(|(date, ..)| *date == name);
            match (name, date) {
                (_, Some(date)) => parts.push(Field::Date(date)),
                ("tenant", _) => parts.push(Field::Tenant),
                _ if name.starts_with('n') => {
                    count = Some(width_and_radix(name).ok_or(COUNT)?);
                    parts.push(Field::Count);
                }
                _ if piece.contains('{') => {
                    return Err("its fields can be {yyyy} {yy} {q} {MM} {ww} {dd} {tenant} {n:6} \
                                {n:6:base32}, and at the end {check}");
                }
                _ => {}
            }
        }
        let (width, radix) = count.ok_or(COUNT)?;
        for (index, part) in parts.iter().enumerate() {
            if parts[..index].contains(part) && !matches!(part, Field::Literal(_)) {
                return Err("a field appears twice");
            }
            let delimited = match parts.get(index + 1) {
                None => true,
                Some(Field::Literal(next)) => {
                    !next.starts_with(|c: char| c.is_ascii_alphanumeric())
                }
                Some(_) => false,
            };
            if !delimited && matches!(part, Field::Tenant | Field::Count) {
                return Err(
                    "a tenant or number has no fixed length, so a character that is neither letter nor digit \
                            must follow it, or the end: otherwise two numbers could look alike",
                );
            }
        }
        let kind = kind_of(&parts)?;
        Ok(Format { parts, width, radix, check: if body.is_some() { 2 } else { 0 }, kind })
    }

    /// How long its periods are.
    pub fn kind(&self) -> PeriodKind {
        self.kind
    }

    /// Whether each tenant has its own count.
    pub fn has_tenant(&self) -> bool {
        self.parts.contains(&Field::Tenant)
    }

    /// The largest number that fits its width.
    pub fn capacity(&self) -> u64 {
        self.radix.pow(self.width) - 1
    }

    /// The largest number of a period.
    pub fn ceiling(&self, overflow: Overflow) -> u64 {
        match overflow {
            Overflow::Grow => CEILING_MAX,
            Overflow::Refuse => self.capacity(),
        }
    }

    /// Checks a tenant's name, and returns it in lower case, as tags contain it. Texts show it in capitals.
    ///
    /// # Errors
    /// Why the text isn't a tenant, in words.
    pub fn tenant(&self, text: &str) -> Result<String, &'static str> {
        let fits =
            text.len() <= TENANT_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match (self.has_tenant(), text.is_empty()) {
            (true, true) => Err("each number needs a tenant, because the format has {tenant}"),
            (false, false) => Err("its format has no {tenant}: pass no tenant"),
            _ if !fits => Err("a tenant is 1 to 32 letters and digits"),
            _ => Ok(text.to_ascii_lowercase()),
        }
    }

    /// Writes the numbers of a period.
    pub fn writer(&self, period: Period, tenant: &str) -> impl Fn(u64) -> String {
        let (mut before, mut behind) = (String::new(), None);
        for part in &self.parts {
            let text = behind.as_mut().unwrap_or(&mut before);
            match part {
                Field::Literal(literal) => text.push_str(literal),
                Field::Date((_, pattern, _)) => text.push_str(&period.text(pattern)),
                Field::Tenant => text.push_str(&tenant.to_ascii_uppercase()),
                Field::Count => behind = Some(String::new()),
            }
        }
        let behind = behind.unwrap_or_default();
        move |number| {
            let mut text = format!("{before}{}{behind}", digits(number, self.radix, self.width));
            if self.check > 0 {
                text += &digits(check_of(&text), 10, self.check);
            }
            text
        }
    }

    /// Reads a number if the text is exactly what [`Format::writer`] would write.
    pub fn read(&self, text: &str, overflow: Overflow) -> Option<Number> {
        let mut rest = text.get(..text.len().checked_sub(self.check as usize)?)?;
        let (mut year, mut inner, mut day) = (2000, 1, 1);
        let (mut tenant, mut number) = (String::new(), 0);
        for part in &self.parts {
            let width = match part {
                Field::Literal(literal) => literal.len(),
                Field::Date((.., width)) => *width,
                // The number ends where no letter or digit follows.
                _ => rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len()),
            };
            let (found, behind) = rest.split_at_checked(width)?;
            rest = behind;
            match part {
                Field::Literal(_) => {}
                Field::Date(("yyyy", ..)) => year = found.parse().ok()?,
                Field::Date(("yy", ..)) => year = 2000 + found.parse::<i16>().ok()?,
                Field::Date(("dd", ..)) => day = found.parse().ok()?,
                Field::Date(..) => inner = found.parse().ok()?,
                Field::Tenant => tenant = self.tenant(found).ok()?,
                Field::Count => number = self.number(found)?,
            }
        }
        let period = Period::of_fields(self.kind, year, inner, day)?;
        let fits = (1..=self.ceiling(overflow)).contains(&number);
        // This compares the literals and the check digits as well.
        let same = fits && self.writer(period, &tenant)(number) == text;
        same.then_some(Number { period, tenant, number })
    }

    /// Accepts digits that the radix lacks: `read` rejects them, because it compares the text with what is written for the
    /// number.
    fn number(&self, digits: &str) -> Option<u64> {
        digits.bytes().try_fold(0_u64, |number, digit| {
            let value = u64::from(value_of(digit)?);
            number.checked_mul(self.radix)?.checked_add(value)
        })
    }
}

/// The length of the periods, by the date fields in the format.
fn kind_of(parts: &[Field]) -> Result<PeriodKind, &'static str> {
    let name = |part: &Field| match part {
        Field::Date(("yy", ..)) => Some("yyyy"),
        Field::Date((name, ..)) => Some(*name),
        _ => None,
    };
    let mut names: Vec<&str> = parts.iter().filter_map(name).collect();
    names.sort_unstable();
    match names[..] {
        [] => Ok(PeriodKind::All),
        ["yyyy"] => Ok(PeriodKind::Year),
        ["q", "yyyy"] => Ok(PeriodKind::Quarter),
        ["MM", "yyyy"] => Ok(PeriodKind::Month),
        ["ww", "yyyy"] => Ok(PeriodKind::Week),
        ["MM", "dd", "yyyy"] => Ok(PeriodKind::Day),
        _ => Err(
            "the period can't be read from its numbers, so they would repeat: use {yyyy} or {yy}, alone or with {q}, \
                  {MM}, {ww}, or {MM} and {dd}; or no date at all",
        ),
    }
}

/// The width and radix of a field such as `n:6` or `n:6:base32`.
fn width_and_radix(name: &str) -> Option<(u32, u64)> {
    let width = name.strip_prefix("n:")?;
    let (width, radix, most) = match width.strip_suffix(":base32") {
        Some(width) => (width, 32, 12),
        None => (width, 10, 18),
    };
    let width = width.parse().ok().filter(|width| (1..=most).contains(width))?;
    Some((width, radix))
}

/// A number with at least `width` digits.
fn digits(mut number: u64, radix: u64, width: u32) -> String {
    let mut digits = Vec::new();
    while number > 0 || digits.len() < width as usize {
        digits.push(char::from(DIGITS[(number % radix) as usize].to_ascii_uppercase()));
        number /= radix;
    }
    digits.iter().rev().collect()
}

/// The check digits by ISO 7064, MOD 97-10, over a text's digits and letters, as in an IBAN. They detect any single
/// wrong character, and nearly all swaps of two.
fn check_of(text: &str) -> u64 {
    let values = text.chars().filter_map(|char| char.to_digit(36));
    let remainder = values.fold(0, |sum, value| {
        // A letter counts as the two digits of its place: 10 for A, 35 for Z.
        let shift = if value < 10 { 10 } else { 100 };
        (sum * shift + value) % 97
    });
    u64::from(98 - remainder * 100 % 97)
}
