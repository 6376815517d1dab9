//! The socket file. It is used only if no other daemon has it, and is never open to more users than its mode allows. A
//! socket passed by systemd is used as it is.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use nix::fcntl::{AtFlags, OFlag, open};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{Gid, fchownat, geteuid};
use tracing::warn;

use crate::lock::{LockError, LockFile};
use crate::server::{passed, peer};
use crate::state_dir::{beside, explain};
use crate::systemd::activation::PassedSocket;

/// A listening socket. If the file is this daemon's own, it is removed when this is dropped.
#[derive(Debug)]
pub struct Socket {
    listener: Option<UnixListener>,
    path: PathBuf,
    own: Option<OwnFile>,
}

/// What identifies the daemon's own socket file.
#[derive(Debug)]
struct OwnFile {
    inode: u64,
    _lock: LockFile,
}

impl Socket {
    /// Listens on `path`. Creates its folder if it is missing.
    ///
    /// # Errors
    /// What failed, and what to do.
    pub fn bind(path: &Path, mode: u32, group: Option<u32>) -> Result<Socket> {
        let shown = &path.display();
        let failed = |what| {
            move |cause| anyhow!("the socket {shown} can't be used: {}", explain(what, &cause))
        };
        let in_use = |pid| {
            anyhow!(
                "another leafd (pid {pid}) already serves on {shown}; stop it or pass another --socket"
            )
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(failed("creating its directory"))?;
        }
        // A connection shows whether a daemon serves there. A lock prevents two daemons from starting at the same time.
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                bail!("{shown} exists and is not a socket; remove it or pass another --socket");
            }
            Ok(_) => {
                if let Ok(stream) = UnixStream::connect(path) {
                    let pid = peer::pid(&stream).map_err(failed("checking who serves there"))?;
                    return Err(in_use(pid));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("inspecting it")(error)),
        }
        let lock =
            LockFile::acquire(&beside(path, ".lock"), 0o600).map_err(|error| match error {
                LockError::Held { pid: Some(pid), .. } => in_use(pid),
                LockError::Io { cause, .. } => failed("locking it")(cause),
                other => other.into(),
            })?;
        // It is created under another name without access for others, and renamed once it has its group and mode.
        let fresh = beside(path, ".new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("removing a stale file beside it")(error));
            }
            _ => {}
        }
        let listener = create(&fresh).map_err(failed("creating it"))?;
        let place = || {
            let own = open_own(&fresh).map_err(failed("opening the new socket"))?;
            if let Some(group) = group {
                let group_id = Some(Gid::from_raw(group));
                fchownat(&own, "", None, group_id, AtFlags::AT_EMPTY_PATH).map_err(|cause| {
                    anyhow!(
                        "the socket {shown} can't be given to group {group}: {cause}; make the daemon's user a member \
                         of the group, or set another socket_group"
                    )
                })?;
            }
            // This refers to the opened file, whatever the path refers to now.
            let by_number = format!("/proc/self/fd/{}", own.as_raw_fd());
            fs::set_permissions(by_number, Permissions::from_mode(mode))
                .map_err(failed("setting its mode"))?;
            listen(&listener, Backlog::MAXALLOWABLE)
                .map_err(|error| failed("listening")(error.into()))?;
            fs::rename(&fresh, path)
                .and_then(|()| fs::symlink_metadata(path))
                .map_err(failed("renaming it"))
        };
        let inode = match place() {
            Ok(metadata) => metadata.ino(),
            Err(error) => {
                let _ = fs::remove_file(&fresh);
                return Err(error);
            }
        };
        let own = Some(OwnFile { inode, _lock: lock });
        Ok(Socket { listener: Some(listener.into()), path: path.to_owned(), own })
    }

    /// A socket that the service manager listens on for leafd, with the mode and group that it set.
    pub fn handed_over(given: PassedSocket) -> Socket {
        passed::refuse(&given.listener);
        Socket { listener: Some(given.listener), path: given.path, own: None }
    }

    /// The path that clients use.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The listener, once, for any thread's runtime.
    ///
    /// # Errors
    /// It was taken before.
    pub fn take_listener(&mut self) -> io::Result<UnixListener> {
        self.listener.take().ok_or_else(|| io::Error::other("already listening"))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let Some(own) = &self.own else { return };
        // Another daemon may have replaced it by now.
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == own.inode);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            warn!("cannot remove the socket {}: {error}", self.path.display());
        }
    }
}

/// Creates a socket file that only its owner may use, whatever the umask is, and that accepts no connections yet.
fn create(path: &Path) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    passed::refuse(&socket);
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket)
}

/// Opens the socket file that this process has just created. Refuses a file that has replaced it.
fn open_own(path: &Path) -> io::Result<File> {
    // The standard library would leave out O_PATH, which is part of musl's O_ACCMODE.
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    let found = file.metadata()?;
    if found.file_type().is_socket() && found.uid() == geteuid().as_raw() {
        return Ok(file);
    }
    Err(io::Error::other("another process has replaced it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_it_from_a_socket_is_told_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for (path, told, to_do) in [
            (file.clone(), "is not a socket", "remove it"),
            (file.join("leafd.sock"), "creating its directory failed", "move it away"),
            ("/proc/leafd.sock".into(), "locking it failed", "make sure that the path exists"),
        ] {
            let text = Socket::bind(&path, 0o600, None).unwrap_err().to_string();
            assert!(text.contains(&path.display().to_string()), "{text}");
            assert!(text.contains(told) && text.contains(to_do), "{text}");
        }
    }
}
