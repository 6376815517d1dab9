//! Who is at the other end of a connection, by the kernel.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

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
