//! `leafctl demo`: the whole thing in one command, in a temporary folder.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use leafd_client::{Client, opcode};
use nix::sys::signal::{SigSet, Signal};
use serde_json::json;

use crate::failure::Failure;
use crate::spawned::Spawned;

/// How long to stay.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// End when all is shown, instead of staying up until Ctrl-C
    #[arg(long)]
    exit: bool,
}

/// Draws timed for a row of the table.
const DRAWS: u32 = 20_000;

/// Draws before the timing, so that it measures a process at work and not its first moments.
const WARM_UP: u32 = 2_000;

/// Shows it.
pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    // Blocked before any other thread is there, so that a Ctrl-C at any time is waited for below. A
    // terminal that is closed ends the demo like Ctrl-C does: its folder must go then too.
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    signals.thread_block().context("cannot block signals")?;
    let mut out = io::stdout().lock();
    let begun = Instant::now();
    let daemon = Spawned::start()?;
    writeln!(
        out,
        "leafd is up after {} ms (pid {}), on SQLite in {}",
        begun.elapsed().as_millis(),
        daemon.pid(),
        daemon.folder().display()
    )?;
    show(&daemon, &mut out)?;
    if args.exit {
        // Where it listens is nothing to try: the socket goes with it.
        return Ok(());
    }
    let (socket, program) = (daemon.socket().display(), program());
    writeln!(out, "\nIt listens on {socket}. To try next, in another terminal:\n")?;
    writeln!(out, "  export LEAFD_SOCKET={socket}")?;
    for command in [
        "next orders -n 5",
        "next snowflake",
        "tag create invoices --start 500000",
        "tag list",
        "status",
        "bench",
    ] {
        writeln!(out, "  {program} {command}")?;
    }
    writeln!(out, "\nCtrl-C ends it and removes the folder.")?;
    signals.wait().context("cannot wait for Ctrl-C")?;
    writeln!(out)?;
    Ok(())
}

fn show(daemon: &Spawned, out: &mut impl Write) -> Result<(), Failure> {
    let client = Client::connect(daemon.socket())?;
    client.admin(
        opcode::TAG_CREATE,
        &json!({"tag": "orders", "description": "a demo"}).to_string(),
    )?;
    writeln!(out, "\nTag \"orders\" is created. Its first ids, through the socket:")?;
    writeln!(out, "  {}", ids(client.next_batch("orders", 5)?))?;
    writeln!(out, "Snowflake ids of worker 0, which need no store:")?;
    writeln!(out, "  {}", ids(client.next_batch("snowflake", 3)?))?;

    writeln!(out, "\n{:<34} {:>12} {:>12}", "", "segment", "snowflake")?;
    let unleased = |tag: &str| median(|| client.next_unleased(tag).map(drop));
    writeln!(
        out,
        "{:<34} {:>12} {:>12}",
        "one id, asked for (p50)",
        micros(unleased("orders")?),
        micros(unleased("snowflake")?)
    )?;
    writeln!(
        out,
        "{:<34} {:>12} {:>12}",
        "one id from a held run (mean)",
        nanos(leased(&client, "orders")?),
        nanos(leased(&client, "snowflake")?)
    )?;
    Ok(())
}

/// The median of single draws.
fn median(mut draw: impl FnMut() -> leafd_client::Result<()>) -> Result<Duration, Failure> {
    for _ in 0..WARM_UP {
        draw()?;
    }
    let mut times = Vec::new();
    for _ in 0..DRAWS {
        let begun = Instant::now();
        draw()?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// The mean of many draws from held runs: one alone is shorter than looking at the clock.
fn leased(client: &Client, tag: &str) -> Result<Duration, Failure> {
    let tag = client.tag(tag)?;
    for _ in 0..WARM_UP {
        tag.next()?;
    }
    let begun = Instant::now();
    let draws = 100 * DRAWS;
    for _ in 0..draws {
        tag.next()?;
    }
    Ok(begun.elapsed() / draws)
}

fn ids(ids: leafd_client::Ids) -> String {
    ids.map(|id| id.to_string()).collect::<Vec<_>>().join(" ")
}

fn micros(time: Duration) -> String {
    format!("{:.1} us", time.as_nanos() as f64 / 1_000.0)
}

fn nanos(time: Duration) -> String {
    format!("{} ns", time.as_nanos())
}

/// How to call this program: by name where a shell would find it, else by its path.
fn program() -> String {
    std::env::current_exe().map_or_else(|_| "leafctl".to_owned(), |path| path.display().to_string())
}
