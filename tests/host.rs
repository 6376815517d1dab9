//! A host for one test: its own folder, with the real `leafd` in it. The daemon can be stopped, killed, frozen and
//! started again, and never outlives the test.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use leafd_client::{Client, opcode};
use leafd_wire::Status;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::power::{Mode, PowerLoss};
pub use crate::program::{die_with_parent, leafd_binary, without_cargo_s_variables};
use crate::raw::{Raw, ids_request};
use crate::servers::PASSWORD;
use crate::servers::process::{freeze, memory};

/// How long a daemon may take from its start to its first answer on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// How long one check for readiness may wait for its answer.
const READY_POLL: Duration = Duration::from_millis(300);

/// How long a daemon may take to end, beyond `stop_within`.
const END_WITHIN: Duration = Duration::from_secs(60);

/// The beginning of a report of ids that another host has claimed as well.
pub const REPEATS: &str = "another host has claimed ids that this host had claimed";

/// A host and its daemon.
pub struct Host {
    folder: TempDir,
    settings: Vec<String>,
    variables: Vec<(String, String)>,
    /// A command that runs the daemon. Its words come before the daemon's own.
    runner: Vec<String>,
    user: Option<u32>,
    /// The daemon's program, if it isn't the one that was just built.
    program: Option<PathBuf>,
    child: Option<Child>,
}

/// How a daemon ended that never served requests.
#[derive(Debug)]
pub struct Refusal {
    pub code: Option<i32>,
    pub said: String,
}

