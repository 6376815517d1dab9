//! Whose a journal is: how a copy of one, on this host or another, is told from the original.
//!
//! A copied file has another inode and was born later; a copied disk runs under another machine id;
//! and where machines share both, the configuration can name them apart.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::rows::Sum;

/// Where the machine id is found.
pub const MACHINE_ID_FILE: &str = "/etc/machine-id";

/// What this host is, apart from the journal file itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A digest: the machine id itself is to be kept confidential, and fingerprints are logged.
    machine: Option<String>,
    configured: Option<String>,
}

// === impl Identity ===

impl Identity {
    /// Reads the machine id (usually from [`MACHINE_ID_FILE`]) and takes the identity that the
    /// configuration gives this host, if any.
    ///
    /// Without a machine id (containers often have none) the journal file's own marks have to do.
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

    /// The identity together with what marks the journal file itself, as text to compare and to log.
    pub(super) fn fingerprint(&self, journal: &Path) -> io::Result<String> {
        let file = fs::symlink_metadata(journal)?;
        let machine = self.machine.as_deref().unwrap_or("unknown");
        let configured = self.configured.as_deref().unwrap_or("");
        // Some file systems don't record when a file was made; the inode must do there.
        let born = match file.created().map(jiff::Timestamp::try_from) {
            Ok(Ok(time)) => time.to_string(),
            _ => "unknown".to_owned(),
        };
        let inode = file.ino();
        Ok(format!("machine {machine}, identity {configured:?}, inode {inode}, born {born}"))
    }
}

/// `None` for an empty file and for the word that systemd leaves there before the first boot.
fn digest(machine_id: &[u8]) -> Option<String> {
    let id = machine_id.trim_ascii();
    if id.is_empty() || id == b"uninitialized" {
        return None;
    }
    Some(format!("{:016x}", Sum::of("machine").bytes(id).get()))
}
