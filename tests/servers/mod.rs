//! Throwaway database servers for daemons. PostgreSQL, MariaDB and MySQL share one interface, so that one suite runs on all.
//! A server that can't be started fails the test.
//!
//! ```text
//! let mut server = Postgres::new();                 // or MariaDb::new(), Mysql::new(); with a database `ids`, leafd's tables in it
//! let host = Host::on_store(&server.url());         // a daemon on it
//! server.freeze(); server.thaw(); server.kill(); server.start();
//! let mut pair = Pair::<Postgres>::new();           // a primary and its asynchronous standby
//! pair.lose_from_now(); pair.primary.kill(); pair.standby.promote();
//! ```

pub mod galera;
pub mod group;
pub mod haproxy;
mod health;
mod mysql;
pub mod mysqld;
pub mod patroni;
pub mod pgbouncer;
mod postgres;
pub mod process;
pub mod volume;
pub mod zookeeper;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::unistd::Pid;

use self::process::children;
use crate::host::{eventually, leafd_binary};
use crate::relay::Relay;

pub use self::mysql::{MariaDb, Mysql, Mysqld};
pub use postgres::Postgres;
pub use process::Server as Process;

/// The database that the daemons use.
pub const DATABASE: &str = "ids";

/// The tables that daemons write to.
pub const TABLES: [&str; 8] = [
    "leaf_alloc",
    "leafd_meta",
    "leafd_tag",
    "leafd_host",
    "leafd_claim",
    "leafd_worker",
    "leafd_worker_taken",
    "leafd_layout",
];

/// The user that the daemons log in as. Over TCP, it needs a password.
pub const USER: &str = "leafd";
/// See [`USER`].
pub const PASSWORD: &str = "a-long-password";

/// How long a standby may take to catch up, or to be promoted.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(30);

/// A test's own database server, on one port of the loopback interface for its whole life.
pub trait Server: Sized + Send + 'static {
    /// Its name in printed measurements.
    const NAME: &'static str;

    /// The scheme of such a store's URL.
    const SCHEME: &'static str;

    /// What its URLs end in.
    const PARAMETERS: &'static str = "";

    /// An administrator's connection, open while it lives.
    type Connection;

    /// A running server with the user [`USER`] and that user's empty database [`DATABASE`].
    fn empty(settings: &[&str]) -> Self;

    /// Settings that allow only this many connections.
    fn connections(count: u32) -> String;

    /// Its process.
    fn process(&self) -> &Process;

    /// Its process.
    fn process_mut(&mut self) -> &mut Process;

    /// Whether an administrator can log in.
    fn is_up(process: &Process) -> bool;

    /// Runs statements as an administrator, over the Unix socket. Returns the answer's rows as text, NULL as an empty
    /// one.
    fn ask(&self, database: &str, sql: &str) -> Vec<Vec<String>>;

    /// One more connection, or the reason why there is none.
    fn connection(&self) -> Result<Self::Connection, String>;

    /// Ends every session of [`USER`]. Returns how many there were.
    fn end_sessions(by: &mut Self::Connection) -> usize;

    /// From now on [`USER`] needs this password. Ends the open sessions.
    fn set_password(&self, password: &str);

    /// Makes it refuse writes by [`USER`], and ends the open sessions; or undoes that.
    fn set_read_only(&self, on: bool);

    /// A standby that follows this server through this port.
    fn standby(&self, through: u16) -> Self;

    /// A primary's replication position.
    fn position(&self) -> String;

    /// Whether a standby has reached this position.
    fn has_reached(&self, position: &str) -> bool;

    /// Promotes a standby.
    fn promote(&mut self);

    /// Writes a backup of a database, as the manual describes.
    fn dump(&self, database: &str) -> PathBuf;

    /// Drops a database if it exists, and restores it from a backup.
    fn restore(&self, database: &str, dump: &Path);

    /// Replaces the current tables by a backup's. No connection ends.
    fn restore_over(&self, database: &str, dump: &Path);

    /// Writes a backup of the rows of a database's tables.
    fn dump_rows(&self, database: &str) -> PathBuf;

    /// Replaces the tables' rows by a backup's, and leaves the tables as they are.
    fn restore_rows(&self, database: &str, dump: &Path);

    /// Creates another empty database for [`USER`].
    fn create_database(&self, database: &str);

    // --- Provided ---

    /// Starts it again after a [`Server::kill`] or [`Server::stop`], on the same port.
    fn start(&mut self) {
        self.process_mut().start(Self::is_up);
    }

    /// A store's URL: the daemons' user at these ports, in this order.
    fn url_of(ports: &[u16], database: &str) -> String {
        let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("{}://{USER}@{}/{database}{}", Self::SCHEME, hosts.join(","), Self::PARAMETERS)
    }

    /// A new server with leafd's tables.
    fn new() -> Self {
        Self::with(&[])
    }

    /// A new server with leafd's tables and these settings.
    fn with(settings: &[&str]) -> Self {
        let server = Self::empty(settings);
        apply_schema(&server.url());
        server
    }

    /// Its port.
    fn port(&self) -> u16 {
        self.process().port
    }

    /// The store's URL with no relay or proxy in between.
    fn url(&self) -> String {
        Self::url_of(&[self.port()], DATABASE)
    }

    /// Runs a statement in [`DATABASE`].
    fn sql(&self, sql: &str) -> Vec<Vec<String>> {
        self.ask(DATABASE, sql)
    }

    /// The tag's first number that is not claimed.
    fn max_id(&self, tag: &str) -> u64 {
        let rows = self.sql(&format!("SELECT max_id FROM leaf_alloc WHERE biz_tag = '{tag}'"));
        rows[0][0].parse().unwrap()
    }

    /// The processor time so far of the server and each of its processes, by process.
    fn cpu(&self) -> BTreeMap<Pid, Duration> {
        let server = self.process().pid();
        let used = |process: Pid| Some((process, cpu(process)?));
        children(server).into_iter().chain([server]).filter_map(used).collect()
    }

    /// Sends SIGSTOP to the server and all its processes: it keeps its connections, but doesn't answer.
    fn freeze(&self) {
        self.process().freeze();
    }

    /// Sends SIGCONT to everything that [`Server::freeze`] stopped.
    fn thaw(&self) {
        self.process().thaw();
    }

    /// A copy of its data at this instant, like a snapshot of the volume.
    fn snapshot(&self) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let dir = &self.process().dir;
        let snapshot = dir.join(format!("snapshot{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        self.freeze();
        copy(&dir.join("data"), &snapshot);
        self.thaw();
        snapshot
    }

    /// Kills it, resets its data to a copy, and starts it again.
    fn put_back(&mut self, snapshot: &Path) {
        self.kill();
        let data = self.process().dir.join("data");
        std::fs::remove_dir_all(&data).unwrap();
        copy(snapshot, &data);
        self.start();
    }

    /// Kills it with SIGKILL.
    fn kill(&mut self) {
        self.process_mut().kill();
    }

    /// Stops it cleanly.
    fn stop(&mut self) {
        self.process_mut().stop();
    }
}

