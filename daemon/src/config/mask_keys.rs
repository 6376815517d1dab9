//! Reads the keys of public ids from a file or a systemd credential, never from an argument or an environment variable.

use std::fmt::Display;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use leafd_core::mask::MaskKeys;

use super::Config;

/// More than all keys with comments take. A larger file is something else.
const FILE_BYTES_MAX: u64 = 16 * 1024;

/// Permission bits for users other than the owner and the group.
const OTHERS: u32 = 0o007;

impl Config {
    /// The keys of public ids, if a file is configured. An unusable file keeps the daemon from starting; otherwise it
    /// would fail when the keys are needed.
    ///
    /// # Errors
    /// As those of [`read_mask_keys`].
    pub fn mask_keys(&self) -> Result<Option<MaskKeys>, String> {
        self.mask_key_file.as_deref().map(read_mask_keys).transpose()
    }
}

/// Reads a file of keys.
///
/// # Errors
/// Why it can't be used, without quotes from it.
pub fn read_mask_keys(path: &Path) -> Result<MaskKeys, String> {
    let failed =
        |cause: &dyn Display| format!("the mask keys in {} can't be used: {cause}", path.display());
    let file = std::fs::File::open(path).map_err(|cause| failed(&cause))?;
    let mode = file.metadata().map_err(|cause| failed(&cause))?.mode();
    if mode & OTHERS != 0 {
        let mode = mode & 0o777;
        return Err(failed(&format!(
            "every user of this host can read them (mode {mode:04o}); make the file 0600, owned by leafd's user, and \
             treat the keys as compromised"
        )));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|cause| failed(&cause))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(failed(&format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    MaskKeys::parse(&text).map_err(|cause| failed(&cause))
}
