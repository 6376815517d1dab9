//! PostgreSQL under Patroni with etcd, from Debian's packages: two nodes, one of which Patroni makes the leader.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postgres::{Config, NoTls};

use super::haproxy::Behind;
use super::health;
use super::postgres::{bin_dir, rows};
use super::process::{Server as Process, children, free_port, gone};
use super::{DATABASE, PASSWORD, Postgres, Server as _, USER, apply_schema};
use crate::host::eventually;

/// How long a change of the leader may take on a busy machine.
const LEADS_WITHIN: Duration = Duration::from_secs(60);

/// How long a node may take to accept the test's own login.
const CONNECTS_WITHIN: Duration = Duration::from_secs(2);

/// Two nodes, and the etcd through which they coordinate.
pub struct Patroni {
    pub nodes: [Node; 2],
    synchronous: bool,
    _etcd: Process,
}

/// Patroni and its PostgreSQL, each on one port of the loopback interface for its whole life.
pub struct Node {
    pub process: Process,
    /// The port of Patroni's interface.
    pub rest: u16,
    name: String,
}

/// Patroni leaves its server running when it is killed, or when it ends while paused.
const PROGRAM: &str = r#"
patroni node.yml &
patroni=$!
trap 'kill -KILL $patroni' TERM
wait $patroni
read -r server <data/postmaster.pid || exit
kill -QUIT "$server"
while kill -0 "$server" 2>/dev/null; do sleep 0.05; done"#;

fn settings(dir: &Path, port: u16, rest: u16, etcd: u16, synchronous: bool) -> String {
    let (dir, bin_dir) = (dir.display(), bin_dir().display().to_string());
    format!(
        "scope: leafd
name: node{port}
restapi: {{listen: '127.0.0.1:{rest}', connect_address: '127.0.0.1:{rest}'}}
etcd3: {{hosts: '127.0.0.1:{etcd}'}}
bootstrap:
  dcs:
    ttl: 10
    loop_wait: 1
    retry_timeout: 3
    synchronous_mode: {synchronous}
    postgresql:
      use_pg_rewind: true
      use_slots: true
      parameters: {{wal_keep_size: 256MB, max_connections: 100, wal_log_hints: 'on'}}
  initdb: [encoding: UTF8, locale: C.UTF-8, no-sync]
postgresql:
  listen: '127.0.0.1:{port}'
  connect_address: '127.0.0.1:{port}'
  data_dir: {dir}/data
  bin_dir: {bin_dir}
  pgpass: {dir}/pgpass
  authentication:
    superuser: {{username: postgres, password: {PASSWORD}}}
    replication: {{username: follower, password: {PASSWORD}}}
  pg_hba: ['local all all trust', 'host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust']
  parameters: {{unix_socket_directories: '{dir}', fsync: 'off', shared_buffers: 16MB}}
"
    )
}

// === impl Node ===

impl Node {
    fn new(etcd: u16, synchronous: bool) -> Node {
        let rest = free_port();
        let process = Process::new("postgres", "TERM", |dir, port| {
            let text = settings(dir, port, rest, etcd, synchronous);
            std::fs::write(dir.join("node.yml"), text).unwrap();
            ["/bin/sh", "-c", PROGRAM].map(str::to_owned).into()
        });
        let name = format!("node{}", process.port);
        Node { process, rest, name }
    }

    /// Starts it, and waits until its server is the leader or follows it.
    pub fn start(&mut self) {
        let rest = self.rest;
        self.process.start(|_| is(rest, "primary") || is(rest, "replica"));
    }

    /// Whether it is the leader.
    pub fn leads(&self) -> bool {
        is(self.rest, "primary")
    }

    /// Runs statements as an administrator.
    #[track_caller]
    pub fn sql(&self, database: &str, sql: &str) -> Vec<Vec<String>> {
        rows(&mut administrator(self.process.port, database).unwrap(), sql)
    }

    /// Kills Patroni and its server at the same time, as if the host had crashed.
    pub fn kill(&mut self) {
        let server = self.server();
        let mut all = children(server);
        all.push(server);
        self.process.kill();
        kill_all(&all);
    }

    /// Kills the server alone.
    pub fn kill_server(&self) {
        let server = self.server();
        let mut all = children(server);
        all.insert(0, server);
        kill_all(&all);
    }

    /// The server's process, once there is one, because Patroni stops it to rewind it.
    #[track_caller]
    fn server(&self) -> Pid {
        let path = self.process.dir.join("data/postmaster.pid");
        eventually("a server runs", LEADS_WITHIN, || {
            let pid = std::fs::read_to_string(&path).ok()?.lines().next()?.parse().ok()?;
            Some(Pid::from_raw(pid))
        })
    }

    /// The process with which a follower receives the leader's commits.
    #[track_caller]
    pub fn receiver(&self) -> Pid {
        eventually("the follower's receiver", LEADS_WITHIN, || {
            children(self.server()).into_iter().find(|pid| {
                let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
                command.is_ok_and(|command| command.contains("walreceiver"))
            })
        })
    }

    /// How often its files were rewound to follow another leader.
    pub fn rewinds(&self) -> usize {
        let log = std::fs::read_to_string(self.process.dir.join("log")).unwrap();
        log.matches("running pg_rewind from").count()
    }

