//! Decides when to stay awake for the next request.
//!
//! Waking an idle core costs ten times as much as answering. So after an answer, the daemon polls for a moment before
//! it sleeps, and tells the client, which then polls as well. It does so only while requests arrive back to back: each
//! request that arrives during a poll earns credit, and each poll in vain costs several times as much. It never polls
//! if only one core is usable, and few clients poll at once, because working processes need the other cores.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::clock::monotonic_us;

/// Whether the daemon as a whole polls, and how many of its clients do.
#[derive(Debug)]
pub struct BusyPoll {
    wanted: bool,
    /// How many clients may poll for their answers at once.
    clients_max: u32,
    clients: Cell<u32>,
    /// Shared by all connections.
    credit: Cell<Credit>,
    answered_us: Cell<u64>,
    awake_until_us: Cell<u64>,
    woken: Notify,
}

/// One connection's share in it.
#[derive(Debug)]
pub struct ConnectionPoll {
    shared: Rc<BusyPoll>,
    credit: Credit,
    answered_us: u64,
    /// Whether the client should poll for its next answer.
    pub(super) polling: bool,
}

/// How well polling has paid off recently.
#[derive(Clone, Copy, Debug, Default)]
struct Credit(u32);

/// When a daemon that stays awake yields its core. Its clients yield theirs, and the scheduler prefers threads that
/// have not yielded. On the same core as a daemon that doesn't yield, clients would run only once every few
/// milliseconds.
#[derive(Debug, Default)]
struct Yields {
    next_us: u64,
}

/// How long the daemon polls after an answer.
const AWAKE_US: u64 = 100;

/// A request within this time after the last answer counts as back to back, even if client and daemon both had to be
/// woken.
const BACK_TO_BACK_US: u64 = 150;

/// How long the daemon runs between two yields.
const YIELD_US: u64 = 100;

/// A yield that took longer gave the core to a CPU-bound thread, not to clients. The daemon waits this many times as
/// long before the next one.
const SLOW_US: u64 = 1_000;
const SLOW_REST: u64 = 10;

/// The longest such wait, because a yield also seems to take long if the daemon is stopped meanwhile.
const REST_US_MAX: u64 = 1_000_000;

impl Credit {
    /// The credit needed to start polling.
    const NEEDED: u32 = 8;
    /// The maximum credit, which limits how many polls in vain are possible in a row.
    const MOST: u32 = 64;
    /// The cost of a poll in vain.
    const COST: u32 = 8;

    /// A request arrived `gap_us` after the last answer, with or without polling.
    fn earn(self, gap_us: u64, polling: bool) -> Credit {
        let paid_off = gap_us <= if polling { AWAKE_US } else { BACK_TO_BACK_US };
        if paid_off {
            Credit((self.0 + 1).min(Credit::MOST))
        } else {
            Credit(self.0.saturating_sub(Credit::COST))
        }
    }

    /// Whether to poll, given whether it polls already.
    fn suffices(self, polling: bool) -> bool {
        self.0 >= if polling { 1 } else { Credit::NEEDED }
    }
}

impl Yields {
    fn is_due(&self, now_us: u64) -> bool {
        now_us >= self.next_us
    }

    /// The daemon yielded, and runs again.
    fn made(&mut self, began_us: u64, now_us: u64) {
        let took_us = now_us.saturating_sub(began_us);
        let slow = took_us >= SLOW_US;
        let rest_us = if slow { (SLOW_REST * took_us).min(REST_US_MAX) } else { YIELD_US };
        self.next_us = now_us + rest_us;
    }

    /// The daemon has slept. The request that woke it is answered first.
    fn woken(&mut self, now_us: u64) {
        self.next_us = self.next_us.max(now_us + YIELD_US);
    }
}

impl BusyPoll {
    /// `wanted`: the setting. `cores`: how many this process may use, including quotas.
    pub fn new(wanted: bool, cores: usize) -> Rc<Self> {
        Rc::new(BusyPoll {
            wanted: wanted && cores > 1,
            clients_max: u32::try_from(cores / 2).unwrap_or(u32::MAX),
            clients: Cell::new(0),
            credit: Cell::default(),
            answered_us: Cell::new(0),
            awake_until_us: Cell::new(0),
            woken: Notify::new(),
        })
    }

    /// Keeps the runtime's thread awake while requests are expected. Each turn checks every connection, so none
    /// starves. Clients that share its core get to run as well.
    pub async fn run(&self) {
        let mut yields = Yields::default();
        loop {
            let now_us = monotonic_us();
            if now_us < self.awake_until_us.get() {
                if yields.is_due(now_us) {
                    std::thread::yield_now();
                    yields.made(now_us, monotonic_us());
                }
                tokio::task::yield_now().await;
            } else {
                self.woken.notified().await;
                yields.woken(monotonic_us());
            }
        }
    }

