//! Many daemons on one server. When it returns, they don't overload it. When they all start at once, each can serve its
//! requests. While it is unavailable, each daemon makes only one attempt for all of its tags.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leafd_tests::host::Host;
use leafd_tests::load::{Draw, Drawn, Load};
use leafd_tests::raw::{Raw, ids_request};
use leafd_tests::servers::{DATABASE, Postgres, Server};
use leafd_wire::{Layout, Status};

use crate::scene::{DRY, HELD, create, report};

const DAEMONS: usize = 100;

/// How long the server is unavailable: long enough for every daemon's back-off to reach its longest step.
const GONE: Duration = Duration::from_secs(10);

/// The maximum number of connection attempts of one daemon per second. Its waits are between half a second and a second
/// by then, and an attempt may meet a server that is still starting. A daemon that didn't back off would make hundreds.
const ATTEMPTS_A_SECOND_MAX: usize = 3;

/// How long the last of the daemons may take to have ids again; all of them share two cores with the server.
const RESUMES_WITHIN: Duration = Duration::from_secs(45);

/// When each connection attempt over TCP arrived, in milliseconds of Unix time, and from which port.
fn attempts(server: &Postgres) -> Vec<(u64, String)> {
    let log = fs::read_to_string(server.process().dir.join("log")).unwrap();
    let received = log.lines().filter_map(|line| line.split_once(" LOG:  connection received: "));
    let over_tcp = received.filter(|(_, from)| from.starts_with("host=127.0.0.1"));
    over_tcp
        .map(|(stamp, from)| {
            let seconds: f64 = stamp.trim().parse().expect("the log's stamps are Unix time");
            ((seconds * 1_000.0) as u64, from.to_owned())
        })
        .collect()
}

/// The maximum number of attempts within any interval of this length.
fn peak(attempts: &[(u64, String)], within_ms: u64) -> usize {
    let slides = attempts.iter().enumerate().map(|(first, (begin, _))| {
        attempts[first..].iter().take_while(|(at, _)| *at < begin + within_ms).count()
    });
    slides.max().unwrap_or(0)
}

/// These many daemons leave no resources for other tests.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_hundred_daemons_resume_without_a_stampede() {
    let _alone = alone();
    let mut server =
        Postgres::with(&["log_connections=on", "log_line_prefix=%n ", "max_connections=150"]);
    server.without_passwords();
    let mut hosts: Vec<Host> = (0..DAEMONS).map(|_| Host::on_store(&server.url())).collect();
    let began: Vec<usize> = hosts.iter_mut().map(Host::begin).collect();
    for (host, said_from) in hosts.iter_mut().zip(began) {
        host.answering(said_from).unwrap();
    }
    create(&hosts[0], HELD, 100_000);
    create(&hosts[0], DRY, 100);
    let draw = |host: &Host| Draw {
        ids: 2,
        pause: Duration::from_millis(100),
        ..Draw::steady(&host.socket(), HELD)
    };
    let load = Load::start(hosts.iter().map(draw).collect());
    load.under_way();
    let before = load.issued();
    server.stop();
    let mut raws: Vec<Raw> = hosts.iter().map(Host::raw).collect();
    for raw in &mut raws {
        raw.send(&ids_request(DRY, 1, 1, 60_000));
    }
    std::thread::sleep(GONE);
    load.each_draws(Duration::from_secs(30));
    let issued = load.issued() - before;
    let seen_before = attempts(&server).len();
    server.start();
    let begun = Instant::now();
    let mut ids = Vec::new();
    for raw in &mut raws {
        raw.stream.set_read_timeout(Some(RESUMES_WITHIN)).unwrap();
        ids.extend(raw.reply().ids());
    }
    let recovered = begun.elapsed();
    load.each_draws(Duration::from_secs(30));
    let mut drawn = load.stop();
    drawn.add_ids(DRY, &ids);
    report::<Postgres>("stopped for 10 s under 100 daemons", issued, &drawn, Some(recovered));

    let attempts = attempts(&server).split_off(seen_before);
    let (in_second, in_tenth) = (peak(&attempts, 1_000), peak(&attempts, 100));
    let first = attempts.first().expect("they connect").0;
    let mut by_second: BTreeMap<u64, usize> = BTreeMap::new();
    for (at, _) in &attempts {
        *by_second.entry((at - first) / 1_000).or_default() += 1;
    }
    println!(
        "{} connection attempts of {DAEMONS} daemons: at most {in_second} within a second and {in_tenth} within a tenth \
         (bound: {} within a second); by second: {by_second:?}",
        attempts.len(),
        ATTEMPTS_A_SECOND_MAX * DAEMONS,
    );
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), DAEMONS);
    drawn.assert_sound();
    assert!(drawn.errors.is_empty(), "{:?}", drawn.errors);
    assert!(
        in_second <= ATTEMPTS_A_SECOND_MAX * DAEMONS,
        "a stampede: {in_second} attempts in a second"
    );
    assert!(recovered < RESUMES_WITHIN, "the last ids came after {recovered:?}");
}

