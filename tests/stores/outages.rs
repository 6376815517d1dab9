//! The store is frozen, killed or cut off, or refuses logins or writes.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::{Draw, Load};
use leafd_tests::raw::ids_request;
use leafd_tests::relay::Relay;
use leafd_tests::servers::{DATABASE, PASSWORD, Postgres, Server};
use leafd_wire::Status;

use crate::scene::{DRY, HELD, RESUMES_WITHIN, Route, Scene, create, knowing};

/// Longer than every configured time limit of the store.
const FROZEN: Duration = Duration::from_secs(8);

/// A request's deadline during such an outage.
const SHORT: Duration = Duration::from_secs(5);

/// Few enough to be exhausted.
const CONNECTIONS: u32 = 20;

on_each_server!(
    frozen,
    killed_and_started_again,
    swallowed_by_the_network,
    answers_swallowed_by_the_network,
    refusing_connections,
    refusing_logins,
    out_of_connections,
    read_only,
);

fn frozen<S: Server>() {
    let mut scene = Scene::<S>::new(Route::Direct);
    let causes = ["no answer"];
    scene.outage("SIGSTOP for 8 s", FROZEN, &causes, |s, _| s.freeze(), |s, _, ()| s.thaw());
}

fn killed_and_started_again<S: Server>() {
    let mut scene = Scene::<S>::new(Route::Direct);
    let causes = ["refused"];
    scene.outage("kill -9, started again", SHORT, &causes, |s, _| s.kill(), |s, _, ()| s.start());
}

fn swallowed_by_the_network<S: Server>() {
    let mut scene = Scene::<S>::new(Route::ThroughRelay);
    // The causes before the claim's own time limit, and after it.
    let causes = ["has not answered", "no answer"];
    scene.outage(
        "black hole",
        FROZEN,
        &causes,
        |_, relay| relay.swallow(),
        |_, relay, ()| relay.pass(),
    );
}

/// The network is broken in one direction: what the daemons send arrives and is executed, and they hear nothing.
fn answers_swallowed_by_the_network<S: Server>() {
    let mut scene = Scene::<S>::new(Route::ThroughRelay);
    let causes = ["has not answered", "no answer"];
    scene.outage(
        "black hole for answers",
        FROZEN,
        &causes,
        |_, relay| relay.swallow_answers(),
        |_, relay, ()| relay.pass(),
    );
}

fn refusing_connections<S: Server>() {
    let mut scene = Scene::<S>::new(Route::ThroughRelay);
    let causes = ["refused"];
    let fault = "connections cut and refused";
    scene.outage(fault, SHORT, &causes, |_, relay| relay.refuse(), |_, relay, ()| relay.pass());
}

fn refusing_logins<S: Server>() {
    let mut scene = Scene::<S>::new(Route::Direct);
    let causes = ["password authentication failed", "Access denied"];
    let fault = "password changed, sessions ended";
    scene.outage(
        fault,
        SHORT,
        &causes,
        |server, _| server.set_password("another"),
        |server, _, ()| server.set_password(PASSWORD),
    );
}

fn out_of_connections<S: Server>() {
    let mut scene = Scene::<S>::with(Route::Direct, &[&S::connections(CONNECTIONS)], &[]);
    let causes = ["too many clients", "remaining connection slots", "Too many connections"];
    let use_up = |server: &mut S| {
        let mut others = vec![server.connection().unwrap()];
        // A slot that a daemon loses may go to its next attempt, so this repeats until only others have slots.
        let mut unseen = 0;
        for _ in 0..100 {
            while let Ok(other) = server.connection() {
                others.push(other);
            }
            unseen = if S::end_sessions(&mut others[0]) == 0 { unseen + 1 } else { 0 };
            if unseen == 2 {
                return others;
            }
            // An ended session takes a moment to disappear, and one that is logging in has no name yet.
            std::thread::sleep(Duration::from_millis(if unseen == 1 { 300 } else { 20 }));
        }
        panic!("the daemons can't be kept out");
    };
    let fault = "every connection taken by others";
    scene.outage(fault, SHORT, &causes, |s, _| use_up(s), |_, _, others| drop(others));
}

fn read_only<S: Server>() {
    let mut scene = Scene::<S>::new(Route::Direct);
    let causes = ["read-only"];
    scene.outage(
        "read-only mode",
        SHORT,
        &causes,
        |server, _| server.set_read_only(true),
        |server, _, ()| server.set_read_only(false),
    );
}

/// Who may not start any thread any more: limits on processes don't hold for root.
const USER: u32 = 4_711;

/// A host without a connection to its store, while something keeps it from connecting: what is held is issued, and a
/// request for what isn't is told why. Once that is over, ids come by themselves.
#[track_caller]
fn cannot_connect(host: &mut Host, relay: &Relay, cause: &str, set: impl Fn(&Host, bool)) {
    host.start();
    create(host, HELD, 1_000_000);
    create(host, DRY, 100);
    let load = Load::start(vec![Draw::steady(&host.socket(), HELD)]);
    load.under_way();
    set(host, true);
    relay.cut();
    let mut raw = host.raw();
    let text = eventually("the cause is told", RESUMES_WITHIN, || {
        raw.send(&ids_request(DRY, 1, 1, 2_000));
        let reply = raw.reply();
        assert_ne!(reply.status(), Status::Ok, "nothing of this tag was claimed");
        Some(reply.text()).filter(|text| text.contains(cause))
    });
    load.each_draws(Duration::from_secs(30));
    set(host, false);
    let id = raw.draw_until(DRY, RESUMES_WITHIN);
    let mut drawn = load.stop();
    assert!(drawn.errors.is_empty(), "of what is held: {:?}", drawn.errors);
    drawn.add_ids(DRY, &[id]);
    drawn.assert_sound();
    println!("| {text} | {} ids meanwhile |", drawn.count());
    host.assert_alive();
}

#[test]
fn without_a_thread_to_connect() {
    let server = Postgres::new();
    let relay = Relay::to(server.port());
    let mut host = Host::on_store(&Postgres::url_of(&[relay.port()], DATABASE)).user(USER);
    cannot_connect(&mut host, &relay, "can't start a thread", |host, none| {
        // A process may be limited by its own user.
        let words =
            ["--pid", &host.pid().to_string(), if none { "--nproc=1:" } else { "--nproc=999:" }];
        let mut limit = Command::new("prlimit");
        assert!(limit.args(words).uid(USER).gid(USER).status().unwrap().success());
    });
}

#[test]
fn its_name_leads_nowhere_for_a_while() {
    const NAME: &str = "store.leafd.test";
    let server = Postgres::new();
    let relay = Relay::to(server.port());
    let url = Postgres::url_of(&[relay.port()], DATABASE).replace("127.0.0.1", NAME);
    let known = format!("127.0.0.1 localhost {NAME}\n");
    let mut host = knowing(&known, Host::on_store(&format!("{url}?sslmode=disable")));
    let names = host.path("hosts");
    cannot_connect(&mut host, &relay, NAME, |_, none| {
        fs::write(&names, if none { "127.0.0.1 localhost\n" } else { &known }).unwrap();
    });
}
