//! Parses each setting's value from the inputs, or its default, with the same parser. Reports the source of a bad
//! value, and remembers the effective values.

use std::fmt;
use std::time::Duration;

use super::error::{ConfigError, Source};
use super::settings::{Setting, ValueKind, named, settings};
use super::sources::Inputs;
use super::value::{ConfigNode, Instead, InvalidValue, Value, parse_value};

/// An effective setting.
#[derive(Clone, Debug)]
pub struct Effective {
    /// Its key.
    pub key: &'static str,
    /// Its value as TOML, without secrets; `None` when it is not set.
    pub value: Option<String>,
    /// Where the value came from.
    pub source: Source,
}

pub(super) struct Reader {
    inputs: Inputs,
    effective: Vec<Effective>,
}

impl Reader {
    pub(super) fn new(inputs: Inputs) -> Reader {
        Reader { inputs, effective: Vec::new() }
    }

    /// Where a setting was given, if it was.
    pub(super) fn source_of(&self, key: &str) -> Option<Source> {
        self.inputs.get(key).map(|(_, source)| source.clone())
    }

    /// A setting that has a default of its own.
    pub(super) fn value<T>(
        &mut self,
        key: &str,
        parse: impl FnOnce(&ConfigNode) -> Result<T, InvalidValue>,
    ) -> Result<T, ConfigError> {
        self.computed(key, || Err("the table of settings gives none".to_owned()), parse)
    }

    /// A setting whose default is determined at the start.
    pub(super) fn computed<T>(
        &mut self,
        key: &str,
        find: impl FnOnce() -> Result<String, String>,
        parse: impl FnOnce(&ConfigNode) -> Result<T, InvalidValue>,
    ) -> Result<T, ConfigError> {
        let setting = named(key);
        let given = match self.inputs.remove(&*setting.key) {
            Some(given) => given,
            None => (default_of(setting, find)?, Source::Default),
        };
        self.take(setting, given, parse)
    }

    /// A setting that may be left unset.
    pub(super) fn optional<T>(
        &mut self,
        key: &str,
        parse: impl FnOnce(&ConfigNode) -> Result<T, InvalidValue>,
    ) -> Result<Option<T>, ConfigError> {
        let setting = named(key);
        if let Some(given) = self.inputs.remove(&*setting.key) {
            return self.take(setting, given, parse).map(Some);
        }
        self.unset(key);
        Ok(None)
    }

    /// Notes that a setting has no effect.
    pub(super) fn unset(&mut self, key: &str) {
        self.effective.push(Effective {
            key: &named(key).key,
            value: None,
            source: Source::Default,
        });
    }

    /// A length of time within the setting's bounds.
    pub(super) fn duration(&mut self, key: &str) -> Result<Duration, ConfigError> {
        self.value(key, |node| {
            let time = node.duration()?;
            match named(key).kind {
                ValueKind::Time(least, most) if time < least || time > most => Err(node.bad()),
                _ => Ok(time),
            }
        })
    }

    /// A whole number within the setting's bounds.
    pub(super) fn integer(&mut self, key: &str) -> Result<u64, ConfigError> {
        let (least, most) = match named(key).kind {
            ValueKind::Integer(least, most) => (least, most),
            _ => (0, u64::MAX),
        };
        self.value(key, |node| node.integer(least, most))
    }

    /// A whole number that counts things in memory.
    pub(super) fn count(&mut self, key: &str) -> Result<usize, ConfigError> {
        Ok(usize::try_from(self.integer(key)?).unwrap_or(usize::MAX))
    }

    pub(super) fn boolean(&mut self, key: &str) -> Result<bool, ConfigError> {
        self.value(key, ConfigNode::boolean)
    }

    /// The effective settings, in the order of the table.
    pub(super) fn finish(self) -> Vec<Effective> {
        let mut effective = self.effective;
        effective.sort_by_key(|one| settings().position(|setting| setting.key == one.key));
        effective
    }

    fn take<T>(
        &mut self,
        setting: &'static Setting,
        (node, source): (ConfigNode, Source),
        parse: impl FnOnce(&ConfigNode) -> Result<T, InvalidValue>,
    ) -> Result<T, ConfigError> {
        let value = parse(&node).map_err(|bad| {
            let place = format!("{}{}", setting.key, bad.place);
            let (shown, source) = (show(setting, &bad.node), source.at(bad.node.line));
            match bad.instead {
                Instead::OfSetting => {
                    ConfigError::of_value(source, &place, &shown, &setting.kind.to_string())
                }
                Instead::Allowed(allowed) => {
                    ConfigError::of_value(source, &place, &shown, &allowed)
                }
                Instead::Because(reason) => {
                    ConfigError::new(source, format!("{place} can't be {shown}: {reason}"))
                }
            }
        })?;
        let shown = Some(show_typed(setting, &node));
        self.effective.push(Effective { key: &setting.key, value: shown, source });
        Ok(value)
    }
}

fn default_of(
    setting: &Setting,
    find: impl FnOnce() -> Result<String, String>,
) -> Result<ConfigNode, ConfigError> {
    let found = match (&setting.default, &setting.kind) {
        (Some(text), ValueKind::Toml(_)) => parse_value(text),
        (Some(text), _) => Ok(ConfigNode::bare(text)),
        (None, _) => find().map(ConfigNode::bare),
    };
    found.map_err(|cause| {
        let (key, variable) = (&setting.key, setting.variable());
        let words = format!(
            "{key} has no default in this environment: {cause}; set it with {variable} or --set {key}=VALUE"
        );
        ConfigError::new(Source::Default, words)
    })
}

/// A value for an error message. A store that isn't a local file may carry a password anywhere, especially
/// if it is misspelt. So only the scheme of such a value is shown.
fn show(setting: &Setting, node: &ConfigNode) -> String {
    if !["store", "stores"].contains(&&*setting.key) {
        return node.to_string();
    }
    match node.text() {
        Err(_) if !matches!(node.value, Value::Table(_) | Value::List(_)) => node.to_string(),
        Ok(text) if text.starts_with("sqlite:") || text.is_empty() => node.to_string(),
        Ok(text) if text.contains("://") => node.to_string(),
        _ => "this (not shown, it may hold a password)".to_owned(),
    }
}

/// A value as it would appear in the file: bare text gets its setting's type. An accepted store URL contains no
/// password.
fn show_typed(setting: &Setting, node: &ConfigNode) -> String {
    match (&setting.kind, &node.value) {
        _ if ["store", "stores"].contains(&&*setting.key) => node.to_toml(&str::to_owned),
        (ValueKind::Integer(..) | ValueKind::Boolean(_), Value::Bare(text)) => text.clone(),
        _ => show(setting, node),
    }
}

impl fmt::Display for Effective {
    /// As a line of a TOML file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{} = {value}  # {}", self.key, self.source),
            None => write!(f, "# {} is not set", self.key),
        }
    }
}
