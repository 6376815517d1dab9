//! The demo's own daemon: this program again, in a separate process that ends with the demo.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use leafd_client::Client;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// How long a start may take.
const START_MAX: Duration = Duration::from_secs(20);

/// How long a stop may take before it is forced.
const STOP_MAX: Duration = Duration::from_secs(10);

/// A daemon in a temporary folder. Dropping it stops the daemon and removes the folder.
#[derive(Debug)]
pub(super) struct ChildDaemon {
    child: Child,
    folder: TempDir,
    socket: PathBuf,
}

impl ChildDaemon {
    /// Starts a daemon on SQLite with worker 0, all in a temporary folder, and waits until it answers. Call it on the
    /// main thread: the daemon ends with the thread that started it.
    ///
    /// # Errors
    /// The daemon doesn't start; the text includes its log.
    pub(super) fn start() -> Result<ChildDaemon> {
        let folder = tempfile::Builder::new()
            .prefix("leafd-")
            .tempdir()
            .context("cannot create a temporary directory")?;
        let socket = folder.path().join("leafd.sock");
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let log = File::create(folder.path().join("log")).context("cannot create the log")?;
        let mut command = Command::new(program);
        command
            .arg("--socket")
            .arg(&socket)
            .arg("--state-dir")
            .arg(folder.path().join("state"))
            .args(["--worker", "static:0", "--set"])
            // These ids are only shown, so the host's other daemons may have worker 0 too.
            .arg(format!("worker_lock_dir={}", folder.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        // Settings and a service manager of a real daemon must not affect this one.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("LEAFD_") || text == "NOTIFY_SOCKET" {
                command.env_remove(name);
            }
        }
        let child = end_with_parent(&mut command).spawn();
        let child = child.context("cannot start the daemon")?;
        let mut daemon = ChildDaemon { child, folder, socket };
        daemon.wait_until_it_answers()?;
        Ok(daemon)
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < START_MAX {
            if self.socket.exists()
                && Client::connect(&self.socket).and_then(|client| client.info()).is_ok()
            {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait().context("cannot wait for the daemon")? {
                bail!("the daemon exited with {status}:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        bail!("the daemon did not answer within {} s:\n{}", START_MAX.as_secs(), self.log())
    }

    /// Where it listens.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Where it keeps everything.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for ChildDaemon {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // It may have ended already, which is fine.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let begun = Instant::now();
        while begun.elapsed() < STOP_MAX && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes the process of `command` stop when its starter ends, and unblocks its signals. A process inherits its
/// starter's blocked signals, and the demo blocks exactly those that stop a daemon.
#[expect(unsafe_code, reason = "std has no safe way to call anything between fork and exec")]
fn end_with_parent(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: only two system calls are made between fork and exec.
    unsafe {
        command.pre_exec(|| {
            SigSet::all().thread_unblock()?;
            Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?)
        })
    }
}
