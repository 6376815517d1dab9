//! MariaDB from Debian's package.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use mysql::prelude::Queryable as _;
use mysql::{Conn, OptsBuilder, Row, Value};

use super::{DATABASE, PASSWORD, Process, Server, USER};

/// A server. Its administrator is `root`.
pub struct MariaDb {
    process: Process,
}

/// A folder and port for a server, with the initial tables.
fn place(settings: &[&str]) -> Process {
    let process = Process::new("mysql", "TERM", |dir, port| {
        let dir = dir.display();
        let own = [
            format!("--datadir={dir}/data"),
            // A starting server deletes temporary tables there, even another server's.
            format!("--tmpdir={dir}"),
            format!("--socket={dir}/socket"),
            format!("--pid-file={dir}/pid"),
            format!("--port={port}"),
            format!("--server-id={port}"),
        ];
        let common = [
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--innodb-buffer-pool-size=32M",
            "--innodb-flush-log-at-trx-commit=1",
            "--log-bin=binlog",
            "--log-slave-updates",
            "--slave-net-timeout=5",
        ];
        let mut words = vec!["/usr/sbin/mariadbd".to_owned(), "--no-defaults".to_owned()];
        words.extend(own);
        words.extend(common.iter().chain(settings).map(|word| (*word).to_owned()));
        words
    });
    process.run(&[
        "/usr/bin/mariadb-install-db",
        "--no-defaults",
        &format!("--datadir={}/data", process.dir.display()),
        &format!("--tmpdir={}", process.dir.display()),
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
    ]);
    process
}

fn client(process: &Process, database: &str) -> Result<Conn, mysql::Error> {
    let socket = process.dir.join("socket");
    let options = OptsBuilder::new().socket(socket.to_str()).user(Some("root"));
    Conn::new(options.db_name(Some(database)))
}

pub(super) fn rows(client: &mut Conn, sql: &str) -> Vec<Vec<String>> {
    let cell = |value: Value| match value {
        Value::NULL => String::new(),
        Value::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
        other => other.as_sql(true),
    };
    let mut found = Vec::new();
    for statement in sql.split(';').filter(|one| !one.trim().is_empty()) {
        let rows: Vec<Row> =
            client.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        found.extend(rows.into_iter().map(|row| row.unwrap().into_iter().map(cell).collect()));
    }
    found
}

impl MariaDb {
    fn dump_with(&self, options: &str, database: &str) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("backup{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let path = self.process.dir.join(name);
        self.run(&format!(
            "mariadb-dump OPTIONS --single-transaction {options} --result-file={} {database}",
            path.display()
        ));
        path
    }

    fn admin(&self, sql: &str) -> Vec<Vec<String>> {
        self.ask("mysql", sql)
    }

    /// Runs one of its programs on this server, in a shell.
    fn run(&self, command: &str) {
        let socket = self.process.dir.join("socket");
        let options = format!("--no-defaults --socket={} --user=root", socket.display());
        self.process.run(&["/bin/sh", "-c", &command.replace("OPTIONS", &options)]);
    }
}

impl Server for MariaDb {
    const NAME: &'static str = "MariaDB";
    const SCHEME: &'static str = "mysql";
    type Connection = Conn;

    fn empty(settings: &[&str]) -> Self {
        let mut process = place(settings);
        process.start(Self::is_up);
        let server = MariaDb { process };
        server.admin(&format!(
            "CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}';
             GRANT ALL ON `ids%`.* TO {USER}@'%';
             CREATE USER follower@'%' IDENTIFIED BY '{PASSWORD}';
             GRANT REPLICATION SLAVE ON *.* TO follower@'%'"
        ));
        server.create_database(DATABASE);
        server
    }

    fn connections(count: u32) -> String {
        // It always keeps one more for an administrator.
        format!("--max-connections={count}")
    }

    fn process(&self) -> &Process {
        &self.process
    }

    fn process_mut(&mut self) -> &mut Process {
        &mut self.process
    }

    fn is_up(process: &Process) -> bool {
        client(process, "mysql").is_ok()
    }

    fn ask(&self, database: &str, sql: &str) -> Vec<Vec<String>> {
        let mut client = client(&self.process, database).unwrap();
        rows(&mut client, sql)
    }

    fn connection(&self) -> Result<Conn, String> {
        client(&self.process, "mysql").map_err(|error| error.to_string())
    }

    fn end_sessions(by: &mut Conn) -> usize {
        let of_user = format!("FROM information_schema.processlist WHERE user = '{USER}'");
        let sessions = rows(by, &format!("SELECT id {of_user}")).len();
        rows(by, &format!("KILL USER {USER}@'%'"));
        sessions
    }

    fn set_password(&self, password: &str) {
        self.admin(&format!("ALTER USER {USER}@'%' IDENTIFIED BY '{password}'"));
        Self::end_sessions(&mut self.connection().unwrap());
    }

    fn set_read_only(&self, on: bool) {
        self.admin(&format!("SET GLOBAL read_only = {}", i32::from(on)));
        Self::end_sessions(&mut self.connection().unwrap());
    }

    fn standby(&self, through: u16) -> Self {
        let mut process = place(&["--read-only=1"]);
        process.start(Self::is_up);
        let standby = MariaDb { process };
        standby.admin(&format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {through}, MASTER_USER = 'follower',
             MASTER_PASSWORD = '{PASSWORD}', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1;
             START SLAVE"
        ));
        standby
    }

    fn position(&self) -> String {
        self.admin("SELECT @@gtid_binlog_pos")[0][0].clone()
    }

    fn has_reached(&self, position: &str) -> bool {
        // It returns 0 when it has reached the position.
        self.admin(&format!("SELECT MASTER_GTID_WAIT('{position}', 0.1)")) == [["0"]]
    }

    fn promote(&mut self) {
        self.admin("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0");
    }

    fn dump(&self, database: &str) -> PathBuf {
        self.dump_with("--triggers", database)
    }

    fn restore(&self, database: &str, dump: &Path) {
        self.admin(&format!("DROP DATABASE IF EXISTS {database}"));
        self.create_database(database);
        self.restore_over(database, dump);
    }

    fn dump_rows(&self, database: &str) -> PathBuf {
        self.dump_with("--no-create-info --skip-triggers", database)
    }

    fn restore_rows(&self, database: &str, dump: &Path) {
        let tables = [
            "leaf_alloc",
            "leafd_meta",
            "leafd_tag",
            "leafd_host",
            "leafd_claim",
            "leafd_worker",
            "leafd_worker_taken",
            "leafd_layout",
        ];
        for table in tables {
            // Not by TRUNCATE, which a versioned table refuses.
            self.ask(database, &format!("DELETE FROM {table}"));
        }
        self.restore_over(database, dump);
    }

    fn restore_over(&self, database: &str, dump: &Path) {
        // Such a backup drops each table before it creates it.
        self.run(&format!("mariadb OPTIONS {database} < {}", dump.display()));
    }

    fn create_database(&self, database: &str) {
        self.admin(&format!("CREATE DATABASE {database} CHARACTER SET utf8mb4"));
    }
}
