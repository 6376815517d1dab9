//! Drives the monitor of a store: carries out its steps one after the other, calls the store and the journal, and
//! reports changes to the code whose tags live in the store.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use tracing::{debug, error, info, warn};

use super::Upstream;
use crate::clock;
use crate::engine::segments::Segments;
use crate::engine::{PendingCall, response};
use crate::journal::{Journal, JournalError, Recovered, Write};
use crate::random;
use crate::store::Store;
use leafd_core::Tag;
use leafd_core::store::{
    CheckIn, ClaimRecord, History, HostId, Identity, StartToken, StoreError, StoreId, Why,
};
use leafd_core::upstream::{Event, Record, Request, Response, Step};
use leafd_wire::Run;

/// Drives the monitor of one store.
pub struct Driver {
    upstream: Rc<Upstream>,
    /// The code whose tags live in the store.
    tenants: Rc<Segments>,
    journal: Journal,
    /// What the journal reported at the start.
    start: Rc<Recovered>,
    /// The number of this host's last write according to the journal.
    written: Cell<u64>,
    /// The later era of its list according to the journal.
    later_era: Cell<u32>,
    /// Claims whose ids may also have been granted to another host.
    distrusted: RefCell<BTreeMap<Tag, Vec<Run>>>,
}

/// How many tags are reported to the store in one call.
const PUSHED_AT_ONCE: u16 = 1_000;

/// How many recorded claims of a tag are compared with this host's own.
const COMPARED_MAX: u32 = 1_000;

impl Driver {
    /// Nothing happens before [`Driver::run`] is called.
    pub fn new(
        upstream: Rc<Upstream>,
        tenants: Rc<Segments>,
        journal: Journal,
        start: Rc<Recovered>,
    ) -> Rc<Self> {
        let (written, later_era, distrusted) = Default::default();
        Rc::new(Driver { upstream, tenants, journal, start, written, later_era, distrusted })
    }

    /// Watches the store and follows its changes, until dropped.
    pub async fn run(self: Rc<Self>) {
        let mut pending: PendingCall<Response> = None;
        loop {
            let step = self.upstream.monitor.borrow_mut().next(clock::boot());
            self.upstream.follow();
            match step {
                Step::Event(event) => self.happened(event),
                Step::Request(request) => pending = Some(Box::pin(Rc::clone(&self).ask(request))),
                Step::Wait(until) => {
                    tokio::select! {
                        response = response(&mut pending) => self.answered(response),
                        () = clock::wait_until(until) => {}
                        () = self.upstream.woken.notified() => {}
                    }
                }
            }
        }
    }

    fn answered(&self, response: Response) {
        let mut monitor = self.upstream.monitor.borrow_mut();
        let visits = monitor.visits;
        monitor.answered(clock::boot(), response, fastrand::u64(..));
        let ended = monitor.visits != visits;
        drop(monitor);
        self.upstream.follow();
        if ended {
            self.upstream.visited.notify_waiters();
        }
    }

