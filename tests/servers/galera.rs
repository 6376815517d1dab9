//! A Galera cluster of three MariaDB nodes, from Debian's packages. The nodes together are one store, and each can
//! serve it.

use std::path::Path;
use std::time::Duration;

use mysql::prelude::Queryable as _;
use mysql::{Conn, OptsBuilder};

use super::haproxy::Behind;
use super::health;
use super::mysql::rows;
use super::process::{Server as Process, free_port};
use super::{DATABASE, MariaDb, PASSWORD, Server as _, USER, apply_schema};
use crate::host::eventually;

/// How long a node may take to answer the test itself.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// How long a node may take to rejoin.
const WHOLE_WITHIN: Duration = Duration::from_secs(60);

/// The table that probes write to.
pub(super) const PROBES: &str = "CREATE DATABASE probes;
    CREATE TABLE probes.probe (node INT PRIMARY KEY, at DATETIME(6)) ENGINE = InnoDB";

/// A node, which keeps one port of the loopback interface for its whole life.
pub struct Node {
    pub process: Process,
}

/// Three nodes.
pub struct Galera {
    pub nodes: [Node; 3],
}

/// The ports by which a node talks to the others.
struct Ports {
    group: u16,
    transfer: u16,
    incremental: u16,
}

/// A node that finds `bootstrap` in its folder starts a cluster of its own, once.
const PROGRAM: &str = r#"
[ ! -e bootstrap ] || { rm bootstrap; set -- --wsrep-new-cluster; }
exec /usr/sbin/mariadbd --defaults-file="$PWD/my.cnf" "$@""#;

fn settings(dir: &Path, port: u16, own: &Ports, all: &[Ports]) -> String {
    let dir = dir.display();
    let Ports { group, transfer, incremental } = own;
    let members: Vec<String> = all.iter().map(|one| format!("127.0.0.1:{}", one.group)).collect();
    format!(
        "[mariadbd]
datadir={dir}/data
tmpdir={dir}
socket={dir}/socket
pid-file={dir}/pid
port={port}
server-id={port}
bind-address=127.0.0.1
skip-name-resolve
innodb-buffer-pool-size=32M
innodb-flush-log-at-trx-commit=1
innodb-autoinc-lock-mode=2
binlog-format=ROW
wsrep-on=ON
wsrep-provider=/usr/lib/galera/libgalera_smm.so
wsrep-cluster-name=leafd
wsrep-cluster-address=gcomm://{}
wsrep-node-name=node{port}
wsrep-node-address=127.0.0.1
wsrep-node-incoming-address=127.0.0.1:{port}
wsrep-sst-method=rsync
wsrep-sst-receive-address=127.0.0.1:{transfer}
wsrep-provider-options=\"base_port={group};gmcast.listen_addr=tcp://127.0.0.1:{group};\
ist.recv_addr=127.0.0.1:{incremental};gcache.size=16M\"
",
        members.join(",")
    )
}

// === impl Node ===

impl Node {
    /// An administrator's connection.
    pub fn connection(&self) -> Result<Conn, mysql::Error> {
        connect(&self.process.dir)
    }

    /// Runs statements as an administrator.
    #[track_caller]
    pub fn sql(&self, sql: &str) -> Vec<Vec<String>> {
        rows(&mut self.connection().unwrap(), sql)
    }

    /// Starts it again with its data, and waits until it serves.
    pub fn start(&mut self) {
        self.process.start(is_ready);
    }

    /// Starts the stopped node as a cluster of its own, even if the other nodes have data that it lacks.
    pub fn bootstrap(&mut self) {
        let state = self.process.dir.join("data/grastate.dat");
        let text = std::fs::read_to_string(&state).unwrap();
        std::fs::write(&state, text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1"))
            .unwrap();
        std::fs::write(self.process.dir.join("bootstrap"), "").unwrap();
        self.start();
    }

    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// SIGSTOP: the other nodes get no answer, and its connections stay open.
    pub fn freeze(&self) {
        self.process.freeze();
    }

    pub fn thaw(&self) {
        self.process.thaw();
    }

    /// Whether it belongs to a primary component.
    pub fn is_ready(&self) -> bool {
        is_ready(&self.process)
    }

    /// Cuts it off from the other nodes but not from its clients, or reconnects it.
    pub fn isolate(&self, on: bool) {
        let value = i32::from(on);
        self.sql(&format!("SET GLOBAL wsrep_provider_options = 'gmcast.isolate={value}'"));
    }

    /// Makes the node answer every client's query with an error, or stops that.
    pub fn reject(&self, on: bool) {
        self.sql(&format!("SET GLOBAL wsrep_reject_queries = {}", if on { "ALL" } else { "NONE" }));
    }

    /// Keeps what new sessions write from the cluster, and ends the daemons' sessions; or undoes that.
    pub fn stop_replicating(&self, on: bool) {
        self.sql(&format!("SET GLOBAL wsrep_on = {}", if on { "OFF" } else { "ON" }));
        if on {
            self.sql("KILL USER leafd");
        }
    }

    /// Deletes its data while it is stopped. At its next start another node sends it everything.
    pub fn wipe(&self) {
        let data = self.process.dir.join("data");
        std::fs::remove_dir_all(&data).unwrap();
        self.process.run(&["/bin/mkdir", data.to_str().unwrap()]);
    }

    /// A check, for a thread of its own, whether a write can be committed at this server.
    pub fn probe(&self) -> impl Fn() -> bool + Send + 'static {
        probe(&self.process)
    }
}

