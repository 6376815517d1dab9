//! Document numbers of three daemons on one server whose clock a test sets: days begin and end under load, across
//! daylight saving time, clocks set by hand, leap days, kills at boundaries, and an outage of the server at one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use jiff::{Timestamp, civil::Date};
use leafd_client::{Client, opcode};
use leafd_core::series::{Format, Overflow};
use leafd_tests::host::{Host, eventually};
use leafd_tests::relay::Relay;
use leafd_tests::seed::{Seeded, seeds};
use leafd_tests::servers::{DATABASE, Server};
use leafd_tests::wall_clock::WallClock;
use serde_json::{Value, json};

on_each_server!(
    days_begin_and_end_on_three_hosts,
    no_number_is_outside_of_its_day_over_many_days,
    the_guide_s_row_leaves_no_gap,
    a_period_begins_while_the_store_is_down,
    a_tenant_is_counted_once_and_gets_numbers_however_short_the_deadline
);

const ZONE: &str = "Europe/Berlin";

const WITHIN: Duration = Duration::from_secs(60);

/// How long draws continue around each boundary.
const AROUND: Duration = Duration::from_millis(900);

/// How many boundaries there are under load, with kills.
const BOUNDARIES: usize = 16;

/// How many there are in quick succession, unless the environment says otherwise: `LEAFD_TEST_BOUNDARIES=1000`.
const MANY_BOUNDARIES: usize = 100;

/// Dates with something special at their beginning: clocks are changed on the day before or on the day itself, or it is
/// a leap day.
const DATES: [&str; 8] = [
    "2026-03-29",
    "2026-03-30",
    "2026-10-25",
    "2026-10-26",
    "2028-02-29",
    "2028-03-01",
    "2027-01-01",
    "2026-12-31",
];

const SERIES: [(&str, &str); 3] = [
    ("days", "D-{yyyy}{MM}{dd}-{n:4}"),
    ("tenants", "T-{tenant}-{yyyy}-{MM}-{dd}/{n:4}{check}"),
    ("dense", "S{yy}{MM}{dd}.{n:4}"),
];

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

fn start_of(date: Date) -> i64 {
    let zone = TimeZone::get(ZONE).unwrap();
    date.to_zoned(zone).unwrap().timestamp().as_millisecond()
}

/// A number, and the server's time when it was requested and when it arrived.
struct Number {
    text: String,
    asked_ms: i64,
    came_ms: i64,
}

/// The server's clock as an offset from the system's.
struct ServerClock {
    clock: WallClock,
    offset_ms: i64,
}

impl ServerClock {
    /// Gives the server such a clock, and restarts it.
    fn of<S: Server>(server: &mut S) -> ServerClock {
        server.stop();
        let clock = WallClock::of_server(server.process_mut());
        server.start();
        ServerClock { clock, offset_ms: 0 }
    }

    fn set(&mut self, to_ms: i64) {
        self.offset_ms = to_ms - now_ms();
        self.clock.step_ms(self.offset_ms);
    }

    fn ms(&self) -> i64 {
        now_ms() + self.offset_ms
    }
}

/// Threads that draw until they are stopped. Failures are counted.
struct Draws {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Number>>>,
    failed: Arc<AtomicU64>,
}

impl Draws {
    fn start(hosts: &[Host], offset_ms: i64) -> Draws {
        let (stop, failed) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let mut threads = Vec::new();
        for host in hosts {
            for name in ["days", "tenants", "dense"] {
                let builder =
                    Client::builder().socket(host.socket()).deadline(Duration::from_secs(3));
                let tenant = if name == "tenants" { "acme" } else { "" };
                let series = builder.build().unwrap().series(name).tenant(tenant);
                let (stop, failed): (_, Arc<AtomicU64>) = (Arc::clone(&stop), Arc::clone(&failed));
                threads.push(std::thread::spawn(move || {
                    let mut numbers = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let asked_ms = now_ms() + offset_ms;
                        match series.next() {
                            Ok(text) => {
                                let came_ms = now_ms() + offset_ms;
                                numbers.push(Number { text, asked_ms, came_ms });
                            }
                            Err(_) => drop(failed.fetch_add(1, Ordering::Relaxed)),
                        }
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    numbers
                }));
            }
        }
        Draws { stop, threads, failed }
    }

    fn stop(self) -> (Vec<Number>, u64) {
        self.stop.store(true, Ordering::Relaxed);
        let numbers = self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        (numbers, self.failed.load(Ordering::Relaxed))
    }
}

