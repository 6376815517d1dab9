//! ZooKeeper as a backend: one server for all checks, paths of its own for each.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leafd::config::StorePassword;
use leafd::registry::Registry;
use leafd::registry::zookeeper::{EnsembleTarget, LeasedRegistry, PermanentRegistry};
use leafd_core::registry::Mode;
use zookeeper_client::{Acls, Client, CreateMode};

// What the server's module builds on.
use crate::server as process;
use crate::{Backend, snapshot};

#[path = "../../../tests/servers/zookeeper.rs"]
#[expect(dead_code, reason = "others need an ensemble of several servers")]
mod server;

/// Two paths that nobody else uses, because one has one mode.
pub struct Paths {
    count: u32,
}

fn shared() -> &'static server::ZooKeeper {
    static SHARED: OnceLock<server::ZooKeeper> = OnceLock::new();
    SHARED.get_or_init(server::ZooKeeper::new)
}

/// Does `work` over a connection to this path.
fn with_client(path: &str, work: impl AsyncFnOnce(&Client)) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let address = format!("{}{path}", shared().address());
        // Entering a large pool keeps a busy machine longer than a session lasts by default.
        let connector = Client::connector().with_session_timeout(Duration::from_secs(40));
        let client = connector.connect(&address).await.unwrap();
        work(&client).await;
    });
}

impl Paths {
    pub fn new() -> Paths {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let paths = Paths { count: COUNT.fetch_add(1, Ordering::Relaxed) };
        with_client("", async |client| {
            for mode in [Mode::Leased, Mode::Permanent] {
                let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
                client.create(&paths.path(mode), b"", &options).await.unwrap();
            }
        });
        paths
    }

    fn path(&self, mode: Mode) -> String {
        format!("/{mode:?}{}", self.count)
    }
}

impl Backend for Paths {
    fn connect(&mut self, mode: Mode) -> Box<dyn Registry> {
        let target = EnsembleTarget {
            servers: format!("{}{}", shared().address(), self.path(mode)).parse().unwrap(),
            auth: StorePassword::None,
            connect_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(30),
        };
        match mode {
            Mode::Leased => Box::new(LeasedRegistry::open(target)),
            Mode::Permanent => {
                Box::new(PermanentRegistry::open(target, &"ids".parse().unwrap(), false))
            }
        }
    }

    /// Without waiting for each.
    fn fill(&mut self, workers: Range<u64>) {
        snapshot(&mut *self.connect(Mode::Leased), 0..0);
        with_client(&self.path(Mode::Leased), async |client| {
            let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
            let workers: Vec<u64> = workers.collect();
            for some in workers.chunks(1024) {
                let paths: Vec<_> =
                    some.iter().map(|worker| format!("/leafd/workers/{worker:05}")).collect();
                let free = br#"{"holder":null,"bound":1,"seen":0}"#;
                let made: Vec<_> =
                    paths.iter().map(|path| client.create(path, free, &options)).collect();
                for one in made {
                    one.await.unwrap();
                }
            }
        });
    }
}