    async fn ask(self: Rc<Self>, request: Request) -> Response {
        let store = &self.upstream.store;
        match request {
            Request::Identity => {
                let known = self.upstream.monitor.borrow().known_history().cloned();
                let known = known.map(|known| (self.written_in(&known), known));
                // Once it has, the journal, whose disk may hang, is not asked again.
                let has_claimed = self.upstream.has_claimed.get() || self.has_claimed().await;
                self.upstream.has_claimed.set(has_claimed);
                let asked = store.call(move |store| {
                    if let Some((written, known)) = &known {
                        store.trust(known, *written);
                    }
                    let found = store.identity()?;
                    let written = store.written(&found.history);
                    let denied = if has_claimed { Ok(()) } else { store.check_privileges() };
                    let denied = denied.err().filter(|error| error.why() == Why::MissingPrivileges);
                    Ok((found, written, store.server(), denied))
                });
                let found = asked.await;
                if let Ok((found, written, server, denied)) = &found {
                    self.upstream.server.borrow_mut().clone_from(server);
                    self.upstream.denied.borrow_mut().clone_from(denied);
                    self.upstream.hear_role(&found.role);
                    self.record_later_era(&found.id).await;
                    self.record_written(found, *written).await;
                }
                Response::Identity(found.map(|(found, ..)| found))
            }
            Request::HasTags => Response::HasTags(self.has_tags().await),
            Request::TakeRole(under, role) => {
                Response::TakeRole(store.call(move |store| store.take_role(&under, &role)).await)
            }
            Request::CheckIn(under) => {
                let record = self.start.of(&under.id);
                let history = record.map(|record| History(record.history.clone()));
                Response::CheckIn(self.check_in(&under).await.map(|()| history))
            }
            Request::IsSettled(under) => {
                Response::IsSettled(store.call(move |store| store.is_settled(&under)).await)
            }
            Request::Renew(under, known) => {
                let renew = store.call(move |store| store.renew(&under, known.as_ref()));
                Response::Renew(renew.await)
            }
            Request::PushHighWater(under) => {
                Response::PushHighWater(self.push_high_water(&under).await)
            }
            Request::Record(record) => Response::Record(self.record(record).await),
        }
    }

    /// Records this start in the store. If the store knows a start that the journal doesn't know, this host continues
    /// as a new one, because the journal's held ids of all stores are as old as the journal.
    async fn check_in(&self, under: &Identity) -> Result<(), StoreError> {
        let check_in = async |known: Vec<StartToken>| {
            let (under, host, token) =
                (under.clone(), self.tenants.host(), self.start.token.clone());
            let call = move |store: &mut Store| store.check_in(&under, &host, &known, &token);
            self.upstream.store.call(call).await
        };
        let tokens = match self.is_anew() {
            true => vec![],
            false => self.start.tokens_known(&under.id),
        };
        if check_in(tokens).await? == CheckIn::Stale {
            error!(
                store = %self.upstream.url, host = %self.tenants.host(),
                "the store has recorded a start of this host that the host's journal doesn't contain: the journal or \
                 the store was restored from an older copy, or another host uses a copy of the journal. This host \
                 skips the ids left in the journal and continues as a new host"
            );
            self.upstream.stale.set(true);
            self.tenants.set_all_aside();
            let host = HostId(random::token().into());
            self.commit(vec![Write::BeginAnew { host: host.clone() }]).await?;
            self.tenants.begin_anew(host);
            check_in(vec![]).await?;
        }
        Ok(())
    }

    /// Whether this host has ever claimed from the store, according to the journal.
    async fn has_claimed(&self) -> bool {
        let Some(key) = self.upstream.key() else { return false };
        self.journal.ends(&key, None, 1).await.is_ok_and(|ends| !ends.is_empty())
    }

    /// The number of this host's last write in a history, according to the journal.
    fn written_in(&self, history: &History) -> u64 {
        let mut records = self.start.stores.iter();
        records.find(|record| *record.history == *history.0).map_or(0, |record| record.written)
    }

    /// Whether this host has continued as a new one since the start. The journal's reports from the start are then the
    /// former host's.
    fn is_anew(&self) -> bool {
        self.tenants.host() != self.start.host
    }

    /// Makes the journal record the number of this host's last write, so that the next start detects if that write is
    /// missing.
    async fn record_written(&self, found: &Identity, written: u64) {
        let is_trusted = self.upstream.claimable().as_ref() == Some(found);
        // Until a host that continues as a new one has started again, a store may have the former host's number.
        if !is_trusted || self.is_anew() || written <= self.written.replace(written) {
            return;
        }
        self.note(Write::Written { store: found.id.clone(), number: written }).await;
    }

    /// Makes the journal record a later era of its list, with each store of the list, because after a restart any of
    /// them may be the only one that answers.
    async fn record_later_era(&self, store: &StoreId) {
        let era = self.upstream.later_era();
        if era > self.later_era.get() && self.note(self.later_era_of(store)).await {
            self.later_era.set(era);
        }
    }

