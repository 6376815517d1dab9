//! The registries that fleets claim their workers in, each on a real server: one that the tests share, or one of its own
//! for a test that stops it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use leafd_tests::host::Host;
use leafd_tests::relay::Relay;
use leafd_tests::servers::zookeeper::ZooKeeper;
use leafd_tests::servers::{DATABASE, MariaDb, Mysql, Postgres, Server, apply_schema};
use zookeeper_client::{Acls, Client, CreateMode};

/// A kind of server that can be a registry.
pub trait Backend: Send + Sync + Sized + 'static {
    /// What it is, in a measured line.
    const TITLE: &'static str;

    /// A running server of the test's own.
    fn new_server() -> Self;

    /// The one that tests share. It ends with the process.
    fn shared() -> &'static Self;

    /// Where it listens on the loopback interface.
    fn listens_on(&self) -> u16;

    /// Makes an empty registry there.
    fn make_place(&self, place: &str);

    /// Has a host claim its worker there, connecting to this port.
    fn lead(host: Host, port: u16, place: &str) -> Host;

    /// Has it claim one for good.
    fn keep_for_good(host: Host) -> Host {
        host.set("worker_mode", "permanent")
    }

    /// Enters somebody who has a number for good and is not of leafd's. Tells the number.
    fn enter_leaf(&self, place: &str, address: &str) -> u64;

    /// SIGSTOP.
    fn pause(&self);

    /// SIGCONT.
    fn resume(&self);

    /// `kill -9`.
    fn crash(&mut self);

    /// Starts it again, with what it had.
    fn restart(&mut self);
}

/// An empty registry of the test's own.
pub struct Registry<B: Backend> {
    /// A server that nobody else uses.
    pub own: Option<B>,
    /// Between the hosts and the server.
    pub relay: Relay,
    place: String,
}

impl<B: Backend> Registry<B> {
    /// On the server that tests share.
    pub fn shared() -> Registry<B> {
        Registry::on(None)
    }

    /// On a server that may be stopped.
    pub fn own() -> Registry<B> {
        Registry::on(Some(B::new_server()))
    }

    fn on(own: Option<B>) -> Registry<B> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let place = format!("{DATABASE}_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let server = own.as_ref().unwrap_or_else(|| B::shared());
        server.make_place(&place);
        Registry { relay: Relay::to(server.listens_on()), own, place }
    }

    /// A host whose claims last so long.
    pub fn host(&self, lease: &str) -> Host {
        // In memory, like the journal: no disk's pace is measured.
        let host = Host::on_store("");
        let store = format!("sqlite:{}", host.path("store.db").display());
        let host = host
            .set("store", &store)
            .set("lease", lease)
            .set("store_connect_timeout", "1s")
            .set("store_statement_timeout", "1s");
        B::lead(host, self.relay.port(), &self.place)
    }

    /// A host that has a number for good.
    pub fn permanent_host(&self, identity: &str) -> Host {
        B::keep_for_good(self.host("1m")).set("identity", identity)
    }

    /// See [`Backend::enter_leaf`].
    pub fn enter_leaf(&self, address: &str) -> u64 {
        self.own.as_ref().unwrap_or_else(|| B::shared()).enter_leaf(&self.place, address)
    }

    /// The server that is the test's own.
    pub fn server(&mut self) -> &mut B {
        self.own.as_mut().expect("a server of its own")
    }
}

macro_rules! sql_backend {
    ($server:ty) => {
        impl Backend for $server {
            const TITLE: &'static str = <$server as Server>::NAME;

            fn new_server() -> Self {
                <$server>::empty(&[])
            }

            fn shared() -> &'static Self {
                static SHARED: OnceLock<$server> = OnceLock::new();
                SHARED.get_or_init(Self::new_server)
            }

            fn listens_on(&self) -> u16 {
                self.port()
            }

            fn make_place(&self, place: &str) {
                self.create_database(place);
                apply_schema(&<$server>::url_of(&[self.port()], place));
            }

            fn lead(host: Host, port: u16, place: &str) -> Host {
                host.set("store", &<$server>::url_of(&[port], place))
            }

            fn enter_leaf(&self, place: &str, address: &str) -> u64 {
                let last = "SELECT COALESCE(MAX(id), 0) FROM leaf_workerid_alloc";
                let next: u64 = self.ask(place, last)[0][0].parse::<u64>().unwrap() + 1;
                let (ip, port) = address.split_once(':').unwrap();
                self.ask(
                    place,
                    &format!(
                        "INSERT INTO leaf_workerid_alloc (id, ip, port, ip_port, max_timestamp)
                         VALUES ({next}, '{ip}', '{port}', '{address}', 0)"
                    ),
                );
                next
            }

            fn pause(&self) {
                self.freeze();
            }

            fn resume(&self) {
                self.thaw();
            }

            fn crash(&mut self) {
                Server::kill(self);
            }

            fn restart(&mut self) {
                Server::start(self);
            }
        }
    };
}

sql_backend!(Postgres);
sql_backend!(MariaDb);
sql_backend!(Mysql);

/// The Leaf service whose nodes give numbers for good.
const SERVICE: &str = "acme";

/// Does something as a client that knows nothing of leafd.
fn at_zookeeper<T>(server: &ZooKeeper, work: impl AsyncFnOnce(Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { work(Client::connect(&server.address()).await.unwrap()).await })
}

/// Writes to the ensemble, as others do who use it.
pub fn write_to_zookeeper(server: &ZooKeeper, writes: u32) {
    at_zookeeper(server, async |client| {
        for _ in 0..writes {
            client.set_data("/", b"", None).await.unwrap();
        }
    });
}

impl Backend for ZooKeeper {
    const TITLE: &'static str = "ZooKeeper";

    fn new_server() -> Self {
        ZooKeeper::new()
    }

    fn shared() -> &'static Self {
        static SHARED: OnceLock<ZooKeeper> = OnceLock::new();
        SHARED.get_or_init(ZooKeeper::new)
    }

    fn listens_on(&self) -> u16 {
        self.process.port
    }

    fn make_place(&self, place: &str) {
        let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
        at_zookeeper(self, async |client| {
            client.create(&format!("/{place}"), b"", &open).await.unwrap();
        });
    }

    fn lead(host: Host, port: u16, place: &str) -> Host {
        host.set("worker", "zookeeper").set("zookeeper", &format!("127.0.0.1:{port}/{place}"))
    }

    fn keep_for_good(host: Host) -> Host {
        host.set("worker_mode", "permanent").set("leaf_name", SERVICE)
    }

    fn enter_leaf(&self, place: &str, address: &str) -> u64 {
        let (ip, port) = address.split_once(':').unwrap();
        let payload = format!(r#"{{"ip":"{ip}","port":"{port}","timestamp":0}}"#);
        let node = format!("/{place}/snowflake/{SERVICE}/forever/{address}-");
        let counted = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
        let made = at_zookeeper(self, async |client| {
            client.create(&node, payload.as_bytes(), &counted).await.unwrap().1
        });
        made.to_string().parse().unwrap()
    }

    fn pause(&self) {
        self.process.freeze();
    }

    fn resume(&self) {
        self.process.thaw();
    }

    fn crash(&mut self) {
        self.process.kill();
    }

    fn restart(&mut self) {
        self.start();
    }
}
