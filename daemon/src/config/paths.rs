//! Where socket and state go when nobody says: systemd's directories, then the system's for root, then
//! the user's own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::sources::Surroundings;

pub(super) fn socket(around: &Surroundings) -> Result<String, String> {
    if let Some(dir) = from_systemd(around, "RUNTIME_DIRECTORY") {
        return utf8(dir.join("leafd.sock"));
    }
    if around.uid == 0 {
        return Ok("/run/leafd/leafd.sock".to_owned());
    }
    let base = match absolute(around, "XDG_RUNTIME_DIR") {
        Some(dir) => dir,
        None => user_state(around)?,
    };
    utf8(base.join("leafd/leafd.sock"))
}

pub(super) fn state_dir(around: &Surroundings) -> Result<String, String> {
    if let Some(dir) = from_systemd(around, "STATE_DIRECTORY") {
        return utf8(dir);
    }
    if around.uid == 0 {
        return Ok("/var/lib/leafd".to_owned());
    }
    utf8(user_state(around)?.join("leafd"))
}

/// systemd lists several directories with colons between them; the first is the unit's main one.
fn from_systemd(around: &Surroundings, name: &str) -> Option<PathBuf> {
    let first = around.variable(name)?.to_str()?.split(':').next()?;
    Path::new(first).is_absolute().then(|| PathBuf::from(first))
}

fn user_state(around: &Surroundings) -> Result<PathBuf, String> {
    if let Some(dir) = absolute(around, "XDG_STATE_HOME") {
        return Ok(dir);
    }
    absolute(around, "HOME").map(|home| home.join(".local/state")).ok_or_else(|| {
        "neither HOME nor an XDG directory is an absolute path in the environment".to_owned()
    })
}

/// The XDG rules have relative paths ignored.
fn absolute(around: &Surroundings, name: &str) -> Option<PathBuf> {
    around.variable(name).map(OsStr::to_owned).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn utf8(path: PathBuf) -> Result<String, String> {
    path.into_os_string().into_string().map_err(|_| "a directory's name is not UTF-8".to_owned())
}
