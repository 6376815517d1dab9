//! A primary dies with a claim that its standby never saw, while a process draws from a shared run what came of it. The run
//! goes on as long as no other daemon can have its ids, pauses while that is in doubt, and ends when they may.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::Drawn;
use leafd_tests::raw::{Raw, ids_request};
use leafd_tests::relay::{AtCommit, Relay};
use leafd_tests::servers::{DATABASE, Pair, Server};
use leafd_tests::shared_pages::{Pages, ask, reply, share};
use leafd_wire::Status;

use crate::scene::{create, report, store};

/// The setting `failover_settle`, and how much later than that a daemon hears that it has noted the new history.
const SETTLE: Duration = Duration::from_secs(2);
const ANSWER_AFTER: Duration = Duration::from_millis(2_600);

const CLAIMS_WITHIN: Duration = Duration::from_secs(60);

/// A tag's step: what is drawn meanwhile is of one claim.
const STEP: u64 = 20_000;

/// The pause between two ids.
const PAUSE: Duration = Duration::from_millis(2);

on_each_server!(
    a_run_goes_on_over_a_fail_over_that_loses_its_claim,
    a_run_pauses_while_the_store_may_not_know_of_its_claim,
    a_run_ends_when_the_store_heard_of_its_claim_too_late,
);

/// Daemons of which each has a relay to the store and shares `orders` with root; the first one's claim is lost.
struct Course<S> {
    pair: Pair<S>,
    relays: [Relay; 2],
    hosts: Vec<Host>,
    pages: Pages,
    raw: Raw,
    drawn: Drawn,
}

impl<S: Server> Course<S> {
    fn new() -> Course<S> {
        let pair = Pair::<S>::new();
        let relays = [Relay::to(pair.primary.port()), Relay::to(pair.primary.port())];
        let settle = format!("{}s", SETTLE.as_secs());
        let rules = "[{tags = ['orders'], share_uids = [0]}]";
        let mut hosts: Vec<Host> = relays
            .iter()
            .map(|relay| S::url_of(&[relay.port()], DATABASE))
            .map(|url| Host::on_store(&url).set("failover_settle", &settle).set("access", rules))
            .collect();
        hosts.iter_mut().for_each(Host::start);
        create(&hosts[0], "orders", STEP);
        pair.caught_up();
        pair.lose_from_now();
        let mut raw = hosts[0].raw();
        let pages = share(&mut raw, "orders");
        assert!(pages.draw().is_some());
        let (kept, lost) = (pair.standby.max_id("orders"), pair.primary.max_id("orders"));
        assert!(kept < lost, "the claim to {lost} is not to be on the standby, which has {kept}");
        Course { pair, relays, hosts, pages, raw, drawn: Drawn::default() }
    }

    fn fail_over(&mut self) {
        self.relays.iter().for_each(Relay::refuse);
        self.pair.primary.kill();
        self.pair.standby.promote();
        let port = self.pair.standby.port();
        self.relays.iter().for_each(|relay| relay.lead_to(port));
    }
}

/// What came of drawing.
#[derive(Default)]
struct Outcome {
    ids: Vec<u64>,
    /// When each draw began.
    begun: Vec<Instant>,
    /// The runs before the last one.
    ended: Vec<Pages>,
    /// How often no id could be had.
    refused: usize,
}

/// Draws while something happens, as a process does that has this run: from memory, and when it has to ask by a request.
fn while_drawn(mut raw: Raw, mut pages: Pages, happens: impl FnOnce()) -> Outcome {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let drawing = scope.spawn(|| {
            let mut outcome = Outcome::default();
            while !over.load(Ordering::SeqCst) {
                let begun = Instant::now();
                if let Some(id) = pages.draw() {
                    outcome.ids.push(id);
                    outcome.begun.push(begun);
                } else {
                    ask(&mut raw, "orders", pages.number, 100);
                    let (answer, came) = reply(&mut raw);
                    outcome.refused += usize::from(answer.status() != Status::Ok);
                    if !came.is_empty() {
                        let ended = std::mem::replace(&mut pages, Pages::of(&answer, came));
                        outcome.ended.push(ended);
                    }
                }
                std::thread::sleep(PAUSE);
            }
            outcome
        });
        happens();
        over.store(true, Ordering::SeqCst);
        drawing.join().unwrap()
    })
}