/// Three hosts and their wall clocks, which no number depends on.
fn hosts<S: Server>(server: &S) -> (Vec<Host>, Vec<WallClock>) {
    let host = |_| {
        let host = Host::on_store(&server.url());
        WallClock::of(host.set("worker", "none").set("claims_kept", "87600h"))
    };
    let (mut hosts, clocks): (Vec<Host>, Vec<WallClock>) = (1..=3).map(host).unzip();
    hosts.iter_mut().for_each(Host::start);
    create_series(&hosts[0]);
    (hosts, clocks)
}

fn create_series(host: &Host) {
    for (name, format) in SERIES {
        let dense = name == "dense";
        let body = json!({
            "series": name,
            "format": format,
            "timezone": ZONE,
            "overflow": "grow",
            "dense": dense,
            "tenants_max": 1_000,
        });
        host.admin(opcode::SERIES_CREATE, &body);
    }
}

/// Sets each host's wall clock an hour ahead, an hour behind, or right.
fn set_wall_clocks(clocks: &[WallClock], rng: &mut Seeded) {
    clocks.iter().for_each(|clock| clock.step([-3_600, 0, 3_600][rng.usize(..3)]));
}

/// Makes every host read the store's clock.
fn read_clock(hosts: &[Host]) {
    for host in hosts {
        eventually("the store answers", WITHIN, || {
            host.client().admin(opcode::SERIES_LIST, "{}").ok()
        });
    }
}

/// The series, the period and the number in a text.
fn read(text: &str) -> (String, String, u64) {
    let found = SERIES.iter().find_map(|(name, format)| {
        let read = Format::parse(format).unwrap().read(text, Overflow::Grow)?;
        Some(((*name).to_owned(), read.period.to_string(), read.number))
    });
    found.unwrap_or_else(|| panic!("{text} is a number of no series"))
}

/// Checks that no number was issued twice or outside of its period.
fn check(numbers: &[Number], seen: &mut BTreeMap<(String, String), BTreeSet<u64>>) {
    for Number { text, asked_ms, came_ms } in numbers {
        let (series, period, number) = read(text);
        let first: Date = period.parse().unwrap();
        let (start, end) = (start_of(first), start_of(first.tomorrow().unwrap()));
        assert!(
            *came_ms >= start && *asked_ms < end,
            "{text} was asked for at {} and came at {}",
            Timestamp::from_millisecond(*asked_ms).unwrap(),
            Timestamp::from_millisecond(*came_ms).unwrap()
        );
        let new = seen.entry((series, period)).or_default().insert(number);
        assert!(new, "{text} came twice");
    }
}

/// All parts of a period, which must cover every claimed number exactly once, and contain every drawn one.
fn account(host: &Host, series: &str, period: &str, drawn: &BTreeSet<u64>) -> Vec<Value> {
    let tag = match series {
        "tenants" => format!("series/tenants/acme/{period}"),
        "dense" => format!("series.dense/dense/{period}"),
        _ => format!("series/{series}/{period}"),
    };
    let row = host.admin(opcode::TAG_SHOW, &json!({ "tag": tag }));
    let claimed_to = row["max_id"].as_u64().unwrap() - 1;
    let (mut parts, mut first) = (Vec::new(), Some(1));
    while let Some(from) = first {
        let body = json!({ "tag": tag, "first": from, "last": claimed_to });
        let page = host.admin(opcode::GAPS, &body);
        parts.extend(page["parts"].as_array().unwrap().clone());
        first = page["next"].as_u64();
    }
    let mut next = 1;
    for part in &parts {
        assert_eq!(part["first"], next, "{series} {period}: {parts:#?}");
        next = part["last"].as_u64().unwrap() + 1;
        let why = part["why"].as_str().unwrap();
        let known = ["issued", "held", "unused", "issued_until_crash", "dropped", "lost"];
        assert!(known.contains(&why), "{series} {period} has no cause: {part}");
    }
    assert_eq!(next, claimed_to + 1, "{series} {period}: the account doesn't close");
    assert!(drawn.iter().all(|number| *number <= claimed_to));
    // The host that claimed a number knows whether it was issued.
    for part in parts.iter().filter(|part| part["own"] == true) {
        let range = part["first"].as_u64().unwrap()..=part["last"].as_u64().unwrap();
        let issued = drawn.range(range).count();
        let may = ["issued", "issued_until_crash"].contains(&part["why"].as_str().unwrap());
        assert!(issued == 0 || may, "{series} {period}: {part} was issued");
    }
    parts
}