/// Retries until it works; panics with `what` if it doesn't in time.
#[track_caller]
pub fn eventually<T>(what: &str, within: Duration, mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + within;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < end, "{what}: not within {within:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

// === impl Host ===

impl Host {
    /// A host whose daemon has not been started yet. Its snowflake worker comes from its store.
    pub fn new() -> Host {
        Host::below(&std::env::temp_dir())
    }

    fn below(folder: &Path) -> Host {
        let folder = tempfile::Builder::new().prefix("leafd-it-").tempdir_in(folder).unwrap();
        // Other users may enter the folder, so that only the socket's own mode keeps them out.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(folder.path().join("locks")).unwrap();
        Host {
            folder,
            settings: Vec::new(),
            variables: Vec::new(),
            runner: Vec::new(),
            user: None,
            program: None,
            child: None,
        }
    }

    /// A host whose daemon uses a database server's store. The journal is in memory, like the server: it outlives the
    /// daemon, which is enough for such a host, and no test waits for a disk.
    pub fn on_store(url: &str) -> Host {
        let host = Host::below(&memory());
        host.set("store", url).variable("LEAFD_STORE_PASSWORD", PASSWORD)
    }

    /// A host whose daemon uses several named stores, and these routes, in TOML.
    pub fn on_stores(stores: &[(&str, String)], routes: &str) -> Host {
        let urls: Vec<String> =
            stores.iter().map(|(name, url)| format!("{name} = {url:?}")).collect();
        let host = Host::below(&memory())
            .set("stores", &format!("{{ {} }}", urls.join(", ")))
            .set("routes", routes);
        stores.iter().fold(host, |host, (name, _)| {
            let variable = format!("LEAFD_STORE_PASSWORD_{}", name.to_ascii_uppercase());
            host.variable(&variable, PASSWORD)
        })
    }

    /// Sets the worker.
    pub fn worker(self, worker: u64) -> Host {
        self.set("worker", &format!("static:{worker}"))
    }

    /// Adds a setting.
    pub fn set(mut self, key: &str, value: &str) -> Host {
        self.change(key, value);
        self
    }

    /// Adds an environment variable.
    pub fn variable(mut self, name: &str, value: impl AsRef<Path>) -> Host {
        self.variables.push((name.to_owned(), value.as_ref().to_str().unwrap().to_owned()));
        self
    }

    /// Runs it as another user, who then owns the state directory.
    pub fn user(mut self, uid: u32) -> Host {
        self.user = Some(uid);
        fs::create_dir(self.state_dir()).unwrap();
        for path in [self.folder.path(), &self.state_dir(), &self.path("locks")] {
            nix::unistd::chown(path, Some(uid.into()), Some(uid.into())).unwrap();
        }
        self
    }

    /// Runs the daemon through a command, such as one that mounts something and then runs its remaining arguments.
    pub fn runner(mut self, words: &[&str]) -> Host {
        self.runner = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Sets or replaces a setting for the next start.
    pub fn change(&mut self, key: &str, value: &str) {
        self.unset(key);
        self.settings.push(format!("{key}={value}"));
    }

    /// Sets or replaces a variable for the next start.
    pub fn change_variable(&mut self, name: &str, value: &str) {
        self.unset_variable(name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Removes a setting.
    pub fn unset(&mut self, key: &str) {
        self.settings.retain(|setting| !setting.starts_with(&format!("{key}=")));
    }

    /// Removes a variable.
    pub fn unset_variable(&mut self, name: &str) {
        self.variables.retain(|(known, _)| known != name);
    }

    /// Runs the next daemon under the layer that discards unsynced writes.
    pub fn watch(&mut self, power: &PowerLoss, mode: Mode) {
        let mut command = Command::new("true");
        for (name, value) in power.watch(&mut command, mode).get_envs() {
            let value = value.and_then(|value| value.to_str()).expect("it sets plain text");
            self.change_variable(name.to_str().expect("a plain name"), value);
        }
    }

    /// The daemon's command as configured, or one of its subcommands with the same arguments.
    pub fn command(&self, subcommand: Option<&str>) -> Command {
        let program = self.program.as_deref().unwrap_or_else(|| leafd_binary());
        let mut words = self.runner.iter();
        let mut command = match words.next() {
            None => Command::new(program),
            Some(first) => {
                let mut command = Command::new(first);
                command.args(words).arg(program);
                command
            }
        };
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.args(subcommand);
        command.arg("--socket").arg(self.socket()).arg("--state-dir").arg(self.state_dir());
        command.arg("--set").arg(format!("worker_lock_dir={}", self.path("locks").display()));
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(uid) = self.user {
            command.uid(uid).gid(uid);
        }
        command
    }

    /// From the next start on, uses another copy of the program, as after an upgrade.
    pub fn replace(&mut self) {
        let program = self.path("leafd-replaced");
        // Another process copies the file: if a test thread forked while this process copied it, the child would
        // inherit the copy open for writing, and it could not be executed.
        let copied = Command::new("cp").arg(leafd_binary()).arg(&program).status().unwrap();
        assert!(copied.success(), "{} can't be copied to", program.display());
        self.run_program(&program);
    }

    /// From the next start on, runs this program, such as that of another release.
    pub fn run_program(&mut self, program: &Path) {
        self.program = Some(program.to_owned());
    }

    /// Starts the daemon and waits until it answers.
    #[track_caller]
    pub fn start(&mut self) {
        if let Err(refusal) = self.try_start() {
            panic!("leafd does not start: {refusal:?}");
        }
    }

    /// Starts the daemon and waits until it answers or ends.
    pub fn try_start(&mut self) -> Result<(), Refusal> {
        let said_from = self.begin();
        self.answering(said_from)
    }

    /// Starts the daemon without waiting; [`Host::answering`] waits. Returns the length of the log before that.
    pub fn begin(&mut self) -> usize {
        assert!(self.child.is_none(), "one daemon at a time");
        let log = OpenOptions::new().create(true).append(true).open(self.path("log")).unwrap();
        let said_from = log.metadata().unwrap().len() as usize;
        let output = log.try_clone().unwrap();
        let mut command = self.command(None);
        command.stdin(Stdio::null()).stdout(Stdio::from(output)).stderr(Stdio::from(log));
        self.child = Some(die_with_parent(&mut command).spawn().unwrap());
        said_from
    }

    /// Waits until the daemon that was started answers or ends.
    pub fn answering(&mut self, said_from: usize) -> Result<(), Refusal> {
        let end = Instant::now() + READY_WITHIN;
        loop {
            let child = self.child.as_mut().expect("a daemon was begun");
            if let Some(status) = child.try_wait().unwrap() {
                self.child = None;
                let said = self.log().split_off(said_from);
                return Err(Refusal { code: status.code(), said });
            }
            // The daemon listens before it is ready, and another daemon may hold the socket.
            if self.answers(self.pid()) {
                return Ok(());
            }
            assert!(
                Instant::now() < end,
                "leafd is not ready in {READY_WITHIN:?}:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Starts the daemon and draws one id of a tag as soon as possible. Returns the id, and the time from the start of
    /// the process until the id arrived.
    #[track_caller]
    pub fn first_id(&mut self, tag: &str) -> (u64, Duration) {
        let begun = Instant::now();
        self.begin();
        let id = eventually("the first id", READY_WITHIN, || {
            let mut raw = Raw::try_connect(&self.socket())?;
            raw.stream.set_read_timeout(Some(READY_WITHIN)).ok()?;
            raw.send(&ids_request(tag, 1, 1, 5_000));
            let reply = raw.try_reply().ok()?;
            (reply.status() == Status::Ok).then(|| reply.ids()[0])
        });
        (id, begun.elapsed())
    }

    fn answers(&self, pid: u32) -> bool {
        let Some(mut raw) = Raw::try_connect(&self.socket()) else { return false };
        raw.stream.set_read_timeout(Some(READY_POLL)).unwrap();
        raw.try_info().is_ok_and(|info| info.pid == pid)
    }

    /// Kills the daemon, without a chance to write anything.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("a daemon runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Stops it cleanly; fails unless it exits with 0.
    #[track_caller]
    pub fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        let status = self.ended();
        assert!(status.success(), "leafd ended with {status}:\n{}", self.log());
    }

    /// Waits until the daemon has ended.
    #[track_caller]
    pub fn ended(&mut self) -> ExitStatus {
        let end = Instant::now() + END_WITHIN;
        loop {
            let child = self.child.as_mut().expect("a daemon runs");
            if let Some(status) = child.try_wait().unwrap() {
                self.child = None;
                return status;
            }
            assert!(Instant::now() < end, "leafd does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(self.pid() as i32);
        match signal {
            Signal::SIGSTOP => freeze(process),
            _ => kill(process, signal).unwrap(),
        }
    }

    /// Fails if the daemon has ended.
    #[track_caller]
    pub fn assert_alive(&mut self) {
        let ended = self.child.as_mut().expect("a daemon runs").try_wait().unwrap();
        assert_eq!(ended, None, "leafd has ended:\n{}", self.log());
    }

    /// Whether the daemon was started and has not ended.
    pub fn runs(&self) -> bool {
        self.child.is_some()
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a daemon runs").id()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn socket(&self) -> PathBuf {
        self.path("leafd.sock")
    }

    pub fn state_dir(&self) -> PathBuf {
        self.path("state")
    }

    /// Everything that this host's daemons have logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Waits until the daemon has reported each of these ids as one that another host has claimed as well.
    #[track_caller]
    pub fn reports_repeats(&self, ids: &[u64], within: Duration) {
        let number = |line: &str, key: &str| -> u64 {
            let value = line.split(key).nth(1).unwrap_or_else(|| panic!("{key} in {line}"));
            value.split(' ').next().unwrap().parse().unwrap()
        };
        eventually("each id is reported", within, || {
            let log = self.log();
            let lines = log.lines().filter(|line| line.contains(REPEATS));
            let ranges: Vec<_> =
                lines.map(|line| number(line, "first=")..=number(line, "last=")).collect();
            ids.iter().all(|id| ranges.iter().any(|range| range.contains(id))).then_some(())
        });
    }

    /// A client that may hold runs.
    pub fn client(&self) -> Client {
        Client::builder().socket(self.socket()).deadline(Duration::from_secs(10)).build().unwrap()
    }

    pub fn raw(&self) -> Raw {
        Raw::connect(&self.socket())
    }

    /// Creates a tag that starts at 1.
    #[track_caller]
    pub fn create(&self, tag: &str) {
        self.admin(opcode::TAG_CREATE, &serde_json::json!({ "tag": tag }));
    }

    #[track_caller]
    pub fn admin(&self, opcode: u8, body: &Value) -> Value {
        let answer = self.client().admin(opcode, &body.to_string());
        let answer = answer.unwrap_or_else(|error| panic!("{body}: {error}\n{}", self.log()));
        serde_json::from_str(&answer).unwrap()
    }

    /// The daemon's state as an administrator sees it.
    #[track_caller]
    pub fn status(&self) -> Value {
        serde_json::from_str(&self.client().status_json().unwrap()).unwrap()
    }

    /// Waits until its lease is long. If it were killed between the registry's record of a new lease and the journal's,
    /// it would lease another worker.
    pub fn renews_its_lease(&self) {
        eventually("the lease is renewed", Duration::from_secs(20), || {
            let left_ms = self.status()["snowflake"]["lease"]["left_ms"].as_u64();
            left_ms.filter(|left_ms| *left_ms > 300_000)
        });
    }

    /// Changes the store directly, as an operator may.
    pub fn store_sql(&self, sql: &str) {
        let store = rusqlite::Connection::open(self.state_dir().join("store.db")).unwrap();
        store.busy_timeout(Duration::from_secs(5)).unwrap();
        store.execute_batch(sql).unwrap();
    }

    /// The daemon's resident memory in KiB.
    pub fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches(" kB").parse().expect("a number of kB")
    }

    /// Runs `leafctl` with these arguments against the daemon, to its end.
    pub fn leafctl(&self, words: &[&str]) -> Output {
        let leafctl = leafd_binary().with_file_name("leafctl");
        let mut command = Command::new(leafctl);
        command.env_clear().env("LEAFD_SOCKET", self.socket()).args(words).output().unwrap()
    }

    /// Runs a subcommand of the daemon, such as `check-config`, to its end.
    pub fn run(&self, subcommand: &str) -> (Option<i32>, String) {
        let output = File::create(self.path("output")).unwrap();
        let status = self
            .command(Some(subcommand))
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .status()
            .unwrap();
        (status.code(), fs::read_to_string(self.path("output")).unwrap())
    }
}

impl Default for Host {
    fn default() -> Self {
        Host::new()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("what leafd said:\n{}", self.log());
        }
    }
}
