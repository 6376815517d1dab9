//! Which number of a snapshot is which metric. All numbers of a snapshot are here, and no others.

use leafd_checkup::snapshot::{
    Condition, Counts, Layout, Lease, Snapshot, Store, TagNumbers, Times,
};

use super::Form;
use super::process;
use super::text::{
    Labels,
    MetricKind::{self, Counter, Gauge, Info},
    Number, TextWriter,
};
use crate::requests::{Busiest, OTHERS, Sums};

/// The name of the only store, which has no name in the configuration.
const SOLE_STORE: &str = "default";

/// Writes all metrics.
pub(super) fn write(snapshot: &Snapshot, tags: &Busiest, form: Form) -> String {
    let mut w = TextWriter::new(form.format);
    of_daemon(&mut w, snapshot);
    of_requests(&mut w, snapshot);
    of_health(&mut w, &snapshot.health.conditions);
    of_stores(&mut w, &snapshot.segments.stores);
    of_worker(&mut w, snapshot);
    of_layouts(&mut w, &snapshot.snowflake.layouts);
    of_tags(&mut w, tags);
    for (name, help, is_counter, value) in
        if form.process { process::figures() } else { Vec::new() }
    {
        w.metric(if is_counter { Counter } else { Gauge }, name, help, one(value));
    }
    w.finish()
}

/// Things of one kind, each with a series in every metric of theirs.
struct Each<'a, T> {
    w: &'a mut TextWriter,
    things: &'a [T],
    labels: fn(&T) -> Labels,
}

impl<T> Each<'_, T> {
    /// Writes a metric of those that have a value.
    fn metric<V: Into<Number>>(
        &mut self,
        kind: MetricKind,
        name: &str,
        help: &str,
        of: impl Fn(&T) -> Option<V>,
    ) {
        let labels = self.labels;
        let series = self.things.iter();
        let series = series.filter_map(|thing| Some((labels(thing), of(thing)?.into())));
        self.w.metric(kind, name, help, series);
    }

    fn counter<V: Into<Number>>(&mut self, name: &str, help: &str, of: impl Fn(&T) -> Option<V>) {
        self.metric(Counter, name, help, of);
    }

    fn gauge<V: Into<Number>>(&mut self, name: &str, help: &str, of: impl Fn(&T) -> Option<V>) {
        self.metric(Gauge, name, help, of);
    }

    fn histogram(&mut self, name: &str, help: &str, of: impl Fn(&T) -> &Times) {
        let series = self.things.iter().map(|thing| ((self.labels)(thing), of(thing)));
        self.w.histogram(
            name,
            help,
            series.map(|(labels, times)| (labels, &*times.buckets, times.sum)),
        );
    }
}

fn of_daemon(w: &mut TextWriter, snapshot: &Snapshot) {
    let daemon = &snapshot.daemon;
    let build =
        vec![("version", daemon.release.clone()), ("protocol", daemon.protocol.to_string())];
    let build = [(build, 1_u64.into())];
    w.metric(Info, "leafd_build", "The daemon's release and its protocol version.", build);
    let reloads = &snapshot.counters.reloads;
    let reloads = [("refused", reloads.refused), ("succeeded", reloads.succeeded)]
        .map(|(result, times)| (label("result", result), times.into()));
    w.metric(Counter, "leafd_config_reloads", "Configuration reloads, by result.", reloads);

    let mut all = Each { w, things: std::slice::from_ref(snapshot), labels: |_| Labels::new() };
    all.gauge("leafd_uptime_seconds", "Time since the daemon started.", |all| {
        Some(seconds(all.daemon.uptime_ms))
    });
    all.gauge("leafd_segments_ready", "1 while segment ids are available.", |all| {
        Some(all.segments.state.ready)
    });
    all.gauge("leafd_snowflake_ready", "1 while snowflake ids are available.", |all| {
        Some(all.snowflake.state.ready)
    });
    all.gauge(
        "leafd_config_last_reload_successful",
        "0 if the last reload was refused. Starting counts as a successful one.",
        |all| Some(all.counters.last_reload.successful),
    );
    all.gauge(
        "leafd_config_last_reload_success_timestamp_seconds",
        "Unix time at which the configuration last took effect.",
        |all| Some(seconds(all.counters.last_reload.success_unix_ms)),
    );
    all.gauge(
        "leafd_journal_up",
        "1 while the journal is writable. Nothing is issued without it.",
        |all| Some(all.daemon.journal_error.is_none()),
    );
    all.counter("leafd_journal_commits", "Transactions that the journal committed.", |all| {
        Some(all.counters.journal_commits)
    });
    all.counter("leafd_journal_errors", "Failed reads and writes of the journal.", |all| {
        Some(all.counters.journal.errors)
    });
    all.histogram(
        "leafd_journal_commit_duration_seconds",
        "Duration of the journal's transactions.",
        |all| &all.counters.journal.commit_seconds,
    );
}

