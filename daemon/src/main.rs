//! `leafd`, the daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use leafd::cli::{adopt, declare_loss, demo, doctor, man, mask_key, routes, schema};
use leafd::config::{Args, EXAMPLES, settings_help};
use leafd::run;

/// Gives the processes of this host unique 64-bit ids over a Unix socket.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)] // They would be ignored.
#[command(version, after_help = format!("{EXAMPLES}\n\n{EXIT_STATUS}"), after_long_help = format!("{EXAMPLES}\n\n{EXIT_STATUS}\n\nSettings:\n{}", settings_help()))]
struct Cli {
    #[command(flatten)]
    args: Args,
    #[command(subcommand)]
    command: Option<Command>,
}

const EXIT_STATUS: &str = "\
Exit status:
  0   stopped when asked, or done
  1   failed; the text says what
  2   wrong arguments
  64  a configuration that can't be used";

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Start a daemon in a temporary folder, draw ids of both kinds, and show how long that takes.
    Demo(demo::DemoArgs),
    /// Look at everything that ids depend on, and say what is wrong and what to do about it.
    Doctor(doctor::DoctorArgs),
    /// Check the configuration, and print every setting with its value and the value's source.
    CheckConfig {
        /// Print nothing when the configuration is valid.
        #[arg(long)]
        quiet: bool,
        #[command(flatten)]
        args: Args,
    },
    /// Accept a store other than the one that this host used before: a copied or restored embedded store, or another
    /// database behind the URL.
    ///
    /// A copy lacks the ids issued after it was made: raise its tags above them first. No other copy of an embedded
    /// store may be in use.
    AdoptStore {
        #[command(flatten)]
        args: Args,
    },
    /// Tell every host that the configured stores may have lost commits, after a backup was restored by any means.
    ///
    /// Run it before the daemons reach the restored store. Every host then reports the highest ids that it has seen, and
    /// nothing is claimed for failover_settle; snowflake workers are covered as well. It also makes an old primary that
    /// the hosts refuse usable again.
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
    /// Make keys for public ids.
    MaskKey {
        #[command(subcommand)]
        action: MaskKey,
    },
    /// Write manual pages into a folder.
    #[command(hide = true)]
    Man(leafd_man::ManArgs),
}

#[derive(Debug, clap::Subcommand)]
enum Routes {
    /// Record in every store its role under the configured routes, also if it has tags or another role already.
    ///
    /// Every store must be reachable, and every tag must stay in its store. Shows the changes; applies them with --yes.
    /// The same command finishes a change that was interrupted.
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
    /// Create the missing tables. Existing tables stay unchanged, and are refused if they differ.
    Apply {
        #[command(flatten)]
        args: Args,
    },
}

#[derive(Debug, clap::Subcommand)]
enum MaskKey {
    /// Write a new random key to a file that only its owner can read.
    ///
    /// The file is for the setting mask_key_file of every host, or for the systemd credential mask_key.
    New {
        /// The file, which must not be there yet
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Add the key behind those that the file has; the first one is in use
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
        Some(Command::AdoptStore { args }) => adopt::adopt_store(&args),
        Some(Command::DeclareLoss { args }) => declare_loss::declare_loss(&args),
        Some(Command::Schema { action: Schema::Print { args } }) => schema::print(&args),
        Some(Command::Schema { action: Schema::Apply { args } }) => schema::apply(&args),
        Some(Command::Routes { action: Routes::Apply { args, former, yes } }) => {
            routes::apply(&args, former, yes)
        }
        Some(Command::MaskKey { action: MaskKey::New { file, add } }) => mask_key::new(&file, add),
        Some(Command::Man(args)) => {
            // The settings have a page of their own.
            let more =
                format!("{EXAMPLES}\n\n{EXIT_STATUS}\n\nSee also:\nleafd.toml(5), leafctl(1)");
            leafd_man::run(
                Cli::command().after_long_help(more),
                "8",
                &args,
                man::write_settings_page,
            )
        }
        None => run::start(&cli.args),
    }
}
