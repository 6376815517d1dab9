//! The store's password: from a file, a systemd credential or the environment, never from an argument, and
//! never shown.

use std::fmt;
use std::path::PathBuf;

use super::settings;
use super::sources::Surroundings;

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

/// Not a setting, because settings are shown.
const VARIABLE: &str = "LEAFD_STORE_PASSWORD";

/// The name of the systemd credential.
const CREDENTIAL: &str = "store_password";

/// Longer than any password; a larger file is something else.
const FILE_BYTES_MAX: usize = 4096;

/// Whether a variable of the environment holds a password: the sole store's, or that of one by its name.
pub(super) fn is_variable(name: &str) -> bool {
    let named = name.strip_prefix(VARIABLE).is_some_and(|rest| rest.starts_with('_'));
    name == VARIABLE || named && name != settings::STORE_PASSWORD_FILE.variable()
}

/// The file that the setting names, else the credential, else the variable.
pub(super) fn find(file: Option<PathBuf>, around: &Surroundings) -> StorePassword {
    find_as(file, CREDENTIAL, VARIABLE, around)
}

/// The same for one of several stores, by its name.
pub(super) fn find_named(file: Option<PathBuf>, name: &str, around: &Surroundings) -> StorePassword {
    let variable = format!("{VARIABLE}_{}", name.to_ascii_uppercase().replace('-', "_"));
    find_as(file, &format!("{CREDENTIAL}_{name}"), &variable, around)
}

fn find_as(
    file: Option<PathBuf>,
    credential: &str,
    variable: &str,
    around: &Surroundings,
) -> StorePassword {
    if let Some(file) = file {
        return StorePassword::File(file);
    }
    let directory = around.variable("CREDENTIALS_DIRECTORY");
    let credential = directory.map(|dir| PathBuf::from(dir).join(credential));
    if let Some(file) = credential.filter(|file| file.exists()) {
        return StorePassword::File(file);
    }
    match around.variable(variable).and_then(|value| value.to_str()) {
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

impl fmt::Debug for StorePassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StorePassword::None => f.write_str("None"),
            StorePassword::File(path) => f.debug_tuple("File").field(path).finish(),
            StorePassword::Variable(_) => f.write_str("Variable(not shown)"),
        }
    }
}
