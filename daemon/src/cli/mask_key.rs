//! `leafd mask-key new`: makes a key for public ids, and writes it to a file that only its owner can read.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use leafd_core::mask::{KeyNumber, MaskKeys};

use crate::config::read_mask_keys;
use crate::output;
use crate::random;

/// Writes a new key to a new file, or with `add` behind the keys of an existing one.
#[must_use]
pub fn new(path: &Path, add: bool) -> ExitCode {
    let made = if add { add_to(path) } else { begin(path) };
    match made {
        Ok(said) => output::print(&said),
        Err(error) => {
            eprintln!("leafd: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn begin(path: &Path) -> Result<String> {
    let line = line(KeyNumber::FIRST)?;
    let written = create(path).and_then(|file| write(file, &line));
    if let Err(cause) = written {
        if cause.kind() == ErrorKind::AlreadyExists {
            bail!(
                "{} is there already, and its keys may be in use; add a key to it with --add",
                path.display()
            );
        }
        return Err(cause).with_context(|| format!("cannot write {}", path.display()));
    }
    Ok(format!(
        "key 1 is in {0}; give every host a copy, and name it with mask_key_file = \"{0}\"\n",
        path.display()
    ))
}

/// Other programs may be reading the file, so it is replaced atomically.
fn add_to(path: &Path) -> Result<String> {
    let keys = read_mask_keys(path).map_err(anyhow::Error::msg)?;
    let next = next_number(&keys)?;
    let mut text = fs::read_to_string(path).context("cannot read it again")?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&line(next)?);
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    let file = match create(beside) {
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => bail!(
            "{} is there already: another leafd mask-key is adding a key, or was stopped while it did; if none runs, remove it",
            beside.display()
        ),
        created => created.with_context(|| format!("cannot write {}", beside.display()))?,
    };
    let replaced = belong_like(&file, path)
        .and_then(|()| write(file, &text))
        .and_then(|()| fs::rename(beside, path));
    if let Err(cause) = replaced {
        // The file holds keys. Report the first error only.
        let _ = fs::remove_file(beside);
        return Err(cause).with_context(|| format!("cannot replace {}", path.display()));
    }
    Ok(format!(
        "key {next} is in {0}, not in use yet. Give every host a copy and reload leafd there; then move its line to the \
         top, and give every host a copy again\n",
        path.display()
    ))
}

fn next_number(keys: &MaskKeys) -> Result<KeyNumber> {
    let last = keys.iter().map(|key| key.number().get()).max().unwrap_or(0);
    KeyNumber::new(last + 1).context("key 31 is the last one that there can be")
}

/// Gives a file another file's owner and mode. So the daemon can still read it when root wrote it.
fn belong_like(file: &File, other: &Path) -> std::io::Result<()> {
    let like = fs::metadata(other)?;
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (like.uid(), like.gid()) {
        fchown(file, Some(like.uid()), Some(like.gid()))?;
    }
    file.set_permissions(like.permissions())
}

fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn write(mut file: File, text: &str) -> std::io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// A file's line with a new key.
fn line(number: KeyNumber) -> Result<String> {
    // 32 hexadecimal digits, the form of a key.
    Ok(format!("{number} {}\n", random::token()?))
}
