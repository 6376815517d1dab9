//! `leafd`, the daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use leafd::cli::{adopt, declare_loss, demo, doctor, finish, mask_key, routes, schema, version};
use leafd::config::{Args, EXAMPLES, settings_help};
use leafd::run;

/// Serves unique 64-bit ids to the processes on this host over a Unix socket.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)] // They would be ignored.
#[command(version, long_version = version::with_origin(), after_help = format!("{EXAMPLES}\n\n{EXIT_STATUS}"), after_long_help = format!("{EXAMPLES}\n\n{EXIT_STATUS}\n\nSettings:\n{}", settings_help()))]
struct Cli {
    #[command(flatten)]
    args: Args,
    #[command(subcommand)]
    command: Option<Command>,
}

const EXIT_STATUS: &str = "\
Exit status:
  0   success, or stopped as requested
  1   failure; the message says why
  2   wrong arguments
  64  the configuration is invalid";

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run a daemon in a temporary directory, draw segment and snowflake ids, and show how long each takes.
    Demo(demo::DemoArgs),
    /// Check everything that ids depend on, and suggest a remedy for each problem.
    Doctor(doctor::DoctorArgs),
    /// Check the configuration, and print each setting with its value and source.
    CheckConfig {
        /// Print nothing when the configuration is valid.
        #[arg(long)]
        quiet: bool,
        #[command(flatten)]
        args: Args,
    },
    /// Accept a different store than this host used before: a copied or restored embedded store, or another database
    /// behind the URL.
    ///
    /// A copy doesn't know the ids issued after it was made, so raise its tags above them first. Never use two copies of
    /// an embedded store.
    AdoptStore {
        #[command(flatten)]
        args: Args,
    },
    /// Declare that the configured stores may have lost commits, for example after restoring a backup.
    ///
    /// Run this before the daemons reconnect to the restored store. Every host then reports the highest ids it has
    /// seen, and claims pause for failover_settle. This also covers snowflake workers, and lets the hosts use an old
    /// primary that they have rejected.
    DeclareLoss {
        #[command(flatten)]
        args: Args,
    },
    /// Show or create the tables of the configured stores.
    Schema {
        #[command(subcommand)]
        action: Schema,
    },
    /// Change the routes that several stores record.
    Routes {
        #[command(subcommand)]
        action: Routes,
    },
    /// Generate keys for public ids.
    MaskKey {
        #[command(subcommand)]
        action: MaskKey,
    },
    /// Write manual pages to a directory.
    #[command(hide = true)]
    Man(leafd_man::ManArgs),
}

#[derive(Debug, clap::Subcommand)]
enum Routes {
    /// Record the configured routes in every store, even if it already has tags or another role.
    ///
    /// Every store must be reachable, and every tag must stay in its store. The command shows the changes, and applies
    /// them with --yes. If it is interrupted, run it again to finish.
    Apply {
        #[command(flatten)]
        args: Args,
        /// The former configuration, if it has stores that the new one lacks
        #[arg(long, value_name = "FILE")]
        former: Option<PathBuf>,
        /// Apply the changes
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, clap::Subcommand)]
enum Schema {
    /// Print the statements that create the tables.
    Print {
        #[command(flatten)]
        args: Args,
    },
    /// Create missing tables. Existing tables are not changed; the command fails if they differ.
    Apply {
        #[command(flatten)]
        args: Args,
    },
}

#[derive(Debug, clap::Subcommand)]
enum MaskKey {
    /// Write a new random key to a file that only its owner can read.
    ///
    /// On every host, name the file in the setting mask_key_file, or provide it as the systemd credential mask_key.
    New {
        /// The file to create, or with --add the existing file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Append the key to the file; the first key stays in use
        #[arg(long)]
        add: bool,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Demo(args)) => demo::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::CheckConfig { quiet, args }) => run::check_config(&args, quiet),
        Some(Command::AdoptStore { args }) => finish(adopt::adopt_store(&args)),
        Some(Command::DeclareLoss { args }) => finish(declare_loss::declare_loss(&args)),
        Some(Command::Schema { action: Schema::Print { args } }) => finish(schema::print(&args)),
        Some(Command::Schema { action: Schema::Apply { args } }) => finish(schema::apply(&args)),
        Some(Command::Routes { action: Routes::Apply { args, former, yes } }) => {
            finish(routes::apply(&args, former, yes))
        }
        Some(Command::MaskKey { action: MaskKey::New { file, add } }) => {
            finish(mask_key::new(&file, add))
        }
        Some(Command::Man(args)) => leafd_man::run(Cli::command(), "8", &args),
        None => run::start(&cli.args),
    }
}
