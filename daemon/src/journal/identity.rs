//! Identifies the host of a journal, to distinguish the original from a copy, on this host or on another.
//!
//! A copied file has another inode and a later birth time. A copied disk runs under another machine id. A disk that was
//! cloned below its file system has the same three, so the ids that the firmware or hypervisor assigns to a machine
//! count as well, if they can be read. If two machines have all of them in common, the configuration can give each an
//! identity.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use super::records::Sum;

/// The file with the machine id.
const MACHINE_ID_FILE: &str = "etc/machine-id";

/// The files in which firmware and hypervisors identify the machine. Only root may read the first one, so the unit
/// passes it as a credential of the same name.
const HARDWARE_FILES: [(&str, &str); 4] = [
    ("product_uuid", "sys/class/dmi/id/product_uuid"),
    // On EC2, this is the instance's id, which everyone may read.
    ("board_asset_tag", "sys/class/dmi/id/board_asset_tag"),
    ("hypervisor_uuid", "sys/hypervisor/uuid"),
    ("vm_uuid", "sys/firmware/devicetree/base/vm,uuid"),
];

/// Separates the attributes of the file from those of the host.
const FILE: &str = ", inode ";

/// Separates the hardware's ids, which come last, from the rest of a fingerprint.
const HARDWARE: &str = ", hardware";

/// The identity of this host, apart from the journal file itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A digest, because the machine id itself must stay confidential and fingerprints are logged.
    machine: Option<String>,
    configured: Option<String>,
    hardware: String,
}

// === impl Identity ===

impl Identity {
    /// Reads the machine's ids, and takes the host's configured identity, if there is one.
    pub fn of_host(configured: Option<&str>) -> Identity {
        Identity::in_root(Path::new("/"), configured)
    }

    /// The same, under another root directory.
    ///
    /// Without a machine id (many containers have none), only the hardware, the journal file's attributes and the
    /// configured identity identify the host.
    pub fn in_root(root: &Path, configured: Option<&str>) -> Identity {
        let file = root.join(MACHINE_ID_FILE);
        let machine = match fs::read(&file) {
            Ok(bytes) => digest(&bytes),
            Err(e) => {
                tracing::warn!(file = %file.display(), error = %e, "no machine id");
                None
            }
        };
        let hardware =
            if root == Path::new("/") { hardware().to_owned() } else { hardware_in(root) };
        Identity { machine, configured: configured.map(str::to_owned), hardware }
    }

    /// This identity together with the attributes of one of this host's files, as text to log and to compare with
    /// [`is_same`].
    pub(crate) fn fingerprint(&self, file: &Path) -> io::Result<String> {
        let file = fs::symlink_metadata(file)?;
        let machine = self.machine.as_deref().unwrap_or("unknown");
        let configured = self.configured.as_deref().unwrap_or("");
        // Some file systems don't record birth times; there, only the inode counts.
        let born = match file.created().map(jiff::Timestamp::try_from) {
            Ok(Ok(time)) => time.to_string(),
            _ => "unknown".to_owned(),
        };
        let inode = file.ino();
        let hardware = &self.hardware;
        Ok(format!(
            "machine {machine}, identity {configured:?}{FILE}{inode}, born {born}{hardware}"
        ))
    }
}

/// The readable ids of this machine's hardware, as the end of a fingerprint. They are read once, because root can read
/// more of them than the user that the process may switch to later.
pub(crate) fn hardware() -> &'static str {
    static FOUND: OnceLock<String> = OnceLock::new();
    FOUND.get_or_init(|| hardware_in(Path::new("/")))
}

fn hardware_in(root: &Path) -> String {
    let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(std::path::PathBuf::from);
    let mut text = HARDWARE.to_owned();
    for (name, file) in HARDWARE_FILES {
        let credential = credentials.as_ref().and_then(|dir| fs::read(dir.join(name)).ok());
        let found = credential.or_else(|| fs::read(root.join(file)).ok());
        if let Some(digest) = found.and_then(|bytes| digest(&bytes)) {
            text.push_str(&format!(" {name}={digest}"));
        }
    }
    text
}

/// Whether two fingerprints are of the same file on the same host. A hardware id that could not be read for one of
/// them, for example by another user, is ignored.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let (one, one_ids) = split(one);
    let (other, other_ids) = split(other);
    let differ = |(name, id): (&str, &str)| {
        hardware_ids(other_ids).any(|other| other.0 == name && other.1 != id)
    };
    one == other && !hardware_ids(one_ids).any(differ)
}

/// Whether two fingerprints are of the same host, though perhaps of different files.
pub(crate) fn is_same_host(one: &str, other: &str) -> bool {
    let without_file = |fingerprint: &str| {
        let (host, ids) = split(fingerprint);
        let host = host.split_once(FILE).map_or(host, |(host, _)| host);
        format!("{host}{HARDWARE}{ids}")
    };
    is_same(&without_file(one), &without_file(other))
}

fn split(fingerprint: &str) -> (&str, &str) {
    fingerprint.rsplit_once(HARDWARE).unwrap_or((fingerprint, ""))
}

fn hardware_ids(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split_whitespace().filter_map(|id| id.split_once('='))
}

/// `None` for an empty file, and for the placeholders that systemd and leafd's unit use for an unknown id.
fn digest(id: &[u8]) -> Option<String> {
    let id = id.trim_ascii();
    if id.is_empty() || id == b"uninitialized" || id == b"unknown" {
        return None;
    }
    Some(format!("{:016x}", Sum::of("machine").bytes(id).get()))
}
