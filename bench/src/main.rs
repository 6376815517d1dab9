//! `leafd-bench`: what leafd costs on this machine, compared with the machine's own floor and with alternatives.
//!
//! Rows are measured briefly in turn, round after round, and a row's number is the median of its rounds. So drift and
//! disturbances affect all rows alike.
//!
//! - `host`: one host's daemon: ids in every form of asking, memory, starts; compared with an echo and Redis, by the
//!   medians of the rounds' ratios;
//! - `fleet`: what many hosts cost their database, compared with its own sequences, and a whole fleet;
//! - `many_tags`: what a hundred thousand tags cost;
//! - `hostile`: what one user can do to others;
//! - `duplicates`: checks that no id came twice, without which no number is worth anything;
//! - `processes`, `stop`: what is started, and how it ends;
//! - `stats`, `machine`, `report`: from numbers to tables.

mod duplicates;
mod fleet;
mod host;
mod hostile;
mod machine;
mod many_tags;
mod processes;
mod report;
mod stats;
mod stop;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Parser;

use duplicates::Duplicates;
use host::{Target, echo, held, paced};
use machine::Machine;
use report::Report;

/// Measure leafd on this machine, side by side with the machine's own floor and its alternatives
///
/// Starts release builds of the daemon in temporary directories, and Redis where it is installed; measures every row
/// briefly in turn, several rounds of that; and prints the medians with ratios and budgets. It wants a machine that does
/// nothing else meanwhile.
#[derive(Debug, Parser)]
#[command(name = "leafd-bench", args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    args: Args,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Args)]
struct Args {
    /// Only rows whose name contains one of these, such as "segment" or "back to back"
    #[arg(value_name = "ROWS")]
    only: Vec<String>,

    /// How many times every row is measured [default: 5; 3 for a fleet]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// How long each time, in seconds (rows of 1,000 ids a second take four times as long) [default: 0.25; 3 for a
    /// fleet]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<Duration>,

    /// Measure the running daemon that --socket names, instead of the bench's own, by ids of this segment tag; many
    /// of them will be used up
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,

    /// The running daemon's socket [default: where leafd listens for root or for this user]
    #[arg(long, value_name = "PATH", requires = "tag")]
    socket: Option<PathBuf>,

    /// Measure everything once for an instant: whether it can be measured. The numbers say nothing
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    smoke: bool,

    #[command(flatten)]
    output: Output,
}

/// How to report.
#[derive(Debug, clap::Args)]
struct Output {
    /// Print the tables as Markdown, without budgets
    #[arg(long)]
    markdown: bool,

