//! The floor: what two processes need to exchange messages of leafd's size, without any other work.

use std::io::{ErrorKind, Read, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::processes::{Process, helper};
use crate::stats::{Stats, Stretch, call_ns, put_percentiles};
use crate::stop::End;

/// An IDS request for a tag of six bytes.
const REQUEST_BYTES: usize = 28;

/// The answer, with one run.
const REPLY_BYTES: usize = 36;

const WARM_UP: usize = 64;

/// Measures round trips to an echo in another process. `polls`: neither side ever sleeps.
pub(super) fn measure(polls: bool, time: Duration) -> Result<Stats> {
    let (echo, mut stream) = start(polls)?;
    stream.set_nonblocking(polls)?;
    for _ in 0..WARM_UP {
        round_trip(&mut stream)?;
    }
    let mut latencies_ns = Vec::new();
    let stretch = Stretch::begin(Some(echo.cpu_clock()));
    let end = End::after(time);
    let mut now = Instant::now();
    while !end.reached_at(now) {
        round_trip(&mut stream)?;
        let after = Instant::now();
        latencies_ns.push(call_ns(after - now));
        now = after;
    }
    let mut stats = stretch.end(latencies_ns.len());
    put_percentiles(&mut latencies_ns, &mut stats);
    Ok(stats)
}

/// Starts an echo. Returns it with this side of its socket.
pub(crate) fn start(polls: bool) -> Result<(Process, UnixStream)> {
    let (stream, theirs) = UnixStream::pair().context("cannot make a pair of sockets")?;
    let mut command = helper("helper-echo")?;
    if polls {
        command.arg("--polls");
    }
    // Dropping the command closes our copy of the echo's end, so that the end of the echo is noticed.
    let echo = Process::start(command.stdin(Stdio::from(OwnedFd::from(theirs))))?;
    Ok((echo, stream))
}

fn round_trip(stream: &mut UnixStream) -> Result<()> {
    stream.write_all(&[1; REQUEST_BYTES])?;
    receive(stream, &mut [0; REPLY_BYTES]).context("the echo is gone")
}

/// The echo itself. Its standard input is the socket. It ends when the other side does.
pub(crate) fn serve(polls: bool) -> Result<()> {
    let mut stream = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    stream.set_nonblocking(polls)?;
    while receive(&mut stream, &mut [0; REQUEST_BYTES]).is_ok() {
        if stream.write_all(&[2; REPLY_BYTES]).is_err() {
            break;
        }
    }
    Ok(())
}

/// Fills `bytes`, polling a socket that does not block.
fn receive(stream: &mut UnixStream, bytes: &mut [u8]) -> std::io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match stream.read(&mut bytes[filled..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(got) => filled += got,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
