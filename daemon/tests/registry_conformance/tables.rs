//! The stores as registries, and what is their own: rows that others wrote, privileges, the table of Leaf's fork.

use std::ops::Range;
use std::path::PathBuf;

use leafd::registry::Registry;
use leafd::store::{Store, sqlite};
use leafd_core::registry::{
    CompareAndSet, Entry, Former, LeaseRecord, Mode, RegistryError, RegistryId, Snapshot,
};
use leafd_core::{Tag, UnixMs, WorkerId};
use leafd_wire::Layout;
use tempfile::TempDir;

use crate::{Backend, mysql, postgres};

/// A store that is used as a registry only.
pub struct AsRegistry {
    pub store: Box<Store>,
    pub mode: Mode,
}

impl Registry for AsRegistry {
    fn register_layouts(&mut self, layouts: &[(Tag, Layout)]) -> Result<(), RegistryError> {
        self.store.workers(self.mode).register_layouts(layouts)
    }

    fn snapshot(&mut self, pool: Range<u64>) -> Result<Snapshot, RegistryError> {
        self.store.workers(self.mode).snapshot(pool)
    }

    fn compare_and_set(
        &mut self,
        under: &RegistryId,
        swap: &CompareAndSet,
    ) -> Result<UnixMs, RegistryError> {
        self.store.workers(self.mode).compare_and_set(under, swap)
    }

    fn assign(
        &mut self,
        under: &RegistryId,
        pool: Range<u64>,
        holding: &LeaseRecord,
    ) -> Result<Entry, RegistryError> {
        self.store.workers(self.mode).assign(under, pool, holding)
    }

    fn former(&mut self, worker: WorkerId, at: UnixMs) -> Result<Option<Former>, RegistryError> {
        self.store.workers(self.mode).former(worker, at)
    }
}

/// An embedded store in a folder that goes with it.
pub struct Embedded {
    _dir: TempDir,
    pub path: PathBuf,
}

impl Embedded {
    pub fn new() -> Embedded {
        // Its commits wait for the disk.
        let dir = tempfile::tempdir_in(crate::server::memory()).unwrap();
        let path = dir.path().join("store.db");
        Embedded { _dir: dir, path }
    }

    pub fn open(&self) -> Box<Store> {
        Box::new(sqlite::open(&self.path, &leafd::journal::Identity::of_host(None)).unwrap())
    }
}

/// A store whose tables can also be written to as another program would.
pub trait Tables: Backend {
    fn store(&mut self) -> Box<Store>;

    fn sql(&mut self, sql: &str);

    /// A query for the numbers from 0 to below this.
    fn count_to(end: u64) -> String
    where
        Self: Sized;
}

macro_rules! registry_of_store {
    ($database:ty, $count_to:expr, $store:expr, $sql:expr) => {
        impl Tables for $database {
            fn store(&mut self) -> Box<Store> {
                $store(self)
            }

            fn sql(&mut self, sql: &str) {
                $sql(self, sql);
            }

            fn count_to(end: u64) -> String {
                $count_to(end)
            }
        }

        impl Backend for $database {
            fn connect(&mut self, mode: Mode) -> Box<dyn Registry> {
                Box::new(AsRegistry { store: self.store(), mode })
            }

            fn fill(&mut self, workers: Range<u64>) {
                assert_eq!(workers.start, 0);
                let numbers = Self::count_to(workers.end);
                self.sql(&format!(
                    "INSERT INTO leafd_worker (worker, bound, seen, written) SELECT n, 1, 1, 1 FROM ({numbers}) AS c"
                ));
            }
        }
    };
}

fn recursive(end: u64) -> String {
    format!(
        "WITH RECURSIVE c (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n + 1 < {end}) SELECT n FROM c"
    )
}

registry_of_store!(
    Embedded,
    recursive,
    |embedded: &mut Embedded| embedded.open(),
    |embedded: &mut Embedded, sql: &str| {
        drop(embedded.open());
        rusqlite::Connection::open(&embedded.path).unwrap().execute_batch(sql).unwrap();
    }
);
registry_of_store!(
    mysql::Database,
    |end: u64| format!("SELECT seq AS n FROM seq_0_to_{}", end - 1),
    |database: &mut mysql::Database| database.connect_as("root"),
    |database: &mut mysql::Database, sql: &str| database.execute(sql)
);
registry_of_store!(
    mysql::Mysql,
    recursive,
    |database: &mut mysql::Mysql| database.connect_as("root"),
    |database: &mut mysql::Mysql, sql: &str| database.execute(sql)
);
registry_of_store!(
    postgres::Database,
    recursive,
    |database: &mut postgres::Database| database.connect_as("postgres"),
    |database: &mut postgres::Database, sql: &str| database.execute(sql)
);
