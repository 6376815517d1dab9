//! Identifies the peer of a connection, according to the kernel.

use std::collections::BTreeSet;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::{PeerCredentials, PeerPidfd};

use crate::config::{AccessRules, Peer};

/// A peer with more supplementary groups is a member of its primary group alone. Anyone with subordinate gids can have
/// 65,536, which the kernel copies in milliseconds: a thousand such peers would hold up everybody for seconds. Windows
/// refuses to log on an account with more than 1,024, so hosts in its domains hardly meet this limit.
const GROUPS_MAX: usize = 1_024;

/// The uid that the peer had when it connected, and which of the `wanted` groups. Groups are read only if some are wanted.
///
/// # Errors
/// The kernel's, if the socket is not a connected Unix socket.
pub fn of(socket: &impl AsFd, wanted: &BTreeSet<u32>, rules: &AccessRules) -> io::Result<Peer> {
    let credentials = getsockopt(socket, PeerCredentials)?;
    let mut gids = Vec::new();
    if !wanted.is_empty() {
        gids = groups(socket)?;
        gids.push(credentials.gid());
        gids.retain(|gid| wanted.contains(gid));
        gids.shrink_to_fit();
    }
    let uid = credentials.uid();
    let is_outside = rules.looks_at_namespace(uid) && !is_inside(socket, credentials.pid());
    Ok(Peer { uid, gids, is_outside })
}

/// Whether the peer's process is known to run in the daemon's own PID namespace. What a handle reveals does not depend
/// on which processes the daemon can see.
fn is_inside(socket: &impl AsFd, pid: i32) -> bool {
    let (path, handle);
    // A handle of the peer's process, which can't be confused with a later process.
    match getsockopt(socket, PeerPidfd) {
        Ok(found) => {
            path = format!("/proc/self/fdinfo/{}", found.as_raw_fd());
            handle = Some(found);
        }
        // A kernel before 6.5. A process that this namespace does not contain has the number 0.
        Err(Errno::ENOPROTOOPT) => {
            path = format!("/proc/{pid}/status");
            handle = None;
        }
        Err(_) => return false,
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    drop(handle);
    // Its number in this namespace, and in each one below up to its own.
    let numbers = text.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    let numbers: Vec<&str> = numbers.split_whitespace().collect();
    numbers.len() == 1 && numbers[0] != "0"
}

/// The process that listens on (or created) the socket at the other end.
///
/// # Errors
/// As [`of`].
pub fn pid(socket: &impl AsFd) -> io::Result<i32> {
    Ok(getsockopt(socket, PeerCredentials)?.pid())
}

#[expect(unsafe_code, reason = "no safe wrapper knows SO_PEERGROUPS")]
fn groups(socket: &impl AsFd) -> io::Result<Vec<u32>> {
    let mut gids = [0u32; GROUPS_MAX];
    let mut length = libc::socklen_t::try_from(size_of_val(&gids)).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open, and the kernel writes at most `length` bytes into the array, whose whole length is
    // initialised.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            gids.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if outcome == 0 {
        return Ok(gids[..length as usize / size_of::<u32>()].to_vec());
    }
    match Errno::last() {
        // More than are looked at, or a kernel before 4.13: only the primary group is known.
        Errno::ERANGE | Errno::ENOPROTOOPT => Ok(Vec::new()),
        error => Err(error.into()),
    }
}
