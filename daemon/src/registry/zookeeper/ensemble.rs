//! The common part of both kinds of registry in an ensemble: its identity, its clock, the layouts, and writes that
//! succeed only while the registry is in the life that the caller trusts.
//!
//! A registry has a folder with these nodes: `registry`, its identity; `clock`, written to read the ensemble's time;
//! `layouts`; and a folder for the holders. All are created together, so a missing one was deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use leafd_wire::Layout;
use zookeeper_client::{
    Acls, Client, CreateMode, CreateOptions, Error, MultiReadResult, MultiWriteError,
    MultiWriteResult, MultiWriter, Stat,
};

use super::EnsembleTarget;
use super::leaf_tree::{self, LeafTree};
use super::record::Registration;
use super::session::CallError;
use crate::config::StorePassword;
use crate::random;
use leafd_core::registry::{CompareAndSet, Entry, RegistryError, RegistryId, new_layouts};
use leafd_core::store::{History, StoreId};
use leafd_core::{Tag, UnixMs};

/// How many nodes one request reads: an even number.
const READ_TOGETHER: usize = 256;

/// How many such requests run at once.
const READS_UNDER_WAY: usize = 8;

/// What distinguishes the registries of an ensemble.
pub(super) struct Folders {
    /// The registry's own folder.
    pub(super) base: String,
    /// The folder in it for the holders.
    pub(super) holders: &'static str,
    /// A folder that other programs use too, open to all.
    pub(super) shared: Option<String>,
    /// Whether that folder may be created beside those of other Leafs.
    pub(super) may_begin: bool,
    /// A node that exists if the ensemble is used in the other mode, and the message for that case.
    pub(super) rival: (&'static str, &'static str),
    /// A suffix of the registry's identity.
    pub(super) kind: String,
}

/// The place of the registry's nodes, and what is known about them.
pub(super) struct EnsemblePlace {
    folders: Folders,
    /// For leafd's own nodes.
    acls: Acls<'static>,
    /// The registry's name in errors.
    name: String,
    /// The connection, which the pending call or the next one uses.
    pub(super) client: Option<Client>,
    /// The version of the clock's node when this host last wrote it, and in which registry. Each write increases it,
    /// even across the election of a leader.
    seen: Option<(String, i32)>,
}

/// The registry's identity.
pub(super) struct RegistryState {
    pub(super) id: RegistryId,
    /// When its writes were last found to be lost, if ever.
    lost: Option<UnixMs>,
    version: i32,
    registration: Registration,
}

impl RegistryState {
    /// See [`Snapshot::history_age`](leafd_core::registry::Snapshot::history_age).
    pub(super) fn history_age(&self, now: UnixMs) -> Option<Duration> {
        self.lost.map(|lost| Duration::from_millis(now.0.saturating_sub(lost.0)))
    }
}

impl EnsemblePlace {
    pub(super) fn new(target: &EnsembleTarget, folders: Folders) -> EnsemblePlace {
        let acls = match target.auth {
            StorePassword::None => Acls::anyone_all(),
            _ => Acls::creator_all(),
        };
        let name = format!("zookeeper {}", target.servers);
        EnsemblePlace { folders, acls, name, client: None, seen: None }
    }

    /// The connection. A call has one.
    pub(super) fn client(&self) -> &Client {
        self.client.as_ref().expect("a call has a connection")
    }

    pub(super) fn refused(&self, words: impl std::fmt::Display) -> CallError {
        self.refusal(words).into()
    }

    pub(super) fn refusal(&self, words: impl std::fmt::Display) -> RegistryError {
        RegistryError::Refused(format!("the worker registry {}: {words}", self.name).into())
    }

    pub(super) fn unavailable(&self, cause: impl std::fmt::Display) -> RegistryError {
        RegistryError::Unavailable { registry: self.name.clone(), cause: cause.to_string().into() }
    }

