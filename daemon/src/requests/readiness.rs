//! Whether an id could be had now, for whoever routes traffic by it.

use super::Dispatcher;
use crate::clock;

/// Why ids of each kind can't be had; `None`: they can.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// Of segment tags.
    pub segments: Option<String>,
    /// Of snowflake layouts.
    pub snowflake: Option<String>,
}

impl Dispatcher {
    /// Which ids can be had at this moment.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        let neither = if self.stopping.get() {
            Some("the daemon is stopping".to_owned())
        } else {
            self.writer.failure().map(|failure| failure.message)
        };
        if let Some(why) = neither {
            return Readiness { segments: Some(why.clone()), snowflake: Some(why) };
        }
        let segments = (!self.segments.ready()).then(|| self.segments.store_failure());
        let now = clock::now();
        let snowflake = (!self.snowflakes.ready()).then(|| {
            let why = self.snowflakes.worker.error(now);
            why.unwrap_or_else(|| self.snowflakes.worker.unavailable_reason().message)
        });
        Readiness { segments: segments.flatten(), snowflake }
    }
}
