//! PostgreSQL from Debian's package.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use postgres::{Client, Config, NoTls, SimpleQueryMessage};

use super::{DATABASE, FOLLOWS_WITHIN, PASSWORD, Process, Server, USER};
use crate::host::eventually;

/// A server. Its superuser is `postgres`.
pub struct Postgres {
    process: Process,
}

/// The folder of its programs, of the newest installed version.
pub(super) fn bin_dir() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let mut found: Vec<_> = versions.map(|one| one.unwrap().path()).collect();
    found.sort();
    found.last().unwrap().join("bin")
}

fn program(name: &str) -> String {
    bin_dir().join(name).display().to_string()
}

/// A folder and port for a server. The folder is still empty.
fn place(settings: &[&str]) -> Process {
    Process::new("postgres", "INT", |dir, port| {
        let dir = dir.display();
        let mut words = vec![program("postgres"), "-D".to_owned(), format!("{dir}/data")];
        let own = [format!("port={port}"), format!("unix_socket_directories={dir}")];
        // fsync is off, because a killed process loses nothing that it wrote, synced or not.
        let common = [
            "listen_addresses=127.0.0.1",
            "fsync=off",
            "shared_buffers=16MB",
            "wal_keep_size=256MB",
            "wal_retrieve_retry_interval=200ms",
            "max_connections=200",
        ];
        let own = own.iter().map(String::as_str);
        for setting in own.chain(common).chain(settings.iter().copied()) {
            words.extend(["-c".to_owned(), setting.to_owned()]);
        }
        words
    })
}

fn client(process: &Process, database: &str) -> Result<Client, postgres::Error> {
    Config::new()
        .host_path(&process.dir)
        .port(process.port)
        .user("postgres")
        .dbname(database)
        // An administrator can still write where other users may not.
        .options("-c default_transaction_read_only=off")
        .connect(NoTls)
}

pub(super) fn rows(client: &mut Client, sql: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let mut rows = Vec::new();
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            let cell = |index| row.get(index).unwrap_or_default().to_owned();
            rows.push((0..row.len()).map(cell).collect());
        }
    }
    rows
}

impl Postgres {
    /// Lets everyone in without a password. Checking a password costs an unoptimised daemon so much that a
    /// hundred at once would dominate a measurement.
    pub fn without_passwords(&self) {
        let path = self.process.dir.join("data/pg_hba.conf");
        let rules = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("host all all 127.0.0.1/32 trust\n{rules}")).unwrap();
        self.sql("SELECT pg_reload_conf()");
    }

    /// A physical backup, which can be started without `recovery.signal`.
    pub fn base_backup(&self) -> PathBuf {
        let to = self.process.dir.join("base_backup");
        self.base_backup_to(&to, &self.process, &[]);
        to
    }

    fn base_backup_to(&self, to: &Path, by: &Process, options: &[&str]) {
        let (program, port) = (program("pg_basebackup"), self.port().to_string());
        let (from, to) = (self.process.dir.to_str().unwrap(), to.to_str().unwrap());
        let mut words =
            vec![&*program, "--host", from, "--port", &port, "--username=postgres", "--pgdata", to];
        words.extend(["--wal-method=stream", "--checkpoint=fast", "--no-sync"]);
        words.extend(options);
        by.run(&words);
    }

    /// Runs one of its programs on this server.
    fn run(&self, name: &str, words: &[&str]) {
        let (program, port) = (program(name), self.process.port.to_string());
        let mut all = vec![&*program, "-h", self.process.dir.to_str().unwrap(), "-p", &port];
        all.extend(["-U", "postgres"].iter().chain(words));
        self.process.run(&all);
    }
}

impl Server for Postgres {
    const NAME: &'static str = "PostgreSQL";
    const SCHEME: &'static str = "postgres";
    type Connection = Client;

    fn empty(settings: &[&str]) -> Self {
        let mut process = place(settings);
        let (data, password) = (process.dir.join("data"), process.dir.join("password"));
        std::fs::write(&password, PASSWORD).unwrap();
        process.run(&[
            &program("initdb"),
            "--pgdata",
            data.to_str().unwrap(),
            "--username=postgres",
            "--pwfile",
            password.to_str().unwrap(),
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        ]);
        process.start(Self::is_up);
        let server = Postgres { process };
        server.ask("postgres", &format!("CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'"));
        server.create_database(DATABASE);
        server
    }