    /// The polling state of a new connection.
    pub fn pace(self: &Rc<Self>) -> ConnectionPoll {
        ConnectionPoll {
            shared: Rc::clone(self),
            credit: Credit::default(),
            answered_us: 0,
            polling: false,
        }
    }

    fn polls(&self) -> bool {
        self.awake_until_us.get() > 0
    }
}

impl ConnectionPoll {
    /// Requests have come in. `now_us`: by the monotonic clock, read a moment ago at most.
    pub fn requested(&mut self, now_us: u64) {
        if !self.shared.wanted {
            return;
        }
        let shared = &self.shared;
        let gap_us = now_us.saturating_sub(shared.answered_us.get());
        let credit = shared.credit.get().earn(gap_us, shared.polls());
        shared.credit.set(credit);
        let gap_us = now_us.saturating_sub(self.answered_us);
        self.credit = self.credit.earn(gap_us, self.polling);
        let room = self.polling || shared.clients.get() < shared.clients_max;
        self.set_polling(room && self.credit.suffices(self.polling));
    }

    /// Answers go out.
    pub fn answered(&mut self, now_us: u64) {
        if !self.shared.wanted {
            return;
        }
        self.answered_us = now_us;
        let shared = &self.shared;
        shared.answered_us.set(self.answered_us);
        if shared.credit.get().suffices(shared.polls()) {
            shared.awake_until_us.set(self.answered_us + AWAKE_US);
            shared.woken.notify_one();
        } else {
            shared.awake_until_us.set(0);
        }
    }

    fn set_polling(&mut self, polling: bool) {
        let clients = &self.shared.clients;
        match (self.polling, polling) {
            (false, true) => clients.set(clients.get() + 1),
            (true, false) => clients.set(clients.get() - 1),
            _ => {}
        }
        self.polling = polling;
    }
}

impl Drop for ConnectionPoll {
    fn drop(&mut self) {
        self.set_polling(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(gaps_us: impl IntoIterator<Item = u64>) -> bool {
        let mut credit = Credit::default();
        let mut polling = false;
        for gap_us in gaps_us {
            credit = credit.earn(gap_us, polling);
            polling = credit.suffices(polling);
        }
        polling
    }

    #[test]
    fn back_to_back_requests_are_polled_for_and_a_late_one_is_forgiven() {
        assert!(after([60; 8]), "both had to be woken until now");
        assert!(after([60; 8].into_iter().chain([3; 1_000]).chain([200])));
    }

    #[test]
    fn a_steady_thousand_a_second_is_not() {
        assert!(!after([1_000; 1_000]));
        assert!(!after([3; 1_000].into_iter().chain([1_000; 20])));
    }

    #[test]
    fn gaps_that_are_just_too_long_to_poll_for_cost_little() {
        let mut credit = Credit::default();
        let (mut polling, mut vain) = (false, 0);
        for _ in 0..10_000 {
            vain += u32::from(polling);
            credit = credit.earn(AWAKE_US + 20, polling);
            polling = credit.suffices(polling);
        }
        assert!(vain <= 10_000 / 8, "{vain} of 10,000 gaps were polled for in vain");
    }

    /// How long, of the given time, yields take that take `took_us` each.
    fn yielded_us(took_us: u64, time_us: u64) -> u64 {
        let (mut yields, mut now_us, mut yielded_us) = (Yields::default(), 0, 0);
        while now_us < time_us {
            if yields.is_due(now_us) {
                yields.made(now_us, now_us + took_us);
                (now_us, yielded_us) = (now_us + took_us, yielded_us + took_us);
            }
            now_us += 5;
        }
        yielded_us
    }

    #[test]
    fn clients_run_every_hundred_microseconds_and_a_thread_that_computes_seldom() {
        let second_us = 1_000_000;
        assert!((150_000..200_000).contains(&yielded_us(20, second_us)));
        assert!(yielded_us(4_000, second_us) <= second_us / 10);
    }

    #[test]
    fn a_daemon_that_was_stopped_yields_again_within_a_second_and_one_that_was_woken_runs_first() {
        let mut yields = Yields::default();
        yields.made(0, 600_000_000);
        assert!(!yields.is_due(600_900_000) && yields.is_due(601_000_000));
        yields.woken(700_000_000);
        assert!(!yields.is_due(700_000_050) && yields.is_due(700_000_100));
    }

    #[test]
    fn one_core_is_never_polled_on() {
        let alone = BusyPoll::new(true, 1);
        let mut pace = alone.pace();
        for _ in 0..100 {
            pace.requested(monotonic_us());
            pace.answered(monotonic_us());
        }
        assert!(!pace.polling && alone.awake_until_us.get() == 0);
    }
}
