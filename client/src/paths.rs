//! Where the daemon's socket is when nobody says.

use std::env;
use std::path::{Path, PathBuf};

/// The system-wide daemon's socket.
const SYSTEM_SOCKET: &str = "/run/leafd/leafd.sock";

const FOLDER_AND_NAME: &str = "leafd/leafd.sock";

/// The path of the socket that clients use, and the daemon binds, unless told otherwise.
///
/// The first of these that there is:
/// 1. `$LEAFD_SOCKET`, if not empty;
/// 2. `/run/leafd/leafd.sock`, if that exists;
/// 3. `$XDG_RUNTIME_DIR/leafd/leafd.sock`, if the variable is set;
/// 4. `leafd/leafd.sock` in the state folder: `$XDG_STATE_HOME`, else `~/.local/state`;
/// 5. `/run/leafd/leafd.sock`, if there is no home either.
///
/// As the base directory specification has it, `XDG_` variables that are not absolute paths count
/// as unset.
#[must_use]
pub fn default_socket_path() -> PathBuf {
    choose(|name| env::var_os(name).map(PathBuf::from), Path::new(SYSTEM_SOCKET).exists())
}

fn choose(variable: impl Fn(&str) -> Option<PathBuf>, system_exists: bool) -> PathBuf {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    if let Some(path) = variable("LEAFD_SOCKET").filter(|path| !path.as_os_str().is_empty()) {
        return path;
    }
    if system_exists {
        return SYSTEM_SOCKET.into();
    }
    absolute("XDG_RUNTIME_DIR")
        .or_else(|| absolute("XDG_STATE_HOME"))
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map_or_else(|| SYSTEM_SOCKET.into(), |folder| folder.join(FOLDER_AND_NAME))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], system_exists: bool, expected: &str) {
        let variable = |name: &str| {
            variables.iter().find(|(of, _)| *of == name).map(|(_, value)| PathBuf::from(value))
        };
        assert_eq!(choose(variable, system_exists), Path::new(expected), "{variables:?}");
    }

    #[test]
    fn the_first_place_that_there_is_wins() {
        let all = [
            ("LEAFD_SOCKET", "x.sock"),
            ("XDG_RUNTIME_DIR", "/run/user/1"),
            ("XDG_STATE_HOME", "/state"),
            ("HOME", "/home/a"),
        ];
        check(&all, true, "x.sock");
        check(&all[1..], true, "/run/leafd/leafd.sock");
        check(&all[1..], false, "/run/user/1/leafd/leafd.sock");
        check(&all[2..], false, "/state/leafd/leafd.sock");
        check(&all[3..], false, "/home/a/.local/state/leafd/leafd.sock");
        check(&[], false, "/run/leafd/leafd.sock");
    }

    #[test]
    fn empty_and_relative_values_count_as_unset() {
        check(&[("LEAFD_SOCKET", ""), ("HOME", "/h")], false, "/h/.local/state/leafd/leafd.sock");
        check(
            &[("XDG_RUNTIME_DIR", "run"), ("XDG_STATE_HOME", "/s")],
            false,
            "/s/leafd/leafd.sock",
        );
    }
}
