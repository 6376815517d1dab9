//! A client that sends arbitrary bytes, well-formed or not.

use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use leafd_wire::frame::Frame;
use leafd_wire::{
    ErrorReply, HEADER_BYTES, Header, IdsReply, IdsRequest, InfoReply, InfoRequest,
    REPLY_LENGTH_MAX, Run, Status, VERSION,
};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::host::eventually;

/// How long a daemon may take to send an expected answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// A connection.
pub struct Raw {
    pub stream: UnixStream,
}

/// A received frame.
#[derive(Debug)]
pub struct Reply {
    pub header: Header,
    pub body: Vec<u8>,
}

impl Raw {
    #[track_caller]
    pub fn connect(socket: &Path) -> Raw {
        match UnixStream::connect(socket) {
            Ok(stream) => Raw::over(stream),
            Err(error) => panic!("cannot connect to {}: {error}", socket.display()),
        }
    }

    pub fn try_connect(socket: &Path) -> Option<Raw> {
        UnixStream::connect(socket).ok().map(Raw::over)
    }

    pub fn over(stream: UnixStream) -> Raw {
        stream.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
        stream.set_write_timeout(Some(ANSWER_WITHIN)).unwrap();
        Raw { stream }
    }

    #[track_caller]
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends a frame with any body.
    #[track_caller]
    pub fn request(&mut self, opcode: u8, request_id: u32, body: &[u8]) {
        let mut bytes = Vec::new();
        Header::request(opcode, 0, request_id).put_frame(body, &mut bytes);
        self.send(&bytes);
    }

    /// Requests ids without waiting for them.
    #[track_caller]
    pub fn ask(&mut self, tag: impl AsRef<[u8]>, count: u32, request_id: u32) {
        self.send(&ids_request(tag, count, request_id, 10_000));
    }

    /// The next frame.
    #[track_caller]
    pub fn reply(&mut self) -> Reply {
        self.try_reply().expect("an answer comes")
    }

    pub fn try_reply(&mut self) -> io::Result<Reply> {
        let mut bytes = vec![0; HEADER_BYTES];
        self.stream.read_exact(&mut bytes)?;
        let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        assert!(length <= REPLY_LENGTH_MAX, "a reply of {length} bytes");
        bytes.resize(4 + length as usize, 0);
        self.stream.read_exact(&mut bytes[HEADER_BYTES..])?;
        let (frame, end) = Frame::first(&bytes, REPLY_LENGTH_MAX).unwrap().expect("it is whole");
        assert_eq!(end, bytes.len());
        Ok(Reply { header: frame.header, body: frame.body.to_vec() })
    }

    /// Draws ids and waits for them.
    #[track_caller]
    pub fn draw(&mut self, tag: impl AsRef<[u8]>, count: u32) -> Vec<u64> {
        self.ask(tag, count, 77);
        let reply = self.reply();
        assert_eq!(reply.header.request_id, 77);
        reply.ids()
    }

    /// Draws one id, and retries until that works.
    #[track_caller]
    pub fn draw_until(&mut self, tag: &str, within: Duration) -> u64 {
        eventually(tag, within, || {
            self.ask(tag, 1, 78);
            let reply = self.reply();
            (reply.status() == Status::Ok).then(|| reply.ids()[0])
        })
    }

    #[track_caller]
    pub fn info(&mut self) -> InfoReply {
        self.try_info().expect("INFO is answered")
    }

    pub fn try_info(&mut self) -> io::Result<InfoReply> {
        let mut bytes = Vec::new();
        InfoRequest { version_min: VERSION, version_max: VERSION }.put(5, &mut bytes);
        self.stream.write_all(&bytes)?;
        let reply = self.try_reply()?;
        InfoReply::decode(&reply.body).map_err(|_| io::Error::other("an answer that is not INFO's"))
    }

    /// Sends one frame and expects this status. Returns the answer's text.
    #[track_caller]
    pub fn refused(&mut self, bytes: &[u8], status: Status) -> String {
        self.send(bytes);
        self.reply().refused(status)
    }

