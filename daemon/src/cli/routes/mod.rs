//! `leafd routes apply`: gives stores that already have tags their roles among several, and changes recorded roles.
//!
//! - `members`: the stores.
//! - `plan`: whether the change is allowed, and what each store must record for it.
//! - `migrate`: carries the change out.
//! - `migration_state`: what a store records meanwhile.
//! - `rollback`: what happens to frozen stores when the change is refused.

mod members;
mod migrate;
mod migration_state;
mod plan;
mod rollback;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Result, bail};

use self::members::{Member, Progress};
use self::plan::Survey;
use crate::cli::block_on;
use crate::config::{Args, Config, ConfigError, Env, Source, is_password};
use crate::output;

/// Shows what would change, and carries it out if `yes`. `former` is the former configuration file, for stores that
/// the new one lacks.
///
/// # Errors
/// A configuration is invalid, or the change is not possible or was interrupted.
pub fn apply(args: &Args, former: Option<PathBuf>, yes: bool) -> Result<String> {
    let around = Env { has_other_passwords: true, ..Env::of_this_process() };
    let config = Config::load_from(args, &around)?.require_built()?;
    let former = former.map(|file| {
        let args = Args { config: Some(file), ..Args::default() };
        let loaded = Config::load_from(&args, &without_settings(&around));
        loaded.and_then(Config::require_built).map_err(of_former)
    });
    let former = former.transpose()?;
    block_on(change(&config, former.as_ref(), yes))
}

/// The former configuration is given by another argument than the current one.
fn of_former(mut error: ConfigError) -> ConfigError {
    if error.source == Source::Argument("--config") {
        error.source = Source::Argument("--former");
    }
    error
}

/// The environment with only its passwords: the former settings come from the file alone.
fn without_settings(around: &Env) -> Env {
    let mut alone = around.clone();
    alone.variables.retain(|name, _| {
        let name = name.to_string_lossy();
        !name.starts_with("LEAFD_") || is_password(&name)
    });
    alone
}

async fn change(config: &Config, former: Option<&Config>, yes: bool) -> Result<String> {
    let mut members = Vec::new();
    for (index, spec) in config.routing.stores().iter().enumerate() {
        members.push(Member::open(config, spec, Some(index)).await?);
    }
    for spec in former.map_or(&[][..], |former| former.routing.stores()) {
        if !members.iter().any(|member| member.name == *spec.name) {
            let member = Member::open(former.unwrap_or(config), spec, None).await?;
            // Only its name or its URL has changed.
            if !members.iter().any(|other| other.identity.id == member.identity.id) {
                members.push(member);
            }
        }
    }
    if members.iter().all(|member| member.progress() == Progress::Done) {
        return Ok("every store already records its role; nothing was changed\n".to_owned());
    }
    plan::check_places(&members, &config.routing)?;
    let found = plan::survey(&members, &config.routing).await?;
    if let Some(refusal) = found.refusal() {
        bail!("{}", rollback::refuse(&mut members, Vec::new(), yes, &refusal).await?);
    }
    // If the output is no longer read, the change continues.
    let _ = output::print(&shown(&members, &found));
    if !yes {
        return Ok("nothing was changed yet; to apply this, add --yes\n".to_owned());
    }
    migrate::carry_out(&mut members, &config.routing).await?;
    let done =
        "done: every store records its new role. Restart every leafd with the new configuration.\n";
    Ok(done.to_owned())
}

/// The planned changes, in words.
fn shown(members: &[Member], found: &Survey) -> String {
    let mut text = String::new();
    for (member, rows) in members.iter().zip(&found.rows) {
        let (is, to) = (member.place(), &member.to);
        // Writing to a string doesn't fail.
        let _ = writeln!(text, "{} ({}), {rows} tags", member.name, member.url);
        let _ = match member.progress() {
            Progress::Done => writeln!(text, "  is       {to:?}"),
            Progress::Before => writeln!(text, "  is       {is:?}\n  becomes  {to:?}"),
            Progress::Frozen => {
                writeln!(text, "  was      {is:?}\n  becomes  {to:?}, begun by an earlier run")
            }
        };
    }
    if !found.known.is_empty() {
        let _ = writeln!(
            text,
            "{} names were used before; in the stores to which they move, their ids continue above every id claimed \
             under them",
            found.known.len()
        );
    }
    text.push_str(
        "daemons with the former routes stop claiming, and issue only the ids they hold\n",
    );
    text
}
