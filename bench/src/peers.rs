//! leafd compared with other sources of unique ids: databases, packages, UUIDs. One caller draws one id after the
//! other, in Rust and in Python, all in turn in one run.
//!
//! Only this bench uses these packages. Python's are taken from the machine; a row whose package is missing says how to
//! install it.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use leafd_client::Client;
use leafd_tests::servers::{Postgres, Server as _, USER};
use postgres::{Config, NoTls};
use uuid::Uuid;

use crate::fleet;
use crate::host::daemon::{OwnDaemon, new_dir};
use crate::host::redis::RedisServer;
use crate::languages;
use crate::processes::{Process, find_program};
use crate::report::{Report, Section};
use crate::{Plan, progress, stop};

const NAME: &str = "peers: leafd beside its alternatives";

const ROUNDS: u32 = 7;
const TIME: Duration = Duration::from_millis(100);

const NS: &str = "ns/id";
const TO_HELD: &str = "x leafd held";
const TO_DIRECT: &str = "x leafd direct";

const TAG: &str = "bench";
const LAYOUT: &str = "snowflake";

/// How many calls of nanoseconds are made between two looks at the clock.
const CALLS: u32 = 256;

/// The worker number that every process would use. Nothing assigns it to a single process, and that is the flaw.
const WORKER: u16 = 1;

/// A row, and why it is faster if it is.
struct Peer {
    name: &'static str,
    ahead_because: &'static str,
}

const HELD: &str = "Rust: leafd, a held run";
const DIRECT: &str = "Rust: leafd, drawn directly";
const PYTHON_HELD: &str = "Python: leafd, next_id";
const PYTHON_DIRECT: &str = "Python: leafd, next_id_direct";

const NO_CLOCK: &str =
    "it asks no clock and counts on from its last id, and nothing keeps two processes apart";
const ALONE: &str = "nothing keeps two processes with the same worker number from the same ids, nor a restart from repeating some";
const RANDOM: &str = "16 bytes by chance: no daemon is asked, and nothing is 64 bits wide or dense";
const COMPILED: &str = "a random number that a compiled module makes: no daemon, and 16 bytes";

/// Rows by their names in `peers.py`, with the command that installs each.
const PYTHON: [(&str, Peer, &str); 8] = [
    ("held", Peer { name: PYTHON_HELD, ahead_because: "" }, ""),
    ("direct", Peer { name: PYTHON_DIRECT, ahead_because: "" }, ""),
    (
        "redis",
        Peer { name: "Python: redis-py, incr over a Unix socket", ahead_because: "" },
        "pip install redis",
    ),
    ("uuid4", Peer { name: "Python: uuid.uuid4", ahead_because: RANDOM }, ""),
    (
        "uuid-utils",
        Peer { name: "Python: uuid-utils, uuid7", ahead_because: COMPILED },
        "pip install uuid-utils",
    ),
    ("uuid6", Peer { name: "Python: uuid6, uuid7", ahead_because: RANDOM }, "pip install uuid6"),
    ("uuid7", Peer { name: "Python: uuid7, uuid7", ahead_because: RANDOM }, "pip install uuid7"),
    (
        "snowflake-id",
        Peer { name: "Python: snowflake-id", ahead_because: ALONE },
        "pip install snowflake-id",
    ),
];

/// One peer's calls.
type Next<'a> = Box<dyn FnMut() -> Result<u64> + 'a>;

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    vec![NAME.to_owned()]
}

