//! METRICS: all that the daemon counts, as text for programs that collect it.

use std::rc::Rc;

use leafd_wire::{Header, Malformed};

use super::busiest::Busiest;
use super::{Dispatcher, Session};
use crate::health::CONDITIONS_MAX;
use crate::metrics::{self, Form, Format};
use crate::reply::Failure;

impl Dispatcher {
    /// Renders all metrics. One text is made at a time, because it may take a MiB.
    pub async fn metrics_text(&self, form: Form) -> String {
        let _one = self.rendering.lock().await;
        let tags = Busiest::of(&self.segments, self.about.metrics_tags, |_| true).await;
        let snapshot = self.snapshot(CONDITIONS_MAX);
        let write = move || metrics::write(&snapshot, tags, form);
        // This fails when the daemon ends. Then nobody waits for the text.
        tokio::task::spawn_blocking(write).await.unwrap_or_default()
    }

    pub(super) fn metrics(
        self: &Rc<Self>,
        session: &Session,
        header: &Header,
        body: &[u8],
    ) -> Result<(), Failure> {
        let format = match body {
            [0] => Format::Prometheus,
            [1] => Format::OpenMetrics,
            _ => return Err(Malformed { what: "the format is one byte, 0 or 1" }.into()),
        };
        self.for_administrators(session, "read the metrics over this socket")?;
        let reply = session.outbox.later(*header);
        let dispatcher = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let text = dispatcher.metrics_text(Form { format, process: false }).await;
            reply.body(text.as_bytes());
        });
        Ok(())
    }
}
