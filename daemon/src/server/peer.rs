//! Who is at the other end of a connection, by the kernel.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, FromRawFd as _, OwnedFd};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use crate::config::Peer;

/// A process can't have more groups than this (Linux's NGROUPS_MAX).
const GROUPS_MAX: usize = 65_536;

/// The uid, gid and supplementary groups that the peer had when it connected.
///
/// # Errors
/// The kernel's, if the socket is not a connected Unix socket.
pub fn of(socket: &impl AsFd) -> io::Result<Peer> {
    let credentials = getsockopt(socket, PeerCredentials)?;
    let mut gids = groups(socket)?;
    if !gids.contains(&credentials.gid()) {
        gids.push(credentials.gid());
    }
    Ok(Peer { uid: credentials.uid(), gids })
}

/// The process that listens on (or created) the socket at the other end.
///
/// # Errors
/// As [`of`].
pub fn pid(socket: &impl AsFd) -> io::Result<i32> {
    Ok(getsockopt(socket, PeerCredentials)?.pid())
}

/// The number of the cgroup of the process that connected, in the unified tree. `None` of a process that has ended, or that
/// this daemon can't see; and before Linux 6.13.
pub fn cgroup(socket: &impl AsFd) -> Option<u64> {
    cgroup_of(&process(socket)?)
}

/// A handle of the process at the other end, which no later process can be mistaken for.
#[expect(unsafe_code, reason = "no safe wrapper knows SO_PEERPIDFD")]
fn process(socket: &impl AsFd) -> Option<OwnedFd> {
    let mut handle: libc::c_int = -1;
    let mut length = libc::socklen_t::try_from(size_of::<libc::c_int>()).ok()?;
    // SAFETY: the descriptor is open, and the kernel writes one descriptor of `length` bytes.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERPIDFD,
            (&raw mut handle).cast(),
            &raw mut length,
        )
    };
    // SAFETY: the kernel has just opened it for this process, and nothing else has it.
    (outcome == 0 && handle >= 0).then(|| unsafe { OwnedFd::from_raw_fd(handle) })
}

#[expect(unsafe_code, reason = "no safe wrapper knows PIDFD_GET_INFO")]
fn cgroup_of(process: &OwnedFd) -> Option<u64> {
    // SAFETY: it consists of integers, of which all zeros are one value.
    let mut info: libc::pidfd_info = unsafe { zeroed() };
    info.mask = libc::PIDFD_INFO_CGROUPID.into();
    // SAFETY: the descriptor is open, and the request's number tells the kernel the size of what it writes to.
    let outcome = unsafe { libc::ioctl(process.as_raw_fd(), libc::PIDFD_GET_INFO, &raw mut info) };
    let is_told = info.mask & u64::from(libc::PIDFD_INFO_CGROUPID) != 0;
    (outcome == 0 && is_told).then_some(info.cgroupid)
}

#[expect(unsafe_code, reason = "no safe wrapper knows SO_PEERGROUPS")]
fn groups(socket: &impl AsFd) -> io::Result<Vec<u32>> {
    let mut gids = vec![0u32; 32];
    loop {
        let mut length =
            libc::socklen_t::try_from(size_of_val(gids.as_slice())).map_err(io::Error::other)?;
        // SAFETY: the descriptor is open, and the kernel writes at most `length` bytes into the
        // vector, whose whole length is initialised.
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
            gids.truncate(length as usize / size_of::<u32>());
            return Ok(gids);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ERANGE) if gids.len() < GROUPS_MAX => gids.resize(GROUPS_MAX, 0),
            // A kernel before 4.13: only the primary group is known.
            Some(libc::ENOPROTOOPT) => return Ok(Vec::new()),
            _ => return Err(error),
        }
    }
}