    /// Write everything, each round included, as JSON to a file, or with - to standard output instead of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
enum Command {
    /// Run a whole fleet on this machine, behind PgBouncer, through restarts, an outage, a fail-over and dying hosts
    Fleet {
        #[command(flatten)]
        options: fleet::daemons::Options,
        #[command(flatten)]
        output: Output,
    },
    // The processes that the bench starts from its own program.
    /// Be an echo on standard input
    #[command(name = "helper-echo", hide = true)]
    Echo {
        #[arg(long)]
        polls: bool,
    },
    /// Draw ids of held runs and print them
    #[command(name = "helper-draw", hide = true)]
    Draw {
        #[arg(long)]
        socket: PathBuf,
        #[arg(long)]
        tag: String,
        #[arg(long, value_parser = parse_seconds)]
        seconds: Duration,
    },
    /// Draw ids at a modest pace and print them
    #[command(name = "helper-pace", hide = true)]
    Pace {
        server: paced::Server,
        #[arg(long)]
        socket: PathBuf,
        #[arg(long)]
        tag: String,
        #[arg(long, value_parser = parse_seconds)]
        seconds: Duration,
        #[arg(long)]
        first_us: u64,
    },
}

const EXAMPLES: &str = "\
Examples, after `cargo run --release -p leafd-bench --`:
  'back to back' --rounds 9      some rows, more closely
  segment snowflake redis echo   one host's ids
  database                       what many hosts cost a PostgreSQL
  fleet --daemons 50             a whole fleet through restarts and outages
  hostile                        what one user can do to others (as root)
  --json bench.json              everything, and a file to compare later
  --tag scratch                  the daemon that is running; use a tag made for it";

/// What to measure, and for how long.
#[derive(Debug)]
struct Plan {
    only: Vec<String>,
    rounds: Option<u32>,
    seconds: Option<Duration>,
    smoke: bool,
}

/// How long a measurement takes with `--smoke`.
const SMOKE: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Some(Command::Fleet { options, output }) => run_fleet(&options, &output),
        Some(Command::Echo { polls }) => echo::serve(polls),
        Some(Command::Draw { socket, tag, seconds }) => held::draw_and_tell(&socket, &tag, seconds),
        Some(Command::Pace { server, socket, tag, seconds, first_us }) => {
            let first = Duration::from_micros(first_us);
            paced::draw_and_tell(server, &socket, &tag, seconds, first)
        }
        None => run(cli.args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leafd-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_fleet(options: &fleet::daemons::Options, output: &Output) -> Result<()> {
    stop::on_signals()?;
    let machine = Machine::look();
    let (mut duplicates, mut report) = (Duplicates::default(), Report::default());
    fleet::daemons::measure(options, &mut duplicates, &mut report)?;
    finish(report, &machine, &duplicates, output)
}

fn run(args: Args) -> Result<()> {
    stop::on_signals()?;
    let machine = Machine::look();
    let target = match args.tag {
        None => Target::Own,
        Some(tag) => {
            let socket = args.socket.unwrap_or_else(leafd_client::default_socket_path);
            Target::Running { socket, tag }
        }
    };
    let plan =
        Plan { only: args.only, rounds: args.rounds, seconds: args.seconds, smoke: args.smoke };
    plan.check()?;
    let mut duplicates = Duplicates::default();
    let mut report = Report::default();
    host::measure(&plan, &target, &mut duplicates, &mut report)?;
    if matches!(target, Target::Own) {
        many_tags::measure(&plan, &mut report)?;
        fleet::measure(&plan, &mut duplicates, &mut report)?;
        hostile::measure(&plan, &mut duplicates, &mut report)?;
    }
    finish(report, &machine, &duplicates, &args.output)
}

fn finish(
    mut report: Report,
    machine: &Machine,
    duplicates: &Duplicates,
    output: &Output,
) -> Result<()> {
    progress("");
    report.ids_compared = duplicates.ids();
    report.about = machine.about();
    tell(&report, output.json.as_deref(), output.markdown)
}

// === impl Plan ===

impl Plan {
    /// An error if a pattern of the command line matches nothing.
    fn check(&self) -> Result<()> {
        let names = [host::names(), many_tags::names(), fleet::names(), hostile::names()].concat();
        for pattern in &self.only {
            if !names.iter().any(|name| name.contains(pattern)) {
                bail!("no row's name contains {pattern:?}; there are\n  {}", names.join("\n  "));
            }
        }
        Ok(())
    }

    /// Whether to measure the row with this name.
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|pattern| name.contains(pattern))
    }

    fn rounds(&self, default: u32) -> u32 {
        if self.smoke { 1 } else { self.rounds.unwrap_or(default) }
    }

    fn time(&self, default: Duration) -> Duration {
        if self.smoke { SMOKE } else { self.seconds.unwrap_or(default) }
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let allowed = "a number of seconds from 0.001 to 3600";
    let seconds: f64 = text.parse().map_err(|_| allowed.to_owned())?;
    if !(0.001..=3600.0).contains(&seconds) {
        return Err(allowed.to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Tells a person at a terminal what is being measured.
fn progress(what: &str) {
    use std::io::IsTerminal as _;
    let mut out = std::io::stderr();
    if out.is_terminal() {
        // Errors don't matter here.
        let _ = write!(out, "\r{what:<70}\r");
        let _ = out.flush();
    }
}

fn tell(report: &Report, json: Option<&Path>, markdown: bool) -> Result<()> {
    let text = || format!("{:#}\n", report.json());
    let mut out = std::io::stdout();
    match json {
        Some(path) if path.as_os_str() == "-" => {
            out.write_all(text().as_bytes())?;
            return Ok(());
        }
        Some(path) => std::fs::write(path, text())
            .with_context(|| format!("cannot write {}", path.display()))?,
        None => {}
    }
    let told = if markdown { report.markdown() } else { report.to_string() };
    out.write_all(told.as_bytes())?;
    Ok(())
}
