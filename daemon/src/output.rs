//! Prints a subcommand's result, as its last step.

use std::io::{self, Write};
use std::process::ExitCode;

/// Prints `text`. A reader that stops early (`leafd check-config | head -1`) is not an error. A full disk is an error,
/// and is reported.
pub fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("leafd: cannot write: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
