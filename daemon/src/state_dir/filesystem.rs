//! Decides which file systems a state directory may be on.
//!
//! A file system that several machines mount can't hold one host's state: locks may not work across machines, and one
//! machine may not see what another has synced. A volatile file system (memory, a container's layer) prevents the host
//! from continuing where it stopped. That costs ids, but not safety.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statfs::statfs;

/// The verdict on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suitability {
    Fine,
    /// Usable, but the operator should know.
    Forgets(&'static str),
    Refused(&'static str),
    /// A program in user space serves it. The mount's type decides.
    Fuse,
}

/// Refuses the directory, or logs a warning.
pub(super) fn check(dir: &Path) -> Result<(), String> {
    if let Some(name) = look(dir)? {
        tracing::warn!(
            dir = %dir.display(),
            file_system = name,
            "the state directory is on a file system that is lost with the machine or container: this host then \
             becomes a new one, and an embedded store in it would issue its ids again; mount a disk there"
        );
    }
    Ok(())
}

/// The directory's file system, if it doesn't outlive the machine or container.
///
/// # Errors
/// Why the file system can't be used, and what to do.
pub fn look(dir: &Path) -> Result<Option<&'static str>, String> {
    let found = statfs(dir).map_err(|e| {
        super::explain("determining the directory's file system", &std::io::Error::from(e))
    })?;
    // The kernel's numbers have 32 bits; some platforms sign-extend them.
    let magic = (found.filesystem_type().0 as u64 & 0xffff_ffff) as u32;
    let verdict = match verdict(magic) {
        Suitability::Fuse => fuse_verdict(mount_type(dir).as_deref()),
        other => other,
    };
    match verdict {
        Suitability::Fine | Suitability::Fuse => Ok(None),
        Suitability::Forgets(name) => Ok(Some(name)),
        Suitability::Refused(name) => Err(format!(
            "it is on {name}, which other machines may have mounted too, and where locks and synced writes can't be \
             relied on; configure a directory on a local disk"
        )),
    }
}

/// Whether a directory is in memory, so that a reboot removes its content.
pub(crate) fn is_memory(dir: &Path) -> bool {
    statfs(dir).is_ok_and(|found| {
        matches!(found.filesystem_type().0 as u64 & 0xffff_ffff, 0x0102_1994 | 0x8584_58f6)
    })
}

fn verdict(magic: u32) -> Suitability {
    match magic {
        0x0000_6969 => Suitability::Refused("NFS"),
        0x0000_517b => Suitability::Refused("SMB (smbfs)"),
        0xff53_4d42 => Suitability::Refused("SMB (CIFS)"),
        0xfe53_4d42 => Suitability::Refused("SMB 2"),
        0x5346_414f | 0x6b41_4653 => Suitability::Refused("AFS"),
        0x7375_7245 => Suitability::Refused("Coda"),
        0x0000_564c => Suitability::Refused("NCP"),
        0x00c3_6400 => Suitability::Refused("Ceph"),
        0x0102_1997 => Suitability::Refused("9p"),
        0x0bd0_0bd0 => Suitability::Refused("Lustre"),
        0x4750_4653 => Suitability::Refused("GPFS"),
        0x1983_0326 => Suitability::Refused("BeeGFS"),
        0x0116_1970 => Suitability::Refused("GFS2"),
        0x7461_636f => Suitability::Refused("OCFS2"),
        0x786f_4256 => Suitability::Refused("a VirtualBox shared folder"),
        0xbacb_acbc => Suitability::Refused("a VMware shared folder"),
        0x0102_1994 => Suitability::Forgets("tmpfs"),
        0x8584_58f6 => Suitability::Forgets("ramfs"),
        0x794c_7630 => Suitability::Forgets("overlayfs"),
        0x6573_5546 => Suitability::Fuse,
        _ => Suitability::Fine,
    }
}

/// In user space, only file systems known to be local are accepted. sshfs, GlusterFS, s3fs and the like
/// look the same from outside.
fn fuse_verdict(mount_type: Option<&str>) -> Suitability {
    match mount_type {
        Some("fuseblk" | "fuse.bindfs" | "fuse.gocryptfs" | "fuse.encfs") => Suitability::Fine,
        Some("fuse.fuse-overlayfs") => Suitability::Forgets("fuse-overlayfs"),
        Some("virtiofs") => Suitability::Refused("virtiofs, a directory of the machine's host"),
        _ => Suitability::Refused("a file system in user space (FUSE) not known to be local"),
    }
}

/// The mount's type, from the process's list of mounts.
fn mount_type(dir: &Path) -> Option<String> {
    let device = fs::metadata(dir).ok()?.dev();
    let device = format!("{}:{}", nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| type_if_on(line, &device))
}

/// `36 35 0:42 / /mnt rw,noatime master:1 - fuse.sshfs host:/ rw`: the third field is the device, and the
/// type follows the lone dash.
fn type_if_on(line: &str, device: &str) -> Option<String> {
    let (mount, source) = line.split_once(" - ")?;
    (mount.split(' ').nth(2)? == device).then(|| source.split(' ').next().map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networked_file_systems_are_refused_and_forgetful_ones_are_not() {
        for magic in [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400, 0x0102_1997] {
            assert!(matches!(verdict(magic), Suitability::Refused(_)), "{magic:x}");
        }
        for magic in [0x0102_1994, 0x8584_58f6, 0x794c_7630] {
            assert!(matches!(verdict(magic), Suitability::Forgets(_)), "{magic:x}");
        }
        // ext4, XFS, Btrfs.
        for magic in [0xef53, 0x5846_5342, 0x9123_683e] {
            assert_eq!(verdict(magic), Suitability::Fine, "{magic:x}");
        }
    }

    #[test]
    fn user_space_file_systems_are_told_apart_by_name() {
        let line = "36 35 0:42 / /mnt rw,noatime master:1 - fuse.sshfs host:/ rw";
        assert_eq!(type_if_on(line, "0:42").as_deref(), Some("fuse.sshfs"));
        assert_eq!(type_if_on(line, "0:4"), None);
        assert_eq!(type_if_on("nonsense", "0:42"), None);
        assert_eq!(fuse_verdict(Some("fuseblk")), Suitability::Fine);
        assert!(matches!(fuse_verdict(Some("fuse.sshfs")), Suitability::Refused(_)));
        assert!(matches!(fuse_verdict(None), Suitability::Refused(_)));
    }
}
