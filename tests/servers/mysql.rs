//! MariaDB and MySQL.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use mysql::prelude::Queryable as _;
use mysql::{Conn, OptsBuilder, Row, Value};

use super::mysqld::{Engine, Kind, OfMariaDb, OfMysql};
use super::{DATABASE, PASSWORD, Process, Server, TABLES, USER};

/// A server. Its administrator is `root`.
pub struct Mysqld<K> {
    process: Process,
    kind: PhantomData<K>,
}

pub type MariaDb = Mysqld<OfMariaDb>;
pub type Mysql = Mysqld<OfMysql>;

/// Settings in addition to those of every server.
fn settings_of(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::MariaDb => {
            &["--log-bin=binlog", "--sync-binlog=1", "--log-slave-updates", "--slave-net-timeout=5"]
        }
        // MySQL writes a binary log unless told otherwise.
        Engine::Mysql => {
            &["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--replica-net-timeout=5"]
        }
    }
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

impl<K: Kind> Mysqld<K> {
    /// A running server without a database for [`USER`].
    pub(super) fn started(settings: &[&str]) -> Self {
        let common = ["--skip-name-resolve", "--innodb-flush-log-at-trx-commit=1"];
        let all = [&common, settings_of(K::ENGINE), settings].concat();
        let mut process = K::ENGINE.place(&all);
        process.start(Self::is_up);
        Mysqld { process, kind: PhantomData }
    }

    /// Creates the daemons' user, a user for standbys, and the daemons' database.
    pub(super) fn populate(&self) {
        self.admin(&format!(
            "CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}';
             GRANT ALL ON `ids%`.* TO {USER}@'%';
             CREATE USER follower@'%' IDENTIFIED BY '{PASSWORD}';
             GRANT REPLICATION SLAVE ON *.* TO follower@'%'"
        ));
        self.create_database(DATABASE);
    }

    /// Makes it a standby that follows the server at this port.
    pub fn follow(&self, port: u16) {
        self.admin(&match K::ENGINE {
            Engine::MariaDb => format!(
                "SET GLOBAL read_only = 1;
                 CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'follower',
                 MASTER_PASSWORD = '{PASSWORD}', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1;
                 START SLAVE"
            ),
            Engine::Mysql => format!(
                "SET GLOBAL read_only = 1;
                 CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port},
                 SOURCE_USER = 'follower', SOURCE_PASSWORD = '{PASSWORD}', SOURCE_AUTO_POSITION = 1,
                 SOURCE_CONNECT_RETRY = 1, GET_SOURCE_PUBLIC_KEY = 1;
                 START REPLICA"
            ),
        });
    }

    fn dump_with(&self, options: &str, database: &str) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("backup{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let path = self.process.dir.join(name);
        let own = match K::ENGINE {
            Engine::MariaDb => "",
            Engine::Mysql => "--set-gtid-purged=OFF",
        };
        let words = format!("--single-transaction {own} {options} {database} > {}", path.display());
        self.run("mysqldump", &words);
        path
    }

    fn admin(&self, sql: &str) -> Vec<Vec<String>> {
        self.ask("mysql", sql)
    }

    /// Runs one of its programs on this server, in a shell.
    fn run(&self, program: &str, words: &str) {
        let socket = self.process.dir.join("socket");
        let program = K::ENGINE.program(program).join(" ");
        let options = format!("--no-defaults --socket={} --user=root", socket.display());
        self.process.run(&["/bin/sh", "-c", &format!("{program} {options} {words}")]);
    }
}

impl<K: Kind> Server for Mysqld<K> {
    const NAME: &'static str = match K::ENGINE {
        Engine::MariaDb => "MariaDB",
        Engine::Mysql => "MySQL",
    };
    const SCHEME: &'static str = "mysql";
    // MySQL's logins require a readable password if the server has not seen the user before.
    const PARAMETERS: &'static str = "?sslmode=disable";
    type Connection = Conn;

    fn empty(settings: &[&str]) -> Self {
        let server = Self::started(settings);
        server.populate();
        server
    }

    fn connections(count: u32) -> String {
        // MySQL always keeps one more connection for an administrator.
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
        let sessions = rows(by, &format!("SELECT id {of_user}"));
        for session in &sessions {
            // The session may have ended meanwhile.
            let _ = by.query_drop(format!("KILL {}", session[0]));
        }
        sessions.len()
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
        let standby = Self::started(&["--read-only=1"]);
        standby.follow(through);
        standby
    }

    fn position(&self) -> String {
        let all = match K::ENGINE {
            Engine::MariaDb => "@@gtid_binlog_pos",
            Engine::Mysql => "@@GLOBAL.gtid_executed",
        };
        self.admin(&format!("SELECT {all}"))[0][0].clone()
    }

    fn has_reached(&self, position: &str) -> bool {
        let wait = match K::ENGINE {
            Engine::MariaDb => "MASTER_GTID_WAIT",
            Engine::Mysql => "WAIT_FOR_EXECUTED_GTID_SET",
        };
        // The function returns 0 when the position is reached.
        self.admin(&format!("SELECT {wait}('{position}', 0.1)")) == [["0"]]
    }

    fn promote(&mut self) {
        let replica = match K::ENGINE {
            Engine::MariaDb => "SLAVE",
            Engine::Mysql => "REPLICA",
        };
        self.admin(&format!("STOP {replica}; RESET {replica} ALL; SET GLOBAL read_only = 0"));
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
        for table in TABLES {
            // TRUNCATE would fail, because a versioned table refuses it.
            self.ask(database, &format!("DELETE FROM {table}"));
        }
        self.restore_over(database, dump);
    }

    fn restore_over(&self, database: &str, dump: &Path) {
        // Such a backup drops each table before it creates it.
        self.run("mysql", &format!("{database} < {}", dump.display()));
    }

    fn create_database(&self, database: &str) {
        self.admin(&format!("CREATE DATABASE {database} CHARACTER SET utf8mb4"));
    }
}
