//! PostgreSQL under Patroni, both where a follower may lack the leader's last commits and where it may not.

use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::servers::patroni::Patroni;
use nix::sys::signal::{Signal, kill};

use crate::course::{Course, Promised, STORE, create_tags};

/// The promised maximum time for a strict id once a leader serves: the default `failover_settle`, and two seconds.
pub const STRICT_LATE: Duration = Duration::from_secs(12);

/// How long a fault lasts that only the test ends.
const LASTS: Duration = Duration::from_secs(5);

fn begin(title: &str, cluster: &Patroni) -> Course {
    let mut hosts: Vec<Host> = (0..3).map(|_| Host::on_store(&cluster.url())).collect();
    hosts.iter_mut().for_each(Host::start);
    create_tags(&hosts[0]);
    Course::begin(title, STORE, hosts, cluster.probes())
}

/// Kills the leader as if its host had crashed, waits for the other node, and restarts the first one as its follower.
pub fn lose_the_leader(cluster: &mut Patroni) {
    cluster.may_change();
    let leader = cluster.leader();
    cluster.nodes[leader].kill();
    cluster.other_leads(leader);
    cluster.nodes[leader].start();
}

#[test]
fn an_asynchronous_follower_takes_over() {
    let mut cluster = Patroni::new(false);
    let mut course = begin("Patroni, asynchronous", &cluster);
    course.step("no fault", Promised::Ids, |_| std::thread::sleep(LASTS));
    course.step("switchover", Promised::Ids, |_| cluster.switch_over());
    course.step("leader killed, comes back", Promised::Ids, |_| lose_the_leader(&mut cluster));
    course.step("commits lost: leader killed ahead of its follower", Promised::Ids, |_| {
        cluster.may_change();
        let leader = cluster.leader();
        let rewinds = cluster.nodes[leader].rewinds();
        let receiver = cluster.nodes[1 - leader].receiver();
        let max_id = |node: usize| {
            let sql = "SELECT max_id FROM leaf_alloc WHERE biz_tag = 'ledger'";
            cluster.nodes[node].sql("ids", sql)[0][0].parse::<u64>().unwrap()
        };
        kill(receiver, Signal::SIGSTOP).unwrap();
        let at_least = max_id(leader);
        std::thread::sleep(LASTS);
        let (ahead, behind) = (max_id(leader), max_id(1 - leader));
        assert!(ahead > at_least && behind <= at_least, "{ahead} and {behind}: nothing to lose");
        cluster.nodes[leader].kill();
        // The receiver ends before it reads what has arrived meanwhile.
        kill(receiver, Signal::SIGTERM).unwrap();
        kill(receiver, Signal::SIGCONT).unwrap();
        cluster.other_leads(leader);
        cluster.nodes[leader].start();
        let node = &cluster.nodes[leader];
        eventually("it is wound back", LASTS * 12, || (node.rewinds() > rewinds).then_some(()));
    });
    course.step("switchover to the leader that was rewound", Promised::Ids, |_| {
        cluster.switch_over();
    });
    course.step("paused: the leader's server killed", Promised::Ids, |_| {
        cluster.pause(true);
        cluster.nodes[cluster.leader()].kill_server();
        std::thread::sleep(LASTS);
        cluster.pause(false);
        cluster.leader();
    });
    course.finish().judge(STRICT_LATE);
}

#[test]
fn a_synchronous_follower_takes_over() {
    let mut cluster = Patroni::new(true);
    let mut course = begin("Patroni, synchronous", &cluster);
    course.step("no fault", Promised::Ids, |_| std::thread::sleep(LASTS));
    course.step("switchover", Promised::Ids, |_| cluster.switch_over());
    course.step("leader killed, comes back", Promised::Ids, |_| lose_the_leader(&mut cluster));
    course.step("follower killed, comes back", Promised::Ids, |course| {
        cluster.may_change();
        let follower = 1 - cluster.leader();
        cluster.nodes[follower].kill();
        course.goes_on();
        cluster.nodes[follower].start();
    });
    course.step("that leader killed as well", Promised::Ids, |_| lose_the_leader(&mut cluster));
    course.finish().judge(STRICT_LATE);
}
