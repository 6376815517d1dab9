//! What a subcommand prints, last thing that it does.

use std::io::{self, Write};
use std::process::ExitCode;

/// Prints `text`. Whoever has read enough of it (`leafd check-config | head -1`) is no failure; a disk that is
/// full is one, told in words.
#[must_use]
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
