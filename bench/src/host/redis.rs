//! Redis, for comparison: a server that stores nothing on disk, and INCR over its Unix socket.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::transport::Transport;
use crate::processes::{Process, find_program};

/// A server in a temporary directory.
#[derive(Debug)]
pub(crate) struct RedisServer {
    pub(super) process: Process,
    pub(crate) socket: PathBuf,
    _dir: TempDir,
}

/// One connection that increments one key.
#[derive(Debug)]
pub(super) struct RedisTransport {
    stream: UnixStream,
    request: Vec<u8>,
    requests: Vec<u8>,
    received: Vec<u8>,
    /// Where a read goes first. It is kept, so that a read doesn't have to clear it.
    buffer: Box<[u8]>,
}

const READ_BYTES: usize = 16 * 1024;

const START_WITHIN: Duration = Duration::from_secs(5);

// === impl RedisServer ===

impl RedisServer {
    /// `None`: it is not installed.
    pub(crate) fn start() -> Result<Option<RedisServer>> {
        let Some(program) = find_program("redis-server") else { return Ok(None) };
        let dir = tempfile::Builder::new().prefix("leafd-bench-redis-").tempdir()?;
        let socket = dir.path().join("redis.sock");
        let mut command = Command::new(program);
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no"]);
        command.arg("--unixsocket").arg(&socket).arg("--dir").arg(dir.path());
        command.args(["--logfile", "redis.log"]).stdin(Stdio::null()).stderr(Stdio::null());
        let process = Process::start(&mut command)?;
        let server = RedisServer { process, socket, _dir: dir };
        let give_up = Instant::now() + START_WITHIN;
        while let Err(error) = RedisTransport::connect(&server.socket, "ready")
            .and_then(|mut transport| transport.one())
        {
            if Instant::now() >= give_up {
                return Err(error.context("redis-server does not get ready"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Some(server))
    }
}

// === impl RedisTransport ===

impl RedisTransport {
    pub(super) fn connect(socket: &Path, key: &str) -> Result<RedisTransport> {
        let stream = UnixStream::connect(socket).context("cannot connect to redis-server")?;
        let request = format!("*2\r\n$4\r\nINCR\r\n${}\r\n{key}\r\n", key.len()).into_bytes();
        Ok(RedisTransport {
            stream,
            request,
            requests: Vec::new(),
            received: Vec::new(),
            buffer: vec![0; READ_BYTES].into(),
        })
    }

    /// Reads until `count` answers have arrived, and appends their numbers.
    fn answers(&mut self, count: usize, ids: &mut Vec<u64>) -> Result<()> {
        let mut left = count;
        loop {
            let mut taken = 0;
            while let Some((id, length)) = integer(&self.received[taken..])? {
                ids.push(id);
                taken += length;
                left -= 1;
                if left == 0 {
                    break;
                }
            }
            self.received.drain(..taken);
            if left == 0 {
                return Ok(());
            }
            match self.stream.read(&mut self.buffer) {
                Ok(0) => bail!("redis-server closed the connection"),
                Ok(got) => self.received.extend_from_slice(&self.buffer[..got]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot read from redis-server"),
            }
        }
    }
}

/// The number in the answer `:N\r\n` at the front, and the answer's length.
fn integer(bytes: &[u8]) -> Result<Option<(u64, usize)>> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end])?;
    let Some(number) = text.strip_prefix(':') else { bail!("redis-server answered {text:?}") };
    Ok(Some((number.parse()?, end + 2)))
}

impl Transport for RedisTransport {
    fn one(&mut self) -> Result<u64> {
        self.stream.write_all(&self.request)?;
        let mut ids = Vec::with_capacity(1);
        self.answers(1, &mut ids)?;
        ids.first().copied().context("an answer without a number")
    }

    fn pipelined(&mut self, depth: usize, ids: &mut Vec<u64>) -> Result<()> {
        self.requests.clear();
        for _ in 0..depth {
            self.requests.extend_from_slice(&self.request);
        }
        self.stream.write_all(&self.requests)?;
        self.answers(depth, ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_integers_or_errors() {
        assert_eq!(integer(b":12\r\n:3").unwrap(), Some((12, 5)));
        assert_eq!(integer(b":12\r").unwrap(), None);
        assert!(integer(b"-ERR no\r\n").is_err());
    }
}
