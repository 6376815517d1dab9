//! Asks the kernel, by sock_diag, for the user at the other end of a TCP connection from this host.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};
use nix::sys::socket::{recvmsg, send, socket};
use tokio::net::TcpStream;

use crate::config::Peer;

/// The type of the request and of its answer (SOCK_DIAG_BY_FAMILY).
const BY_FAMILY: u16 = 20;

/// The bytes of a netlink header, of `inet_diag_req_v2`, and of `inet_diag_msg` up to its uid and with it.
const HEADER_BYTES: usize = 16;
const QUESTION_BYTES: usize = HEADER_BYTES + 56;
const UID_AT: usize = HEADER_BYTES + 64;

/// TCP_ESTABLISHED. A socket that was closed by its process has no user.
const ESTABLISHED: u8 = 1;

/// The user at the other end; `None` if the kernel doesn't know, for example because the connection was closed.
pub(super) fn of_peer(stream: &TcpStream) -> Option<Peer> {
    let uid = ask(stream.peer_addr().ok()?, stream.local_addr().ok()?).ok()??;
    Some(Peer { uid, gids: Vec::new(), is_outside: false })
}

/// The user whose socket has the address `own` and is connected to `other`.
fn ask(own: SocketAddr, other: SocketAddr) -> io::Result<Option<u32>> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let kind = SockType::Datagram;
    let kernel = socket(AddressFamily::Netlink, kind, flags, SockProtocol::NetlinkSockDiag)?;
    send(kernel.as_raw_fd(), &question(own, other), MsgFlags::empty())?;
    let mut answer = [0; 512];
    // The kernel has answered by the time that `send` returns.
    let mut parts = [IoSliceMut::new(&mut answer)];
    let length = recvmsg::<()>(kernel.as_raw_fd(), &mut parts, None, MsgFlags::empty())?.bytes;
    Ok(uid_in(&answer[..length]))
}

fn question(own: SocketAddr, other: SocketAddr) -> Vec<u8> {
    let (from, to) = (own.ip().to_canonical(), other.ip().to_canonical());
    let family = if from.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut bytes = Vec::with_capacity(QUESTION_BYTES);
    // The header: length, kind, flags (NLM_F_REQUEST), sequence, sender.
    bytes.extend((QUESTION_BYTES as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(1u16.to_ne_bytes());
    bytes.extend([0; 8]);
    // Family, protocol, no extensions, padding, and sockets in any state.
    bytes.extend([family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(own.port().to_be_bytes());
    bytes.extend(other.port().to_be_bytes());
    for address in [from, to] {
        let mut field = [0; 16];
        match address {
            IpAddr::V4(address) => field[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => field = address.octets(),
        }
        bytes.extend(field);
    }
    // Any interface, and no cookie.
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    bytes
}

fn uid_in(answer: &[u8]) -> Option<u32> {
    let kind = answer.get(4..6)?;
    let state = *answer.get(HEADER_BYTES + 1)?;
    let uid = answer.get(UID_AT..UID_AT + 4)?;
    (kind == BY_FAMILY.to_ne_bytes() && state == ESTABLISHED)
        .then(|| u32::from_ne_bytes(uid.try_into().expect("four bytes")))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_tells_the_user_of_a_connected_socket() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (own, other) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let uid = nix::unistd::geteuid().as_raw();
            assert_eq!(ask(own, other).unwrap(), Some(uid), "{address}");
            assert_eq!(ask(other, "127.0.0.1:9".parse().unwrap()).unwrap(), None);
        }
    }
}
