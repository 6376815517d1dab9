//! The command-line tool.

use std::process::ExitCode;

use clap::Parser;

mod bench;

/// Works with leafd, the host's daemon for unique 64-bit ids.
#[derive(Debug, Parser)]
#[command(version)]
enum Cli {
    Bench(bench::BenchArgs),
    #[command(hide = true)]
    BenchHelper(bench::HelperArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse() {
        Cli::Bench(args) => bench::run(&args),
        Cli::BenchHelper(args) => bench::run_helper(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leafctl: {error:#}");
            ExitCode::FAILURE
        }
    }
}