    /// The options for leafd's own nodes.
    pub(super) fn persistent(&self) -> CreateOptions<'static> {
        CreateMode::Persistent.with_acls(self.acls)
    }

    /// The path of a holder's node.
    pub(super) fn holder(&self, name: &str) -> String {
        format!("{}/{name}", self.holders())
    }

    /// The folder of the holders.
    pub(super) fn holders(&self) -> String {
        self.node(self.folders.holders)
    }

    fn node(&self, name: &str) -> String {
        format!("{}/{name}", self.folders.base)
    }

    /// Checks whether a new connection leads to a registry. Creates one in an ensemble that has none.
    pub(super) async fn prepare(&mut self) -> Result<(), CallError> {
        if self.client().check_stat("/").await?.is_none() {
            let words = "that path doesn't exist; correct it, or create it with: zkCli.sh create";
            return Err(self.refused(words));
        }
        let (rival, words) = self.folders.rival;
        if self.client().check_stat(rival).await?.is_some() {
            return Err(self.refused(format!("there is {rival}: {words}")));
        }
        if self.client().check_stat(&self.node("registry")).await?.is_none() {
            self.refuse_second_tree().await?;
            self.make().await?;
        }
        self.clock().await.map(drop)
    }

    /// Refuses to create a tree of numbers beside one that was probably meant, because each would have a worker 0.
    async fn refuse_second_tree(&self) -> Result<(), CallError> {
        let Folders { shared: Some(shared), may_begin: false, .. } = &self.folders else {
            return Ok(());
        };
        if self.client().check_stat(shared).await?.is_some() {
            return Ok(());
        }
        match leaf_tree::find(self.client()).await? {
            None => Ok(()),
            Some(LeafTree { path, .. }) => Err(self.refused(format!(
                "there is no {shared}, but a Java Leaf keeps its numbers in {path}: correct leaf_name, or the path in \
                 zookeeper; if this is a new service, set leaf_name_new = true"
            ))),
        }
    }

    async fn make(&self) -> Result<(), CallError> {
        let options = self.persistent();
        if let Some(shared) = &self.folders.shared {
            self.client()
                .mkdir(shared, &CreateMode::Persistent.with_acls(Acls::anyone_all()))
                .await?;
        }
        self.client().mkdir(&self.folders.base, &options).await?;
        let registration = Registration { identity: random::token(), history: random::token() };
        let mut all = self.client().new_multi_writer();
        all.add_create(&self.node("clock"), b"", &options)?;
        all.add_create(&self.node("layouts"), b"{}", &options)?;
        all.add_create(&self.holders(), b"", &options)?;
        all.add_create(&self.node("registry"), &registration.to_bytes(), &options)?;
        match all.commit().await {
            Ok(_) => Ok(()),
            // Another daemon created it at the same moment. Otherwise the first use reports what is missing.
            Err(MultiWriteError::OperationFailed { source: Error::NodeExists, .. }) => {
                if self.client().check_stat(&self.node("registry")).await?.is_some() {
                    return Ok(());
                }
                Err(self.gone(&self.node("registry")))
            }
            Err(error) => Err(Error::from(error).into()),
        }
    }

    /// The names of the holders' nodes, and the state of their folder.
    pub(super) async fn children(&self) -> Result<(Vec<String>, Stat), CallError> {
        let path = self.holders();
        self.there(&path, self.client().get_children(&path).await)
    }

    /// The answer to a call for a permanent node.
    pub(super) fn there<T>(&self, path: &str, answer: Result<T, Error>) -> Result<T, CallError> {
        answer.map_err(|error| match error {
            Error::NoNode => self.gone(path),
            error => error.into(),
        })
    }

    /// The error that such a node is missing.
    fn gone(&self, path: &str) -> CallError {
        let base = &self.folders.base;
        self.refused(format!(
            "{path} was deleted: restore it; or stop all daemons that use it for longer than their leases last, then \
             delete {base} with its contents, and leafd recreates it"
        ))
    }

    async fn declare_loss(&self, state: RegistryState) -> Result<(), CallError> {
        let registration = Registration { history: random::token(), ..state.registration };
        let set = self.client().set_data(
            &self.node("registry"),
            &registration.to_bytes(),
            Some(state.version),
        );
        match set.await {
            // Another daemon has noticed it as well.
            Ok(_) | Err(Error::BadVersion) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The clock of the ensemble's leader, read from a node that this writes. A read after this write sees everything
    /// that was written before, on any server. This also detects a registry that was restored from an older state.
    pub(super) async fn clock(&mut self) -> Result<UnixMs, CallError> {
        let path = self.node("clock");
        let stat = self.there(&path, self.client().set_data(&path, b"", None).await)?;
        let state = self.state().await?;
        let identity = state.registration.identity.clone();
        // Versions wrap around.
        let behind = |seen: i32| stat.version.wrapping_sub(seen) <= 0;
        if self.seen.as_ref().is_some_and(|(of, seen)| *of == identity && behind(*seen)) {
            self.declare_loss(state).await?;
        }
        self.seen = Some((identity, stat.version));
        Ok(modified(&stat))
    }

    /// When the node at `path` was written, which the second write of a commit changed.
    pub(super) async fn written_at(
        &mut self,
        path: &str,
        results: &[MultiWriteResult],
    ) -> Result<UnixMs, CallError> {
        if let Some(MultiWriteResult::SetData { stat }) = results.get(1) {
            return Ok(modified(stat));
        }
        // Servers don't return this for a node created in a transaction (ZOOKEEPER-4667).
        match self.client().check_stat(path).await? {
            Some(stat) => Ok(modified(&stat)),
            None => self.clock().await,
        }
    }

    /// The registry's identity.
    pub(super) async fn state(&self) -> Result<RegistryState, CallError> {
        let path = self.node("registry");
        let (bytes, stat) = self.there(&path, self.client().get_data(&path).await)?;
        let registration = Registration::parse(&bytes)
            .map_err(|cause| self.refused(format!("{path} can't be read: {cause}")))?;
        let id = RegistryId {
            id: StoreId(format!("zookeeper:{}{}", registration.identity, self.folders.kind).into()),
            history: History(registration.history.as_str().into()),
        };
        let lost = (stat.version > 0).then(|| modified(&stat));
        Ok(RegistryState { id, lost, version: stat.version, registration })
    }

    /// Commits `writes` if the registry is still in this state. Returns their results; `None` if a node has another
    /// version, exists already or is missing.
    pub(super) async fn commit(
        &mut self,
        state: &RegistryState,
        writes: impl FnOnce(&mut MultiWriter<'_>) -> Result<(), Error>,
    ) -> Result<Option<Vec<MultiWriteResult>>, CallError> {
        let mut all = self.client().new_multi_writer();
        all.add_check_version(&self.node("registry"), state.version)?;
        writes(&mut all)?;
        match all.commit().await {
            Ok(results) => Ok(Some(results)),
            Err(MultiWriteError::OperationFailed {
                source: Error::BadVersion | Error::NodeExists | Error::NoNode,
                ..
            }) => {
                // If the folder were missing, this would fail forever.
                self.children().await?;
                Ok(None)
            }
            Err(error) => Err(Error::from(error).into()),
        }
    }

    /// Whether a write is allowed, given the recorded entry.
    pub(super) async fn judge(
        &mut self,
        swap: &CompareAndSet,
        found: Option<Entry>,
    ) -> Result<(), CallError> {
        // The ensemble's clock is at least at the time of the last write, which is usually enough.
        let reached = found.as_ref().map_or(UnixMs(0), |entry| entry.written);
        match swap.judge(found.clone(), reached) {
            Err(RegistryError::TooFarAhead { .. }) => {
                let now = self.clock().await?;
                Ok(swap.judge(found, now)?)
            }
            judged => Ok(judged?),
        }
    }

    pub(super) async fn register_layouts(
        &self,
        layouts: &[(Tag, Layout)],
    ) -> Result<(), CallError> {
        let path = self.node("layouts");
        loop {
            let (bytes, stat) = self.there(&path, self.client().get_data(&path).await)?;
            let mut recorded: BTreeMap<String, String> = serde_json::from_slice(&bytes)
                .map_err(|cause| self.refused(format!("{path} can't be read: {cause}")))?;
            let new = new_layouts(&recorded, layouts)?;
            if new.is_empty() {
                return Ok(());
            }
            recorded.extend(new);
            let bytes = serde_json::to_vec(&recorded)
                .expect("it serializes, because it has only text and numbers");
            match self.client().set_data(&path, &bytes, Some(stat.version)).await {
                Ok(_) => return Ok(()),
                // Another daemon recorded a layout meanwhile.
                Err(Error::BadVersion) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The contents of these nodes, in order; `None` for a missing node. A path at an even index and the one after it
    /// are read at the same moment.
    pub(super) async fn read_all(
        &self,
        paths: &[String],
    ) -> Result<Vec<Option<(Vec<u8>, Stat)>>, CallError> {
        let mut all = Vec::with_capacity(paths.len());
        for some in paths.chunks(READ_TOGETHER * READS_UNDER_WAY) {
            // All requests are sent before the first answer is awaited.
            let mut asked = Vec::with_capacity(READS_UNDER_WAY);
            for few in some.chunks(READ_TOGETHER) {
                let mut reader = self.client().new_multi_reader();
                for path in few {
                    reader.add_get_data(path)?;
                }
                asked.push(reader.commit());
            }
            for answer in asked {
                for node in answer.await? {
                    all.push(match node {
                        MultiReadResult::Data { data, stat } => Some((data, stat)),
                        MultiReadResult::Error { err: Error::NoNode } => None,
                        MultiReadResult::Error { err } => return Err(err.into()),
                        other => return Err(Error::UnexpectedError(format!("{other:?}")).into()),
                    });
                }
            }
        }
        if all.len() == paths.len() {
            return Ok(all);
        }
        let words = format!("{} answers to {} questions", all.len(), paths.len());
        Err(Error::UnexpectedError(words).into())
    }
}

/// When a node in this state was written.
pub(super) fn modified(stat: &Stat) -> UnixMs {
    // Times before 1970 are read as 1970.
    UnixMs(u64::try_from(stat.mtime).unwrap_or(0))
}
