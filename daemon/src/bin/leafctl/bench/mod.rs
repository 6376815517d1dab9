//! `leafctl bench`: what leafd costs on this machine, beside what the machine itself and Redis cost.
//!
//! Rows are measured briefly in turn, round after round, and a row's number is the median of its rounds:
//! so drift and disturbances hit all rows alike.
//!
//! - `rows`: what is measured; `shapes`, `leased`, `echo`: the timed loops; `line`, `redis`: over what;
//! - `witness`: that no id came twice, without which no number is worth anything;
//! - `upkeep`: memory, start, idle processor time; `daemon`, `processes`, `stop`: what is started and how
//!   it ends;
//! - `figures`, `budget`, `machine`, `report`: from numbers to the table.

mod budget;
mod daemon;
mod echo;
mod figures;
mod leased;
mod line;
mod machine;
mod processes;
mod redis;
mod report;
mod rows;
mod shapes;
mod stop;
mod upkeep;
mod witness;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use leafd_client::Client;

use daemon::OwnDaemon;
use machine::Machine;
use processes::CpuClock;
use redis::RedisServer;
use report::Results;
use rows::{Leafd, Row, Servers, System};
use witness::Witness;

/// Measure leafd on this machine, side by side with Redis and the machine's own floor
///
/// Starts a daemon in a temporary directory (and a redis-server, if one is installed), measures every row
/// briefly in turn, several rounds of that, and prints the medians with ratios and budgets. It takes about a
/// minute and a half, and wants a machine that does nothing else meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// How many times every row is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// How long each time, in seconds (rows of 1,000 ids a second take four times as long)
    #[arg(long, value_name = "SECONDS", default_value = "0.25", value_parser = parse_seconds)]
    pub seconds: Duration,

    /// Only rows whose name contains one of these, such as "segment" or "back to back"; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub only: Vec<String>,

    /// Measure the running daemon that --socket names, instead of one of the bench's own, by ids of this
    /// segment tag; many of them will be used up
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,

    /// Measure memory, start and idle processor time even though --only is given
    #[arg(long)]
    pub memory: bool,

    /// Write everything, each round included, as JSON to a file, or with - to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Above this the numbers are not the machine's own.
const OTHERS_PERCENT_MAX: f64 = 10.0;

const EXAMPLES: &str = "\
Examples:
  leafctl bench                                     everything, in about a minute and a half
  leafctl bench --only 'back to back' --rounds 9    some rows, more closely
  leafctl bench --json bench.json                   the table, and a file to compare later
  leafctl bench --tag scratch                       the daemon that is running; use a tag made for it";

/// Arguments of the processes that the bench starts from its own program.
#[derive(Debug, clap::Args)]
pub struct HelperArgs {
    #[command(subcommand)]
    job: Job,
}

