//! `leafd mask-key new`: generates a key for public ids, and writes it to a file that only its owner can read.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use leafd_core::mask::KeyNumber;
use tempfile::NamedTempFile;

use crate::config::read_mask_keys;
use crate::random;

/// Writes a new key to a new file or, with `add`, after the keys of an existing one.
///
/// # Errors
/// The file can't be written, or has no room for another key.
pub fn new(path: &Path, add: bool) -> Result<String> {
    if add { add_to(path) } else { begin(path) }
}

fn begin(path: &Path) -> Result<String> {
    let file = beside(path, &line(KeyNumber::FIRST))?;
    match file.persist_noclobber(path) {
        Ok(_) => {}
        Err(failed) if failed.error.kind() == ErrorKind::AlreadyExists => bail!(
            "{} already exists, and its keys may be in use; add a key to it with --add",
            path.display()
        ),
        Err(failed) => {
            return Err(failed.error).with_context(|| format!("cannot write {}", path.display()));
        }
    }
    Ok(format!(
        "wrote key 1 to {0}; copy the file to every host, and set mask_key_file = \"{0}\"\n",
        path.display()
    ))
}

/// Replaces the file atomically, because other programs may be reading it. It keeps its owner and mode, so the daemon
/// can still read it if root ran this.
fn add_to(path: &Path) -> Result<String> {
    // A later read of the same path may get a different file.
    let (keys, text, former) = read_mask_keys(path).map_err(anyhow::Error::msg)?;
    let last = keys.iter().map(|key| key.number.get()).max().unwrap_or(0);
    let next = KeyNumber::new(last + 1).context("key 31 is the last possible key")?;
    let file = beside(path, &format!("{}\n{}", text.trim_end_matches('\n'), line(next)))?;
    let replace = || {
        fchown(file.as_file(), Some(former.uid()), Some(former.gid()))?;
        file.as_file().set_permissions(former.permissions())?;
        file.persist(path).map_err(|failed| failed.error)
    };
    replace().with_context(|| format!("cannot replace {}", path.display()))?;
    Ok(format!(
        "added key {next} to {0}; it is not in use yet. Copy the file to every host and reload leafd there; then move the \
         key's line to the top, and copy the file again\n",
        path.display()
    ))
}

/// A new file in the same folder, readable only by its owner. It is removed unless it is renamed to the path.
fn beside(path: &Path, text: &str) -> Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let write = || {
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        Ok::<_, std::io::Error>(file)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// A file's line with a new key.
fn line(number: KeyNumber) -> String {
    // 32 hexadecimal digits, the form of a key.
    format!("{number} {}\n", random::token())
}
