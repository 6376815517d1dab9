//! Errors, and their exit statuses.

use std::io;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The daemon refused, or the client could not reach it.
    #[error(transparent)]
    Client(#[from] leafd_client::Error),
    /// The daemon answers, but isn't ready.
    #[error("{0}")]
    NotReady(String),
    /// The doctor has reported what is wrong.
    #[error("something failed")]
    Unwell,
    /// The reader of the output has stopped reading: nothing to complain about.
    #[error("nobody reads any more")]
    Quiet,
    /// Something else, in words.
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

impl Failure {
    /// See the help text. 3 means that a script may wait and retry: only if the daemon could not be
    /// reached.
    pub fn exit_status(&self) -> u8 {
        use leafd_client::Error;
        match self {
            Failure::Client(Error::InvalidArgument { .. }) => 2,
            Failure::Client(
                Error::Connect { .. } | Error::Disconnected { .. } | Error::Timeout { .. },
            ) => 3,
            Failure::Client(_) | Failure::Unwell | Failure::Other(_) => 1,
            Failure::NotReady(_) => 4,
            Failure::Quiet => 0,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure::Quiet
        } else {
            Failure::Other(anyhow::Error::new(error).context("cannot write"))
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::Other(anyhow::Error::new(error).context("the daemon's JSON can't be read"))
    }
}
