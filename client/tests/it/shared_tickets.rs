//! A ticket of a shared run is one page's alone: on the next page the same number is another process's.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fs, mem, ptr};

use leafd_client::Client;
use leafd_wire::frame::Frame;
use leafd_wire::reply::reply_header;
use leafd_wire::share::TICKETS_PER_ENTRY;
use leafd_wire::{REQUEST_LENGTH_MAX, ShareReply, ShareRequest, Status};

use crate::checks::check_unique;
use crate::shared_pages::Pages;

/// A daemon that says what the test has it say.
struct Daemon {
    stream: UnixStream,
    received: Vec<u8>,
}

/// One process's wish for a shared run.
struct Asked {
    header: leafd_wire::Header,
    deadline_ms: u32,
    page: u64,
}

impl Daemon {
    /// The next SHARE, if one comes soon.
    fn asked(&mut self) -> Option<Asked> {
        loop {
            if let Some((frame, length)) = Frame::first(&self.received, REQUEST_LENGTH_MAX).unwrap()
            {
                let request = ShareRequest::decode(frame.body).unwrap();
                let ShareRequest { deadline_ms, page, .. } = request;
                let asked = Asked { header: frame.header, deadline_ms, page };
                self.received.drain(..length);
                return Some(asked);
            }
            let mut piece = [0; 4_096];
            let got = self.stream.read(&mut piece).ok()?;
            assert!(got > 0, "the client is gone");
            self.received.extend_from_slice(&piece[..got]);
        }
    }

    /// The next SHARE of a thread that waits for its answer, and holds a ticket of this page.
    fn asked_with_a_ticket(&mut self, pages: &Pages, taken: u64) -> Asked {
        loop {
            pages.renew();
            let Some(asked) = self.asked() else { continue };
            if asked.deadline_ms > 0 && pages.tickets.taken() >= taken {
                assert_eq!(asked.page, pages.number);
                return asked;
            }
            self.say(&asked, ShareReply::Same { page: pages.number }, None);
        }
    }

    fn say(&mut self, asked: &Asked, reply: ShareReply, along: Option<&Pages>) {
        let mut bytes = Vec::new();
        reply_header(&asked.header, Status::Ok, 0).put_frame(&reply.body(), &mut bytes);
        let Some(pages) = along else { return self.stream.write_all(&bytes).unwrap() };
        let numbers = pages.descriptors().map(|descriptor| descriptor.as_raw_fd());
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut room = [0_u64; 8];
        // SAFETY: all zeros is a valid message; what it points to are locals, and there is room for two numbers.
        unsafe {
            let mut message: libc::msghdr = mem::zeroed();
            (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
            message.msg_control = room.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of_val(&numbers) as u32) as _;
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(size_of_val(&numbers) as u32) as _;
            ptr::copy_nonoverlapping(numbers.as_ptr(), libc::CMSG_DATA(head).cast(), 2);
            let sent = libc::sendmsg(self.stream.as_raw_fd(), &raw const message, 0);
            assert_eq!(sent, bytes.len() as isize, "{}", std::io::Error::last_os_error());
        }
    }

    /// Keeps this page live until a thread has its id.
    fn serve(&mut self, pages: &Pages, thread: JoinHandle<u64>) -> u64 {
        while !thread.is_finished() {
            pages.renew();
            if let Some(asked) = self.asked() {
                match asked.page == pages.number {
                    true => self.say(&asked, ShareReply::Same { page: asked.page }, None),
                    false => {
                        let page = pages.number;
                        self.say(&asked, ShareReply::Pages { page }, Some(pages));
                    }
                }
            }
        }
        thread.join().unwrap()
    }
}

#[test]
fn a_ticket_is_not_looked_up_on_the_page_that_another_thread_has_mapped_meanwhile() {
    let name = format!("leafd-client-test-{}-tickets", std::process::id());
    let path = std::env::temp_dir().join(name);
    let listener = UnixListener::bind(&path).unwrap();
    let client = Client::builder().socket(&path).deadline(Duration::from_secs(30)).shared(true);
    let client = client.build().unwrap();
    let draw = || {
        let client = client.clone();
        thread::spawn(move || client.next("orders").unwrap())
    };

    // One id, and tickets of the second entry stand for nothing yet.
    let old = Pages::new(7);
    old.publish(1, 1);
    let first = draw();
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let mut daemon = Daemon { stream, received: Vec::new() };
    let mut ids = vec![daemon.serve(&old, first)];
    let late = draw();
    let late_asked = daemon.asked_with_a_ticket(&old, TICKETS_PER_ENTRY + 1);
    let quick = draw();
    let quick_asked = daemon.asked_with_a_ticket(&old, TICKETS_PER_ENTRY + 2);

    // The run ends while both wait, and one of them maps the next one before the other hears of it.
    old.run.retire();
    let new = Pages::new(8);
    [101, 201].into_iter().for_each(|first| new.publish(first, 32));
    daemon.say(&quick_asked, ShareReply::Pages { page: 8 }, Some(&new));
    ids.push(daemon.serve(&new, quick));
    daemon.say(&late_asked, ShareReply::NotShared { again_ms: 0 }, None);
    ids.push(daemon.serve(&new, late));

    ids.extend(new.drain());
    assert_eq!(check_unique(ids), 1 + 64);
    fs::remove_file(path).unwrap();
}
