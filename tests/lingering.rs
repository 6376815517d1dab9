//! A descriptor whose last close blocks. A user can pass one to the daemon to make it wait.

use std::io::{IoSlice, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg, setsockopt, sockopt};

/// Far longer than any wait in these tests.
const LINGER_S: i32 = 3_600;

/// A connected TCP socket whose last close waits for its peer, which never reads. Returns the peer as well.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    while stream.write(&[7; 1 << 16]).is_ok() {}
    let linger = libc::linger { l_onoff: 1, l_linger: LINGER_S };
    setsockopt(&stream, sockopt::Linger, &linger).unwrap();
    (stream, peer)
}

/// Passes such a socket together with some bytes, and keeps only its peer. Returns whether the kernel let it through.
pub fn pass(connection: &UnixStream, bytes: &[u8]) -> (bool, TcpStream) {
    pass_with(connection, bytes, MsgFlags::empty())
}

/// Passes such a socket with an out-of-band byte alone, which an ordinary peek at the received data skips.
pub fn pass_out_of_band(connection: &UnixStream) -> (bool, TcpStream) {
    pass_with(connection, &[0], MsgFlags::MSG_OOB)
}

fn pass_with(connection: &UnixStream, bytes: &[u8], more: MsgFlags) -> (bool, TcpStream) {
    let (stream, peer) = lingering();
    let numbers = [stream.as_raw_fd()];
    let along = [ControlMessage::ScmRights(&numbers)];
    let bytes = [IoSlice::new(bytes)];
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT | more;
    let sent = sendmsg::<()>(connection.as_raw_fd(), &bytes, &along, flags, None);
    let is_passed = sent.is_ok();
    if !is_passed {
        // Without this, closing the socket would make this process wait for the peer.
        setsockopt(&stream, sockopt::Linger, &libc::linger { l_onoff: 0, l_linger: 0 }).unwrap();
    }
    (is_passed, peer)
}
