//! MariaDB for checks: one server for all checks, a database for each.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ::mysql::prelude::Queryable as _;
use ::mysql::{Conn, OptsBuilder};
use leafd::config::{StorePassword, StoreUrl};
use leafd::store::sql::Target;
use leafd::store::{Store, mysql};

use crate::server::{Server, as_host};

pub const PASSWORD: &str = "seal";

/// A database that nobody else uses.
pub struct Database {
    name: String,
}

/// A server of one's own with a database `ids`; `root` needs no password over the socket, `remote` needs one over TCP.
pub fn new_server(settings: &[&str]) -> Server {
    let mut server = Server::new("mysql", "TERM", |dir, port| {
        let dir = dir.display();
        let mut program: Vec<String> =
            ["/usr/sbin/mariadbd", "--no-defaults", "--bind-address=127.0.0.1"]
                .map(String::from)
                .into();
        program.push(format!("--datadir={dir}/data"));
        // A server that starts deletes temporary tables there, also those of another one.
        program.push(format!("--tmpdir={dir}"));
        program.push(format!("--socket={dir}/socket"));
        program.push(format!("--pid-file={dir}/pid"));
        program.push(format!("--port={port}"));
        program.push("--innodb-buffer-pool-size=32M".to_owned());
        program.extend(settings.iter().map(|setting| (*setting).to_owned()));
        program
    });
    let data = server.dir.join("data");
    server.run(&[
        "/usr/bin/mariadb-install-db",
        "--no-defaults",
        &format!("--datadir={}", data.display()),
        &format!("--tmpdir={}", server.dir.display()),
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
    ]);
    server.start(is_up);
    let mut client = client(&server, "mysql").unwrap();
    let user = format!("'remote'@'%' IDENTIFIED BY '{PASSWORD}'");
    client.query_drop("CREATE DATABASE ids CHARACTER SET utf8mb4").unwrap();
    client.query_drop(format!("CREATE USER {user}")).unwrap();
    client.query_drop("GRANT ALL ON *.* TO 'remote'@'%'").unwrap();
    server
}

pub fn is_up(server: &Server) -> bool {
    client(server, "mysql").is_ok()
}

pub fn client(server: &Server, database: &str) -> Result<Conn, ::mysql::Error> {
    let socket = server.dir.join("socket");
    let opts = OptsBuilder::new().socket(socket.to_str()).user(Some("root"));
    Conn::new(opts.db_name(Some(database)))
}

/// Over the Unix socket.
pub fn target(server: &Server, user: &str, database: &str) -> Target {
    let host = as_host(Path::new(&server.dir.join("socket")));
    target_at(&format!("mysql://{user}@{host}/{database}"), StorePassword::None)
}

pub fn target_at(url: &str, password: StorePassword) -> Target {
    let Ok(StoreUrl::Mysql(url)) = url.parse() else { panic!("{url}") };
    Target {
        url,
        password,
        connect_timeout: Duration::from_secs(5),
        statement_timeout: Duration::from_secs(5),
        leaf_only: false,
        untested_engine: false,
    }
}

/// The server that all checks share. It ends with the process.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| new_server(&[]))
}

impl Database {
    pub fn new() -> Database {
        let database = Database::without_tables();
        mysql::apply(&database.target("root")).unwrap();
        database
    }

    pub fn without_tables() -> Database {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("check{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut client = client(shared(), "mysql").unwrap();
        client.query_drop(format!("CREATE DATABASE {name} CHARACTER SET utf8mb4")).unwrap();
        Database { name }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn target(&self, user: &str) -> Target {
        target(shared(), user, &self.name)
    }

    pub fn connect_as(&self, user: &str) -> Box<dyn Store> {
        Box::new(mysql::open(self.target(user)))
    }

    /// Runs SQL as another program would.
    pub fn execute(&mut self, sql: &str) {
        let mut client = client(shared(), &self.name).unwrap();
        for statement in sql.split(';').filter(|one| !one.trim().is_empty()) {
            client.query_drop(statement).unwrap();
        }
    }
}
