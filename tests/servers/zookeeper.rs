//! ZooKeeper from Debian's package: one server, which is an ensemble too.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use super::process::Server;

/// A server of the test's own. Its longest session lasts 6 s.
pub struct ZooKeeper {
    process: Server,
}

/// Ticks are how ZooKeeper counts sessions' time: from 2 to 20 of them.
const SETTINGS: &str = "tickTime=300
admin.enableServer=false
forceSync=no
maxClientCnxns=0
4lw.commands.whitelist=srvr
clientPortAddress=127.0.0.1
";

fn program(dir: &Path, port: u16) -> Vec<String> {
    let settings = format!("{SETTINGS}dataDir={}/data\nclientPort={port}\n", dir.display());
    std::fs::write(dir.join("zoo.cfg"), settings).unwrap();
    let java = ["/usr/bin/java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"];
    let server =
        ["/usr/share/java/zookeeper.jar", "org.apache.zookeeper.server.ZooKeeperServerMain"];
    let config = format!("{}/zoo.cfg", dir.display());
    java.into_iter().chain(server).map(str::to_owned).chain([config]).collect()
}

/// Whether it answers, and as a server that serves.
fn is_up(process: &Server) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(("127.0.0.1", process.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        stream.write_all(b"srvr").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.contains("Mode:").then_some(())
    };
    ask().is_some()
}

impl ZooKeeper {
    /// A running server without nodes.
    pub fn new() -> ZooKeeper {
        let mut server = ZooKeeper { process: Server::new("zookeeper", "TERM", program) };
        server.start();
        server
    }

    /// Starts it again, with what it had.
    pub fn start(&mut self) {
        self.process.start(is_up);
    }

    /// Its process, folder and port. What it keeps is in `data` there.
    pub fn process(&self) -> &Server {
        &self.process
    }

    /// See [`ZooKeeper::process`].
    pub fn process_mut(&mut self) -> &mut Server {
        &mut self.process
    }

    /// As the setting `zookeeper`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.process.port)
    }
}

impl Default for ZooKeeper {
    fn default() -> ZooKeeper {
        ZooKeeper::new()
    }
}
