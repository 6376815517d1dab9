//! The log: lines on standard error, whose level can be changed while the daemon runs. If standard error is
//! systemd's journal, each line begins with its priority; the journal strips and stores it.

use std::fmt::Result as Written;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, format};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

use crate::config::LogFormat;
use crate::recent;

/// Changes what is logged. Clones change the same log.
#[derive(Clone, Debug)]
pub struct LogHandle(reload::Handle<Targets, Registry>);

/// Why the log can't be set up or changed.
#[derive(Debug, thiserror::Error)]
#[error("the log can't be {tried}: {cause}")]
pub struct LogError {
    tried: &'static str,
    cause: String,
}

/// Sets up the process's log. Call it once, right after the configuration is read.
///
/// `Auto` and `Human` write for people. They use colour only on a terminal, and only if `NO_COLOR` is not set.
/// `Auto` leaves the time and the level to systemd's journal. `Json` writes one object per line, with the
/// event's fields beside `timestamp`, `level` and `target`.
///
/// # Errors
/// [`LogError`] when the process has a log already.
pub fn init(filter: &Targets, format_wanted: LogFormat) -> Result<LogHandle, LogError> {
    let (filter, handle) = reload::Layer::new(filter.clone());
    let journal = is_journal(std::io::stderr());
    let human = format().with_ansi(wants_colour());
    let lines = fmt::layer().with_ansi(wants_colour()).with_writer(std::io::stderr);
    let lines = match (format_wanted, journal) {
        (LogFormat::Json, _) => {
            let json = format().json().flatten_event(true);
            lines
                .fmt_fields(format::JsonFields::new())
                .event_format(Prioritised { journal, inner: json })
                .boxed()
        }
        (LogFormat::Auto, true) => {
            let inner = human.without_time().with_level(false);
            lines.event_format(Prioritised { journal, inner }).boxed()
        }
        (LogFormat::Auto | LogFormat::Human, _) => {
            lines.event_format(Prioritised { journal, inner: human }).boxed()
        }
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .with(recent::Layer)
        .try_init()
        .map_err(|cause| LogError { tried: "set up", cause: cause.to_string() })?;
    Ok(LogHandle(handle))
}

/// Only a terminal gets colour, not a file, pipe or journal.
fn wants_colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !refused
}

/// Whether systemd's journal reads the stream.
pub fn is_journal(stream: impl AsFd) -> bool {
    let Some(journal) = std::env::var_os("JOURNAL_STREAM") else { return false };
    // The variable outlives a redirection, so it contains device and inode.
    nix::sys::stat::fstat(stream)
        .is_ok_and(|found| journal == *format!("{}:{}", found.st_dev, found.st_ino))
}

/// The prefix of an error that is written to standard error without the log.
pub fn error_prefix() -> &'static str {
    if is_journal(std::io::stderr()) { priority(&Level::ERROR) } else { "" }
}

/// Lines for the journal: the priority, then the usual line.
struct Prioritised<F> {
    journal: bool,
    inner: F,
}

/// As defined in `sd-daemon(3)`.
fn priority(level: &Level) -> &'static str {
    match *level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    }
}

impl<S, N, F> FormatEvent<S, N> for Prioritised<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> Written {
        if self.journal {
            writer.write_str(priority(event.metadata().level()))?;
        }
        self.inner.format_event(context, writer, event)
    }
}

impl LogHandle {
    /// Replaces the log's filter.
    ///
    /// # Errors
    /// [`LogError`] if the log no longer exists.
    pub fn set(&self, filter: &Targets) -> Result<(), LogError> {
        self.0
            .reload(filter.clone())
            .map_err(|cause| LogError { tried: "changed", cause: cause.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Args, Config, Env};

    fn filter(text: &str) -> Targets {
        let args = Args { set: vec![format!("log={text}")], ..Args::default() };
        Config::load_from(&args, &Env::default()).unwrap().log
    }

    #[test]
    fn the_level_changes_while_running_and_the_log_is_set_up_once() {
        let handle = init(&filter("off"), LogFormat::Auto).unwrap();
        assert!(!tracing::enabled!(tracing::Level::ERROR));
        handle.set(&filter("error")).unwrap();
        assert!(tracing::enabled!(tracing::Level::ERROR));
        assert!(!tracing::enabled!(tracing::Level::INFO));
        // The warnings of ZooKeeper's client during an outage would fill the log.
        let client_warns =
            || tracing::enabled!(target: "zookeeper_client::session", tracing::Level::WARN);
        handle.set(&filter("debug")).unwrap();
        assert!(tracing::enabled!(tracing::Level::DEBUG) && !client_warns());
        handle.set(&filter("info,zookeeper_client=info")).unwrap();
        assert!(client_warns());
        assert!(init(&filter("off"), LogFormat::Json).is_err());
    }
}
