//! A small leafd, with unique ids from one counter, which misbehaves as the tag's name demands.
//!
//! | tag starts with | what happens |
//! |---|---|
//! | `slow` | the answer comes after 300 ms, out of order |
//! | `silent` | no answer |
//! | `deaf` | no answer on the server's first connection |
//! | `pair` | the answer comes together with that to the tag's next request; on one connection, in one write |
//! | `short` | ids may be held for 50 ms |
//! | `brief` | the same, and each answer consists of runs of at most three ids |
//! | `late` | ids may be held for 200 ms, and the answer comes after 300 ms |
//! | `strict` | ids may not be held; a request to hold gets one |
//! | `strided` | runs of every seventh number |
//! | `pieces` | each answer consists of runs of at most three ids |
//! | `unknown` | TAG_UNKNOWN |
//! | `stopping` | SHUTTING_DOWN, then the connection closes |
//! | `half` | half an answer, then the connection closes |
//! | `long` | a length field above the limit |
//! | `garbage` | an invalid body |
//! | `stray` | an answer to a request that was never sent |
//! | `twice` | the same answer twice |
//! | `fewer` | one id fewer than requested |
//! | `more` | one id more than requested |

use std::collections::HashMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use leafd_wire::frame::Frame;
use leafd_wire::reply::reply_header;
use leafd_wire::{
    COUNT_MAX, ErrorReply, Header, IdsReply, IdsRequest, InfoReply, Layout, REPLY_LENGTH_MAX,
    REQUEST_LENGTH_MAX, Run, Status, flag, opcode,
};

pub const SLOW: Duration = Duration::from_millis(300);

pub struct Server {
    folder: PathBuf,
    path: PathBuf,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
    pid: u32,
}

pub struct Shared {
    next: AtomicU64,
    stop: AtomicBool,
    /// The number of id requests by tag.
    pub requests: Mutex<HashMap<String, u64>>,
    pub connections_made: AtomicU64,
    pub admin_requests: AtomicU64,
    pub starts: AtomicU64,
    /// Whether answers have the flag AWAKE.
    pub awake: AtomicBool,
    streams: Mutex<Vec<UnixStream>>,
    /// The answer that waits for another one, by tag.
    halves: Mutex<HashMap<String, Half>>,
}

/// An answer, and the connection for it.
type Half = (Vec<u8>, Arc<Mutex<UnixStream>>);

