//! Cargo features that a program may have been built without.

use super::{Config, ConfigError, StoreUrl, WorkerSpec};

/// The features, and whether this program has them.
pub(crate) const FEATURES: [(&str, bool); 4] = [
    ("http", cfg!(feature = "http")),
    ("mysql", cfg!(feature = "mysql")),
    ("postgres", cfg!(feature = "postgres")),
    ("zookeeper", cfg!(feature = "zookeeper")),
];

/// The configuration needs something that this program was built without.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} can't be used: this leafd was built without {feature}; build it with: cargo build --release -p leafd \
     --features {feature}"
)]
pub struct NotBuilt {
    what: String,
    feature: &'static str,
}

impl NotBuilt {
    /// The error for the store at this URL.
    pub(crate) fn store(url: &StoreUrl) -> NotBuilt {
        let feature = match url {
            StoreUrl::Sqlite(_) => "sqlite",
            StoreUrl::Postgres(_) => "postgres",
            StoreUrl::Mysql(_) => "mysql",
        };
        NotBuilt { what: format!("the store {url}"), feature }
    }

    /// The error for a listener.
    pub(crate) fn http(setting: &str) -> NotBuilt {
        NotBuilt { what: setting.to_owned(), feature: "http" }
    }

    /// The error for workers in ZooKeeper.
    pub(crate) fn zookeeper() -> NotBuilt {
        NotBuilt { what: "worker = \"zookeeper\"".to_owned(), feature: "zookeeper" }
    }
}

impl Config {
    /// Refuses a configuration that this program can't serve.
    ///
    /// # Errors
    /// [`NotBuilt`] for the first such store, for ZooKeeper, or for HTTP.
    pub(crate) fn require_built(self) -> Result<Config, ConfigError> {
        let stores = self.routing.stores().iter().map(|store| NotBuilt::store(&store.url));
        let zookeeper = matches!(self.worker, WorkerSpec::Zookeeper(_)).then(NotBuilt::zookeeper);
        let http = self.http.iter().map(|address| NotBuilt::http(&format!("http={address}")));
        let leaf = self.leaf_http.iter();
        let leaf = leaf.map(|address| NotBuilt::http(&format!("leaf_http={address}")));
        let mut needed = stores.chain(zookeeper).chain(http).chain(leaf);
        match needed.find(|needed| FEATURES.contains(&(needed.feature, false))) {
            Some(lacking) => Err(lacking.into()),
            None => Ok(self),
        }
    }
}