    fn connections(count: u32) -> String {
        format!("max_connections={count}")
    }

    fn process(&self) -> &Process {
        &self.process
    }

    fn process_mut(&mut self) -> &mut Process {
        &mut self.process
    }

    fn is_up(process: &Process) -> bool {
        client(process, "postgres").is_ok()
    }

    fn ask(&self, database: &str, sql: &str) -> Vec<Vec<String>> {
        let mut client = client(&self.process, database).unwrap();
        rows(&mut client, sql)
    }

    fn connection(&self) -> Result<Client, String> {
        client(&self.process, "postgres").map_err(|error| format!("{error:?}"))
    }

    fn end_sessions(by: &mut Client) -> usize {
        let of_user = format!("FROM pg_stat_activity WHERE usename = '{USER}'");
        rows(by, &format!("SELECT pg_terminate_backend(pid, 5000) {of_user}")).len()
    }

    fn set_password(&self, password: &str) {
        self.ask("postgres", &format!("ALTER ROLE {USER} PASSWORD '{password}'"));
        Self::end_sessions(&mut self.connection().unwrap());
    }

    fn set_read_only(&self, on: bool) {
        let word = if on { "on" } else { "off" };
        self.ask("postgres", &format!("ALTER SYSTEM SET default_transaction_read_only = {word}"));
        self.ask("postgres", "SELECT pg_reload_conf()");
        eventually("the new setting", FOLLOWS_WITHIN, || {
            let shown = "SELECT setting FROM pg_file_settings
                WHERE name = 'default_transaction_read_only' AND applied";
            (self.ask("postgres", shown) == [[word]]).then_some(())
        });
        Self::end_sessions(&mut self.connection().unwrap());
    }

    fn standby(&self, through: u16) -> Self {
        let conninfo = format!(
            "primary_conninfo=host=127.0.0.1 port={through} user=postgres password={PASSWORD}"
        );
        let mut process = place(&[&conninfo]);
        self.base_backup_to(&process.dir.join("data"), &process, &["--write-recovery-conf"]);
        process.start(Self::is_up);
        Postgres { process }
    }

    fn position(&self) -> String {
        self.ask("postgres", "SELECT pg_current_wal_lsn()")[0][0].clone()
    }

    fn has_reached(&self, position: &str) -> bool {
        let sql =
            format!("SELECT coalesce(pg_last_wal_replay_lsn() >= '{position}'::pg_lsn, false)");
        self.ask("postgres", &sql) == [["t"]]
    }

    fn promote(&mut self) {
        let seconds = FOLLOWS_WITHIN.as_secs();
        let promoted = self.ask("postgres", &format!("SELECT pg_promote(true, {seconds})"));
        assert_eq!(promoted, [["t"]], "the standby is promoted");
    }

    fn dump(&self, database: &str) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("backup{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let path = self.process.dir.join(name);
        self.run("pg_dump", &["--format=custom", "--file", path.to_str().unwrap(), database]);
        path
    }

    fn restore(&self, database: &str, dump: &Path) {
        self.ask("postgres", &format!("DROP DATABASE IF EXISTS {database} WITH (FORCE)"));
        self.create_database(database);
        self.run("pg_restore", &["--dbname", database, dump.to_str().unwrap()]);
    }

    fn dump_rows(&self, database: &str) -> PathBuf {
        self.dump(database)
    }

    fn restore_rows(&self, database: &str, dump: &Path) {
        self.ask(
            database,
            "TRUNCATE leaf_alloc, leafd_meta, leafd_tag, leafd_host, leafd_claim, leafd_worker, leafd_worker_taken, \
             leafd_layout",
        );
        let how = ["--data-only", "--single-transaction", "--dbname", database];
        self.run("pg_restore", &[&how[..], &[dump.to_str().unwrap()]].concat());
    }

    fn restore_over(&self, database: &str, dump: &Path) {
        let dump = dump.to_str().unwrap();
        // One transaction, as when psql -1 reads a backup.
        let how = ["--clean", "--if-exists", "--single-transaction", "--dbname", database, dump];
        self.run("pg_restore", &how);
    }

    fn create_database(&self, database: &str) {
        self.ask("postgres", &format!("CREATE DATABASE {database} OWNER {USER}"));
    }
}
