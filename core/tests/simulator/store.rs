//! The servers, what they hold, and which claims still exist.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use leafd_core::registry::{Entry, RegistryId};
use leafd_core::store::{
    CheckIn, History, Identity, Kept, Note, Proof, Role, StartToken, StoreError, StoreId,
    judge_start,
};
use leafd_core::upstream::{Monitor, Request, Response};
use leafd_core::{BootMs, UnixMs, lease};

use crate::lease::failed;
use crate::workers::Leased;
use crate::{Break, Simulation};

/// How many tags there are.
pub const TAGS: usize = 2;

/// How many numbers a claim takes.
pub const CLAIM: u64 = 40;

/// A dying primary loses at most the commits of this time.
pub const LAG_MS_MAX: u64 = 3_000;

/// The old primary's place among the servers, while it still takes writes.
pub const OLD_PRIMARY: usize = 1;

/// The store's name.
pub const NAME: &str = "simulated";

/// What a server has committed.
#[derive(Clone)]
pub struct Data {
    /// Counts the promotions of its past. Two servers that were promoted from the same state have the same number.
    pub timeline: u64,
    pub note: Note,
    pub max_id: [u64; TAGS],
    /// The table of workers.
    pub workers: Rc<BTreeMap<u64, Entry>>,
    /// The number of each host's last write, and the life of the daemon that made it.
    written: BTreeMap<Arc<str>, (u64, u64)>,
    /// How far its log has come.
    position: u64,
    /// The last commit in it.
    pub commit: u64,
}

/// The servers, and their past.
pub struct Store {
    pub one_history: bool,
    /// Hosts claim segments from it, so its history is a value in its tables. Otherwise it is a registry that counts its
    /// histories itself.
    pub(crate) has_tags: bool,
    pub data: Data,
    /// Former states, each with the true time until which it was current. They may be another server's.
    past: VecDeque<(u64, Data)>,
    /// The former primary's state when it went away.
    pub former: Option<Data>,
    /// The old primary, while both it and the new one take writes.
    pub old_side: Option<OldSide>,
    /// Whether it carries out the present call.
    is_old_side: bool,
    /// The lives of this store, by their names.
    pub lives: BTreeMap<Rc<str>, Life>,
    pub pushes: Vec<Push>,
    /// The number of the write that the last call made for its host.
    pub wrote: Option<u64>,
    /// For each commit the one before it, whatever was lost since.
    before: Vec<u64>,
    drawn: u64,
    /// How far its clock is ahead of the true time, and since when.
    pub offset_ms: i64,
    pub offset_since_ms: u64,
    /// The writes of leases that it has made, in a store with tags.
    pub leased: Vec<Leased>,
    /// The highest expiry that each holder ever had recorded with each worker.
    pub ever: HashMap<(u64, Arc<str>), UnixMs>,
    /// Where each holder's last claim of each worker begins: at the previous holder's expiry.
    pub begins: HashMap<(u64, Arc<str>), UnixMs>,
    /// A host has just got a worker for good, or one that its former holder had not given back.
    pub taken_over: bool,
    /// When the registry's present history was first noticed, in true time; `None` before that.
    pub noticed_ms: Option<u64>,
}

/// A primary that still takes writes although another server was promoted.
pub struct OldSide {
    data: Data,
    past: VecDeque<(u64, Data)>,
    since_ms: u64,
    pub until_ms: u64,
}

/// A life of the store.
#[derive(Default)]
pub struct Life {
    /// When it was noted.
    pub noted_ms: u64,
    /// The lives that its history shows as over.
    pub former: Vec<Rc<str>>,
    /// It began while two primaries took writes.
    pub is_of_split: bool,
    /// The commit of the first claim in it.
    pub first_claim: Option<u64>,
    /// Since when the store has no trace of that claim.
    pub untraced_ms: Option<u64>,
}

/// A report of the numbers that a host has seen.
pub struct Push {
    /// The host, whatever its name was.
    pub host: usize,
    pub life: Rc<str>,
    pub commit: u64,
    pub ends: Vec<(usize, u64)>,
}

