//! Errors, and their exit statuses.

use std::io;

use leafd_client::Status;

/// The daemon answers, but is not in the requested state.
pub const NOT_READY: u8 = 4;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The daemon refused, or the client could not reach it.
    #[error(transparent)]
    Client(#[from] leafd_client::Error),
    /// The daemon answers, but isn't ready.
    #[error("{0}")]
    NotReady(String),
    /// The problem has already been printed; only the exit status remains.
    #[error("something failed")]
    Reported(u8),
    /// The reader of the output has stopped reading, which is not an error.
    #[error("the reader has closed the output")]
    Quiet,
    /// Any other error.
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

impl CommandError {
    /// The help text lists the statuses. 3 is returned only if the daemon could not be reached: a script may then wait
    /// and retry.
    pub fn exit_status(&self) -> u8 {
        use leafd_client::Error;
        match self {
            CommandError::Client(Error::InvalidArgument { .. }) => 2,
            CommandError::Client(
                Error::Connect { .. } | Error::Disconnected { .. } | Error::Timeout { .. },
            ) => 3,
            CommandError::Client(_) | CommandError::Other(_) => 1,
            CommandError::NotReady(_) => NOT_READY,
            CommandError::Reported(status) => *status,
            CommandError::Quiet => 0,
        }
    }

    /// Whether the daemon doesn't know the tag.
    pub fn is_unknown_tag(&self) -> bool {
        matches!(self, CommandError::Client(error) if error.status() == Some(Status::TagUnknown))
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            CommandError::Quiet
        } else {
            CommandError::Other(anyhow::Error::new(error).context("can't write the output"))
        }
    }
}

impl From<serde_json::Error> for CommandError {
    fn from(error: serde_json::Error) -> Self {
        CommandError::Other(anyhow::Error::new(error).context("can't parse the daemon's JSON"))
    }
}
