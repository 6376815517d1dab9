//! Processes that each draw at a modest pace, as on a host with many workers. Each one has a connection of its own.

use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use leafd_client::Client;

use super::redis::RedisTransport;
use super::transport::{LeafdTransport, Transport};
use super::workloads::{Round, Setting};
use crate::duplicates::{check_ascending, spans_of};
use crate::processes::{Process, helper};
use crate::stats::{Stretch, call_ns, put_percentiles};
use crate::stop::End;

/// The server that the processes ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Server {
    Leafd,
    Redis,
}

/// The pause between two ids of one process: 500 per second.
const PAUSE: Duration = Duration::from_millis(2);

/// Ids before the measurement.
const WARM_UP: usize = 8;

/// One round by this many processes.
pub(super) fn processes(
    server: Server,
    socket: &Path,
    tag: &str,
    count: usize,
    setting: Setting,
) -> Result<Round> {
    let mut workers = Vec::new();
    for number in 0..count {
        let mut command = helper("helper-pace")?;
        command.arg(match server {
            Server::Leafd => "leafd",
            Server::Redis => "redis",
        });
        command.arg("--socket").arg(socket).args(["--tag", tag]);
        command.args(["--seconds", &setting.time.as_secs_f64().to_string()]);
        // Not all at the same moment: real processes aren't synchronised.
        let first_us = PAUSE.as_micros() * number as u128 / count as u128;
        command.args(["--first-us", &first_us.to_string()]);
        workers.push(Process::start(command.stdin(Stdio::piped()))?);
    }
    for worker in &mut workers {
        worker.line()?;
    }
    let stretch = Stretch::begin(setting.server);
    for worker in &mut workers {
        worker.go()?;
    }
    let mut drawn = 0;
    for worker in &mut workers {
        drawn += worker.line()?.trim().parse::<usize>().context("a helper tells no number")?;
    }
    let mut stats = stretch.end(drawn);
    let (mut ids, mut latencies_ns) = (Vec::new(), Vec::new());
    for worker in workers {
        for line in String::from_utf8(worker.rest()?)?.lines() {
            let (id, ns) = line.split_once(' ').context("a helper tells no id")?;
            ids.push(id.parse()?);
            latencies_ns.extend((ns != "-").then(|| ns.parse::<u32>()).transpose()?);
        }
    }
    put_percentiles(&mut latencies_ns, &mut stats);
    Ok((stats, spans_of(&mut ids)))
}

/// The helper process: reports that it is ready, waits for a line, draws, and prints how many ids that gave. Then it
/// prints each id with the nanoseconds that it took.
pub(crate) fn draw_and_tell(
    server: Server,
    socket: &Path,
    tag: &str,
    time: Duration,
    first: Duration,
) -> Result<()> {
    let mut transport: Box<dyn Transport> = match server {
        Server::Leafd => Box::new(LeafdTransport::direct(Client::connect(socket)?, tag)?),
        Server::Redis => Box::new(RedisTransport::connect(socket, tag)?),
    };
    let mut ids = (0..WARM_UP).map(|_| transport.one()).collect::<Result<Vec<_>>>()?;
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new())?;
    let mut latencies_ns = Vec::new();
    let mut due = Instant::now() + first;
    let end = End::after(time);
    while !end.reached() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let before = Instant::now();
        ids.push(transport.one()?);
        latencies_ns.push(call_ns(before.elapsed()));
        due += PAUSE;
    }
    check_ascending(&ids)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    writeln!(out, "{}", latencies_ns.len())?;
    out.flush()?;
    let warm_up = std::iter::repeat_n("-".to_owned(), WARM_UP);
    for (id, ns) in ids.iter().zip(warm_up.chain(latencies_ns.iter().map(u32::to_string))) {
        writeln!(out, "{id} {ns}")?;
    }
    Ok(out.flush()?)
}
