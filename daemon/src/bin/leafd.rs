//! `leafd`, the daemon.

use std::process::ExitCode;

use clap::Parser;
use leafd::config::{Args, Config, EXAMPLES, settings_help};
use leafd::{daemon, logging};

/// Gives the processes of this host unique 64-bit ids over a Unix socket.
#[derive(Debug, Parser)]
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
}

/// The configuration can't be used; `EX_USAGE` of sysexits.h.
const EXIT_CONFIG: u8 = 64;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (args, check) = match cli.command {
        Some(Command::CheckConfig { args }) => (args, true),
        None => (cli.args, false),
    };
    let config = match Config::load(&args) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("leafd: {error}");
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    if check {
        print!("{}", config.render());
        return ExitCode::SUCCESS;
    }
    match logging::init(&config.log, config.log_format)
        .map_err(Into::into)
        .and_then(|_log| daemon::run(&config))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leafd: {error:#}");
            ExitCode::FAILURE
        }
    }
}
