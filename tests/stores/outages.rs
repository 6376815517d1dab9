//! The store is frozen, killed or cut off, or refuses logins or writes.

use std::time::Duration;

use leafd_tests::servers::{PASSWORD, Server};

use crate::scene::{Route, Scene};

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
