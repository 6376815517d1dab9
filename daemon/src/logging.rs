//! The log: lines on standard error, whose level can be changed while the daemon runs.

use std::io::IsTerminal;

use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::config::{LogFilter, LogFormat};

/// Changes what is logged. Clones change the same log.
#[derive(Clone, Debug)]
pub struct LogHandle(reload::Handle<EnvFilter, Registry>);

/// Why the log can't be set up or changed.
#[derive(Debug, thiserror::Error)]
#[error("the log can't be {tried}: {cause}")]
pub struct LogError {
    tried: &'static str,
    cause: String,
}

/// Sets up the process's log. Once a process, first thing after its configuration is read.
///
/// `Auto` and `Human` write for people, in colour only on a terminal and only if `NO_COLOR` is not set;
/// `Json` writes one object a line, with the event's fields beside `timestamp`, `level` and `target`.
///
/// # Errors
/// [`LogError`] when the process has a log already.
pub fn init(filter: &LogFilter, format: LogFormat) -> Result<LogHandle, LogError> {
    let (filter, handle) = reload::Layer::new(filter.to_env_filter());
    let lines = match format {
        LogFormat::Json => {
            fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).boxed()
        }
        LogFormat::Auto | LogFormat::Human => {
            fmt::layer().with_ansi(wants_colour()).with_writer(std::io::stderr).boxed()
        }
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init()
        .map_err(|cause| LogError { tried: "set up", cause: cause.to_string() })?;
    Ok(LogHandle(handle))
}

/// Colour is for eyes: a file, a pipe and the journal get none.
fn wants_colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !refused
}

impl LogHandle {
    /// Logs by another filter from now on.
    ///
    /// # Errors
    /// [`LogError`] when the log is gone.
    pub fn set(&self, filter: &LogFilter) -> Result<(), LogError> {
        self.0
            .reload(filter.to_env_filter())
            .map_err(|cause| LogError { tried: "changed", cause: cause.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Args, Config, Surroundings};

    fn filter(text: &str) -> LogFilter {
        let args = Args { set: vec![format!("log={text}")], ..Args::default() };
        Config::load_from(&args, &Surroundings::default()).unwrap().log
    }

    #[test]
    fn the_level_changes_while_running_and_the_log_is_set_up_once() {
        let handle = init(&filter("off"), LogFormat::Auto).unwrap();
        assert!(!tracing::enabled!(tracing::Level::ERROR));
        handle.set(&filter("error")).unwrap();
        assert!(tracing::enabled!(tracing::Level::ERROR));
        assert!(!tracing::enabled!(tracing::Level::INFO));
        assert!(init(&filter("off"), LogFormat::Json).is_err());
    }
}
