//! Processes that the bench starts and watches. They end however the bench ends, and their time and
//! memory can be read.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

/// A child process. Dropping kills it; it also dies with the bench.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    lines: Option<BufReader<ChildStdout>>,
}

/// Reads the processor time of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuClock {
    pid: Pid,
}

/// How long a process may take to end after a signal.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// This program, with the arguments of one of its hidden helpers.
pub(crate) fn helper(job: &str) -> Result<Command> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(program);
    command.arg(job);
    Ok(command)
}

/// The path at which a shell would find a program.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

// === impl Process ===

impl Process {
    /// Starts it with standard output as a pipe. Call it on the main thread only: the system treats
    /// the end of the starting thread as the end of the parent.
    pub(crate) fn start(command: &mut Command) -> Result<Process> {
        // A process group of its own: a terminal's Ctrl-C reaches only the bench, which then ends the
        // process.
        command.process_group(0).stdout(Stdio::piped());
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?));
        }
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let lines = child.stdout.take().map(BufReader::new);
        Ok(Process { child, lines })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn cpu_clock(&self) -> CpuClock {
        CpuClock::of(self.pid())
    }

    /// Waits for the next line that it prints.
    pub(crate) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let lines = self.lines.as_mut().context("its output is not read")?;
        if lines.read_line(&mut line)? == 0 {
            let status = self.child.wait()?;
            bail!("the process ended too early ({status})");
        }
        Ok(line)
    }

    /// Sends a byte that tells it to continue.
    pub(crate) fn go(&mut self) -> Result<()> {
        let stdin: &mut ChildStdin = self.child.stdin.as_mut().context("it takes no input")?;
        stdin.write_all(b"\n").context("cannot tell a process to go on")
    }

    /// Its output until its end. It must end successfully.
    pub(crate) fn rest(mut self) -> Result<Vec<u8>> {
        let mut rest = Vec::new();
        if let Some(lines) = &mut self.lines {
            lines.read_to_end(&mut rest)?;
        }
        let status = self.child.wait()?;
        if !status.success() {
            bail!("a helper failed ({status})");
        }
        Ok(rest)
    }

    /// Tells it to end, and waits.
    pub(crate) fn stop(mut self) -> Result<()> {
        kill(pid_of(self.pid()), Signal::SIGTERM).context("cannot stop a process")?;
        let give_up = Instant::now() + STOP_WITHIN;
        while Instant::now() < give_up {
            if let Some(status) = self.child.try_wait()? {
                if !status.success() {
                    bail!("a process ended badly when it was stopped ({status})");
                }
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        bail!("a process does not obey SIGTERM");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl CpuClock ===

impl CpuClock {
    pub(crate) fn of(pid: u32) -> CpuClock {
        CpuClock { pid: pid_of(pid) }
    }

    /// User and system time of all its threads. `None`: it is gone or can't be read.
    pub(crate) fn used(self) -> Option<Duration> {
        let time = clock_getcpuclockid(self.pid).ok()?.now().ok()?;
        Some(time.into())
    }
}

fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX))
}

/// Resident memory of a process in MiB.
pub(crate) fn resident_mib(pid: u32) -> Result<f64> {
    status_mib(pid, "VmRSS:")
}

/// Its resident memory in MiB that no file backs. Pages of the program itself, which others may share, don't count.
pub(crate) fn anonymous_mib(pid: u32) -> Result<f64> {
    status_mib(pid, "RssAnon:")
}

fn status_mib(pid: u32, name: &str) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse().ok());
    let kib: f64 = kib.with_context(|| format!("{path} has no {name}"))?;
    Ok(kib / 1024.0)
}
