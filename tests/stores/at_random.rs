//! A random sequence of faults: each host's network fails and recovers in every way, and hosts and the server are killed
//! or stopped, while all hosts draw. No id comes twice, and in the end each host draws again.

use std::time::Duration;

use leafd_tests::host::Host;
use leafd_tests::load::{Draw, Load};
use leafd_tests::relay::Relay;
use leafd_tests::seed::seeds;
use leafd_tests::servers::{DATABASE, Server};
use leafd_wire::opcode;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::scene::{create, report};

const HOSTS: usize = 3;

/// How many faults and recoveries there are.
const ROUNDS: u32 = 60;

/// How long each host may take to draw again after the last fault, on a busy machine.
const WITHIN: Duration = Duration::from_secs(120);

/// How the errors begin that such faults cause.
const EXPECTED: [&str; 6] = [
    "STORE_UNAVAILABLE",
    "DEADLINE",
    "NO_WORKER",
    "no connection",
    "disconnected",
    "leafd did not answer",
];

on_each_server!(faults_come_together);

fn faults_come_together<S: Server>() {
    for mut random in seeds(1) {
        let mut server = S::new();
        let relays = [(); HOSTS].map(|()| Relay::to(server.port()));
        let mut hosts: Vec<Host> = relays.iter().map(host::<S>).collect();
        hosts.iter_mut().for_each(Host::start);
        create(&hosts[0], "orders", 10);
        hosts[0].admin(opcode::TAG_CREATE, &json!({ "tag": "ledger", "strict": true }));
        let draws = hosts.iter().flat_map(|host| {
            ["orders", "ledger", "snowflake"].map(|tag| Draw::steady(&host.socket(), tag))
        });
        let load = Load::start(draws.collect());
        load.under_way();
        for _ in 0..ROUNDS {
            let host = random.usize(..HOSTS);
            let relay = &relays[host];
            match random.u8(..12) {
                0 => relay.swallow(),
                1 => relay.swallow_answers(),
                2 => relay.refuse(),
                3 => relay.cut(),
                4 => relay.delay(Duration::from_millis(random.u64(10..300))),
                5 => {
                    hosts[host].kill();
                    hosts[host].start();
                }
                6 => {
                    hosts[host].signal(Signal::SIGSTOP);
                    std::thread::sleep(Duration::from_millis(random.u64(100..2_500)));
                    hosts[host].signal(Signal::SIGCONT);
                }
                7 => {
                    server.kill();
                    server.start();
                }
                _ => relay.pass(),
            }
            std::thread::sleep(Duration::from_millis(random.u64(20..500)));
        }
        relays.iter().for_each(Relay::pass);
        load.each_draws(WITHIN);
        let mut drawn = load.stop();
        let odd = |text: &&String| {
            text.contains("copy of this host")
                || !EXPECTED.iter().any(|begin| text.starts_with(begin))
        };
        let odd: Vec<&String> = drawn.errors.keys().filter(odd).collect();
        assert!(odd.is_empty(), "{odd:?}");
        drawn.errors.clear();
        let what = format!("{ROUNDS} faults and recoveries at random");
        report::<S>(&what, drawn.count() as u64, &drawn, None);
        drawn.assert_sound();
        hosts.iter_mut().for_each(Host::assert_alive);
    }
}

/// A host behind its own network. It claims all the time, and gives up soon.
fn host<S: Server>(relay: &Relay) -> Host {
    Host::on_store(&S::url_of(&[relay.port()], DATABASE))
        .set("max_step", "1000")
        .set("lease", "10s")
        .set("failover_settle", "1s")
        .set("store_connect_timeout", "1s")
        .set("store_statement_timeout", "1s")
}
