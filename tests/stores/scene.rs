//! Two hosts on one store, a load on them, and the effect of a fault of the store on both: the course of every outage
//! test.

use std::fs;
use std::time::{Duration, Instant};

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::{Draw, Drawn, Load};
use leafd_tests::raw::{Raw, ids_request};
use leafd_tests::relay::Relay;
use leafd_tests::servers::{DATABASE, Server};
use leafd_wire::{Status, opcode};
use serde_json::json;

/// Claimed at the first use, in such a large amount that an outage doesn't exhaust it.
pub const HELD: &str = "held";

/// Never used before an outage.
pub const DRY: &str = "dry";

/// A request's deadline while the store is unavailable: longer than the store's own time limits.
const DEADLINE: Duration = Duration::from_secs(5);

/// How soon ids must return: 2 s are promised where the store's time limits allow it, and the rest is for a busy
/// machine. The measured time is printed.
pub const RESUMES_WITHIN: Duration = Duration::from_secs(19);

/// Two hosts on one store.
pub struct Scene<S> {
    pub server: S,
    /// In front of the server, in a scene whose hosts connect through it.
    pub relay: Relay,
    pub hosts: Vec<Host>,
}

/// How the hosts connect to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    Direct,
    ThroughRelay,
}

/// Creates a tag with this step.
#[track_caller]
pub fn create(host: &Host, tag: &str, step: u64) {
    host.admin(opcode::TAG_CREATE, &json!({ "tag": tag, "step": step }));
}

/// A host whose system knows only these names of hosts. They are those in the file `hosts`, which may change later.
pub fn knowing(names: &str, host: Host) -> Host {
    const IN_PLACE: &str = r#"mount --bind "$0" /etc/hosts && exec "$@""#;
    let hosts = host.path("hosts");
    fs::write(&hosts, names).unwrap();
    host.runner(&["unshare", "--mount", "sh", "-c", IN_PLACE, hosts.to_str().unwrap()])
}

/// Takes ids as a Leaf does, between two claims of the daemons. Returns the first id.
#[track_caller]
pub fn take_as_a_leaf(ask: impl Fn(&str) -> Vec<Vec<String>>, tag: &str, count: u64) -> u64 {
    eventually("the row is as it was read", RESUMES_WITHIN, || {
        let of_tag = format!("WHERE biz_tag = '{tag}'");
        let first = ask(&format!("SELECT max_id FROM leaf_alloc {of_tag}"))[0][0].clone();
        // Claims don't change the description, so it shows whether this update won.
        ask(&format!(
            "UPDATE leaf_alloc SET max_id = max_id + {count}, description = 'from {first}' {of_tag} AND max_id = {first}"
        ));
        let said = &ask(&format!("SELECT description FROM leaf_alloc {of_tag}"))[0][0];
        (*said == format!("from {first}")).then(|| first.parse().unwrap())
    })
}

/// What a daemon's status reports about its only store.
#[track_caller]
pub fn store(host: &Host) -> serde_json::Value {
    let status = host.status();
    let stores = status["segments"]["stores"].as_array();
    let [only] = stores.map_or(&[][..], Vec::as_slice) else { panic!("one store in {status}") };
    only.clone()
}

/// One line of the table of faults.
pub fn report<S: Server>(fault: &str, issued: u64, drawn: &Drawn, recovered: Option<Duration>) {
    let recovered = recovered.map_or("-".to_owned(), |took| format!("{:.2} s", took.as_secs_f64()));
    let texts: Vec<String> =
        drawn.errors.iter().map(|(text, count)| format!("{count} x \"{text}\"")).collect();
    println!(
        "| {} | {fault} | {issued} | {} | {} | {recovered} |",
        S::NAME,
        if texts.is_empty() { "none".to_owned() } else { texts.join("; ") },
        drawn.duplicates(),
    );
}

impl<S: Server> Scene<S> {
    /// Two running hosts, and tags.
    pub fn new(route: Route) -> Scene<S> {
        Scene::with(route, &[], &[])
    }

