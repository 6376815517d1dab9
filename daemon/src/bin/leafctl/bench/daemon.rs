//! A daemon of the bench's own: this program once more, in a temporary directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use leafd::config::{Args, Config, Surroundings};
use leafd_client::{Client, opcode};
use tempfile::TempDir;

use super::processes::{Process, helper};

/// A daemon that serves until it is dropped.
#[derive(Debug)]
pub(super) struct OwnDaemon {
    pub(super) process: Process,
    pub(super) dir: PathBuf,
}

/// A directory for a daemon; removed when dropped.
pub(super) fn new_dir() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("leafd-bench-")
        .tempdir()
        .context("cannot make a temporary directory")
}

/// Where a daemon in `dir` keeps its state.
pub(super) fn state_dir(dir: &Path) -> PathBuf {
    dir.join("state")
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("leafd.sock")
}

/// The defaults, but for places and the worker's number. The environment has no say.
pub(super) fn config(dir: &Path) -> Result<Config> {
    let utf8 = dir.to_str().context("the temporary directory's path is not UTF-8")?;
    let args = Args {
        socket: Some(socket(dir)),
        state_dir: Some(state_dir(dir)),
        worker: Some("static:0".to_owned()),
        set: vec![format!("worker_lock_dir={utf8}"), "log=error".to_owned()],
        ..Args::default()
    };
    let uid = nix::unistd::geteuid().as_raw();
    Ok(Config::load_from(
        &args,
        &Surroundings { variables: BTreeMap::new(), uid, host: String::new() },
    )?)
}

/// Is the daemon: what the helper process does.
pub(super) fn serve(dir: &Path) -> Result<()> {
    let config = config(dir)?;
    leafd::logging::init(&config.log, config.log_format)?;
    leafd::daemon::run(&config, None)
}

// === impl OwnDaemon ===

impl OwnDaemon {
    /// Starts one and waits until it says that it is ready.
    pub(super) fn start(dir: &Path) -> Result<OwnDaemon> {
        let mut command = helper("daemon")?;
        let mut process = Process::start(command.arg("--dir").arg(dir).stdin(Stdio::null()))?;
        let line = process.line().context("the bench's daemon does not get ready")?;
        if !line.contains("is ready") {
            bail!("the bench's daemon says {line:?} instead of being ready");
        }
        Ok(OwnDaemon { process, dir: dir.to_owned() })
    }

    pub(super) fn socket(&self) -> PathBuf {
        socket(&self.dir)
    }

    /// Makes a tag in its store.
    pub(super) fn create_tag(&self, client: &Client, tag: &str) -> Result<()> {
        let body = serde_json::json!({ "tag": tag }).to_string();
        client.admin(opcode::TAG_CREATE, &body).with_context(|| format!("cannot create {tag}"))?;
        Ok(())
    }
}
