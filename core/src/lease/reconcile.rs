//! What the registry's entries mean for the held worker, or for the one to claim.

use super::state::{Aim, HeldLease, Phase, Plan, REFUSED_RETRY_MS};
use super::{Lease, LeaseProblem, Mode, Recorded};
use crate::registry::{Entry, LeaseRecord, Snapshot};
use crate::time::Now;
use crate::{Backoff, UnixMs};

impl Lease {
    /// Decides what to write after reading the entries; `None`: nothing now.
    pub(super) fn decide(&mut self, look: Snapshot, now: Now, random: u64) -> Option<Plan> {
        if let Some(skew) = self.clock.refuses(now) {
            self.refused(now, LeaseProblem::Clock(skew));
            return None;
        }
        self.looked_at(now);
        if let Some(unsure) = self.unsure.take()
            && look.registry == unsure.registry
            && look
                .entries
                .iter()
                .any(|entry| entry.worker == unsure.worker && entry.holding == unsure.holding)
        {
            // The write whose answer was lost was carried out.
            self.taken(now, unsure);
            return None;
        }
        match self.held.take() {
            Some(held) => self.decide_held(held, &look, now),
            None => {
                let plan = self.decide_free(&look, now, random);
                if self.wanted {
                    return plan;
                }
                // This read only checks whether a worker is available.
                self.peeked(now, plan.is_some());
                None
            }
        }
    }

    /// A worker is held, at least according to the journal. Checks whether the registry agrees.
    fn decide_held(&mut self, held: HeldLease, look: &Snapshot, now: Now) -> Option<Plan> {
        if look.registry.id != held.claim.registry.id {
            self.replaced(held, look, now);
            return None;
        }
        let entry = look.entries.iter().find(|entry| entry.worker == held.claim.worker);
        let found = entry.map(|entry| &entry.holding);
        let failed_over = look.registry.history != held.claim.registry.history;
        if self.settings.mode == Mode::Permanent {
            return self.decide_permanent(held, entry, look, now);
        }
        let known = found.is_some_and(|found| held.claim.may_be(found));
        let own = found.is_some_and(|found| self.is_own(found));
        if !failed_over && (own || held.mine && known) {
            // The entry shows whether a write of unknown outcome was carried out.
            self.adopt(held, found, now);
            return None;
        }
        let over_by = UnixMs(look.now.0.saturating_add(self.settings.clock_threshold_ms));
        if failed_over && held.reach() <= over_by {
            // The claim had expired. Another host may have claimed the worker since, and the registry may have lost
            // that claim too. The other host writes it again, while this one waits like every new host.
            self.lose(&held);
            return None;
        }
        if known || (own && failed_over) || (failed_over && held.claim.precedes(found)) {
            // The claim is an earlier life's, or the registry may have lost it: write it again.
            let expected = found.cloned();
            let least = found.map_or(UnixMs(0), |found| found.expires).max(held.reach());
            let (worker, start) = (held.claim.worker, held.claim.start);
            let after = self.claim_of(look, worker, start, self.holding(now, least));
            self.held = Some(held);
            return Some(Plan { aim: Aim::Keep, expected, after });
        }
        self.lose(&held);
        None
    }

    /// Another registry has taken the place of the one that the claim is from.
    fn replaced(&mut self, held: HeldLease, look: &Snapshot, now: Now) {
        if self.settings.embedded {
            // This host's own file was lost or restored. No other host can have claimed from it.
            return self.lose(&held);
        }
        let both = (held.claim.registry.clone(), look.registry.clone());
        self.blocked = true;
        self.refused(now, LeaseProblem::Replaced(Box::new(both)));
        self.held = Some(held);
    }

    /// The decision for a permanent worker. Only the incarnation in the entry shows which daemon has it.
    fn decide_permanent(
        &mut self,
        mut held: HeldLease,
        entry: Option<&Entry>,
        look: &Snapshot,
        now: Now,
    ) -> Option<Plan> {
        let Some(entry) = entry else {
            // The registry has lost the entry, so the same number is written again.
            let Recorded { worker, start, ref holding, .. } = held.claim;
            let after = self.claim_of(look, worker, start, self.holding(now, holding.expires));
            let aim = Aim::Bind(Some(worker));
            self.held = Some(held);
            return Some(Plan { aim, expected: None, after });
        };
        let found = entry.holding.holder.as_ref();
        let foreign = found.is_none_or(|found| found.id != self.settings.holder.id);
        // If the write that raised a doubtful start landed late, the start is written again below.
        if look.registry == held.claim.registry && held.mine && self.is_own(&entry.holding) {
            self.adopt(held, Some(&entry.holding), now);
            return None;
        }
        // This also holds if the registry may have lost writes but kept this one, which is then written again under the
        // new history.
        let same_life = held.claim.same_life(&entry.holding);
        let problem = if foreign {
            let name = found.map_or("nobody", |found| &found.name);
            let words = format!(
                "worker {} belonged to this host permanently, but the worker registry now assigns it to {name:?}: \
                 restore its entry, or remove this host's state directory to get another worker",
                held.claim.worker
            );
            Some(LeaseProblem::Refused(words.into()))
        } else {
            self.identity_in_use(look, entry).filter(|_| !same_life)
        };
        if let Some(problem) = problem {
            self.blocked = true;
            self.refused(now, problem);
            if foreign && held.claim.holding.expires > UnixMs(0) {
                // A restart during an outage must not use the claim either.
                held.claim.holding.expires = UnixMs(0);
                self.phase = Phase::ToRecord(Some(held.claim.clone()));
            }
            if !held.mine {
                self.held = Some(held);
            }
            return None;
        }
        let plan = self.plan_keep(entry, look, now, (!same_life).then_some(held.claim.start));
        self.held = Some(held);
        Some(plan)
    }

