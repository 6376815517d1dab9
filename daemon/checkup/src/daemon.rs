//! Checks the socket, and what the daemon behind it reports about itself.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Duration;

use crate::snapshot::Snapshot;
use crate::{CheckResult, Report, parse};
use leafd_client::{Client, Error};
use leafd_core::store::{ceiling_remedy, percent_used};

/// The expected state of the socket and the daemon.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The release of the checking program.
    pub release: &'a str,
    /// Whether a daemon must be running.
    pub running: bool,
    /// The socket's permission bits, if they are known.
    pub mode: Option<u32>,
    /// The socket's group, if it is known.
    pub gid: Option<u32>,
}

/// How long the daemon may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// From this value on, in percent, a tag is near its ceiling.
pub const NEAR_PERCENT: u64 = 80;

/// Checks the socket and queries the daemon. Returns the daemon's state if it answers; for users who are not
/// administrators, only its public part.
pub fn check_daemon(
    report: &mut Report,
    socket: &Path,
    expected: Expected<'_>,
) -> Option<Snapshot> {
    if !check_socket(report, socket, expected) {
        return None;
    }
    let client = Client::builder().socket(socket).deadline(ANSWER_WITHIN).build();
    let answer = client.and_then(|client| Ok((client.info()?, client.status_json()?)));
    let (info, status) = match answer {
        Ok(answer) => answer,
        Err(error) => {
            no_answer(report, &error, expected);
            return None;
        }
    };
    let running = format!("release {} runs as process {}", info.release, info.pid);
    if info.release == expected.release {
        report.ok("release", running);
    } else {
        let text = format!("{running}, but this program is release {}", expected.release);
        report.warning("release", text, "restart leafd to run the installed release");
    }
    let status: Snapshot = match parse(&status) {
        Ok(status) => status,
        Err(error) => {
            let text = format!("can't parse its status: {error}");
            report.failed("daemon", text, "install programs of the same release");
            return None;
        }
    };
    check_health(report, &status);
    check_ceilings(report, &status);
    Some(status)
}

/// Whether there is a socket to connect to.
fn check_socket(report: &mut Report, socket: &Path, expected: Expected<'_>) -> bool {
    let shown = socket.display();
    let found = match fs::symlink_metadata(socket) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound && !expected.running => {
            report.ok("daemon", format!("not running: the socket {shown} doesn't exist"));
            return false;
        }
        Err(error) => {
            let remedy = match error.kind() {
                ErrorKind::PermissionDenied => {
                    "run this as root, or join the socket's group and log in again"
                }
                _ => {
                    "start leafd (systemctl start leafd), or pass its socket with --socket or LEAFD_SOCKET"
                }
            };
            report.failed("socket", format!("{shown}: {error}"), remedy);
            return false;
        }
    };
    if !found.file_type().is_socket() {
        let text = format!("{shown} is not a socket");
        report.failed("socket", text, "move it away, or configure another path");
        return false;
    }
    let mode = found.mode() & 0o777;
    let text = format!("{shown} has mode {mode:o}, owner {}, group {}", found.uid(), found.gid());
    let wanted = [
        expected.mode.filter(|wanted| *wanted != mode).map(|wanted| format!("mode {wanted:o}")),
        expected.gid.filter(|wanted| *wanted != found.gid()).map(|gid| format!("group {gid}")),
    ];
    let wanted: Vec<String> = wanted.into_iter().flatten().collect();
    if wanted.is_empty() {
        report.ok("socket", text);
    } else {
        let text = format!("{text}; the configuration has {}", wanted.join(", "));
        let remedy = "restart leafd to create the socket again; if systemd creates it, set SocketMode= and SocketGroup= in \
                      leafd.socket";
        report.warning("socket", text, remedy);
    }
    true
}

fn no_answer(report: &mut Report, error: &Error, expected: Expected<'_>) {
    let remedy = match error {
        Error::Connect { source, .. } if source.kind() == ErrorKind::ConnectionRefused => {
            if !expected.running {
                report.ok("daemon", "not running: no process listens on the socket");
                return;
            }
            "start leafd (systemctl start leafd); if it exits again, see its log"
        }
        Error::Connect { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            "join the socket's group and log in again, or run this as root"
        }
        _ => "see leafd's log; if it answers no requests, restart it",
    };
    report.failed("daemon", error.to_string(), remedy);
}

/// The daemon's problems. Other users than administrators see neither remedies nor tags.
fn check_health(report: &mut Report, status: &Snapshot) {
    for condition in &status.health.conditions {
        let is_error = condition.public.severity == "error";
        let verdict = if is_error { CheckResult::Failed } else { CheckResult::Warning };
        let remedy = match condition.remedy.as_str() {
            "" => "run this as root or an administrator of leafd to see the remedy",
            remedy => remedy,
        };
        let meaning = match condition.meaning.as_str() {
            "" => String::new(),
            meaning => format!("; effect on ids: {meaning}"),
        };
        report.add(verdict, "health", format!("{}{meaning}", condition.words()), remedy);
    }
    let left_out = status.health.conditions_left_out;
    if left_out > 0 {
        let text = format!("{left_out} more conditions, none of them worse");
        report.add(
            CheckResult::Warning,
            "health",
            text,
            "fix the worst first, then run this again",
        );
    }
    let kinds =
        [(status.segments.state.ready, "segment"), (status.snowflake.state.ready, "snowflake")];
    for (_, kind) in kinds.into_iter().filter(|(ready, _)| *ready) {
        report.ok("ids", format!("{kind} ids are available"));
    }
    if let Some(kept) = &status.host.journal_set_aside {
        let text = format!(
            "at startup, leafd found the journal of another host, or an old one, and set it aside as {kept}; the ids \
             held in it are skipped"
        );
        let remedy =
            "give each host its own state directory; delete the file when it is no longer needed";
        report.warning("journal", text, remedy);
    }
}

fn check_ceilings(report: &mut Report, status: &Snapshot) {
    let tags = &status.segments.tags;
    if tags.is_empty() {
        return;
    }
    let near = tags
        .iter()
        .map(|tag| &tag.numbers)
        .filter(|tag| near_ceiling(report, &tag.tag, tag.ceiling_used_percent.unwrap_or(0)));
    if near.count() == 0 {
        let text = format!("none of the {} busiest tags is near its ceiling", tags.len());
        report.ok("ceilings", text);
    }
}

/// Whether a tag is near its ceiling, which is reported then. Its ids up to `claimed_to` are claimed.
pub fn check_ceiling(report: &mut Report, tag: &str, claimed_to: u64, ceiling: u64) -> bool {
    near_ceiling(report, tag, percent_used(claimed_to, ceiling))
}

fn near_ceiling(report: &mut Report, tag: &str, percent: u64) -> bool {
    if percent < NEAR_PERCENT {
        return false;
    }
    let verdict = if percent >= 100 { CheckResult::Failed } else { CheckResult::Warning };
    let text = format!("tag {tag:?} has used {percent} % of the ids up to its ceiling");
    report.add(verdict, "ceilings", text, ceiling_remedy(tag));
    true
}
