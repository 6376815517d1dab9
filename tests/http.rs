//! A minimal HTTP client: sends a request's bytes and reads the whole answer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::host::{Host, eventually};

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The head as received, status line included.
    pub head: String,
    pub body: String,
}

/// How long one answer may take on a busy machine.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// Requests a path over a new connection.
#[track_caller]
pub fn get(address: &str, path: &str) -> Answer {
    get_with(address, path, "")
}

/// The same with more header fields, each ended by `\r\n`.
#[track_caller]
pub fn get_with(address: &str, path: &str, fields: &str) -> Answer {
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{fields}\r\n");
    send(TcpStream::connect(address).unwrap(), head.as_bytes())
}

/// Sends bytes and reads until the other end closes.
#[track_caller]
pub fn send(mut stream: impl Read + Write, bytes: &[u8]) -> Answer {
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // A reset after the answer also ends it, so errors are ignored.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) =
        answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

impl Answer {
    /// A field of the head.
    pub fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields
            .into_iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

impl Host {
    /// The address in the last log line of the daemon that reports where it serves `what` over HTTP.
    pub fn http(&self, what: &str) -> String {
        eventually("the daemon serves HTTP", ANSWERS_WITHIN, || {
            let log = self.log();
            let line = log.lines().rfind(|line| line.contains(what))?;
            line.split_whitespace().next_back().map(str::to_owned)
        })
    }
}
