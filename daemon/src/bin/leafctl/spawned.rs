//! A daemon of our own: this program again, as a separate process that ends with us.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use leafd::config::Args;
use leafd_client::Client;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// The hidden subcommand that makes this program the daemon.
pub const SUBCOMMAND: &str = "daemon-process";

/// How long a start may take.
const START: Duration = Duration::from_secs(20);

/// How long a stop may take before it is forced.
const STOP: Duration = Duration::from_secs(10);

/// A daemon in a temporary folder.
#[derive(Debug)]
pub struct Spawned {
    child: Child,
    folder: TempDir,
    socket: PathBuf,
}

/// Runs the daemon in this process, which ends when the one that started it does.
pub fn be_the_daemon(args: &Args) -> ExitCode {
    // A process inherits the signals that its starter blocks, and `demo` blocks the very ones that
    // stop a daemon: with them blocked, neither its starter nor its starter's death could end it.
    if let Err(error) = SigSet::all().thread_unblock() {
        eprintln!("leafctl: cannot unblock signals: {error}");
        return ExitCode::FAILURE;
    }
    if let Err(error) = nix::sys::prctl::set_pdeathsig(Signal::SIGTERM) {
        eprintln!("leafctl: cannot tie the daemon's life to its starter's: {error}");
        return ExitCode::FAILURE;
    }
    leafd::daemon::start(args)
}

impl Spawned {
    /// Starts a daemon on SQLite with worker 0, all of it in a temporary folder, and waits until it answers.
    ///
    /// # Errors
    /// It doesn't start; the text carries what it said.
    pub fn start() -> Result<Spawned> {
        let folder = tempfile::Builder::new()
            .prefix("leafd-")
            .tempdir()
            .context("cannot make a temporary folder")?;
        let socket = folder.path().join("leafd.sock");
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let log =
            std::fs::File::create(folder.path().join("log")).context("cannot make the log")?;
        let mut command = Command::new(program);
        command
            .arg(SUBCOMMAND)
            .arg("--socket")
            .arg(&socket)
            .arg("--state-dir")
            .arg(folder.path().join("state"))
            .args(["--worker", "static:0", "--set"])
            // Nobody else is meant to have these ids, so the host's other daemons may have worker 0 too.
            .arg(format!("worker_lock_dir={}", folder.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        // Settings meant for a real daemon are not for this one.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LEAFD_") {
                command.env_remove(name);
            }
        }
        let child = command.spawn().context("cannot start the daemon's process")?;
        let mut spawned = Spawned { child, folder, socket };
        spawned.wait_until_it_answers()?;
        Ok(spawned)
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < START {
            if self.socket.exists()
                && Client::connect(&self.socket).and_then(|client| client.info()).is_ok()
            {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait().context("cannot wait for the daemon")? {
                bail!("the daemon ended with {status}:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        bail!("the daemon did not answer within {} s:\n{}", START.as_secs(), self.log())
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Where it keeps everything.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it logged.
    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // It may have ended by itself, which is all that is wanted.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let begun = Instant::now();
        while begun.elapsed() < STOP && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
