//! HAProxy in front of a cluster: daemons know one address, and the server behind it changes.

use std::time::Duration;

use leafd_tests::host::Host;
use leafd_tests::servers::galera::Galera;
use leafd_tests::servers::haproxy::{Balance, HaProxy};
use leafd_tests::servers::patroni::Patroni;
use leafd_tests::servers::{DATABASE, MariaDb, Postgres, Server};

use crate::course::{Course, Probe, Promised, STORE, create_tags};
use crate::{galera, patroni};

/// How long calm periods last, and how long the proxy takes to notice a fault.
const LASTS: Duration = Duration::from_secs(4);
const NOTICED: Duration = Duration::from_secs(2);

fn begin<S: Server>(title: &str, proxy: &HaProxy, probes: Vec<Probe>) -> Course {
    let url = S::url_of(&[proxy.port()], DATABASE);
    let mut hosts: Vec<Host> = (0..3).map(|_| Host::on_store(&url)).collect();
    hosts.iter_mut().for_each(Host::start);
    create_tags(&hosts[0]);
    Course::begin(title, STORE, hosts, probes)
}

#[test]
fn before_patroni() {
    let mut cluster = Patroni::new(false);
    let proxy = HaProxy::before(&cluster.behind(), Balance::First);
    let mut course = begin::<Postgres>("HAProxy in front of Patroni", &proxy, cluster.probes());
    course.step("no fault", Promised::Ids, |_| std::thread::sleep(LASTS));
    course.step("switchover", Promised::Ids, |_| cluster.switch_over());
    course.step("leader killed, comes back", Promised::Ids, |_| {
        patroni::lose_the_leader(&mut cluster);
    });
    course.finish().judge(patroni::STRICT_LATE + NOTICED);
}

#[test]
fn before_galera_one_after_the_other() {
    let mut cluster = Galera::new();
    let proxy = HaProxy::before(&cluster.behind(), Balance::RoundRobin);
    let title = "HAProxy in front of Galera, each connection to the next node";
    let mut course = begin::<MariaDb>(title, &proxy, cluster.probes());
    course.step("no fault", Promised::Ids, |_| std::thread::sleep(LASTS));
    galera::fault_the_node_in_use(&mut course, &mut cluster);
    course.finish().judge(galera::STRICT_LATE + NOTICED);
}