/// Measures all available rows, if they are selected.
///
/// # Errors
/// Something can't be measured; the user stops the run.
pub(crate) fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    if !plan.wants(NAME) {
        return Ok(());
    }
    let (rounds, time) = (plan.rounds(ROUNDS), plan.time(TIME));
    let about = format!(
        "leafd beside its alternatives: one caller, one id after the other; medians of {rounds} rounds of {} s, \
         interleaved. A ratio above 1 is how many times longer than leafd the row takes, in the same language",
        time.as_secs_f64()
    );
    let mut section = Section::new("peer", about, &[NS, TO_HELD, TO_DIRECT]);
    let dir = new_dir()?;
    let daemon = OwnDaemon::start(dir.path())?;
    let client = Client::connect(daemon.socket())?;
    daemon.create_tag(&client, TAG)?;
    let redis = RedisServer::start()?;
    let database = Path::new(fleet::POSTGRES).exists().then(database);
    missing(redis.is_some(), "redis-server", report);
    missing(database.is_some(), "PostgreSQL", report);
    let mut in_rust = in_rust(&client, redis.as_ref(), database.as_ref())?;
    let in_python = match find_program("python3") {
        Some(python) => {
            Some((python, languages::python_package(&languages::built_library()?, dir.path())?))
        }
        None => None,
    };
    missing(in_python.is_some(), "python3", report);
    let mut not_installed = Vec::new();
    for round in 1..=rounds {
        progress(&format!("{round}/{rounds} {NAME}"));
        for (peer, calls, next) in &mut in_rust {
            section.put(peer.name, NS, ns_each(*calls, time, next)?);
            stop::check()?;
        }
        if let Some((python, package)) = &in_python {
            let mut command = Command::new(python);
            command.env("PYTHONPATH", package).env("PYTHONDONTWRITEBYTECODE", "1");
            command.arg(languages::sources().join("peers.py"));
            command.arg(daemon.socket()).arg(TAG).arg(time.as_secs_f64().to_string());
            command.args(redis.as_ref().map(|redis| &redis.socket));
            not_installed = run_python(&mut command, &mut section)?;
        }
    }
    let rust: Vec<Peer> = in_rust.into_iter().map(|(peer, ..)| peer).collect();
    compare(&mut section, &rust, HELD, DIRECT);
    compare(&mut section, &PYTHON.map(|(_, peer, _)| peer), PYTHON_HELD, PYTHON_DIRECT);
    report.not_measured.extend(not_installed);
    report.sections.push(section);
    daemon.process.stop()
}

fn missing(there: bool, program: &str, report: &mut Report) {
    if !there {
        report.not_measured.push(format!("peers: {program} is not installed"));
    }
}

/// A server with a sequence of each kind.
fn database() -> Postgres {
    let server = fleet::server();
    server.create_database(TAG);
    for (name, cache) in [("plain", 1), ("cached", 1_000)] {
        server.ask(
            TAG,
            &format!(
                "CREATE SEQUENCE {name} CACHE {cache}; GRANT ALL ON SEQUENCE {name} TO {USER}"
            ),
        );
    }
    server
}

/// What is measured in Rust, each with the number of calls between two looks at the clock.
fn in_rust<'a>(
    client: &Client,
    redis: Option<&RedisServer>,
    database: Option<&Postgres>,
) -> Result<Vec<(Peer, u32, Next<'a>)>> {
    let plain = |name| Peer { name, ahead_because: "" };
    let (tag, layout) = (client.tag(TAG)?, client.tag(LAYOUT)?);
    let direct = client.tag(TAG)?.direct();
    let mut peers: Vec<(Peer, u32, Next<'a>)> = vec![
        (plain(HELD), CALLS, Box::new(ascending(move || Ok(tag.next()?)))),
        (
            plain("Rust: leafd, a held run of snowflake ids"),
            CALLS,
            Box::new(ascending(move || Ok(layout.next()?))),
        ),
        (plain(DIRECT), 1, Box::new(ascending(move || Ok(direct.next()?)))),
    ];
    if let Some(redis) = redis {
        let name = "Rust: Redis INCR over its Unix socket";
        peers.push((plain(name), 1, Box::new(redis.increments(TAG)?)));
    }
    if let Some(server) = database {
        for (name, sequence) in [
            ("Rust: PostgreSQL nextval", "plain"),
            ("Rust: PostgreSQL nextval, CACHE 1000", "cached"),
        ] {
            peers.push((plain(name), 1, Box::new(nextval(server, sequence)?)));
        }
    }
    let mut unsynchronised = snowflake::SnowflakeIdGenerator::new(0, WORKER.into());
    let real_time = move || Ok(unsynchronised.real_time_generate().cast_unsigned());
    let mut ahead = snowflake::SnowflakeIdGenerator::new(0, WORKER.into());
    let generate = move || Ok(ahead.generate().cast_unsigned());
    let shared = snowflaked::sync::Generator::new(WORKER);
    let v4 = || Ok(Uuid::new_v4().as_u128() as u64);
    let v7 = || Ok(Uuid::now_v7().as_u128() as u64);
    let peer = |name, ahead_because| Peer { name, ahead_because };
    peers.push((peer("Rust: rs-snowflake, real time", ALONE), CALLS, Box::new(real_time)));
    peers.push((peer("Rust: rs-snowflake, logical time", NO_CLOCK), CALLS, Box::new(generate)));
    peers.push((
        peer("Rust: snowflaked, shared by threads", ALONE),
        CALLS,
        Box::new(move || Ok(shared.generate())),
    ));
    peers.push((peer("Rust: uuid, version 7", RANDOM), CALLS, Box::new(v7)));
    peers.push((peer("Rust: uuid, version 4", RANDOM), CALLS, Box::new(v4)));
    Ok(peers)
}

