//! A TCP relay between daemons and a server, controlled by a test. It passes, delays or swallows bytes, refuses
//! connections and cuts open ones, and can fail at the one moment that matters: a claim's COMMIT.
//!
//! A black hole swallows all bytes, in both directions or only from the server. A side from which it keeps bytes doesn't
//! learn that the other has closed. A connection that lost bytes this way never passes bytes again: [`Relay::pass`] cuts
//! it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::mem;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::host::eventually;
use crate::servers::process::free_port;

/// `COMMIT` as clients send it: the end of a simple query of PostgreSQL's, a COM_QUERY of MySQL's.
const COMMITS: [&[u8]; 2] = [b"COMMIT\0", b"\x07\0\0\0\x03COMMIT"];

/// How often the accepting thread checks what to do.
const LOOK_EVERY: Duration = Duration::from_millis(3);

/// A relay on its own port.
pub struct Relay {
    port: u16,
    shared: Arc<Mutex<Shared>>,
    accepting: Option<JoinHandle<()>>,
}

/// What happens at a transaction's COMMIT, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtCommit {
    /// The server commits, but its answer is not passed on, and the connection is cut.
    CutAnswer,
    /// The server commits, but its answer and everything after it are swallowed.
    SwallowAnswer,
    /// The server commits, but its answer is delayed by this time.
    DelayAnswer(Duration),
    /// The server never receives the COMMIT, and the connection stays open on its side.
    SwallowCommit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Pass,
    Swallow,
    SwallowAnswers,
    Refuse,
    End,
}

struct Shared {
    /// The port that connections lead to.
    target: u16,
    mode: Mode,
    delay: Duration,
    /// What to do at the COMMIT that follows this text on its connection.
    at_commit: Option<(String, AtCommit)>,
    commits_met: u32,
    round_trips: u32,
    listening: bool,
    accepted: u32,
    open: Vec<Arc<Link>>,
}

/// One connection.
struct Link {
    client: TcpStream,
    server: TcpStream,
    state: Mutex<LinkState>,
}

#[derive(Default)]
struct LinkState {
    swallows: bool,
    /// The server gets everything, and the client nothing.
    swallows_answers: bool,
    /// The client has sent something, and the server has not answered yet.
    is_asking: bool,
    /// The text before [`Shared::at_commit`] was seen here.
    named: bool,
    /// The next answer is a COMMIT's: cut the connection instead of passing it.
    cut_answer: bool,
    /// The next answer is a COMMIT's: delay it by this time.
    delay_answer: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

impl Relay {
    /// A relay to this port on the loopback interface.
    pub fn to(target: u16) -> Relay {
        let port = free_port();
        let shared = Arc::new(Mutex::new(Shared {
            target,
            mode: Mode::Pass,
            delay: Duration::ZERO,
            at_commit: None,
            commits_met: 0,
            round_trips: 0,
            listening: false,
            accepted: 0,
            open: Vec::new(),
        }));
        let accepting = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(port, &shared)
        });
        let relay = Relay { port, shared, accepting: Some(accepting) };
        relay.until_listening(true);
        relay
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections were accepted.
    pub fn accepted(&self) -> u32 {
        self.lock().accepted
    }

    /// Passes everything; connections that were in a black hole are cut.
    pub fn pass(&self) {
        let mut shared = self.lock();
        shared.mode = Mode::Pass;
        shared.delay = Duration::ZERO;
        shared.open.retain(|link| {
            let state = link.state.lock().unwrap();
            let broken = state.swallows || state.swallows_answers;
            drop(state);
            if broken {
                link.cut();
            }
            !broken
        });
        drop(shared);
        self.until_listening(true);
    }

    /// Passes everything, delayed by this time.
    pub fn delay(&self, by: Duration) {
        self.lock().delay = by;
    }

    /// Accepts connections and swallows all bytes, also of open connections.
    pub fn swallow(&self) {
        let mut shared = self.lock();
        shared.mode = Mode::Swallow;
        for link in &shared.open {
            link.state.lock().unwrap().swallows = true;
        }
    }

    /// Passes what clients send, and swallows what the server answers, as when the network is broken in one direction.
    pub fn swallow_answers(&self) {
        let mut shared = self.lock();
        shared.mode = Mode::SwallowAnswers;
        for link in &shared.open {
            link.state.lock().unwrap().swallows_answers = true;
        }
    }

    /// Cuts the open connections.
    pub fn cut(&self) {
        for link in self.lock().open.drain(..) {
            link.cut();
        }
    }

    /// Cuts the open connections and stops listening.
    pub fn refuse(&self) {
        self.lock().mode = Mode::Refuse;
        self.until_listening(false);
        self.cut();
    }

    /// Redirects new connections to another port, and cuts the open ones.
    pub fn lead_to(&self, target: u16) {
        self.lock().target = target;
        self.cut();
    }

    /// At the COMMIT of the next transaction that contains this text, fails in this way, once.
    pub fn at_commit_of(&self, text: &str, what: AtCommit) {
        self.lock().at_commit = Some((text.to_owned(), what));
    }

    /// How many COMMITs [`Relay::at_commit_of`] has acted on.
    pub fn commits_met(&self) -> u32 {
        self.lock().commits_met
    }

    /// How often a client has sent something after an answer.
    pub fn round_trips(&self) -> u32 {
        self.lock().round_trips
    }