fn of_requests(w: &mut TextWriter, snapshot: &Snapshot) {
    let counters = &snapshot.counters;
    let class = &counters.connections_by_class;
    let open = [("administrator", class.administrator), ("other", class.other)]
        .map(|(class, open)| (label("class", class), open.into()));
    let help = "Open connections of administrators (including root and the daemon's own user) and of others.";
    w.metric(Gauge, "leafd_connections", help, open);
    let refusals = each("status", &counters.refusals);
    w.metric(Counter, "leafd_requests_refused", "Failed requests, by protocol status.", refusals);
    let skipped = each("cause", &snapshot.segments.counters.skipped);
    let help =
        "Claimed ids that are never issued, by cause. Ids skipped by a crash are not counted.";
    w.metric(Counter, "leafd_ids_skipped", help, skipped);

    let mut all = Each { w, things: std::slice::from_ref(snapshot), labels: |_| Labels::new() };
    all.counter("leafd_requests", "Requests of every kind.", |all| Some(all.counters.requests));
    all.histogram(
        "leafd_request_wait_seconds",
        "Time that requests for ids waited if they were not answered at once.",
        |all| &all.counters.request_wait_seconds,
    );
    all.counter("leafd_connections_accepted", "Accepted connections.", |all| {
        Some(all.counters.connections_accepted)
    });
    all.counter("leafd_connections_refused", "Connections refused by connections_max.", |all| {
        Some(all.counters.connections_refused)
    });
    all.counter("leafd_held_runs_granted", "Runs granted to processes to hold.", |all| {
        Some(all.counters.ids.held_runs)
    });
    all.counter("leafd_held_run_ids_granted", "Ids in held runs.", |all| {
        Some(all.counters.ids.in_held_runs)
    });
    all.counter("leafd_direct_ids_issued", "Ids drawn directly.", |all| {
        Some(all.counters.ids.direct)
    });
    all.counter(
        "leafd_segment_ids_issued",
        "Issued segment ids of all tags. Held runs count as issued.",
        |all| Some(all.segments.counters.issued),
    );
    all.gauge("leafd_tags_in_use", "Segment tags in use.", |all| {
        Some(all.segments.counters.tags_in_use)
    });
    all.counter("leafd_claims", "Claims granted by a store.", |all| {
        Some(all.segments.counters.claims)
    });
    all.gauge(
        "leafd_conditions_left_out",
        "Conditions missing from leafd_condition_age_seconds, which has only the worst.",
        |all| Some(all.health.conditions_left_out),
    );
}

fn of_health(w: &mut TextWriter, things: &[Condition]) {
    let labels = |condition: &Condition| {
        let public = &condition.public;
        vec![("code", public.code.clone()), ("subject", public.subject.clone())]
    };
    let mut conditions = Each { w, things, labels };
    conditions.gauge(
        "leafd_condition_age_seconds",
        "How long each problem has lasted. docs/operate/troubles.md has a section for each code.",
        |condition| Some(seconds(condition.public.since_ms_ago)),
    );
    conditions.gauge(
        "leafd_condition_remaining_seconds",
        "How long ids remain available in spite of the problem.",
        |condition| condition.remaining_ms.map(seconds),
    );
    conditions.gauge(
        "leafd_condition_last_success_age_seconds",
        "Time since the last success of what the problem prevents.",
        |condition| condition.last_success_ms_ago.map(seconds),
    );
}

