//! Which number of a snapshot is which metric. All numbers of a snapshot are here, and no others.

use leafd_checkup::snapshot::{
    Condition, Counts, Layout, Snapshot, Store, TagNumbers, Times, store_subject,
};

use super::process;
use super::text::{Figure, Labels, TextWriter};
use crate::requests::{Busiest, OTHERS, Sums};

/// Writes all metrics.
pub(super) fn write(snapshot: &Snapshot, tags: &Busiest, process: bool) -> String {
    let mut w = TextWriter::default();
    of_daemon(&mut w, snapshot);
    of_requests(&mut w, snapshot);
    of_health(&mut w, &snapshot.health.conditions);
    of_stores(&mut w, &snapshot.segments.stores);
    of_worker(&mut w, snapshot);
    of_layouts(&mut w, &snapshot.snowflake.layouts);
    of_tags(&mut w, tags);
    if process {
        process::write(&mut w);
    }
    w.text
}

/// Things of one kind, each with a series in every metric of theirs.
struct Each<'a, T> {
    w: &'a mut TextWriter,
    things: &'a [T],
    labels: fn(&T) -> Labels,
}

impl<T> Each<'_, T> {
    fn metric<F: Figure>(&mut self, name: &str, help: &str, of: impl Fn(&T) -> F) {
        let labels = self.labels;
        self.w.metric(name, help, self.things.iter().map(|thing| (labels(thing), of(thing))));
    }
}

fn of_daemon(w: &mut TextWriter, snapshot: &Snapshot) {
    let Snapshot { daemon, counters, host, .. } = snapshot;
    let build =
        vec![("version", daemon.release.clone()), ("protocol", daemon.protocol.to_string())];
    w.metric("leafd_build_info", "The daemon's release and its protocol version.", [(build, true)]);
    let reloads = &counters.reloads;
    let by_result = [("refused", reloads.refused), ("succeeded", reloads.succeeded)]
        .map(|(result, times)| (label("result", result), times));
    w.metric("leafd_config_reloads_total", "Configuration reloads, by result.", by_result);
    let up = seconds(daemon.uptime_ms);
    w.one("leafd_uptime_seconds", "Time since the daemon started.", up);
    let ready = snapshot.segments.state.ready;
    w.one("leafd_segments_ready", "1 while segment ids are available.", ready);
    let ready = snapshot.snowflake.state.ready;
    w.one("leafd_snowflake_ready", "1 while snowflake ids are available.", ready);
    w.one(
        "leafd_config_last_reload_successful",
        "0 if the last reload was refused. Starting counts as a successful one.",
        counters.last_reload.successful,
    );
    w.one(
        "leafd_config_last_reload_success_timestamp_seconds",
        "Unix time at which the configuration last took effect.",
        seconds(counters.last_reload.success_unix_ms),
    );
    let help = "1 while the journal is writable. Nothing is issued without it.";
    w.one("leafd_journal_up", help, host.journal_error.is_none());
    let help = "Transactions that the journal committed.";
    w.one("leafd_journal_commits_total", help, counters.journal_commits);
    let help = "Failed reads and writes of the journal.";
    w.one("leafd_journal_errors_total", help, counters.journal.errors);
    let help = "Duration of the journal's transactions.";
    let times = histogram(Labels::new(), &counters.journal.commit_seconds);
    w.histogram("leafd_journal_commit_duration_seconds", help, [times]);
}

fn of_requests(w: &mut TextWriter, snapshot: &Snapshot) {
    let Snapshot { counters, segments, .. } = snapshot;
    let class = &counters.connections_by_class;
    let open = [("administrator", class.administrator), ("other", class.other)]
        .map(|(class, open)| (label("class", class), open));
    let help = "Open connections of administrators (including root and the daemon's own user) and of others.";
    w.metric("leafd_connections", help, open);
    let refusals = each("status", &counters.refusals);
    w.metric("leafd_requests_refused_total", "Failed requests, by protocol status.", refusals);
    let skipped = each("cause", &segments.counters.skipped);
    let help =
        "Claimed ids that are never issued, by cause. Ids skipped by a crash are not counted.";
    w.metric("leafd_ids_skipped_total", help, skipped);
    w.one("leafd_requests_total", "Requests of every kind.", counters.requests);
    let help = "Time that requests for ids waited if they were not answered at once.";
    let times = histogram(Labels::new(), &counters.request_wait_seconds);
    w.histogram("leafd_request_wait_seconds", help, [times]);
    let accepted = counters.connections_accepted;
    w.one("leafd_connections_accepted_total", "Accepted connections.", accepted);
    let help = "Connections refused by connections_max.";
    w.one("leafd_connections_refused_total", help, counters.connections_refused);
    let help = "Runs granted to processes to hold.";
    w.one("leafd_held_runs_granted_total", help, counters.ids.held_runs);
    w.one("leafd_held_run_ids_granted_total", "Ids in held runs.", counters.ids.in_held_runs);
    w.one("leafd_direct_ids_issued_total", "Ids drawn directly.", counters.ids.direct);
    let help = "Issued segment ids of all tags. Held runs count as issued.";
    w.one("leafd_segment_ids_issued_total", help, segments.counters.issued);
    w.one("leafd_tags_in_use", "Segment tags in use.", segments.counters.tags_in_use);
    w.one("leafd_claims_total", "Claims granted by a store.", segments.counters.claims);
    let help = "Conditions missing from leafd_condition_age_seconds, which has only the worst.";
    w.one("leafd_conditions_left_out", help, snapshot.health.conditions_left_out);
}

