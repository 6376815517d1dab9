//! Checks a database from this host: password and login, then clock, privileges and tables.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use leafd_checkup::{Report, check_ceiling};
use leafd_core::store::{StoreError, TagRow};

use crate::config::{Config, NetworkUrl, StorePassword, StoreSpec, StoreUrl};
use crate::health::Remedies;
use crate::run::backends;
use crate::store::sql::{Examination, Purpose, WorkersWish};

/// The doctor warns about a clock that is off by more than this, in milliseconds.
const CLOCK_OFF_MS: u64 = 1_000;

/// Checks a database. Returns what it found if the login succeeded.
pub fn check(
    report: &mut Report,
    config: &Config,
    spec: &StoreSpec,
    role: &str,
    remedies: &Remedies,
    wish: Option<WorkersWish>,
) -> Option<Examination> {
    let (StoreUrl::Postgres(url) | StoreUrl::Mysql(url)) = &spec.url else { return None };
    let is_registry = wish.as_ref().is_some_and(|wish| wish.is_registry);
    if !check_password(report, spec) {
        return None;
    }
    let found = match backends::examine(config, spec, wish)? {
        Ok(found) => found,
        Err(error) => {
            report.failed("login", error.to_string(), remedies.of_error(spec, error.why()));
            return None;
        }
    };
    let version = found.version.lines().next().unwrap_or_default();
    report
        .ok("login", format!("logged in to {} as {:?}; it is {version}", found.endpoint, url.user));
    check_clock(report, config, spec, &found, is_registry);
    if !found.lax.is_empty() {
        let text = format!(
            "{}: {}, so a crash of the server's machine loses commits",
            spec.url, found.lax
        );
        let remedy = "make the server write each commit to disk before it acknowledges it; see docs/operate/engines.md";
        report.warning("durability", text, remedy);
    }
    check_privileges(report, url, spec, &found, is_registry);
    check_tables(report, spec, role, remedies, &found);
    Some(found)
}

/// Whether a password is available, or none is needed.
fn check_password(report: &mut Report, spec: &StoreSpec) -> bool {
    let text = format!("{}: {}", spec.url, spec.password);
    if let Err(words) = spec.password.read() {
        let remedy = "write the password to this file, readable only by leafd's user; leafd reads it for each connection";
        report.failed("password", words, remedy);
        return false;
    }
    let mode = match &spec.password {
        StorePassword::File(path) => fs::metadata(path).map(|found| found.permissions().mode()),
        _ => Ok(0),
    };
    match mode.unwrap_or(0) & 0o7777 {
        mode if mode & 0o007 != 0 => report.warning(
            "password",
            format!("{text}, which is world-readable (mode {mode:o})"),
            "make it readable only by leafd's user: chmod 600",
        ),
        _ => report.ok("password", text),
    }
    true
}

fn check_clock(
    report: &mut Report,
    config: &Config,
    spec: &StoreSpec,
    found: &Examination,
    is_registry: bool,
) {
    let off_ms = found.clock_ahead_ms.unsigned_abs();
    let side = if found.clock_ahead_ms < 0 { "behind" } else { "ahead of" };
    let off = match off_ms {
        0..10_000 => format!("{off_ms} ms"),
        _ => leafd_core::health::duration(off_ms.saturating_add(500)),
    };
    let text = format!("the clock of {} is {off} {side} this host's", spec.url);
    let remedy = "correct whichever clock is wrong, and keep it synchronized (timedatectl, chronyc tracking)";
    let threshold_ms = crate::clock::millis(config.clock_threshold);
    if off_ms <= CLOCK_OFF_MS.min(threshold_ms) {
        report.ok("clock", text);
    } else if off_ms > threshold_ms && is_registry {
        let text = format!(
            "{text}, more than clock_threshold allows, so no worker is leased and no snowflake ids are issued"
        );
        report.failed("clock", text, remedy);
    } else {
        report.warning("clock", text, remedy);
    }
}

