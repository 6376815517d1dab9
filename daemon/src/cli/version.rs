//! The version and the origin of the build.

use crate::config::FEATURES;

/// The version, and everything needed to reproduce the build, with one fact per line.
pub fn with_origin() -> &'static str {
    let enabled: Vec<&str> =
        FEATURES.into_iter().filter_map(|(name, enabled)| enabled.then_some(name)).collect();
    let text = format!(
        "{}\ncommit: {}\ntoolchain: {}\ntarget: {}\nfeatures: {}\nsqlite: {}",
        env!("CARGO_PKG_VERSION"),
        // release/build sets it. Other builds may contain uncommitted changes.
        option_env!("LEAFD_COMMIT").unwrap_or("unknown: not built by release/build"),
        env!("LEAFD_TOOLCHAIN"),
        env!("LEAFD_TARGET"),
        enabled.join(" "),
        rusqlite::version(),
    );
    text.leak()
}
