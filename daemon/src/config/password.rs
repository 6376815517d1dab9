//! The store's password: from a file, a systemd credential or the environment. It is never taken from an
//! argument, and never shown.

use std::fmt;
use std::path::PathBuf;

use super::env::Env;
use super::read_regular_file;

/// The source of the store's password. A file is read for each connection, so a new password needs no restart.
#[derive(Clone, PartialEq, Eq)]
pub enum StorePassword {
    /// There is none.
    None,
    /// In this file, without the line break at its end.
    File(PathBuf),
    /// In this environment variable.
    Variable(String),
}

/// This is not a setting, because settings are shown. For named stores, see [`variable_of`].
pub(super) const VARIABLE: &str = "LEAFD_STORE_PASSWORD";

/// The name of the systemd credential.
const CREDENTIAL: &str = "store_password";

/// Longer than any password. A larger file is something else.
const FILE_BYTES_MAX: u64 = 4096;

/// The environment variable of a store's password; an empty name means the only store.
pub fn variable_of(store: &str) -> String {
    if store.is_empty() {
        return VARIABLE.to_owned();
    }
    format!("{VARIABLE}_{}", store.to_ascii_uppercase().replace('-', "_"))
}

/// A store's password: in the file that a setting names, otherwise the credential, otherwise the variable.
/// An empty name means the only store.
pub(super) fn find(store: &str, file: Option<PathBuf>, env: &Env) -> StorePassword {
    if let Some(file) = file {
        return StorePassword::File(file);
    }
    let name =
        if store.is_empty() { CREDENTIAL.to_owned() } else { format!("{CREDENTIAL}_{store}") };
    if let Some(file) = env.credential(&name) {
        return StorePassword::File(file);
    }
    match env.variable(&variable_of(store)).and_then(|value| value.to_str()) {
        Some(password) => StorePassword::Variable(password.to_owned()),
        None => StorePassword::None,
    }
}

impl StorePassword {
    /// The password, if there is one.
    ///
    /// # Errors
    /// Why the file can't be read, without quotes from it.
    pub fn read(&self) -> Result<Option<String>, String> {
        let path = match self {
            StorePassword::None => return Ok(None),
            StorePassword::Variable(password) => return Ok(Some(password.clone())),
            StorePassword::File(path) => path,
        };
        let (text, _) = read_regular_file(path, FILE_BYTES_MAX).map_err(|cause| {
            format!("the password file {} can't be used: {cause}", path.display())
        })?;
        let password = text.strip_suffix('\n').unwrap_or(&text);
        Ok(Some(password.strip_suffix('\r').unwrap_or(password).to_owned()))
    }
}

impl fmt::Display for StorePassword {
    /// Shows where the password is, not what it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StorePassword::None => f.write_str("no password"),
            StorePassword::File(path) => write!(f, "password in {}", path.display()),
            StorePassword::Variable(_) => f.write_str("password in the environment"),
        }
    }
}

impl fmt::Debug for StorePassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StorePassword::None => f.write_str("None"),
            StorePassword::File(path) => f.debug_tuple("File").field(path).finish(),
            StorePassword::Variable(_) => f.write_str("Variable(not shown)"),
        }
    }
}
