//! A server's data on its own volume, which can be reset to a snapshot below the file system, so that every inode and
//! time is as it was. Needs root, and a loop device.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Server, copy};
use crate::host::eventually;

/// Only the server sees the volume, which disappears with the server.
const MOUNT: &str =
    r#"mount -o loop "$0" data && chown --reference=. data && chmod 700 data && exec "$@""#;

/// Larger than any server's data; only what is used takes memory.
const SIZE: &str = "512M";

/// How long the kernel may take to release a stopped server's volume.
const RELEASED_WITHIN: Duration = Duration::from_secs(30);

/// The volume, as a file.
pub struct Volume {
    image: PathBuf,
}

impl Volume {
    /// Moves a server's data to a volume.
    pub fn of<S: Server>(server: &mut S) -> Volume {
        server.stop();
        let image = server.process().dir.join("image");
        let data = server.process().dir.join("data");
        let mut make = Command::new("/sbin/mke2fs");
        make.args(["-q", "-t", "ext4", "-d"]).args([&data, &image]).arg(SIZE);
        assert!(make.status().unwrap().success(), "no file system in {}", image.display());
        let words = ["unshare", "--mount", "sh", "-c", MOUNT, "image"].map(str::to_owned);
        server.process_mut().program.splice(0..0, words);
        server.start();
        Volume { image }
    }

    /// A copy of the volume.
    pub fn snapshot<S: Server>(&self, server: &mut S) -> PathBuf {
        let snapshot = self.image.with_extension("snapshot");
        server.stop();
        self.is_released();
        copy(&self.image, &snapshot);
        server.start();
        snapshot
    }

    /// Kills the server, resets the volume to a copy, and starts the server.
    pub fn put_back<S: Server>(&self, server: &mut S, snapshot: &Path) {
        server.kill();
        self.is_released();
        copy(snapshot, &self.image);
        server.start();
    }

    fn is_released(&self) {
        eventually("the volume is released", RELEASED_WITHIN, || {
            let used = Command::new("/sbin/losetup").arg("-j").arg(&self.image).output().unwrap();
            used.stdout.is_empty().then_some(())
        });
    }
}
