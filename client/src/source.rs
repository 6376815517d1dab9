//! The trait that a client and its fake have in common, and the fake.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use leafd_wire::{Run, Status};

use crate::client::Client;
use crate::error::{Error, Result};
use crate::ids::{Ids, requests_of_batch};

/// A source of ids: a [`Client`], or a [`FakeClient`] in tests.
pub trait IdSource {
    /// Same as [`Client::next`].
    ///
    /// # Errors
    /// Same as [`Client::next`].
    fn next(&self, tag: &str) -> Result<u64>;

    /// Same as [`Client::next_direct`].
    ///
    /// # Errors
    /// Same as [`Client::next`].
    fn next_direct(&self, tag: &str) -> Result<u64>;

    /// Same as [`Client::next_batch`].
    ///
    /// # Errors
    /// Same as [`Client::next_batch`].
    fn next_batch(&self, tag: &str, count: u64) -> Result<Ids>;
}

impl IdSource for Client {
    fn next(&self, tag: &str) -> Result<u64> {
        Client::next(self, tag)
    }

    fn next_direct(&self, tag: &str) -> Result<u64> {
        Client::next_direct(self, tag)
    }

    fn next_batch(&self, tag: &str, count: u64) -> Result<Ids> {
        Client::next_batch(self, tag, count)
    }
}

/// A client for tests, without a daemon. The ids of each tag are 1, 2, 3, and so on.
///
/// ```
/// use leafd_client::{FakeClient, IdSource, Status};
///
/// let ids = FakeClient::default();
/// assert_eq!(ids.next("orders").unwrap(), 1);
/// ids.fail_next(Status::StoreUnavailable);
/// assert!(ids.next("orders").unwrap_err().is_retryable());
/// assert_eq!(ids.next_batch("orders", 2).unwrap().collect::<Vec<_>>(), [2, 3]);
/// ```
#[derive(Debug, Default)]
pub struct FakeClient {
    state: Mutex<FakeState>,
}

#[derive(Debug, Default)]
struct FakeState {
    last: HashMap<String, u64>,
    failures: VecDeque<Status>,
}

impl FakeClient {
    /// Makes the next call fail as if the daemon had answered `status`. Call it several times to make that many calls
    /// fail.
    pub fn fail_next(&self, status: Status) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).failures.push_back(status);
    }
}

impl IdSource for FakeClient {
    fn next(&self, tag: &str) -> Result<u64> {
        self.next_batch(tag, 1)?.next().ok_or_else(|| Error::protocol("an answer without ids"))
    }

    fn next_direct(&self, tag: &str) -> Result<u64> {
        IdSource::next(self, tag)
    }

    fn next_batch(&self, tag: &str, count: u64) -> Result<Ids> {
        let _ = requests_of_batch(count)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(status) = state.failures.pop_front() {
            return Err(Error::service(status as u16, 0, "the fake was told to fail"));
        }
        let last = state.last.entry(tag.to_owned()).or_default();
        let run = Run { first: *last + 1, count: count as u32, stride: 1 };
        *last += count;
        Ok(Ids::of(vec![run]))
    }
}