impl Push {
    /// Whether this id lies below what was reported.
    pub fn covers(&self, tag: usize, id: u64) -> bool {
        self.ends.iter().any(|(of, end)| *of == tag && *end > id)
    }
}

/// How a store loses commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Another server takes over.
    Promotion,
    /// The former primary takes over again, as it was.
    FormerPrimary,
    /// Its data is set back, and the engine says of itself what it said before.
    SetBack,
}

/// The outcome of a call.
pub enum Answer {
    /// `None`: the store has recorded a start of the host that its journal doesn't know.
    Monitor(Option<Response>),
    /// The first number, and the claim.
    Claim(Result<(u64, usize), StoreError>),
    Worker(lease::Response),
}

/// A claim as the store made it.
pub struct Granted {
    pub start: u64,
    pub commit: u64,
    pub life: Rc<str>,
    /// Whether the note was not true.
    pub in_doubt: bool,
    /// Since when the store was split, if its old primary granted it.
    pub split_since_ms: Option<u64>,
}

/// A call on its way.
#[derive(Clone, Debug)]
pub enum Call {
    Monitor(Request, Told),
    Claim(usize, Identity),
    Worker(lease::Request),
}

impl Call {
    /// The answer if the store can't be reached.
    pub fn unavailable(&self) -> Answer {
        let (store, cause) = (NAME.to_owned(), "it did not answer in time".into());
        let away = StoreError::Unavailable { store, cause };
        let request = match self {
            Call::Claim(..) => return Answer::Claim(Err(away)),
            Call::Worker(ask) => return Answer::Worker(failed(ask, away.into())),
            Call::Monitor(request, _) => request,
        };
        Answer::Monitor(Some(match request {
            Request::CheckIn(_) => Response::CheckIn(Err(away)),
            Request::IsSettled(_) => Response::IsSettled(Err(away)),
            Request::PushHighWater(_) => Response::PushHighWater(Err(away)),
            Request::Renew(..) => Response::Renew(Err(away)),
            _ => Response::Identity(Err(away)),
        }))
    }
}

/// What a host tells the store with a monitor's call.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The highest ends that it has seen.
    pub ends: Vec<(usize, u64)>,
    /// The earlier lives of its daemon that its journal knows.
    pub starts: Vec<u64>,
    /// Its last write that its journal knows, and in which history.
    pub written: Option<(History, u64)>,
}

/// Who calls: a host, over a server, with what it can prove. `engine`: what the connection was told when it was
/// opened, if only that counts.
pub struct From<'a> {
    /// Its name.
    pub host: Arc<str>,
    /// The host's place in the world, where it has no other name.
    pub index: usize,
    /// The life of its daemon.
    pub life: u64,
    /// The earlier lives whose writes that daemon knows as its host's own.
    pub starts: Vec<u64>,
    pub server: usize,
    /// `None` if that daemon is gone or has given up: the store carries out what it was asked before.
    pub own: Option<Own<'a>>,
    pub engine: Option<String>,
}

/// What the caller's daemon keeps of the store.
pub struct Own<'a> {
    pub proof: &'a mut Proof,
    /// The name under which the store has recorded this start.
    pub host: &'a mut Option<Arc<str>>,
    /// The present history, and since when it knows it.
    pub seen: &'a mut Option<(History, BootMs)>,
    pub now: BootMs,
}

/// The present life's name.
pub fn life_of(history: &History) -> Rc<str> {
    history.life().unwrap().into()
}

/// The names of the lives before it.
pub fn former_lives(history: &History) -> impl Iterator<Item = Rc<str>> {
    history.0.split(' ').skip(1).map(|life| life.trim_end_matches(['*', '!']).into())
}