    /// The same, with settings for the server and the hosts.
    pub fn with(route: Route, of_server: &[&str], of_hosts: &[(&str, &str)]) -> Scene<S> {
        let server = S::with(of_server);
        let relay = Relay::to(server.port());
        let port = if route == Route::Direct { server.port() } else { relay.port() };
        let url = S::url_of(&[port], DATABASE);
        let mut hosts: Vec<Host> = (0..2).map(|_| Host::on_store(&url)).collect();
        for host in &mut hosts {
            of_hosts.iter().for_each(|(key, value)| host.change(key, value));
            host.start();
        }
        create(&hosts[0], HELD, 1_000_000);
        create(&hosts[0], DRY, 100);
        Scene { server, relay, hosts }
    }

    /// Two threads on each host that draw [`HELD`]. Returns once they have ids.
    #[track_caller]
    pub fn load(&self) -> Load {
        let twice = self.hosts.iter().chain(&self.hosts);
        let load = Load::start(twice.map(|host| Draw::steady(&host.socket(), HELD)).collect());
        load.under_way();
        load
    }

    /// Runs a fault of the store under load. Claimed ids are still issued without an error. A request for ids that are
    /// not claimed waits for its deadline, and the error contains one of these causes. When the fault ends, service
    /// resumes without help.
    #[track_caller]
    pub fn outage<T>(
        &mut self,
        fault: &str,
        lasts: Duration,
        causes: &[&str],
        begin: impl FnOnce(&mut S, &Relay) -> T,
        end: impl FnOnce(&mut S, &Relay, T),
    ) {
        let load = self.load();
        let before = load.issued();
        let state = begin(&mut self.server, &self.relay);
        let begun = Instant::now();
        let mut raws: Vec<Raw> = self.hosts.iter().map(Host::raw).collect();
        let mut denied = Drawn::default();
        for raw in &mut raws {
            raw.send(&ids_request(DRY, 1, 1, DEADLINE.as_millis().try_into().unwrap()));
        }
        for raw in &mut raws {
            let reply = raw.reply();
            let (status, text) = (reply.status(), reply.text());
            assert!(begun.elapsed() >= DEADLINE - Duration::from_millis(100), "{status}: {text}");
            assert!(
                [Status::Deadline, Status::StoreUnavailable].contains(&status),
                "{status}: {text}"
            );
            assert!(
                causes.iter().any(|cause| text.contains(cause)),
                "{causes:?} in {status}: {text}"
            );
            *denied.errors.entry(format!("{status}: {text}")).or_default() += 1;
        }
        std::thread::sleep(lasts.saturating_sub(begun.elapsed()));
        load.each_draws(Duration::from_secs(30));
        let issued = load.issued() - before;
        end(&mut self.server, &self.relay, state);
        let (ids, recovered) = first_of(&mut raws, DRY);
        load.each_draws(Duration::from_secs(30));
        let mut drawn = load.stop();
        let load_errors = std::mem::take(&mut drawn.errors);
        drawn.add_ids(DRY, &ids);
        drawn.errors = denied.errors;
        report::<S>(fault, issued, &drawn, Some(recovered));
        drawn.assert_sound();
        assert!(load_errors.is_empty(), "of what is claimed: {load_errors:?}");
        assert!(recovered < RESUMES_WITHIN, "{fault}: ids came again after {recovered:?}");
        self.hosts.iter_mut().for_each(Host::assert_alive);
    }
}

/// One id from each host, and how long the last of them took.
#[track_caller]
pub fn first_of(raws: &mut [Raw], tag: &str) -> (Vec<u64>, Duration) {
    let begun = Instant::now();
    for raw in raws.iter_mut() {
        raw.send(&ids_request(tag, 1, 2, 19_000));
    }
    let ids = raws.iter_mut().flat_map(|raw| raw.reply().ids()).collect();
    (ids, begun.elapsed())
}

/// Draws this many ids this many times, one request after the other.
#[track_caller]
pub fn draw(drawn: &mut Drawn, host: &Host, tag: &str, times: u32, count: u32) {
    let mut raw: Raw = host.raw();
    for _ in 0..times {
        drawn.add_ids(tag, &raw.draw(tag, count));
    }
}
