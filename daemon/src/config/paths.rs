//! Finds the default paths of socket and state directory: systemd's directories, then the system's for root, then the
//! user's own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::env::Env;

pub(super) fn socket(env: &Env) -> Result<String, String> {
    if let Some(dir) = from_systemd(env, "RUNTIME_DIRECTORY") {
        return utf8(dir.join("leafd.sock"));
    }
    if env.uid == 0 {
        return Ok("/run/leafd/leafd.sock".to_owned());
    }
    let base = match absolute(env, "XDG_RUNTIME_DIR") {
        Some(dir) => dir,
        None => user_state(env)?,
    };
    utf8(base.join("leafd/leafd.sock"))
}

/// The socket's default directory, even if another socket is configured.
pub(super) fn worker_lock_dir(around: &Env) -> Result<String, String> {
    let socket = socket(around)?;
    let dir = Path::new(&socket).parent().unwrap_or(Path::new("/"));
    utf8(dir.to_owned())
}

pub(super) fn state_dir(env: &Env) -> Result<String, String> {
    if let Some(dir) = from_systemd(env, "STATE_DIRECTORY") {
        return utf8(dir);
    }
    if env.uid == 0 {
        return Ok("/var/lib/leafd".to_owned());
    }
    utf8(user_state(env)?.join("leafd"))
}

/// systemd separates several directories by colons. The first one is the unit's main one.
fn from_systemd(env: &Env, name: &str) -> Option<PathBuf> {
    let first = env.variable(name)?.to_str()?.split(':').next()?;
    Path::new(first).is_absolute().then(|| PathBuf::from(first))
}

fn user_state(env: &Env) -> Result<PathBuf, String> {
    if let Some(dir) = absolute(env, "XDG_STATE_HOME") {
        return Ok(dir);
    }
    absolute(env, "HOME")
        .map(|home| home.join(".local/state"))
        .ok_or_else(|| "neither HOME nor an XDG variable contains an absolute path".to_owned())
}

/// By the XDG rules, relative paths are ignored.
fn absolute(env: &Env, name: &str) -> Option<PathBuf> {
    env.variable(name).map(OsStr::to_owned).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn utf8(path: PathBuf) -> Result<String, String> {
    path.into_os_string().into_string().map_err(|_| "a directory's name is not UTF-8".to_owned())
}
