//! The servers, what they hold, and which claims still exist.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use leafd_core::store::{
    CheckIn, History, Identity, Kept, Note, Proof, Role, StartToken, StoreError, StoreId,
    judge_start,
};
use leafd_core::upstream::{Monitor, Request, Response};

use crate::breaks::Break;

/// How many tags there are.
pub const TAGS: usize = 2;

/// How many numbers a claim takes.
pub const CLAIM: u64 = 40;

/// A dying primary loses at most the commits of this time.
pub const LAG_MS_MAX: u64 = 3_000;

/// What a server has committed.
#[derive(Clone)]
pub struct Data {
    /// Counts the promotions of its past. Two servers that were promoted from the same state have the same number.
    pub timeline: u64,
    pub note: Note,
    pub max_id: [u64; TAGS],
    /// The number of each host's last write, and the life of the daemon that made it.
    written: BTreeMap<usize, (u64, u64)>,
    /// How far its log has come.
    position: u64,
    /// The commits in it.
    pub commits: Rc<Vec<u64>>,
}

/// The servers, and their past.
pub struct Store {
    pub one_history: bool,
    pub data: Data,
    /// Former states, each with the true time until which it was current. They may be another server's.
    past: VecDeque<(u64, Data)>,
    /// The former primary's state when it went away.
    pub former: Option<Data>,
    /// The lives of this store, by their names.
    pub lives: BTreeMap<Rc<str>, Life>,
    pub pushes: Vec<Push>,
    /// The number of the write that the last call made for its host.
    pub wrote: Option<u64>,
    commits: u64,
    drawn: u64,
}

/// A life of the store.
#[derive(Default)]
pub struct Life {
    /// When it was noted.
    pub noted_ms: u64,
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
}

/// A claim as the store made it.
pub struct Granted {
    pub start: u64,
    pub commit: u64,
    pub life: Rc<str>,
    /// The commits that were there before.
    pub saw: Rc<Vec<u64>>,
    /// Whether the note was true.
    pub in_doubt: bool,
}

