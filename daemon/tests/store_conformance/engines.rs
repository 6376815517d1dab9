//! What the suite of faults needs to know of an engine: how its servers are made and frozen, who is who there, and its
//! words for what every engine has.

use std::time::Duration;

use ::mysql::prelude::Queryable as _;
use leafd::config::StorePassword;
use leafd::store::Store;
use leafd::store::sql::Target;
use leafd_core::store::{StoreError, Why};

use crate::mysqld::Kind;
use crate::server::Server;
use crate::{Backend, mysql, postgres};

/// A throwaway database of a kind of server.
pub trait Engine: Backend + Sized {
    /// Who may do anything.
    const ADMINISTRATOR: &'static str;
    /// Who comes in over TCP, with what password, and into which database of a server of one's own.
    const REMOTE: (&'static str, &'static str, &'static str);
    /// What it says to a wrong password, and to none.
    const DENIES: [&'static str; 2];
    /// The setting of a server that takes no writes.
    const READ_ONLY: &'static str;
    /// Leaf's table as others make it.
    const LEAF_TABLE: &'static str;
    /// The same, with a key that takes names for the same which differ in capitals; some of those, and two that lie
    /// around them in the key's order.
    const FOLDING_TABLE: &'static str;
    const LOOKALIKES: &'static [&'static str];
    const AROUND: [&'static str; 2];
    /// How much `apply` makes in an empty database.
    const MADE: usize;
    /// Tables that are refused, and why.
    const ODD_TABLES: &'static [(&'static str, &'static str)];
    /// How exactly it tells when a table was made.
    const TABLES_TIME: Duration;
    /// How many wait for a lock in this database.
    const WAITING: &'static str;
    /// How often it may be asked that.
    const ASKED_EVERY: Duration;

    /// What comes of a connection with TLS that trusts no authority of its own: few servers have TLS by default.
    const WITHOUT_ITS_CA: (Why, &'static str) = (Why::NoTls, "sslmode=disable");

    /// A connection that runs what it is told.
    type Session;

    fn new() -> Self;
    fn without_tables() -> Self;
    fn name(&self) -> String;
    fn new_server(settings: &[&str]) -> Server;
    fn shared() -> &'static Server;
    fn is_up(server: &Server) -> bool;
    /// Over the Unix socket.
    fn target(server: &Server, user: &str, database: &str) -> Target;
    fn target_at(url: &str, password: StorePassword) -> Target;
    fn url(hosts: &str) -> String;
    fn open(target: Target) -> Box<Store>;
    fn apply(target: &Target) -> Result<Vec<&'static str>, StoreError>;
    fn session(server: &Server, database: &str) -> Self::Session;
    fn run(session: &mut Self::Session, sql: &str);
    fn number(session: &mut Self::Session, sql: &str) -> i64;
    /// Makes a user who has nothing but these privileges, each on a table.
    fn grant(&mut self, user: &str, privileges: &[(&str, &str)]);
    /// A user of a server of one's own who is refused by one that takes no writes.
    fn writer(server: &Server) -> &'static str;
    /// As on a primary that becomes a replica, and back.
    fn set_writes(server: &Server, on: bool);

    // --- Provided ---

    fn own_target(&self, user: &str) -> Target {
        Self::target(Self::shared(), user, &self.name())
    }

    /// As the administrator of a server of one's own.
    fn target_of(server: &Server) -> Target {
        Self::target(server, Self::ADMINISTRATOR, Self::REMOTE.2)
    }

    fn apply_here(&self) -> Result<Vec<&'static str>, StoreError> {
        Self::apply(&self.own_target(Self::ADMINISTRATOR))
    }
}

impl<K: Kind> Engine for mysql::On<K> {
    const ADMINISTRATOR: &'static str = "root";
    const REMOTE: (&'static str, &'static str, &'static str) = ("remote", mysql::PASSWORD, "ids");
    const DENIES: [&'static str; 2] = ["Access denied", "Access denied"];
    const READ_ONLY: &'static str = "--read-only=1";
    // To the letter, in a database whose default collation folds case and trailing spaces.
    const LEAF_TABLE: &'static str = "CREATE TABLE `leaf_alloc` (
        `biz_tag` varchar(128) NOT NULL DEFAULT '',
        `max_id` bigint(20) NOT NULL DEFAULT '1',
        `step` int(11) NOT NULL,
        `description` varchar(256) DEFAULT NULL,
        `update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
        PRIMARY KEY (`biz_tag`)
        ) ENGINE=InnoDB";
    const FOLDING_TABLE: &'static str = Self::LEAF_TABLE;
    const LOOKALIKES: &'static [&'static str] = &["order", "Order ", "Orde\u{301}r", "\u{d6}rder"];
    const AROUND: [&'static str; 2] = ["bb", "\u{ffff}"];
    // Seven tables and the mark.
    const MADE: usize = 10;
    const ODD_TABLES: &'static [(&'static str, &'static str)] = &[
        (
            "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id text)",
            "leaf_alloc.max_id is text instead of bigint; leaf_alloc lacks the column step",
        ),
        (
            "CREATE TABLE leaf_alloc (biz_tag varchar(128), max_id bigint, step int, description text, update_time timestamp)",
            "not unique",
        ),
        (
            "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint, step int, description text,
             update_time timestamp) ENGINE = MyISAM",
            "has the engine MyISAM instead of InnoDB",
        ),
        ("CREATE VIEW leaf_alloc AS SELECT 'x' AS biz_tag", "of a view"),
        ("CREATE TABLE leafd_tag (x int)", "leafd_tag lacks the column tag"),
        // As it was before there were masked tags.
        (
            "CREATE TABLE leafd_tag (tag varbinary(512) PRIMARY KEY, generation bigint, ceiling bigint, strict int,
             highest_end bigint, role_version bigint)",
            "leafd_tag lacks the column masked",
        ),
    ];
    const TABLES_TIME: Duration = Duration::from_millis(1100);
    const WAITING: &'static str = "SELECT COUNT(*) FROM information_schema.INNODB_TRX AS t
        JOIN information_schema.PROCESSLIST AS p ON p.ID = t.trx_mysql_thread_id
        WHERE t.trx_state = 'LOCK WAIT' AND p.DB = DATABASE()";
    // More often than every 100 ms, the server repeats what it said.
    const ASKED_EVERY: Duration = Duration::from_millis(150);
    const WITHOUT_ITS_CA: (Why, &'static str) = match K::ENGINE {
        crate::mysqld::Engine::Mysql => (Why::Certificate, ""),
        crate::mysqld::Engine::MariaDb => (Why::NoTls, "sslmode=disable"),
    };

    type Session = ::mysql::Conn;

    fn new() -> Self {
        mysql::On::new()
    }

    fn without_tables() -> Self {
        mysql::On::without_tables()
    }

    fn name(&self) -> String {
        mysql::On::name(self).to_owned()
    }

    fn new_server(settings: &[&str]) -> Server {
        mysql::new_server(K::ENGINE, settings)
    }

    fn shared() -> &'static Server {
        mysql::shared(K::ENGINE)
    }

    fn is_up(server: &Server) -> bool {
        mysql::is_up(server)
    }

    fn target(server: &Server, user: &str, database: &str) -> Target {
        mysql::target(server, user, database)
    }

    fn target_at(url: &str, password: StorePassword) -> Target {
        mysql::target_at(url, password)
    }

    fn url(hosts: &str) -> String {
        format!("mysql://remote@{hosts}/ids")
    }

    fn open(target: Target) -> Box<Store> {
        Box::new(leafd::store::mysql::ENGINE.open(target))
    }

    fn apply(target: &Target) -> Result<Vec<&'static str>, StoreError> {
        leafd::store::mysql::ENGINE.apply(target)
    }

    fn session(server: &Server, database: &str) -> ::mysql::Conn {
        mysql::client(server, database).unwrap()
    }

    fn run(session: &mut ::mysql::Conn, sql: &str) {
        session.query_drop(sql).unwrap();
    }

    fn number(session: &mut ::mysql::Conn, sql: &str) -> i64 {
        session.query_first(sql).unwrap().unwrap()
    }

    fn grant(&mut self, user: &str, privileges: &[(&str, &str)]) {
        self.execute(&format!("CREATE USER IF NOT EXISTS {user}@localhost"));
        for (privileges, table) in privileges {
            let name = Engine::name(self);
            self.execute(&format!("GRANT {privileges} ON {name}.{table} TO {user}@localhost"));
        }
    }

    /// The administrator may write there all the same.
    fn writer(server: &Server) -> &'static str {
        let session = &mut Self::session(server, "ids");
        Self::run(session, "CREATE USER IF NOT EXISTS plain@localhost");
        Self::run(session, "GRANT SELECT, INSERT, UPDATE ON ids.* TO plain@localhost");
        "plain"
    }

    fn set_writes(server: &Server, on: bool) {
        let set = format!("SET GLOBAL read_only = {}", i32::from(!on));
        Self::run(&mut Self::session(server, "ids"), &set);
    }
}

impl Engine for postgres::Database {
    const ADMINISTRATOR: &'static str = "postgres";
    const REMOTE: (&'static str, &'static str, &'static str) =
        ("postgres", postgres::PASSWORD, "postgres");
    const DENIES: [&'static str; 2] = ["password authentication failed", "password"];
    const READ_ONLY: &'static str = "default_transaction_read_only=on";
    const LEAF_TABLE: &'static str =
        "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY DEFAULT '',
        max_id bigint NOT NULL DEFAULT 1, step int NOT NULL, description varchar(256),
        update_time timestamp NOT NULL DEFAULT now())";
    const FOLDING_TABLE: &'static str =
        "CREATE COLLATION folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
        CREATE TABLE leaf_alloc (biz_tag varchar(128) COLLATE folding PRIMARY KEY DEFAULT '',
        max_id bigint NOT NULL DEFAULT 1, step int NOT NULL, description varchar(256),
        update_time timestamptz NOT NULL DEFAULT now())";
    const LOOKALIKES: &'static [&'static str] = &["order"];
    const AROUND: [&'static str; 2] = ["ab", "\u{10000}"];
    const MADE: usize = 9;
    const ODD_TABLES: &'static [(&'static str, &'static str)] = &[
        (
            "CREATE TABLE leaf_alloc (biz_tag text PRIMARY KEY, max_id int)",
            "leaf_alloc.max_id is integer instead of bigint; leaf_alloc lacks the column step",
        ),
        (
            "CREATE TABLE leaf_alloc (biz_tag text, max_id bigint, step int, description text, update_time timestamp)",
            "not unique",
        ),
        ("CREATE VIEW leaf_alloc AS SELECT 'x' AS biz_tag", "is no table"),
        ("CREATE TABLE leafd_tag (x int)", "leafd_tag lacks the column tag"),
        // As it was before there were masked tags.
        (
            "CREATE TABLE leafd_tag (tag text COLLATE \"C\" PRIMARY KEY, generation bigint, ceiling bigint, strict int,
             highest_end bigint, role_version bigint)",
            "leafd_tag lacks the column masked",
        ),
    ];
    const TABLES_TIME: Duration = Duration::ZERO;
    const WAITING: &'static str = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    const ASKED_EVERY: Duration = Duration::from_millis(10);

    type Session = ::postgres::Client;

    fn new() -> Self {
        postgres::Database::new()
    }

    fn without_tables() -> Self {
        postgres::Database::without_tables()
    }

    fn name(&self) -> String {
        self.target(Self::ADMINISTRATOR).url.database
    }

    fn new_server(settings: &[&str]) -> Server {
        postgres::new_server(settings)
    }

    fn shared() -> &'static Server {
        postgres::shared()
    }

    fn is_up(server: &Server) -> bool {
        postgres::is_up(server)
    }

    fn target(server: &Server, user: &str, database: &str) -> Target {
        postgres::target(server, user, database)
    }

    fn target_at(url: &str, password: StorePassword) -> Target {
        postgres::target_at(url, password)
    }

    fn url(hosts: &str) -> String {
        format!("postgres://postgres@{hosts}/postgres")
    }

    fn open(target: Target) -> Box<Store> {
        Box::new(leafd::store::postgres::ENGINE.open(target))
    }

    fn apply(target: &Target) -> Result<Vec<&'static str>, StoreError> {
        leafd::store::postgres::ENGINE.apply(target)
    }

    fn session(server: &Server, database: &str) -> ::postgres::Client {
        postgres::client(server, database).unwrap()
    }

    fn run(session: &mut ::postgres::Client, sql: &str) {
        session.batch_execute(sql).unwrap();
    }

    fn number(session: &mut ::postgres::Client, sql: &str) -> i64 {
        session.query_one(sql, &[]).unwrap().get(0)
    }

    fn grant(&mut self, user: &str, privileges: &[(&str, &str)]) {
        self.execute(&format!(
            "DO $$ BEGIN CREATE ROLE {user} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
        ));
        for (privileges, table) in privileges {
            self.execute(&format!("GRANT {privileges} ON {table} TO {user}"));
        }
    }

    fn writer(_: &Server) -> &'static str {
        Self::ADMINISTRATOR
    }

    /// It counts for sessions that come later.
    fn set_writes(server: &Server, on: bool) {
        let word = if on { "off" } else { "on" };
        let mut session = Self::session(server, "postgres");
        for sql in [
            "SET transaction_read_only = off",
            &format!("ALTER SYSTEM SET default_transaction_read_only = {word}"),
            "SELECT pg_reload_conf()",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leafd'",
        ] {
            Self::run(&mut session, sql);
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}
