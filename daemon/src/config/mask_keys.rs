//! Reads the keys of public ids from a file or a systemd credential, never from an argument or an environment variable.

use std::fmt::Display;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use leafd_core::mask::MaskKeys;

use super::{Config, read_regular_file};

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
        let read = self.mask_key_file.as_deref().map(read_mask_keys).transpose()?;
        Ok(read.map(|(keys, ..)| keys))
    }
}

/// Reads a file of keys. Returns also its text and its metadata.
///
/// # Errors
/// Why it can't be used, without quotes from it.
pub fn read_mask_keys(path: &Path) -> Result<(MaskKeys, String, Metadata), String> {
    let failed =
        |cause: &dyn Display| format!("the mask keys in {} can't be used: {cause}", path.display());
    let (text, metadata) =
        read_regular_file(path, FILE_BYTES_MAX).map_err(|cause| failed(&cause))?;
    let mode = metadata.mode();
    if mode & OTHERS != 0 {
        let mode = mode & 0o777;
        return Err(failed(&format!(
            "every user of this host can read them (mode {mode:04o}); make the file 0600, owned by leafd's user, and \
             treat the keys as compromised"
        )));
    }
    let keys = MaskKeys::parse(&text).map_err(|cause| failed(&cause))?;
    Ok((keys, text, metadata))
}
