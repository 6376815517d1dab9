//! The store's password: from a file, a systemd credential or the environment, never from an argument, and
//! never shown.

use std::fmt;
use std::path::PathBuf;

use super::env::Env;

/// Where the store's password is found. Files are read at each connection, so that a new password needs no
/// restart.
#[derive(Clone, PartialEq, Eq)]
pub enum StorePassword {
    /// There is none.
    None,
    /// In this file, less the line's end.
    File(PathBuf),
    /// In the environment.
    Variable(String),
}

/// Not a setting, because settings are shown. For a named store see [`variable_of`].
pub(super) const VARIABLE: &str = "LEAFD_STORE_PASSWORD";

/// The name of the systemd credential.
const CREDENTIAL: &str = "store_password";

/// Longer than any password; a larger file is something else.
const FILE_BYTES_MAX: usize = 4096;

/// The variable of a store's password; an empty name stands for the sole store.
#[must_use]
pub fn variable_of(store: &str) -> String {
    if store.is_empty() {
        return VARIABLE.to_owned();
    }
    format!("{VARIABLE}_{}", store.to_ascii_uppercase().replace('-', "_"))
}

/// A store's password: in the file that a setting names, else the credential, else the variable. An empty
/// name stands for the sole store.
pub(super) fn find(store: &str, file: Option<PathBuf>, env: &Env) -> StorePassword {
    if let Some(file) = file {
        return StorePassword::File(file);
    }
    let credential = env.variable("CREDENTIALS_DIRECTORY");
    let name =
        if store.is_empty() { CREDENTIAL.to_owned() } else { format!("{CREDENTIAL}_{store}") };
    let credential = credential.map(|dir| PathBuf::from(dir).join(name));
    if let Some(file) = credential.filter(|file| file.exists()) {
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
    /// Why the file can't be read, without what it holds.
    pub fn read(&self) -> Result<Option<String>, String> {
        let path = match self {
            StorePassword::None => return Ok(None),
            StorePassword::Variable(password) => return Ok(Some(password.clone())),
            StorePassword::File(path) => path,
        };
        let failed = |cause: &dyn fmt::Display| {
            format!("the password file {} can't be used: {cause}", path.display())
        };
        let bytes = std::fs::read(path).map_err(|cause| failed(&cause))?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(failed(&format!("it is larger than {FILE_BYTES_MAX} bytes")));
        }
        let text = String::from_utf8(bytes).map_err(|_| failed(&"it is not UTF-8"))?;
        let password = text.strip_suffix('\n').unwrap_or(&text);
        Ok(Some(password.strip_suffix('\r').unwrap_or(password).to_owned()))
    }
}

impl fmt::Display for StorePassword {
    /// Where it is, not what it is.
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
