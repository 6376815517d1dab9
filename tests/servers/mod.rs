//! Throwaway database servers for daemons: the same of PostgreSQL and of MariaDB, so that one suite runs on both.
//! A server that can't be started fails the test.
//!
//! ```text
//! let mut server = Postgres::new();                 // or MariaDb::new(); with a database `ids`, leafd's tables in it
//! let host = Host::on_store(&server.url());         // a daemon on it
//! server.freeze(); server.thaw(); server.kill(); server.start();
//! let mut pair = Pair::<Postgres>::new();           // a primary and its asynchronous standby
//! pair.lose_from_now(); pair.primary.kill(); pair.standby.promote();
//! ```

pub mod galera;
pub mod haproxy;
mod health;
mod mariadb;
pub mod patroni;
mod postgres;
pub mod process;
pub mod zookeeper;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::host::{eventually, leafd_binary};
use crate::relay::Relay;

pub use mariadb::MariaDb;
pub use postgres::Postgres;
pub use process::Server as Process;

/// The daemons' database.
pub const DATABASE: &str = "ids";

/// Who the daemons are there, and their password over TCP.
pub const USER: &str = "leafd";
/// See [`USER`].
pub const PASSWORD: &str = "a-long-password";

/// How long a standby may take to follow, and a standby's promotion.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(30);

/// A database server of the test's own, on one port of the loopback interface as long as it lives.
pub trait Server: Sized + Send + 'static {
    /// What it is, in a measured line.
    const NAME: &'static str;

    /// What the URL of such a store begins with.
    const SCHEME: &'static str;

    /// An administrator's connection, open as long as it lives.
    type Connection;

    /// A running server that has the user [`USER`] and the empty database [`DATABASE`], which is the user's.
    fn empty(settings: &[&str]) -> Self;

    /// Settings by which only so many connections are let in.
    fn connections(count: u32) -> String;

    /// Its process.
    fn process(&self) -> &Process;

    /// Its process.
    fn process_mut(&mut self) -> &mut Process;

    /// Whether it lets an administrator in.
    fn is_up(process: &Process) -> bool;

    /// Runs statements as an administrator, over the Unix socket; the answer's rows as text, NULL as nothing.
    fn ask(&self, database: &str, sql: &str) -> Vec<Vec<String>>;

    /// One more connection, or why there is none.
    fn connection(&self) -> Result<Self::Connection, String>;

    /// Ends every session of [`USER`]'s. Tells how many there were.
    fn end_sessions(by: &mut Self::Connection) -> usize;

    /// Lets [`USER`] in by this password only, and ends the sessions that there are.
    fn set_password(&self, password: &str);

    /// Has it take no writes of [`USER`]'s, and ends the sessions that there are; or as before.
    fn set_read_only(&self, on: bool);

    /// A server that follows this one through this port.
    fn standby(&self, through: u16) -> Self;

    /// How far a primary is.
    fn position(&self) -> String;

    /// Whether a standby has come as far.
    fn has_reached(&self, position: &str) -> bool;

    /// Makes a standby a primary.
    fn promote(&mut self);

    /// Writes a backup of a database, as its manual says.
    fn dump(&self, database: &str) -> PathBuf;

    /// Drops a database if it is there, and makes it from a backup.
    fn restore(&self, database: &str, dump: &Path);

    /// Puts a backup's tables in the place of those that are there; nobody's connection ends.
    fn restore_over(&self, database: &str, dump: &Path);

    /// Writes a backup of what is in a database's tables.
    fn dump_rows(&self, database: &str) -> PathBuf;

    /// Replaces what is in the tables by a backup's rows, and leaves the tables as they are.
    fn restore_rows(&self, database: &str, dump: &Path);

    /// An empty database of [`USER`]'s beside the first.
    fn create_database(&self, database: &str);

    // --- Provided ---

    /// Starts it again after a [`Server::kill`] or [`Server::stop`], on the same port.
    fn start(&mut self) {
        self.process_mut().start(Self::is_up);
    }

    /// A store's URL: this user at these ports in this order.
    fn url_of(ports: &[u16], database: &str) -> String {
        let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("{}://{USER}@{}/{database}", Self::SCHEME, hosts.join(","))
    }

    /// With leafd's tables.
    fn new() -> Self {
        Self::with(&[])
    }

    /// With leafd's tables and these settings.
    fn with(settings: &[&str]) -> Self {
        let server = Self::empty(settings);
        apply_schema(&server.url());
        server
    }

    /// Its port.
    fn port(&self) -> u16 {
        self.process().port
    }

    /// The store's URL without anything in between.
    fn url(&self) -> String {
        Self::url_of(&[self.port()], DATABASE)
    }

    /// Runs a statement in [`DATABASE`].
    fn sql(&self, sql: &str) -> Vec<Vec<String>> {
        self.ask(DATABASE, sql)
    }

    /// The first number of a tag that is not claimed.
    fn max_id(&self, tag: &str) -> u64 {
        let rows = self.sql(&format!("SELECT max_id FROM leaf_alloc WHERE biz_tag = '{tag}'"));
        rows[0][0].parse().unwrap()
    }

    /// Processor time so far of it and of every process of its own, by process.
    fn cpu(&self) -> BTreeMap<Pid, Duration> {
        let server = self.process().pid();
        let used = |process: Pid| {
            let read = std::fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
            let nanos = read.split(' ').next()?.parse().ok()?;
            Some((process, Duration::from_nanos(nanos)))
        };
        children(server).into_iter().chain([server]).filter_map(used).collect()
    }

    /// SIGSTOP to it and every process of its own: it holds its connections and answers nothing.
    fn freeze(&self) {
        let server = self.process().pid();
        // It first: then there are no new ones.
        kill(server, Signal::SIGSTOP).unwrap();
        for child in children(server) {
            // One that has ended meanwhile is as good as frozen.
            let _ = kill(child, Signal::SIGSTOP);
        }
    }

    /// SIGCONT to all that [`Server::freeze`] stopped.
    fn thaw(&self) {
        let server = self.process().pid();
        for process in children(server).into_iter().chain([server]) {
            let _ = kill(process, Signal::SIGCONT);
        }
    }

    /// `kill -9`.
    fn kill(&mut self) {
        self.process_mut().kill();
    }

    /// Stops it in good order.
    fn stop(&mut self) {
        self.process_mut().stop();
    }
}

/// A primary and a standby that follows it asynchronously.
pub struct Pair<S> {
    /// The primary.
    pub primary: S,
    /// Its standby.
    pub standby: S,
    link: Relay,
}

fn children(of: Pid) -> Vec<Pid> {
    // One that has ended has none.
    let listed = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"));
    let listed = listed.unwrap_or_default();
    listed.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap())).collect()
}

/// Makes leafd's tables by `leafd schema apply`.
#[track_caller]
pub fn apply_schema(url: &str) {
    let output = Command::new(leafd_binary())
        .args(["schema", "apply", "--store", url])
        .env_clear()
        .env("HOME", "/nonexistent")
        .env("LEAFD_STORE_PASSWORD", PASSWORD)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
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

    /// Waits until the standby has all that the primary has by now.
    #[track_caller]
    pub fn caught_up(&self) {
        let position = self.primary.position();
        eventually("the standby follows", FOLLOWS_WITHIN, || {
            self.standby.has_reached(&position).then_some(())
        });
    }

    /// From now on nothing that the primary commits comes to the standby.
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
