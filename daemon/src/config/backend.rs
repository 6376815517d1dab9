//! Cargo features that a program may have been built without.

use super::{Config, ConfigError, StoreUrl, WorkerSpec};

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
    /// For the store at this URL.
    pub(crate) fn store(url: &StoreUrl) -> NotBuilt {
        let (feature, _) = feature_of(url);
        NotBuilt { what: format!("the store {url}"), feature }
    }

    /// For a listener.
    pub(crate) fn http(setting: &str) -> NotBuilt {
        NotBuilt { what: setting.to_owned(), feature: "http" }
    }

    /// For workers in ZooKeeper.
    pub(crate) fn zookeeper() -> NotBuilt {
        NotBuilt { what: "worker = \"zookeeper\"".to_owned(), feature: "zookeeper" }
    }
}

/// The feature that a store needs, and whether this program has it.
fn feature_of(url: &StoreUrl) -> (&'static str, bool) {
    match url {
        StoreUrl::Sqlite(_) => ("sqlite", true),
        StoreUrl::Postgres(_) => ("postgres", cfg!(feature = "postgres")),
        StoreUrl::Mysql(_) => ("mysql", cfg!(feature = "mysql")),
    }
}

impl Config {
    /// Refuses a configuration that this program can't serve.
    ///
    /// # Errors
    /// [`NotBuilt`] for the first such store, for ZooKeeper, or for HTTP.
    pub(crate) fn require_built(self) -> Result<Config, ConfigError> {
        for store in self.routing.stores() {
            let (_, built) = feature_of(&store.url);
            if !built {
                return Err(NotBuilt::store(&store.url).into());
            }
        }
        if matches!(self.worker, WorkerSpec::Zookeeper(_)) && !cfg!(feature = "zookeeper") {
            return Err(NotBuilt::zookeeper().into());
        }
        if let Some(address) = &self.http
            && !cfg!(feature = "http")
        {
            return Err(NotBuilt::http(&format!("http={address}")).into());
        }
        if let Some(address) = &self.leaf_http
            && !cfg!(feature = "http")
        {
            return Err(NotBuilt::http(&format!("leaf_http={address}")).into());
        }
        Ok(self)
    }
}
