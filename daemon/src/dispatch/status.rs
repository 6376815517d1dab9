//! STATUS: the daemon's state as JSON. What tells volumes (tags, counters, bounds) is for administrators;
//! others learn whether ids can be had.

use std::rc::Rc;

use leafd_wire::{Header, Malformed};
use serde_json::{Value, json};

use super::segments::Home;
use super::{Dispatcher, Failure, Session, clock};
use crate::id::BootMs;

/// Most tags in one answer; the busiest come first.
const TAGS_MAX: usize = 100;

impl Dispatcher {
    pub(super) fn status(
        self: &Rc<Self>,
        session: &Session,
        header: &Header,
        body: &[u8],
    ) -> Result<(), Failure> {
        if !body.is_empty() {
            return Err(Malformed { what: "the body goes on after its last field" }.into());
        }
        let mut status = self.summary();
        if self.access().may_administer(&session.peer) {
            self.add_details(&mut status);
        }
        session.outbox.body(header, &super::admin::json(&status));
        Ok(())
    }

    fn summary(&self) -> Value {
        let journal = self.writer.failure().map(|failure| failure.message);
        let store = self.segments.store_failure().map(|failure| failure.message);
        json!({
            "release": env!("CARGO_PKG_VERSION"),
            "protocol": leafd_wire::VERSION,
            "pid": std::process::id(),
            "uptime_ms": clock::boot().0 - self.about.started.0,
            "segments": {
                "ready": journal.is_none() && store.is_none(),
                "store_error": store,
            },
            "snowflake": { "ready": self.snowflakes.ready(), "worker": self.worker() },
            "journal_error": journal,
        })
    }

    fn add_details(&self, status: &mut Value) {
        let now = clock::now();
        let mut tags = Vec::new();
        self.segments.each(|tag| {
            let mut supply = tag.supply.borrow_mut();
            let ids_per_second = supply.ids_per_second(now.boot);
            tags.push((
                ids_per_second,
                json!({
                    "tag": tag.tag.as_str(),
                    "issued": supply.issued(),
                    "ids_per_second": ids_per_second.round(),
                    "held": supply.unissued(),
                    "waiting": supply.waiting(),
                    "strict": supply.is_strict(),
                    "highest_ends": supply.highest_ends(),
                }),
            ));
        });
        let in_use = tags.len();
        tags.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        let tags: Vec<Value> = tags.into_iter().take(TAGS_MAX).map(|(_, tag)| tag).collect();
        let layouts: Vec<Value> = self
            .snowflakes
            .layouts()
            .iter()
            .map(|tag| {
                let generator = tag.generator.borrow();
                json!({
                    "name": tag.name.as_str(),
                    "time_bits": tag.layout.time_bits,
                    "worker_bits": tag.layout.worker_bits,
                    "sequence_bits": tag.layout.sequence_bits,
                    "unit_ms": tag.layout.unit_ms,
                    "epoch_ms": tag.layout.epoch_ms,
                    "issued": generator.as_ref().map_or(0, |generator| generator.issued()),
                    "bound_ms": generator.as_ref().map(|generator| generator.bound().0),
                    "clock_ahead_ms": generator.as_ref().map(|generator| {
                        let unit_ms = u64::from(tag.layout.unit_ms);
                        generator.used_end().0.saturating_sub(now.unix.0 + unit_ms)
                    }),
                })
            })
            .collect();
        let counters = self.counters();
        status["host"] = json!(self.about.host);
        status["socket"] = json!(self.about.socket);
        status["state_dir"] = json!(self.about.state_dir);
        status["journal_set_aside"] = json!(self.about.set_aside);
        status["journal_commits"] = json!(self.writer.commits());
        status["requests"] = json!(counters.requests.get());
        status["requests_refused"] = json!(counters.refused.get());
        status["connections"] = json!(counters.connections.get());
        status["connections_accepted"] = json!(counters.accepted.get());
        status["segments"]["stores"] = json!(self.stores(now.boot));
        status["segments"]["claims"] = json!(self.segments.claims());
        status["segments"]["tags_in_use"] = json!(in_use);
        status["segments"]["tags"] = json!(tags);
        status["snowflake"]["registry"] = json!(self.about.worker);
        status["snowflake"]["layouts"] = json!(layouts);
    }

    fn stores(&self, now: BootMs) -> Vec<Value> {
        let store = |home: &Rc<Home>| {
            let error = home.excuse().map(|failure| failure.message);
            json!({
                "name": &*home.name,
                "url": &*home.url,
                "store_id": home.key().map(|key| key.to_string()),
                "place": &*home.role.0,
                "history": home.trusted().map(|trusted| trusted.history.to_string()),
                "ready": error.is_none(),
                "error": error,
                "failovers": home.fail_overs(),
                "settling_ms": home.settling_ms(now),
                "journal_stale": home.stale(),
            })
        };
        self.segments.homes().iter().map(store).collect()
    }

    fn worker(&self) -> Option<u64> {
        let layout = self.snowflakes.layouts().first()?;
        layout.generator.borrow().as_ref().map(|generator| generator.worker().0)
    }
}