    /// Fails unless the daemon has closed the connection.
    #[track_caller]
    pub fn assert_closed(&mut self) {
        match self.stream.read(&mut [0]) {
            Ok(0) => {}
            // If the daemon closed with unread input, the kernel reports a reset.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            other => panic!("the connection is still open: {other:?}"),
        }
    }
}

impl Reply {
    #[track_caller]
    pub fn status(&self) -> Status {
        Status::from_number(self.header.status).expect("a known status")
    }

    /// The ids, one by one.
    #[track_caller]
    pub fn ids(&self) -> Vec<u64> {
        self.runs().into_iter().flat_map(Run::ids).collect()
    }

    #[track_caller]
    pub fn runs(&self) -> Vec<Run> {
        if self.status() != Status::Ok {
            panic!("{:?} instead of ids: {}", self.status(), self.text());
        }
        IdsReply::decode(&self.body).unwrap().runs().collect()
    }

    #[track_caller]
    pub fn refused(&self, status: Status) -> String {
        assert_eq!(self.status(), status, "{}", self.text());
        self.text()
    }

    /// The text of a failure.
    pub fn text(&self) -> String {
        ErrorReply::decode(&self.body).map_or(String::new(), |reply| reply.message.to_owned())
    }

    pub fn retry_after_ms(&self) -> u32 {
        ErrorReply::decode(&self.body).unwrap().retry_after_ms
    }
}

/// The bytes of a request for ids.
pub fn ids_request(
    tag: impl AsRef<[u8]>,
    count: u32,
    request_id: u32,
    deadline_ms: u32,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    IdsRequest { tag: tag.as_ref(), count, deadline_ms }.put(false, request_id, &mut bytes);
    bytes
}

/// Connects as another user.
///
/// To the kernel, credentials belong to a thread. The C library would set those of all threads. The
/// bare system calls used here set those of one thread, which ends when it has connected.
pub fn connect_as(
    socket: &Path,
    uid: u32,
    gid: u32,
    groups: &[u32],
) -> std::io::Result<UnixStream> {
    let (socket, groups) = (socket.to_owned(), groups.to_vec());
    as_user(uid, gid, groups, move || UnixStream::connect(socket))
}

/// Runs `work` as another user, in a separate thread.
///
/// # Errors
/// The credentials can't be set, or `work` fails.
pub fn as_user<T: Send + 'static>(
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    let working = std::thread::spawn(move || {
        become_user(uid, gid, &groups)?;
        work()
    });
    working.join().expect("the work doesn't panic")
}

/// Connects by TCP as another user.
pub fn tcp_as(address: &str, uid: u32) -> std::io::Result<TcpStream> {
    tcp_from([127, 0, 0, 1], address, uid)
}

/// Connects by TCP as another user, from a given address of this host.
pub fn tcp_from(own: [u8; 4], address: &str, uid: u32) -> std::io::Result<TcpStream> {
    let to: SocketAddrV4 = address.parse().map_err(std::io::Error::other)?;
    let connecting = std::thread::spawn(move || {
        become_user(uid, uid, &[])?;
        let (kind, flags) = (SockType::Stream, SockFlag::SOCK_CLOEXEC);
        let stream = socket(AddressFamily::Inet, kind, flags, None)?;
        let field = |address: [u8; 4], port: u16| libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: port.to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address) },
            sin_zero: [0; 8],
        };
        let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        let (from, to) = (field(own, 0), field(to.ip().octets(), to.port()));
        // SAFETY: the descriptor is open, and both addresses are as long as stated.
        let outcome = unsafe {
            match libc::bind(stream.as_raw_fd(), (&raw const from).cast(), length) {
                0 => libc::connect(stream.as_raw_fd(), (&raw const to).cast(), length),
                failed => failed,
            }
        };
        match outcome {
            0 => Ok(TcpStream::from(stream)),
            _ => Err(std::io::Error::last_os_error()),
        }
    });
    connecting.join().expect("the thread only makes system calls")
}

/// Permanently makes the calling thread, and no other thread of the process, act as this user.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> std::io::Result<()> {
    let call = |outcome: libc::c_long| {
        if outcome == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: the list is as long as stated, and the other two calls take numbers only.
    unsafe {
        call(libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()))?;
        call(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        call(libc::syscall(libc::SYS_setresuid, uid, uid, uid))
    }
}
