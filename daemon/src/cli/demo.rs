//! `leafd demo`: shows everything with one command, using a separate daemon in a temporary directory.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use leafd_client::{Client, Ids, opcode};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::cli::finish;
use crate::config::{Args, Config, Env};
use crate::run;

/// Arguments of `leafd demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoArgs {
    /// Exit when the demo is finished, instead of running until Ctrl-C
    #[arg(long)]
    exit: bool,
}

/// The number of draws that are timed for a row of the table.
const DRAWS: u32 = 20_000;

/// Draws before timing starts, because the start-up of a process should not be measured.
const WARM_UP: u32 = 2_000;

/// How long the daemon may take to start.
const START_MAX: Duration = Duration::from_secs(20);

/// Starts a daemon, demonstrates it, and stops it.
pub fn run(args: &DemoArgs) -> ExitCode {
    match try_run(args.exit) {
        // The reader has closed the pipe, which is not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        outcome => finish(outcome.map(|()| String::new())),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(io::ErrorKind::BrokenPipe)
}

fn try_run(exit: bool) -> Result<()> {
    // Closing the terminal ends the demo like Ctrl-C, because its folder must be removed then too. The signal is blocked
    // before any other thread starts, so that only the one below gets it.
    let hangup = SigSet::from(Signal::SIGHUP);
    hangup.thread_block().context("cannot block signals")?;
    let folder = tempfile::Builder::new()
        .prefix("leafd-")
        .tempdir()
        .context("cannot create a temporary folder")?;
    let socket = folder.path().join("leafd.sock");
    let args = Args {
        socket: Some(socket.clone()),
        state_dir: Some(folder.path().join("state")),
        worker: Some("static:0".to_owned()),
        // These ids are only shown, so the host's other daemons may have worker 0 too.
        set: vec![format!("worker_lock_dir={}", folder.path().display())],
        ..Args::default()
    };
    // The settings of a real daemon must not affect this one.
    let env = Env { variables: BTreeMap::new(), ..Env::of_this_process() };
    let config = Config::load_from(&args, &env)?;
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let shown = show(&socket, exit);
        if !exit && shown.is_ok() {
            let _ = hangup.wait();
        }
        let _ = tell.send(shown);
        // The daemon in the main thread stops.
        let _ = kill(Pid::this(), Signal::SIGTERM);
    });
    run::run(&config, None)?;
    // After Ctrl-C, the result of the thread doesn't matter.
    told.try_recv().unwrap_or(Ok(()))
}

fn show(socket: &Path, exit: bool) -> Result<()> {
    // This doesn't lock standard output, because the daemon prints as well.
    let mut out = io::stdout();
    let client = Client::builder().socket(socket).wait(START_MAX).build()?;
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
    if exit {
        // Don't suggest commands, because the socket disappears with the demo.
        return Ok(());
    }
    let (socket, leafctl) = (socket.display(), leafctl());
    writeln!(out, "\nIn another terminal, try:\n")?;
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
    writeln!(out, "\nCtrl-C stops the daemon and deletes the directory.")?;
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
