//! The explored world: a registry with one worker, two hosts, and what can happen to them.

use std::ops::Range;
use std::time::Duration;

use leafd_core::lease::{Lease, LeaseSettings, Mode, Recorded, Request, Response, Step};
use leafd_core::registry::{Entry, Holder, RegistryError, RegistryId, Snapshot};
use leafd_core::store::{History, StartToken, StoreId};
use leafd_core::{BootMs, Now, UnixMs};

pub const START_MS: u64 = 1_000_000_000_000;
/// Time passes in steps of this length, when no call is pending. What becomes due during a step happens at its end, in
/// every order.
const TICK_MS: u64 = 5_000;
const LEASE_MS: u64 = 4 * TICK_MS;
const DRIFT_MS: u64 = TICK_MS;
const SETTLE_MS: u64 = 3 * TICK_MS;
/// How many ticks a host may be down or frozen, or a call late. It is longer than a lease.
const ABSENT_MAX: u32 = 6;
/// Instants further back than this are not told apart. Of what matters, only the start of a long claim is that old.
pub const PAST_MS: u64 = 12 * TICK_MS;

/// Everything there is. Its `Debug` text identifies it.
#[derive(Clone, Debug)]
pub struct World {
    /// The true time, which the registry's clock shows.
    pub now_ms: u64,
    registry: RegistryId,
    failed_over_ms: Option<u64>,
    entry: Option<Entry>,
    /// The entry before the last write, which a fail-over restores.
    before: Option<Entry>,
    /// The instants whose ids were issued, in order.
    issued: Vec<Range<u64>>,
    /// An id was issued a second time.
    pub twice: bool,
    hosts: [Host; 2],
    /// For how many ticks something has been absent.
    absent: u32,
    faults: u32,
    broken: Option<Break>,
}

#[derive(Clone, Debug)]
struct Host {
    settings: LeaseSettings,
    /// `None`: it doesn't run.
    lease: Option<Lease>,
    frozen: bool,
    journal: Option<Recorded>,
    /// It issued no ids from this instant on, according to its journal.
    reached: u64,
    call: Call,
    /// A call that the registry will receive after its host stopped waiting for the answer.
    late: Option<Request>,
    offset_ms: i64,
    lives: u32,
}

/// The call that a host waits for.
#[derive(Clone, Debug)]
enum Call {
    None,
    Sent(Request),
    Answered(Response),
}

/// What can happen next. Hosts are named by their index.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    TimePasses,
    /// A host's call is executed. Unless the host is frozen, it hears the answer and acts on it.
    Executes(usize),
    /// A host starts again, or is no longer frozen.
    Returns(usize),
    LateCallArrives(usize),
    Fails(Fault, usize),
}

/// What happens once at most. A stop and a release are no faults, but count as such.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    CallLost,
    AnswerLost,
    CallLate,
    JournalRefuses,
    Crash,
    CrashWithoutJournal,
    Freeze,
    Stop,
    Release,
    ClockSteps(i64),
    /// The registry loses its last write.
    FailOver,
}

/// A promise that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Break {
    CompareIgnored,
    SettlingSkipped,
    HistoryHidden,
    SilenceIsConsent,
    LimitIgnored,
    StartIgnored,
    MarkForgotten,
}

pub const BREAKS: [Break; 7] = [
    Break::CompareIgnored,
    Break::SettlingSkipped,
    Break::HistoryHidden,
    Break::SilenceIsConsent,
    Break::LimitIgnored,
    Break::StartIgnored,
    Break::MarkForgotten,
];

// === impl World ===

impl World {
    pub fn new(broken: Option<Break>) -> World {
        let mut world = World {
            now_ms: START_MS,
            registry: RegistryId {
                id: StoreId("registry".into()),
                history: History("first".into()),
            },
            failed_over_ms: None,
            entry: None,
            before: None,
            issued: Vec::new(),
            twice: false,
            hosts: ["a", "b"].map(Host::new),
            absent: 0,
            faults: 0,
            broken,
        };
        for host in 0..2 {
            world.hosts[host].start(START_MS);
            world.proceed(host);
        }
        world
    }

