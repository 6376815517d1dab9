//! `leafd`, the daemon.

use std::process::ExitCode;

use clap::Parser;
use leafd::config::{Args, EXAMPLES, settings_help};
use leafd::daemon;

/// Gives the processes of this host unique 64-bit ids over a Unix socket.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)] // They would be ignored.
#[command(version, after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n{}", settings_help()))]
struct Cli {
    #[command(flatten)]
    args: Args,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Check the configuration and print every setting with its value and where that came from.
    CheckConfig {
        #[command(flatten)]
        args: Args,
    },
    /// Make a copied or restored embedded store this host's own, when no other copy of it is in use.
    ///
    /// What was issued after the copy was made is not in it: raise its tags above that first.
    AdoptStore {
        #[command(flatten)]
        args: Args,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Some(Command::CheckConfig { args }) => daemon::check_config(&args),
        Some(Command::AdoptStore { args }) => daemon::adopt_store(&args),
        None => daemon::start(&cli.args),
    }
}
