//! `leafd schema`: shows the tables that the configured stores need, or creates the missing ones. The daemon itself
//! never creates a table in a shared database.

use std::process::ExitCode;

use anyhow::{Result, anyhow};

use crate::config::{Args, Config, StoreSpec, StoreUrl};
use crate::health::Remedies;
use crate::output;
use crate::run::{backends, refuse_config};
use leafd_core::store::StoreError;

/// Prints the statements that [`apply`] runs for missing tables, once for each kind of store.
#[must_use]
pub fn print(args: &Args) -> ExitCode {
    with_config(args, |config| {
        let mut texts: Vec<(String, Vec<String>)> = Vec::new();
        for spec in config.routing.stores() {
            let text = match backends::schema_of(&spec.url) {
                Ok(text) => text,
                Err(error) => return refuse_config(&error.into()),
            };
            let url = spec.url.to_string();
            match texts.iter_mut().find(|(known, _)| *known == text) {
                Some((_, urls)) => urls.push(url),
                None => texts.push((text, vec![url])),
            }
        }
        let several = config.routing.stores().len() > 1;
        let titled = texts.into_iter().map(|(text, urls)| match several {
            true => format!("-- for {}\n{text}", urls.join(", ")),
            false => text,
        });
        output::print(&titled.collect::<Vec<String>>().join("\n"))
    })
}

/// Creates what is missing in every store. Existing tables stay, or are refused if they differ.
#[must_use]
pub fn apply(args: &Args) -> ExitCode {
    with_config(args, |config| in_each_store(config, |spec| apply_to(config, spec)))
}

/// Does `work` in every store, and prints what it returns. A store that fails does not stop the others.
pub(super) fn in_each_store(
    config: &Config,
    work: impl Fn(&StoreSpec) -> Result<String>,
) -> ExitCode {
    let mut outcome = ExitCode::SUCCESS;
    for spec in config.routing.stores() {
        match work(spec) {
            Ok(said) => {
                let printed = output::print(&said);
                if printed != ExitCode::SUCCESS {
                    return printed;
                }
            }
            Err(error) => {
                eprintln!("leafd: {error:#}");
                outcome = ExitCode::FAILURE;
            }
        }
    }
    outcome
}

fn apply_to(config: &Config, spec: &StoreSpec) -> Result<String> {
    let made = backends::make_tables(config, spec).map_err(|error| {
        match error.downcast_ref::<StoreError>() {
            Some(away @ StoreError::Unavailable { cause, .. }) => {
                let advice = Remedies::of_config(config).of_error(spec, cause.why);
                anyhow!("can't create the tables: {away}; {advice}")
            }
            Some(_) => error.context("can't create the tables"),
            None => error.context(format!("can't create the tables of {}", spec.url)),
        }
    })?;
    Ok(match made.is_empty() {
        // It is unknown whether the tables are new.
        true if matches!(spec.url, StoreUrl::Sqlite(_)) => {
            format!("the tables of {} exist\n", spec.url)
        }
        true => format!("the tables of {} already exist; nothing was changed\n", spec.url),
        false => format!("created in {}: {}\n", spec.url, made.join(", ")),
    })
}

/// Loads the configuration for `work`.
fn with_config(args: &Args, work: impl FnOnce(&Config) -> ExitCode) -> ExitCode {
    match Config::load(args) {
        Ok(config) => work(&config),
        Err(error) => refuse_config(&error),
    }
}
