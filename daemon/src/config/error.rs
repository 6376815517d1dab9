//! Why a configuration is refused: where the value was given, its key, the value, and what is allowed instead. Values
//! that may contain a password are not shown.

use std::fmt;
use std::path::PathBuf;

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// On the command line, under this argument.
    Argument(&'static str),
    /// In this environment variable.
    Variable(String),
    /// In the configuration file.
    File {
        /// Its name, as given.
        path: PathBuf,
        /// The line, from 1, if known.
        line: Option<usize>,
    },
    /// Nowhere: it is the default.
    Default,
}

/// Why a configuration is refused.
#[derive(Debug)]
pub struct ConfigError {
    /// Where the faulty value was given.
    pub source: Source,
    /// What is wrong with it, and what is allowed. Never a secret.
    words: String,
}

impl ConfigError {
    pub(super) fn new(source: Source, words: impl Into<String>) -> ConfigError {
        ConfigError { source, words: words.into() }
    }

    /// The error for a value that can't be used, in the setting `key` or at a place in its list or table.
    pub(super) fn of_value(source: Source, key: &str, value: &str, allowed: &str) -> ConfigError {
        ConfigError::new(source, format!("{key} can't be {value}; allowed: {allowed}"))
    }

    /// The error for a name that no setting has. `meant` is a similar name.
    pub(super) fn unknown(
        source: Source,
        name: &str,
        meant: Option<String>,
        allowed: &str,
    ) -> ConfigError {
        let question = meant.map_or(String::new(), |meant| format!(" did you mean {meant}?"));
        let words = format!("there is no setting {name:?};{question} allowed: {allowed}");
        ConfigError::new(source, words)
    }
}

impl std::error::Error for ConfigError {}

impl From<super::NotBuilt> for ConfigError {
    fn from(error: super::NotBuilt) -> ConfigError {
        ConfigError::new(Source::Default, error.to_string())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Default => f.write_str(&self.words),
            source => write!(f, "{source}: {}", self.words),
        }
    }
}

/// The name most similar to a misspelt one, if any is similar enough.
pub(super) fn most_like<'a>(
    misspelt: &str,
    names: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    /// From 0 (nothing in common) to 1 (equal). clap uses the same limit for arguments.
    const LIKENESS_MIN: f64 = 0.7;
    let misspelt = misspelt.to_ascii_lowercase().replace('-', "_");
    let likeness = names.map(|name| (strsim::jaro(&misspelt, &name.to_ascii_lowercase()), name));
    let like = likeness.filter(|(likeness, _)| *likeness > LIKENESS_MIN);
    like.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, name)| name)
}

impl Source {
    /// The same source, with the line of a part of the value.
    pub(super) fn at(&self, line_of_part: Option<usize>) -> Source {
        match self {
            Source::File { path, line } => {
                Source::File { path: path.clone(), line: line_of_part.or(*line) }
            }
            other => other.clone(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Argument(name) => write!(f, "argument {name}"),
            Source::Variable(name) => write!(f, "environment variable {name}"),
            Source::File { path, line: None } => write!(f, "file {}", path.display()),
            Source::File { path, line: Some(line) } => {
                write!(f, "file {}, line {line}", path.display())
            }
            Source::Default => f.write_str("default"),
        }
    }
}
