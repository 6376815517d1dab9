//! The servers, what they hold, and which claims still exist.

use std::collections::VecDeque;

use leafd_core::store::{History, Identity, Role, StoreError, StoreId};
use leafd_core::upstream::{Request, Response};

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
    pub timeline: u64,
    pub losses: u64,
    /// The server's clock when this history was noted.
    pub noted: Option<(u64, History)>,
    pub max_id: [u64; TAGS],
    /// The number of the last commit in it.
    pub commit: u64,
    /// How far ahead the clock of its server is.
    pub offset_ms: u64,
}

/// The servers, and their past.
pub struct Store {
    pub one_history: bool,
    pub data: Data,
    /// The primary's former states, each with the true time until which it was current.
    past: VecDeque<(u64, Data)>,
    /// The former primary's state when it went away.
    pub former: Option<Data>,
    /// How far ahead each server's clock is, for servers that are one store.
    offsets_ms: Vec<u64>,
    pub failovers: Vec<Failover>,
    timelines: u64,
    commits: u64,
}

/// One loss of a store.
pub struct Failover {
    pub kind: Loss,
    pub at_ms: u64,
    /// Commits after this one are lost.
    pub kept: u64,
    /// The true time when every daemon could see it: at once, or when it was declared.
    pub evident_ms: Option<u64>,
    /// When the resulting history was noted.
    pub noted_ms: Option<u64>,
    /// The pushes under that history: which host pushed, and when.
    pub pushes: Vec<(usize, u64)>,
}

/// How a store loses commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Another server takes over, with a history of its own.
    NewHistory,
    /// The former primary takes over again, with its former history.
    FormerHistory,
    /// It doesn't show.
    Unseen,
}

/// The outcome of a call.
pub enum Answer {
    Monitor(Response),
    Claim(Result<(u64, u64), StoreError>),
}

/// A call on its way.
#[derive(Clone, Debug)]
pub enum Call {
    Monitor(Request, Vec<(usize, u64)>),
    Claim(usize, Identity),
}

impl Store {
    pub fn new(one_history: bool, offsets_ms: Vec<u64>) -> Store {
        let data = Data {
            timeline: 1,
            losses: 0,
            noted: None,
            max_id: [1; TAGS],
            commit: 0,
            offset_ms: 0,
        };
        Store {
            one_history,
            data,
            past: VecDeque::new(),
            former: None,
            offsets_ms,
            failovers: Vec::new(),
            timelines: 1,
            commits: 0,
        }
    }

    pub fn identity(&self, server: usize, broken: Option<Break>) -> Identity {
        let mut history = format!("timeline {}", self.data.timeline);
        if broken == Some(Break::HistoryPerServer) {
            history = format!("{history} of server {server}");
        }
        Identity {
            id: StoreId("simulated".into()),
            history: History::with_losses(&history, &self.data.losses.to_string()),
            role: Role::default(),
        }
    }

    /// Carries out a call that `host` makes over this server.
    pub fn carry_out(
        &mut self,
        true_ms: u64,
        (host, server): (usize, usize),
        call: Call,
        broken: Option<Break>,
    ) -> Answer {
        let found = self.identity(server, broken);
        let clock_ms = true_ms + self.offsets_ms[server] + self.data.offset_ms;
        let check = |under: &Identity| found.clone().check(under, "simulated");
        match call {
            Call::Claim(tag, under) => {
                if let Err(error) = check(&under)
                    && broken != Some(Break::HistoryUnchecked)
                {
                    return Answer::Claim(Err(error));
                }
                self.commit(true_ms);
                let start = self.data.max_id[tag];
                self.data.max_id[tag] += CLAIM;
                Answer::Claim(Ok((start, self.commits)))
            }
            Call::Monitor(Request::Identity, _) => Answer::Monitor(Response::Identity(Ok(found))),
            Call::Monitor(Request::NoteHistory(under), _) => {
                let noted = check(&under).map(|()| Some(self.note(true_ms, clock_ms, &found)));
                Answer::Monitor(Response::NoteHistory(noted))
            }
            Call::Monitor(Request::PushHighWater(under), ends) => {
                let pushed = check(&under).map(|()| {
                    self.commit(true_ms);
                    for (tag, end) in &ends {
                        self.data.max_id[*tag] = self.data.max_id[*tag].max(*end);
                    }
                    if let Some(last) = self.failovers.last_mut() {
                        last.pushes.push((host, true_ms));
                    }
                    ends.len()
                });
                Answer::Monitor(Response::PushHighWater(pushed))
            }
            Call::Monitor(Request::DeclareLoss(under), _) => {
                let declared = check(&under).map(|()| {
                    self.commit(true_ms);
                    self.data.losses += 1;
                    for one in &mut self.failovers {
                        one.evident_ms.get_or_insert(true_ms);
                    }
                    true
                });
                Answer::Monitor(Response::DeclareLoss(declared))
            }
            Call::Monitor(request, _) => panic!("{request:?} is answered by the host"),
        }
    }

    fn note(&mut self, true_ms: u64, clock_ms: u64, found: &Identity) -> u64 {
        if let Some((noted_ms, history)) = &self.data.noted
            && *history == found.history
        {
            return clock_ms.saturating_sub(*noted_ms);
        }
        self.commit(true_ms);
        self.data.noted = Some((clock_ms, found.history.clone()));
        if let Some(last) = self.failovers.last_mut() {
            // A former history that was never noted counts as new.
            if last.kind == Loss::FormerHistory {
                last.evident_ms.get_or_insert(true_ms);
            }
            if last.evident_ms.is_none() {
                return 0;
            }
            last.noted_ms.get_or_insert(true_ms);
        }
        0
    }

    fn commit(&mut self, true_ms: u64) {
        self.past.push_back((true_ms, self.data.clone()));
        while self.past.front().is_some_and(|(until_ms, _)| until_ms + LAG_MS_MAX < true_ms) {
            self.past.pop_front();
        }
        self.commits += 1;
        self.data.commit = self.commits;
    }

    /// The state at an earlier time.
    fn before(&self, at_ms: u64) -> Data {
        let then = self.past.iter().find(|(until_ms, _)| *until_ms > at_ms);
        then.map_or_else(|| self.data.clone(), |(_, data)| data.clone())
    }

    /// Loses commits.
    pub fn lose(&mut self, kind: Loss, true_ms: u64, lag_ms: u64, offset_ms: u64) {
        let kept = match (kind, &self.former) {
            (Loss::FormerHistory, Some(former)) => former.clone(),
            _ => self.before(true_ms - lag_ms),
        };
        let went = std::mem::replace(&mut self.data, kept);
        let evident = kind == Loss::NewHistory;
        if evident {
            self.timelines += 1;
            self.data.timeline = self.timelines;
            self.data.offset_ms = offset_ms;
        }
        // A former primary has its own commits again, and none of the other server's.
        let kept = match kind {
            Loss::FormerHistory => self.failovers.last().map_or(self.data.commit, |last| last.kept),
            _ => self.data.commit,
        };
        self.former = evident.then_some(went);
        self.past.clear();
        self.failovers.push(Failover {
            kind,
            at_ms: true_ms,
            kept,
            evident_ms: evident.then_some(true_ms),
            noted_ms: None,
            pushes: Vec::new(),
        });
    }
}