fn days_begin_and_end_on_three_hosts<S: Server>() {
    let mut rng = seeds(1).next().unwrap();
    let mut server = S::new();
    let mut clock = ServerClock::of(&mut server);
    let (mut hosts, wall_clocks) = hosts(&server);
    let mut seen = BTreeMap::new();
    // A server whose clock is set ends some connections, and makes others wait.
    let (mut issued, mut failures) = (0, 0);
    let begun = Instant::now();
    for turn in 0..BOUNDARIES {
        let date: Date = match turn {
            turn if turn % 2 == 0 => DATES[turn / 2 % DATES.len()].parse().unwrap(),
            _ => Date::new(rng.i16(2027..2034), rng.i8(1..=12), rng.i8(1..=28)).unwrap(),
        };
        clock.set(start_of(date) - AROUND.as_millis() as i64);
        set_wall_clocks(&wall_clocks, &mut rng);
        read_clock(&hosts);
        let draws = Draws::start(&hosts, clock.offset_ms);
        let kill = rng.usize(..3);
        if turn % 3 == 2 {
            std::thread::sleep(AROUND - Duration::from_millis(rng.u64(..200)));
            hosts[kill].kill();
            hosts[kill].start();
        }
        eventually("the day begins", WITHIN, || {
            (clock.ms() > start_of(date) + AROUND.as_millis() as i64).then_some(())
        });
        let (numbers, failed) = draws.stop();
        failures += failed;
        issued += numbers.len();
        // The clock is set by an hour, in the middle of the day or back across its beginning.
        check(&numbers, &mut seen);
        let by = if rng.bool() { 3_600_000 } else { -3_600_000 };
        let to = clock.ms() + by;
        clock.set(to);
        read_clock(&hosts);
        let draws = Draws::start(&hosts, clock.offset_ms);
        std::thread::sleep(Duration::from_millis(100));
        let (numbers, failed) = draws.stop();
        failures += failed;
        issued += numbers.len();
        check(&numbers, &mut seen);
    }
    let took = begun.elapsed();
    let mut claimed = 0;
    for ((series, period), drawn) in &seen {
        for host in &hosts {
            claimed += account(host, series, period, drawn).len();
        }
    }
    assert!(issued > 50 * BOUNDARIES, "only {issued} numbers were issued");
    println!(
        "{}: {BOUNDARIES} boundaries in {took:.0?}, {issued} numbers in {} periods, {failures} failures, \
         accounts of {claimed} parts",
        S::NAME,
        seen.len()
    );
}

/// The server's clock is set to just before each day, and all hosts draw until the day has begun.
fn no_number_is_outside_of_its_day_over_many_days<S: Server>() {
    let named = std::env::var("LEAFD_TEST_BOUNDARIES").ok();
    let wanted = named.map_or(MANY_BOUNDARIES, |count| {
        count.parse().expect("LEAFD_TEST_BOUNDARIES is a number of boundaries")
    });
    let mut rng = seeds(1).next().unwrap();
    let mut server = S::new();
    let mut clock = ServerClock::of(&mut server);
    let (hosts, wall_clocks) = hosts(&server);
    let mut seen = BTreeMap::new();
    let (mut crossed, mut issued, mut failures, mut before_ms) = (0, 0, 0, 50);
    let begun = Instant::now();
    let mut date: Date = "2026-12-01".parse().unwrap();
    for day in 1.. {
        if crossed == wanted {
            break;
        }
        assert!(
            day <= 3 * wanted + 10,
            "only {crossed} of {day} boundaries were crossed while drawing"
        );
        date = date.tomorrow().unwrap();
        let start = start_of(date);
        clock.set(start - before_ms);
        set_wall_clocks(&wall_clocks, &mut rng);
        read_clock(&hosts);
        let draws = Draws::start(&hosts, clock.offset_ms);
        eventually("the day begins", WITHIN, || (clock.ms() > start + 50).then_some(()));
        let (numbers, failed) = draws.stop();
        (issued, failures) = (issued + numbers.len(), failures + failed);
        check(&numbers, &mut seen);
        // If nothing was drawn before the boundary, hosts need more time to read the clock.
        let on_day = |number: &&Number| read(&number.text).1 == date.to_string();
        let after = numbers.iter().filter(on_day).count();
        if after < numbers.len() {
            crossed += usize::from(after > 0);
            before_ms -= before_ms / 8;
        } else {
            before_ms = (before_ms * 2).min(5_000);
        }
    }
    println!(
        "{}: {crossed} boundaries in {:.0?}, {issued} numbers in {} periods, {failures} failures",
        S::NAME,
        begun.elapsed(),
        seen.len()
    );
}

