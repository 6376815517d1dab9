//! A clean stop, and the release of a worker: recorded in the journal first, then in the registry.
//!
//! After a stop, the host keeps the worker for a short time, so that a restart can use it. A release ends the claim
//! immediately, right after the last issued id. If the registry refuses that, the host keeps its worker and records it
//! again. If the registry does not answer, another host may have the worker by now, so this one does not use it again.

use super::state::{Aim, HeldLease, Lease, Phase, Plan};
use super::{LeaseProblem, Mode, Recorded, Step};
use crate::registry::{Entry, LeaseRecord, RegistryError};
use crate::time::Now;
use crate::{BootMs, UnixMs};

/// How much of a claim is released.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    /// Whether it is released permanently. Otherwise it is kept for a restart.
    release: bool,
    /// No id was issued from this instant on.
    issued_below: UnixMs,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Journal,
    Registry,
    Over,
}

impl Leaving {
    /// Why no ids are issued meanwhile.
    pub(super) fn trouble(&self) -> LeaseProblem {
        if self.release { LeaseProblem::GivingBack } else { LeaseProblem::Stopping }
    }
}

impl Lease {
    /// The daemon stops and issues nothing more; the worker is kept for a restart. Pass the highest
    /// [`issued_below`](crate::snowflake::Generator::issued_below) of all layouts. A value that is too high wastes
    /// time; one that is too low risks duplicates.
    pub fn stop(&mut self, issued_below: UnixMs) {
        self.leave_for(false, issued_below);
    }

    /// Releases the worker. No more ids are issued with it, and the next use claims another. [`Lease::released`]
    /// returns the outcome. See [`Lease::stop`].
    pub fn release(&mut self, issued_below: UnixMs) {
        self.leave_for(true, issued_below);
    }

    /// The outcome of the release, once it is known; it is returned once. After [`RegistryError::Unavailable`], the
    /// worker may or may not have been released. After other errors, this host still has it, unless another host has
    /// taken it meanwhile.
    pub fn released(&mut self) -> Option<Result<(), RegistryError>> {
        self.released.take()
    }

    /// Whether the worker is being released or kept for a restart.
    pub fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    fn leave_for(&mut self, release: bool, issued_below: UnixMs) {
        self.released = None;
        self.leaving = Some(Leaving { release, issued_below, stage: Stage::Journal });
    }

    /// The next step of a stop or release.
    pub(super) fn leave(&mut self, now: Now) -> Step {
        let Some(Leaving { release, issued_below, stage }) = self.leaving else {
            return Step::Done;
        };
        // An earlier life's claim stays as the journal and the registry record it.
        let Some(held) = self.held.clone().filter(|held| release || held.mine) else {
            return self.gone(release);
        };
        let after = self.after_leaving(&held, release, issued_below, now);
        match stage {
            Stage::Journal => {
                self.set_stage(Stage::Registry);
                if release {
                    return self.record(None);
                }
                if let Some(held) = &mut self.held {
                    // The registry records exactly what the journal has.
                    held.claim.earlier = Some(after.clone());
                }
                let earlier = Some(held.claim.holding.clone());
                self.record(Some(Recorded { holding: after, earlier, ..held.claim }))
            }
            Stage::Registry => {
                let Recorded { holding, earlier, .. } = held.claim.clone();
                let next = earlier.filter(|_| !release).unwrap_or(after);
                let after = Recorded { holding: next, earlier: None, ..held.claim };
                self.write(now, Plan { aim: Aim::Leave, expected: Some(holding), after })
            }
            Stage::Over => self.gone(release),
        }
    }

    /// What the registry's entry should become.
    fn after_leaving(
        &self,
        held: &HeldLease,
        release: bool,
        issued_below: UnixMs,
        now: Now,
    ) -> LeaseRecord {
        let used = issued_below.max(held.claim.start);
        // The expiry must never move further ahead, whichever clock set it.
        let bound = match self.settings.mode {
            Mode::Leased if release => used.min(held.reach()),
            Mode::Leased => {
                let grace = self.settings.restart_grace_ms;
                let until = UnixMs(self.clock.believed_time(now).unix.0.saturating_add(grace));
                until.max(used).min(held.reach())
            }
            Mode::Permanent => used.max(self.clock.believed_time(now).unix),
        };
        let holder = held.claim.holding.holder.as_ref();
        let kept = !release || self.settings.mode == Mode::Permanent;
        LeaseRecord {
            holder: holder.filter(|_| kept).map(|holder| holder.to_stopped()),
            expires: bound,
        }
    }

    /// Handles the registry's answer to the last write, which was accepted, refused or not answered.
    pub(super) fn left(&mut self, answer: Result<UnixMs, RegistryError>) {
        let release = self.leaving.as_ref().is_some_and(|leaving| leaving.release);
        let kept = match &answer {
            Ok(_) | Err(RegistryError::Unavailable { .. }) => false,
            Err(RegistryError::Conflict { found, .. }) => self.is_ours(found.as_deref()),
            Err(_) => true,
        };
        if release {
            self.released = Some(answer.map(drop));
        }
        if !(release && kept) {
            return self.set_stage(Stage::Over);
        }
        self.go_on();
        if let Some(held) = &mut self.held {
            // The journal must record the worker again before it is used.
            held.in_journal = None;
            self.phase = Phase::ToRecord(Some(held.claim.clone()));
        }
    }

    fn go_on(&mut self) {
        self.leaving = None;
        self.timers.look_next = true;
        self.timers.retry_at = BootMs(0);
    }

    /// Whether an entry is what this host recorded of its worker.
    pub(super) fn is_ours(&self, found: Option<&Entry>) -> bool {
        let found = found.map(|entry| &entry.holding);
        let both = self.held.as_ref().zip(found);
        both.is_some_and(|(held, found)| held.claim.may_be(found) || self.is_own(found))
    }

    /// The journal still has the claim, so the registry must have it too.
    pub(super) fn not_forgotten(&mut self, why: String) {
        self.go_on();
        self.released = Some(Err(RegistryError::Refused(why.into())));
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(leaving) = &mut self.leaving {
            leaving.stage = stage;
        }
    }

    fn gone(&mut self, release: bool) -> Step {
        if release {
            self.leaving = None;
            self.held = None;
            self.renewed = None;
            // The worker was lost before its release, so the registry has it already.
            self.released.get_or_insert(Ok(()));
            self.unsure = None;
            (self.wanted, self.could_be_had) = (false, true);
            self.trouble = None;
            self.timers.look_next = true;
            return Step::Wait(None);
        }
        Step::Done
    }
}
