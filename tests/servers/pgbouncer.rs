//! PgBouncer from Debian's package: a pooler before PostgreSQL.

use super::{DATABASE, PASSWORD, Postgres, Process, Server as _, USER};

/// When a client's server connection serves another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// After each transaction.
    Transaction,
    /// When the client disconnects.
    Session,
}

/// A pooler before a server.
pub struct PgBouncer {
    process: Process,
}

impl PgBouncer {
    /// Before the server on this port.
    pub fn new(pooling: Pooling, server: u16) -> PgBouncer {
        let mode = match pooling {
            Pooling::Transaction => "transaction",
            Pooling::Session => "session",
        };
        let mut process = Process::new("postgres", "TERM", |dir, port| {
            let file = dir.join("pgbouncer.ini");
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
default_pool_size = 20
server_login_retry = 1
",
                dir = dir.display()
            );
            std::fs::write(&file, settings).unwrap();
            std::fs::write(dir.join("users"), format!("\"{USER}\" \"{PASSWORD}\"\n")).unwrap();
            vec!["/usr/sbin/pgbouncer".to_owned(), file.display().to_string()]
        });
        let listens =
            |process: &Process| std::net::TcpStream::connect(("127.0.0.1", process.port)).is_ok();
        process.start(listens);
        PgBouncer { process }
    }

    /// The store's URL.
    pub fn url(&self) -> String {
        Postgres::url_of(&[self.process.port], DATABASE)
    }
}
