//! Values as given: TOML with line numbers, or bare text from the environment and the command line.

use std::fmt;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and its line in the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConfigNode {
    pub(super) value: Value,
    /// From 1; `None` if the value didn't come from a file.
    pub(super) line: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// Text without a type of its own; the setting decides the type.
    Bare(String),
    Text(String),
    /// A decimal number; `None` if it has more digits than any setting allows.
    Integer(Option<i128>),
    /// Values of types that no setting (or only one) accepts, as they were written.
    Other(&'static str, String),
    Boolean(bool),
    List(Vec<ConfigNode>),
    Table(Entries),
}

/// The keys and values of a table.
pub(super) type Entries = Vec<(String, ConfigNode)>;

/// Why a value is invalid.
#[derive(Debug)]
pub(super) struct InvalidValue {
    /// The place within the setting's value, such as `[1].uids`.
    pub(super) place: String,
    /// The given value.
    pub(super) node: ConfigNode,
    pub(super) instead: Instead,
}

/// What an error says after a value that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Instead {
    /// What the setting allows, in its own words.
    OfSetting,
    /// What is allowed.
    Allowed(Box<str>),
    /// Why the value can't be used.
    Because(Box<str>),
}

impl ConfigNode {
    pub(super) fn bare(text: impl Into<String>) -> ConfigNode {
        ConfigNode { value: Value::Bare(text.into()), line: None }
    }

    /// An error: the setting doesn't allow this value.
    pub(super) fn bad(&self) -> InvalidValue {
        InvalidValue { place: String::new(), node: self.clone(), instead: Instead::OfSetting }
    }

    /// An error: this value is not one of `allowed`.
    pub(super) fn bad_for(&self, allowed: impl Into<String>) -> InvalidValue {
        InvalidValue { instead: Instead::Allowed(allowed.into().into()), ..self.bad() }
    }

    /// An error: this value can't be used, for this reason.
    pub(super) fn bad_because(&self, reason: impl Into<String>) -> InvalidValue {
        InvalidValue { instead: Instead::Because(reason.into().into()), ..self.bad() }
    }

    /// As TOML on one line; `show` renders each text.
    pub(super) fn to_toml(&self, show: &dyn Fn(&str) -> String) -> String {
        match &self.value {
            Value::Bare(text) | Value::Text(text) => quoted(&show(text)),
            Value::Integer(Some(number)) => number.to_string(),
            Value::Integer(None) => "a number too long to show".to_owned(),
            Value::Other(_, text) => text.clone(),
            Value::Boolean(truth) => truth.to_string(),
            Value::List(nodes) => {
                let items: Vec<String> = nodes.iter().map(|node| node.to_toml(show)).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Table(entries) => {
                let items: Vec<String> = entries
                    .iter()
                    .map(|(key, node)| format!("{} = {}", show_key(key), node.to_toml(show)))
                    .collect();
                format!("{{{}}}", items.join(", "))
            }
        }
    }

    pub(super) fn text(&self) -> Result<&str, InvalidValue> {
        match &self.value {
            Value::Bare(text) | Value::Text(text) => Ok(text),
            _ => Err(self.bad()),
        }
    }

    pub(super) fn integer(&self, least: u64, most: u64) -> Result<u64, InvalidValue> {
        let number = match &self.value {
            Value::Bare(text) => text.replace('_', "").parse().ok(),
            Value::Integer(number) => *number,
            _ => None,
        };
        let number = number.and_then(|number| u64::try_from(number).ok());
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| self.bad_for(format!("a whole number from {least} to {most}")))
    }

    pub(super) fn boolean(&self) -> Result<bool, InvalidValue> {
        match &self.value {
            Value::Boolean(truth) => Ok(*truth),
            Value::Bare(text) if text == "true" => Ok(true),
            Value::Bare(text) if text == "false" => Ok(false),
            _ => Err(self.bad()),
        }
    }

    pub(super) fn duration(&self) -> Result<Duration, InvalidValue> {
        self.text().ok().and_then(parse_duration).ok_or_else(|| self.bad())
    }

    pub(super) fn list(&self) -> Result<&[ConfigNode], InvalidValue> {
        match &self.value {
            Value::List(nodes) => Ok(nodes),
            _ => Err(self.bad()),
        }
    }

    pub(super) fn table(&self) -> Result<&[(String, ConfigNode)], InvalidValue> {
        match &self.value {
            Value::Table(entries) => Ok(entries),
            _ => Err(self.bad()),
        }
    }

    /// Parses each item of a list. An error names the item's place.
    pub(super) fn items<T>(
        &self,
        mut parse: impl FnMut(&ConfigNode) -> Result<T, InvalidValue>,
    ) -> Result<Vec<T>, InvalidValue> {
        let items = self.list()?.iter().enumerate();
        let parsed =
            items.map(|(index, item)| parse(item).map_err(|bad| bad.within(format!("[{index}]"))));
        parsed.collect()
    }

    /// Parses each entry of a table. An error names the entry's key.
    pub(super) fn entries<T>(
        &self,
        mut parse: impl FnMut(&str, &ConfigNode) -> Result<T, InvalidValue>,
    ) -> Result<Vec<T>, InvalidValue> {
        let entries = self.table()?.iter();
        let parsed = entries
            .map(|(key, value)| parse(key, value).map_err(|bad| bad.within(format!(".{key}"))));
        parsed.collect()
    }

