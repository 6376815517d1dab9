//! When to stay awake for the next request.
//!
//! Waking an idle core costs ten times what answering costs. So after an answer the daemon polls for a
//! moment, and tells the client that it does, so that the client polls as well; but only while requests
//! really come back to back, only for a few connections at once, and never with a single usable core.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::clock::monotonic_us;

/// Whether the daemon as a whole stays awake, and for whom.
#[derive(Debug)]
pub struct Wakefulness {
    /// How many connections may poll for their answers at once; 0: polling is off.
    clients_max: u32,
    clients: Cell<u32>,
    awake_until_us: Cell<u64>,
    woken: Notify,
}

/// One connection's share in it.
#[derive(Debug)]
pub struct Pace {
    shared: Rc<Wakefulness>,
    answered_us: u64,
    streak: u32,
    /// The streak that earns polling; it doubles with each time that polling was in vain.
    streak_needed: u32,
    polling: bool,
}

/// How long the daemon polls after an answer.
const AWAKE_US: u64 = 50;

/// A request that comes within this after the last answer came back to back, even though client and
/// daemon both had to be woken.
const BACK_TO_BACK_US: u64 = 150;

/// The first streak of back-to-back requests that earns polling.
const STREAK_MIN: u32 = 4;

/// The longest streak that is asked for.
const STREAK_MAX: u32 = 4096;

impl Wakefulness {
    /// `wanted`: the setting. `cores`: how many this process may use, quotas counted.
    #[must_use]
    pub fn new(wanted: bool, cores: usize) -> Rc<Self> {
        let clients_max = if wanted { u32::try_from(cores / 2).unwrap_or(u32::MAX) } else { 0 };
        Rc::new(Wakefulness {
            clients_max,
            clients: Cell::new(0),
            awake_until_us: Cell::new(0),
            woken: Notify::new(),
        })
    }

    /// Keeps the runtime's thread from sleeping while requests are expected. Each turn looks at every
    /// connection, so none is starved.
    pub async fn run(&self) {
        loop {
            if self.clients.get() > 0 && monotonic_us() < self.awake_until_us.get() {
                tokio::task::yield_now().await;
            } else {
                self.woken.notified().await;
            }
        }
    }

    /// A new connection's pace.
    #[must_use]
    pub fn pace(self: &Rc<Self>) -> Pace {
        Pace {
            shared: Rc::clone(self),
            answered_us: 0,
            streak: 0,
            streak_needed: STREAK_MIN,
            polling: false,
        }
    }
}

impl Pace {
    /// Requests have come in.
    pub fn requested(&mut self) {
        if self.shared.clients_max == 0 {
            return;
        }
        let now_us = monotonic_us();
        let gap_us = now_us.saturating_sub(self.answered_us);
        let missed = self.polling && gap_us > AWAKE_US;
        if missed {
            self.streak_needed = (self.streak_needed * 2).min(STREAK_MAX);
            self.stop();
        }
        if missed || gap_us > BACK_TO_BACK_US {
            self.streak = 0;
            return;
        }
        self.streak += 1;
        if self.polling && self.streak > 2 * self.streak_needed {
            self.streak_needed = STREAK_MIN;
        }
        if !self.polling
            && self.streak >= self.streak_needed
            && self.shared.clients.get() < self.shared.clients_max
        {
            self.polling = true;
            self.shared.clients.set(self.shared.clients.get() + 1);
        }
    }

    /// Whether the daemon will be awake for this connection's next request.
    #[must_use]
    pub fn polling(&self) -> bool {
        self.polling
    }

    /// Answers have gone out.
    pub fn answered(&mut self) {
        if self.shared.clients_max == 0 {
            return;
        }
        self.answered_us = monotonic_us();
        if self.polling {
            self.shared.awake_until_us.set(self.answered_us + AWAKE_US);
            self.shared.woken.notify_one();
        }
    }

    fn stop(&mut self) {
        if self.polling {
            self.polling = false;
            self.shared.clients.set(self.shared.clients.get() - 1);
        }
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.stop();
    }
}
