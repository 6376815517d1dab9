//! Generates `docs/reference/settings.md` and `systemd/leafd.toml` from the table of settings.

use std::fmt::Write as _;

use crate::config::settings::{SECTIONS, Section, Setting, ValueKind};

/// How settings are given, in plain sentences.
const INTRODUCTION: [&str; 4] = [
    "leafd reads the configuration file named by `--config FILE` or by the variable `LEAFD_CONFIG`. There is no default \
     file.",
    "Each setting has one key, which is its name in the TOML file. Its environment variable is `LEAFD_` and the key in \
     capitals, such as `LEAFD_AUTONOMY`. On the command line, use `--set KEY=VALUE`; `--socket`, `--state-dir`, \
     `--store` and `--worker` are short forms. Arguments override the environment, which overrides the file. Unknown \
     keys are rejected.",
    "`leafd check-config` checks the configuration and prints each setting with its value and source. leafd doesn't \
     start with an invalid value: the error names the source, the key and the value, and what is allowed or why not.",
    "Times consist of a whole number and a unit: ms, s, m or h. `systemctl reload leafd` (SIGHUP) applies changes to \
     settings that are marked as such; the others need a restart.",
];

/// Longest line of the configuration file.
const FILE_COLUMNS: usize = 110;

/// Lines of TOML that show the setting: its example, otherwise its default.
fn example(setting: &Setting) -> String {
    let Setting { key, kind, default, example, .. } = setting;
    match (example, default, kind) {
        (Some(example), ..) => example.clone(),
        (None, Some(value), ValueKind::Text(_) | ValueKind::Time(..)) => {
            format!("{key} = \"{value}\"")
        }
        (None, Some(value), _) => format!("{key} = {value}"),
        (None, None, _) => panic!("{key} has neither a default nor an example"),
    }
}

/// The settings as a page of Markdown, with a heading for each.
pub(super) fn settings_markdown() -> String {
    let mut out = String::from(
        "# Settings\n\n<!-- Generated from daemon/src/config/settings.toml; see ARCHITECTURE.md. -->\n",
    );
    for paragraph in INTRODUCTION {
        let _ = write!(out, "\n{paragraph}\n");
    }
    let sections = SECTIONS.iter().map(|section| {
        let keys = section.settings.iter().map(|Setting { key, .. }| format!("[`{key}`](#{key})"));
        format!("| {} | {} |\n", section.title, keys.collect::<Vec<_>>().join(", "))
    });
    let _ = write!(out, "\n| about | settings |\n|---|---|\n{}", sections.collect::<String>());
    for Section { title, intro, settings } in &*SECTIONS {
        let _ = write!(out, "\n## {title}\n");
        if !intro.is_empty() {
            let _ = write!(out, "\n{intro}\n");
        }
        for setting in settings {
            let Setting { key, help, .. } = setting;
            let facts = setting.facts().replace('<', "\\<").replace('*', "\\*");
            let _ = write!(out, "\n### `{key}`\n\n{help}\n\n{facts}\n");
            if setting.example.is_some() {
                let _ = write!(out, "\n```toml\n{}\n```\n", example(setting));
            }
        }
    }
    out
}

/// A configuration file that names every setting and changes none.
pub(super) fn settings_file() -> String {
    let mut out = String::from(
        "# leafd's configuration: every setting with its default, or with an example.\n",
    );
    comment(&mut out, "To use a setting, remove the # before its lines.");
    for paragraph in INTRODUCTION {
        out.push_str("#\n");
        comment(&mut out, paragraph);
    }
    for Section { title, intro, settings } in &*SECTIONS {
        let _ = write!(out, "\n# --- {title} ---\n");
        comment(&mut out, intro);
        for setting in settings {
            out.push('\n');
            comment(&mut out, &setting.help);
            comment(&mut out, &setting.facts());
            for line in example(setting).lines() {
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
