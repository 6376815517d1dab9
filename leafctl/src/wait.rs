//! `leafctl wait`: for programs that start after the daemon, and for scripts that stop it after its
//! clients.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use leafd_client::Client;

use crate::failure::CommandError;
use crate::request;

/// Arguments of `leafctl wait`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status: 0 the daemon is in that state; 3 it doesn't answer; 4 other processes are connected.

Examples:
  leafctl wait answering                   before starting a program that needs ids
  leafctl wait unused --within-ms 20000    before stopping the daemon")]
pub struct WaitArgs {
    /// The state to wait for
    #[arg(value_enum)]
    what: What,
    /// The maximum wait, in milliseconds
    #[arg(long, default_value_t = 60_000, value_name = "MS")]
    within_ms: u64,
}

/// A state of the daemon.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// The daemon answers
    Answering,
    /// No other process is connected (for administrators only)
    Unused,
}

/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(20);

/// How long one check may wait for an answer.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Waits.
pub fn run(socket: &Path, args: &WaitArgs) -> Result<(), CommandError> {
    let begun = Instant::now();
    let limit = Duration::from_millis(args.within_ms);
    loop {
        let left = limit.saturating_sub(begun.elapsed());
        // This creates a new client each time, because a client that has never reached the daemon doesn't wait for it.
        let client =
            Client::builder().socket(socket).deadline(left.clamp(PAUSE, LOOK_MAX)).build()?;
        let looked = match args.what {
            What::Answering => client.info().map(drop).map_err(CommandError::from),
            What::Unused => unused(&client),
        };
        match looked {
            Err(failure) if may_pass(args.what, &failure) && begun.elapsed() < limit => {
                std::thread::sleep(PAUSE.min(left));
            }
            outcome => return outcome,
        }
    }
}

/// Whether a later check may succeed.
fn may_pass(what: What, failure: &CommandError) -> bool {
    match (what, failure) {
        (What::Answering, CommandError::Client(error)) => error.is_retryable(),
        (What::Unused, CommandError::NotReady(_)) => true,
        _ => false,
    }
}

fn unused(client: &Client) -> Result<(), CommandError> {
    let status = request::status(client)?;
    // One of the connections is this one, so the count is never 0.
    let Some(others) = status.counters.connections.checked_sub(1) else {
        let words = "only administrators can see connections: root, the daemon's own user, admin_uids and admin_gids";
        return Err(anyhow!(words).into());
    };
    match others {
        0 => Ok(()),
        others => {
            Err(CommandError::NotReady(format!("other connections that are still open: {others}")))
        }
    }
}
