//! Distinguishes a write-ahead log that ends in an incomplete commit from one that is damaged in the middle.
//!
//! SQLite reads its log up to the first frame whose checksum is wrong, and silently drops the rest. That is correct for
//! the last commit before a power failure, which was never acknowledged. Every commit is synced before the next one
//! begins, so at most one can be incomplete. If two or more follow the first wrong frame, SQLite would drop
//! acknowledged ones, so such a log is refused.

use std::fs::OpenOptions;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::fault::Fault;

const LOG_HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// The running checksum of a log, over pairs of 32-bit words.
struct Checksum {
    words_big_endian: bool,
    state: (u32, u32),
}

/// Refuses a log in which SQLite would drop acknowledged commits. A missing log is fine.
pub(super) fn check(log: &Path) -> Result<(), Fault> {
    // Opening a FIFO would wait for a writer. SQLite refuses one.
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(log) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Fault::io("opening its write-ahead log")(e)),
    };
    let dropped = commits_behind_damage(BufReader::new(file))
        .map_err(Fault::io("reading its write-ahead log"))?;
    match dropped {
        Some(commits) if commits > 1 => Err(Fault::damaged(format!(
            "{commits} commits follow a wrong checksum in its write-ahead log {}",
            log.display()
        ))),
        Some(_) => Ok(()),
        None => Err(Fault::damaged(format!(
            "the header of its write-ahead log {} is wrong",
            log.display()
        ))),
    }
}

/// How many commits in the log's current round SQLite would drop; `None` if it would drop the whole log because of its
/// header.
fn commits_behind_damage(mut log: impl Read) -> io::Result<Option<u32>> {
    let mut header = [0; LOG_HEADER_BYTES];
    if !fill(&mut log, &mut header)? {
        return Ok(Some(0));
    }
    let mut sum = Checksum { words_big_endian: header[3] & 1 == 1, state: (0, 0) };
    sum.add(&header[..24]);
    let page_bytes = word(&header, 8) as usize;
    let magic_right = word(&header, 0) & !1 == 0x377f_0682;
    if !magic_right || sum.state != (word(&header, 24), word(&header, 28)) || page_bytes > 65_536 {
        // The header is synced before any frame is written, so in a log without frames the header itself may be
        // incomplete.
        return Ok(if log.read(&mut [0; 1])? == 0 { Some(0) } else { None });
    }
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes];
    let mut sound = true;
    let mut dropped = 0;
    while fill(&mut log, &mut frame)? {
        // Frames from an earlier round of the log have different salts and don't count.
        let current = frame[8..16] == header[16..24];
        if sound {
            sum.add(&frame[..8]);
            sum.add(&frame[FRAME_HEADER_BYTES..]);
            sound = current && sum.state == (word(&frame, 16), word(&frame, 20));
        }
        let commits = word(&frame, 4) != 0;
        if !sound && current && commits {
            dropped += 1;
        }
    }
    Ok(Some(dropped))
}

/// Fills `piece`; `false` if too little is left.
fn fill(log: &mut impl Read, piece: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(piece) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

// === impl Checksum ===

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        let (mut a, mut b) = self.state;
        for pair in bytes.chunks_exact(8) {
            let (mut x, mut y) = (word(pair, 0), word(pair, 4));
            if !self.words_big_endian {
                (x, y) = (x.swap_bytes(), y.swap_bytes());
            }
            a = a.wrapping_add(x).wrapping_add(b);
            b = b.wrapping_add(y).wrapping_add(a);
        }
        self.state = (a, b);
    }
}
