//! HAProxy from Debian's package: one address for all servers of a cluster. It checks their health over HTTP.

use std::time::Duration;

use super::health;
use super::process::{Server as Process, free_port};
use crate::host::eventually;

/// How long it may take to find a healthy server.
const SERVES_WITHIN: Duration = Duration::from_secs(30);

/// A proxy that is running.
pub struct HaProxy {
    pub process: Process,
}

/// A server behind it: its port, and the port and path that answer 200 while the server may be used.
pub struct Behind {
    pub port: u16,
    pub health: u16,
    pub path: &'static str,
}

/// Which healthy server a connection goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Always to the first one.
    First,
    /// To each in turn.
    RoundRobin,
}

fn settings(port: u16, status: u16, behind: &[Behind], balance: Balance) -> String {
    let (path, mut servers) = (behind[0].path, String::new());
    for (index, one) in behind.iter().enumerate() {
        let backup = if balance == Balance::First && index > 0 { " backup" } else { "" };
        let Behind { port, health, .. } = one;
        servers +=
            &format!("    server server{index} 127.0.0.1:{port} check port {health}{backup}\n");
    }
    format!(
        "defaults
    mode tcp
    timeout connect 2s
    timeout client 1m
    timeout server 1m
listen store
    bind 127.0.0.1:{port}
    balance roundrobin
    option httpchk GET {path}
    http-check expect status 200
    default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
{servers}frontend status
    mode http
    timeout client 1m
    bind 127.0.0.1:{status}
    monitor-uri /
    monitor fail if {{ nbsrv(store) eq 0 }}
"
    )
}

impl HaProxy {
    /// A proxy in front of these servers, one of which is healthy.
    pub fn before(behind: &[Behind], balance: Balance) -> HaProxy {
        let status = free_port();
        let mut process = Process::new("haproxy", "TERM", |dir, port| {
            let config = dir.join("haproxy.cfg");
            std::fs::write(&config, settings(port, status, behind, balance)).unwrap();
            ["/usr/sbin/haproxy", "-db", "-f", config.to_str().unwrap()].map(str::to_owned).into()
        });
        let serves = || matches!(health::request(status, "GET", "/", ""), Some((200, _)));
        process.start(|_| health::request(status, "GET", "/", "").is_some());
        eventually("the proxy finds a server", SERVES_WITHIN, || serves().then_some(()));
        HaProxy { process }
    }

    /// The proxy's port.
    pub fn port(&self) -> u16 {
        self.process.port
    }
}
