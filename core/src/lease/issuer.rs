//! One layout's ids under the claim of the moment.
//!
//! Generators come and go with workers; the journal's bound stays above all of them, so that ids of one host go up
//! also over a change of worker.

use leafd_wire::{Layout, Run};

use super::LeaseGrant;
use crate::snowflake::{Generator, Now, Refusal};
use crate::{UnixMs, WorkerId};

/// Issues a layout's ids as long as there is a claim.
#[derive(Debug)]
pub struct Issuer {
    layout: Layout,
    drift_max_ms: u64,
    /// The journal's bound: ids below may have been issued.
    bound: UnixMs,
    /// Issued by former generators.
    issued: u64,
    /// The end of the last tick that former generators used.
    former_end: Option<UnixMs>,
    under: Option<(LeaseGrant, Generator)>,
}

/// Why no id was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotIssued {
    /// There is no worker.
    NoWorker,
    /// There is one, but not now.
    Refused(Refusal),
}

impl Issuer {
    /// An issuer above the journal's bound, without a claim. `drift_max_ms` is how far its clock may run ahead of the
    /// wall clock.
    #[must_use]
    pub fn new(layout: Layout, bound: UnixMs, drift_max_ms: u64) -> Issuer {
        Issuer { layout, drift_max_ms, bound, issued: 0, former_end: None, under: None }
    }

    /// Goes on under this claim; without one nothing is issued.
    ///
    /// # Panics
    /// When the worker doesn't fit the layout.
    pub fn follow(&mut self, claim: Option<LeaseGrant>) {
        if let (Some(claim), Some((under, generator))) = (claim, &mut self.under)
            && (claim.worker, claim.start) == (under.worker, under.start)
        {
            generator.set_limit(claim.limit);
            *under = claim;
            return;
        }
        if let Some((_, generator)) = self.under.take() {
            self.issued += generator.issued();
            self.former_end = self.former_end.max(Some(generator.used_end()));
        }
        self.under = claim.map(|claim| {
            let floor = self.bound.max(claim.start);
            let mut generator = Generator::new(self.layout, claim.worker, floor, self.drift_max_ms);
            generator.set_limit(claim.limit);
            (claim, generator)
        });
    }

    /// See [`Generator::take`].
    ///
    /// # Errors
    /// See [`NotIssued`].
    pub fn take(&mut self, now: Now, count_max: u32, random: u64) -> Result<Run, NotIssued> {
        let (_, generator) = self.under.as_mut().ok_or(NotIssued::NoWorker)?;
        generator.take(now, count_max, random).map_err(NotIssued::Refused)
    }

    /// Why the host's clock lets no id be issued now, if it doesn't, under the present claim or one that comes.
    #[must_use]
    pub fn clock_refusal(&self, now: Now) -> Option<Refusal> {
        match &self.under {
            Some((_, generator)) => generator.clock_refusal(now),
            None => Generator::new(self.layout, WorkerId(0), self.bound, self.drift_max_ms)
                .clock_refusal(now),
        }
    }

    /// The bound that the journal should have now; `None` while it has it. See [`Generator::bound_wanted`].
    #[must_use]
    pub fn bound_wanted(&self, now: Now) -> Option<UnixMs> {
        let (_, generator) = self.under.as_ref()?;
        generator.bound_wanted(now).filter(|bound| *bound > self.bound)
    }

    /// Reports a bound as durable.
    pub fn bounded(&mut self, bound: UnixMs) {
        self.bound = self.bound.max(bound);
        if let Some((claim, generator)) = &mut self.under {
            // A worker that came meanwhile has its own limit.
            let usable = self.bound.min(claim.limit);
            if usable > generator.bound() {
                generator.bounded(usable);
            }
        }
    }

    /// Goes on above a bound that the journal turned out to have.
    pub fn start_over(&mut self, bound: UnixMs) {
        self.bound = self.bound.max(bound);
        let claim = self.claim();
        self.follow(None);
        self.follow(claim);
    }

    /// The bound that the journal has.
    #[must_use]
    pub fn bound(&self) -> UnixMs {
        self.bound
    }

    /// The end of the last tick used, for an exact bound on a clean stop; `None` when nothing exact is known, because
    /// there was no claim yet.
    #[must_use]
    pub fn used_end(&self) -> Option<UnixMs> {
        let present = self.under.as_ref().map(|(_, generator)| generator.used_end());
        present.max(self.former_end)
    }

    /// From here on no id was issued: what a claim that is let go of must cover.
    #[must_use]
    pub fn issued_below(&self) -> UnixMs {
        self.used_end().unwrap_or(self.bound)
    }

    /// The claim of the moment.
    #[must_use]
    pub fn claim(&self) -> Option<LeaseGrant> {
        self.under.as_ref().map(|(claim, _)| *claim)
    }

    /// The layout.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Ids issued since the issuer was made.
    #[must_use]
    pub fn issued(&self) -> u64 {
        self.issued + self.under.as_ref().map_or(0, |(_, generator)| generator.issued())
    }
}