    /// Refuses a table with other keys than these, which are separated by commas.
    pub(super) fn only_keys(&self, keys: &str) -> Result<(), InvalidValue> {
        self.entries(|key, value| match keys.split(", ").any(|known| known == key) {
            true => Ok(()),
            false => Err(value.bad_for(format!("only the keys {keys}"))),
        })?;
        Ok(())
    }

    /// Parses the value of this key, if there is one. An error names the key.
    pub(super) fn field<T>(
        &self,
        key: &str,
        parse: impl FnOnce(&ConfigNode) -> Result<T, InvalidValue>,
    ) -> Result<Option<T>, InvalidValue> {
        let found = self.table()?.iter().find(|(name, _)| name == key);
        let parsed =
            found.map(|(_, value)| parse(value).map_err(|bad| bad.within(format!(".{key}"))));
        parsed.transpose()
    }
}

impl InvalidValue {
    /// The same error, which names these values if it would name those of the setting.
    pub(super) fn or_for(self, allowed: &str) -> InvalidValue {
        match self.instead {
            Instead::OfSetting => {
                InvalidValue { instead: Instead::Allowed(allowed.into()), ..self }
            }
            _ => self,
        }
    }

    /// The same, seen from the enclosing value.
    pub(super) fn within(mut self, place: impl fmt::Display) -> InvalidValue {
        self.place = format!("{place}{}", self.place);
        self
    }
}

/// Parses a TOML document into its top-level entries.
///
/// # Errors
/// The line and the parser's message. The message doesn't quote the document, which may hold secrets.
pub(super) fn parse_document(text: &str) -> Result<Entries, (Option<usize>, String)> {
    let table = DeTable::parse(text).map_err(|error| located(&error, text))?;
    Ok(convert_table(table.into_inner(), Some(text)))
}

/// Parses one TOML value.
///
/// # Errors
/// See [`parse_document`].
pub(super) fn parse_value(text: &str) -> Result<ConfigNode, String> {
    match DeValue::parse(text) {
        Ok(value) => Ok(convert(value, None)),
        Err(error) => Err(located(&error, text).1),
    }
}

fn located(error: &toml::de::Error, text: &str) -> (Option<usize>, String) {
    let line = error.span().map(|span| line_of(text, span.start));
    (line, error.message().replace('\n', ", "))
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

fn convert(spanned: Spanned<DeValue<'_>>, text: Option<&str>) -> ConfigNode {
    let line = text.map(|text| line_of(text, spanned.span().start));
    let value = match spanned.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => {
            Value::Integer(i128::from_str_radix(number.as_str(), number.radix()).ok())
        }
        DeValue::Float(number) => Value::Other("number", number.as_str().to_owned()),
        DeValue::Boolean(truth) => Value::Boolean(truth),
        DeValue::Datetime(instant) => Value::Other("date", instant.to_string()),
        DeValue::Array(array) => {
            Value::List(array.into_iter().map(|item| convert(item, text)).collect())
        }
        DeValue::Table(table) => Value::Table(convert_table(table, text)),
    };
    ConfigNode { value, line }
}

fn convert_table(table: DeTable<'_>, text: Option<&str>) -> Entries {
    let entries = table.into_iter().map(|(key, value)| {
        let line = text.map(|text| line_of(text, key.span().start));
        let node = ConfigNode { line, ..convert(value, text) };
        (key.into_inner().into_owned(), node)
    });
    entries.collect()
}

/// Reads a whole number and a unit.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(digits_end);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit_ms).map(Duration::from_millis)
}

/// Writes a time in the largest unit that gives a whole number.
pub(super) fn show_duration(time: Duration) -> String {
    let ms = time.as_millis();
    for (unit_ms, unit) in [(3_600_000, "h"), (60_000, "m"), (1_000, "s")] {
        if ms > 0 && ms.is_multiple_of(unit_ms) {
            return format!("{}{unit}", ms / unit_ms);
        }
    }
    if ms == 0 { "0s".to_owned() } else { format!("{ms}ms") }
}

impl fmt::Display for ConfigNode {
    /// As TOML on one line, without anything that looks like a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_toml(&redact))
    }
}

fn show_key(key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(plain) { key.to_owned() } else { quoted(key) }
}

/// A basic string of TOML, with invisible characters escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\'' => quoted.push(c),
            '\n' | '\r' | '\t' => quoted.extend(c.escape_default()),
            c if c.escape_debug().len() > 1 => quoted += &format!("\\U{:08x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// For a URL of another place, or a text with a password, only the kind is shown.
pub(super) fn redact(text: &str) -> String {
    if let Some((scheme, _)) = text.split_once("://")
        && scheme != "sqlite"
    {
        return format!("{scheme}://(not shown)");
    }
    let lower = text.to_ascii_lowercase();
    let secret = ["password=", "passwd=", "pwd="].iter().any(|word| lower.contains(word));
    if secret { "(not shown)".to_owned() } else { text.to_owned() }
}
