//! The inputs of the configuration from the process's environment: variables, its user and the host's name.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The process's surroundings.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// The environment.
    pub variables: BTreeMap<OsString, OsString>,
    /// The effective user.
    pub uid: u32,
    /// The host's name.
    pub host: String,
    /// Whether the environment may have passwords of stores that only another configuration names.
    pub has_other_passwords: bool,
}

impl Env {
    /// The surroundings of this process.
    pub fn of_this_process() -> Env {
        Env {
            variables: std::env::vars_os().collect(),
            uid: nix::unistd::geteuid().as_raw(),
            // A host without a usable name is identified by other means.
            host: nix::unistd::gethostname()
                .ok()
                .and_then(|name| name.into_string().ok())
                .unwrap_or_default(),
            has_other_passwords: false,
        }
    }

    /// The file of a systemd credential, if there is one of this name.
    pub(super) fn credential(&self, name: &str) -> Option<PathBuf> {
        let file = PathBuf::from(self.variable("CREDENTIALS_DIRECTORY")?).join(name);
        file.exists().then_some(file)
    }

    /// A variable that is set and not empty.
    pub(super) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|v| !v.is_empty())
    }
}
