//! METRICS: all of the daemon's counters, as text for collectors.

use std::rc::Rc;

use leafd_wire::Malformed;

use super::busiest::Busiest;
use super::{Dispatcher, PeerRequest};
use crate::health::CONDITIONS_MAX;
use crate::metrics;
use crate::reply::Failure;

impl Dispatcher {
    /// Renders all metrics, as [`metrics::write`] does. Only one text is rendered at a time, because it may take a MiB.
    pub async fn metrics_text(&self, process: bool) -> String {
        let _one = self.rendering.lock().await;
        let tags = Busiest::of(&self.segments, self.about.metrics_tags, |_| true).await;
        let snapshot = self.snapshot(CONDITIONS_MAX);
        let write = move || metrics::write(&snapshot, tags, process);
        // This fails when the daemon ends, and nobody waits for the text any more.
        tokio::task::spawn_blocking(write).await.unwrap_or_default()
    }

    pub(super) fn metrics(self: &Rc<Self>, request: &PeerRequest<'_>) -> Result<(), Failure> {
        if request.body != [0] {
            return Err(Malformed { what: "the format is one byte, 0" }.into());
        }
        self.for_administrators(request, "read the metrics over this socket")?;
        let dispatcher = Rc::clone(self);
        request.answer_later(async move { Ok(dispatcher.metrics_text(false).await.into_bytes()) });
        Ok(())
    }
}
