//! Helpers that several tests share.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leafd_client::Client;

use crate::server::Server;

pub fn client(server: &Server) -> Client {
    Client::builder().socket(server.path()).build().unwrap()
}

/// A client that draws every id directly.
pub fn direct(server: &Server) -> Client {
    Client::builder().socket(server.path()).direct(true).build().unwrap()
}

#[track_caller]
pub fn check_unique(ids: impl IntoIterator<Item = u64>) -> usize {
    let mut seen = HashSet::new();
    for id in ids {
        assert!(id > 0 && i64::try_from(id).is_ok(), "{id} is not a positive signed number");
        assert!(seen.insert(id), "id {id} repeats");
    }
    seen.len()
}

#[track_caller]
pub fn check_within(took: Duration, from_ms: u64, to_ms: u64) {
    let expected = Duration::from_millis(from_ms)..=Duration::from_millis(to_ms);
    assert!(expected.contains(&took), "it took {took:?}, not {expected:?}");
}

/// Waits until the condition holds.
#[track_caller]
pub fn until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "the condition did not become true");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Random numbers. The seed is printed, and can be set in `LEAFD_TEST_SEED`.
pub struct Random(u64);

impl Random {
    pub fn new() -> Random {
        let seed = match std::env::var("LEAFD_TEST_SEED") {
            Ok(seed) => seed.parse().expect("LEAFD_TEST_SEED is a number"),
            Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64,
        };
        println!("LEAFD_TEST_SEED={seed}");
        Random::of(seed)
    }

    pub fn of(seed: u64) -> Random {
        Random(seed | 1)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
