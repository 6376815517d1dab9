//! MariaDB and MySQL for checks: one server of each for all checks, a database for each check.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ::mysql::prelude::Queryable as _;
use ::mysql::{Conn, OptsBuilder};
use leafd::config::{StorePassword, StoreUrl};
use leafd::store::sql::Target;
use leafd::store::{Store, mysql};

use crate::mysqld::{Engine, Kind, OfMariaDb, OfMysql};
use crate::server::{Server, as_host};

pub const PASSWORD: &str = "seal";

/// A database that nobody else uses.
pub struct On<K> {
    name: String,
    kind: PhantomData<K>,
}

pub type Database = On<OfMariaDb>;
pub type Mysql = On<OfMysql>;

/// A server of one's own with a database `ids`; `root` needs no password over the socket, `remote` needs one over TCP.
pub fn new_server(engine: Engine, settings: &[&str]) -> Server {
    let own: &[&str] = match engine {
        Engine::MariaDb => &[],
        // So many numbers are counted to.
        Engine::Mysql => &["--cte-max-recursion-depth=100000"],
    };
    let mut server = engine.place(&[own, settings].concat());
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
    let Ok(StoreUrl::Mysql(mut url)) = url.parse() else { panic!("{url}") };
    // MySQL's logins ask for a readable password if the server has not seen the user before.
    url.plain_text |= url.tls.is_none();
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
pub fn shared(engine: Engine) -> &'static Server {
    static SHARED: [OnceLock<Server>; 2] = [OnceLock::new(), OnceLock::new()];
    SHARED[engine as usize].get_or_init(|| new_server(engine, &[]))
}

impl<K: Kind> On<K> {
    pub fn new() -> Self {
        let database = Self::without_tables();
        mysql::ENGINE.apply(&database.target("root")).unwrap();
        database
    }

    pub fn without_tables() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("check{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut client = client(shared(K::ENGINE), "mysql").unwrap();
        client.query_drop(format!("CREATE DATABASE {name} CHARACTER SET utf8mb4")).unwrap();
        On { name, kind: PhantomData }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn target(&self, user: &str) -> Target {
        target(shared(K::ENGINE), user, &self.name)
    }

    pub fn connect_as(&self, user: &str) -> Box<Store> {
        Box::new(mysql::ENGINE.open(self.target(user)))
    }

    /// Runs SQL as another program would.
    pub fn execute(&mut self, sql: &str) {
        let mut client = client(shared(K::ENGINE), &self.name).unwrap();
        for statement in sql.split(';').filter(|one| !one.trim().is_empty()) {
            client.query_drop(statement).unwrap();
        }
    }
}
