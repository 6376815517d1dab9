//! What both kinds of registry have in an ensemble: who it is, its clock, the layouts, and writes that count only
//! in the life of the registry that the caller trusts.
//!
//! Under a folder of its own: `registry`, who it is; `clock`, written to read the ensemble's time; `layouts`; and a
//! folder for the holders. They are made together, once, so that one that is missing was deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use leafd_wire::Layout;
use zookeeper_client::{
    Acls, Client, CreateMode, CreateOptions, Error, MultiReadResult, MultiWriteError,
    MultiWriteResult, MultiWriter, Stat,
};

use super::Target;
use super::record::Registration;
use super::session::{Failure, Session};
use crate::config::StorePassword;
use crate::random;
use leafd_core::registry::{CompareAndSet, Entry, RegistryError, RegistryId, definition};
use leafd_core::store::{History, StoreId};
use leafd_core::{Tag, UnixMs};

/// How many nodes are read by one request: an even number.
const READ_TOGETHER: usize = 256;

/// How many such requests are under way at once.
const READS_UNDER_WAY: usize = 8;

/// A registry's folder in an ensemble, and the connection to it.
pub(super) struct Ensemble {
    session: Session,
    place: Place,
}

/// What tells the registries of an ensemble apart.
pub(super) struct Folders {
    /// The registry's own.
    pub(super) base: String,
    /// The one in it that holders stand in.
    pub(super) holders: &'static str,
    /// One that others use too, open to all.
    pub(super) shared: Option<String>,
    /// What is there when the ensemble is used in the other mode, and what to say then.
    pub(super) rival: (&'static str, &'static str),
    /// What is added to the registry's identity.
    pub(super) kind: String,
}

/// Where the registry's nodes are, and what is known of them.
pub(super) struct Place {
    folders: Folders,
    /// For leafd's own nodes.
    acls: Acls<'static>,
    /// What errors call it.
    name: String,
    /// The highest transaction that was seen, and in which registry.
    seen: Option<(String, i64)>,
}

/// Who the registry says it is.
pub(super) struct Standing {
    pub(super) id: RegistryId,
    /// When its writes were last found to be lost, if ever.
    lost: Option<UnixMs>,
    version: i32,
    registration: Registration,
}

impl Ensemble {
    pub(super) fn new(target: Target, folders: Folders) -> Ensemble {
        let acls = match target.auth {
            StorePassword::None => Acls::anyone_all(),
            _ => Acls::creator_all(),
        };
        let name = format!("zookeeper {}", target.servers);
        let place = Place { folders, acls, name, seen: None };
        Ensemble { session: Session::new(target), place }
    }

    /// Does `work` within the call's deadline.
    pub(super) fn call<T>(
        &mut self,
        work: impl AsyncFnOnce(&Client, &mut Place) -> Result<T, Failure>,
    ) -> Result<T, RegistryError> {
        let prepare = async |client: &Client, place: &mut Place| place.prepare(client).await;
        self.session.call(&mut self.place, prepare, work)
    }

    /// See [`Registry::register_layouts`](crate::registry::Registry::register_layouts).
    pub(super) fn register_layouts(
        &mut self,
        layouts: &[(Tag, Layout)],
    ) -> Result<(), RegistryError> {
        self.call(async |client, place| place.register_layouts(client, layouts).await)
    }
}

impl Standing {
    /// See [`Snapshot::history_age`](leafd_core::registry::Snapshot::history_age).
    pub(super) fn history_age(&self, now: UnixMs) -> Option<Duration> {
        self.lost.map(|lost| Duration::from_millis(now.0.saturating_sub(lost.0)))
    }
}

impl Place {
    pub(super) fn refused(&self, words: impl std::fmt::Display) -> Failure {
        RegistryError::Refused(format!("the worker registry {}: {words}", self.name)).into()
    }

    /// How leafd's own nodes are made.
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

    /// Finds out whether a new connection leads to a registry, and makes one in an ensemble that has none.
    async fn prepare(&mut self, client: &Client) -> Result<(), Failure> {
        if client.check_stat("/").await?.is_none() {
            let words = "that path doesn't exist; correct it, or create it with: zkCli.sh create";
            return Err(self.refused(words));
        }
        let (rival, words) = self.folders.rival;
        if client.check_stat(rival).await?.is_some() {
            return Err(self.refused(format!("there is {rival}: {words}")));
        }
        if client.check_stat(&self.node("registry")).await?.is_none() {
            self.make(client).await?;
        }
        // What is written after it is read after it, whichever server we came to.
        let clock = self.write_clock(client).await?;
        let standing = self.standing(client).await?;
        let identity = standing.registration.identity.clone();
        if self.seen.as_ref().is_some_and(|(seen, zxid)| *seen == identity && *zxid > clock.mzxid) {
            // It has forgotten writes that it had answered: it was restored from an older state.
            self.declare_loss(client, standing).await?;
        }
        self.seen = Some((identity, clock.mzxid));
        Ok(())
    }

