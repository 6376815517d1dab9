//! The bytes that wait for one peer, and the memory that they take. The memory of bytes that the peer has read is
//! released early, because otherwise peers that stop before the last byte would hold all of it.

use leafd_wire::Sink;

/// How much memory it keeps while empty, in bytes.
pub const IDLE_BYTES: usize = 4 * 1024;

/// Bytes to write, in their order.
#[derive(Debug, Default)]
pub struct Backlog {
    bytes: Vec<u8>,
    /// How many of them are written.
    written: usize,
}

/// How much of its peer's share a buffer with this much memory and this many bytes takes. An idle connection's small
/// buffers belong to the connection itself.
pub fn used_bytes(memory: usize, waiting: usize) -> usize {
    match memory {
        0..=IDLE_BYTES => waiting,
        memory => memory,
    }
}

impl Sink for Backlog {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

impl Backlog {
    /// Makes room for this many more bytes, and for no more than that.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve_exact(bytes);
    }

    /// The waiting bytes.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    /// Records that this many more bytes have been written.
    pub fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        let rest = self.rest();
        if rest.is_empty() && self.bytes.capacity() <= IDLE_BYTES {
            self.bytes.clear();
        } else if self.written > rest.len() {
            // This way each byte is copied at most once, on average.
            self.bytes = rest.to_vec();
        } else {
            return;
        }
        self.written = 0;
    }

    /// How much of its peer's share of memory it takes.
    pub fn used_bytes(&self) -> usize {
        used_bytes(self.memory_bytes(), self.rest().len())
    }

    /// The memory that it takes, in bytes, including that of written bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_in_their_order_however_they_are_put_and_written() {
        for seed in 0..50 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut backlog, mut next, mut expected) = (Backlog::default(), 0u8, 0u8);
            for _ in 0..500 {
                for _ in 0..random.usize(..3) {
                    let piece = [next].repeat(random.usize(..2_000));
                    next = if piece.is_empty() { next } else { next.wrapping_add(1) };
                    backlog.put(&piece);
                }
                let count = random.usize(..=backlog.rest().len());
                for byte in &backlog.rest()[..count] {
                    assert!(*byte == expected || *byte == expected.wrapping_add(1), "seed {seed}");
                    expected = *byte;
                }
                backlog.wrote(count);
            }
        }
    }

    #[test]
    fn what_a_slow_peer_has_read_takes_no_memory_once_it_is_the_larger_part() {
        let mut backlog = Backlog::default();
        backlog.put(&[7; 256 * 1024]);
        backlog.wrote(100 * 1024);
        assert!(backlog.memory_bytes() >= 256 * 1024, "it is held, so it counts");
        backlog.wrote(60 * 1024);
        assert_eq!(backlog.memory_bytes(), 96 * 1024);
        // Shrinks to its last bytes, which may wait for a long time.
        backlog.wrote(96 * 1024 - 10);
        assert_eq!(backlog.memory_bytes(), 10);
        assert_eq!(backlog.rest(), [7; 10]);
    }

    #[test]
    fn an_empty_one_keeps_little() {
        let mut backlog = Backlog::default();
        for bytes in [10, IDLE_BYTES, 256 * 1024] {
            backlog.put(&vec![7; bytes]);
            backlog.wrote(bytes);
            assert!(backlog.is_empty() && backlog.memory_bytes() <= IDLE_BYTES, "{bytes}");
        }
    }
}
