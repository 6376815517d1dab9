//! A clean stop, and giving a worker back: the journal says it first, then the registry.
//!
//! After a stop the worker stays this host's for a short time, so that a restart finds it. To give it back is to
//! let go of it at once, down to the last id issued. A registry that refuses that leaves the host with its worker, which
//! is then recorded anew; one that does not answer may have given it to somebody else by now, so it is not used again.

use super::state::{Aim, HeldLease, Lease, Plan};
use super::{LeaseProblem, Mode, Record, Recorded, Step};
use crate::UnixMs;
use crate::registry::{Entry, LeaseRecord, RegistryError};
use crate::time::Now;

/// How far a claim is given back.
#[derive(Debug)]
pub(super) struct Leaving {
    /// For good; else until the restart.
    release: bool,
    /// From here on no id was issued.
    issued_below: UnixMs,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Journal,
    Registry,
    Over,
    /// The registry did not take it back: the journal must have it again before it is used.
    Kept,
    Resumed,
}

impl Leaving {
    /// Why nothing is issued meanwhile.
    pub(super) fn trouble(&self) -> LeaseProblem {
        if self.release { LeaseProblem::GivingBack } else { LeaseProblem::Stopping }
    }
}

impl Lease {
    /// The daemon stops, and issues nothing more: the worker is kept for a restart. `issued_below` is what
    /// [`issued_below`](crate::snowflake::Generator::issued_below) says, the highest of all layouts: too high costs time, too low duplicates.
    pub fn stop(&mut self, issued_below: UnixMs) {
        self.leave_for(false, issued_below);
    }

    /// The worker is given back; nothing is issued with it any more, and the next use claims another. What comes of it
    /// is told by [`Lease::released`]. See [`Lease::stop`].
    pub fn release(&mut self, issued_below: UnixMs) {
        self.leave_for(true, issued_below);
    }

    /// What came of giving the worker back, once it is known; to be asked once. After
    /// [`RegistryError::Unavailable`] the registry may or may not have it back; after other errors it is this host's still,
    /// unless somebody else has it by now.
    pub fn released(&mut self) -> Option<Result<(), RegistryError>> {
        self.released.take()
    }

    /// Whether the worker is being kept for a restart or given back.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    fn leave_for(&mut self, release: bool, issued_below: UnixMs) {
        self.look = None;
        self.released = None;
        self.leaving = Some(Leaving { release, issued_below, stage: Stage::Journal });
    }

    /// The next step of leaving.
    pub(super) fn leave(&mut self, now: Now) -> Step {
        let Some(Leaving { release, issued_below, stage }) = self.leaving else {
            return Step::Done;
        };
        // Of an earlier life's claim the journal and the registry say what is true.
        let Some(held) = self.held.clone().filter(|held| release || held.mine) else {
            return self.gone(release);
        };
        let after = self.after_leaving(&held, release, issued_below, now);
        match stage {
            Stage::Journal => {
                self.set_stage(Stage::Registry);
                let record = if release {
                    Record::Forget
                } else {
                    Record::LeaseGrant(Recorded {
                        place: self.settings.place.clone(),
                        registry: held.registry.clone(),
                        worker: held.worker,
                        start: held.start,
                        holding: after.clone(),
                        earlier: Some(held.holding.clone()),
                    })
                };
                self.pending = Some(super::state::Pending::Record(record.clone()));
                if !release && let Some(held) = &mut self.held {
                    // The registry is told just what the journal says.
                    held.earlier = Some(after);
                }
                Step::Record(record)
            }
            Stage::Registry => {
                self.set_stage(Stage::Over);
                let next = held.earlier.clone().filter(|_| !release).unwrap_or(after);
                let expected = Some(held.holding.clone());
                let after = HeldLease { holding: next, earlier: None, ..held };
                self.write(now, Plan { aim: Aim::Leave, expected, after })
            }
            Stage::Over => self.gone(release),
            Stage::Kept => {
                self.set_stage(Stage::Resumed);
                let record = self.record_of(&held);
                self.pending = Some(super::state::Pending::Record(record.clone()));
                Step::Record(record)
            }
            Stage::Resumed => {
                self.leaving = None;
                self.look_next = true;
                self.retry_at = now.boot;
                Step::Wait(Some(now.boot))
            }
        }
    }

    /// What the registry is to have.
    fn after_leaving(
        &self,
        held: &HeldLease,
        release: bool,
        issued_below: UnixMs,
        now: Now,
    ) -> LeaseRecord {
        let used = issued_below.max(held.start);
        // Recorded by another clock's bound or not: never further than it was.
        let bound = match self.settings.mode {
            Mode::Leased if release => used.min(held.reach()),
            Mode::Leased => {
                let grace = self.settings.restart_grace_ms;
                let until = UnixMs(self.clock.hold(now).unix.0.saturating_add(grace));
                until.max(used).min(held.reach())
            }
            Mode::Permanent => used.max(self.clock.hold(now).unix),
        };
        let holder = held.holding.holder.as_ref();
        let kept = !release || self.settings.mode == Mode::Permanent;
        LeaseRecord {
            holder: holder.filter(|_| kept).map(|holder| holder.to_stopped()),
            expires: bound,
        }
    }

    /// The registry was told, or could not be: in both cases what the journal has is true.
    pub(super) fn left(&mut self, answer: Result<UnixMs, RegistryError>) {
        let release = self.leaving.as_ref().is_some_and(|leaving| leaving.release);
        let kept = match &answer {
            Ok(_) | Err(RegistryError::Unavailable { .. }) => false,
            Err(RegistryError::Conflict { found, .. }) => self.is_ours(found.as_deref()),
            Err(_) => true,
        };
        self.set_stage(if release && kept { Stage::Kept } else { Stage::Over });
        if release {
            self.released = Some(answer.map(drop));
        }
    }

    /// Whether an entry is what this host has of the worker that it holds.
    fn is_ours(&self, found: Option<&Entry>) -> bool {
        let found = found.map(|entry| &entry.holding);
        self.held
            .as_ref()
            .zip(found)
            .is_some_and(|(held, found)| held.may_be(found) || self.is_own(found))
    }

    /// The journal still has the claim, so the registry must have it too.
    pub(super) fn not_forgotten(&mut self, why: String) {
        self.set_stage(Stage::Resumed);
        self.released = Some(Err(RegistryError::Refused(why)));
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
            // Lost before the registry was told: it has it back all the same.
            self.released.get_or_insert(Ok(()));
            self.unsure = None;
            (self.wanted, self.could_be_had) = (false, true);
            self.trouble = None;
            self.look_next = true;
            return Step::Wait(None);
        }
        Step::Done
    }
}