    /// A check, for a thread of its own, whether a write can be committed here.
    pub fn probe(&self) -> impl Fn() -> bool + Send + 'static {
        let port = self.process.port;
        move || {
            let statement = format!("UPDATE probe SET at = now() WHERE node = {port}");
            let written = administrator(port, "postgres")
                .and_then(|mut client| client.batch_execute(&statement));
            written.is_ok()
        }
    }
}

fn kill_all(processes: &[Pid]) {
    for process in processes {
        // A process may have ended already.
        let _ = kill(*process, Signal::SIGKILL);
    }
    eventually("killed processes end", LEADS_WITHIN, || {
        processes.iter().all(|process| gone(*process)).then_some(())
    });
}

fn administrator(port: u16, database: &str) -> Result<postgres::Client, postgres::Error> {
    Config::new()
        .host("127.0.0.1")
        .port(port)
        .user("postgres")
        .dbname(database)
        .connect_timeout(CONNECTS_WITHIN)
        .connect(NoTls)
}

/// Whether Patroni reports this role for its server.
fn is(rest: u16, role: &str) -> bool {
    health::request(rest, "GET", &format!("/{role}"), "").is_some_and(|(status, _)| status == 200)
}

// === impl Patroni ===

impl Patroni {
    /// A running cluster with leafd's tables. The first node leads.
    pub fn new(synchronous: bool) -> Patroni {
        let peers = free_port();
        let mut etcd = Process::new("etcd", "TERM", |dir, port| {
            let (clients, peers) =
                (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peers}"));
            let (dir, cluster) = (format!("{}/data", dir.display()), format!("default={peers}"));
            let options = [
                ("data-dir", dir.as_str()),
                ("listen-client-urls", &clients),
                ("advertise-client-urls", &clients),
                ("listen-peer-urls", &peers),
                ("initial-advertise-peer-urls", &peers),
                ("initial-cluster", &cluster),
            ];
            let options = options.map(|(name, value)| format!("--{name}={value}"));
            std::iter::once("/usr/bin/etcd".to_owned()).chain(options).collect()
        });
        etcd.start(|etcd| {
            health::request(etcd.port, "GET", "/health", "")
                .is_some_and(|(status, _)| status == 200)
        });
        let mut nodes = [(); 2].map(|()| Node::new(etcd.port, synchronous));
        for node in &mut nodes {
            node.start();
        }
        let cluster = Patroni { nodes, synchronous, _etcd: etcd };
        cluster.leader();
        let [first, second] = &cluster.nodes;
        first.sql("postgres", &format!("CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'"));
        first.sql("postgres", &format!("CREATE DATABASE {DATABASE} OWNER {USER}"));
        let (one, other) = (first.process.port, second.process.port);
        first.sql("postgres", "CREATE TABLE probe (node int PRIMARY KEY, at timestamptz)");
        first
            .sql("postgres", &format!("INSERT INTO probe VALUES ({one}, now()), ({other}, now())"));
        apply_schema(&cluster.url());
        cluster
    }

    /// A store's URL with both nodes.
    pub fn url(&self) -> String {
        Postgres::url_of(&self.nodes.each_ref().map(|node| node.process.port), DATABASE)
    }

    /// Waits for a leader, and returns which node it is.
    #[track_caller]
    pub fn leader(&self) -> usize {
        eventually("a node leads", LEADS_WITHIN, || self.nodes.iter().position(Node::leads))
    }

    /// Waits until the follower may take over. A synchronous one must have all commits.
    #[track_caller]
    pub fn may_change(&self) {
        let role = if self.synchronous { "synchronous" } else { "replica" };
        let follower = self.nodes[1 - self.leader()].rest;
        eventually("the follower may take over", LEADS_WITHIN, || is(follower, role).then_some(()));
    }

    /// Waits until the other node leads.
    #[track_caller]
    pub fn other_leads(&self, than: usize) {
        let node = &self.nodes[1 - than];
        eventually("the other node leads", LEADS_WITHIN, || node.leads().then_some(()));
    }

    /// Makes the leader and its follower swap roles cleanly.
    #[track_caller]
    pub fn switch_over(&self) {
        let leader = self.leader();
        let [from, to] = [&self.nodes[leader], &self.nodes[1 - leader]];
        let body = format!(r#"{{"leader": "{}", "candidate": "{}"}}"#, from.name, to.name);
        eventually("a switchover", LEADS_WITHIN, || {
            // Refused until the follower is ready.
            let (status, _) = health::request(from.rest, "POST", "/switchover", &body)?;
            (status == 200).then_some(())
        });
        self.other_leads(leader);
    }

    /// Makes Patroni pause, or resume.
    #[track_caller]
    pub fn pause(&self, on: bool) {
        let rest = self.nodes[0].rest;
        let answer = health::request(rest, "PATCH", "/config", &format!(r#"{{"pause": {on}}}"#));
        assert!(matches!(answer, Some((200, _))), "{answer:?}");
    }

    /// The nodes as seen by a proxy. Patroni reports whether a node leads.
    pub fn behind(&self) -> [Behind; 2] {
        let behind =
            |node: &Node| Behind { port: node.process.port, health: node.rest, path: "/primary" };
        self.nodes.each_ref().map(behind)
    }

    /// Checks whether each node accepts writes.
    pub fn probes(&self) -> Vec<Box<dyn Fn() -> bool + Send>> {
        let boxed = |node: &Node| Box::new(node.probe()) as Box<dyn Fn() -> bool + Send>;
        self.nodes.iter().map(boxed).collect()
    }
}