fn check_privileges(
    report: &mut Report,
    url: &NetworkUrl,
    spec: &StoreSpec,
    found: &Examination,
    is_registry: bool,
) {
    let user = &url.user;
    let mut all = true;
    let purposes = [
        (Purpose::Claims, "ids can't be claimed"),
        (Purpose::Workers, "workers can't be leased"),
        (Purpose::Permanent, "permanent workers can't be assigned"),
        (Purpose::Tags, "leafctl can't create and delete tags"),
        (Purpose::Forgetting, "claims older than claims_kept are not deleted"),
    ];
    for (purpose, meaning) in purposes {
        if [Purpose::Workers, Purpose::Permanent].contains(&purpose) && !is_registry {
            continue;
        }
        let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for lacking in found.missing_privileges.iter().filter(|one| one.purpose == purpose) {
            missing.entry(lacking.table).or_default().push(lacking.privilege);
        }
        if missing.is_empty() {
            continue;
        }
        all = false;
        let on = missing
            .iter()
            .map(|(table, privileges)| format!("{} ON {table}", privileges.join(", ")));
        let on: Vec<String> = on.collect();
        let text = format!("user {user:?} lacks {} in {}: {meaning}", on.join(", "), spec.url);
        let grants = on.iter().map(|on| format!("GRANT {on} TO {}", quoted(spec, user)));
        let grants: Vec<String> = grants.collect();
        let remedy = format!(
            "run as the owner of the tables: {}; leafd needs no restart",
            grants.join("; ")
        );
        match purpose {
            Purpose::Tags | Purpose::Forgetting => report.warning("privileges", text, remedy),
            _ => report.failed("privileges", text, remedy),
        }
    }
    if all {
        report.ok(
            "privileges",
            format!("user {user:?} has all privileges that leafd needs in {}", spec.url),
        );
    }
}

/// A user as SQL names it.
fn quoted(spec: &StoreSpec, user: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match spec.url {
        _ if user.chars().all(is_plain) && user.starts_with(|c: char| c.is_ascii_lowercase()) => {
            user.to_owned()
        }
        StoreUrl::Postgres(_) => format!("\"{}\"", user.replace('"', "\"\"")),
        _ => format!("'{}'", user.replace('\'', "''")),
    }
}

fn check_tables(
    report: &mut Report,
    spec: &StoreSpec,
    role: &str,
    remedies: &Remedies,
    found: &Examination,
) {
    let mut failed = |error: &StoreError| {
        report.failed("tables", error.to_string(), remedies.of_error(spec, error.why()));
    };
    let (identity, (tags, more)) = match (&found.identity, &found.tags) {
        (Ok(identity), Ok((tags, more))) => (identity, (tags, *more)),
        (Err(error), _) | (_, Err(error)) => return failed(error),
    };
    let recorded = &*identity.role.0;
    if !recorded.is_empty() && recorded != role {
        report.failed(
            "tables",
            format!("{} records the role {recorded:?}, but {role:?} is configured", spec.url),
            "configure the same routes on every host; to change them: leafd routes apply",
        );
    } else {
        report.ok("tables", format!("{} has the id {}", spec.url, identity.id));
    }
    check_ceilings(report, spec, tags, more);
}

fn check_ceilings(report: &mut Report, spec: &StoreSpec, tags: &[TagRow], more: bool) {
    let near = tags.iter().filter(|row| {
        let claimed_to = u64::try_from(row.max_id).unwrap_or(0).saturating_sub(1);
        check_ceiling(report, row.tag.as_str(), claimed_to, row.ceiling)
    });
    let near = near.count();
    let which = if more { "first " } else { "" };
    if near == 0 {
        report.ok(
            "ceilings",
            format!("none of the {which}{} tags in {} is near its ceiling", tags.len(), spec.url),
        );
    }
}
