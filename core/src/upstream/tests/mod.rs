//! The monitor's rules, one by one: what it asks for, and how it acts on each answer.

use super::*;

mod failover;
mod meeting;

const SETTLE_MS: u64 = 10_000;
const PROBE_MS: u64 = 2_500;
const ANSWER_MS: u64 = 5_000;

/// A monitor and the time.
struct Watched {
    monitor: Monitor,
    now: BootMs,
    events: Vec<Event>,
    /// A step that was looked at but not taken yet.
    seen: Option<Step>,
}

/// A history whose lives are numbers: "2 1*".
fn history(lives: &str) -> History {
    let lives = lives.split(' ').map(|word| match word.trim_end_matches(['*', '!']) {
        number if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{number:0>16}{}", &word[number.len()..])
        }
        _ => word.to_owned(),
    });
    History(lives.collect::<Vec<_>>().join(" ").into())
}

fn identity(lives: &str) -> Identity {
    Identity { id: StoreId("postgres:1".into()), history: history(lives), role: Role::default() }
}

fn away() -> StoreError {
    StoreError::Unavailable { store: "postgres://db".into(), cause: "refused".into() }
}

fn settings() -> Settings {
    Settings {
        url: "postgres://db".into(),
        role: Role::default(),
        embedded: false,
        remembered: None,
        settle_ms: SETTLE_MS,
        probe_ms: PROBE_MS,
        answer_ms: ANSWER_MS,
    }
}

impl Watched {
    fn new(settings: Settings) -> Watched {
        let now = BootMs(100_000);
        Watched { monitor: Monitor::new(settings, now), now, events: Vec::new(), seen: None }
    }

    /// A monitor that trusts the store in its first history.
    fn trusting() -> Watched {
        let mut one = Watched::new(settings());
        one.meet("1", None);
        assert_eq!(one.monitor.claimable(), Some(&identity("1")));
        one.events.clear();
        one
    }

    /// The first meeting; `known` is the journal's history.
    fn meet(&mut self, lives: &str, known: Option<&str>) {
        assert_eq!(self.asks(), Request::Identity);
        self.answer(Response::Identity(Ok(identity(lives))));
        assert_eq!(self.asks(), Request::CheckIn(identity(lives)));
        let (found, known) = (history(lives), known.map(history));
        self.answer(Response::CheckIn(Ok(known.clone())));
        let record = known.unwrap_or_else(|| found.clone());
        let checked_in = Record::CheckedIn(StoreId("postgres:1".into()), record.clone());
        assert_eq!(self.asks(), Request::Record(checked_in));
        self.answer(Response::Record(Ok(())));
        if record == found {
            assert_eq!(self.asks(), Request::IsSettled(identity(lives)));
            self.answer(Response::IsSettled(Ok(Some(true))));
            self.look();
        }
    }

    /// The next step other than an event.
    fn step(&mut self) -> Step {
        if let Some(seen) = self.seen.take() {
            return seen;
        }
        loop {
            match self.monitor.next(self.now) {
                Step::Event(event) => self.events.push(event),
                step => return step,
            }
        }
    }

    /// Takes the events, and leaves the step after them.
    fn look(&mut self) -> Step {
        let step = self.step();
        self.seen = (!matches!(step, Step::Wait(_))).then(|| step.clone());
        step
    }

    #[track_caller]
    fn asks(&mut self) -> Request {
        match self.step() {
            Step::Request(request) => request,
            step => panic!("{step:?}"),
        }
    }

    fn answer(&mut self, response: Response) {
        self.monitor.answered(self.now, response, 0);
    }

    fn pass(&mut self, ms: u64) {
        self.now.0 += ms;
        self.runs();
    }

    /// The daemon has been running all the time.
    fn runs(&mut self) {
        let step_ms = 1_000;
        while self.monitor.ran_at.0 + step_ms < self.now.0 {
            self.monitor.runs(BootMs(self.monitor.ran_at.0 + step_ms));
        }
        self.monitor.runs(self.now);
    }

    /// Whether held ids may be issued now.
    fn may_issue(&self) -> bool {
        self.now < self.monitor.issues_until()
    }

    /// It was stopped for this long.
    fn is_stopped(&mut self, ms: u64) {
        self.now.0 += ms;
    }

    /// Waits for the next probe, which shows this history.
    #[track_caller]
    fn probe_shows(&mut self, lives: &str) {
        if let Step::Wait(Some(until)) = self.look() {
            self.now = until.max(self.now);
        }
        assert_eq!(self.asks(), Request::Identity);
        self.answer(Response::Identity(Ok(identity(lives))));
    }
}
