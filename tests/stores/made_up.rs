//! One user invents names while another user draws from a tag for the first time. The store's calls run one after the
//! other, and those for invented names must not all come first.

use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::raw::{Raw, connect_as, ids_request};
use leafd_tests::relay::Relay;
use leafd_tests::servers::{DATABASE, Server};

const ATTACKER: u32 = 4_001;
const VICTIM: u32 = 4_002;

/// As many names as one user may have looked up at a time.
const NAMES: u32 = 400;

on_each_server!(a_user_s_made_up_names_do_not_all_come_before_another_user_s_tag);

fn a_user_s_made_up_names_do_not_all_come_before_another_user_s_tag<S: Server>() {
    let server = S::new();
    let relay = Relay::to(server.port());
    let mut host = Host::on_store(&S::url_of(&[relay.port()], DATABASE)).set("socket_mode", "0666");
    host.start();
    host.create("orders");
    let as_user = |uid| Raw::over(connect_as(&host.socket(), uid, uid, &[]).unwrap());
    let (mut attacker, mut victim) = (as_user(ATTACKER), as_user(VICTIM));
    let in_use = || host.status()["segments"]["tags_in_use"].as_u64().unwrap();
    // Each call takes so long that only the order of calls matters.
    relay.delay(Duration::from_millis(10));
    let names = (0..NAMES).map(|number| format!("made-up-{number}"));
    let requests = names.enumerate().flat_map(|(id, name)| ids_request(name, 1, id as u32, 60_000));
    attacker.send(&requests.collect::<Vec<u8>>());
    eventually("the names are looked up", Duration::from_secs(30), || {
        (in_use() > u64::from(NAMES) * 3 / 4).then_some(())
    });
    assert_eq!(victim.draw("orders", 1), [1]);
    let left = in_use();
    assert!(left > u64::from(NAMES) / 2, "{left} of {NAMES} names were not looked up first");
    relay.pass();
    // Finally, each of them is answered.
    for _ in 0..NAMES {
        attacker.reply();
    }
}
