//! When a server can no longer serve, the daemon that uses it and a daemon that starts switch to the next server in the
//! URL. While none serves, the error names each server and why.

use std::time::{Duration, Instant};

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::Drawn;
use leafd_tests::raw::ids_request;
use leafd_tests::servers::{DATABASE, PASSWORD, Pair, Postgres, Server};
use leafd_wire::Status;
use nix::sys::signal::{Signal, kill};

use crate::scene::{create, knowing};

/// A step so small that each draw needs a claim.
const STEP: u64 = 10;

/// How soon ids return once a server serves, on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

on_each_server!(
    a_primary_that_becomes_read_only_is_left_for_the_next_server,
    a_name_leads_to_a_server_on_its_last_address,
);

/// Debian calls both loopback addresses localhost, IPv6 first, and its MariaDB listens on the other one.
fn a_name_leads_to_a_server_on_its_last_address<S: Server>() {
    let server = S::new();
    let url = S::url_of(&[server.port()], DATABASE).replace("127.0.0.1", "localhost");
    let mut host = knowing("::1 localhost\n127.0.0.1 localhost\n", Host::on_store(&url));
    host.start();
    create(&host, "orders", STEP);
    let mut raw = host.raw();
    assert_eq!(raw.draw("orders", 1), [1]);
    // What the server says counts, not that nobody listens at the other address.
    server.set_password("another");
    eventually("the server's own refusal is told", WITHIN, || {
        raw.send(&ids_request("orders", 10, 1, 2_000));
        let text = raw.reply().text();
        ["Access denied", "password authentication failed"].iter().find(|said| text.contains(*said))
    });
    server.set_password(PASSWORD);
    host.stop();
}

fn a_primary_that_becomes_read_only_is_left_for_the_next_server<S: Server>() {
    left::<S, _>("read-only", |pair, _, _| pair.primary.set_read_only(true));
}

/// PostgreSQL's smart shutdown: open sessions continue, and no new ones are accepted.
#[test]
fn a_server_that_is_shutting_down_is_left_for_the_next_server() {
    left::<Postgres, _>("the database system is shutting down", |pair, host, drawn| {
        let mut administrator = pair.primary.connection().unwrap();
        kill(pair.primary.process().pid(), Signal::SIGTERM).unwrap();
        eventually("nobody is let in", WITHIN, || pair.primary.connection().err());
        drawn.add_ids("orders", &host.raw().draw("orders", 50));
        Postgres::end_sessions(&mut administrator);
        administrator
    });
}

fn left<S: Server, T>(why: &str, leave: impl FnOnce(&mut Pair<S>, &Host, &mut Drawn) -> T) {
    let mut pair = Pair::<S>::new();
    let host = || Host::on_store(&pair.url()).set("failover_settle", "1s").set("max_step", "10");
    let (mut first, mut second) = (host(), host());
    first.start();
    create(&first, "orders", STEP);
    let mut drawn = Drawn::default();
    drawn.add_ids("orders", &first.raw().draw("orders", 50));
    pair.caught_up();

    let state = leave(&mut pair, &first, &mut drawn);
    second.start();
    for host in [&first, &second] {
        let mut raw = host.raw();
        let text = eventually("neither serves", WITHIN, || {
            raw.send(&ids_request("orders", 10, 1, 3_000));
            let reply = raw.reply();
            if reply.status() == Status::Ok {
                drawn.add_ids("orders", &reply.ids());
                return None;
            }
            Some(reply.text())
        });
        for (port, whys) in
            [(pair.primary.port(), vec![why]), (pair.standby.port(), vec!["standby", "read-only"])]
        {
            let (_, of_it) = text.split_once(&format!("127.0.0.1:{port}: ")).expect(&text);
            let of_it = of_it.split("; 127.0.0.1").next().unwrap();
            assert!(whys.iter().any(|why| of_it.contains(why)), "{whys:?} of {port} in {text}");
        }
    }
    pair.standby.promote();
    let begun = Instant::now();
    for host in [&first, &second] {
        drawn.add_ids("orders", &[host.raw().draw_until("orders", WITHIN)]);
    }
    println!("{}, {why}: ids of both daemons {:.2?} after a promotion", S::NAME, begun.elapsed());
    drop(state);
    drawn.backwards.clear();
    drawn.assert_sound();
}