/// The server is down across a boundary: hosts continue in the new period with numbers that they claimed before it
/// began.
fn a_period_begins_while_the_store_is_down<S: Server>() {
    let mut server = S::new();
    let mut clock = ServerClock::of(&mut server);
    let (hosts, _) = hosts(&server);
    let boundary = start_of("2026-10-26".parse().unwrap());
    clock.set(boundary - 10_000);
    read_clock(&hosts);
    let draw = |host: &Host, name: &str| host.client().series(name).next();
    for host in &hosts {
        assert!(draw(host, "days").unwrap().starts_with("D-20261025-"));
    }
    // Each host must claim numbers of the next day.
    eventually("the next day is prepared", WITHIN, || {
        let sql =
            "SELECT COUNT(DISTINCT host) FROM leafd_claim WHERE tag = 'series/days/2026-10-26'";
        (server.sql(sql)[0][0] == "3").then_some(())
    });
    assert!(clock.ms() < boundary, "the machine is too slow for this test");
    server.kill();
    let mut seen = BTreeSet::new();
    for host in &hosts {
        let before = draw(host, "days").unwrap();
        assert!(seen.insert(before.clone()) && before.starts_with("D-20261025-"), "{before}");
    }
    eventually("the boundary passes", WITHIN, || (clock.ms() > boundary + 500).then_some(()));
    for host in &hosts {
        let after = eventually("the new day's number", WITHIN, || draw(host, "days").ok());
        assert!(seen.insert(after.clone()) && after.starts_with("D-20261026-"), "{after}");
        // Dense series and unknown tenants need the store.
        let error = draw(host, "dense").unwrap_err().to_string();
        assert!(error.contains("STORE_UNAVAILABLE"), "{error}");
        let tenant = host.client().series("tenants").tenant("new").next().unwrap_err().to_string();
        assert!(tenant.contains("STORE_UNAVAILABLE"), "{tenant}");
    }
    // A daemon that starts now doesn't know the current period.
    let mut hosts = hosts;
    hosts[0].kill();
    hosts[0].start();
    let error = draw(&hosts[0], "days").unwrap_err().to_string();
    assert!(error.contains("STORE_UNAVAILABLE"), "{error}");
    server.start();
    let again = eventually("the store is back", WITHIN, || draw(&hosts[0], "days").ok());
    assert!(seen.insert(again.clone()) && again.starts_with("D-20261026-"), "{again}");
    // A store that doesn't answer delays no request beyond its deadline.
    server.freeze();
    let client = Client::builder().socket(hosts[0].socket()).deadline(Duration::from_millis(300));
    let unknown = client.build().unwrap().series("unknown");
    eventually("a look-up ends at the deadline", WITHIN, || {
        let error = unknown.next().unwrap_err().to_string();
        error.contains("did not answer in time for series").then_some(())
    });
    server.thaw();
}

/// The store is so slow that a request ends before its tenant is counted and its tag is created.
fn a_tenant_is_counted_once_and_gets_numbers_however_short_the_deadline<S: Server>() {
    let server = S::new();
    let relay = Relay::to(server.port());
    let mut host = Host::on_store(&S::url_of(&[relay.port()], DATABASE)).set("worker", "none");
    host.start();
    create_series(&host);
    relay.delay(Duration::from_millis(40));
    let client = Client::builder().socket(host.socket()).deadline(Duration::from_millis(250));
    let series = client.build().unwrap().series("tenants").tenant("acme");
    eventually("a number", WITHIN, || series.next().ok());
    let counter = host.admin(opcode::TAG_SHOW, &json!({ "tag": "series.dense/tenants/tenants" }));
    assert_eq!(counter["max_id"], 2, "one tenant: {counter}");
}

/// The guide's row in an application's own database, for users whose law allows no gaps.
fn the_guide_s_row_leaves_no_gap<S: Server + Sync>() {
    let server = S::empty(&[]);
    let guide = include_str!("../../docs/guide/document-numbers.md");
    let blocks: Vec<&str> =
        guide.split("```sql\n").skip(1).map(|from| from.split_once("```").unwrap().0).collect();
    let [tables, on_postgres, on_mysql] = blocks[..] else { panic!("{blocks:?}") };
    let invoice = if S::NAME == "PostgreSQL" { on_postgres } else { on_mysql };
    server.sql(tables);
    server.sql(invoice);
    server.sql(&invoice.replace("COMMIT", "ROLLBACK"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    server.sql(invoice);
                }
            });
        }
    });
    let counts = "SELECT count(*), min(number), max(number) FROM invoice";
    assert_eq!(server.sql(counts), [["101", "1", "101"]]);
}
