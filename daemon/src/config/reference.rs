//! Texts about the settings, made from their table: `leafd --help`, `docs/reference/settings.md` and
//! `systemd/leafd.toml`. The manual page leafd.toml(5) is made from the same parts.

use std::fmt::Write as _;

use super::settings::{Default, Kind, SECTIONS, Section, Setting, settings};

/// How settings are given, in plain sentences.
pub const INTRODUCTION: [&str; 4] = [
    "The argument `--config FILE`, or the variable `LEAFD_CONFIG`, names the configuration file. Without either there \
     is none.",
    "Each setting has one key. In the TOML file it stands under this key. In the environment it is `LEAFD_` and the \
     key in capitals, such as `LEAFD_AUTONOMY`. On the command line it is `--set KEY=VALUE`; `--socket`, \
     `--state-dir`, `--store` and `--worker` are short forms. An argument beats the environment, and the environment \
     beats the file. A key that doesn't exist is refused.",
    "`leafd check-config` checks the configuration and prints every setting with its value and where that came from. A \
     value that can't be used is refused at the start: the error names the place, the key, the value and what is \
     allowed.",
    "Times are a whole number and a unit: ms, s, m or h. A reload is SIGHUP, or `systemctl reload leafd`; settings \
     without a note about it need a restart.",
];

/// Longest line of the configuration file.
const FILE_COLUMNS: usize = 110;

impl Setting {
    /// Default, allowed values and what a reload does, in one line.
    #[must_use]
    pub fn facts(&self) -> String {
        let allowed = match &self.kind {
            // The introduction explains the units.
            Kind::Time(..) => {
                self.kind.to_string().replace(": a whole number and ms, s, m or h", "")
            }
            other => other.to_string(),
        };
        let reload = if self.is_reloaded() { " A reload puts a change in force." } else { "" };
        format!("Default: {}. Allowed: {allowed}.{reload}", self.default)
    }

    /// Lines of TOML that show the setting: its default, otherwise an example.
    #[must_use]
    pub fn example(&self) -> String {
        match self.default {
            Default::Is(value) => match self.kind {
                Kind::Text(_) | Kind::Time(..) => format!("{} = \"{value}\"", self.key),
                Kind::Integer(..) | Kind::Boolean | Kind::Toml(_) => {
                    format!("{} = {value}", self.key)
                }
            },
            Default::Empty { example, .. }
            | Default::Unset { example }
            | Default::Found { example, .. } => example.to_owned(),
        }
    }

    /// Whether [`Setting::example`] differs from the default.
    #[must_use]
    pub fn has_example(&self) -> bool {
        !matches!(self.default, Default::Is(_))
    }
}

/// The settings as plain text, for a help page.
#[must_use]
pub fn settings_help() -> String {
    let mut out = String::new();
    for setting in settings() {
        let (key, variable) = (setting.key, setting.variable());
        let _ = writeln!(out, "{key} ({variable})\n    {}\n    {}", setting.help, setting.facts());
    }
    out
}

/// The settings as a page of Markdown, with a heading for each.
#[must_use]
pub fn settings_markdown() -> String {
    let mut out = String::from(
        "# Settings\n\n<!-- Made from the table in daemon/src/config/settings; ARCHITECTURE.md says how. -->\n",
    );
    for paragraph in INTRODUCTION {
        let _ = write!(out, "\n{paragraph}\n");
    }
    let sections = SECTIONS.iter().map(|section| {
        let keys = section.settings.iter().map(|Setting { key, .. }| format!("[`{key}`](#{key})"));
        format!("| {} | {} |\n", section.title, keys.collect::<Vec<_>>().join(", "))
    });
    let _ = write!(out, "\n| about | settings |\n|---|---|\n{}", sections.collect::<String>());
    for Section { title, intro, settings } in SECTIONS {
        let _ = write!(out, "\n## {title}\n");
        if !intro.is_empty() {
            let _ = write!(out, "\n{intro}\n");
        }
        for setting in *settings {
            let Setting { key, help, .. } = setting;
            let facts = setting.facts().replace('<', "\\<").replace('*', "\\*");
            let _ = write!(out, "\n### `{key}`\n\n{help}\n\n{facts}\n");
            if setting.has_example() {
                let _ = write!(out, "\n```toml\n{}\n```\n", setting.example());
            }
        }
    }
    out
}

/// A configuration file that names every setting and changes none.
#[must_use]
pub fn settings_file() -> String {
    let mut out = String::from(
        "# leafd's configuration: every setting with its default, or with an example.\n",
    );
    comment(&mut out, "A setting is in force when its lines have no # before them.");
    for paragraph in INTRODUCTION {
        out.push_str("#\n");
        comment(&mut out, paragraph);
    }
    for Section { title, intro, settings } in SECTIONS {
        let _ = write!(out, "\n# --- {title} ---\n");
        comment(&mut out, intro);
        for setting in *settings {
            out.push('\n');
            comment(&mut out, setting.help);
            comment(&mut out, &setting.facts());
            for line in setting.example().lines() {
                let _ = writeln!(out, "#{line}");
            }
        }
    }
    out
}

/// Adds a text as comments of a TOML file, in lines of at most [`FILE_COLUMNS`].
fn comment(out: &mut String, text: &str) {
    let mut line = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !line.is_empty() && line.len() + " ".len() + word.len() > FILE_COLUMNS - "# ".len() {
            let _ = writeln!(out, "# {line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        let _ = writeln!(out, "# {line}");
    }
}
