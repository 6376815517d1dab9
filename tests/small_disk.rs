//! A disk that a test can fill: a small file system in memory in place of a folder of one host, seen by its daemon
//! alone. Each daemon of the host has a new one.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::host::Host;

/// What is below it in the test's own file system is hidden, not gone.
const MOUNT: &str = r#"mount -t tmpfs -o size=512k,mode=700 tmpfs "$0" && exec "$@""#;

/// What takes all the room.
const FILLER: &str = "filler";

/// The disk.
pub struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Gives a host that has not started such a disk at one of its folders, which is made if it isn't there. That needs root.
    pub fn of(host: Host, folder: &Path) -> (Host, SmallDisk) {
        fs::create_dir_all(folder).unwrap();
        let words = ["unshare", "--mount", "sh", "-c", MOUNT, folder.to_str().unwrap()];
        (host.runner(&words), SmallDisk { folder: folder.to_owned() })
    }

    /// A file on the disk of the daemon that runs.
    pub fn path(&self, host: &Host, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{}", host.pid(), self.folder.display())).join(name)
    }

    /// Fills it to the last byte.
    pub fn fill(&self, host: &Host) {
        let device = |path: &Path| fs::metadata(path).unwrap().dev();
        assert_ne!(device(&self.path(host, "")), device(&self.folder), "this is another disk");
        let mut filler = File::create(self.path(host, FILLER)).unwrap();
        for piece in [&[0; 4_096][..], &[0]] {
            while filler.write_all(piece).is_ok() {}
        }
    }

    /// Makes room again.
    pub fn empty(&self, host: &Host) {
        fs::remove_file(self.path(host, FILLER)).unwrap();
    }
}
