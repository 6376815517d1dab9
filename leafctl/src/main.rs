//! `leafctl`: draws ids, inspects the daemon, administers tags.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

mod complete;
mod decode;
mod doctor;
mod failure;
mod fleet;
mod gaps;
mod mask;
mod metrics;
mod next;
mod ping;
mod request;
mod series;
mod status;
mod tag;
mod top;
mod wait;
mod whose;
mod worker;

use failure::CommandError;

/// Draws ids from the leafd daemon on this host, and administers it.
#[derive(Debug, Parser)]
#[command(name = "leafctl", version, after_help = EXIT_STATUS)]
struct Cli {
    /// The daemon's socket [env: LEAFD_SOCKET] [default: where leafd listens for root or for this user]
    // The client's default reads the variable, because clap would reject an empty one, which counts as unset.
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(subcommand)]
    command: LeafctlCommand,
}

const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  the daemon refused the request, or leafctl failed; the message says why
  2  wrong arguments
  3  the daemon is unreachable or does not answer
  4  ping, wait, status: the daemon answers, but is not in the requested state

Examples:
  leafctl tag create orders          a tag that starts at 1
  leafctl next orders                one id
  leafctl next orders -n 1000        a thousand ids, one per line
  leafctl decode 2124082651684941858
  leafctl status";

#[derive(Debug, Subcommand)]
enum LeafctlCommand {
    /// Draw ids of a tag, and print one per line
    Next(next::NextArgs),
    /// Show the parts of a snowflake id
    Decode(decode::DecodeArgs),
    /// Show which host issued an id, and when
    Whose(whose::WhoseArgs),
    /// Show why numbers of a tag are missing
    Gaps(gaps::GapsArgs),
    /// Convert ids to public ids, which reveal neither count nor order
    Mask(mask::MaskArgs),
    /// Convert public ids back to ids
    Unmask(mask::MaskArgs),
    /// Create, list, show and change tags
    #[command(subcommand)]
    Tag(tag::TagCommand),
    /// Draw, check and account for document numbers such as INV-2026-000123
    #[command(subcommand)]
    Series(series::SeriesCommand),
    /// List the registry's snowflake workers, or release one
    #[command(subcommand)]
    Worker(worker::WorkerCommand),
    /// List the hosts that use the store, with their workers, clocks and last claims
    Fleet(fleet::FleetArgs),
    /// Show the daemon's state
    Status(status::StatusArgs),
    /// Watch the daemon's state live in the terminal
    Top(top::TopArgs),
    /// Print the daemon's metrics, or write them to a file for node_exporter
    Metrics(metrics::MetricsArgs),
    /// Check the socket, the daemon and its health, and suggest a remedy for each problem
    Doctor(doctor::DoctorArgs),
    /// Check whether the daemon answers (for probes)
    Ping(ping::PingArgs),
    /// Wait until the daemon answers, or until no process is connected (for scripts and hooks)
    Wait(wait::WaitArgs),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages to a directory
    #[command(hide = true)]
    Man(leafd_man::ManArgs),
}

impl LeafctlCommand {
    /// The tag to which the command applies, if it must exist.
    fn tag(&self) -> Option<&str> {
        match self {
            LeafctlCommand::Next(args) => Some(&args.tag),
            LeafctlCommand::Gaps(args) => Some(&args.tag),
            LeafctlCommand::Mask(args) | LeafctlCommand::Unmask(args) => Some(&args.tag),
            LeafctlCommand::Tag(command) => command.tag(),
            _ => None,
        }
    }
}

fn main() -> ExitCode {
    complete::answer(public_command);
    let cli = Cli::parse();
    let socket = cli.socket.unwrap_or_else(leafd_client::default_socket_path);
    let tag = cli.command.tag().map(str::to_owned);
    let outcome = match cli.command {
        LeafctlCommand::Next(args) => next::run(&socket, &args),
        LeafctlCommand::Decode(args) => decode::run(&socket, &args),
        LeafctlCommand::Whose(args) => whose::run(&socket, &args),
        LeafctlCommand::Gaps(args) => gaps::run(&socket, &args),
        LeafctlCommand::Mask(args) => mask::mask(&socket, &args),
        LeafctlCommand::Unmask(args) => mask::unmask(&socket, &args),
        LeafctlCommand::Tag(command) => tag::run(&socket, &command),
        LeafctlCommand::Series(command) => series::run(&socket, &command),
        LeafctlCommand::Worker(command) => worker::run(&socket, &command),
        LeafctlCommand::Fleet(args) => fleet::run(&socket, &args),
        LeafctlCommand::Status(args) => status::run(&socket, &args),
        LeafctlCommand::Top(args) => top::run(&socket, &args),
        LeafctlCommand::Metrics(args) => metrics::run(&socket, &args),
        LeafctlCommand::Doctor(args) => doctor::run(&socket, &args),
        LeafctlCommand::Ping(args) => ping::run(&socket, &args),
        LeafctlCommand::Wait(args) => wait::run(&socket, &args),
        LeafctlCommand::Man(args) => return leafd_man::run(Cli::command(), "1", &args),
        LeafctlCommand::Completions { shell } => completions(shell),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(CommandError::Quiet) => ExitCode::SUCCESS,
        Err(failure @ CommandError::Reported(_)) => ExitCode::from(failure.exit_status()),
        Err(failure) => {
            let similar = tag.filter(|_| failure.is_unknown_tag());
            match similar.and_then(|tag| complete::similar(&socket, &tag)) {
                Some(similar) => eprintln!("leafctl: {failure}; did you mean {similar:?}?"),
                None => eprintln!("leafctl: {failure}"),
            }
            ExitCode::from(failure.exit_status())
        }
    }
}

/// Prints a shell's completions, completely or not at all.
fn completions(shell: clap_complete::Shell) -> Result<(), CommandError> {
    let script = complete::script(&shell.to_string())?;
    let mut out = std::io::stdout().lock();
    out.write_all(&script)?;
    out.flush()?;
    Ok(())
}

/// The command line without the subcommands that only this program itself calls: completions would
/// offer hidden ones too.
fn public_command() -> clap::Command {
    let all = Cli::command();
    clap::Command::new("leafctl")
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(all.get_subcommands().filter(|command| !command.is_hide_set()).cloned())
}
