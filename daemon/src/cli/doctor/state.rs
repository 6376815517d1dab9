//! Checks the state directory and its content, as far as possible without taking a lock or writing.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use leafd_checkup::Report;
use leafd_core::store::StoreError;
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access, geteuid};

use crate::config::{Config, StoreUrl};
use crate::journal::{self, Identity};
use crate::state_dir;
use crate::store::sqlite;

/// Facts from the state directory that other checks need.
#[derive(Debug, Default)]
pub struct StateFound {
    /// The process of the daemon that owns the directory.
    pub daemon: Option<i32>,
    /// The host's name in stores and registries.
    pub host: Option<String>,
}

const SUBJECT: &str = "state directory";

/// With less free space the journal fails, because its write-ahead log may need this much.
const FREE_MIN_BYTES: u64 = 2 << 20;

/// With less free space, the doctor warns.
const FREE_LOW_BYTES: u64 = 64 << 20;

/// Checks the directory, the journal and the embedded stores.
pub fn check(report: &mut Report, config: &Config) -> StateFound {
    let dir = &config.state_dir;
    if !dir.exists() {
        not_there(report, dir);
        return StateFound::default();
    }
    if !check_dir(report, dir) {
        return StateFound::default();
    }
    check_space(report, dir);
    let daemon = state_dir::locked_by(dir);
    let identity = Identity::of_host(config.identity.as_deref());
    // A running daemon has checked both itself. Its journal would change while it is read.
    if daemon.is_some() {
        return StateFound { daemon, host: None };
    }
    let host = check_journal(report, dir, &identity);
    check_embedded(report, config);
    StateFound { daemon, host }
}

fn not_there(report: &mut Report, dir: &Path) {
    let existing = dir.ancestors().skip(1).find(|parent| parent.exists());
    let existing = existing.unwrap_or(Path::new("/"));
    let shown = dir.display();
    match access(existing, AccessFlags::W_OK | AccessFlags::X_OK) {
        Ok(()) => report.ok(SUBJECT, format!("{shown} doesn't exist yet; leafd will create it")),
        Err(error) => report.failed(
            SUBJECT,
            format!(
                "{shown} doesn't exist and can't be created in {}: {error}",
                existing.display()
            ),
            "create it with leafd's user as the owner, or set state_dir to another directory",
        ),
    }
}

/// Whether the directory can be used at all.
fn check_dir(report: &mut Report, dir: &Path) -> bool {
    let shown = dir.display();
    let found = match fs::metadata(dir) {
        Ok(found) if found.is_dir() => found,
        Ok(_) => {
            report.failed(
                SUBJECT,
                format!("{shown} is not a directory"),
                "move it away, or set state_dir to another directory",
            );
            return false;
        }
        Err(error) => {
            report.failed(SUBJECT, format!("{shown}: {error}"), "make leafd's user its owner");
            return false;
        }
    };
    let (owner, mode) = (found.uid(), found.mode() & 0o777);
    let me = geteuid();
    if let Err(error) = access(dir, AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK) {
        report.failed(
            SUBJECT,
            format!("user {me} can't write to {shown} (owner {owner}, mode {mode:o}): {error}"),
            "make leafd's user its owner, and mount its file system read-write",
        );
        return false;
    } else if let Err(words) = state_dir::check_owners(dir) {
        report.failed(
            SUBJECT,
            words,
            "make root its owner and only writer, or run leafd as a dedicated user",
        );
        return false;
    } else if mode & 0o077 != 0 {
        report.warning(
            SUBJECT,
            format!("{shown} has mode {mode:o}: other users can read the journal"),
            format!("chmod 700 {shown}"),
        );
    } else {
        report.ok(SUBJECT, format!("{shown} has owner {owner}, mode {mode:o}"));
    }
    match state_dir::lost_with_the_host(dir) {
        Ok(None) => report.ok("file system", "local and persistent"),
        Ok(Some(name)) => report.warning(
            "file system",
            format!(
                "{shown} is on {name}, which doesn't outlive the machine or container: this host then becomes a new one, and an \
                 embedded store there would issue ids again"
            ),
            "mount a disk there, or set state_dir to another directory",
        ),
        Err(words) => report.failed(
            "file system",
            format!("{shown}: {words}"),
            "set state_dir to a directory on a local disk",
        ),
    }
    true
}

fn check_space(report: &mut Report, dir: &Path) {
    let Ok(found) = statvfs(dir) else { return };
    // These types are narrower on some systems.
    #[allow(clippy::useless_conversion, reason = "the types differ from system to system")]
    let (free, inodes, inodes_free) = (
        u64::from(found.blocks_available()).saturating_mul(u64::from(found.fragment_size())),
        u64::from(found.files()),
        u64::from(found.files_available()),
    );
    let text = format!("{} MiB are free in {}", free >> 20, dir.display());
    let remedy = "free some space there; leafd needs no restart";
    match free {
        _ if inodes > 0 && inodes_free == 0 => report.failed(
            "free space",
            format!("the file system of {} has no free inodes", dir.display()),
            "delete some files there; leafd needs no restart",
        ),
        0..FREE_MIN_BYTES => report.failed("free space", format!("only {text}"), remedy),
        FREE_MIN_BYTES..FREE_LOW_BYTES => {
            report.warning("free space", format!("only {text}"), remedy)
        }
        _ => report.ok("free space", text),
    }
}

/// Returns this host's id in the journal.
fn check_journal(report: &mut Report, dir: &Path, identity: &Identity) -> Option<String> {
    match journal::look(dir, identity) {
        Ok(None) => {
            report.ok("journal", "none yet: this host is new to every store");
            None
        }
        Ok(Some(seen)) if seen.is_foreign => {
            report.warning(
                "journal",
                "a copy: it belongs to another host, or was restored to another file. leafd will set it aside, start a new one, \
                 and skip the ids held in it",
                "none needed if the original is lost; otherwise give each host its own state directory",
            );
            None
        }
        Ok(Some(seen)) => {
            report.ok("journal", format!("belongs to this host, {}", seen.host));
            Some(seen.host)
        }
        Err(error) => {
            report.failed(
                "journal",
                error.to_string(),
                "restore the latest journal; without one, this host starts as a new one and skips the ids held in the lost one",
            );
            None
        }
    }
}

fn check_embedded(report: &mut Report, config: &Config) {
    for spec in config.routing.stores() {
        let StoreUrl::Sqlite(path) = &spec.url else { continue };
        if !path.exists() {
            report.ok(
                "store",
                format!("{} doesn't exist yet; leafd will create it, without tags", spec.url),
            );
            continue;
        }
        let host = Identity::of_host(config.identity.as_deref());
        match sqlite::look(path, &host) {
            Ok(()) => report.ok("store", format!("{} belongs to this host", spec.url)),
            Err(error) => {
                let remedy = match error {
                    StoreError::Refused(_) => {
                        "restore the latest file; or accept this copy, if no other host uses it, with: leafd adopt-store"
                    }
                    _ => "check the file: owner, mode, free space, the kernel's log",
                };
                report.failed("store", error.to_string(), remedy);
            }
        }
    }
}