    /// The world after an action; `None` if it is not possible now.
    pub fn after(&self, action: Action) -> Option<World> {
        match action {
            Action::Executes(host) if !matches!(self.hosts[host].call, Call::Sent(_)) => {
                return None;
            }
            Action::Returns(host) if self.hosts[host].runs() => return None,
            Action::Fails(..) if self.faults > 0 => return None,
            _ => {}
        }
        let mut world = self.clone();
        match action {
            Action::TimePasses => world.pass()?,
            Action::Executes(host) => {
                if let Call::Sent(call) = self.hosts[host].call.clone() {
                    world.hosts[host].call = Call::Answered(world.execute(host, call));
                }
                world.proceed(host);
            }
            Action::Returns(host) => {
                let returns = &mut world.hosts[host];
                if !std::mem::take(&mut returns.frozen) {
                    returns.start(world.now_ms);
                    if world.broken == Some(Break::MarkForgotten) {
                        returns.reached = 0;
                    }
                }
                world.proceed(host);
            }
            Action::LateCallArrives(host) => {
                let call = world.hosts[host].late.take()?;
                world.execute(host, call);
            }
            Action::Fails(fault, host) => {
                world.faults += 1;
                world.fail(fault, host)?;
                world.proceed(host);
            }
        }
        Some(world)
    }

    /// A host hears an answer, and acts until it waits for another one or for time to pass. It issues ids before and
    /// after each step.
    fn proceed(&mut self, index: usize) {
        self.issue(index);
        let host = &mut self.hosts[index];
        let now = host.now(self.now_ms);
        let Some(lease) = host.lease.as_mut().filter(|_| !host.frozen) else { return };
        match std::mem::replace(&mut host.call, Call::None) {
            Call::Answered(answer) => lease.answered(now, answer, 0),
            Call::None => {}
            sent @ Call::Sent(_) => return host.call = sent,
        }
        self.issue(index);
        let host = &mut self.hosts[index];
        while let (Call::None, Some(lease)) = (&host.call, &mut host.lease) {
            if lease.released().is_some() {
                lease.want();
            }
            match lease.next(now, 0) {
                Step::Request(call) => host.call = Call::Sent(call),
                Step::Wait(Some(_)) => break,
                // It was released.
                Step::Wait(None) => {}
                Step::Done => host.lease = None,
            }
        }
        self.issue(index);
    }

    fn fail(&mut self, fault: Fault, index: usize) -> Option<()> {
        let host = &mut self.hosts[index];
        match fault {
            Fault::CallLost | Fault::AnswerLost | Fault::CallLate => {
                let Call::Sent(call) = host.call.clone() else { return None };
                host.call = Call::Answered(unanswered(&call, self.broken)?);
                match fault {
                    Fault::AnswerLost => _ = self.execute(index, call),
                    Fault::CallLate => host.late = Some(call),
                    _ => {}
                }
            }
            Fault::JournalRefuses => {
                let Call::Sent(Request::Record(_)) = host.call else { return None };
                host.call = Call::Answered(Response::Record(Err("full".into())));
            }
            Fault::Crash | Fault::CrashWithoutJournal => {
                if let Call::Sent(call @ Request::CompareAndSet(..)) =
                    std::mem::replace(&mut host.call, Call::None)
                {
                    host.late = Some(call);
                }
                host.lease = None;
                if let Fault::CrashWithoutJournal = fault {
                    (host.journal, host.reached) = (None, 0);
                    host.settings.holder.id = format!("new {}", host.settings.holder.name).into();
                }
            }
            Fault::Freeze => host.frozen = true,
            Fault::Stop => host.lease.as_mut()?.stop(UnixMs(host.reached)),
            Fault::Release => host.lease.as_mut()?.release(UnixMs(host.reached)),
            Fault::ClockSteps(by_ms) => host.offset_ms = by_ms,
            Fault::FailOver => {
                self.entry = self.before.clone();
                self.failed_over_ms = Some(self.now_ms);
                if self.broken != Some(Break::HistoryHidden) {
                    self.registry.history = History("second".into());
                }
            }
        }
        Some(())
    }

    /// Lets time pass, unless a call is pending or something has been absent for long enough.
    fn pass(&mut self) -> Option<()> {
        let away = |host: &Host| !host.runs() || host.late.is_some();
        self.absent = if self.hosts.iter().any(away) { self.absent + 1 } else { 0 };
        let waits = |host: &Host| !host.runs() || matches!(host.call, Call::None);
        if self.absent > ABSENT_MAX || !self.hosts.iter().all(waits) {
            return None;
        }
        self.now_ms += TICK_MS;
        (0..2).for_each(|host| self.proceed(host));
        Some(())
    }