/// A check, for a thread of its own, whether a write can be committed at this server.
pub(super) fn probe(process: &Process) -> impl Fn() -> bool + Send + 'static {
    let (dir, port) = (process.dir.clone(), process.port);
    move || {
        let statement = format!("REPLACE INTO probes.probe VALUES ({port}, NOW(6))");
        connect(&dir).is_ok_and(|mut node| node.query_drop(statement).is_ok())
    }
}

/// Connects as an administrator, for whom the server should take only a moment.
pub(super) fn connect(dir: &Path) -> Result<Conn, mysql::Error> {
    let options = OptsBuilder::new().socket(dir.join("socket").to_str()).user(Some("root"));
    let bound = Some(ANSWERS_WITHIN);
    Conn::new(options.read_timeout(bound).write_timeout(bound))
}

/// One line of a node's status.
fn status(dir: &Path, name: &str) -> Option<String> {
    let line: Option<(String, String)> =
        connect(dir).ok()?.query_first(format!("SHOW GLOBAL STATUS LIKE '{name}'")).ok()?;
    line.map(|(_, value)| value)
}

fn is_ready(process: &Process) -> bool {
    status(&process.dir, "wsrep_ready").is_some_and(|ready| ready == "ON")
}

/// Checks like usual health checks of nodes: a node that lags, or that sends its data to another one, is not used.
fn is_well(dir: &Path) -> bool {
    let rejects = || -> Option<String> {
        connect(dir).ok()?.query_first("SELECT @@GLOBAL.wsrep_reject_queries").ok()?
    };
    status(dir, "wsrep_local_state").is_some_and(|state| state == "4")
        && rejects().is_some_and(|rejects| rejects == "NONE")
}

// === impl Galera ===

impl Galera {
    /// A running cluster with leafd's tables.
    pub fn new() -> Galera {
        let all = [(); 3].map(|()| Ports {
            group: free_port(),
            transfer: free_port(),
            incremental: free_port(),
        });
        let mut nodes = [0, 1, 2].map(|index: usize| {
            let process = Process::new("mysql", "TERM", |dir, port| {
                let text = settings(dir, port, &all[index], &all);
                std::fs::write(dir.join("my.cnf"), text).unwrap();
                ["/bin/sh", "-c", PROGRAM, "sh"].map(str::to_owned).into()
            });
            process.run(&["/bin/mkdir", process.dir.join("data").to_str().unwrap()]);
            Node { process }
        });
        let first = &nodes[0].process;
        first.run(&[
            "/usr/bin/mariadb-install-db",
            &format!("--defaults-file={}/my.cnf", first.dir.display()),
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]);
        std::fs::write(first.dir.join("bootstrap"), "").unwrap();
        nodes.iter_mut().for_each(Node::start);
        let cluster = Galera { nodes };
        cluster.is_whole();
        cluster.nodes[0].sql(&format!(
            "CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}';
             CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4;
             GRANT ALL ON {DATABASE}.* TO {USER}@'%';
             {PROBES}"
        ));
        apply_schema(&cluster.url_from(0));
        cluster
    }

    /// A store's URL with all nodes, starting with this one.
    pub fn url_from(&self, first: usize) -> String {
        let mut ports = self.nodes.each_ref().map(|node| node.process.port);
        ports.rotate_left(first);
        MariaDb::url_of(&ports, DATABASE)
    }

    /// Waits until all nodes serve and see each other. A node that was stopped or cut off notices this late.
    #[track_caller]
    pub fn is_whole(&self) {
        let sees_all = |node: &Node| {
            let size = status(&node.process.dir, "wsrep_cluster_size");
            size.is_some_and(|size| size == "3") && is_ready(&node.process)
        };
        let whole = || self.nodes.iter().all(sees_all).then_some(());
        eventually("the cluster is whole", WHOLE_WITHIN, whole);
    }

    /// The node that most daemons are connected to.
    pub fn in_use(&self) -> usize {
        let sessions = |node: &Node| {
            let of_daemons = "FROM information_schema.processlist WHERE user = 'leafd'";
            node.sql(&format!("SELECT count(*) {of_daemons}"))[0][0].parse::<u32>().unwrap()
        };
        let counts = self.nodes.each_ref().map(sessions);
        (0..counts.len()).rev().max_by_key(|index| counts[*index]).expect("there are nodes")
    }

    /// The nodes as seen by a proxy. Each one's health check reads the node's own state.
    pub fn behind(&self) -> [Behind; 3] {
        self.nodes.each_ref().map(|node| {
            let dir = node.process.dir.clone();
            let health = health::answer(move || is_well(&dir));
            Behind { port: node.process.port, health, path: "/" }
        })
    }

    /// Checks whether each node serves.
    pub fn probes(&self) -> Vec<Box<dyn Fn() -> bool + Send>> {
        let boxed = |node: &Node| Box::new(node.probe()) as Box<dyn Fn() -> bool + Send>;
        self.nodes.iter().map(boxed).collect()
    }
}

impl Default for Galera {
    fn default() -> Galera {
        Galera::new()
    }
}
