//! What goes wrong, and when.

use crate::coverage::state_of;
use crate::host::{Host, Journal};
use crate::store::{LAG_MS_MAX, Loss};
use crate::world::{SETTLE_MS, TIMEOUT_MS, World};

impl World {
    /// May break something before a step.
    pub fn mischief(&mut self) {
        if self.calm() {
            return;
        }
        let host = self.random.usize(..self.hosts.len());
        let lag_ms = self.random.u64(..LAG_MS_MAX);
        let many = !self.store.one_history;
        let daemon = self.hosts[host].daemon.as_ref();
        // The worst moment for a host to be gone.
        let in_doubt = daemon.is_some_and(|daemon| daemon.monitor.own_until().is_some());
        let is_cut_off = self.hosts[host].cut_off_until_ms > self.true_ms;
        if in_doubt && !is_cut_off && self.random.u8(..24) == 0 {
            return self.cut_off(host, 2 * SETTLE_MS);
        }
        // The worst moment for the store to lose a claim.
        let slow_ms = self.true_ms + SETTLE_MS / 4;
        let claimed = daemon.and_then(|daemon| daemon.unjournalled.back());
        if many && claimed.is_some_and(|(due_ms, _)| *due_ms > slow_ms) && self.random.u8(..8) == 0
        {
            return self.promotion(lag_ms / 4);
        }
        let what = self.random.u32(..10_000);
        let host = if what < 60 { self.rarer(host) } else { host };
        match what {
            0..20 => self.crash(host),
            20..24 => {
                self.crash(host);
                let journal = Journal { host: self.new_name(), ..Journal::default() };
                self.hosts[host].use_journal(journal);
                self.totals.journals_lost += 1;
            }
            24..27 => self.journal_is_foreign(host),
            27..44 => self.journal_is_restored(host),
            44..60 => self.is_stopped(host),
            60..80 => self.goes_away(),
            80..90 => {
                let for_ms = self.random.u64(100..4 * SETTLE_MS);
                self.cut_off(host, for_ms);
            }
            90..120 if many => self.promotion(lag_ms),
            120..138 if many => {
                let loser = self.lose(Loss::SetBack, lag_ms);
                self.totals.set_back += 1;
                if let Some(host) = loser.filter(|_| self.random.bool()) {
                    // It starts again at once, and may be the first that can notice.
                    self.crash(host);
                    self.hosts[host].start_at_ms = self.true_ms;
                } else {
                    self.beset(loser);
                }
            }
            138..155 if self.store.former.is_some() => self.former_primary_takes_over(),
            155..165 => {
                let server = self.random.usize(..self.away_until_ms.len());
                self.hosts[host].server = server;
            }
            165..185 => self.is_stopped(host),
            _ => {}
        }
    }

    /// This host or another one: whose daemon is in a state that has met fewer faults so far.
    fn rarer(&mut self, host: usize) -> usize {
        let other = self.random.usize(..self.hosts.len());
        let met = |host: usize| {
            let daemon = self.hosts[host].daemon.as_ref();
            daemon.map_or(usize::MAX, |daemon| self.totals.pairs.met_in(state_of(&daemon.monitor)))
        };
        if met(other) < met(host) { other } else { host }
    }

    /// Half of them happen while every host can be reached: then no id at all may come twice.
    fn promotion(&mut self, lag_ms: u64) {
        let loser = self.lose(Loss::Promotion, lag_ms);
        self.totals.promotions += 1;
        let engine = self.store.engine(0, None);
        self.totals.like_another += u64::from(!self.engines.insert(engine));
        if self.random.bool() {
            self.calm_until_ms = self.true_ms + SETTLE_MS + TIMEOUT_MS;
            self.all_go_on();
            self.totals.calm_failovers += 1;
        } else {
            self.beset(loser);
        }
    }

    /// The worst moment for a host to be gone is when its claims were just lost.
    fn beset(&mut self, loser: Option<usize>) {
        let Some(host) = loser else { return };
        match self.random.u8(..6) {
            0 => self.crash(host),
            _ => self.is_gone(host),
        }
    }

    /// For longer than others wait for it.
    fn is_gone(&mut self, host: usize) {
        let for_ms = SETTLE_MS + self.random.u64(..2 * SETTLE_MS);
        match self.random.u8(..5) {
            ..3 => self.pause(host, for_ms),
            _ => self.cut_off(host, for_ms),
        }
    }

