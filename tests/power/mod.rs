//! Power failures on demand: runs a process under `durable.c` and makes its directory hold only what
//! was synced.
//!
//! ```text
//! let power = PowerLoss::of(&state_dir, &scratch)?;      // compiles the layer, makes the image
//! let child = power.watch(&mut command, Mode::Sync).spawn()?;
//! child.kill()?; child.wait()?;                          // everything that writes there must be gone
//! power.fail()?;                                         // now start again and see what is left
//! ```

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A watched directory and the image of what is durable in it.
#[derive(Debug)]
pub struct PowerLoss {
    dir: PathBuf,
    image: PathBuf,
    library: PathBuf,
}

/// What the watched process's syncs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They sync.
    Sync,
    /// They do nothing, but report success.
    NoSync,
}

// === impl PowerLoss ===

impl PowerLoss {
    /// Prepares to watch `dir`, which must exist and counts as durably empty; `scratch` is a directory
    /// elsewhere, for the compiled layer and the image.
    pub fn of(dir: &Path, scratch: &Path) -> io::Result<PowerLoss> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/power/durable.c");
        let library = scratch.join("durable.so");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .status()?;
        if !compiled.success() {
            return Err(io::Error::other(format!("cc can't compile {}", source.display())));
        }
        let image = scratch.join("image");
        fs::create_dir(&image)?;
        Ok(PowerLoss { dir: dir.canonicalize()?, image: image.canonicalize()?, library })
    }

    /// Makes the command run under the layer.
    pub fn watch<'c>(&self, command: &'c mut Command, mode: Mode) -> &'c mut Command {
        command
            .env("LD_PRELOAD", &self.library)
            .env("DURABLE_DIR", &self.dir)
            .env("DURABLE_IMAGE", &self.image)
            .env("DURABLE_MODE", if mode == Mode::Sync { "sync" } else { "nosync" })
    }

    /// From now on every sync of the watched process fails (`true`), or none does (`false`).
    pub fn break_disk(&self, broken: bool) -> io::Result<()> {
        self.switch(".fail", broken)
    }

    /// From now on every sync of the watched process waits (`true`), or none does (`false`).
    #[allow(dead_code, reason = "one of the programs with this module has no such disk")]
    pub fn hang_disk(&self, hanging: bool) -> io::Result<()> {
        self.switch(".hang", hanging)
    }

    fn switch(&self, name: &str, on: bool) -> io::Result<()> {
        let switch = self.image.join(name);
        if on { fs::write(switch, "") } else { fs::remove_file(switch) }
    }

    /// Fails the power: the directory then contains only what is durable. Every process with open files in it must have
    /// ended.
    ///
    /// Files are written in place, because their inodes and birth times are part of what a disk keeps.
    pub fn fail(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            let name = path.file_name().map(OsString::from).unwrap_or_default();
            if !self.image.join(&name).exists() {
                fs::remove_file(&path)?;
            }
        }
        for entry in fs::read_dir(&self.image)? {
            let entry = entry?;
            // The copies are in a separate directory; links stand for names.
            if entry.file_type()?.is_symlink() {
                self.restore(&entry.path(), &self.dir.join(entry.file_name()))?;
            }
        }
        // Pages that could still be read although their sync had failed are lost now.
        for entry in fs::read_dir(self.image.join(".files")).into_iter().flatten() {
            let path = entry?.path();
            if path.extension().is_some_and(|kind| kind == "lost") {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn restore(&self, durable: &Path, file: &Path) -> io::Result<()> {
        let contents = match fs::read(durable) {
            Ok(contents) => contents,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).open(file)?;
        file.write_all(&contents)
    }
}
