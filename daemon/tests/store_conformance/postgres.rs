//! PostgreSQL for checks: one server for all checks, a database for each.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leafd::config::{StorePassword, StoreUrl};
use leafd::store::sql::Target;
use leafd::store::{Store, postgres};

use crate::server::{Server, as_host};

pub const PASSWORD: &str = "elephant";

/// A database that nobody else uses.
pub struct Database {
    name: String,
}

/// A server of one's own; its superuser `postgres` needs the password over TCP only.
pub fn new_server(settings: &[&str]) -> Server {
    let bin = |program: &str| -> String {
        let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
        let mut found: Vec<_> = versions.map(|one| one.unwrap().path()).collect();
        found.sort();
        found.last().unwrap().join("bin").join(program).display().to_string()
    };
    let mut server = Server::new("postgres", "INT", |dir, port| {
        let dir = dir.display();
        let mut program = vec![bin("postgres"), "-D".to_owned(), format!("{dir}/data")];
        let port = format!("port={port}");
        let socket = format!("unix_socket_directories={dir}");
        let common =
            ["listen_addresses=127.0.0.1", &port, &socket, "fsync=off", "max_connections=200"];
        for setting in common.iter().chain(settings) {
            program.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        program
    });
    let (data, password) = (server.dir.join("data"), server.dir.join("password"));
    std::fs::write(&password, PASSWORD).unwrap();
    server.run(&[
        &bin("initdb"),
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
    server.start(is_up);
    server
}

pub fn is_up(server: &Server) -> bool {
    client(server, "postgres").is_ok()
}

pub fn client(server: &Server, database: &str) -> Result<::postgres::Client, ::postgres::Error> {
    ::postgres::Config::new()
        .host_path(&server.dir)
        .port(server.port)
        .user("postgres")
        .dbname(database)
        .connect(::postgres::NoTls)
}

/// Over the Unix socket.
pub fn target(server: &Server, user: &str, database: &str) -> Target {
    let host = format!("{}:{}", as_host(&server.dir), server.port);
    target_at(&format!("postgres://{user}@{host}/{database}"), StorePassword::None)
}

pub fn target_at(url: &str, password: StorePassword) -> Target {
    let Ok(StoreUrl::Postgres(url)) = url.parse() else { panic!("{url}") };
    Target {
        url,
        password,
        // Enough for the largest calls on a busy machine.
        connect_timeout: Duration::from_secs(30),
        patience_max: Duration::from_secs(30),
        statement_timeout: Duration::from_secs(30),
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
        postgres::ENGINE.apply(&database.target("postgres")).unwrap();
        database
    }

    pub fn without_tables() -> Database {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("check{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut client = client(shared(), "postgres").unwrap();
        client.batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        Database { name }
    }

    pub fn target(&self, user: &str) -> Target {
        target(shared(), user, &self.name)
    }

    pub fn connect_as(&self, user: &str) -> Box<Store> {
        Box::new(postgres::ENGINE.open(self.target(user)))
    }

    /// Runs SQL as another program would.
    pub fn execute(&mut self, sql: &str) {
        client(shared(), &self.name).unwrap().batch_execute(sql).unwrap();
    }
}