    /// From now on everything is well, and every daemon runs.
    pub fn heal(&mut self) {
        self.calm_until_ms = u64::MAX;
        self.away_until_ms.fill(0);
        self.all_go_on();
        for host in &mut self.hosts {
            host.start_at_ms = host.start_at_ms.min(self.true_ms);
            host.cut_off_until_ms = 0;
        }
        self.operator_declares_a_loss();
    }

    fn all_go_on(&mut self) {
        for host in &mut self.hosts {
            let early_ms = host.paused_until_ms.saturating_sub(self.true_ms);
            host.suspended_ms -= early_ms;
            host.paused_until_ms = host.paused_until_ms.min(self.true_ms);
        }
    }

    fn new_name(&mut self) -> usize {
        self.serial += 1_000;
        usize::try_from(self.serial).unwrap()
    }

    /// A host starts from a copy of another host's files, and notices.
    fn journal_is_foreign(&mut self, host: usize) {
        let from = self.random.usize(..self.hosts.len());
        self.crash(host);
        let journal = self.hosts[from].journal.clone().begin_anew(self.new_name());
        self.hosts[host].use_journal(journal);
        self.totals.journals_copied += 1;
    }

    /// An old state of a host's files is restored. Either the host notices at once, or only the store can tell.
    fn journal_is_restored(&mut self, host: usize) {
        let Some(mut backup) = self.hosts[host].backup.take() else { return };
        self.crash(host);
        self.totals.journals_restored += 1;
        if self.random.u8(..4) == 0 {
            backup = backup.begin_anew(self.new_name());
        }
        backup.segments.iter_mut().for_each(|segment| segment.restored = true);
        self.hosts[host].use_journal(backup);
    }

    fn crash(&mut self, host: usize) {
        let off_ms = self.random.u64(..2 * SETTLE_MS);
        self.befalls(host, "crash");
        let backed_up = self.random.bool();
        let host = &mut self.hosts[host];
        host.crash();
        if backed_up {
            host.backup = Some(host.journal.clone());
        }
        host.start_at_ms = self.true_ms + off_ms;
        self.totals.crashes += 1;
    }

    /// SIGSTOP, or the host sleeps: its boot-time clock keeps running.
    fn is_stopped(&mut self, host: usize) {
        let long = self.random.bool();
        let pause_ms = self.random.u64(10..if long { 3 * SETTLE_MS } else { SETTLE_MS / 2 });
        self.pause(host, pause_ms);
    }

    fn pause(&mut self, host: usize, pause_ms: u64) {
        self.befalls(host, "pause");
        let host = &mut self.hosts[host];
        if host.paused_until_ms <= self.true_ms {
            host.paused_until_ms = self.true_ms + pause_ms;
            host.suspended_ms += pause_ms;
            self.totals.pauses += 1;
        }
    }

    /// This host alone reaches no server.
    fn cut_off(&mut self, host: usize, for_ms: u64) {
        self.hosts[host].cut_off_until_ms = self.true_ms + for_ms;
        self.totals.cut_off += 1;
    }

    fn goes_away(&mut self) {
        let server = self.random.usize(..self.away_until_ms.len());
        let long = self.random.u8(..3) == 0;
        let away_ms = self.random.u64(100..if long { 2 * SETTLE_MS } else { 800 });
        self.away_until_ms[server] = self.true_ms + away_ms;
        self.totals.outages += 1;
    }

    /// The former primary replaces the present one, as it was. Every host knows the history in between, so nobody uses
    /// it, until an operator says what is lost.
    fn former_primary_takes_over(&mut self) {
        let present = &self.store.data.note.history;
        let knows = |host: &Host| {
            let daemon = host.daemon.as_ref();
            let trusts = daemon.and_then(|daemon| daemon.monitor.claimable());
            trusts.is_some_and(|trusted| trusted.history == *present)
        };
        if !self.hosts.iter().all(knows) || self.operator_at_ms.is_some() {
            return;
        }
        self.lose(Loss::FormerPrimary, 0);
        self.operator_at_ms = Some(self.true_ms + self.random.u64(..2 * SETTLE_MS));
        self.totals.returns += 1;
    }
}
