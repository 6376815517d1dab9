//! A hundred daemons whose server comes back: all resume, and they don't storm it.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

use leafd_tests::host::Host;
use leafd_tests::load::{Draw, Load};
use leafd_tests::raw::{Raw, ids_request};
use leafd_tests::servers::{Postgres, Server};

use crate::scene::{DRY, HELD, create, report};

const DAEMONS: usize = 100;

/// How long the server is gone: every daemon's back-off has grown to its longest step by then.
const GONE: Duration = Duration::from_secs(10);

/// Connection attempts that one daemon makes in a second at most: its waits last between half a second and a second
/// by then, and an attempt may be met by a server that is still starting. A daemon that didn't back off would make
/// hundreds.
const ATTEMPTS_A_SECOND_MAX: usize = 3;

/// Within which the last of the daemons has ids; all of them share two cores with the server.
const RESUMES_WITHIN: Duration = Duration::from_secs(45);

/// When each connection attempt over TCP came in, in milliseconds of Unix time, and from which port.
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

/// The most attempts within any such time.
fn peak(attempts: &[(u64, String)], within_ms: u64) -> usize {
    let slides = attempts.iter().enumerate().map(|(first, (begin, _))| {
        attempts[first..].iter().take_while(|(at, _)| *at < begin + within_ms).count()
    });
    slides.max().unwrap_or(0)
}

#[test]
fn a_hundred_daemons_resume_without_a_stampede() {
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
    load.each_draws(Duration::from_secs(5));
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
    load.each_draws(Duration::from_secs(5));
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
