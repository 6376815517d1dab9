//! `leafd`, the daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use leafd::cli::{adopt, demo, man, routes, schema};
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
    /// Start a daemon in a temporary folder, draw ids of both kinds and show how long that takes.
    Demo(demo::DemoArgs),
    /// Check the configuration and print every setting with its value and where that came from.
    CheckConfig {
        /// Print nothing when it can be used.
        #[arg(long)]
        quiet: bool,
        #[command(flatten)]
        args: Args,
    },
    /// Accept another store than this host used before: a copied or restored embedded one, or another database
    /// behind the URL.
    ///
    /// What was issued after a copy was made is not in it: raise its tags above that first. Of an embedded store
    /// no other copy may be in use.
    AdoptStore {
        #[command(flatten)]
        args: Args,
    },
    /// Show or make the tables of the configured store.
    Schema {
        #[command(subcommand)]
        action: Schema,
    },
    /// Change the routes that several stores record.
    Routes {
        #[command(subcommand)]
        action: Routes,
    },
    /// Write manual pages into a folder.
    #[command(hide = true)]
    Man(leafd_man::ManArgs),
}

#[derive(Debug, clap::Subcommand)]
enum Routes {
    /// Have every store record its place in the configured routes, also where it has tags or another place.
    ///
    /// Every store has to answer, and every tag to stay where it is. Shows what is to be changed; does it with --yes. A
    /// change that was cut off is finished by the same command.
    Apply {
        #[command(flatten)]
        args: Args,
        /// Configuration before the change, if it has stores that are not in the new one
        #[arg(long, value_name = "FILE")]
        former: Option<PathBuf>,
        /// Do it
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, clap::Subcommand)]
enum Schema {
    /// Print the statements that make the tables.
    Print {
        #[command(flatten)]
        args: Args,
    },
    /// Make the tables that are missing. What is there is left as it is, and refused when it looks different.
    Apply {
        #[command(flatten)]
        args: Args,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Demo(args)) => demo::run(&args),
        Some(Command::CheckConfig { quiet, args }) => run::check_config(&args, quiet),
        Some(Command::AdoptStore { args }) => adopt::adopt_store(&args),
        Some(Command::Schema { action: Schema::Print { args } }) => schema::print(&args),
        Some(Command::Schema { action: Schema::Apply { args } }) => schema::apply(&args),
        Some(Command::Routes { action: Routes::Apply { args, former, yes } }) => {
            routes::apply(&args, former, yes)
        }
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