fn of_health(w: &mut TextWriter, things: &[Condition]) {
    let labels = |condition: &Condition| {
        let public = &condition.public;
        vec![("code", public.code.clone()), ("subject", public.subject.clone())]
    };
    let mut conditions = Each { w, things, labels };
    conditions.metric(
        "leafd_condition_age_seconds",
        "How long each problem has lasted. docs/operate/troubles.md has a section for each code.",
        |condition| seconds(condition.public.since_ms_ago),
    );
    conditions.metric(
        "leafd_condition_remaining_seconds",
        "How long ids remain available in spite of the problem.",
        |condition| condition.remaining_ms.map(seconds),
    );
    conditions.metric(
        "leafd_condition_last_success_age_seconds",
        "Time since the last success of what the problem prevents.",
        |condition| condition.last_success_ms_ago.map(seconds),
    );
}

fn of_stores(w: &mut TextWriter, things: &[Store]) {
    let labels = |store: &Store| label("store", store_subject(&store.numbers.name));
    let claims = things.iter().flat_map(|store| {
        let claims = each("result", &store.numbers.claims);
        claims.map(move |(result, count)| ([labels(store), result].concat(), count))
    });
    w.metric("leafd_store_claims_total", "Claims by store and result.", claims);
    w.histogram(
        "leafd_store_claim_duration_seconds",
        "Duration of claims, whatever their result.",
        things.iter().map(|store| histogram(labels(store), &store.numbers.claim_seconds)),
    );
    let mut stores = Each { w, things, labels };
    stores.metric("leafd_store_up", "1 while claims from the store are possible.", |store| {
        store.numbers.ready
    });
    stores.metric(
        "leafd_store_failovers_total",
        "Changes of the store's history, after which commits may be missing.",
        |store| store.numbers.failovers,
    );
    stores.metric(
        "leafd_store_conflicts_total",
        "Calls repeated because they conflicted with another transaction.",
        |store| store.numbers.conflicts,
    );
    stores.metric(
        "leafd_store_answer_age_seconds",
        "Time since the store last answered.",
        |store| store.numbers.answered_ms_ago.map(seconds),
    );
    stores.metric(
        "leafd_store_claim_age_seconds",
        "Time since the store last granted a claim.",
        |store| store.numbers.claimed_ms_ago.map(seconds),
    );
    stores.metric(
        "leafd_store_settling_seconds",
        "How long claims still wait after a fail-over.",
        |store| seconds(store.numbers.settling_ms),
    );
    stores.metric(
        "leafd_store_journal_stale",
        "1 if the journal's ids of the store were in doubt at the start and were skipped.",
        |store| store.journal_stale,
    );
}

fn of_worker(w: &mut TextWriter, snapshot: &Snapshot) {
    let worker = snapshot.snowflake.state.worker;
    let lease = snapshot.snowflake.lease.as_ref();
    let registry = lease.map_or("static", |lease| lease.registry_id.as_deref().unwrap_or_default());
    let labels =
        |worker: u64| vec![("worker", worker.to_string()), ("registry", registry.to_owned())];
    let help = "The snowflake worker and the id of its registry. No two hosts may have one worker of one registry.";
    w.metric("leafd_worker_info", help, worker.map(|worker| (labels(worker), true)));
    w.one("leafd_worker_number", "The snowflake worker of this host.", worker);
    let Some(lease) = lease.map(|lease| &lease.numbers) else { return };
    w.one(
        "leafd_worker_lease_remaining_seconds",
        "How long snowflake ids remain available without the registry.",
        lease.left_ms.map(seconds),
    );
    w.one(
        "leafd_worker_lease_end_timestamp_seconds",
        "Unix time at which the lease of the worker expires.",
        lease.until_ms.map(seconds),
    );
    let help = "Time since the registry last renewed the lease.";
    w.one("leafd_worker_renewal_age_seconds", help, lease.renewed_ms_ago.map(seconds));
    let help = "How far the host's clock is ahead of the registry's.";
    let offset = lease.clock_offset_ms.map(|ms| ms as f64 / 1_000.0);
    w.one("leafd_clock_offset_seconds", help, offset);
    w.one(
        "leafd_clock_held_back_seconds",
        "How far ids stay behind a clock that stepped forward, until the registry confirms the step.",
        seconds(lease.clock_held_back_ms),
    );
}