/// Checks that no id comes twice.
fn ascending(mut next: impl FnMut() -> Result<u64>) -> impl FnMut() -> Result<u64> {
    let mut last = 0;
    move || {
        let id = next()?;
        ensure!(id > last, "id {id} follows {last}");
        last = id;
        Ok(id)
    }
}

/// As an application with its own connection does: over TCP, with a prepared statement.
fn nextval(server: &Postgres, sequence: &str) -> Result<impl FnMut() -> Result<u64> + use<>> {
    let mut client = Config::new()
        .host("127.0.0.1")
        .port(server.port())
        .user(USER)
        .dbname(TAG)
        .connect(NoTls)?;
    let statement = client.prepare(&format!("SELECT nextval('{sequence}')"))?;
    Ok(move || Ok(client.query_one(&statement, &[])?.try_get::<_, i64>(0)?.unsigned_abs()))
}

/// Nanoseconds per call, measured for this long.
fn ns_each(calls: u32, time: Duration, next: &mut Next<'_>) -> Result<f64> {
    let mut some = || {
        (0..calls).try_for_each(|_| {
            black_box(next()?);
            anyhow::Ok(())
        })
    };
    some()?;
    let (began, mut made) = (Instant::now(), 0u64);
    while began.elapsed() < time {
        some()?;
        made += u64::from(calls);
    }
    Ok(began.elapsed().as_nanos() as f64 / made as f64)
}

/// One round of Python's rows. Returns what isn't installed.
fn run_python(command: &mut Command, section: &mut Section) -> Result<Vec<String>> {
    let told = Process::start(command)?.rest().context("cannot measure Python's packages")?;
    let mut not_installed = Vec::new();
    for line in String::from_utf8(told)?.lines() {
        let (name, ns) = line.split_once('\t').context("a line without a name")?;
        let known = PYTHON.iter().find(|(known, ..)| *known == name);
        let (_, peer, install) = known.with_context(|| format!("there is no row {name:?}"))?;
        match ns.parse() {
            Ok(ns) => section.put(peer.name, NS, ns),
            Err(_) => not_installed.push(format!("{}: {install}", peer.name)),
        }
    }
    Ok(not_installed)
}

/// Puts each row beside leafd's, and says why one is faster.
fn compare(section: &mut Section, peers: &[Peer], held: &str, direct: &str) {
    let (Some(held_ns), Some(direct_ns)) = (section.median(held, NS), section.median(direct, NS))
    else {
        return;
    };
    for peer in peers {
        let Some(ns) = section.median(peer.name, NS) else { continue };
        section.put(peer.name, TO_HELD, ns / held_ns);
        section.put(peer.name, TO_DIRECT, ns / direct_ns);
        if ns < held_ns && !peer.ahead_because.is_empty() {
            section.note(peer.name, format!("ahead: {}", peer.ahead_because));
        }
    }
}
