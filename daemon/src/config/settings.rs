//! The table of settings, which `settings.toml` holds. `leafd --help` and leafd(8) are made from it here;
//! `docs/reference/settings.md` and `systemd/leafd.toml` are made from it by the tests.

use std::fmt::{self, Write as _};
use std::sync::LazyLock;
use std::time::Duration;

use serde::Deserialize;

use super::value::{parse_duration, show_duration};

/// Text of the table, which lives as long as the program.
type Text = &'static str;

/// A setting, apart from its value.
#[derive(Debug, Deserialize)]
#[serde(try_from = "TableEntry")]
pub struct Setting {
    /// Its key in the file; see [`Setting::variable`] for the environment.
    pub key: Text,
    /// What values it takes.
    pub kind: ValueKind,
    /// The value that applies if none is given.
    pub default: Default,
    /// What it decides, in plain sentences, with keys and values between backticks.
    pub help: Text,
    /// Whether a reload (SIGHUP) activates a new value. The other settings need a restart.
    pub is_reloaded: bool,
}

/// What values a setting takes.
#[derive(Debug)]
pub enum ValueKind {
    /// Text; what is allowed, in words.
    Text(String),
    /// A whole number within these bounds, both allowed.
    Integer(u64, u64),
    /// A length of time within these bounds, both allowed.
    Time(Duration, Duration),
    /// True or false.
    Boolean,
    /// A list or table, written as TOML in the environment too; what is allowed, in words.
    Toml(String),
}

/// The value of a setting that is not given. `leafd.toml` shows an example in place of a missing default: lines of
/// TOML that can be activated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// This text, as in an environment variable.
    Is(&'static str),
    /// This empty list or table, in TOML.
    Empty {
        /// `[]` or `{}`.
        value: &'static str,
        /// An example that isn't empty.
        example: &'static str,
    },
    /// Nothing: the feature is off.
    Unset {
        /// An example of the feature switched on.
        example: &'static str,
    },
    /// Found at the start.
    Found {
        /// How it is found.
        how: &'static str,
        /// A value that may be found.
        example: &'static str,
    },
}

/// Settings that belong together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// Their topic.
    pub title: String,
    /// What they have in common, in plain sentences; may be empty.
    #[serde(default)]
    pub intro: String,
    /// In the order in which an operator needs them.
    #[serde(rename = "setting")]
    pub settings: Vec<Setting>,
}

/// A setting as the table has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableEntry {
    key: String,
    help: String,
    text: Option<String>,
    toml: Option<String>,
    integer: Option<(u64, u64)>,
    time: Option<(String, String)>,
    boolean: Option<bool>,
    default: Option<String>,
    found: Option<String>,
    example: Option<String>,
    #[serde(default)]
    reload: bool,
}

#[derive(Deserialize)]
struct Table {
    section: Vec<Section>,
}

/// Every setting.
pub static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
    let table: Table =
        toml::from_str(include_str!("settings.toml")).expect("the tests have read it");
    table.section
});

/// Every setting, in the order of [`SECTIONS`].
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().flat_map(|section| &section.settings)
}

/// The settings as plain text, for a help page.
pub fn settings_help() -> String {
    let mut out = String::new();
    for setting in settings() {
        let (key, variable) = (setting.key, setting.variable());
        let _ = writeln!(out, "{key} ({variable})\n    {}\n    {}", setting.help, setting.facts());
    }
    out
}

/// The setting with this key.
pub(super) fn by_key(key: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.key == key)
}

/// The setting with this key, which the program itself names.
pub(super) fn named(key: &str) -> &'static Setting {
    by_key(key).expect("settings.toml has every key that the program reads")
}

/// Whether a reload activates a new value of this setting.
pub fn is_reloaded(key: &str) -> bool {
    by_key(key).is_some_and(|setting| setting.is_reloaded)
}

impl TryFrom<TableEntry> for Setting {
    type Error = String;

    fn try_from(written: TableEntry) -> Result<Setting, String> {
        let TableEntry { key, text, toml, integer, time, boolean, .. } = written;
        let bound =
            |text: String| parse_duration(&text).ok_or(format!("{key}: {text} is not a time"));
        let kind = match (text, toml, integer, time, boolean) {
            (Some(words), None, None, None, None) => ValueKind::Text(words),
            (None, Some(words), None, None, None) => ValueKind::Toml(words),
            (None, None, Some((least, most)), None, None) => ValueKind::Integer(least, most),
            (None, None, None, Some((least, most)), None) => {
                ValueKind::Time(bound(least)?, bound(most)?)
            }
            (None, None, None, None, Some(true)) => ValueKind::Boolean,
            _ => return Err(format!("{key} has no kind, or several")),
        };
        let kept = |text: Option<String>| text.map(|text| &*text.leak());
        let default = (kept(written.default), kept(written.found), kept(written.example));
        let default = match default {
            (Some(value), None, None) => Default::Is(value),
            (Some(value), None, Some(example)) => Default::Empty { value, example },
            (None, None, Some(example)) => Default::Unset { example },
            (None, Some(how), Some(example)) => Default::Found { how, example },
            _ => return Err(format!("{key} has neither a default nor an example")),
        };
        let help = written.help.replace('\n', " ").leak();
        let is_reloaded = written.reload;
        Ok(Setting { key: key.leak(), kind, default, help, is_reloaded })
    }
}

impl Setting {
    /// The environment variable of this setting.
    pub fn variable(&self) -> String {
        format!("LEAFD_{}", self.key.to_ascii_uppercase())
    }

    /// Default, allowed values and what a reload does, in one line.
    pub fn facts(&self) -> String {
        let allowed = match &self.kind {
            // The introduction explains the units.
            ValueKind::Time(..) => {
                self.kind.to_string().replace(": a whole number and ms, s, m or h", "")
            }
            other => other.to_string(),
        };
        let reload = if self.is_reloaded { " A reload applies changes." } else { "" };
        format!("Default: {}. Allowed: {allowed}.{reload}", self.default)
    }
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueKind::Text(words) | ValueKind::Toml(words) => f.write_str(words),
            ValueKind::Integer(least, most) => write!(f, "a whole number from {least} to {most}"),
            ValueKind::Time(least, most) => write!(
                f,
                "a time from {} to {}: a whole number and ms, s, m or h",
                show_duration(*least),
                show_duration(*most)
            ),
            ValueKind::Boolean => f.write_str("true or false"),
        }
    }
}

impl fmt::Display for Default {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Default::Is(value) | Default::Empty { value, .. } => f.write_str(value),
            Default::Unset { .. } => f.write_str("none"),
            Default::Found { how, .. } => f.write_str(how),
        }
    }
}
