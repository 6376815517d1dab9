//! A disk that a test can fill: a small file system in memory that replaces a folder of one host, and that only the
//! host's daemon sees. Each daemon of the host gets a new one.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::host::Host;

/// The mount hides the folder's content in the test's own file system, but doesn't delete it.
const MOUNT: &str = r#"mount -t tmpfs -o size=512k,mode=700 tmpfs "$0" && exec "$@""#;

/// The file that takes all the space.
const FILLER: &str = "filler";

/// The disk.
pub struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Gives a host that has not been started such a disk in place of one of its folders, which is created if it is
    /// missing. Needs root.
    pub fn of(host: Host, folder: &Path) -> (Host, SmallDisk) {
        fs::create_dir_all(folder).unwrap();
        let words = ["unshare", "--mount", "sh", "-c", MOUNT, folder.to_str().unwrap()];
        (host.runner(&words), SmallDisk { folder: folder.to_owned() })
    }

    /// A file on the disk of the running daemon.
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

    /// Frees the space again.
    pub fn empty(&self, host: &Host) {
        fs::remove_file(self.path(host, FILLER)).unwrap();
    }
}
