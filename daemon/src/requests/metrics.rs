//! METRICS: all that the daemon counts, as text for programs that collect it.

use std::rc::Rc;

use leafd_wire::{Header, Malformed, Status};

use super::{Dispatcher, Session};
use crate::health::CONDITIONS_MAX;
use crate::metrics::{Form, Format, Told};
use crate::reply::Failure;

impl Dispatcher {
    /// Renders all metrics, and calls `told` with them later.
    pub fn scrape(self: &Rc<Self>, form: Form, told: Told) {
        if self.scrapes.ask(form, told) {
            let dispatcher = Rc::clone(self);
            tokio::task::spawn_local(async move {
                let snapshot = || dispatcher.snapshot(CONDITIONS_MAX);
                dispatcher.scrapes.serve(&dispatcher.segments, snapshot).await;
            });
        }
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
        if !self.access().may_administer(&session.peer) {
            return Err(Failure::new(
                Status::Denied,
                format!(
                    "uid {} may not read the metrics, which tell tags and volumes: add it to admin_uids, or serve them by \
                     HTTP with the setting http",
                    session.peer.uid
                ),
            ));
        }
        let reply = session.outbox.later(*header);
        let form = Form { format, process: false };
        self.scrape(form, Box::new(move |text| reply.body(text.as_bytes())));
        Ok(())
    }
}