/// A call on its way.
#[derive(Clone, Debug)]
pub enum Call {
    Monitor(Request, Told),
    Claim(usize, Identity),
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
    pub host: usize,
    /// The host's place in the world, where it has no other name.
    pub index: usize,
    /// The life of its daemon.
    pub life: u64,
    /// The earlier lives whose writes that daemon knows as its host's own.
    pub starts: Vec<u64>,
    pub server: usize,
    /// `None` if that daemon is gone or has given up: the store carries out what it was asked before.
    pub proof: Option<&'a mut Proof>,
    pub engine: Option<String>,
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
    pub fn new(one_history: bool) -> Store {
        let note = Note::first(1, "timeline 1", &[]);
        let life = life_of(&note.history);
        let data = Data {
            timeline: 1,
            note,
            max_id: [1; TAGS],
            written: BTreeMap::new(),
            position: 0,
            commits: Rc::default(),
        };
        Store {
            one_history,
            data,
            past: VecDeque::new(),
            former: None,
            lives: BTreeMap::from([(life, Life::default())]),
            pushes: Vec::new(),
            wrote: None,
            commits: 0,
            drawn: 1,
        }
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
    fn found(&self, from: &mut From<'_>, broken: Option<Break>) -> Identity {
        let engine = from.engine.clone().unwrap_or_else(|| self.engine(from.server, broken));
        let (note, written) = (&self.data.note, self.data.written.get(&from.host));
        let is_own = |life: &u64| *life == from.life || from.starts.contains(life);
        let written = written.map(|(number, life)| (*number, is_own(life)));
        let mut kept = Kept::All;
        if let Some(proof) = &mut from.proof
            && note.engine == engine
            && broken != Some(Break::ProofIgnored)
        {
            kept = proof.check(&note.history, written, Some(self.data.position));
        }
        assert_ne!(kept, Kept::ByAnother, "no host runs twice");
        let history = match broken {
            Some(Break::EngineIgnored) => note.found(&note.engine, kept),
            _ => note.found(&engine, kept),
        };
        let (id, role) = (StoreId("simulated".into()), Role::default());
        Identity { id, history, role }
    }

    /// The former primary, if it still answers reads, and this host has seen its history end.
    pub fn old_primary(&self, monitor: &Monitor) -> Option<Identity> {
        let history = self.former.as_ref()?.note.history.clone();
        let is_left =
            |known: Option<&History>| known.is_some_and(|known| history.is_former_of(known));
        let is_old = is_left(monitor.known_history()) && is_left(monitor.history());
        let (id, role) = (StoreId("simulated".into()), Role::default());
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
        let checked = self.found(&mut from, broken).check(under, "simulated");
        if broken != Some(Break::HistoryUnchecked) {
            checked?;
        }
        let in_doubt = self.data.note.engine != self.engine(from.server, broken);
        let saw = Rc::clone(&self.data.commits);
        self.commit(true_ms);
        self.write(&mut from);
        if broken != Some(Break::SettledNotRecorded) {
            self.data.note.settled = true;
        }
        let life = life_of(&self.data.note.history);
        let commit = self.commits;
        self.lives.entry(Rc::clone(&life)).or_default().first_claim.get_or_insert(commit);
        let start = self.data.max_id[tag];
        self.data.max_id[tag] += CLAIM;
        Ok(Granted { start, commit, life, saw, in_doubt })
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
        let check = |under: &Identity| found.clone().check(under, "simulated");
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
                    let found = self.found(&mut from, broken).check(&under, "simulated");
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
                    self.data.written.insert(from.host, (number, from.life));
                    if let Some(proof) = &mut from.proof {
                        **proof = Proof::of(&found.history, number);
                    }
                    None
                }))
            }
            Request::IsSettled(under) => Response::IsSettled(check(&under).map(|()| {
                if from.proof.as_ref().is_some_and(|proof| !proof.is_entered(&found.history)) {
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
                let (commit, ends) = (self.commits, told.ends);
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
        self.lives.insert(life, Life { noted_ms: true_ms, ..Life::default() });
    }

    fn write(&mut self, from: &mut From<'_>) {
        let Some(proof) = &mut from.proof else { return };
        let number = proof.attempt(&self.data.note.history);
        self.data.written.insert(from.host, (number, from.life));
        self.wrote = Some(number);
    }

    fn commit(&mut self, true_ms: u64) {
        self.past.push_back((true_ms, self.data.clone()));
        while self.past.front().is_some_and(|(until_ms, _)| until_ms + LAG_MS_MAX < true_ms) {
            self.past.pop_front();
        }
        self.commits += 1;
        self.data.position += 1;
        Rc::make_mut(&mut self.data.commits).push(self.commits);
    }

    /// The state at an earlier time, of whichever server was the primary then. `same_life`: a state of the present
    /// life, in which the engine said of itself what it says now.
    fn before(&self, at_ms: u64, same_life: bool) -> Data {
        let is_fit = |data: &Data| {
            let (then, now) = (&data.note, &self.data.note);
            let is_earlier = self.data.commits.starts_with(&data.commits);
            let is_same = then.history == now.history && data.timeline == self.data.timeline;
            !same_life || is_same && is_earlier
        };
        let then = self.past.iter().find(|(until_ms, data)| *until_ms > at_ms && is_fit(data));
        then.map_or_else(|| self.data.clone(), |(_, data)| data.clone())
    }

    /// Loses commits.
    pub fn lose(&mut self, kind: Loss, true_ms: u64, lag_ms: u64) {
        let kept = match (kind, &self.former) {
            (Loss::FormerPrimary, Some(former)) => former.clone(),
            _ => self.before(true_ms - lag_ms, kind == Loss::SetBack),
        };
        let went = std::mem::replace(&mut self.data, kept);
        if kind == Loss::Promotion {
            self.data.timeline += 1;
        }
        self.former = (kind == Loss::Promotion).then_some(went);
        for life in self.lives.values_mut() {
            let is_there = |claim| self.data.commits.contains(&claim);
            let untraced = life.first_claim.is_some_and(|claim| !is_there(claim));
            life.untraced_ms = untraced.then(|| life.untraced_ms.unwrap_or(true_ms));
        }
    }
}
