//! What goes wrong, and when.

use crate::coverage::state_of;
use crate::host::Host;
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
        // The worst moment for a stop.
        let in_doubt = self.hosts[host].daemon.as_ref();
        if in_doubt.is_some_and(|daemon| daemon.monitor.own_until().is_some())
            && self.random.u8(..16) == 0
        {
            return self.pause(host);
        }
        let many = !self.store.one_history;
        let what = self.random.u32(..10_000);
        let host = if what < 60 { self.rarer(host) } else { host };
        match what {
            0..20 => self.crash(host),
            20..24 => {
                self.serial += 1_000;
                let id = usize::try_from(self.serial).unwrap();
                self.hosts[host].lose_journal(id);
                self.hosts[host].start_at_ms = self.true_ms + self.random.u64(..2 * SETTLE_MS);
                self.totals.journals_lost += 1;
            }
            24..60 => self.pause(host),
            60..90 => self.goes_away(),
            90..120 if many => self.promotion(lag_ms),
            120..138 if many => {
                self.lose(Loss::SetBack, lag_ms);
                self.totals.set_back += 1;
            }
            138..155 if self.store.former.is_some() => self.former_primary_takes_over(),
            155..165 => {
                let server = self.random.usize(..self.away_until_ms.len());
                self.hosts[host].server = server;
            }
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
        self.lose(Loss::Promotion, lag_ms);
        self.totals.promotions += 1;
        let engine = self.store.engine(0, None);
        self.totals.like_another += u64::from(!self.engines.insert(engine));
        if self.random.bool() {
            self.calm_until_ms = self.true_ms + SETTLE_MS + TIMEOUT_MS;
            self.all_go_on();
            self.totals.calm_failovers += 1;
        }
    }

    /// From now on everything is well, and every daemon runs.
    pub fn heal(&mut self) {
        self.calm_until_ms = u64::MAX;
        self.away_until_ms.fill(0);
        self.all_go_on();
        for host in &mut self.hosts {
            host.start_at_ms = host.start_at_ms.min(self.true_ms);
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

    fn crash(&mut self, host: usize) {
        let off_ms = self.random.u64(..2 * SETTLE_MS);
        self.befalls(host, "crash");
        let host = &mut self.hosts[host];
        host.crash();
        host.start_at_ms = self.true_ms + off_ms;
        self.totals.crashes += 1;
    }

    /// SIGSTOP, or the host sleeps: its boot-time clock keeps running.
    fn pause(&mut self, host: usize) {
        let long = self.random.bool();
        let pause_ms = self.random.u64(10..if long { 3 * SETTLE_MS } else { SETTLE_MS / 2 });
        self.befalls(host, "pause");
        let host = &mut self.hosts[host];
        if host.paused_until_ms <= self.true_ms {
            host.paused_until_ms = self.true_ms + pause_ms;
            host.suspended_ms += pause_ms;
            self.totals.pauses += 1;
        }
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