/// Copies with all permissions preserved.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success(), "{} can't be copied", from.display());
}

/// A primary and a standby that follows it asynchronously.
pub struct Pair<S> {
    /// The primary.
    pub primary: S,
    /// Its standby.
    pub standby: S,
    link: Relay,
}

/// Creates leafd's tables by `leafd schema apply`.
#[track_caller]
pub fn apply_schema(url: &str) {
    // On a busy machine, a server may need more than the time of one call.
    let mut tries = 0..3;
    loop {
        let output = Command::new(leafd_binary())
            .args(["schema", "apply", "--store", url])
            .env_clear()
            .env("HOME", "/nonexistent")
            .env("LEAFD_STORE_PASSWORD", PASSWORD)
            .output()
            .unwrap();
        if output.status.success() {
            return;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("no answer within") && tries.next().is_some(), "{said}");
    }
}

impl<S: Server> Pair<S> {
    /// Both, with leafd's tables.
    pub fn new() -> Pair<S> {
        let primary = S::new();
        let link = Relay::to(primary.port());
        let standby = primary.standby(link.port());
        let pair = Pair { primary, standby, link };
        pair.caught_up();
        pair
    }

    /// Waits until the standby has everything that the primary has now.
    #[track_caller]
    pub fn caught_up(&self) {
        let position = self.primary.position();
        eventually("the standby follows", FOLLOWS_WITHIN, || {
            self.standby.has_reached(&position).then_some(())
        });
    }

    /// From now on no commit of the primary reaches the standby.
    pub fn lose_from_now(&self) {
        self.link.refuse();
    }

    /// A store's URL with both.
    pub fn url(&self) -> String {
        S::url_of(&[self.primary.port(), self.standby.port()], DATABASE)
    }
}

impl<S: Server> Default for Pair<S> {
    fn default() -> Self {
        Pair::new()
    }
}

/// The processor time of a process's first thread so far, if it runs.
fn cpu(of: Pid) -> Option<Duration> {
    let read = std::fs::read_to_string(format!("/proc/{of}/schedstat")).ok()?;
    Some(Duration::from_nanos(read.split(' ').next()?.parse().ok()?))
}
