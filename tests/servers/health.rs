//! Just enough HTTP to ask a server for its health, and to answer such a question.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// How long an answer may take: more than a server needs to change its role.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// Asks the server on this port. Returns the answer's status and body; `None` without an answer.
pub fn request(port: u16, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(ANSWERS_WITHIN)).ok()?;
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Some((status, body.to_owned()))
}

/// Answers every request with 200 or 503 while the process lives. Returns its port.
pub fn answer(is_well: impl Fn() -> bool + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let status = if is_well() { "200 OK" } else { "503 Service Unavailable" };
            // The client may have given up.
            let _ = reply(&stream, status);
        }
    });
    port
}

fn reply(mut stream: &TcpStream, status: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut lines = BufReader::new(stream).lines();
    while !lines.next().transpose()?.unwrap_or_default().is_empty() {}
    write!(stream, "HTTP/1.0 {status}\r\nContent-Length: 0\r\n\r\n")
}