    fn execute(&mut self, host: usize, call: Request) -> Response {
        let now = UnixMs(self.now_ms);
        match call {
            Request::Snapshot(_) => {
                let entries = Vec::from_iter(self.entry.clone());
                let settled = self.broken == Some(Break::SettlingSkipped);
                let age = |at_ms| {
                    if settled { Duration::MAX } else { Duration::from_millis(self.now_ms - at_ms) }
                };
                let history_age = self.failed_over_ms.map(age);
                Response::Snapshot(Ok(Snapshot {
                    registry: self.registry.clone(),
                    history_age,
                    now,
                    entries,
                }))
            }
            Request::CompareAndSet(under, mut swap) => {
                if self.broken == Some(Break::CompareIgnored) {
                    swap.expected = self.entry.as_ref().map(|entry| entry.holding.clone());
                }
                let judged =
                    self.registry.check(&under).and_then(|()| swap.judge(self.entry.clone(), now));
                if judged.is_ok() {
                    let entry = Entry {
                        worker: swap.worker,
                        holding: swap.next,
                        seen: swap.seen,
                        written: now,
                    };
                    self.before = self.entry.replace(entry);
                }
                Response::CompareAndSet(judged.map(|()| now))
            }
            Request::Record(record) => {
                self.hosts[host].journal = record;
                Response::Record(Ok(()))
            }
            Request::Assign(..) => unreachable!("no worker is permanent"),
        }
    }

    /// A host issues all ids that it may.
    fn issue(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let now = host.now(self.now_ms);
        let Some(lease) = host.lease.as_ref().filter(|_| !host.frozen) else { return };
        let Ok(window) = lease.standing(now) else { return };
        let start = if self.broken == Some(Break::StartIgnored) { 0 } else { window.start.0 };
        let limit =
            if self.broken == Some(Break::LimitIgnored) { u64::MAX } else { window.limit.0 };
        let from = start.max(host.reached);
        let to = limit.min(lease.clock.believed_time(now).unix.0 + DRIFT_MS);
        if from >= to {
            return;
        }
        self.twice |= self.issued.iter().any(|range| range.start < to && from < range.end);
        host.reached = to;
        self.issued.push(from..to);
        self.issued.sort_by_key(|range| range.start);
        self.issued.dedup_by(|later, range| {
            let follows = later.start == range.end;
            range.end = if follows { later.end } else { range.end };
            follows
        });
        self.issued.retain(|range| range.end + PAST_MS > self.now_ms);
    }

    pub fn describe(&self, action: Action) -> String {
        let name = |host: usize| ["a", "b"][host];
        match action {
            Action::TimePasses => "time passes".into(),
            Action::Executes(host) => {
                format!("{}'s call is executed: {}", name(host), self.hosts[host].call.name())
            }
            Action::Returns(host) => format!("{} returns", name(host)),
            Action::LateCallArrives(host) => format!("{}'s late call is executed", name(host)),
            Action::Fails(Fault::FailOver, _) => "the registry loses its last write".into(),
            Action::Fails(fault, host) => {
                format!("{}: {fault:?}, during: {}", name(host), self.hosts[host].call.name())
            }
        }
    }
}

impl Host {
    fn new(name: &str) -> Host {
        let settings = LeaseSettings {
            mode: Mode::Leased,
            pool: 0..1,
            holder: Holder {
                id: name.into(),
                name: name.into(),
                incarnation: StartToken("".into()),
            },
            named: false,
            place: "here".into(),
            embedded: false,
            lease_ms: LEASE_MS,
            restart_grace_ms: 2_000,
            clock_threshold_ms: 5_000,
            drift_max_ms: DRIFT_MS,
            settle_ms: Some(SETTLE_MS),
        };
        Host {
            settings,
            lease: None,
            frozen: false,
            journal: None,
            reached: 0,
            call: Call::None,
            late: None,
            offset_ms: 0,
            lives: 0,
        }
    }

    fn start(&mut self, now_ms: u64) {
        self.lives += 1;
        self.settings.holder.incarnation = StartToken(format!("life {}", self.lives).into());
        self.call = Call::None;
        let mut lease = Lease::new(self.settings.clone(), self.journal.clone(), self.now(now_ms));
        lease.want();
        self.lease = Some(lease);
    }

    fn runs(&self) -> bool {
        self.lease.is_some() && !self.frozen
    }

    fn now(&self, now_ms: u64) -> Now {
        Now { unix: UnixMs(now_ms.saturating_add_signed(self.offset_ms)), boot: BootMs(now_ms) }
    }
}

impl Call {
    fn name(&self) -> &'static str {
        match self {
            Call::Sent(Request::Snapshot(_)) => "a read",
            Call::Sent(Request::CompareAndSet(..)) => "a write",
            Call::Sent(Request::Record(_)) => "a record in the journal",
            _ => "nothing",
        }
    }
}

fn unanswered(call: &Request, broken: Option<Break>) -> Option<Response> {
    let error = RegistryError::Unavailable { registry: "here".into(), cause: "no answer".into() };
    match call {
        Request::Snapshot(_) => Some(Response::Snapshot(Err(error))),
        Request::CompareAndSet(_, swap) if broken == Some(Break::SilenceIsConsent) => {
            Some(Response::CompareAndSet(Ok(swap.seen)))
        }
        Request::CompareAndSet(..) => Some(Response::CompareAndSet(Err(error))),
        _ => None,
    }
}