    /// Makes the journal record something that helps to detect problems at the next start. If the journal fails, other
    /// code reports that. Returns whether it is recorded.
    async fn note(&self, write: Write) -> bool {
        let written = self.commit(vec![write]).await;
        if let Err(error) = &written {
            debug!(store = %self.upstream.url, "{error}");
        }
        written.is_ok()
    }

    async fn has_tags(&self) -> Result<bool, StoreError> {
        // Ids of a tag that was deleted may have been issued.
        let look = |store: &mut Store| {
            Ok(!store.list(None, 1)?.is_empty() || !store.ends(None, 1)?.is_empty())
        };
        self.upstream.store.call(look).await
    }

    /// Raises every tag of the store that this host knows to the highest end that it has seen. Returns how many tags
    /// it knows.
    ///
    /// With very many tags, this takes longer than `failover_settle`. A store that lost commits lost the latest ones, so
    /// the latest claims come first, then the tags in use.
    async fn push_high_water(&self, under: &Identity) -> Result<usize, StoreError> {
        let Some(key) = self.upstream.key() else { return Ok(0) };
        let mut latest = self.upstream.claims.recent_ends();
        for (tag, runs) in self.distrusted.borrow().iter() {
            latest.extend(runs.iter().map(|run| (tag.clone(), run.end())));
        }
        latest.extend(self.tenants.seen_in_use(&self.upstream));
        let first = highest_of_each(latest);
        self.raise(under, &first).await?;
        let mut pushed = 0;
        let mut after: Option<Tag> = None;
        loop {
            let page = self.journal.ends(&key, after.as_ref(), PUSHED_AT_ONCE.into()).await;
            let page = page.map_err(|error| in_journal(&error))?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            pushed += page.len();
            self.raise(under, &page).await?;
        }
        // Claims answered during the report may be in neither list: the journal may not have had them when it was read.
        let known: HashMap<Tag, u64> = first.into_iter().collect();
        let mut late = self.tenants.seen_in_use(&self.upstream);
        late.retain(|(tag, end)| known.get(tag).is_none_or(|known| known < end));
        self.raise(under, &late).await?;
        Ok(pushed)
    }

    async fn raise(&self, under: &Identity, ends: &[(Tag, u64)]) -> Result<(), StoreError> {
        for some in ends.chunks(PUSHED_AT_ONCE.into()) {
            self.upstream.raise(under, some.to_vec(), self.tenants.masking()).await?;
        }
        Ok(())
    }

    /// Reports ids that both this host and another host have claimed, from another server or after the store had lost
    /// this host's claims.
    async fn report_repeats(self: Rc<Self>) {
        let host = self.tenants.host();
        for (tag, own) in self.distrusted.take() {
            let first = own.iter().map(|run| run.first).min().unwrap_or(0);
            let Ok(records) = self.upstream.claims_after(&tag, first, COMPARED_MAX).await else {
                continue;
            };
            let is_own = |record: &&ClaimRecord| {
                let by = &record.by.host;
                // It may have claimed this before it continued as a new host.
                *by == host || *by == self.start.host && own.contains(&record.run)
            };
            for record in records.iter().filter(|record| !is_own(record)) {
                let theirs = record.run.range();
                for run in &own {
                    let ids = run.first.max(theirs.start)..run.end().min(theirs.end);
                    if !ids.is_empty() {
                        error!(
                            store = %self.upstream.url, %tag, first = ids.start, last = ids.end - 1, by = %record.by.name,
                            "another host has claimed ids that this host had claimed: they may have been issued twice. The \
                             store lost claims, or two of its servers accepted writes"
                        );
                    }
                }
            }
        }
    }

    /// Makes the journal record the store's identity. This must be durable before anything is claimed.
    async fn record(&self, record: Record) -> Result<(), StoreError> {
        let writes = match record {
            Record::CheckedIn(store, history) => {
                let (url, later_era) = (Arc::clone(&self.upstream.url), self.later_era_of(&store));
                vec![Write::CheckedIn { url, store, history: history.0 }, later_era]
            }
            Record::History(store, history) => vec![Write::History { store, history: history.0 }],
        };
        self.commit(writes).await
    }