fn of_layouts(w: &mut TextWriter, things: &[Layout]) {
    let definition = |layout: &Layout| {
        vec![
            ("layout", layout.name.clone()),
            ("time_bits", layout.time_bits.to_string()),
            ("worker_bits", layout.worker_bits.to_string()),
            ("sequence_bits", layout.sequence_bits.to_string()),
            ("unit_ms", layout.unit_ms.to_string()),
            ("epoch_ms", layout.epoch_ms.to_string()),
        ]
    };
    let definitions = things.iter().map(|layout| (definition(layout), true));
    w.metric("leafd_layout_info", "The layout's bits, unit and epoch.", definitions);
    let mut layouts = Each { w, things, labels: |layout| label("layout", &layout.name) };
    layouts.metric("leafd_layout_ids_issued_total", "Issued ids of the layout.", |layout| {
        layout.issued
    });
    layouts.metric(
        "leafd_layout_clock_ahead_seconds",
        "How far the layout's ids are ahead of the host's clock (drift).",
        |layout| layout.clock_ahead_ms.map(seconds),
    );
    layouts.metric(
        "leafd_layout_time_left_seconds",
        "How long the layout's time bits last.",
        |layout| seconds(layout.time_left_ms),
    );
    layouts.metric(
        "leafd_layout_mark_timestamp_seconds",
        "The layout's mark in the journal, in Unix time. Ids before it may have been issued.",
        |layout| layout.mark_ms.map(seconds),
    );
}

fn of_tags(w: &mut TextWriter, tags: &Busiest) {
    let help = "Ids of the tag issued by this daemon since the tag came into use. Missing for the other tags together: \
                see leafd_segment_ids_issued_total.";
    let issued = tags.named.iter().map(|tag| (label("tag", &tag.tag), tag.issued));
    w.metric("leafd_tag_ids_issued_total", help, issued);
    let mut metric =
        |name, help, tag_value: fn(&TagNumbers) -> Option<f64>, other: fn(&Sums) -> Option<f64>| {
            let named = tags.named.iter().map(|tag| (label("tag", &tag.tag), tag_value(tag)));
            let others =
                (tags.others.tags > 0).then(|| (label("tag", OTHERS), other(&tags.others)));
            w.metric(name, help, named.chain(others));
        };
    metric(
        "leafd_tag_ids_per_second",
        "The tag's measured rate, which decides how many ids are claimed ahead.",
        |tag| Some(tag.ids_per_second),
        |others| Some(others.ids_per_second),
    );
    metric(
        "leafd_tag_ids_held",
        "Claimed ids of the tag that are not issued yet.",
        |tag| Some(tag.held as f64),
        |others| Some(others.held as f64),
    );
    metric(
        "leafd_tag_requests_waiting",
        "Requests waiting for ids of the tag.",
        |tag| Some(tag.waiting as f64),
        |others| Some(others.waiting as f64),
    );
    metric(
        "leafd_tag_runway_seconds",
        "How long the held ids last at the measured rate without the store. Missing for idle tags, and for strict tags, \
         which hold none. For the other tags together, the shortest.",
        |tag| tag.lasts_ms.filter(|_| !tag.strict).map(seconds),
        |others| others.lasts_ms.map(seconds),
    );
    // More digits would reveal how many ids of a masked tag exist.
    metric(
        "leafd_tag_ceiling_used_ratio",
        "Claimed part of the numbers up to the tag's ceiling, from 0 to 1. For the other tags together, the largest.",
        |tag| Some(tag.ceiling_used_percent.unwrap_or(0) as f64 / 100.0),
        |others| Some(others.ceiling_used_percent as f64 / 100.0),
    );
}

fn histogram(labels: Labels, times: &Times) -> (Labels, &[(f64, u64)], f64) {
    (labels, &times.buckets, times.sum)
}

fn label(name: &'static str, text: &str) -> Labels {
    vec![(name, text.to_owned())]
}

fn each(name: &'static str, counts: &Counts) -> impl Iterator<Item = (Labels, u64)> {
    counts.iter().map(move |(text, count)| (label(name, text), *count))
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}
