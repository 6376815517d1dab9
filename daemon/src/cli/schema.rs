//! `leafd schema`: shows the tables that the configured stores need, or creates the missing ones. The daemon itself
//! never creates a table in a shared database.

use anyhow::{Result, anyhow, bail};

use crate::config::{Args, Config, ConfigError, StoreSpec, StoreUrl};
use crate::health::Remedies;
use crate::output;
use crate::run::backends;
use leafd_core::store::StoreError;

/// The statements that [`apply`] runs for missing tables, once for each kind of store.
///
/// # Errors
/// The configuration is invalid.
pub fn print(args: &Args) -> Result<String> {
    let config = Config::load(args)?;
    let mut texts: Vec<(String, Vec<String>)> = Vec::new();
    for spec in config.routing.stores() {
        let text = backends::schema_of(&spec.url).map_err(ConfigError::from)?;
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
    Ok(titled.collect::<Vec<String>>().join("\n"))
}

/// Creates missing tables in every store. Existing tables are kept, and rejected if they differ.
///
/// # Errors
/// The configuration is invalid, or a store's tables can't be created.
pub fn apply(args: &Args) -> Result<String> {
    let config = Config::load(args)?;
    in_each_store(&config, |spec| apply_to(&config, spec))
}

/// Runs `work` in every store. A failure in one store does not stop the others.
pub(super) fn in_each_store(
    config: &Config,
    work: impl Fn(&StoreSpec) -> Result<String>,
) -> Result<String> {
    let (mut done, mut failed) = (String::new(), Vec::new());
    for spec in config.routing.stores() {
        match work(spec) {
            Ok(said) => done.push_str(&said),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    if failed.is_empty() {
        return Ok(done);
    }
    let _ = output::print(&done);
    bail!(failed.join("\nleafd: "))
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
