//! What a journal tells at a start: who this host is, what it had, and which stores know it.

use std::path::PathBuf;
use std::sync::Arc;

use super::LayoutRecord;
use super::stores::Start;
use leafd_core::lease::Recorded;
use leafd_core::store::{HostId, StartToken, StoreId};

/// What the journal told at start.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Who this host is.
    pub host: HostId,
    /// This start's token: new, and already in the journal.
    pub token: StartToken,
    /// Whether this journal was begun at this start: there was none, or it was another host's. What was
    /// issued before is then not fully known, see the module's documentation.
    pub begun: bool,
    /// Where a journal of another host went, or an old one of this host's, when there was one.
    pub set_aside: Option<PathBuf>,
    /// Nothing tells whether this is the journal that was last written, because there was a crash and no memory of it:
    /// the numbers held are forgotten.
    pub unvouched: bool,
    /// Each layout with the mark below which ids may have been issued; carried over from a journal
    /// that was set aside.
    pub layouts: Vec<LayoutRecord>,
    /// The claim on a snowflake worker, if there is one. That of a journal which was set aside is not carried over: it
    /// is another host's.
    pub claim: Option<Recorded>,
    /// Whether the last stop wrote exact marks.
    pub stopped_cleanly: bool,
    /// Every store that this host ever checked in with, by name; also those that a journal which was set aside
    /// knew.
    pub stores: Vec<StoreRecord>,
    /// Earlier starts whose tokens are kept, oldest first.
    pub(super) starts: Vec<Start>,
}

/// What the journal has of a store.
#[derive(Clone, Debug)]
pub struct StoreRecord {
    /// Which store it is.
    pub store: StoreId,
    /// The history that this host trusts: what it last had, or was dealt with after a change.
    pub history: Arc<str>,
    /// The URLs that last led to it, without secrets; none when all of them lead to other stores now.
    pub urls: Vec<Arc<str>>,
    /// The last start that it confirmed, 0 for none.
    pub(super) confirmed: i64,
    /// That start's token.
    pub(super) token: Option<StartToken>,
}

// === impl Recovered ===

impl Recovered {
    /// What is recorded of the store that a URL last led to.
    #[must_use]
    pub fn at(&self, url: &str) -> Option<&StoreRecord> {
        self.stores.iter().find(|record| record.urls.iter().any(|one| **one == *url))
    }

    /// What is recorded of a store, wherever it was found.
    #[must_use]
    pub fn of(&self, store: &StoreId) -> Option<&StoreRecord> {
        self.stores.iter().find(|record| record.store == *store)
    }

    /// The start tokens that a store may have, oldest first: the one that it confirmed last and those of
    /// later starts. A store of which there is no record may have that of any earlier start.
    #[must_use]
    pub fn tokens_known(&self, store: &StoreId) -> Vec<StartToken> {
        let record = self.of(store);
        let confirmed = record.map_or(0, |record| record.confirmed);
        let later = self.starts.iter().filter(|start| start.number > confirmed);
        let token = record.and_then(|record| record.token.clone());
        token.into_iter().chain(later.map(|start| start.token.clone())).collect()
    }
}
