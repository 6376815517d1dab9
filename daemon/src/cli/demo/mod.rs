//! `leafd demo`: shows everything with one command, in a temporary folder.

mod child;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use leafd_client::{Client, Ids, opcode};
use nix::sys::signal::{SigSet, Signal};
use serde_json::json;

use crate::cli::finish;
use child::ChildDaemon;

/// How long to stay.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoArgs {
    /// Exit after showing everything, instead of running until Ctrl-C
    #[arg(long)]
    exit: bool,
}

/// How many draws are timed for a row of the table.
const DRAWS: u32 = 20_000;

/// Draws before the timing: it should measure a process at work, not its start.
const WARM_UP: u32 = 2_000;

/// Starts a daemon, shows what it does, and stops it.
#[must_use]
pub fn run(args: &DemoArgs) -> ExitCode {
    match try_run(args) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has gone: nothing to complain about.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => finish(Err(error)),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(io::ErrorKind::BrokenPipe)
}

fn try_run(args: &DemoArgs) -> Result<()> {
    // Blocked before any other thread starts, so that a Ctrl-C at any time is handled below. Closing the terminal ends
    // the demo like Ctrl-C, because its folder must be removed then too.
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    signals.thread_block().context("cannot block signals")?;
    let mut out = io::stdout().lock();
    let begun = Instant::now();
    let daemon = ChildDaemon::start()?;
    writeln!(
        out,
        "leafd was ready after {} ms (pid {}), with SQLite in {}",
        begun.elapsed().as_millis(),
        daemon.pid(),
        daemon.folder().display()
    )?;
    show(&daemon, &mut out)?;
    if args.exit {
        // Don't suggest commands: the socket goes with the demo.
        return Ok(());
    }
    let (socket, leafctl) = (daemon.socket().display(), leafctl());
    writeln!(out, "\nIt listens on {socket}. In another terminal, try:\n")?;
    writeln!(out, "  export LEAFD_SOCKET={socket}")?;
    for command in [
        "next orders -n 5",
        "next snowflake",
        "tag create invoices --start 500000",
        "tag list",
        "status",
    ] {
        writeln!(out, "  {leafctl} {command}")?;
    }
    writeln!(out, "\nCtrl-C stops it and deletes the directory.")?;
    signals.wait().context("cannot wait for Ctrl-C")?;
    writeln!(out)?;
    Ok(())
}

fn show(daemon: &ChildDaemon, out: &mut impl Write) -> Result<()> {
    let client = Client::connect(daemon.socket())?;
    client.admin(
        opcode::TAG_CREATE,
        &json!({"tag": "orders", "description": "a demo"}).to_string(),
    )?;
    writeln!(out, "\nCreated the tag \"orders\". Its first ids, through the socket:")?;
    writeln!(out, "  {}", listed(client.next_batch("orders", 5)?))?;
    writeln!(out, "Snowflake ids of worker 0, drawn without the store:")?;
    writeln!(out, "  {}", listed(client.next_batch("snowflake", 3)?))?;

    writeln!(out, "\n{:<34} {:>12} {:>12}", "", "segment", "snowflake")?;
    let direct = |tag: &str| median(|| client.next_direct(tag).map(drop));
    writeln!(
        out,
        "{:<34} {:>12} {:>12}",
        "one id, drawn directly (p50)",
        micros(direct("orders")?),
        micros(direct("snowflake")?)
    )?;
    writeln!(
        out,
        "{:<34} {:>12} {:>12}",
        "one id from a held run (mean)",
        nanos(held(&client, "orders")?),
        nanos(held(&client, "snowflake")?)
    )?;
    Ok(())
}

/// The median time of a single draw.
fn median(mut draw: impl FnMut() -> leafd_client::Result<()>) -> Result<Duration> {
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

/// The mean over many draws from held runs: a single draw is shorter than reading the clock.
fn held(client: &Client, tag: &str) -> Result<Duration> {
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

fn listed(ids: Ids) -> String {
    ids.map(|id| id.to_string()).collect::<Vec<_>>().join(" ")
}

fn micros(time: Duration) -> String {
    format!("{:.1} us", time.as_nanos() as f64 / 1_000.0)
}

fn nanos(time: Duration) -> String {
    format!("{} ns", time.as_nanos())
}

/// The command for leafctl: its path if it lies beside this program, otherwise the alias of the source tree when cargo
/// runs this, otherwise its name.
fn leafctl() -> String {
    let beside = std::env::current_exe().map(|path| path.with_file_name("leafctl"));
    match beside {
        Ok(path) if path.exists() => path.display().to_string(),
        _ if std::env::var_os("CARGO").is_some() => "cargo leafctl".to_owned(),
        _ => "leafctl".to_owned(),
    }
}
