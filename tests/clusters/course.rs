//! A course of faults: hosts under a load of every kind, the steps that the cluster goes through, and each step's
//! effect on the clients. The result is judged at the end, when every id is compared with every other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leafd_client::Client;
use leafd_tests::host::{Host, eventually};
use leafd_tests::load;
use leafd_tests::order::Answer;
use leafd_wire::opcode;
use serde_json::json;

use crate::report::{Log, Report};

/// The plain tag, the strict one, and the strict one that the first host draws alone except for visits.
pub const PLAIN: &str = "orders";
pub const STRICT: &str = "ledger";
pub const HOLDABLE: &str = "versions";

/// The layout that every daemon has.
pub const SNOWFLAKE: &str = "snowflake";

/// How long a request waits. Even during a fault, a plain id must arrive within this time.
const DEADLINE: Duration = Duration::from_secs(4);

/// A thread's pause after an answer, and after an error.
const REST: Duration = Duration::from_millis(10);

/// The pause after a visit: the first host is alone for long enough to hold the tag, and holds it for about half the
/// time.
const VISIT_REST: Duration = Duration::from_secs(4);

/// The pause between two checks whether a server serves.
const PROBE_REST: Duration = Duration::from_millis(100);

/// How long all threads may take to draw again once a step's fault is over. The promised time is shorter; the rest is
/// for a busy machine.
const BACK_WITHIN: Duration = Duration::from_secs(60);

/// How long answers to requests that were pending when a fault began may still arrive.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// How long a step lasts beyond that.
const OBSERVED: Duration = Duration::from_secs(2);

/// What a thread draws, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ids of a plain tag, each requested from the daemon.
    Direct,
    /// Ids of the plain tag from runs that the process holds.
    Held,
    /// Ids of the strict tag.
    Strict,
    /// Ids of the other strict tag, on the first host, which holds that tag and answers from memory.
    Alone,
    /// Occasional ids of that tag on the second host, even during a fault: each ends the first host's hold.
    Visit,
    /// Snowflake ids, each requested from the daemon.
    Snowflake,
}

/// What the clients of a store draw.
pub const STORE: &[Kind] =
    &[Kind::Direct, Kind::Held, Kind::Strict, Kind::Alone, Kind::Visit, Kind::Snowflake];

/// What the clients of a worker registry draw.
pub const REGISTRY: &[Kind] = &[Kind::Snowflake];

/// What a step promises to clients that draw plain or snowflake ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promised {
    /// Ids, without interruption.
    Ids,
    /// Nothing: the ids claimed ahead don't last that long.
    Nothing,
}

/// Reports whether a server of the cluster serves.
pub type Probe = Box<dyn Fn() -> bool + Send>;

/// A step, and when it took place.
pub struct Step {
    pub name: String,
    pub promised: Promised,
    pub begun: Instant,
    pub ended: Instant,
}

/// A course in progress.
pub struct Course {
    pub hosts: Vec<Host>,
    title: String,
    stop: Arc<AtomicBool>,
    threads: Vec<Drawing>,
    probes: Vec<JoinHandle<Vec<Instant>>>,
    steps: Vec<Step>,
}

/// A thread that draws.
struct Drawing {
    host: usize,
    kind: Kind,
    issued: Arc<AtomicU64>,
    thread: JoinHandle<Log>,
}

impl Kind {
    pub fn tag(self) -> &'static str {
        match self {
            Kind::Direct | Kind::Held => PLAIN,
            Kind::Strict => STRICT,
            Kind::Alone | Kind::Visit => HOLDABLE,
            Kind::Snowflake => SNOWFLAKE,
        }
    }

    pub fn is_strict(self) -> bool {
        matches!(self, Kind::Strict | Kind::Alone | Kind::Visit)
    }

    /// The only host that draws in this way, unless all do.
    fn only_host(self) -> Option<usize> {
        match self {
            Kind::Alone => Some(0),
            Kind::Visit => Some(1),
            _ => None,
        }
    }

    fn draw(self, client: &Client) -> Result<u64, leafd_client::Error> {
        match self {
            Kind::Held => client.next(self.tag()),
            _ => client.next_direct(self.tag()),
        }
    }
}

/// Creates the tags that a store's course draws.
pub fn create_tags(host: &Host) {
    host.create(PLAIN);
    for tag in [STRICT, HOLDABLE] {
        host.admin(opcode::TAG_CREATE, &json!({ "tag": tag, "strict": true }));
    }
}