impl Store {
    pub fn new(sim: &Simulation, one_history: bool) -> Store {
        let note = Note::first(1, "timeline 1", &[]);
        let life = life_of(&note.history);
        let data = Data {
            timeline: 1,
            note,
            max_id: [1; TAGS],
            workers: Rc::default(),
            written: BTreeMap::new(),
            position: 0,
            commit: 0,
        };
        Store {
            one_history,
            has_tags: sim.has_tags,
            data,
            past: VecDeque::new(),
            former: None,
            old_side: None,
            is_old_side: false,
            lives: BTreeMap::from([(life, Life::default())]),
            pushes: Vec::new(),
            wrote: None,
            before: vec![0],
            drawn: 1,
            offset_ms: 0,
            offset_since_ms: 0,
            leased: Vec::new(),
            ever: HashMap::new(),
            begins: HashMap::new(),
            taken_over: false,
            // It has been in use for a long time.
            noticed_ms: Some(0),
        }
    }

    /// Whether `commit` is among the commits up to this one.
    pub fn includes(&self, mut up_to: u64, commit: u64) -> bool {
        while up_to > commit {
            up_to = self.before[usize::try_from(up_to).unwrap()];
        }
        up_to == commit
    }

    pub fn clock(&self, true_ms: u64) -> UnixMs {
        UnixMs(true_ms.saturating_add_signed(self.offset_ms))
    }

    /// What the engine says about itself.
    pub fn engine(&self, server: usize, broken: Option<Break>) -> String {
        match broken {
            Some(Break::HistoryPerServer) => {
                format!("timeline {} of server {server}", self.data.timeline)
            }
            _ => format!("timeline {}", self.data.timeline),
        }
    }

    /// The identity as a host composes it.
    pub fn found(&self, from: &mut From<'_>, broken: Option<Break>) -> Identity {
        let engine = from.engine.clone().unwrap_or_else(|| self.engine(from.server, broken));
        let note = &self.data.note;
        let host = from.own.as_ref().and_then(|own| own.host.as_ref());
        let written = host.and_then(|host| self.data.written.get(host));
        let is_own = |life: &u64| *life == from.life || from.starts.contains(life);
        let written = written.map(|(number, life)| (*number, is_own(life)));
        let mut kept = Kept::All;
        if let Some(own) = &mut from.own
            && note.engine == engine
            && broken != Some(Break::ProofIgnored)
        {
            kept = own.proof.check(&note.history, written, Some(self.data.position));
        }
        assert_ne!(kept, Kept::ByAnother, "no host runs twice");
        let history = match broken {
            Some(Break::EngineIgnored) => note.found(&note.engine, kept),
            _ => note.found(&engine, kept),
        };
        let (id, role) = (StoreId(NAME.into()), Role::default());
        Identity { id, history, role }
    }

    /// The registry as a host finds it.
    pub fn registry(&self, from: &mut From<'_>, broken: Option<Break>) -> RegistryId {
        match self.has_tags {
            true => self.found(from, broken).into(),
            false => RegistryId {
                id: StoreId(NAME.into()),
                history: History(self.data.timeline.to_string().into()),
            },
        }
    }

    /// Whether commits may have been lost, and no host has recorded that yet.
    pub fn is_in_doubt(&self, server: usize, broken: Option<Break>) -> bool {
        self.data.note.engine != self.engine(server, broken)
    }

    /// The former primary, if it still answers reads, and this host has seen its history end.
    pub fn old_primary(&self, monitor: &Monitor) -> Option<Identity> {
        let history = self.former.as_ref()?.note.history.clone();
        let is_left =
            |known: Option<&History>| known.is_some_and(|known| history.is_former_of(known));
        let is_old = is_left(monitor.known_history()) && is_left(monitor.history());
        let (id, role) = (StoreId(NAME.into()), Role::default());
        is_old.then_some(Identity { id, history, role })
    }

    /// Carries out a claim.
    pub fn claim(
        &mut self,
        true_ms: u64,
        mut from: From<'_>,
        tag: usize,
        under: &Identity,
        broken: Option<Break>,
    ) -> Result<Granted, StoreError> {
        let checked = self.found(&mut from, broken).check(under, NAME);
        if broken != Some(Break::HistoryUnchecked) {
            checked?;
        }
        let in_doubt = self.is_in_doubt(from.server, broken);
        self.commit(true_ms);
        self.write(&mut from);
        if broken != Some(Break::SettledNotRecorded) {
            self.data.note.settled = true;
        }
        let life = life_of(&self.data.note.history);
        let commit = self.data.commit;
        self.lives.entry(Rc::clone(&life)).or_default().first_claim.get_or_insert(commit);
        let start = self.data.max_id[tag];
        self.data.max_id[tag] += CLAIM;
        Ok(Granted { start, commit, life, in_doubt, split_since_ms: self.split_since_ms() })
    }