    async fn make(&self, client: &Client) -> Result<(), Failure> {
        let options = self.persistent();
        if let Some(shared) = &self.folders.shared {
            client.mkdir(shared, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
        }
        client.mkdir(&self.folders.base, &options).await?;
        let registration = Registration {
            identity: random::token().map_err(|error| self.refused(error.to_string()))?,
            history: random::token().map_err(|error| self.refused(error.to_string()))?,
        };
        let mut all = client.new_multi_writer();
        all.add_create(&self.node("clock"), b"", &options)?;
        all.add_create(&self.node("layouts"), b"{}", &options)?;
        all.add_create(&self.holders(), b"", &options)?;
        all.add_create(&self.node("registry"), &registration.to_bytes(), &options)?;
        match all.commit().await {
            Ok(_) => Ok(()),
            // Somebody else made it at the same moment; if not, what is missing is said with the first use.
            Err(MultiWriteError::OperationFailed { source: Error::NodeExists, .. }) => {
                if client.check_stat(&self.node("registry")).await?.is_some() {
                    return Ok(());
                }
                Err(self.gone(&self.node("registry")))
            }
            Err(error) => Err(Error::from(error).into()),
        }
    }

    /// The names of the holders' nodes, and the state of their folder.
    pub(super) async fn children(&self, client: &Client) -> Result<(Vec<String>, Stat), Failure> {
        match client.get_children(&self.holders()).await {
            Err(Error::NoNode) => Err(self.gone(&self.holders())),
            done => Ok(done?),
        }
    }

    /// That a node which is made once and for all is not there.
    pub(super) fn gone(&self, path: &str) -> Failure {
        let base = &self.folders.base;
        self.refused(format!(
            "{path} was deleted: restore it; or stop all daemons that use it for longer than their leases last and \
             delete {base} with its contents, and leafd creates it again"
        ))
    }

    async fn declare_loss(&self, client: &Client, standing: Standing) -> Result<(), Failure> {
        let registration = Registration {
            history: random::token().map_err(|error| self.refused(error.to_string()))?,
            ..standing.registration
        };
        let set = client.set_data(
            &self.node("registry"),
            &registration.to_bytes(),
            Some(standing.version),
        );
        match set.await {
            // Somebody else has noticed it as well.
            Ok(_) | Err(Error::BadVersion) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The clock of the ensemble's leader, which is in whatever it writes.
    pub(super) async fn clock(&mut self, client: &Client) -> Result<UnixMs, Failure> {
        let stat = self.write_clock(client).await?;
        Ok(self.written(&stat))
    }

    async fn write_clock(&self, client: &Client) -> Result<Stat, Failure> {
        match client.set_data(&self.node("clock"), b"", None).await {
            Err(Error::NoNode) => Err(self.gone(&self.node("clock"))),
            done => Ok(done?),
        }
    }

    /// When the node at `path`, which the second write of a commit changed, was written.
    pub(super) async fn written_at(
        &mut self,
        client: &Client,
        path: &str,
        results: &[MultiWriteResult],
    ) -> Result<UnixMs, Failure> {
        if let Some(MultiWriteResult::SetData { stat }) = results.get(1) {
            return Ok(self.written(stat));
        }
        // Servers don't say it of a node that is made in a transaction (ZOOKEEPER-4667).
        match client.check_stat(path).await? {
            Some(stat) => Ok(self.written(&stat)),
            None => self.clock(client).await,
        }
    }

    /// When a node of this state was written, and that it was.
    fn written(&mut self, stat: &Stat) -> UnixMs {
        if let Some((_, zxid)) = &mut self.seen {
            *zxid = (*zxid).max(stat.mzxid);
        }
        modified(stat)
    }

    /// Which registry it is.
    pub(super) async fn standing(&self, client: &Client) -> Result<Standing, Failure> {
        let (bytes, stat) = match client.get_data(&self.node("registry")).await {
            Err(Error::NoNode) => return Err(self.gone(&self.node("registry"))),
            done => done?,
        };
        let registration = Registration::parse(&bytes).map_err(|cause| {
            self.refused(format!("{} can't be read: {cause}", self.node("registry")))
        })?;
        let id = RegistryId {
            id: StoreId(format!("zookeeper:{}{}", registration.identity, self.folders.kind).into()),
            history: History(registration.history.as_str().into()),
        };
        let lost = (stat.version > 0).then(|| modified(&stat));
        Ok(Standing { id, lost, version: stat.version, registration })
    }

    /// Commits `writes` if the registry still is what `standing` says: their results, or `None` when any node is not
    /// at its version, is there already or is there no more.
    pub(super) async fn commit(
        &mut self,
        client: &Client,
        standing: &Standing,
        writes: impl FnOnce(&mut MultiWriter<'_>) -> Result<(), Error>,
    ) -> Result<Option<Vec<MultiWriteResult>>, Failure> {
        let mut all = client.new_multi_writer();
        all.add_check_version(&self.node("registry"), standing.version)?;
        writes(&mut all)?;
        match all.commit().await {
            Ok(results) => Ok(Some(results)),
            Err(MultiWriteError::OperationFailed {
                source: Error::BadVersion | Error::NodeExists | Error::NoNode,
                ..
            }) => {
                // It would be so for ever if there were nowhere to write.
                self.children(client).await?;
                Ok(None)
            }
            Err(error) => Err(Error::from(error).into()),
        }
    }

    /// Whether this is to be done where that is recorded.
    pub(super) async fn judge(
        &mut self,
        client: &Client,
        swap: &CompareAndSet,
        found: Option<Entry>,
    ) -> Result<(), Failure> {
        // When it was last written is a time that the ensemble's clock has reached: that is mostly enough.
        let reached = found.as_ref().map_or(UnixMs(0), |entry| entry.written);
        match swap.judge(found.clone(), reached) {
            Err(RegistryError::TooFarAhead { .. }) => {
                let now = self.clock(client).await?;
                Ok(swap.judge(found, now)?)
            }
            judged => Ok(judged?),
        }
    }

    async fn register_layouts(
        &self,
        client: &Client,
        layouts: &[(Tag, Layout)],
    ) -> Result<(), Failure> {
        let path = self.node("layouts");
        loop {
            let (bytes, stat) = match client.get_data(&path).await {
                Err(Error::NoNode) => return Err(self.gone(&self.node("layouts"))),
                done => done?,
            };
            let mut recorded: BTreeMap<String, String> = serde_json::from_slice(&bytes)
                .map_err(|cause| self.refused(format!("{path} can't be read: {cause}")))?;
            let mut missing = false;
            for (name, layout) in layouts {
                let ours = definition(layout);
                match recorded.get(name.as_str()) {
                    Some(theirs) if *theirs == ours => {}
                    Some(theirs) => {
                        return Err(self.refused(format!(
                            "the layout {name:?} is recorded there as {theirs}, but is configured as {ours}. It must \
                             be the same on all hosts: give it another name, or correct the configuration"
                        )));
                    }
                    None => {
                        recorded.insert(name.as_str().to_owned(), ours);
                        missing = true;
                    }
                }
            }
            if !missing {
                return Ok(());
            }
            let bytes = serde_json::to_vec(&recorded)
                .expect("it serializes, because it has only text and numbers");
            match client.set_data(&path, &bytes, Some(stat.version)).await {
                Ok(_) => return Ok(()),
                // Somebody else recorded some meanwhile.
                Err(Error::BadVersion) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// What is in the nodes of these paths, in their order; `None` where there is no node. Of an even path and the one after
/// it, what was there at one moment.
pub(super) async fn read_all(
    client: &Client,
    paths: &[String],
) -> Result<Vec<Option<(Vec<u8>, Stat)>>, Failure> {
    let mut all = Vec::with_capacity(paths.len());
    for some in paths.chunks(READ_TOGETHER * READS_UNDER_WAY) {
        // All are sent before the first is waited for.
        let mut asked = Vec::with_capacity(READS_UNDER_WAY);
        for few in some.chunks(READ_TOGETHER) {
            let mut reader = client.new_multi_reader();
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

/// When a node of this state was written.
pub(super) fn modified(stat: &Stat) -> UnixMs {
    // Before 1970 reads as 1970.
    UnixMs(u64::try_from(stat.mtime).unwrap_or(0))
}
