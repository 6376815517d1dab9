//! What a journal reports at a start: this host's identity, its held ids, and the stores that know it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::LayoutRecord;
use super::records::Start;
use leafd_core::lease::Recorded;
use leafd_core::store::{HostId, StartToken, StoreId};

/// What the journal reports at a start.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The host's identity in its stores.
    pub host: HostId,
    /// This start's token. It is new, and recorded in the journal already.
    pub token: StartToken,
    /// Whether this start created the journal, because there was none, or only a copy or an old one. Then it is not
    /// fully known which ids were issued before; see the module's documentation.
    pub begun: bool,
    /// Where the former journal was moved, if it was a copy or an old one.
    pub set_aside: Option<PathBuf>,
    /// Whether there is no evidence that this is the journal that was last written, because the daemon crashed and the
    /// note of the last commit is gone. Held ids were then forgotten.
    pub unvouched: bool,
    /// Each layout with its mark: ids below it may have been issued. Includes those of a journal that was set aside.
    pub layouts: Vec<LayoutRecord>,
    /// The claim on a snowflake worker, if there is one. The claim in a journal that was set aside is not carried
    /// over: it belongs to another host.
    pub claim: Option<Recorded>,
    /// Whether the last stop wrote exact marks.
    pub stopped_cleanly: bool,
    /// Every store that this host ever checked in with, ordered by name. Includes those in a journal that was set
    /// aside.
    pub stores: Vec<StoreRecord>,
    /// The earlier starts whose tokens are kept, oldest first.
    pub(super) starts: Vec<Start>,
}

/// The journal's record of a store.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct StoreRecord {
    /// Which store it is.
    pub store: StoreId,
    /// The history that this host trusts: the store's first one, or the last one in which the host has settled.
    pub history: Arc<str>,
    /// The number of this host's last confirmed write in that history, as far as it is recorded; 0 for none.
    pub written: u64,
    /// The latest era that a primary of its list has recorded, if that is later than this host's; otherwise 0.
    #[serde(default)]
    pub later_era: u32,
    /// The URLs under which it was last found, without secrets, each with the number of the start that last used it.
    /// Empty if all of them now refer to other stores.
    pub urls: BTreeMap<Arc<str>, i64>,
    /// The number of the last start that it confirmed, 0 for none.
    pub(super) confirmed: i64,
    /// That start's token.
    pub(super) token: Option<StartToken>,
}

// === impl Recovered ===

impl Recovered {
    /// The record of the store to which a URL last referred.
    pub fn at(&self, url: &str) -> Option<&StoreRecord> {
        self.stores.iter().find(|record| record.urls.contains_key(url))
    }

    /// The record of a store, wherever it was found.
    pub fn of(&self, store: &StoreId) -> Option<&StoreRecord> {
        self.stores.iter().find(|record| record.store == *store)
    }

    /// The stores that this host used under URLs other than these, each with one of its URLs. A store whose URL was
    /// adopted for another one is not among them.
    pub fn former_stores(&self, urls: &[String]) -> Vec<(StoreId, Arc<str>)> {
        let is_used =
            |record: &StoreRecord| urls.iter().any(|url| record.urls.contains_key(url.as_str()));
        let former = self.stores.iter().filter(|record| !is_used(record));
        former
            .filter_map(|record| Some((record.store.clone(), record.urls.keys().next()?.clone())))
            .collect()
    }

    /// The start tokens that a store may have, oldest first: the one that it confirmed last, and those of later
    /// starts. A store without a record may have the token of any earlier start.
    pub fn tokens_known(&self, store: &StoreId) -> Vec<StartToken> {
        let record = self.of(store);
        let confirmed = record.map_or(0, |record| record.confirmed);
        let later = self.starts.iter().filter(|start| start.number > confirmed);
        let token = record.and_then(|record| record.token.clone());
        token.into_iter().chain(later.map(|start| start.token.clone())).collect()
    }
}
