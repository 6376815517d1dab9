//! `leafd schema`: shows the tables that the configured store needs, or makes those that are missing. The daemon
//! itself never makes a table in a database that it shares.

use std::process::ExitCode;

use anyhow::Result;

use crate::config::{Args, Config, StoreUrl};
use crate::daemon::{refuse_config, target};
use crate::output;
use crate::store::{mysql, postgres, sqlite};

/// Prints the statements that [`apply`] runs where tables are missing.
#[must_use]
pub fn print(args: &Args) -> ExitCode {
    with_config(args, |config| {
        Ok(match &config.store {
            StoreUrl::Sqlite(_) => sqlite::print_schema(),
            StoreUrl::Postgres(_) => postgres::print(),
            StoreUrl::Mysql(_) => mysql::print(),
        }
        .to_string())
    })
}

/// Makes what is missing; tables that are there are left as they are, or refused when they look different.
#[must_use]
pub fn apply(args: &Args) -> ExitCode {
    with_config(args, |config| {
        let made = match &config.store {
            StoreUrl::Sqlite(path) => {
                let host = sqlite::host_fingerprint(config.identity.as_deref());
                sqlite::open(path, &host)?;
                return Ok(format!("the tables of {} are there\n", config.store));
            }
            StoreUrl::Postgres(url) => postgres::apply(&target(config, url))?,
            StoreUrl::Mysql(url) => mysql::apply(&target(config, url))?,
        };
        Ok(match made.is_empty() {
            true => format!("the tables of {} are there; nothing was made\n", config.store),
            false => format!("made in {}: {}\n", config.store, made.join(", ")),
        })
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