impl Course {
    /// Starts the load on these hosts, which are running, and waits until all have ids.
    #[track_caller]
    pub fn begin(title: &str, kinds: &[Kind], hosts: Vec<Host>, probes: Vec<Probe>) -> Course {
        let stop = Arc::new(AtomicBool::new(false));
        let probes = probes.into_iter().map(|probe| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || probed(&probe, &stop))
        });
        let probes = probes.collect();
        let mut threads = Vec::new();
        for (index, host) in hosts.iter().enumerate() {
            let drawn_here = |kind: &&Kind| kind.only_host().is_none_or(|only| only == index);
            for &kind in kinds.iter().filter(drawn_here) {
                threads.push(Drawing::start(index, kind, host, &stop));
            }
        }
        let course =
            Course { hosts, title: title.to_owned(), stop, threads, probes, steps: Vec::new() };
        course.each_draws();
        course
    }

    /// Runs a step: the fault and its end. Afterwards, every thread must draw again.
    #[track_caller]
    pub fn step(&mut self, name: &str, promised: Promised, work: impl FnOnce(&Course)) {
        let begun = Instant::now();
        work(self);
        println!("{}: {name}: the fault is over after {:.1?}", self.title, begun.elapsed());
        self.each_draws();
        self.answers_from_hold();
        std::thread::sleep(OBSERVED);
        self.hosts.iter_mut().for_each(Host::assert_alive);
        self.steps.push(Step { name: name.to_owned(), promised, begun, ended: Instant::now() });
    }

    /// Waits until every thread gets ids although the fault lasts. Answers to requests from before the fault don't
    /// count.
    #[track_caller]
    pub fn goes_on(&self) {
        std::thread::sleep(UNDER_WAY);
        self.each_draws();
    }

    /// Waits until every thread has got another id, visits aside.
    #[track_caller]
    pub fn each_draws(&self) {
        let count = |one: &Drawing| one.issued.load(Ordering::Relaxed);
        let steady = self.threads.iter().filter(|one| one.kind != Kind::Visit);
        let now: Vec<u64> = steady.clone().map(count).collect();
        let end = Instant::now() + BACK_WITHIN;
        for (one, before) in steady.zip(now) {
            let what = format!("{}: {:?} of host {} comes back", self.title, one.kind, one.host);
            let left = end.saturating_duration_since(Instant::now());
            eventually(&what, left, || (count(one) > before).then_some(()));
        }
    }

    /// Waits until the host that draws alone answers from memory, which shows when it issues ids without claiming any.
    #[track_caller]
    fn answers_from_hold(&self) {
        let Some(alone) = self.threads.iter().find(|one| one.kind == Kind::Alone) else { return };
        let look = || {
            let status = self.hosts[alone.host].status();
            let tags = status["segments"]["tags"].as_array().unwrap();
            tags.iter().find(|tag| tag["tag"] == HOLDABLE).cloned().unwrap_or_default()
        };
        eventually("the first host answers from its hold", 3 * BACK_WITHIN, || {
            let before = look();
            std::thread::sleep(10 * REST);
            let after = look();
            let holds = before["holding"] == true && after["holding"] == true;
            let claims_none = before["highest_ends"] == after["highest_ends"];
            (holds && claims_none && after["issued"].as_u64() > before["issued"].as_u64())
                .then_some(())
        });
    }

    /// Ends the load, and returns what there is to judge.
    #[track_caller]
    pub fn finish(mut self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads).into_iter();
        let logs = threads.map(|one| one.thread.join().expect("a drawing thread does not panic"));
        let logs = logs.collect();
        let probes = std::mem::take(&mut self.probes).into_iter();
        let mut served: Vec<Instant> =
            probes.flat_map(|one| one.join().expect("a probe does not panic")).collect();
        served.sort_unstable();
        let (title, steps) = (std::mem::take(&mut self.title), std::mem::take(&mut self.steps));
        Report { title, steps, logs, served }
    }
}

impl Drop for Course {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drawing {
    fn start(host: usize, kind: Kind, daemon: &Host, stop: &Arc<AtomicBool>) -> Drawing {
        let client = Client::builder().socket(daemon.socket()).deadline(DEADLINE).build().unwrap();
        let (stop, issued) = (Arc::clone(stop), Arc::<AtomicU64>::default());
        let count = Arc::clone(&issued);
        let thread = std::thread::spawn(move || {
            let mut log = Log { host, kind, answers: Vec::new(), errors: Vec::new() };
            while !stop.load(Ordering::Relaxed) {
                let asked = Instant::now();
                let outcome = kind.draw(&client);
                let answered = Instant::now();
                match outcome {
                    Ok(id) => {
                        log.answers.push(Answer { asked, answered, first: id, last: id });
                        count.fetch_add(1, Ordering::Relaxed);
                        if kind == Kind::Visit {
                            std::thread::sleep(VISIT_REST);
                        }
                    }
                    Err(error) => log.errors.push((answered, load::text(&error))),
                }
                std::thread::sleep(REST);
            }
            log
        });
        Drawing { host, kind, issued, thread }
    }
}

/// The times at which the server served.
fn probed(probe: &Probe, stop: &AtomicBool) -> Vec<Instant> {
    let mut served = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        if probe() {
            served.push(Instant::now());
        }
        std::thread::sleep(PROBE_REST);
    }
    served
}
