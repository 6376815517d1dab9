//! `cargo bench -p leafd-tests --bench fleet -- [--seconds N] [--rounds N] [--tags N] [--only NAME] [--json FILE]`:
//! measures what a fleet costs its database, prints the tables, and writes them as JSON.
//!
//! The server's files are in memory, or where LEAFD_TEST_SERVERS_IN says, which it then waits for at each commit.

use std::process::ExitCode;
use std::time::Duration;

use leafd_tests::fleet::{Plan, run};

const USAGE: &str = "usage: cargo bench -p leafd-tests --bench fleet -- [--seconds N] [--rounds N] [--tags N] \
                     [--only strict|claims|calls|rates] [--json FILE]";

fn main() -> ExitCode {
    let (plan, json) = match parse(std::env::args().skip(1)) {
        Ok(parsed) => parsed,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let report = run(&plan);
    print!("{report}");
    match json.map(|path| {
        std::fs::write(&path, format!("{:#}\n", report.json())).map_err(|error| (path, error))
    }) {
        Some(Err((path, error))) => {
            eprintln!("cannot write {path}: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<(Plan, Option<String>), String> {
    let (mut plan, mut json) = (Plan::default(), None);
    while let Some(name) = args.next() {
        // What cargo adds.
        if name == "--bench" {
            continue;
        }
        let value = args.next().ok_or_else(|| format!("{name} has no value"))?;
        let number = || {
            let parsed =
                value.parse().ok().filter(|number: &usize| (1..=1_000_000).contains(number));
            parsed.ok_or_else(|| format!("{name} is {value}; it must be from 1 to 1000000"))
        };
        match name.as_str() {
            "--seconds" => plan.time = Duration::from_secs(number()? as u64),
            "--rounds" => plan.rounds = number()?,
            "--tags" => plan.tags = number()?,
            "--only" => plan.only = value,
            "--json" => json = Some(value),
            _ => return Err(format!("there is no {name}")),
        }
    }
    Ok((plan, json))
}
