//! Galera clusters that an operator bootstraps in the wrong place: from a node that lags, or a second time on a node
//! that was cut off. No id is issued twice, or the repeated ids are reported. Also a node that only lags.

use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::Drawn;
use leafd_tests::raw::{Raw, ids_request};
use leafd_tests::servers::galera::Galera;
use leafd_tests::servers::{DATABASE, MariaDb, Server as _};
use leafd_wire::{Status, opcode};
use mysql::prelude::Queryable as _;
use nix::sys::signal::Signal;
use serde_json::json;

/// The setting `failover_settle` of all hosts, and how long a host is stopped meanwhile.
const SETTLE: Duration = Duration::from_secs(8);
const STOPPED: Duration = Duration::from_secs(1);

/// How long a node lags. A host waits up to a second for it.
const LAGS: Duration = Duration::from_millis(400);

/// How long ids may take to arrive on a busy machine.
const WITHIN: Duration = Duration::from_secs(55);

const TAG: &str = "orders";
/// The tag of a host that must know little about the other tag.
const OTHER: &str = "others";
const STEP: u32 = 1_000;

fn host(url: &str) -> Host {
    let settle = format!("{}s", SETTLE.as_secs());
    let mut host = Host::on_store(url).set("failover_settle", &settle);
    host.start();
    host
}

/// Requests many ids. Those that don't arrive in time are missing from what [`answered`] adds.
fn ask(host: &Host, tag: &str, times: u32) -> Vec<Raw> {
    let asked = (0..times).map(|number| {
        let mut raw = host.raw();
        raw.stream.set_read_timeout(Some(WITHIN + SETTLE)).unwrap();
        raw.send(&ids_request(tag, STEP, number, WITHIN.as_millis().try_into().unwrap()));
        raw
    });
    asked.collect()
}

/// Returns how many of the requests were answered with ids.
#[track_caller]
fn answered(drawn: &mut Drawn, tag: &str, raws: Vec<Raw>) -> usize {
    let replies = raws.into_iter().map(|mut raw| raw.reply());
    let ids: Vec<_> =
        replies.filter(|reply| reply.status() == Status::Ok).map(|reply| reply.ids()).collect();
    ids.iter().for_each(|ids| drawn.add_ids(tag, ids));
    ids.len()
}

/// Draws, and checks that all requests were answered with ids.
#[track_caller]
fn draw(drawn: &mut Drawn, host: &Host, tag: &str, times: u32) {
    let found = answered(drawn, tag, ask(host, tag, times));
    assert_eq!(found, times as usize, "{tag}: {}", host.log());
}

/// Two hosts that have ids of both tags.
fn begin(drawn: &mut Drawn, cluster: &Galera) -> [Host; 2] {
    let hosts = [(); 2].map(|()| host(&cluster.url_from(0)));
    for tag in [TAG, OTHER] {
        let body = json!({ "tag": tag, "step": STEP }).to_string();
        eventually("the store is met", WITHIN, || {
            hosts[0].client().admin(opcode::TAG_CREATE, &body).ok()
        });
        hosts.iter().for_each(|host| draw(drawn, host, tag, 1));
    }
    hosts
}

fn judge(what: &str, drawn: &Drawn) {
    println!("{what}: {} ids, {} twice", drawn.count(), drawn.duplicates());
    drawn.assert_sound();
}

#[test]
fn a_cluster_is_bootstrapped_from_a_node_that_is_behind() {
    let mut cluster = Galera::new();
    let mut drawn = Drawn::default();
    let [first, second] = begin(&mut drawn, &cluster);
    cluster.nodes[2].process.stop();
    draw(&mut drawn, &first, TAG, 30);
    draw(&mut drawn, &second, OTHER, 2);
    first.signal(Signal::SIGSTOP);
    cluster.nodes[0].kill();
    cluster.nodes[1].kill();
    cluster.nodes[2].bootstrap();
    let asked = ask(&second, TAG, 20);
    std::thread::sleep(STOPPED);
    first.signal(Signal::SIGCONT);
    let of_first = ask(&first, TAG, 20);
    assert_eq!(answered(&mut drawn, TAG, asked), 20, "{}", second.log());
    assert_eq!(answered(&mut drawn, TAG, of_first), 20, "{}", first.log());
    judge("Galera bootstrapped from a node that is behind", &drawn);
}

/// During the split, hosts start that find both sides in their URL, the wrong one first: a new host, and one that was
/// on the right side. A host that knows only the wrong side repeats ids, and reports them once the node is back.
#[test]
fn a_node_that_was_cut_off_becomes_a_cluster_of_its_own() {
    let mut cluster = Galera::new();
    let mut drawn = Drawn::default();
    let [first, mut second] = begin(&mut drawn, &cluster);
    let cut_off = &cluster.nodes[0];
    cut_off.isolate(true);
    eventually("it is out of the cluster", WITHIN, || (!cut_off.is_ready()).then_some(()));
    draw(&mut drawn, &first, TAG, 30);
    draw(&mut drawn, &second, OTHER, 2);
    second.stop();
    cut_off.sql("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'");
    eventually("it takes writes", WITHIN, || cut_off.probe()().then_some(()));
    let wrong = host(&MariaDb::url_of(&[cut_off.process.port], DATABASE));
    let mut repeated = Drawn::default();
    draw(&mut repeated, &wrong, TAG, 10);
    second.start();
    let newcomer = host(&cluster.url_from(0));
    let asked = [(&newcomer, 20), (&second, 20)].map(|(host, times)| ask(host, TAG, times));
    draw(&mut drawn, &first, TAG, 20);
    for asked in asked {
        answered(&mut drawn, TAG, asked);
    }
    judge("Galera, a node cut off and bootstrapped", &drawn);
    let cut_off = &mut cluster.nodes[0];
    cut_off.kill();
    cut_off.wipe();
    cut_off.start();
    let twice = drawn.common(&repeated, TAG);
    println!("{} of {} ids of the wrong side came twice", twice.len(), repeated.count());
    assert!(!twice.is_empty());
    wrong.reports_repeats(&twice, WITHIN);
}

/// The node that a host finds at its start has not applied that host's last claim yet. This is not a loss.
#[test]
fn a_host_starts_on_a_node_that_lags() {
    let cluster = Galera::new();
    let mut drawn = Drawn::default();
    let [mut first, mut second] = begin(&mut drawn, &cluster);
    second.stop();
    let [preferred, lagging, _] = &cluster.nodes;
    // The node applies writes in order, and the first of these has to wait.
    let mut lock = lagging.connection().unwrap();
    lock.query_drop("LOCK TABLES probes.probe READ").unwrap();
    preferred.probe()();
    draw(&mut drawn, &first, TAG, 3);
    let life = || cluster.nodes[0].sql("SELECT value FROM ids.leafd_meta WHERE name = 'history'");
    let before = life();
    // After a probe, the journal has the number of the last write.
    std::thread::sleep(SETTLE / 2);
    first.stop();
    preferred.reject(true);
    let said_from = first.begin();
    let sessions = "SELECT id FROM information_schema.processlist WHERE user = 'leafd'";
    eventually("it is there", WITHIN, || (!lagging.sql(sessions).is_empty()).then_some(()));
    std::thread::sleep(LAGS);
    lock.query_drop("UNLOCK TABLES").unwrap();
    first.answering(said_from).unwrap();
    draw(&mut drawn, &first, TAG, 5);
    preferred.reject(false);
    second.start();
    draw(&mut drawn, &second, TAG, 5);
    judge("Galera, a start on a node that lags", &drawn);
    assert_eq!(life(), before, "{}", first.log());
}
