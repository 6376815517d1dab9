//! The state directory and its content, as far as it can be checked without a lock and without writing.

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

/// What the other checks learn from the state directory.
#[derive(Debug, Default)]
pub struct StateFound {
    /// The process of the daemon that owns the directory.
    pub daemon: Option<i32>,
    /// The host's name in stores and registries.
    pub host: Option<String>,
}

const SUBJECT: &str = "state directory";

/// With less free space the journal fails: its write-ahead log may take this much.
const FREE_MIN_BYTES: u64 = 2 << 20;

/// With less free space a warning is due.
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
        Ok(()) => report.ok(SUBJECT, format!("{shown} is not there yet: leafd makes it")),
        Err(error) => report.failed(
            SUBJECT,
            format!("{shown} is not there, and can't be made in {}: {error}", existing.display()),
            "make it, and have leafd's user own it; or configure another one with state_dir",
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
                format!("{shown} is no directory"),
                "move it away, or configure another one with state_dir",
            );
            return false;
        }
        Err(error) => {
            report.failed(SUBJECT, format!("{shown}: {error}"), "have leafd's user own it");
            return false;
        }
    };
    let (owner, mode) = (found.uid(), found.mode() & 0o777);
    let me = geteuid();
    if let Err(error) = access(dir, AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK) {
        report.failed(
            SUBJECT,
            format!(
                "{shown} (owner {owner}, mode {mode:o}) can't be written to by user {me}: {error}"
            ),
            "have leafd's user own it, on a file system that is mounted for writing",
        );
        return false;
    } else if let Err(words) = state_dir::check_owners(dir) {
        report.failed(
            SUBJECT,
            words,
            "make root its owner and only writer, or run leafd as a user of its own",
        );
        return false;
    } else if mode & 0o077 != 0 {
        report.warning(
            SUBJECT,
            format!("{shown} has mode {mode:o}: others may read the journal"),
            format!("chmod 700 {shown}"),
        );
    } else {
        report.ok(SUBJECT, format!("{shown} has owner {owner}, mode {mode:o}"));
    }
    match state_dir::lost_with_the_host(dir) {
        Ok(None) => report.ok("file system", "a local one that stays"),
        Ok(Some(name)) => report.warning(
            "file system",
            format!(
                "{shown} is on {name}, which is lost with the machine or container: this host then becomes a new one, and \
                 an embedded store there would issue its ids again"
            ),
            "mount a disk there, or configure another directory with state_dir",
        ),
        Err(words) => report.failed(
            "file system",
            format!("{shown}: {words}"),
            "configure a directory on a local disk with state_dir",
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
    let text = format!("{} MiB are free for {}", free >> 20, dir.display());
    let remedy = "free some space there; leafd needs no restart then";
    match free {
        _ if inodes > 0 && inodes_free == 0 => report.failed(
            "free space",
            format!("the file system of {} has no inode left for another file", dir.display()),
            "remove files there; leafd needs no restart then",
        ),
        0..FREE_MIN_BYTES => report.failed("free space", format!("only {text}"), remedy),
        FREE_MIN_BYTES..FREE_LOW_BYTES => {
            report.warning("free space", format!("only {text}"), remedy)
        }
        _ => report.ok("free space", text),
    }
}

/// Returns the journal's name of this host.
fn check_journal(report: &mut Report, dir: &Path, identity: &Identity) -> Option<String> {
    match journal::look(dir, identity) {
        Ok(None) => {
            report.ok("journal", "there is none yet: this is a new host to every store");
            None
        }
        Ok(Some(seen)) if seen.is_foreign => {
            report.warning(
                "journal",
                "it is a copy: of another host's, or one that was restored to another file. leafd will set it aside, begin \
                 a new one, and skip the ids that it held",
                "where the original is lost, there is nothing to do; else give each host a state directory of its own",
            );
            None
        }
        Ok(Some(seen)) => {
            report.ok("journal", format!("it is this host's own, {}", seen.host));
            Some(seen.host)
        }
        Err(error) => {
            report.failed(
                "journal",
                error.to_string(),
                "put the latest journal back; without one this host starts anew, and skips what the lost one held",
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
                format!("{} is not there yet: leafd makes it, without a tag", spec.url),
            );
            continue;
        }
        let host = sqlite::host_fingerprint(config.identity.as_deref());
        match sqlite::look(path, &host) {
            Ok(()) => report.ok("store", format!("{} is this host's own", spec.url)),
            Err(error) => {
                let remedy = match error {
                    StoreError::Refused(_) => {
                        "put the latest file back; a copy that nobody else uses: leafd adopt-store"
                    }
                    _ => "see to the file: owner, mode, free space, the kernel's log",
                };
                report.failed("store", error.to_string(), remedy);
            }
        }
    }
}
