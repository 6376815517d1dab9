//! PgBouncer from Debian's package: a pooler in front of PostgreSQL.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};

use super::cpu;
use super::{DATABASE, Postgres, Process, Server as _, USER};

/// When a client's server connection serves another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// After each transaction.
    Transaction,
    /// When the client disconnects.
    Session,
}

/// A pooler in front of a server, with at most [`CONNECTIONS`] to it.
pub struct PgBouncer {
    process: Process,
    pooling: Pooling,
}

/// The maximum number of connections that a pooler makes to the server for all its clients.
pub const CONNECTIONS: usize = 20;

impl PgBouncer {
    /// A pooler in front of the server on this port. `of`: a server that has the users.
    ///
    /// It gets the user's secret instead of the password. Otherwise it would derive the secret at each login, and a
    /// whole fleet that connects at once would keep it busy for longer than the daemons wait.
    pub fn new(pooling: Pooling, server: u16, of: &Postgres) -> PgBouncer {
        let sql = format!("SELECT rolpassword FROM pg_authid WHERE rolname = '{USER}'");
        let secret = of.sql(&sql)[0][0].clone();
        let mut process = Process::new("postgres", "TERM", |dir, port| {
            configure(dir, port, pooling, server);
            std::fs::write(dir.join("users"), format!("\"{USER}\" \"{secret}\"\n")).unwrap();
            vec!["/usr/sbin/pgbouncer".to_owned(), dir.join(SETTINGS).display().to_string()]
        });
        let listens =
            |process: &Process| std::net::TcpStream::connect(("127.0.0.1", process.port)).is_ok();
        process.start(listens);
        PgBouncer { process, pooling }
    }

    /// Redirects it to the server on another port, as an operator does after a fail-over.
    pub fn lead_to(&self, server: u16) {
        configure(&self.process.dir, self.process.port, self.pooling, server);
        kill(self.process.pid(), Signal::SIGHUP).unwrap();
    }

    /// Its processor time so far.
    pub fn cpu(&self) -> Duration {
        cpu(self.process.pid()).expect("it runs")
    }

    /// The store's URL.
    pub fn url(&self) -> String {
        Postgres::url_of(&[self.process.port], DATABASE)
    }
}

const SETTINGS: &str = "pgbouncer.ini";

fn configure(dir: &Path, port: u16, pooling: Pooling, server: u16) {
    let mode = match pooling {
        Pooling::Transaction => "transaction",
        Pooling::Session => "session",
    };
    let settings = format!(
        "[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {dir}/users
pool_mode = {mode}
default_pool_size = {CONNECTIONS}
max_client_conn = 2000
server_login_retry = 1
",
        dir = dir.display()
    );
    std::fs::write(dir.join(SETTINGS), settings).unwrap();
}