/// Claims on another host as soon as it may, and then some more.
#[track_caller]
fn claim(host: &Host, drawn: &mut Drawn) {
    let mut raw = host.raw();
    raw.stream.set_read_timeout(Some(CLAIMS_WITHIN)).unwrap();
    raw.send(&ids_request("orders", 1_000, 1_000, 55_000));
    drawn.add_ids("orders", &raw.reply().ids());
    for _ in 0..5 {
        drawn.add_ids("orders", &raw.draw("orders", 1_000));
    }
}

#[track_caller]
fn ready_again(host: &Host) {
    eventually("it claims again", CLAIMS_WITHIN, || {
        let known = store(host);
        (known["failovers"] == 1 && known["ready"] == true).then_some(())
    });
}

#[track_caller]
fn assert_sound<S: Server>(fault: &str, outcome: &Outcome, mut drawn: Drawn) {
    assert!(outcome.ids.windows(2).all(|pair| pair[0] < pair[1]), "in order");
    drawn.add_ids("orders", &outcome.ids);
    report::<S>(fault, outcome.ids.len() as u64, &drawn, None);
    drawn.assert_sound();
}

fn a_run_goes_on_over_a_fail_over_that_loses_its_claim<S: Server>() {
    let mut course = Course::<S>::new();
    course.fail_over();
    let Course { relays, hosts, pages, raw, mut drawn, .. } = course;
    let outcome = while_drawn(raw, pages, || {
        relays.iter().for_each(Relay::pass);
        claim(&hosts[1], &mut drawn);
        ready_again(&hosts[0]);
    });
    assert!(outcome.ended.is_empty(), "the run goes on");
    assert_sound::<S>("fail-over with a lost claim, shared run", &outcome, drawn);
}

fn a_run_pauses_while_the_store_may_not_know_of_its_claim<S: Server>() {
    let mut course = Course::<S>::new();
    course.fail_over();
    let Course { relays, hosts, pages, raw, mut drawn, .. } = course;
    let outcome = while_drawn(raw, pages, || {
        relays[0].at_commit_of("'noticed'", AtCommit::DelayAnswer(ANSWER_AFTER));
        relays[0].pass();
        eventually("the first daemon notes the new history", CLAIMS_WITHIN, || {
            (relays[0].commits_met() == 1).then_some(())
        });
        relays[1].pass();
        claim(&hosts[1], &mut drawn);
        ready_again(&hosts[0]);
    });
    assert!(outcome.refused > 0, "its daemon can't know whether the store was told in time");
    assert!(outcome.ended.is_empty(), "it was");
    assert_sound::<S>("fail-over, its note answered late, shared run", &outcome, drawn);
}

fn a_run_ends_when_the_store_heard_of_its_claim_too_late<S: Server>() {
    let mut course = Course::<S>::new();
    course.fail_over();
    let Course { relays, hosts, pages, raw, mut drawn, .. } = course;
    let mut claimed_at = None;
    let outcome = while_drawn(raw, pages, || {
        // What it has seen does not come through.
        relays[0].at_commit_of("orders", AtCommit::SwallowCommit);
        relays[0].pass();
        eventually("the first daemon tells what it has seen", CLAIMS_WITHIN, || {
            (relays[0].commits_met() == 1).then_some(())
        });
        relays[0].refuse();
        relays[1].pass();
        claim(&hosts[1], &mut drawn);
        claimed_at = Some(Instant::now());
        relays[0].pass();
        ready_again(&hosts[0]);
        let mut drawn_before = None;
        eventually("another run is drawn from", CLAIMS_WITHIN, || {
            let shared = hosts[0].status()["shared_runs"].clone();
            let drawn = shared["drawn"].as_u64().filter(|_| shared["begun"] == 2)?;
            (drawn > *drawn_before.get_or_insert(drawn)).then_some(())
        });
    });
    assert!(outcome.refused > 0, "no id while another host may have it");
    let [ended] = &outcome.ended[..] else { panic!("{} runs have ended", outcome.ended.len()) };
    assert_eq!(ended.draw(), None);
    // What was drawn before nobody can take back: nothing but this daemon knew of it, and it was cut off.
    let later = outcome.begun.partition_point(|begun| Some(*begun) < claimed_at);
    let outcome = Outcome { ids: outcome.ids[later..].to_vec(), ..outcome };
    assert!(!outcome.ids.is_empty());
    assert_sound::<S>("fail-over, its claim told too late, shared run", &outcome, drawn);
}
