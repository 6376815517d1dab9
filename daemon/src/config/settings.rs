//! The table of settings, which is in `settings.toml`. `leafd --help` and leafd(8) are generated from it here; the
//! tests generate `docs/reference/settings.md` and `systemd/leafd.toml` from it.

use std::fmt::{self, Write as _};
use std::sync::LazyLock;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::value::{parse_duration, show_duration};

/// A setting, apart from its value.
#[derive(Debug, Deserialize)]
pub struct Setting {
    /// Its key in the file; see [`Setting::variable`] for the environment.
    pub key: String,
    /// The values that it accepts.
    #[serde(flatten)]
    pub kind: ValueKind,
    /// The value that applies if none is given, as in an environment variable. Without it, the setting is unset, or its
    /// value is determined at the start.
    pub default: Option<String>,
    /// How the value is determined at the start, in words.
    pub found: Option<String>,
    /// Lines of TOML that can be activated, in place of a missing or empty default.
    pub example: Option<String>,
    /// What it decides, in plain sentences, with keys and values between backticks.
    #[serde(deserialize_with = "in_one_line")]
    pub help: String,
    /// Whether a reload (SIGHUP) activates a new value. The other settings need a restart.
    #[serde(default, rename = "reload")]
    pub is_reloaded: bool,
}

/// The values that a setting accepts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueKind {
    /// Text; what is allowed, in words.
    Text(String),
    /// A whole number within these bounds, both allowed.
    Integer(u64, u64),
    /// A length of time within these bounds, both allowed.
    Time(
        #[serde(deserialize_with = "time")] Duration,
        #[serde(deserialize_with = "time")] Duration,
    ),
    /// True or false.
    Boolean(bool),
    /// A list or table, written as TOML in the environment too; what is allowed, in words.
    Toml(String),
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
        let (key, variable) = (&setting.key, setting.variable());
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

fn time<'de, D: Deserializer<'de>>(written: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(written)?).ok_or_else(|| D::Error::custom("not a time"))
}

fn in_one_line<'de, D: Deserializer<'de>>(written: D) -> Result<String, D::Error> {
    Ok(String::deserialize(written)?.replace('\n', " "))
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
        let default = self.default.as_deref().or(self.found.as_deref()).unwrap_or("none");
        format!("Default: {default}. Allowed: {allowed}.{reload}")
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
            ValueKind::Boolean(_) => f.write_str("true or false"),
        }
    }
}
