//! Identifies the host of a journal, to distinguish the original from a copy, on this host or on another.
//!
//! A copied file has another inode and a later time of birth. A copied disk runs under another machine id. If two
//! machines have the same of both, the configuration can give each an identity.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::rows::Sum;

/// The file with the machine id.
pub const MACHINE_ID_FILE: &str = "/etc/machine-id";

/// What identifies this host, apart from the journal file itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A digest, because the machine id itself must stay confidential and fingerprints are logged.
    machine: Option<String>,
    configured: Option<String>,
}

// === impl Identity ===

impl Identity {
    /// Reads the machine id, usually from [`MACHINE_ID_FILE`], and takes the identity that the configuration gives
    /// this host, if any.
    ///
    /// Without a machine id (many containers have none) only the journal file's own marks and the configured identity
    /// identify the host.
    #[must_use]
    pub fn of_host(machine_id_file: &Path, configured: Option<&str>) -> Identity {
        let machine = match fs::read(machine_id_file) {
            Ok(bytes) => digest(&bytes),
            Err(e) => {
                tracing::warn!(file = %machine_id_file.display(), error = %e, "no machine id");
                None
            }
        };
        Identity { machine, configured: configured.map(str::to_owned) }
    }

    /// This identity and the marks of the journal file, as text to compare and to log.
    pub(super) fn fingerprint(&self, journal: &Path) -> io::Result<String> {
        let file = fs::symlink_metadata(journal)?;
        let machine = self.machine.as_deref().unwrap_or("unknown");
        let configured = self.configured.as_deref().unwrap_or("");
        // Some file systems don't record when a file was made; there only the inode counts.
        let born = match file.created().map(jiff::Timestamp::try_from) {
            Ok(Ok(time)) => time.to_string(),
            _ => "unknown".to_owned(),
        };
        let inode = file.ino();
        Ok(format!("machine {machine}, identity {configured:?}, inode {inode}, born {born}"))
    }
}

/// `None` for an empty file, and for the word that systemd puts there before the first boot.
fn digest(machine_id: &[u8]) -> Option<String> {
    let id = machine_id.trim_ascii();
    if id.is_empty() || id == b"uninitialized" {
        return None;
    }
    Some(format!("{:016x}", Sum::of("machine").bytes(id).get()))
}
