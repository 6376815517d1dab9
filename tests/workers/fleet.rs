//! A fleet under load, the effect of a fault on it, and the properties that must hold in every case.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::{Draw, Drawn, Load};
use leafd_tests::raw::ids_request;
use leafd_tests::wall_clock::ahead_ms;
use leafd_wire::{Layout, Status, opcode};
use serde_json::{Value, json};

use crate::registry::{Backend, Registry};

/// The layout that every host draws.
pub const TAG: &str = "snowflake";

/// How soon every host must have ids again once a fault is over.
pub const RESUMES_WITHIN: Duration = Duration::from_secs(60);

/// How far ids may be ahead of the right time: the tolerated error of a clock, and the drift.
const AHEAD_MAX_MS: i64 = 10_500;

/// Hosts of one registry.
pub struct Fleet<B: Backend> {
    pub registry: Registry<B>,
    pub hosts: Vec<Host>,
    /// Everything that was drawn.
    pub drawn: Drawn,
    rows: Vec<String>,
}

impl<B: Backend> Fleet<B> {
    /// Starts this many hosts of this registry, with these settings.
    pub fn new(registry: Registry<B>, count: usize, lease: &str, set: &[(&str, &str)]) -> Fleet<B> {
        let mut fleet =
            Fleet { registry, hosts: Vec::new(), drawn: Drawn::default(), rows: Vec::new() };
        for _ in 0..count {
            let host = fleet.registry.host(lease);
            fleet.hosts.push(set.iter().fold(host, |host, (key, value)| host.set(key, value)));
        }
        fleet.hosts.iter_mut().for_each(Host::start);
        fleet
    }

    /// Puts the first `count` hosts under load while `work` causes a fault. `work` returns how long it took until all
    /// of them had ids again. Returns how often each status occurred.
    #[track_caller]
    pub fn under_load(
        &mut self,
        fault: &str,
        count: usize,
        work: impl FnOnce(&mut Fleet<B>, &Load) -> Option<Duration>,
    ) -> BTreeMap<String, u64> {
        let load = Load::start(self.hosts[..count].iter().map(draw_of).collect());
        load.under_way();
        let before = load.issued();
        let recovered = work(self, &load);
        let issued = load.issued() - before;
        let mut drawn = load.stop();
        let errors = errors_of(&mut drawn);
        self.drawn.add(drawn);
        self.row(fault, issued, &errors, recovered);
        errors
    }

    /// Adds a line to the table of faults.
    pub fn row(
        &mut self,
        fault: &str,
        issued: u64,
        errors: &BTreeMap<String, u64>,
        recovered: Option<Duration>,
    ) {
        let duplicates = self.drawn.duplicates();
        self.rows.push(row(B::TITLE, fault, issued, errors, duplicates, recovered));
    }

    /// Adds ids that were drawn without the load, from one host in the order of their arrival.
    #[track_caller]
    pub fn add(&mut self, ids: &[u64]) {
        assert!(ids.is_sorted(), "ids of one host go up: {ids:?}");
        self.drawn.add_ids(TAG, ids);
    }

    /// Prints the table, and fails if any id was issued twice, out of order, or from the future.
    #[track_caller]
    pub fn finish(mut self) {
        println!("{}", self.rows.join("\n"));
        self.drawn.assert_sound();
        let last = self.drawn.ids.get(TAG).and_then(|ids| ids.last()).copied().unwrap_or_default();
        assert!(last > 0 && ahead_ms(last) < AHEAD_MAX_MS, "{} ms ahead", ahead_ms(last));
        self.hosts.iter_mut().filter(|host| host.runs()).for_each(Host::assert_alive);
    }
}

/// A host's load: some thousand ids per second, so that the test's own threads leave room for many daemons.
pub fn draw_of(host: &Host) -> Draw {
    Draw { pause: Duration::from_millis(10), ..Draw::steady(&host.socket(), TAG) }
}

/// A line of the table of faults.
pub fn row(
    title: &str,
    fault: &str,
    issued: u64,
    errors: &BTreeMap<String, u64>,
    duplicates: usize,
    recovered: Option<Duration>,
) -> String {
    let errors: Vec<String> =
        errors.iter().map(|(kind, count)| format!("{count} x {kind}")).collect();
    let errors = if errors.is_empty() { "none".to_owned() } else { errors.join(", ") };
    let recovered = recovered.map_or("-".to_owned(), |took| format!("{:.2} s", took.as_secs_f64()));
    format!("| {title} | {fault} | {issued} | {errors} | {duplicates} | {recovered} |")
}

/// Removes the errors from the drawn ids, and counts them by kind.
pub fn errors_of(drawn: &mut Drawn) -> BTreeMap<String, u64> {
    let mut errors: BTreeMap<String, u64> = BTreeMap::new();
    for (text, count) in std::mem::take(&mut drawn.errors) {
        *errors.entry(kind_of(&text)).or_default() += count;
    }
    errors
}

/// An error's kind: its status, or that there was no daemon, or that the daemon did not answer.
fn kind_of(text: &str) -> String {
    if text.contains("did not answer") {
        return "no answer".to_owned();
    }
    text.split_once(':').map_or(text, |(status, _)| status).to_owned()
}

/// Fails if there were errors other than these.
#[track_caller]
pub fn only(errors: &BTreeMap<String, u64>, allowed: &[&str]) {
    let others: Vec<&String> =
        errors.keys().filter(|kind| !allowed.iter().any(|one| kind.contains(one))).collect();
    assert!(others.is_empty(), "{others:?} of {errors:?}");
}

/// How long it takes until every host of the load draws.
#[track_caller]
pub fn recovery(load: &Load) -> Duration {
    let begun = Instant::now();
    load.each_draws(RESUMES_WITHIN);
    begun.elapsed()
}

/// Waits for this time, and checks that every host of the load draws throughout.
#[track_caller]
pub fn served(load: &Load, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        load.each_draws(Duration::from_secs(2));
    }
}

/// The text with which a request is refused, as soon as it is.
#[track_caller]
pub fn refusal(host: &Host, within: Duration) -> String {
    eventually("a refusal", within, || {
        let mut raw = host.raw();
        raw.send(&ids_request(TAG, 1, 1, 300));
        let reply = raw.reply();
        // Before the registry has answered, requests get another error.
        let refused = reply.status() == Status::NoWorker;
        refused.then(|| reply.text()).filter(|text| !text.contains("has not answered yet"))
    })
}

/// An id, as soon as one is available.
#[track_caller]
pub fn id_of(host: &Host) -> u64 {
    host.raw().draw_until(TAG, RESUMES_WITHIN)
}

pub fn worker_of(id: u64) -> u64 {
    Layout::LEAF.decompose(id).unwrap().worker
}

/// The registry's rows that have a holder, as seen by this host.
#[track_caller]
pub fn held(host: &Host) -> Vec<Value> {
    let list = host.admin(opcode::WORKER_LIST, &json!({}));
    let rows = list["workers"].as_array().unwrap().iter();
    rows.filter(|row| !row["holder"].is_null()).cloned().collect()
}

/// The lease in the status.
#[track_caller]
pub fn lease(host: &Host) -> Value {
    host.status()["snowflake"]["lease"].clone()
}
