//! Settings with a type of their own, and their parsers.

use std::path::PathBuf;

use tracing_subscriber::filter::{ParseError, Targets};

use super::value::{ConfigNode, InvalidValue};

/// A group of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketGroup {
    /// Its number.
    pub gid: u32,
    /// As the operator wrote it.
    pub name: String,
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Human, with colour on a terminal.
    Auto,
    /// For people, with colour on a terminal.
    Human,
    /// One JSON object a line.
    Json,
}

/// The maximum length of a socket's path in bytes: `sun_path` without its final NUL.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// While its ensemble is unavailable, ZooKeeper's client would log several warnings a second. The code that needs the
/// ensemble logs the consequences.
const QUIET: &str = "zookeeper_client=error";

/// Longest identity.
const IDENTITY_CHARACTERS_MAX: usize = 128;

pub(super) fn path(node: &ConfigNode) -> Result<PathBuf, InvalidValue> {
    let text = node.text()?;
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(node.bad());
    }
    Ok(PathBuf::from(text))
}

pub(super) fn socket(node: &ConfigNode) -> Result<PathBuf, InvalidValue> {
    let path = path(node)?;
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX || path.file_name().is_none() {
        return Err(node.bad());
    }
    Ok(path)
}

pub(super) fn mode(node: &ConfigNode) -> Result<u32, InvalidValue> {
    let text = node.text()?;
    let octal =
        matches!(text.len(), 3 | 4) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let mode = u32::from_str_radix(text, 8).ok().filter(|_| octal);
    mode.filter(|mode| *mode <= 0o777 && mode & 0o600 == 0o600).ok_or_else(|| node.bad())
}

pub(super) fn group(node: &ConfigNode) -> Result<SocketGroup, InvalidValue> {
    let text = node.text()?;
    if let Ok(gid) = text.parse() {
        return Ok(SocketGroup { gid, name: text.to_owned() });
    }
    match nix::unistd::Group::from_name(text) {
        Ok(Some(group)) => Ok(SocketGroup { gid: group.gid.as_raw(), name: text.to_owned() }),
        Ok(None) => Err(node.bad()),
        Err(cause) => {
            Err(node.bad_for(format!("a group of this host; looking it up failed: {cause}")))
        }
    }
}

pub(super) fn identity(node: &ConfigNode) -> Result<String, InvalidValue> {
    let text = node.text()?;
    let fits = (1..=IDENTITY_CHARACTERS_MAX).contains(&text.chars().count());
    if !fits || text.chars().any(char::is_control) {
        return Err(node.bad());
    }
    Ok(text.to_owned())
}

/// The log filter, in the syntax of [`Targets`].
pub(super) fn log(node: &ConfigNode) -> Result<Targets, InvalidValue> {
    let text = node.text()?;
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    let directives: Vec<&str> = text.split(',').map(str::trim).collect();
    for directive in &directives {
        // A single word that is not a level would count as a module's name, so a misspelt level would silence
        // everything.
        let lone = !directive.contains(['=', ':']);
        let level = levels.contains(&directive.to_ascii_lowercase().as_str());
        if lone && !level || directive.contains('[') {
            return Err(node.bad());
        }
    }
    let text = match directives.join(",") {
        off if off == "off" => off,
        // The last directive for a module applies.
        text => format!("{QUIET},{text}"),
    };
    text.parse().map_err(|cause: ParseError| {
        node.bad_for(format!("levels, or MODULE=LEVEL, between commas ({cause})"))
    })
}

pub(super) fn log_format(node: &ConfigNode) -> Result<LogFormat, InvalidValue> {
    match node.text()? {
        "auto" => Ok(LogFormat::Auto),
        "human" => Ok(LogFormat::Human),
        "json" => Ok(LogFormat::Json),
        _ => Err(node.bad()),
    }
}