/// The number of daemons that start at once, and the number of tags that each is asked for.
const STARTING: usize = 80;
const TAGS: usize = 5;

/// How long a request may wait then. A client's own deadline is 5 s, for an idle machine.
const STARTED_WITHIN: Duration = Duration::from_secs(30);

#[test]
fn eighty_daemons_that_start_at_once_have_ids_and_workers() {
    let _alone = alone();
    let server = Postgres::with(&["max_connections=150"]);
    server.without_passwords();
    let mut maker = Host::on_store(&server.url());
    maker.start();
    let tags: Vec<String> = (0..TAGS).map(|number| format!("t{number}")).collect();
    tags.iter().for_each(|tag| create(&maker, tag, 100));
    let mut hosts: Vec<Host> = (0..STARTING).map(|_| Host::on_store(&server.url())).collect();
    let began: Vec<usize> = hosts.iter_mut().map(Host::begin).collect();
    for (host, said_from) in hosts.iter_mut().zip(began) {
        host.answering(said_from).unwrap();
    }
    let begun = Instant::now();
    let wait_ms = u32::try_from(STARTED_WITHIN.as_millis()).unwrap();
    let asked: Vec<&str> = tags.iter().map(String::as_str).chain(["snowflake"]).collect();
    let mut raws: Vec<Raw> = hosts.iter().map(Host::raw).collect();
    for raw in &mut raws {
        raw.stream.set_read_timeout(Some(STARTED_WITHIN * 2)).unwrap();
        for (number, tag) in (0..).zip(&asked) {
            raw.send(&ids_request(tag, 1, number, wait_ms));
        }
    }
    let mut drawn = Drawn::default();
    for raw in &mut raws {
        for _ in &asked {
            let reply = raw.reply();
            let tag = asked[reply.header.request_id as usize];
            assert_eq!(reply.status(), Status::Ok, "{tag}: {}", reply.text());
            drawn.add_ids(tag, &reply.ids());
        }
    }
    let took = begun.elapsed();
    println!(
        "{STARTING} daemons started at once, {TAGS} tags and a worker each: all had them after {took:.2?}"
    );
    drawn.backwards.clear();
    drawn.assert_sound();
    let workers: HashSet<u64> = drawn.ids["snowflake"]
        .iter()
        .map(|id| Layout::LEAF.decompose(*id).unwrap().worker)
        .collect();
    assert_eq!(workers.len(), STARTING, "each has a worker of its own");
}

/// For how long attempts are counted.
const COUNTED: Duration = Duration::from_secs(10);

#[test]
fn a_daemon_knocks_once_for_segments_and_worker() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    std::thread::spawn(move || {
        // Each connection is accepted and closed immediately.
        listener.incoming().for_each(|_| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
    });
    let mut host = Host::on_store(&Postgres::url_of(&[port], DATABASE));
    host.start();
    let mut raw = host.raw();
    for (number, tag) in [(1, "orders"), (2, "snowflake"), (3, "invoices")] {
        raw.send(&ids_request(tag, 1, number, 60_000));
    }
    // The daemon's back-off has reached its longest step by then.
    std::thread::sleep(Duration::from_secs(5));
    let before = attempts.load(Ordering::Relaxed);
    std::thread::sleep(COUNTED);
    let attempts = attempts.load(Ordering::Relaxed) - before;
    let seconds = usize::try_from(COUNTED.as_secs()).unwrap();
    println!(
        "{attempts} connection attempts of a daemon in {COUNTED:?}, segments and worker wanted"
    );
    assert!((1..=2 * seconds).contains(&attempts), "{attempts}");
    host.assert_alive();
}