    fn until_listening(&self, listening: bool) {
        eventually("the relay's listener", Duration::from_secs(10), || {
            (self.lock().listening == listening).then_some(())
        });
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.lock().mode = Mode::End;
        self.cut();
        let _ = self.accepting.take().map(JoinHandle::join);
    }
}

fn accept(port: u16, shared: &Arc<Mutex<Shared>>) {
    let mut listener: Option<TcpListener> = None;
    loop {
        std::thread::sleep(LOOK_EVERY);
        let mut now = shared.lock().unwrap();
        match now.mode {
            Mode::End => return,
            Mode::Refuse => listener = None,
            Mode::Pass | Mode::Swallow | Mode::SwallowAnswers if listener.is_none() => {
                listener = TcpListener::bind(("127.0.0.1", port)).ok();
                if let Some(listener) = &listener {
                    listener.set_nonblocking(true).unwrap();
                }
            }
            Mode::Pass | Mode::Swallow | Mode::SwallowAnswers => {}
        }
        now.listening = listener.is_some();
        let (target, mode) = (now.target, now.mode);
        drop(now);
        while let Some((client, _)) = listener.as_ref().and_then(|one| one.accept().ok()) {
            client.set_nonblocking(false).unwrap();
            // If the server is not running, the client's connection ends here.
            let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { continue };
            let state = Mutex::new(LinkState {
                swallows: mode == Mode::Swallow,
                swallows_answers: mode == Mode::SwallowAnswers,
                ..LinkState::default()
            });
            let link = Arc::new(Link { client, server, state });
            let mut now = shared.lock().unwrap();
            now.accepted += 1;
            now.open.push(Arc::clone(&link));
            drop(now);
            for direction in [Direction::ToServer, Direction::ToClient] {
                let (link, shared) = (Arc::clone(&link), Arc::clone(shared));
                std::thread::spawn(move || {
                    link.pump(direction, &shared);
                    if !link.hides(direction) {
                        link.cut();
                        shared.lock().unwrap().open.retain(|open| !Arc::ptr_eq(open, &link));
                    }
                });
            }
        }
    }
}

impl Link {
    fn cut(&self) {
        // Either side may have closed already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    /// Whether what one side does in this direction is kept from the other one.
    fn hides(&self, direction: Direction) -> bool {
        let state = self.state.lock().unwrap();
        state.swallows || state.swallows_answers && direction == Direction::ToClient
    }

    /// Moves bytes one way until either side ends. Bytes are read immediately, and written when their delay is over.
    fn pump(self: &Arc<Link>, direction: Direction, shared: &Mutex<Shared>) {
        let (late, due) = mpsc::channel::<(Instant, Vec<u8>)>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for (at, bytes) in due {
                    std::thread::sleep(at.saturating_duration_since(Instant::now()));
                    if !self.put(direction, &bytes) {
                        self.cut();
                    }
                }
            });
            self.take(direction, shared, &late);
            drop(late);
        });
    }

    /// Reads until the end.
    fn take(
        &self,
        direction: Direction,
        shared: &Mutex<Shared>,
        late: &mpsc::Sender<(Instant, Vec<u8>)>,
    ) {
        let mut from = if direction == Direction::ToServer { &self.client } else { &self.server };
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let count = match from.read(&mut bytes) {
                Ok(0) => return,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let is_asking = direction == Direction::ToServer;
            let was_asking = mem::replace(&mut self.state.lock().unwrap().is_asking, is_asking);
            shared.lock().unwrap().round_trips += u32::from(is_asking && !was_asking);
            if is_asking {
                self.meet_commit(&bytes[..count], shared);
            }
            let mut delay = shared.lock().unwrap().delay;
            if direction == Direction::ToClient {
                delay += mem::take(&mut self.state.lock().unwrap().delay_answer);
            }
            let at = Instant::now() + delay;
            if late.send((at, bytes[..count].to_vec())).is_err() {
                return;
            }
        }
    }

    /// Writes the bytes, unless they are to be lost. Returns false if this ends the connection.
    fn put(&self, direction: Direction, bytes: &[u8]) -> bool {
        let state = self.state.lock().unwrap();
        if direction == Direction::ToClient && state.cut_answer {
            return false;
        }
        drop(state);
        let mut to = if direction == Direction::ToServer { &self.server } else { &self.client };
        self.hides(direction) || to.write_all(bytes).is_ok()
    }

    /// Prepares what happens at a COMMIT, if this is the one. Clients send a call's COMMIT in one piece with the statements
    /// before it, or alone, so it arrives whole.
    fn meet_commit(&self, bytes: &[u8], shared: &Mutex<Shared>) {
        let contains = |part: &[u8]| bytes.windows(part.len()).any(|some| some == part);
        let mut shared = shared.lock().unwrap();
        let Some((tag, what)) = shared.at_commit.clone() else { return };
        let mut state = self.state.lock().unwrap();
        state.named |= contains(tag.as_bytes());
        if !state.named || !COMMITS.into_iter().any(contains) {
            return;
        }
        shared.at_commit = None;
        shared.commits_met += 1;
        match what {
            AtCommit::CutAnswer => state.cut_answer = true,
            AtCommit::DelayAnswer(by) => state.delay_answer = by,
            AtCommit::SwallowCommit => state.swallows = true,
            AtCommit::SwallowAnswer => {
                // Set before the answer can arrive.
                state.swallows = true;
                let _ = (&self.server).write_all(bytes);
            }
        }
    }
}
