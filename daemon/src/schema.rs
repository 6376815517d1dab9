//! `leafd schema`: shows the tables that the configured stores need, or makes those that are missing. The daemon
//! itself never makes a table in a database that it shares.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::config::{Args, Config, StoreSpec, StoreUrl};
use crate::daemon::refuse_config;
use crate::output;
use crate::store::{Store as _, mysql, postgres, sqlite};
use crate::stores::target;

/// Prints the statements that [`apply`] runs where tables are missing: once, however many stores there are of a kind.
#[must_use]
pub fn print(args: &Args) -> ExitCode {
    with_config(args, |config| {
        let mut texts: Vec<String> = Vec::new();
        for spec in config.routing.stores().iter() {
            let text = match &spec.url {
                StoreUrl::Sqlite(_) => sqlite::print_schema().to_string(),
                StoreUrl::Postgres(_) => postgres::print(),
                StoreUrl::Mysql(_) => mysql::print(),
            };
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        Ok(texts.join("\n"))
    })
}

/// Makes what is missing; tables that are there are left as they are, or refused when they look different.
#[must_use]
pub fn apply(args: &Args) -> ExitCode {
    with_config(args, |config| {
        let said: Result<Vec<String>> =
            config.routing.stores().iter().map(|spec| apply_to(config, spec)).collect();
        Ok(said?.concat())
    })
}

fn apply_to(config: &Config, spec: &StoreSpec) -> Result<String> {
    let made = match &spec.url {
        StoreUrl::Sqlite(path) => {
            let host = sqlite::host_fingerprint(config.identity.as_deref());
            // A file that is locked is opened by the first call.
            sqlite::open(path, &host)?.identity()?;
            return Ok(format!("the tables of {} are there\n", spec.url));
        }
        StoreUrl::Postgres(url) => postgres::apply(&target(config, url, &spec.password)),
        StoreUrl::Mysql(url) => mysql::apply(&target(config, url, &spec.password)),
    };
    let made = made.with_context(|| format!("cannot make the tables of {}", spec.url))?;
    Ok(match made.is_empty() {
        true => format!("the tables of {} are there; nothing was made\n", spec.url),
        false => format!("made in {}: {}\n", spec.url, made.join(", ")),
    })
}

/// Does what answers with a text, and prints that.
fn with_config(args: &Args, work: impl FnOnce(&Config) -> Result<String>) -> ExitCode {
    let config = match Config::load(args) {
        Ok(config) => config,
        Err(error) => return refuse_config(&error),
    };
    if config.routing.stores().len() > 1 {
        eprintln!(
            "leafd: several stores are configured: give one at a time with --store, without the file"
        );
        return ExitCode::FAILURE;
    }
    match work(&config) {
        Ok(text) => output::print(&text),
        Err(error) => {
            eprintln!("leafd: {error:#}");
            ExitCode::FAILURE
        }
    }
}
