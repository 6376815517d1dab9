//! Handles the answers of the registry and the journal.

use super::state::{Aim, HeldLease, Phase, Plan};
use super::{JournalChange, Lease, LeaseProblem, Mode, Recorded};
use crate::UnixMs;
use crate::registry::{Entry, RegistryError, Snapshot};
use crate::store::{Reason, Why};
use crate::time::Now;

impl Lease {
    pub(super) fn looked(
        &mut self,
        asked: Now,
        now: Now,
        look: Result<Snapshot, RegistryError>,
        random: u64,
    ) {
        match look {
            Ok(look) => {
                let peers = self.peers(&look);
                self.clock.judge(asked, now, look.now, peers);
                self.phase = Phase::Looked(look);
            }
            Err(error) => self.failed(now, &error, random),
        }
    }

    /// How far the clocks of live hosts were ahead of the registry's.
    fn peers(&self, look: &Snapshot) -> Vec<i64> {
        let signed = |time: UnixMs| i64::try_from(time.0).unwrap_or(i64::MAX);
        let lives = |entry: &&Entry| {
            let recent = look.now.0.saturating_sub(entry.written.0) <= self.settings.alive_ms();
            let holder = entry.holding.holder.as_ref();
            recent && entry.in_use() && holder.is_some_and(|one| one.id != self.settings.holder.id)
        };
        let live = look.entries.iter().filter(lives);
        live.map(|entry| signed(entry.seen) - signed(entry.written)).collect()
    }

    pub(super) fn swapped(
        &mut self,
        asked: Now,
        now: Now,
        plan: Plan,
        answer: Result<UnixMs, RegistryError>,
        random: u64,
    ) {
        if plan.aim == Aim::Leave {
            return self.left(answer);
        }
        match answer {
            Ok(registry) => {
                self.clock.judge(asked, now, registry, Vec::new());
                self.taken(now, plan.after);
            }
            Err(RegistryError::TooFarAhead { now: registry, .. }) => {
                self.clock.judge(asked, now, registry, Vec::new());
                let behind = || {
                    let words = "the worker registry's clock is far behind what is recorded in it";
                    LeaseProblem::Refused(Reason::new(Why::RegistryClock, words))
                };
                let trouble = self.clock.skew().map_or_else(behind, LeaseProblem::Clock);
                self.refused(now, trouble);
            }
            Err(error) => self.write_failed(now, plan, &error, random),
        }
    }

    pub(super) fn bound(
        &mut self,
        now: Now,
        plan: Plan,
        answer: Result<Entry, RegistryError>,
        random: u64,
    ) {
        match answer {
            Ok(entry) if self.is_own(&entry.holding) => {
                let start = plan.after.start.max(UnixMs(0));
                let (worker, holding) = (entry.worker, entry.holding);
                self.taken(now, HeldLease { worker, start, holding, ..plan.after });
            }
            // It already had one, from another start. The next look shows which start.
            Ok(_) => self.back_off(now, random),
            Err(error) => self.write_failed(now, plan, &error, random),
        }
    }

    fn write_failed(&mut self, now: Now, plan: Plan, error: &RegistryError, random: u64) {
        match error {
            RegistryError::Conflict { found, .. } => {
                self.retry_in(now, 0);
                // If a claim is held, this conflict is the first sign of another holder: stop at once.
                if let Some(held) = self.held.clone()
                    && !self.is_ours(found.as_deref())
                {
                    match self.settings.mode {
                        Mode::Leased => self.lose(&held),
                        Mode::Permanent => {
                            self.blocked = true;
                            self.held = Some(HeldLease { mine: false, ..held });
                        }
                    }
                } else if plan.aim == Aim::Claim {
                    // Other hosts choose at the same time: don't all retry at the same instant.
                    self.back_off(now, random);
                }
            }
            // Other hosts must not claim before the registry knows what is held. So the first retry is immediate.
            RegistryError::Changed { .. } if !self.timers.backoff.failing() => {
                self.timers.backoff.note_failure();
                self.retry_in(now, 0);
            }
            RegistryError::Changed { .. } => self.back_off(now, random),
            RegistryError::Unavailable { .. } => {
                self.unsure = Some(plan.after);
                self.failed(now, error, random);
            }
            _ => self.failed(now, error, random),
        }
    }

    fn failed(&mut self, now: Now, error: &RegistryError, random: u64) {
        match error {
            RegistryError::Unavailable { .. } => {
                self.away = true;
                self.troubled(LeaseProblem::Away(Reason::new(error.why(), error.to_string())));
                self.back_off(now, random);
            }
            RegistryError::Changed { .. } | RegistryError::Conflict { .. } => {
                self.back_off(now, random);
            }
            _ => {
                self.blocked = true;
                let reason = Reason::new(error.why(), error.to_string());
                self.refused(now, LeaseProblem::Refused(reason));
            }
        }
    }

    /// The registry has the claim; the journal is next.
    pub(super) fn taken(&mut self, now: Now, after: HeldLease) {
        self.unsure = None;
        self.blocked = false;
        let changed = self.held.as_ref().is_none_or(|held| {
            !held.mine || held.worker != after.worker || held.registry != after.registry
        });
        // What the journal has recorded of the same claim stays usable until the next record.
        let limit = match &self.held {
            Some(held) if (held.worker, held.start) == (after.worker, after.start) => held.limit,
            _ => UnixMs(0),
        };
        let held = HeldLease { limit, ..after };
        if changed || self.settings.mode == Mode::Leased {
            self.phase = Phase::ToRecord(self.record_of(&held));
        }
        self.held = Some(held);
        self.confirmed(now);
    }

    pub(super) fn record_of(&self, held: &HeldLease) -> JournalChange {
        JournalChange::Claim(Recorded {
            place: self.settings.place.clone(),
            registry: held.registry.clone(),
            worker: held.worker,
            start: held.start,
            holding: held.holding.clone(),
            earlier: held.earlier.clone(),
        })
    }

    /// The journal has made the record durable; `Err`: it refused, for this reason.
    pub fn recorded(&mut self, now: Now, outcome: Result<(), String>) {
        let record = match std::mem::take(&mut self.phase) {
            Phase::Recording(record) => record,
            phase => {
                self.phase = phase;
                return;
            }
        };
        match (outcome, record) {
            (Ok(()), JournalChange::Claim(recorded)) => {
                if let Some(held) = &mut self.held
                    && (held.worker, held.start) == (recorded.worker, recorded.start)
                {
                    held.limit = held.limit.max(recorded.holding.expires);
                }
            }
            (Ok(()), JournalChange::Forget) => {}
            (Err(why), JournalChange::Forget) if self.is_leaving() => self.not_forgotten(why),
            (Err(why), _) => {
                self.held = self.held.take().filter(|held| held.limit > UnixMs(0));
                self.refused(now, LeaseProblem::Refused(why.into()));
            }
        }
    }
}
