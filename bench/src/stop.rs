//! Ctrl-C ends the measurement early, and everything that it started.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

static STOPPED: AtomicBool = AtomicBool::new(false);

/// An instant, or earlier if the user stops the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End(Instant);

extern "C" fn on_signal(_: i32) {
    STOPPED.store(true, Ordering::Relaxed);
}

/// Makes the first SIGINT or SIGTERM end the run cleanly. The second one kills.
pub(crate) fn on_signals() -> Result<()> {
    let flags = SaFlags::SA_RESTART | SaFlags::SA_RESETHAND;
    let action = SigAction::new(SigHandler::Handler(on_signal), flags, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        // SAFETY: the handler only stores to an atomic.
        unsafe { sigaction(signal, &action) }.context("cannot wait for signals")?;
    }
    Ok(())
}

/// Returns an error once the user wants to stop.
pub(crate) fn check() -> Result<()> {
    if STOPPED.load(Ordering::Relaxed) {
        bail!("interrupted; everything that the bench started is stopped");
    }
    Ok(())
}

impl End {
    pub(crate) fn after(time: Duration) -> End {
        End(Instant::now() + time)
    }

    pub(crate) fn reached(self) -> bool {
        self.reached_at(Instant::now())
    }

    pub(crate) fn reached_at(self, now: Instant) -> bool {
        now >= self.0 || STOPPED.load(Ordering::Relaxed)
    }
}
