//! ZooKeeper from Debian's package: a single server, which is an ensemble of its own, or three.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::time::Duration;

use super::process::{Server, free_port};

/// A test's own server. Its longest session lasts 6 s.
pub struct ZooKeeper {
    /// Its process, folder and port. Its data is in the folder `data`.
    pub process: Server,
}

/// ZooKeeper measures sessions in ticks: from 2 to 20 of them.
const SETTINGS: &str = "tickTime=300
admin.enableServer=false
forceSync=no
maxClientCnxns=0
4lw.commands.whitelist=srvr
clientPortAddress=127.0.0.1
";

/// Additional settings for a server in an ensemble of several.
const TOGETHER: &str = "initLimit=20
syncLimit=10
";

fn program(dir: &Path, port: u16, together: &str) -> Vec<String> {
    let own = format!("dataDir={}/data\nclientPort={port}\n", dir.display());
    std::fs::write(dir.join("zoo.cfg"), format!("{SETTINGS}{own}{together}")).unwrap();
    let java = ["/usr/bin/java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"];
    // Alone, it is an ensemble of its own.
    let server =
        ["/usr/share/java/zookeeper.jar", "org.apache.zookeeper.server.quorum.QuorumPeerMain"];
    let config = format!("{}/zoo.cfg", dir.display());
    java.into_iter().chain(server).map(str::to_owned).chain([config]).collect()
}

/// Its role, as it reports it.
fn standing(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(b"srvr").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Whether it serves.
fn is_up(process: &Server) -> bool {
    serves(process.port)
}

fn serves(port: u16) -> bool {
    standing(port).is_some_and(|answer| answer.contains("Mode:"))
}

impl ZooKeeper {
    /// A running server without nodes.
    pub fn new() -> ZooKeeper {
        let place = |dir: &Path, port| program(dir, port, "");
        let mut server = ZooKeeper { process: Server::new("zookeeper", "TERM", place) };
        server.start();
        server
    }

    /// A running ensemble of three servers, two of which are enough to serve.
    pub fn three() -> [ZooKeeper; 3] {
        let ports: Vec<(u16, u16)> = (0..3).map(|_| (free_port(), free_port())).collect();
        let mut together = TOGETHER.to_owned();
        for (index, (follow, elect)) in ports.iter().enumerate() {
            together += &format!("server.{index}=127.0.0.1:{follow}:{elect}\n");
        }
        let mut servers = [0, 1, 2].map(|index| {
            let place = |dir: &Path, port| {
                let (data, owner) = (dir.join("data"), std::fs::metadata(dir).unwrap());
                std::fs::create_dir(&data).unwrap();
                std::fs::write(data.join("myid"), format!("{index}")).unwrap();
                chown(&data, Some(owner.uid()), Some(owner.gid())).unwrap();
                program(dir, port, &together)
            };
            ZooKeeper { process: Server::new("zookeeper", "TERM", place) }
        });
        // The first server doesn't serve before the second one is running.
        std::thread::scope(|scope| {
            for server in &mut servers {
                scope.spawn(|| server.start());
            }
        });
        servers
    }

    /// Whether it leads its ensemble.
    pub fn leads(&self) -> bool {
        standing(self.process.port).is_some_and(|answer| answer.contains("Mode: leader"))
    }

    /// A check, for a thread of its own, whether it serves.
    pub fn probe(&self) -> Box<dyn Fn() -> bool + Send> {
        let port = self.process.port;
        Box::new(move || serves(port))
    }

    /// Starts it again with its data.
    pub fn start(&mut self) {
        self.process.start(is_up);
    }

    /// Its address, in the form of the setting `zookeeper`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.process.port)
    }
}

impl Default for ZooKeeper {
    fn default() -> ZooKeeper {
        ZooKeeper::new()
    }
}
