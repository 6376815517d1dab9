//! Which number of a snapshot is which metric. All numbers of a snapshot are here, and no others.

use leafd_checkup::snapshot::{Condition, Counts, Layout, Snapshot, Store, Times, store_subject};

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

/// Objects of one kind, such as tags, each with a series in every metric of that kind.
struct Each<'a, T> {
    w: &'a mut TextWriter,
    things: &'a [T],
    labels: fn(&T) -> Labels,
}

impl<T> Each<'_, T> {
    fn metric<F: Figure>(&mut self, name: &str, of: impl Fn(&T) -> F) {
        let labels = self.labels;
        self.w.metric(name, self.things.iter().map(|thing| (labels(thing), of(thing))));
    }
}

fn of_daemon(w: &mut TextWriter, snapshot: &Snapshot) {
    let Snapshot { daemon, counters, host, .. } = snapshot;
    let build =
        vec![("version", daemon.release.clone()), ("protocol", daemon.protocol.to_string())];
    w.metric("leafd_build_info", [(build, true)]);
    let reloads = &counters.reloads;
    let by_result = [("refused", reloads.refused), ("succeeded", reloads.succeeded)]
        .map(|(result, times)| (label("result", result), times));
    w.metric("leafd_config_reloads_total", by_result);
    w.one("leafd_uptime_seconds", seconds(daemon.uptime_ms));
    w.one("leafd_segments_ready", snapshot.segments.state.ready);
    w.one("leafd_snowflake_ready", snapshot.snowflake.state.ready);
    w.one("leafd_config_last_reload_successful", counters.last_reload.successful);
    let reloaded = seconds(counters.last_reload.success_unix_ms);
    w.one("leafd_config_last_reload_success_timestamp_seconds", reloaded);
    w.one("leafd_journal_up", host.journal_error.is_none());
    w.one("leafd_journal_commits_total", counters.journal_commits);
    w.one("leafd_journal_errors_total", counters.journal.errors);
    let times = histogram(Labels::new(), &counters.journal.commit_seconds);
    w.histogram("leafd_journal_commit_duration_seconds", [times]);
}

fn of_requests(w: &mut TextWriter, snapshot: &Snapshot) {
    let Snapshot { counters, segments, .. } = snapshot;
    let class = &counters.connections_by_class;
    let open = [("administrator", class.administrator), ("other", class.other)]
        .map(|(class, open)| (label("class", class), open));
    w.metric("leafd_connections", open);
    w.metric("leafd_requests_refused_total", each("status", &counters.refusals));
    w.metric("leafd_ids_skipped_total", each("cause", &segments.counters.skipped));
    w.one("leafd_requests_total", counters.requests);
    let times = histogram(Labels::new(), &counters.request_wait_seconds);
    w.histogram("leafd_request_wait_seconds", [times]);
    w.one("leafd_connections_accepted_total", counters.connections_accepted);
    w.one("leafd_connections_refused_total", counters.connections_refused);
    w.one("leafd_held_runs_granted_total", counters.ids.held_runs);
    w.one("leafd_held_run_ids_granted_total", counters.ids.in_held_runs);
    w.one("leafd_direct_ids_issued_total", counters.ids.direct);
    w.one("leafd_segment_ids_issued_total", segments.counters.issued);
    w.one("leafd_tags_in_use", segments.counters.tags_in_use);
    w.one("leafd_claims_total", segments.counters.claims);
    w.one("leafd_conditions_left_out", snapshot.health.conditions_left_out);
}

fn of_health(w: &mut TextWriter, things: &[Condition]) {
    let labels = |condition: &Condition| {
        let public = &condition.public;
        vec![("code", public.code.clone()), ("subject", public.subject.clone())]
    };
    let mut each = Each { w, things, labels };
    each.metric("leafd_condition_age_seconds", |one| seconds(one.public.since_ms_ago));
    each.metric("leafd_condition_remaining_seconds", |one| one.remaining_ms.map(seconds));
    each.metric("leafd_condition_last_success_age_seconds", |one| {
        one.last_success_ms_ago.map(seconds)
    });
}