    /// Nothing is held.
    fn decide_free(&mut self, look: &Snapshot, now: Now, random: u64) -> Option<Plan> {
        let mut others = look.entries.iter().filter(|entry| {
            let holder = entry.holding.holder.as_ref();
            holder.is_some_and(|holder| match self.settings.mode {
                Mode::Leased => {
                    self.settings.named
                        && holder.name == self.settings.holder.name
                        && holder.id != self.settings.holder.id
                        && entry.holding.expires > look.now
                }
                Mode::Permanent => holder.id == self.settings.holder.id,
            })
        });
        if let Some(trouble) = others.clone().find_map(|entry| self.identity_in_use(look, entry)) {
            self.refused(now, trouble);
            return None;
        }
        if self.settings.mode == Mode::Permanent
            && let Some(entry) = others.next()
        {
            return Some(self.plan_keep(entry, look, now, Some(UnixMs(0))));
        }
        if let Some(age) = look.history_age {
            let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            let left_ms = self.settings.settle_ms.unwrap_or(0).saturating_sub(age_ms);
            if left_ms > 0 {
                self.trouble = Some(LeaseProblem::Settling(left_ms));
                self.retry_in(now, left_ms.min(REFUSED_RETRY_MS));
                return None;
            }
        }
        match self.settings.mode {
            Mode::Leased => self.plan_claim(look, now, random),
            Mode::Permanent => {
                let holding = self.holding(now, UnixMs(0));
                let worker = crate::WorkerId(self.settings.pool.start);
                let after = self.claim_of(look, worker, UnixMs(0), holding);
                Some(Plan { aim: Aim::Bind(None), expected: None, after })
            }
        }
    }

    /// Continues under a permanent entry. `doubtful`: the former start of the claim, if it is unknown what was issued
    /// under it. Then the new start lies above everything that an earlier life can have issued.
    fn plan_keep(
        &self,
        entry: &Entry,
        look: &Snapshot,
        now: Now,
        doubtful: Option<UnixMs>,
    ) -> Plan {
        let start = match (&self.held, doubtful) {
            (_, Some(start)) => {
                let reached =
                    self.clock.believed_time(now).unix.0.saturating_add(self.settings.drift_max_ms);
                start.max(entry.holding.expires).max(UnixMs(reached))
            }
            (Some(held), None) => held.claim.start,
            (None, None) => UnixMs(0),
        };
        let holding = self.holding(now, entry.holding.expires);
        let after = self.claim_of(look, entry.worker, start, holding);
        Plan { aim: Aim::Keep, expected: Some(entry.holding.clone()), after }
    }

    /// Whether an entry belongs to another live daemon with this host's identity.
    fn identity_in_use(&self, look: &Snapshot, entry: &Entry) -> Option<LeaseProblem> {
        let holder = entry.holding.holder.as_ref()?;
        let written_ms_ago = look.now.0.saturating_sub(entry.written.0);
        let alive = !holder.has_stopped() && written_ms_ago <= self.settings.alive_ms();
        (alive && holder.incarnation != self.settings.holder.incarnation).then(|| {
            LeaseProblem::IdentityInUse {
                name: holder.name.to_string(),
                worker: entry.worker,
                written_ms_ago,
                is_leaf: holder.incarnation.0.is_empty(),
            }
        })
    }

    /// The registry has this entry of this life. Renewals compare with it from now on.
    fn adopt(&mut self, mut held: HeldLease, found: Option<&LeaseRecord>, now: Now) {
        held.mine = true;
        if let Some(found) = found
            && (held.in_journal.is_none() || *found != held.claim.holding)
        {
            if found.expires < held.limit {
                // The registry has lost a write that it acknowledged, and its history doesn't show the loss.
                self.timers.renew_at = now.boot;
            }
            held.claim.holding = found.clone();
            held.claim.earlier = None;
            self.phase = Phase::ToRecord(Some(held.claim.clone()));
        }
        self.held = Some(held);
        self.trouble = None;
        self.timers.backoff = Backoff::default();
    }

    /// Another host has the worker. No more ids are issued with it, and the journal must forget it.
    pub(super) fn lose(&mut self, held: &HeldLease) {
        self.held = None;
        self.phase = Phase::ToRecord(None);
        self.trouble = Some(LeaseProblem::Lost(held.claim.worker));
        self.timers.look_next = true;
    }

    /// Whether this life wrote an entry, which its incarnation shows.
    pub(super) fn is_own(&self, found: &LeaseRecord) -> bool {
        found.holder.as_ref().is_some_and(|holder| {
            holder.id == self.settings.holder.id
                && holder.incarnation == self.settings.holder.incarnation
        })
    }
}

impl Recorded {
    /// Whether this can be the registry's entry for this claim, even if the last write has not arrived.
    pub fn may_be(&self, found: &LeaseRecord) -> bool {
        *found == self.holding || Some(found) == self.earlier.as_ref()
    }

    /// Whether a permanent entry was last written by the life that recorded this.
    fn same_life(&self, found: &LeaseRecord) -> bool {
        let same = |ours: &LeaseRecord| match (&ours.holder, &found.holder) {
            (Some(ours), Some(found)) => ours.incarnation == found.incarnation,
            _ => false,
        };
        same(&self.holding) || self.earlier.as_ref().is_some_and(same)
    }

    /// Whether this may be an entry from before the claim, in a registry that lost writes. If so, the claim is written
    /// again.
    fn precedes(&self, found: Option<&LeaseRecord>) -> bool {
        let Some(found) = found else { return true };
        let of_this_host = match (&found.holder, &self.holding.holder) {
            (Some(found), Some(own)) => found.id == own.id,
            _ => false,
        };
        found.expires <= if of_this_host { self.holding.expires } else { self.start }
    }
}