fn of_stores(w: &mut TextWriter, things: &[Store]) {
    let claims = things.iter().flat_map(|store| {
        let count = |(result, count): (&String, &u64)| {
            ([of_store(store), label("result", result)].concat(), (*count).into())
        };
        store.numbers.claims.iter().map(count)
    });
    w.metric(Counter, "leafd_store_claims", "Claims by store and result.", claims);
    let mut stores = Each { w, things, labels: of_store };
    stores.histogram(
        "leafd_store_claim_duration_seconds",
        "Duration of claims, whatever their result.",
        |store| &store.numbers.claim_seconds,
    );
    stores.gauge("leafd_store_up", "1 while claims from the store are possible.", |store| {
        Some(store.numbers.ready)
    });
    stores.counter(
        "leafd_store_failovers",
        "Changes of the store's history, after which commits may be missing.",
        |store| Some(store.numbers.failovers),
    );
    stores.counter(
        "leafd_store_conflicts",
        "Calls repeated because they conflicted with another transaction.",
        |store| Some(store.numbers.conflicts),
    );
    stores.gauge(
        "leafd_store_answer_age_seconds",
        "Time since the store last answered.",
        |store| store.numbers.answered_ms_ago.map(seconds),
    );
    stores.gauge(
        "leafd_store_claim_age_seconds",
        "Time since the store last granted a claim.",
        |store| store.numbers.claimed_ms_ago.map(seconds),
    );
    stores.gauge(
        "leafd_store_settling_seconds",
        "How long claims still wait after a fail-over.",
        |store| Some(seconds(store.numbers.settling_ms)),
    );
    stores.gauge(
        "leafd_store_journal_stale",
        "1 if the journal's ids of the store were in doubt at the start and were skipped.",
        |store| Some(store.journal_stale),
    );
}

fn of_worker(w: &mut TextWriter, snapshot: &Snapshot) {
    let lease = &snapshot.snowflake.lease;
    let place = lease.as_ref().map_or("static", |lease| &lease.place);
    let worker = snapshot.snowflake.state.worker;
    let labels = |worker: u64| vec![("worker", worker.to_string()), ("registry", place.to_owned())];
    let info = worker.map(|worker| (labels(worker), 1_u64.into()));
    let help =
        "The snowflake worker and its registry. No two hosts may have one worker of one registry.";
    w.metric(Info, "leafd_worker", help, info);
    let number = worker.and_then(one);
    w.metric(Gauge, "leafd_worker_number", "The snowflake worker of this host.", number);

    let mut leases = Each { w, things: lease.as_slice(), labels: |_: &Lease| Labels::new() };
    leases.gauge(
        "leafd_worker_lease_remaining_seconds",
        "How long snowflake ids remain available without the registry.",
        |lease| lease.numbers.left_ms.map(seconds),
    );
    leases.gauge(
        "leafd_worker_lease_end_timestamp_seconds",
        "Unix time at which the lease of the worker expires.",
        |lease| lease.numbers.until_ms.map(seconds),
    );
    leases.gauge(
        "leafd_worker_renewal_age_seconds",
        "Time since the registry last renewed the lease.",
        |lease| lease.numbers.renewed_ms_ago.map(seconds),
    );
    leases.gauge(
        "leafd_clock_offset_seconds",
        "How far the host's clock is ahead of the registry's.",
        |lease| lease.numbers.clock_offset_ms.map(|ms| ms as f64 / 1_000.0),
    );
    leases.gauge(
        "leafd_clock_held_back_seconds",
        "How far ids stay behind a clock that stepped forward, until the registry confirms the step.",
        |lease| Some(seconds(lease.numbers.clock_held_back_ms)),
    );
}

