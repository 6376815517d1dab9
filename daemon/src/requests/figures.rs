//! The numbers that STATUS and the metrics share: all of the daemon's but those of its tags.

use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::Dispatcher;
use crate::clock;
use crate::engine::upstream::Upstream;
use crate::health::CONDITIONS_MAX;
use crate::histogram::Counted;
use crate::metrics::Times;
use crate::metrics::{CLAIMS, COMMITS, WAITS};
use leafd_core::BootMs;
use leafd_core::snowflake::Now;

/// The name of the only store, which has no name in the configuration.
const SOLE_STORE: &str = "default";

impl Dispatcher {
    /// The numbers as the metrics need them.
    pub(crate) fn figures(&self) -> (Value, Times) {
        let now = clock::now();
        let mut status = self.summary();
        self.add_figures(&mut status, now);
        status["segments"]["tags_in_use"] = json!(self.segments.count());
        status["health"] = self.health.status(true, CONDITIONS_MAX);
        status["journal"]["works"] = json!(self.writer.works());
        let place = match &status["snowflake"]["lease"]["place"] {
            Value::Null => json!("static"),
            place => place.clone(),
        };
        status["snowflake"]["registry_place"] = place;
        status["release_and_protocol"] =
            json!({"release": status["release"], "protocol": status["protocol"]});
        if let Some(stores) = status["segments"]["stores"].as_array_mut() {
            for store in stores.iter_mut().filter(|store| store["name"] == "") {
                store["name"] = json!(SOLE_STORE);
            }
        }
        let mut times = vec![
            (WAITS, None, self.tally.waits.counted()),
            (COMMITS, None, self.writer.journal().commit_times()),
        ];
        times.extend(self.segments.upstreams().iter().map(|upstream| {
            let name = if upstream.name.is_empty() { SOLE_STORE } else { &*upstream.name };
            (CLAIMS, Some(name.to_owned()), upstream.claims.took.counted())
        }));
        (status, times)
    }

    /// Adds the numbers to a status.
    pub(super) fn add_figures(&self, status: &mut Value, now: Now) {
        let counters = self.counters();
        let refusals: Map<String, Value> = self
            .tally
            .refusals()
            .map(|(status, count)| (status.name().to_owned(), json!(count)))
            .collect();
        let [held_runs, in_held_runs, direct] = self.tally.ids();
        let (connections, administrators) =
            (counters.connections.get(), counters.administrators.get());
        let journal = self.writer.journal();
        status["requests"] = json!(counters.requests.get());
        status["refusals"] = json!(refusals);
        status["request_wait_seconds"] = times(&self.tally.waits.counted());
        status["ids"] =
            json!({"held_runs": held_runs, "in_held_runs": in_held_runs, "direct": direct});
        status["connections"] = json!(connections);
        status["connections_by_class"] =
            json!({"administrator": administrators, "other": connections - administrators});
        status["connections_accepted"] = json!(counters.accepted.get());
        status["connections_refused"] = json!(counters.turned_away.get());
        status["journal_commits"] = json!(journal.commits());
        status["journal"] = json!({
            "errors": journal.errors(),
            "commit_seconds": times(&journal.commit_times()),
        });
        status["reloads"] = json!({
            "succeeded": counters.reloads.get(),
            "refused": counters.reloads_refused.get(),
        });
        status["last_reload"] = json!({
            "successful": !counters.reload_refused_last.get(),
            "success_unix_ms": counters.configured_at.get().0,
        });
        status["segments"]["stores"] = json!(self.stores(now.boot));
        status["segments"]["claims"] = json!(self.segments.claims());
        status["segments"]["issued"] = json!(self.segments.issued());
        let skipped = self.segments.skipped.by_cause();
        status["segments"]["skipped"] =
            skipped.map(|(cause, ids)| (cause.to_owned(), json!(ids))).collect();
        status["snowflake"]["lease"] = self.snowflakes.worker.details(now);
        status["snowflake"]["layouts"] = json!(self.layouts(now));
    }

    fn layouts(&self, now: Now) -> Vec<Value> {
        let layout = |tag: &Rc<crate::engine::snowflakes::SnowflakeTag>| {
            let generator = tag.generator.borrow();
            json!({
                "name": tag.name.as_str(),
                "time_bits": tag.layout.time_bits,
                "worker_bits": tag.layout.worker_bits,
                "sequence_bits": tag.layout.sequence_bits,
                "unit_ms": tag.layout.unit_ms,
                "epoch_ms": tag.layout.epoch_ms,
                "time_left_ms": tag.time_left_ms(now.unix),
                "issued": generator.issued(),
                "mark_ms": generator.grant().map(|_| generator.mark().0),
                "clock_ahead_ms": generator.used_end().map(|used_end| {
                    let unit_ms = u64::from(tag.layout.unit_ms);
                    used_end.0.saturating_sub(now.unix.0 + unit_ms)
                }),
            })
        };
        self.snowflakes.layouts().iter().map(layout).collect()
    }

    fn stores(&self, now: BootMs) -> Vec<Value> {
        let ago = |at: BootMs| now.0.saturating_sub(at.0);
        let store = |(index, upstream): (usize, &Rc<Upstream>)| {
            let error = self.segments.store_trouble(index, now).map(|trouble| trouble.message);
            let claimed_at = self.segments.outcomes.borrow().succeeded_at(index);
            let claims: Map<String, Value> = upstream
                .claims
                .by_result()
                .map(|(result, count)| (result.to_owned(), json!(count)))
                .collect();
            json!({
                "name": &*upstream.name,
                "url": &*upstream.url,
                "store_id": upstream.key().map(|key| key.to_string()),
                "role": &*upstream.role.0,
                "history": upstream.trusted().map(|trusted| trusted.history.to_string()),
                "ready": error.is_none(),
                "error": error,
                "answered_ms_ago": upstream.answered_at().map(ago),
                "claimed_ms_ago": claimed_at.map(ago),
                "failovers": upstream.fail_overs(),
                "conflicts": upstream.conflicts(),
                "settling_ms": upstream.settling_ms(now),
                "journal_stale": upstream.stale(),
                "claims": claims,
                "claim_seconds": times(&upstream.claims.took.counted()),
            })
        };
        self.segments.upstreams().iter().enumerate().map(store).collect()
    }
}

/// The number of events, and the sum of their durations in seconds.
fn times(counted: &Counted) -> Value {
    json!({"count": counted.count(), "sum": counted.sum_seconds})
}
