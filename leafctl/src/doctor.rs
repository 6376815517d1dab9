//! `leafctl doctor`: checks what a client can see of the daemon's health.

use std::io::{self, Write as _};
use std::path::Path;

use leafd_checkup::{Expected, Report, check_daemon};

use crate::failure::CommandError;

/// Arguments of `leafctl doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each check reports ok, warning or failed, and each problem is followed by its remedy. leafd doctor
also checks stores, privileges, the clock and the state directory, even if no daemon is running.

Exit status: 0 no check failed, 1 a check failed.")]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the checks and prints the findings.
pub fn run(socket: &Path, args: &DoctorArgs) -> Result<(), CommandError> {
    let mut report = Report::default();
    let expected =
        Expected { release: env!("CARGO_PKG_VERSION"), running: true, mode: None, gid: None };
    check_daemon(&mut report, socket, expected);
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", report.json())?;
    } else {
        write!(out, "{}", report.text())?;
        writeln!(
            out,
            "To check the stores, clock and state directory too, run leafd doctor as the daemon's user and with its configuration."
        )?;
    }
    out.flush()?;
    if report.has_failed() { Err(CommandError::Reported(1)) } else { Ok(()) }
}
