//! Prints the version and the origin of the build.

use std::process::ExitCode;

use crate::config::FEATURES;
use crate::output;

/// Prints the version. With `verbose`, also prints everything needed to reproduce the build.
pub fn print(verbose: bool) -> ExitCode {
    let mut text = concat!("leafd ", env!("CARGO_PKG_VERSION"), "\n").to_owned();
    if verbose {
        text.push_str(&origin());
    }
    output::print(&text)
}

/// The origin of the build, with one fact per line.
fn origin() -> String {
    let enabled: Vec<&str> =
        FEATURES.into_iter().filter_map(|(name, enabled)| enabled.then_some(name)).collect();
    let lines = [
        // release/build sets it. Other builds may contain uncommitted changes.
        ("commit", option_env!("LEAFD_COMMIT").unwrap_or("unknown: not built by release/build")),
        ("toolchain", env!("LEAFD_TOOLCHAIN")),
        ("target", env!("LEAFD_TARGET")),
        ("features", &enabled.join(" ")),
        ("sqlite", rusqlite::version()),
    ];
    lines.into_iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
}