    fn later_era_of(&self, store: &StoreId) -> Write {
        Write::LaterEra { store: store.clone(), era: self.upstream.later_era() }
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        let written = self.journal.write(writes).outcome().await;
        written.map_err(|error| in_journal(&error))
    }

    fn happened(self: &Rc<Self>, event: Event) {
        let (upstream, tenants) = (&self.upstream, &self.tenants);
        let store = &upstream.url;
        match event {
            // The daemon's health reports these as long as they last.
            Event::Away(error) => debug!(%store, "{error}"),
            Event::Back => debug!(%store, "the store answers"),
            Event::Resumed => Rc::clone(tenants).resume(upstream),
            Event::CheckedIn(key) => {
                if upstream.key().is_some_and(|known| known != key) {
                    tenants.drop_held(upstream);
                }
                *upstream.key.borrow_mut() = Some(key);
            }
            // This ends on its own. If the store lost anything, the code that detects the loss logs an error.
            Event::FailedOver(to) => warn!(
                %store, history = %to,
                "the store has failed over or was restored (its history has changed), and may have lost its last \
                 commits: claims pause for failover_settle, so that all hosts can report the highest ids that they \
                 have seen"
            ),
            Event::WentBack(history) => error!(
                %store, %history,
                "the store has lost the history that this host trusts (a backup was restored, or a server that was not \
                 up to date took over): claims made since are lost. Every host reports the highest ids that it has seen, \
                 and drops held ids that other hosts may claim"
            ),
            Event::Distrusted => {
                warn!(%store, "dropping held ids: the store lost commits, so other hosts may claim them");
                tenants.drop_held(upstream);
                let mut distrusted = self.distrusted.borrow_mut();
                for (tag, runs) in upstream.claims.take_recent() {
                    distrusted.entry(tag).or_default().extend(runs);
                }
            }
            Event::Settled(tags) => {
                info!(%store, tags, "reported the highest ids this host has seen to the store; claims resume");
                tokio::task::spawn_local(Rc::clone(self).report_repeats());
            }
            Event::Refused(error) => {
                debug!(%store, "{error}");
                Rc::clone(tenants).refused(upstream);
            }
            Event::SetAside => tenants.set_aside(upstream),
        }
    }
}

impl Upstream {
    /// The store reports or grants less of a tag than before, so it has lost commits without changing its history.
    /// Every daemon must learn of this.
    pub(crate) fn lost_commits(self: &Rc<Self>, tenants: &Segments, tag: &Tag, seen: u64) {
        let Some(under) = self.claimable() else { return };
        if !self.monitor.borrow_mut().lost_commits(&under) {
            return;
        }
        error!(
            store = %self.url, %tag, seen,
            "the store lost claims that it had confirmed: every host reports the highest ids that it has seen, and \
             drops held ids that other hosts may claim. Check the store's replication and backups"
        );
        if !self.embedded {
            // The driver drops them too, but perhaps only after the next draw.
            tenants.drop_held(self);
        }
        self.woken.notify_one();
    }

    /// Copies the monitor's answer about the held ids, because every request needs it.
    pub(super) fn follow(&self) {
        self.issues_until.set(self.monitor.borrow().issues_until());
    }
}

/// The highest end of each tag, in the order in which the tags first appear.
fn highest_of_each(ends: Vec<(Tag, u64)>) -> Vec<(Tag, u64)> {
    let (mut places, mut highest) = (HashMap::new(), Vec::<(Tag, u64)>::new());
    for (tag, end) in ends {
        let place = *places.entry(tag.clone()).or_insert(highest.len());
        match highest.get_mut(place) {
            Some((_, known)) => *known = end.max(*known),
            None => highest.push((tag, end)),
        }
    }
    highest
}

fn in_journal(error: &JournalError) -> StoreError {
    StoreError::Unavailable { store: "journal".to_owned(), cause: error.to_string().into() }
}
