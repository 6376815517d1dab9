//! Why a configuration is refused: where the value was given, which key, which value, and what is
//! allowed instead. Values that may hold a password are not shown.

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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The configuration file can't be read.
    #[error("the configuration file {path} (named by {source_}) can't be read: {cause}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What named it.
        source_: Source,
        /// What happened.
        cause: String,
    },
    /// The configuration file is not TOML.
    #[error("{source_}: this is not TOML: {cause}")]
    Syntax {
        /// Where.
        source_: Source,
        /// The parser's message, without quotes from the file.
        cause: String,
    },
    /// No setting has this name.
    #[error("{source_}: there is no setting {key:?};{} allowed: {allowed}", question(meant.as_deref()))]
    UnknownKey {
        /// Where it was given.
        source_: Source,
        /// The name.
        key: String,
        /// A similar name, if there is one.
        meant: Option<String>,
        /// All names.
        allowed: String,
    },
    /// A setting is given twice at the same level.
    #[error("{source_}: {key} is given twice, also as {other}; leave one of them out")]
    Twice {
        /// Where the second one was given.
        source_: Source,
        /// The setting.
        key: String,
        /// Where the first one was given.
        other: Source,
    },
    /// Two settings contradict each other.
    #[error(
        "{source_}: {key} can't be given together with {other_key} ({other}); leave one of them out"
    )]
    Together {
        /// Where the first one was given.
        source_: Source,
        /// The first setting.
        key: &'static str,
        /// The second setting.
        other_key: &'static str,
        /// Where that was given.
        other: Source,
    },
    /// The value can't be used.
    #[error("{source_}: {key} can't be {value}; allowed: {allowed}")]
    Value {
        /// Where it was given.
        source_: Source,
        /// The setting, and the place in its list or table.
        key: String,
        /// The value, without secrets.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// This program was built without it.
    #[error(transparent)]
    NotBuilt(#[from] super::NotBuilt),
    /// No default can be found.
    #[error(
        "{key} has no default in this environment: {cause}; set it with {variable} or --set {key}=VALUE"
    )]
    NoDefault {
        /// The setting.
        key: &'static str,
        /// Its variable.
        variable: String,
        /// What is missing.
        cause: String,
    },
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

fn question(meant: Option<&str>) -> String {
    meant.map_or(String::new(), |meant| format!(" did you mean {meant}?"))
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
