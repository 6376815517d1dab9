//! Throwaway database servers. The tests start them, as the user that the server requires. The servers end with the
//! tests, however the tests end.

use std::fs::DirEntry;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User};

/// How long a server may take to start.
const START_MAX: Duration = Duration::from_secs(60);

/// Runs the server while its standard input is open. A line on standard input ends the server and keeps its folder. If
/// standard input closes without a line, the tests have ended, and the folder is removed too.
const KEEPER: &str = r#"
dir=$1 signal=$2
shift 2
"$@" >>"$dir/log" 2>&1 &
server=$!
echo "$server"
read -r keep
exec 2>/dev/null
kill -CONT "$server" $(cat "/proc/$server/task/$server/children")
kill -"$signal" "$server"
wait "$server"
[ -n "$keep" ] || rm -rf "$dir"
"#;

/// A folder for a server, and the server while it is running.
pub struct Server {
    /// Its folder.
    pub dir: PathBuf,
    /// Its port on the loopback interface.
    pub port: u16,
    /// Its command.
    pub program: Vec<String>,
    stop_signal: &'static str,
    running: Option<(Child, Pid)>,
}

impl Server {
    /// A server that runs as `user` if the tests are root. `program` gets its folder and port.
    pub fn new(
        user: &str,
        stop_signal: &'static str,
        program: impl FnOnce(&Path, u16) -> Vec<String>,
    ) -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = place().join(format!("leafd-{}-{user}-{count}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let port = free_port();
        let mut server = Server { program: Vec::new(), port, dir, stop_signal, running: None };
        if nix::unistd::geteuid().is_root() {
            let user = User::from_name(user).unwrap().expect("the server's package made its user");
            std::os::unix::fs::chown(&server.dir, Some(user.uid.into()), Some(user.gid.into()))
                .unwrap();
            let ids = [format!("--reuid={}", user.uid), format!("--regid={}", user.gid)];
            server.program = ["setpriv".to_owned(), "--clear-groups".to_owned()].into();
            server.program.extend(ids);
        }
        let dir = server.dir.clone();
        server.program.extend(program(&dir, port));
        server
    }

    /// Runs a program once as the server's user; it must succeed.
    pub fn run(&self, program: &[&str]) {
        let prefix = self.program.iter().take_while(|word| !word.starts_with('/'));
        let words: Vec<&str> = prefix.map(String::as_str).chain(program.iter().copied()).collect();
        let output = Command::new(words[0]).args(&words[1..]).current_dir(&self.dir).output();
        let output = output.unwrap_or_else(|cause| panic!("{program:?}: {cause}"));
        assert!(output.status.success(), "{program:?}: {output:?}");
    }

    /// Starts the server and waits until `is_up`.
    pub fn start(&mut self, is_up: impl Fn(&Server) -> bool) {
        let begun = Instant::now();
        self.spawn();
        while !is_up(self) {
            let log = || std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < START_MAX, "the server doesn't start: {}", log());
            std::thread::sleep(Duration::from_millis(50));
            // Processes that a killed server left behind may need a moment to end.
            if self.running.as_ref().is_some_and(|(_, pid)| kill(*pid, None).is_err()) {
                self.stop();
                self.spawn();
            }
        }
    }

    fn spawn(&mut self) {
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .arg(&self.dir)
            .arg(self.stop_signal)
            .args(&self.program)
            .current_dir(&self.dir)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let said = keeper.stdout.take().unwrap();
        BufReader::new(said).read_line(&mut line).unwrap();
        let pid = line.trim().parse().expect("the keeper says the server's pid");
        self.running = Some((keeper, Pid::from_raw(pid)));
    }

    /// Stops it cleanly, or ends what is left of it. Its folder stays.
    pub fn stop(&mut self) {
        if let Some((mut keeper, _)) = self.running.take() {
            drop(keeper.stdin.take().map(|mut stdin| writeln!(stdin, "keep")));
            keeper.wait().unwrap();
        }
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        self.running.as_ref().expect("it runs").1
    }

    /// Freezes it with all its processes, each of which may have a connection: the connections stay open, but nothing
    /// answers.
    pub fn freeze(&self) {
        // The server comes first, so that it starts no new processes.
        freeze(self.pid());
        children(self.pid()).into_iter().for_each(freeze);
    }

    /// Resumes it.
    pub fn thaw(&self) {
        for process in children(self.pid()).into_iter().chain([self.pid()]) {
            // A process may have ended already.
            let _ = kill(process, Signal::SIGCONT);
        }
    }

    /// Kills it with all its processes and waits until they have ended, because a child that has not noticed might
    /// still answer.
    pub fn kill(&mut self) {
        let pid = self.pid();
        let children = children(pid);
        kill(pid, Signal::SIGKILL).unwrap();
        for child in &children {
            // A process may have ended already.
            let _ = kill(*child, Signal::SIGKILL);
        }
        self.stop();
        // Until they have ended, they hold memory and files that a restart needs.
        eventually(|| children.iter().all(|child| gone(*child)), "killed processes don't end");
    }
}

/// The processes that a process has started; none if it has ended.
pub fn children(of: Pid) -> Vec<Pid> {
    let listed = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"));
    let listed = listed.unwrap_or_default();
    listed.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap())).collect()
}

/// Sends SIGSTOP, and waits until none of the process's threads runs. On a busy machine that takes a while, and until
/// then they answer. A process that has ended counts as frozen.
pub fn freeze(process: Pid) {
    let _ = kill(process, Signal::SIGSTOP);
    let stands = |thread: std::io::Result<DirEntry>| {
        let status =
            thread.and_then(|thread| std::fs::read_to_string(thread.path().join("status")));
        status.map_or(true, |status| "TtZX".contains(state(&status)))
    };
    let threads = || std::fs::read_dir(format!("/proc/{process}/task"));
    eventually(|| threads().map_or(true, |mut all| all.all(stands)), "a process is not stopped");
}

/// What a thread is doing, by its letter in `/proc/PID/status`.
fn state(status: &str) -> char {
    let state = status.lines().find_map(|line| line.strip_prefix("State:\t"));
    state.and_then(|state| state.chars().next()).expect("a state")
}

fn eventually(reached: impl Fn() -> bool, otherwise: &str) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < START_MAX, "{otherwise}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process has ended, reaped or not.
pub(super) fn gone(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    status.map_or(true, |status| "ZX".contains(state(&status)))
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((mut keeper, _)) = self.running.take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
        // If the server was stopped before, the keeper did not remove the folder.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Where servers keep their files: in the folder named by LEAFD_TEST_SERVERS_IN, for measurements that include a disk;
/// otherwise in memory.
pub fn place() -> PathBuf {
    std::env::var_os("LEAFD_TEST_SERVERS_IN").map_or_else(memory, PathBuf::from)
}

/// A place for files that need not outlive the machine: in memory, if the system has that.
pub fn memory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

/// A port that nothing listens on, outside the range that the system assigns to connections. A stopped server keeps
/// its port, and no client connects to itself there.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const PORTS: std::ops::Range<u32> = 12_000..32_000;
    loop {
        // Two test processes start at different places.
        let offset = std::process::id().wrapping_mul(64) + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + offset % (PORTS.end - PORTS.start);
        let port = u16::try_from(port).expect("they are all below 2^16");
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A path as a URL's host.
pub fn as_host(path: &Path) -> String {
    path.display().to_string().replace('/', "%2F")
}
