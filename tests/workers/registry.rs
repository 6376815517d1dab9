//! The registries in which fleets claim their workers, each on a real server: a shared one, or a separate one for a
//! test that stops it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use leafd_tests::host::Host;
use leafd_tests::relay::Relay;
use leafd_tests::servers::zookeeper::ZooKeeper;
use leafd_tests::servers::{DATABASE, MariaDb, Mysql, Postgres, Server, apply_schema};
use zookeeper_client::{Acls, Client, CreateMode};

/// A kind of server that can be a registry.
pub trait Backend: Send + Sync + Sized + 'static {
    /// Its name in printed results.
    const TITLE: &'static str;

    /// A running server for one test.
    fn new_server() -> Self;

    /// The server that tests share. It ends with the process.
    fn shared() -> &'static Self;

    /// Its port on the loopback interface.
    fn listens_on(&self) -> u16;

    /// Creates an empty registry there.
    fn make_place(&self, place: &str);

    /// Makes a host claim its worker there, through this port.
    fn lead(host: Host, port: u16, place: &str) -> Host;

    /// Makes the host claim a permanent worker.
    fn keep_for_good(host: Host) -> Host {
        host.set("worker_mode", "permanent")
    }

    /// Registers a holder of a permanent number that is not leafd. Returns the number.
    fn enter_leaf(&self, place: &str, address: &str) -> u64;

    /// Sends SIGSTOP.
    fn pause(&self);

    /// Sends SIGCONT.
    fn resume(&self);

    /// Sends SIGKILL.
    fn crash(&mut self);

    /// Starts it again with its data.
    fn restart(&mut self);
}

/// An empty registry for one test.
pub struct Registry<B: Backend> {
    /// A server that no other test uses.
    pub own: Option<B>,
    /// Between the hosts and the server.
    pub relay: Relay,
    place: String,
}

impl<B: Backend> Registry<B> {
    /// An empty registry on the shared server.
    pub fn shared() -> Registry<B> {
        Registry::on(None)
    }

    /// An empty registry on a server that may be stopped.
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

    /// A host with a lease of this length.
    pub fn host(&self, lease: &str) -> Host {
        // The store is in memory, like the journal, so that no disk's speed is measured.
        let host = Host::on_store("");
        let store = format!("sqlite:{}", host.path("store.db").display());
        let host = host
            .set("store", &store)
            .set("lease", lease)
            .set("store_connect_timeout", "1s")
            .set("store_statement_timeout", "1s");
        B::lead(host, self.relay.port(), &self.place)
    }

    /// A host with a permanent number.
    pub fn permanent_host(&self, identity: &str) -> Host {
        B::keep_for_good(self.host("1m")).set("identity", identity)
    }

    /// See [`Backend::enter_leaf`].
    pub fn enter_leaf(&self, address: &str) -> u64 {
        self.own.as_ref().unwrap_or_else(|| B::shared()).enter_leaf(&self.place, address)
    }

    /// The test's own server.
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

/// The Leaf service whose nodes give permanent numbers.
const SERVICE: &str = "acme";

/// Runs `work` with a client that knows nothing about leafd.
fn at_zookeeper<T>(server: &ZooKeeper, work: impl AsyncFnOnce(Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { work(Client::connect(&server.address()).await.unwrap()).await })
}

/// Writes to the ensemble, like other programs that use it.
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