    /// Carries out a monitor's call.
    pub fn answer(
        &mut self,
        true_ms: u64,
        mut from: From<'_>,
        request: Request,
        told: Told,
        broken: Option<Break>,
    ) -> Option<Response> {
        let found = self.found(&mut from, broken);
        let engine = from.engine.clone().unwrap_or_else(|| self.engine(from.server, broken));
        let check = |under: &Identity| found.clone().check(under, NAME);
        Some(match request {
            Request::Identity => Response::Identity(Ok(found)),
            Request::CheckIn(under) => {
                let checked = check(&under);
                let last = self.data.written.get(&from.host).copied();
                let (number, life) = last.unwrap_or_default();
                let Told { starts, written, .. } = &told;
                let of_this = written.as_ref().filter(|(of, _)| *of == under.history);
                let is_lost = of_this.is_some_and(|(_, least)| number < *least);
                if checked.is_ok()
                    && is_lost
                    && !starts.is_empty()
                    && broken != Some(Break::JournalsProofIgnored)
                {
                    self.renew(true_ms, &engine, Some(&under.history));
                    let found = self.found(&mut from, broken).check(&under, NAME);
                    return Some(Response::CheckIn(found.map(|()| None)));
                }
                let token = |life: &u64| StartToken(life.to_string().into());
                let known: Vec<_> = starts.iter().map(token).collect();
                let life = last.map(|_| token(&life).0);
                let (judged, replace) = judge_start(life.as_deref(), &known, &token(&from.life));
                if checked.is_ok() && judged == CheckIn::Stale {
                    return None;
                }
                Response::CheckIn(checked.map(|()| {
                    self.commit(true_ms);
                    let number = number + u64::from(replace);
                    self.data.written.insert(Arc::clone(&from.host), (number, from.life));
                    if let Some(own) = &mut from.own {
                        *own.proof = Proof::of(&found.history, number);
                        *own.host = Some(Arc::clone(&from.host));
                    }
                    None
                }))
            }
            Request::IsSettled(under) => Response::IsSettled(check(&under).map(|()| {
                let is_entered = |own: &Own<'_>| own.proof.is_entered(&found.history);
                if from.own.as_ref().is_some_and(|own| !is_entered(own)) {
                    self.commit(true_ms);
                    self.write(&mut from);
                }
                Some(self.data.note.settled)
            })),
            Request::PushHighWater(under) => Response::PushHighWater(check(&under).map(|()| {
                self.commit(true_ms);
                for (tag, end) in &told.ends {
                    self.data.max_id[*tag] = self.data.max_id[*tag].max(*end);
                }
                let pushed = told.ends.len();
                let life = life_of(&self.data.note.history);
                let (commit, ends) = (self.data.commit, told.ends);
                self.pushes.push(Push { host: from.index, life, commit, ends });
                pushed
            })),
            Request::Renew(under, known) => Response::Renew(check(&under).map(|()| {
                self.renew(true_ms, &engine, known.as_ref());
                true
            })),
            request => panic!("{request:?} is not asked of this store"),
        })
    }

    /// The former primary goes on taking writes.
    pub fn split(&mut self, true_ms: u64, until_ms: u64) {
        let past = VecDeque::new();
        self.old_side =
            self.former.clone().map(|data| OldSide { data, past, since_ms: true_ms, until_ms });
    }

    /// The old primary is fenced. It may return as it was then. Returns whether its history shows the other's as over,
    /// if there was one.
    pub fn end_split(&mut self) -> Option<bool> {
        let old = self.old_side.take()?.data;
        let is_later = self.data.note.history.is_former_of(&old.note.history);
        self.former = Some(old);
        Some(is_later)
    }

