//! A process's view of a shared run by the protocol alone: the pages as they are mapped, and what can be done to them.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr;

use leafd_wire::frame::{Frame, frame_end};
use leafd_wire::share::{RunPage, TicketPage};
use leafd_wire::{REPLY_LENGTH_MAX, ShareReply, ShareRequest, Status};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

use crate::raw::{Raw, Reply};

/// The pages of a shared run, mapped for as long as the test runs.
pub struct Pages {
    pub number: u64,
    pub run: &'static RunPage,
    pub tickets: &'static TicketPage,
    pub descriptors: [OwnedFd; 2],
}

/// Asks to share a tag; who has a page says so.
pub fn ask(raw: &mut Raw, tag: &str, page: u64, deadline_ms: u32) {
    let mut bytes = Vec::new();
    ShareRequest { tag: tag.as_bytes(), deadline_ms, page }.put(9, &mut bytes);
    raw.send(&bytes);
}

/// The next answer, with the descriptors that came along.
pub fn reply(raw: &mut Raw) -> (Reply, Vec<OwnedFd>) {
    let (mut bytes, mut came) = (Vec::new(), Vec::new());
    loop {
        if let Some((frame, _)) = Frame::first(&bytes, REPLY_LENGTH_MAX).unwrap() {
            return (Reply { header: frame.header, body: frame.body.to_vec() }, came);
        }
        // No byte of the next answer, whose descriptors would come along.
        let end = frame_end(&bytes, REPLY_LENGTH_MAX).unwrap().unwrap_or(4);
        let from = bytes.len();
        bytes.resize(end, 0);
        let (length, along) = receive(&raw.stream, &mut bytes[from..]);
        assert!(length > 0, "the connection was closed");
        bytes.truncate(from + length);
        came.extend(along);
    }
}

/// The descriptors that come along with the next byte.
pub fn received(stream: &UnixStream) -> Vec<OwnedFd> {
    receive(stream, &mut [0]).1
}

fn receive(stream: &UnixStream, part: &mut [u8]) -> (usize, Vec<OwnedFd>) {
    let mut parts = [io::IoSliceMut::new(part)];
    let mut room = nix::cmsg_space!([RawFd; 8]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let got = recvmsg::<()>(stream.as_raw_fd(), &mut parts, Some(&mut room), flags);
    let got = got.expect("something comes");
    let mut came = Vec::new();
    for along in got.cmsgs().unwrap() {
        if let ControlMessageOwned::ScmRights(numbers) = along {
            // SAFETY: the kernel has just made them for this process.
            came.extend(numbers.iter().map(|number| unsafe { OwnedFd::from_raw_fd(*number) }));
        }
    }
    (got.bytes, came)
}

/// Shares a tag, whose pages are new to this process.
#[track_caller]
pub fn share(raw: &mut Raw, tag: &str) -> Pages {
    ask(raw, tag, 0, 20_000);
    let (reply, came) = reply(raw);
    Pages::of(&reply, came)
}

impl Pages {
    /// The pages that came with an answer.
    #[track_caller]
    pub fn of(reply: &Reply, came: Vec<OwnedFd>) -> Pages {
        assert_eq!(reply.status(), Status::Ok, "{}", reply.text());
        match ShareReply::decode(&reply.body).unwrap() {
            ShareReply::Pages { page } => Pages::map(page, came),
            other => panic!("{other:?} instead of pages"),
        }
    }

    /// Maps descriptors that came.
    #[track_caller]
    pub fn map(number: u64, came: Vec<OwnedFd>) -> Pages {
        let descriptors: [OwnedFd; 2] = came.try_into().expect("two descriptors");
        let run = map(&descriptors[0], libc::PROT_READ).unwrap();
        let tickets = map(&descriptors[1], libc::PROT_READ | libc::PROT_WRITE).unwrap();
        // SAFETY: they are never unmapped, and are large enough at a page's boundary.
        let (run, tickets) =
            unsafe { (&*run.cast_const().cast::<RunPage>(), &*tickets.cast_const().cast()) };
        assert!(run.is_known());
        assert_eq!(run.number(), number);
        Pages { number, run, tickets, descriptors }
    }

    /// Draws one id as a process does, if that can be done without asking.
    pub fn draw(&self) -> Option<u64> {
        Some(self.run.draw(self.tickets, boot_ns())?.ok()?.id)
    }

    pub fn is_open(&self) -> bool {
        self.run.is_open(boot_ns())
    }
}

/// Maps the first page of a descriptor.
pub fn map(descriptor: &OwnedFd, access: libc::c_int) -> io::Result<*mut u8> {
    map_bytes(descriptor, 4096, access)
}

/// Maps so much of a descriptor.
pub fn map_bytes(descriptor: &OwnedFd, bytes: usize, access: libc::c_int) -> io::Result<*mut u8> {
    let number = descriptor.as_raw_fd();
    // SAFETY: a new mapping touches no memory that is in use.
    let place = unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, number, 0) };
    match place {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        place => Ok(place.cast()),
    }
}

/// The clock that pages end by.
pub fn boot_ns() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).unwrap();
    u64::try_from(time.tv_sec() * 1_000_000_000 + time.tv_nsec()).unwrap()
}