#[derive(Debug, clap::Subcommand)]
enum Job {
    /// Be a daemon.
    Daemon {
        #[arg(long)]
        dir: PathBuf,
    },
    /// Be an echo on standard input.
    Echo {
        #[arg(long)]
        polls: bool,
    },
    /// Draw leased ids and print them.
    Draw {
        #[arg(long)]
        socket: PathBuf,
        #[arg(long)]
        tag: String,
        #[arg(long, value_parser = parse_seconds)]
        seconds: Duration,
    },
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let allowed = "a number of seconds from 0.001 to 3600";
    let seconds: f64 = text.parse().map_err(|_| allowed.to_owned())?;
    if !(0.001..=3600.0).contains(&seconds) {
        return Err(allowed.to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Measures and reports.
///
/// # Errors
/// What keeps a row from being measured; an id that came twice; the user's wish to end.
pub fn run(socket: &Path, args: &BenchArgs) -> Result<()> {
    stop::on_signals()?;
    let began = Instant::now();
    let machine = Machine::look();
    let watch = machine::Watch::begin();
    let everything = args.only.is_empty() && args.tag.is_none();
    let idle = if everything || args.memory { Some(upkeep::Idle::start()?) } else { None };

    let mut rows = selected(&args.only)?;
    let dir = daemon::new_dir()?;
    let own = if args.tag.is_none() { Some(OwnDaemon::start(dir.path())?) } else { None };
    let leafd = match &own {
        Some(daemon) => serve_rows(daemon, &rows)?,
        None => found(socket, args.tag.clone())?,
    };
    let redis = RedisServer::start()?;
    let servers = Servers { leafd, redis };
    let mut about = Vec::new();
    if servers.redis.is_none() {
        rows.retain(|row| row.system != System::Redis);
    }
    if !servers.leafd.snowflake {
        rows.retain(|row| row.system != System::Snowflake);
        about.push("snowflake: not measured, the daemon holds no worker number".to_owned());
    }

    let mut witness = Witness::default();
    let mut rounds: BTreeMap<Row, Vec<figures::Figures>> = BTreeMap::new();
    for round in 0..args.rounds {
        for &row in &rows {
            progress(round, args.rounds, &row.name());
            let (figures, spans) = row.measure(&servers, args.seconds)?;
            stop::check()?;
            witness.add(&row.ids_of(&servers.leafd), spans)?;
            rounds.entry(row).or_default().push(figures);
        }
    }
    let has_redis = servers.redis.is_some();
    drop(servers);
    if let Some(own) = own {
        own.process.stop()?;
    }
    let mut costs = upkeep::Costs::new();
    if let Some(idle) = idle {
        idle.end(&mut costs)?;
        progress(args.rounds, args.rounds, "memory and start");
        upkeep::measure(&mut costs)?;
    }
    progress(0, 0, "");
    about.insert(
        0,
        format!(
            "medians of {} rounds of {} s a row, interleaved; {:.0} s in all",
            args.rounds,
            args.seconds.as_secs_f64(),
            began.elapsed().as_secs_f64()
        ),
    );
    let others_percent = watch.others_percent();
    about.push(format!(
        "meanwhile everything else on the machine used {others_percent:.0} % of a core"
    ));
    if others_percent > OTHERS_PERCENT_MAX {
        about.push(
            "THE MACHINE WAS BUSY: latencies and ratios say little; measure again when it is idle"
                .to_owned(),
        );
    }
    let results = Results { machine, about, rounds, costs, ids: witness.ids(), redis: has_redis };
    tell(&results, args.json.as_deref())
}

/// Does the job of a process that the bench has started.
///
/// # Errors
/// What keeps it from doing it.
pub fn run_helper(args: &HelperArgs) -> Result<()> {
    match &args.job {
        Job::Daemon { dir } => daemon::serve(dir),
        Job::Echo { polls } => echo::serve(*polls),
        Job::Draw { socket, tag, seconds } => leased::draw_and_tell(socket, tag, *seconds),
    }
}

fn selected(only: &[String]) -> Result<Vec<Row>> {
    let mut rows = rows::all();
    if !only.is_empty() {
        rows.retain(|row| only.iter().any(|pattern| row.name().contains(pattern)));
    }
    if rows.is_empty() {
        let names: Vec<String> = rows::all().into_iter().map(Row::name).collect();
        bail!("no row's name contains {only:?}; there are\n  {}", names.join("\n  "));
    }
    Ok(rows)
}

/// The bench's own daemon, with the tags that the rows draw from.
fn serve_rows(daemon: &OwnDaemon, rows: &[Row]) -> Result<Leafd> {
    let client = Client::connect(daemon.socket())?;
    for row in rows.iter().filter(|row| row.system == System::Segment) {
        daemon.create_tag(&client, &row.own_tag())?;
    }
    Ok(Leafd {
        socket: daemon.socket(),
        cpu: daemon.process.cpu_clock(),
        tag: None,
        snowflake: true,
    })
}

/// A daemon that was running before.
fn found(socket: &Path, tag: Option<String>) -> Result<Leafd> {
    let socket = socket.to_owned();
    let client = Client::connect(&socket)?;
    let info = client.info()?;
    if let Some(tag) = &tag {
        client.next_unleased(tag).with_context(|| format!("cannot draw ids of {tag:?}"))?;
    }
    Ok(Leafd { socket, cpu: CpuClock::of(info.pid), tag, snowflake: info.snowflake_ready })
}

/// Tells a person at a terminal how far it is.
fn progress(round: u32, rounds: u32, what: &str) {
    use std::io::IsTerminal as _;
    let mut out = std::io::stderr();
    if out.is_terminal() {
        let text = if rounds == 0 { String::new() } else { format!("{round}/{rounds} {what}") };
        // Nobody depends on it.
        let _ = write!(out, "\r{text:<60}\r");
        let _ = out.flush();
    }
}

fn tell(results: &Results, json: Option<&Path>) -> Result<()> {
    let text = || serde_json::to_string_pretty(&results.json());
    let mut out = std::io::stdout();
    match json {
        Some(path) if path.as_os_str() == "-" => {
            writeln!(out, "{}", text()?)?;
            return Ok(());
        }
        Some(path) => {
            let text = text()? + "\n";
            std::fs::write(path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        None => {}
    }
    out.write_all(results.table().as_bytes())?;
    Ok(())
}