fn of_stores(w: &mut TextWriter, things: &[Store]) {
    let labels = |store: &Store| label("store", store_subject(&store.numbers.name));
    let claims = things.iter().flat_map(|store| {
        let claims = each("result", &store.numbers.claims);
        claims.map(move |(result, count)| ([labels(store), result].concat(), count))
    });
    w.metric("leafd_store_claims_total", claims);
    let took = things.iter().map(|store| histogram(labels(store), &store.numbers.claim_seconds));
    w.histogram("leafd_store_claim_duration_seconds", took);
    let mut each = Each { w, things, labels };
    each.metric("leafd_store_up", |one| one.numbers.ready);
    each.metric("leafd_store_failovers_total", |one| one.numbers.failovers);
    each.metric("leafd_store_conflicts_total", |one| one.numbers.conflicts);
    each.metric("leafd_store_answer_age_seconds", |one| one.numbers.answered_ms_ago.map(seconds));
    each.metric("leafd_store_claim_age_seconds", |one| one.numbers.claimed_ms_ago.map(seconds));
    each.metric("leafd_store_settling_seconds", |one| seconds(one.numbers.settling_ms));
    each.metric("leafd_store_journal_stale", |one| one.journal_stale);
}

fn of_worker(w: &mut TextWriter, snapshot: &Snapshot) {
    let worker = snapshot.snowflake.state.worker;
    let lease = snapshot.snowflake.lease.as_ref();
    let registry = lease.map_or("static", |lease| lease.registry_id.as_deref().unwrap_or_default());
    let labels =
        |worker: u64| vec![("worker", worker.to_string()), ("registry", registry.to_owned())];
    w.metric("leafd_worker_info", worker.map(|worker| (labels(worker), true)));
    w.one("leafd_worker_number", worker);
    let Some(lease) = lease.map(|lease| &lease.numbers) else { return };
    w.one("leafd_worker_lease_remaining_seconds", lease.left_ms.map(seconds));
    w.one("leafd_worker_lease_end_timestamp_seconds", lease.until_ms.map(seconds));
    w.one("leafd_worker_renewal_age_seconds", lease.renewed_ms_ago.map(seconds));
    let offset = lease.clock_offset_ms.map(|ms| ms as f64 / 1_000.0);
    w.one("leafd_clock_offset_seconds", offset);
    w.one("leafd_clock_held_back_seconds", seconds(lease.clock_held_back_ms));
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
    w.metric("leafd_layout_info", things.iter().map(|layout| (definition(layout), true)));
    let mut each = Each { w, things, labels: |layout| label("layout", &layout.name) };
    each.metric("leafd_layout_ids_issued_total", |one| one.issued);
    each.metric("leafd_layout_clock_ahead_seconds", |one| one.clock_ahead_ms.map(seconds));
    each.metric("leafd_layout_time_left_seconds", |one| seconds(one.time_left_ms));
    each.metric("leafd_layout_mark_timestamp_seconds", |one| one.mark_ms.map(seconds));
}

fn of_tags(w: &mut TextWriter, tags: &Busiest) {
    let issued = tags.named.iter().map(|tag| (label("tag", &tag.tag), tag.issued));
    w.metric("leafd_tag_ids_issued_total", issued);
    let named = tags.named.iter().map(|tag| (tag.tag.as_str(), Sums::of(tag)));
    let others = (tags.others.tags > 0).then_some((OTHERS, tags.others));
    let things: Vec<(&str, Sums)> = named.chain(others).collect();
    let mut each = Each { w, things: &things, labels: |(tag, _)| label("tag", tag) };
    each.metric("leafd_tag_ids_per_second", |(_, sums)| sums.ids_per_second);
    each.metric("leafd_tag_ids_held", |(_, sums)| sums.held);
    each.metric("leafd_tag_requests_waiting", |(_, sums)| sums.waiting);
    each.metric("leafd_tag_runway_seconds", |(_, sums)| sums.lasts_ms.map(seconds));
    // More digits would reveal how many ids of a masked tag exist.
    each.metric("leafd_tag_ceiling_used_ratio", |(_, sums)| {
        sums.ceiling_used_percent as f64 / 100.0
    });
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
