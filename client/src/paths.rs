//! The daemon's socket: its default path, and which paths are valid.

use std::env;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The system-wide daemon's socket.
const SYSTEM_SOCKET: &str = "/run/leafd/leafd.sock";

/// The longest path that a socket's address holds, without its terminating zero.
const SOCKET_PATH_BYTES_MAX: usize = 107;

const FOLDER_AND_NAME: &str = "leafd/leafd.sock";

/// The default path of the socket: this user's daemon if there is one, otherwise the system's.
///
/// 1. `$LEAFD_SOCKET`, if it is not empty;
/// 2. for root `/run/leafd/leafd.sock`, where root's daemon listens;
/// 3. the user's own, if it exists: `leafd/leafd.sock` in `$XDG_RUNTIME_DIR`, or in the state directory:
///    `$XDG_STATE_HOME`, else `~/.local/state`;
/// 4. `/run/leafd/leafd.sock`, if it exists;
/// 5. the first path of step 3, where this user's daemon would listen; without a home directory,
///    `/run/leafd/leafd.sock`.
///
/// A program that runs with more privileges than its caller (setuid) ignores all variables, because the caller sets
/// them. As the XDG base directory specification requires, `XDG_` variables that are not absolute paths are ignored.
pub fn default_socket_path() -> PathBuf {
    // SAFETY: it takes no arguments, touches no memory and can't fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    // SAFETY: it only reads what the kernel passed to this process.
    let is_secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    let variable = |name: &str| env::var_os(name).filter(|_| !is_secure).map(PathBuf::from);
    choose(variable, is_root, Path::exists)
}

fn choose(
    variable: impl Fn(&str) -> Option<PathBuf>,
    is_root: bool,
    exists: impl Fn(&Path) -> bool,
) -> PathBuf {
    if let Some(path) = variable("LEAFD_SOCKET").filter(|path| !path.as_os_str().is_empty()) {
        return path;
    }
    let system = PathBuf::from(SYSTEM_SOCKET);
    if is_root {
        return system;
    }
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    // Both are tried, because cron and su start daemons without a runtime directory.
    let own: Vec<PathBuf> = [absolute("XDG_RUNTIME_DIR"), state]
        .into_iter()
        .flatten()
        .map(|folder| folder.join(FOLDER_AND_NAME))
        .collect();
    if let Some(path) = own.iter().find(|path| exists(path)) {
        return path.clone();
    }
    if exists(&system) {
        return system;
    }
    own.into_iter().next().unwrap_or(system)
}

/// Rejects a path that no socket can have.
pub(crate) fn check_socket_path(path: &Path) -> Result<()> {
    let bytes = path.as_os_str().as_bytes();
    if !(1..=SOCKET_PATH_BYTES_MAX).contains(&bytes.len()) || bytes.contains(&0) {
        return Err(Error::invalid(format!(
            "a socket path must have 1 to {SOCKET_PATH_BYTES_MAX} bytes, none of them zero; this one has {}: {}",
            bytes.len(),
            path.display()
        )));
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ALL: [(&str, &str); 4] = [
        ("LEAFD_SOCKET", "x.sock"),
        ("XDG_RUNTIME_DIR", "/run/user/1"),
        ("XDG_STATE_HOME", "/state"),
        ("HOME", "/home/a"),
    ];
    const RUNTIME: &str = "/run/user/1/leafd/leafd.sock";
    const STATE: &str = "/state/leafd/leafd.sock";
    const HOME: &str = "/home/a/.local/state/leafd/leafd.sock";

    fn chosen(variables: &[(&str, &str)], is_root: bool, existing: &[&str]) -> PathBuf {
        let variable = |name: &str| {
            variables.iter().find(|(of, _)| *of == name).map(|(_, value)| PathBuf::from(value))
        };
        choose(variable, is_root, |path| existing.iter().any(|there| Path::new(there) == path))
    }

    fn check(variables: &[(&str, &str)], existing: &[&str], expected: &str) {
        let path = chosen(variables, false, existing);
        assert_eq!(path, Path::new(expected), "{variables:?} {existing:?}");
    }

    #[test]
    fn the_variable_wins_for_everyone() {
        check(&ALL, &[RUNTIME, SYSTEM_SOCKET], "x.sock");
        assert_eq!(chosen(&ALL, true, &[SYSTEM_SOCKET]), Path::new("x.sock"));
    }

    #[test]
    fn root_looks_where_its_daemon_listens() {
        assert_eq!(chosen(&ALL[1..], true, &[RUNTIME, STATE]), Path::new(SYSTEM_SOCKET));
    }

    #[test]
    fn a_users_own_daemon_is_found_before_the_systems() {
        check(&ALL[1..], &[RUNTIME, STATE, SYSTEM_SOCKET], RUNTIME);
        check(&ALL[1..], &[STATE, SYSTEM_SOCKET], STATE);
        check(&ALL[3..], &[HOME, SYSTEM_SOCKET], HOME);
        check(&ALL[1..], &[SYSTEM_SOCKET], SYSTEM_SOCKET);
    }

    #[test]
    fn with_no_socket_anywhere_it_is_where_the_users_daemon_would_listen() {
        check(&ALL[1..], &[], RUNTIME);
        check(&ALL[2..], &[], STATE);
        check(&ALL[3..], &[], HOME);
        check(&[], &[], SYSTEM_SOCKET);
    }

    #[test]
    fn empty_and_relative_values_count_as_unset() {
        check(&[("LEAFD_SOCKET", ""), ("HOME", "/home/a")], &[], HOME);
        check(&[("XDG_RUNTIME_DIR", "run"), ("XDG_STATE_HOME", "/state")], &[], STATE);
    }
}
