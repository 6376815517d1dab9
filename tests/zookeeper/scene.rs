//! A separate path on a shared server for each test, registries there, and a client that knows nothing about leafd.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leafd::config::StorePassword;
use leafd::registry::Registry;
use leafd::registry::zookeeper::{EnsembleTarget, LeasedRegistry, PermanentRegistry};
use leafd_core::registry::{CompareAndSet, Entry, Holder, LeaseRecord, RegistryError, Snapshot};
use leafd_core::store::StartToken;
use leafd_core::{UnixMs, WorkerId};
use leafd_tests::servers::zookeeper::ZooKeeper;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use zookeeper_client::{Acls, Client, CreateMode, Stat};

/// Every call's time limit in these tests.
pub const BOUND: Duration = Duration::from_secs(5);

/// How far expiries may lie ahead.
pub const AHEAD_MAX: Duration = Duration::from_secs(700);

/// The Leaf service whose nodes are used.
pub const SERVICE: &str = "com.acme-ids";

/// The folder with the nodes of that service's Java Leafs.
pub const FOREVER: &str = "/snowflake/com.acme-ids/forever";

/// The server that most tests share. It ends with the process.
pub fn shared() -> &'static ZooKeeper {
    static SHARED: OnceLock<ZooKeeper> = OnceLock::new();
    SHARED.get_or_init(ZooKeeper::new)
}

/// A part of an ensemble that no other test uses, and a client for it.
pub struct Place {
    pub address: String,
    pub raw: Raw,
}

/// A client that writes arbitrary nodes, as another program would.
pub struct Raw {
    handle: Handle,
    /// When this is dropped, the thread that keeps the session alive ends.
    _stop: oneshot::Sender<()>,
    pub client: Client,
}

impl Place {
    pub fn new() -> Place {
        Place::on(&shared().address())
    }

    pub fn on(server: &str) -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let path = format!("/place{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Raw::connect(server).create(&path, b"");
        let address = format!("{server}{path}");
        Place { raw: Raw::connect(&address), address }
    }

    pub fn leased(&self) -> LeasedRegistry {
        LeasedRegistry::open(target(&self.address))
    }

    pub fn permanent(&self) -> PermanentRegistry {
        PermanentRegistry::open(target(&self.address), &SERVICE.parse().unwrap(), false)
    }
}

impl Raw {
    pub fn connect(address: &str) -> Raw {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::spawn(move || drop(runtime.block_on(stopped)));
        let client = handle.block_on(Client::connect(address)).unwrap();
        Raw { handle, _stop: stop, client }
    }

    pub fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle.block_on(work)
    }

    pub fn create(&self, path: &str, data: &[u8]) {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        self.run(self.client.create(path, data, &options)).unwrap();
    }

    /// Creates a node without data, and its parents.
    pub fn create_all(&self, path: &str) {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        self.run(self.client.mkdir(path, &options)).unwrap();
    }

    /// Registers like Java Leaf. Returns the name of the node.
    pub fn create_counted(&self, prefix: &str, data: &[u8]) -> String {
        let options = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
        let (_, sequence) = self.run(self.client.create(prefix, data, &options)).unwrap();
        format!("{}{sequence}", prefix.rsplit_once('/').unwrap().1)
    }

    pub fn get(&self, path: &str) -> (String, Stat) {
        let (data, stat) = self.run(self.client.get_data(path)).unwrap();
        (String::from_utf8(data).unwrap(), stat)
    }

    pub fn set(&self, path: &str, data: &[u8]) -> Stat {
        self.run(self.client.set_data(path, data, None)).unwrap()
    }

    pub fn delete(&self, path: &str) {
        self.run(self.client.delete(path, None)).unwrap();
    }

    pub fn exists(&self, path: &str) -> bool {
        self.run(self.client.check_stat(path)).unwrap().is_some()
    }

    pub fn children(&self, path: &str) -> Vec<String> {
        let mut children = self.run(self.client.list_children(path)).unwrap();
        children.sort();
        children
    }
}

pub fn target(address: &str) -> EnsembleTarget {
    EnsembleTarget {
        servers: address.parse().unwrap(),
        auth: StorePassword::None,
        connect_timeout: BOUND,
        call_timeout: BOUND,
    }
}

pub fn holder(id: &str, incarnation: &str) -> Holder {
    let incarnation = StartToken(incarnation.into());
    Holder { id: id.into(), name: format!("name-of-{id}").into(), incarnation }
}

pub fn held(id: &str, incarnation: &str, bound: UnixMs) -> LeaseRecord {
    LeaseRecord { holder: Some(holder(id, incarnation)), expires: bound }
}

pub fn snapshot(registry: &mut dyn Registry) -> Snapshot {
    registry.snapshot(0..1024).unwrap()
}

/// Replaces an entry in the registry's current life.
pub fn compare_and_set(
    registry: &mut dyn Registry,
    worker: u64,
    expected: Option<LeaseRecord>,
    next: LeaseRecord,
) -> Result<UnixMs, RegistryError> {
    let under = snapshot(registry).registry;
    registry.compare_and_set(&under, &swap_of(worker, expected, next))
}

pub fn swap_of(worker: u64, expected: Option<LeaseRecord>, next: LeaseRecord) -> CompareAndSet {
    CompareAndSet {
        worker: WorkerId(worker),
        expected,
        next,
        seen: UnixMs(1),
        ahead_max: AHEAD_MAX,
    }
}

/// Assigns a number in 0..1024, in the registry's current life.
pub fn assign(registry: &mut dyn Registry, holding: &LeaseRecord) -> Result<Entry, RegistryError> {
    let under = snapshot(registry).registry;
    registry.assign(&under, 0..1024, holding)
}

/// A little later than now on the ensemble's clock.
pub fn soon(registry: &mut dyn Registry) -> UnixMs {
    UnixMs(snapshot(registry).now.0 + 10_000)
}

#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: Result<T, RegistryError>, part: &str) {
    match result {
        Err(RegistryError::Refused(words)) => assert!(words.contains(part), "{words}"),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn unavailable<T: std::fmt::Debug>(result: Result<T, RegistryError>, part: &str) {
    match result {
        Err(RegistryError::Unavailable { cause, .. }) => assert!(cause.contains(part), "{cause}"),
        other => panic!("{other:?}"),
    }
}

/// The entry that a conflict has found.
#[track_caller]
pub fn conflict<T: std::fmt::Debug>(result: Result<T, RegistryError>) -> Option<LeaseRecord> {
    match result {
        Err(RegistryError::Conflict { found, .. }) => found.map(|entry| entry.holding),
        other => panic!("{other:?}"),
    }
}