fn of_layouts(w: &mut TextWriter, things: &[Layout]) {
    let definition = |layout: &Layout| {
        let labels = vec![
            ("layout", layout.name.clone()),
            ("time_bits", layout.time_bits.to_string()),
            ("worker_bits", layout.worker_bits.to_string()),
            ("sequence_bits", layout.sequence_bits.to_string()),
            ("unit_ms", layout.unit_ms.to_string()),
            ("epoch_ms", layout.epoch_ms.to_string()),
        ];
        (labels, 1_u64.into())
    };
    let definitions = things.iter().map(definition);
    w.metric(Info, "leafd_layout", "The layout's bits, unit and epoch.", definitions);
    let mut layouts = Each { w, things, labels: |layout| label("layout", &layout.name) };
    layouts.counter("leafd_layout_ids_issued", "Issued ids of the layout.", |layout| {
        Some(layout.issued)
    });
    layouts.gauge(
        "leafd_layout_clock_ahead_seconds",
        "How far the layout's ids are ahead of the host's clock (drift).",
        |layout| layout.clock_ahead_ms.map(seconds),
    );
    layouts.gauge(
        "leafd_layout_time_left_seconds",
        "How long the layout's time bits last.",
        |layout| Some(seconds(layout.time_left_ms)),
    );
    layouts.gauge(
        "leafd_layout_mark_timestamp_seconds",
        "The layout's mark in the journal, in Unix time. Ids before it may have been issued.",
        |layout| layout.mark_ms.map(seconds),
    );
}

fn of_tags(w: &mut TextWriter, tags: &Busiest) {
    let help = "Ids of the tag issued by this daemon since the tag came into use. Missing for the other tags together: \
                see leafd_segment_ids_issued_total.";
    let issued = tags.named.iter().map(|tag| (label("tag", &tag.tag), tag.issued.into()));
    w.metric(Counter, "leafd_tag_ids_issued", help, issued);
    let mut gauge = |name,
                     help,
                     tag_value: fn(&TagNumbers) -> Option<Number>,
                     other: fn(&Sums) -> Option<Number>| {
        let named =
            tags.named.iter().filter_map(|tag| Some((label("tag", &tag.tag), tag_value(tag)?)));
        let others = other(&tags.others).filter(|_| tags.others.tags > 0);
        w.metric(Gauge, name, help, named.chain(others.map(|value| (label("tag", OTHERS), value))));
    };
    gauge(
        "leafd_tag_ids_per_second",
        "The tag's measured rate, which decides how many ids are claimed ahead.",
        |tag| Some(tag.ids_per_second.into()),
        |others| Some(others.ids_per_second.into()),
    );
    gauge(
        "leafd_tag_ids_held",
        "Claimed ids of the tag that are not issued yet.",
        |tag| Some(tag.held.into()),
        |others| Some(others.held.into()),
    );
    gauge(
        "leafd_tag_requests_waiting",
        "Requests waiting for ids of the tag.",
        |tag| Some(tag.waiting.into()),
        |others| Some(others.waiting.into()),
    );
    gauge(
        "leafd_tag_runway_seconds",
        "How long the held ids last at the measured rate without the store. Missing for idle tags, and for strict tags, \
         which hold none. For the other tags together, the shortest.",
        |tag| tag.lasts_ms.filter(|_| !tag.strict).map(|ms| seconds(ms).into()),
        |others| others.lasts_ms.map(|ms| seconds(ms).into()),
    );
    // More digits would reveal how many ids of a masked tag exist.
    gauge(
        "leafd_tag_ceiling_used_ratio",
        "Claimed part of the numbers up to the tag's ceiling, from 0 to 1. For the other tags together, the largest.",
        |tag| Some((tag.ceiling_used_percent.unwrap_or(0) as f64 / 100.0).into()),
        |others| Some((others.ceiling_used_percent as f64 / 100.0).into()),
    );
}

fn of_store(store: &Store) -> Labels {
    let name = &*store.numbers.name;
    label("store", if name.is_empty() { SOLE_STORE } else { name })
}

fn label(name: &'static str, text: &str) -> Labels {
    vec![(name, text.to_owned())]
}

fn one(value: impl Into<Number>) -> Option<(Labels, Number)> {
    Some((Labels::new(), value.into()))
}

fn each(name: &'static str, counts: &Counts) -> impl Iterator<Item = (Labels, Number)> {
    counts.iter().map(move |(text, count)| (label(name, text), (*count).into()))
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}