impl Server {
    pub fn start() -> Server {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("leafd-client-test-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let mut server = Server {
            path: folder.join("leafd.sock"),
            folder,
            shared: Arc::new(Shared {
                next: AtomicU64::new(1),
                stop: AtomicBool::new(false),
                requests: Mutex::default(),
                connections_made: AtomicU64::new(0),
                admin_requests: AtomicU64::new(0),
                starts: AtomicU64::new(0),
                awake: AtomicBool::new(false),
                streams: Mutex::default(),
                halves: Mutex::default(),
            }),
            accepting: None,
            pid: std::process::id(),
        };
        server.restart();
        server
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The number of ids issued so far, of all tags together.
    pub fn given(&self) -> u64 {
        self.shared.next.load(Ordering::Relaxed) - 1
    }

    pub fn requests_for(&self, tag: &str) -> u64 {
        self.shared.requests.lock().unwrap().get(tag).copied().unwrap_or(0)
    }

    /// Closes all connections and removes the socket, like a daemon that has stopped.
    pub fn stop(&mut self) {
        self.kill();
        let _ = fs::remove_file(&self.path);
    }

    /// Closes all connections but leaves the socket, like a daemon that was killed.
    pub fn kill(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(accepting) = self.accepting.take() {
            accepting.join().unwrap();
        }
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    pub fn restart(&mut self) {
        self.stop();
        self.shared.stop.store(false, Ordering::SeqCst);
        self.shared.starts.fetch_add(1, Ordering::SeqCst);
        let listener = UnixListener::bind(&self.path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let shared = Arc::clone(&self.shared);
        self.accepting = Some(thread::spawn(move || accept(&listener, &shared)));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            self.stop();
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    while !shared.stop.load(Ordering::SeqCst) {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                shared.connections_made.fetch_add(1, Ordering::SeqCst);
                shared.streams.lock().unwrap().push(stream.try_clone().unwrap());
                let shared = Arc::clone(shared);
                thread::spawn(move || {
                    serve(&stream, &shared);
                    let _ = stream.shutdown(std::net::Shutdown::Both);
                });
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("accept: {error}"),
        }
    }
}

fn serve(mut stream: &UnixStream, shared: &Arc<Shared>) {
    let writer = Arc::new(Mutex::new(stream.try_clone().unwrap()));
    let mut received = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        let Ok(got @ 1..) = stream.read(&mut piece) else { return };
        received.extend_from_slice(&piece[..got]);
        let mut replies = Vec::new();
        let mut done = 0;
        let mut goes_on = true;
        while let Some((frame, length)) =
            Frame::first(&received[done..], REQUEST_LENGTH_MAX).unwrap()
        {
            done += length;
            goes_on = goes_on && answer(&frame, shared, &mut replies, &writer);
        }
        received.drain(..done);
        if writer.lock().unwrap().write_all(&replies).is_err() || !goes_on {
            return;
        }
    }
}

/// `false`: the connection closes.
fn answer(
    frame: &Frame<'_>,
    shared: &Arc<Shared>,
    replies: &mut Vec<u8>,
    writer: &Arc<Mutex<UnixStream>>,
) -> bool {
    let flags = if shared.awake.load(Ordering::Relaxed) { flag::AWAKE } else { 0 };
    let header = reply_header(&frame.header, Status::Ok, flags);
    match frame.header.opcode {
        opcode::INFO => info().put(&header, replies),
        opcode::STATUS => header.put_frame(b"{\"fine\":true}", replies),
        opcode::IDS => return answer_ids(frame, &header, shared, replies, writer),
        // The daemon dies after this administrative request.
        opcode::TAG_SET => {
            shared.admin_requests.fetch_add(1, Ordering::SeqCst);
            return false;
        }
        _ => {
            shared.admin_requests.fetch_add(1, Ordering::SeqCst);
            header.put_frame(frame.body, replies);
        }
    }
    true
}

fn answer_ids(
    frame: &Frame<'_>,
    header: &Header,
    shared: &Arc<Shared>,
    replies: &mut Vec<u8>,
    writer: &Arc<Mutex<UnixStream>>,
) -> bool {
    let request = IdsRequest::decode(frame.body).unwrap();
    let tag = std::str::from_utf8(request.tag).unwrap();
    *shared.requests.lock().unwrap().entry(tag.to_owned()).or_default() += 1;
    let hold = frame.header.flags & flag::HOLD != 0;
    let kind = tag.split(['-', '.']).next().unwrap();
    let count = match kind {
        "strict" if hold => 1,
        "fewer" => (request.count - 1).max(1),
        "more" => request.count + 1,
        _ => request.count,
    };
    let hold_ms = match kind {
        "strict" => 0,
        "short" | "brief" => 50,
        "late" => 200,
        _ => 60_000,
    };
    let mut reply = Vec::new();
    IdsReply::put(header, hold_ms, &draw(kind, count, shared), &mut reply);
    match kind {
        "silent" => return true,
        "deaf" if shared.starts.load(Ordering::SeqCst) == 1 => return true,
        "pair" => {
            let mut halves = shared.halves.lock().unwrap();
            match halves.remove(tag) {
                None => {
                    halves.insert(tag.to_owned(), (reply, Arc::clone(writer)));
                    return true;
                }
                Some((other, its)) if Arc::ptr_eq(&its, writer) => replies.extend(other),
                Some((other, its)) => its.lock().unwrap().write_all(&other).unwrap(),
            }
        }
        "slow" | "late" => {
            let writer = Arc::clone(writer);
            thread::spawn(move || {
                thread::sleep(SLOW);
                let _ = writer.lock().unwrap().write_all(&reply);
            });
            return true;
        }
        "unknown" => {
            let header = reply_header(&frame.header, Status::TagUnknown, 0);
            let message = "there is no such tag";
            ErrorReply { retry_after_ms: 0, message }.put(&header, replies);
            return true;
        }
        "stopping" if shared.requests.lock().unwrap()[tag] < 4 => {
            let header = reply_header(&frame.header, Status::ShuttingDown, 0);
            ErrorReply { retry_after_ms: 5, message: "stopping" }.put(&header, replies);
            return false;
        }
        "half" => {
            replies.extend_from_slice(&reply[..reply.len() / 2]);
            return false;
        }
        "long" => reply[..4].copy_from_slice(&(REPLY_LENGTH_MAX + 1).to_le_bytes()),
        "garbage" => reply[12..].fill(0xee),
        "stray" => reply[8..12].copy_from_slice(&0xdead_beef_u32.to_le_bytes()),
        "twice" => replies.extend_from_slice(&reply),
        _ => {}
    }
    replies.extend_from_slice(&reply);
    true
}

fn draw(kind: &str, count: u32, shared: &Shared) -> Vec<Run> {
    let stride = if kind == "strided" { 7 } else { 1 };
    let first = shared.next.fetch_add(u64::from(count) * u64::from(stride), Ordering::Relaxed);
    if !["pieces", "brief"].contains(&kind) {
        return vec![Run { first, count, stride }];
    }
    (0..count)
        .step_by(3)
        .map(|from| Run { first: first + u64::from(from), count: (count - from).min(3), stride })
        .collect()
}

fn info() -> InfoReply {
    InfoReply {
        version: 1,
        segments_ready: true,
        snowflake_ready: false,
        request_length_max: REQUEST_LENGTH_MAX,
        count_max: COUNT_MAX,
        pipeline_max: 1024,
        deadline_ms_max: 60_000,
        pid: std::process::id(),
        release: "test".to_owned(),
        layouts: vec![("snowflake".to_owned(), Layout::LEAF)],
    }
}
