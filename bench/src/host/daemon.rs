//! The bench's own daemon: the real program, in a temporary directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use leafd_client::{Client, opcode};
use leafd_tests::program::leafd_binary;
use tempfile::TempDir;

use crate::processes::Process;

/// A daemon that serves until it is dropped.
#[derive(Debug)]
pub(crate) struct OwnDaemon {
    pub(crate) process: Process,
    dir: PathBuf,
}

/// A directory for a daemon; removed when dropped.
pub(crate) fn new_dir() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("leafd-bench-")
        .tempdir()
        .context("cannot make a temporary directory")
}

/// Where a daemon in `dir` keeps its state.
pub(crate) fn state_dir(dir: &Path) -> PathBuf {
    dir.join("state")
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("leafd.sock")
}

// === impl OwnDaemon ===

impl OwnDaemon {
    /// Starts a daemon with default settings, except for its paths and its worker number. Waits until it reports that
    /// it is ready.
    pub(crate) fn start(dir: &Path) -> Result<OwnDaemon> {
        OwnDaemon::start_with(dir, &[])
    }

    /// The same with more settings.
    pub(crate) fn start_with(dir: &Path, settings: &[&str]) -> Result<OwnDaemon> {
        let mut command = Command::new(leafd_binary());
        // The environment must not affect it.
        command.env_clear().stdin(Stdio::null());
        command.arg("--socket").arg(socket(dir)).arg("--state-dir").arg(state_dir(dir));
        command.args(["--worker", "static:0", "--set", "log=error", "--set"]);
        command.arg(format!("worker_lock_dir={}", dir.display()));
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        let mut process = Process::start(&mut command)?;
        let line = process.line().context("the bench's daemon does not get ready")?;
        if !line.contains("is ready") {
            bail!("the bench's daemon says {line:?} instead of being ready");
        }
        Ok(OwnDaemon { process, dir: dir.to_owned() })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        socket(&self.dir)
    }

    /// Creates a tag in its store.
    pub(crate) fn create_tag(&self, client: &Client, tag: &str) -> Result<()> {
        let body = serde_json::json!({ "tag": tag }).to_string();
        client.admin(opcode::TAG_CREATE, &body).with_context(|| format!("cannot create {tag}"))?;
        Ok(())
    }
}