    /// What follows is carried out by this server.
    pub fn goes_on_at(&mut self, server: usize) {
        let is_old_side = server == OLD_PRIMARY && self.old_side.is_some();
        if is_old_side != self.is_old_side
            && let Some(other) = &mut self.old_side
        {
            std::mem::swap(&mut self.data, &mut other.data);
            std::mem::swap(&mut self.past, &mut other.past);
            self.is_old_side = is_old_side;
        }
    }

    /// Since when the store is split, if the old primary carries out the present call.
    pub fn split_since_ms(&self) -> Option<u64> {
        self.old_side.as_ref().filter(|_| self.is_old_side).map(|old| old.since_ms)
    }

    /// An operator says that the store has lost commits.
    pub fn declare_loss(&mut self, true_ms: u64) {
        let engine = self.engine(0, None);
        self.renew(true_ms, &engine, None);
    }

    fn renew(&mut self, true_ms: u64, engine: &str, known: Option<&History>) {
        self.commit(true_ms);
        self.drawn += 1;
        self.data.note = self.data.note.renewed(self.drawn, engine, known);
        let life = life_of(&self.data.note.history);
        let former = former_lives(&self.data.note.history).collect();
        let is_of_split = self.old_side.is_some();
        self.lives.insert(life, Life { noted_ms: true_ms, former, is_of_split, ..Life::default() });
    }

    /// Writes the number that proves to the host that its last write is kept.
    pub fn write(&mut self, from: &mut From<'_>) {
        let Some(Own { proof, host: Some(host), .. }) = &mut from.own else { return };
        let found = self.data.written.get(host).map_or(0, |(number, _)| *number);
        let number = proof.attempt(&self.data.note.history, found);
        self.data.written.insert(Arc::clone(host), (number, from.life));
        self.wrote = Some(number);
    }

    pub fn commit(&mut self, true_ms: u64) {
        self.past.push_back((true_ms, self.data.clone()));
        while self.past.front().is_some_and(|(until_ms, _)| until_ms + LAG_MS_MAX < true_ms) {
            self.past.pop_front();
        }
        self.data.position += 1;
        self.before.push(self.data.commit);
        self.data.commit = self.before.len() as u64 - 1;
    }

    /// The state at an earlier time, of whichever server was the primary then. `same_life`: a state of the present
    /// life, in which the engine said of itself what it says now.
    fn state_at(&self, at_ms: u64, same_life: bool) -> Data {
        let is_fit = |data: &Data| {
            let (then, now) = (&data.note, &self.data.note);
            let is_earlier = self.includes(self.data.commit, data.commit);
            let is_same = then.history == now.history && data.timeline == self.data.timeline;
            !same_life || is_same && is_earlier
        };
        let then = self.past.iter().find(|(until_ms, data)| *until_ms > at_ms && is_fit(data));
        then.map_or_else(|| self.data.clone(), |(_, data)| data.clone())
    }

    /// Loses commits.
    pub fn lose(&mut self, kind: Loss, true_ms: u64, lag_ms: u64, broken: Option<Break>) {
        let kept = match (kind, &self.former) {
            (Loss::FormerPrimary, Some(former)) => former.clone(),
            _ => self.state_at(true_ms - lag_ms, kind == Loss::SetBack),
        };
        let timeline = self.data.timeline;
        let went = std::mem::replace(&mut self.data, kept);
        if kind == Loss::Promotion {
            self.data.timeline += 1;
        }
        self.former = (kind == Loss::Promotion).then_some(went);
        if !self.has_tags {
            self.past.clear();
            if broken == Some(Break::HistoryHidden) {
                self.data.timeline = timeline;
            } else {
                (self.data.timeline, self.noticed_ms) = (timeline + 1, None);
            }
        }
        let mut lives = std::mem::take(&mut self.lives);
        for life in lives.values_mut() {
            let old_side = self.old_side.as_ref().map(|old| &old.data);
            let mut sides = [&self.data].into_iter().chain(old_side);
            let is_gone = |claim| !sides.any(|data| self.includes(data.commit, claim));
            let untraced = life.first_claim.is_some_and(is_gone);
            life.untraced_ms = untraced.then(|| life.untraced_ms.unwrap_or(true_ms));
        }
        self.lives = lives;
    }
}
