//! Which number of a snapshot is which metric. All numbers of a snapshot are here, and no others.

use leafd_checkup::snapshot::{Condition, Counts, Layout, Snapshot, Store};

use super::Form;
use super::process;
use super::tags::{Gathered, OTHERS, TagFigures};
use super::text::{
    Kind::{Counter, Gauge, Info},
    Labels, Number, Writer,
};

/// The name of the only store, which has no name in the configuration.
const SOLE_STORE: &str = "default";

/// Writes all metrics.
pub(super) fn write(snapshot: &Snapshot, tags: &Gathered, form: Form) -> String {
    let mut w = Writer::new(form.format);
    of_daemon(&mut w, snapshot);
    of_health(&mut w, &snapshot.health.conditions);
    of_stores(&mut w, &snapshot.segments.stores);
    of_lease(&mut w, snapshot);
    of_layouts(&mut w, &snapshot.snowflake.layouts);
    of_times(&mut w, snapshot);
    of_tags(&mut w, tags);
    for (name, help, is_counter, value) in
        if form.process { process::figures() } else { Vec::new() }
    {
        w.metric(if is_counter { Counter } else { Gauge }, name, help, one(value));
    }
    w.finish()
}

fn of_daemon(w: &mut Writer, snapshot: &Snapshot) {
    let Snapshot { daemon, segments, snowflake, counters, .. } = snapshot;
    let (class, reloads) = (&counters.connections_by_class, &counters.reloads);
    let build =
        vec![("version", daemon.release.clone()), ("protocol", daemon.protocol.to_string())];
    w.metric(
        Info,
        "leafd_build",
        "The daemon's release and its protocol's version.",
        [(build, 1_u64.into())],
    );
    w.metric(
        Gauge,
        "leafd_uptime_seconds",
        "How long the daemon has run.",
        one(seconds(daemon.uptime_ms)),
    );
    w.metric(
        Gauge,
        "leafd_segments_ready",
        "1 while ids of segment tags are available.",
        one(segments.state.ready),
    );
    w.metric(
        Gauge,
        "leafd_snowflake_ready",
        "1 while snowflake ids are available.",
        one(snowflake.state.ready),
    );
    w.metric(Counter, "leafd_requests", "Requests of every kind.", one(counters.requests));
    w.metric(
        Counter,
        "leafd_requests_refused",
        "Requests that were answered with a failure, by its status in the protocol.",
        each("status", &counters.refusals),
    );
    w.metric(Gauge, "leafd_connections", "Open connections: of administrators (root and the daemon's own user among them) and of others.", [("administrator", class.administrator), ("other", class.other)].map(|(class, open)| (label("class", class), open.into())));
    w.metric(
        Counter,
        "leafd_connections_accepted",
        "Connections ever accepted.",
        one(counters.connections_accepted),
    );
    w.metric(
        Counter,
        "leafd_connections_refused",
        "Connections that found no room in connections_max.",
        one(counters.connections_refused),
    );
    w.metric(
        Counter,
        "leafd_held_runs_granted",
        "Runs given to processes to hold.",
        one(counters.ids.held_runs),
    );
    w.metric(Counter, "leafd_held_run_ids_granted", "Ids in them.", one(counters.ids.in_held_runs));
    w.metric(Counter, "leafd_direct_ids_issued", "Ids drawn directly.", one(counters.ids.direct));
    w.metric(
        Counter,
        "leafd_segment_ids_issued",
        "Ids issued of all segment tags, held runs counted as issued.",
        one(segments.counters.issued),
    );
    w.metric(
        Counter,
        "leafd_ids_skipped",
        "Claimed ids that nobody gets, by cause. What a crash skips isn't known and isn't counted.",
        each("cause", &segments.counters.skipped),
    );
    w.metric(
        Gauge,
        "leafd_tags_in_use",
        "Segment tags in use.",
        one(segments.counters.tags_in_use),
    );
    w.metric(
        Counter,
        "leafd_claims",
        "Claims that a store granted.",
        one(segments.counters.claims),
    );
    w.metric(
        Gauge,
        "leafd_conditions_left_out",
        "Conditions beyond those that leafd_condition_age_seconds tells, which are the worst.",
        one(snapshot.health.conditions_left_out),
    );
    w.metric(
        Gauge,
        "leafd_journal_up",
        "1 while the journal can be written; without it nothing is issued.",
        one(daemon.journal_error.is_none()),
    );
    w.metric(
        Counter,
        "leafd_journal_commits",
        "Transactions that the journal committed.",
        one(counters.journal_commits),
    );
    w.metric(
        Counter,
        "leafd_journal_errors",
        "Times that the journal could not be read or written.",
        one(counters.journal.errors),
    );
    w.metric(
        Gauge,
        "leafd_worker_number",
        "The snowflake worker that this host issues as.",
        some(snowflake.state.worker),
    );
    w.metric(
        Counter,
        "leafd_config_reloads",
        "Reloads of the configuration, by what came of them.",
        [("refused", reloads.refused), ("succeeded", reloads.succeeded)]
            .map(|(result, times)| (label("result", result), times.into())),
    );
    w.metric(
        Gauge,
        "leafd_config_last_reload_successful",
        "0 if the last reload was refused; the start counts as one.",
        one(counters.last_reload.successful),
    );
    w.metric(
        Gauge,
        "leafd_config_last_reload_success_timestamp_seconds",
        "When a configuration was last put in force, in Unix time.",
        one(seconds(counters.last_reload.success_unix_ms)),
    );
}

fn of_health(w: &mut Writer, conditions: &[Condition]) {
    let of_condition = |condition: &Condition| {
        let public = &condition.public;
        vec![("code", public.code.clone()), ("subject", public.subject.clone())]
    };
    w.metric(Gauge, "leafd_condition_age_seconds", "What is wrong, by code and by what it is about, and how long it has stood; docs/operate/troubles.md has a section for each code.", conditions.iter().map(|condition| (of_condition(condition), seconds(condition.public.since_ms_ago).into())));
    w.metric(
        Gauge,
        "leafd_condition_remaining_seconds",
        "How long ids go on in spite of it.",
        conditions.iter().filter_map(|condition| {
            Some((of_condition(condition), seconds(condition.remaining_ms?).into()))
        }),
    );
    w.metric(
        Gauge,
        "leafd_condition_last_success_age_seconds",
        "When what it keeps from succeeding last succeeded.",
        conditions.iter().filter_map(|condition| {
            Some((of_condition(condition), seconds(condition.last_success_ms_ago?).into()))
        }),
    );
}

fn of_stores(w: &mut Writer, stores: &[Store]) {
    w.metric(
        Counter,
        "leafd_store_claims",
        "Claims by store and by what came of them.",
        stores.iter().flat_map(|store| {
            store.numbers.claims.iter().map(|(result, count)| {
                let mut labels = of_store(store);
                labels.push(("result", result.clone()));
                (labels, (*count).into())
            })
        }),
    );
    w.metric(
        Gauge,
        "leafd_store_up",
        "1 while the store can be claimed from.",
        stores.iter().map(|store| (of_store(store), store.numbers.ready.into())),
    );
    w.metric(
        Counter,
        "leafd_store_failovers",
        "Times that another server answered for the store, so that commits may be lost.",
        stores.iter().map(|store| (of_store(store), store.numbers.failovers.into())),
    );
    w.metric(
        Counter,
        "leafd_store_conflicts",
        "Calls of the store that met another transaction and were made again.",
        stores.iter().map(|store| (of_store(store), store.numbers.conflicts.into())),
    );
    w.metric(
        Gauge,
        "leafd_store_answer_age_seconds",
        "How long ago the store answered last.",
        stores.iter().filter_map(|store| {
            Some((of_store(store), seconds(store.numbers.answered_ms_ago?).into()))
        }),
    );
    w.metric(
        Gauge,
        "leafd_store_claim_age_seconds",
        "How long ago the store last granted a claim.",
        stores.iter().filter_map(|store| {
            Some((of_store(store), seconds(store.numbers.claimed_ms_ago?).into()))
        }),
    );
    w.metric(
        Gauge,
        "leafd_store_settling_seconds",
        "How long claims still wait after a fail-over.",
        stores.iter().map(|store| (of_store(store), seconds(store.numbers.settling_ms).into())),
    );
    w.metric(
        Gauge,
        "leafd_store_journal_stale",
        "1 if what the journal held of the store was in doubt at the start, and was skipped.",
        stores.iter().map(|store| (of_store(store), store.journal_stale.into())),
    );
}

fn of_lease(w: &mut Writer, snapshot: &Snapshot) {
    let lease = snapshot.snowflake.lease.as_ref().map(|lease| &lease.numbers);
    let place = snapshot.snowflake.lease.as_ref().map_or("static", |lease| &lease.place);
    let worker = snapshot.snowflake.state.worker;
    let worker =
        worker.map(|worker| vec![("worker", worker.to_string()), ("registry", place.to_owned())]);
    w.metric(
        Info,
        "leafd_worker",
        "The snowflake worker and where it is from. Two hosts with one worker of one registry are a mistake.",
        worker.map(|labels| (labels, 1_u64.into())),
    );
    w.metric(
        Gauge,
        "leafd_worker_lease_remaining_seconds",
        "How long snowflake ids go on without the registry.",
        some(lease.and_then(|lease| lease.left_ms).map(seconds)),
    );
    w.metric(
        Gauge,
        "leafd_worker_lease_end_timestamp_seconds",
        "When the claim on the worker ends, in Unix time.",
        some(lease.and_then(|lease| lease.until_ms).map(seconds)),
    );
    w.metric(
        Gauge,
        "leafd_worker_renewal_age_seconds",
        "How long ago the registry confirmed the worker.",
        some(lease.and_then(|lease| lease.renewed_ms_ago).map(seconds)),
    );
    w.metric(
        Gauge,
        "leafd_clock_offset_seconds",
        "How far the host's clock is ahead of the registry's.",
        some(lease.and_then(|lease| lease.clock_offset_ms).map(|ms| ms as f64 / 1_000.0)),
    );
    w.metric(
        Gauge,
        "leafd_clock_held_back_seconds",
        "How far ids are kept behind a clock that stepped forward unconfirmed.",
        some(lease.map(|lease| seconds(lease.clock_held_back_ms))),
    );
}

fn of_layouts(w: &mut Writer, layouts: &[Layout]) {
    let of_layout = |layout: &Layout| label("layout", &layout.name);
    let definition = |layout: &Layout| {
        let mut labels = of_layout(layout);
        labels.extend([
            ("time_bits", layout.time_bits.to_string()),
            ("worker_bits", layout.worker_bits.to_string()),
            ("sequence_bits", layout.sequence_bits.to_string()),
            ("unit_ms", layout.unit_ms.to_string()),
            ("epoch_ms", layout.epoch_ms.to_string()),
        ]);
        (labels, 1_u64.into())
    };
    w.metric(
        Info,
        "leafd_layout",
        "The layout's bits, unit and epoch.",
        layouts.iter().map(definition),
    );
    w.metric(
        Counter,
        "leafd_layout_ids_issued",
        "Ids issued of the layout.",
        layouts.iter().map(|layout| (of_layout(layout), layout.issued.into())),
    );
    w.metric(
        Gauge,
        "leafd_layout_clock_ahead_seconds",
        "How far the layout's ids are ahead of the host's clock (drift).",
        layouts
            .iter()
            .filter_map(|layout| Some((of_layout(layout), seconds(layout.clock_ahead_ms?).into()))),
    );
    w.metric(
        Gauge,
        "leafd_layout_time_left_seconds",
        "How long the layout's time bits last.",
        layouts.iter().map(|layout| (of_layout(layout), seconds(layout.time_left_ms).into())),
    );
    w.metric(
        Gauge,
        "leafd_layout_mark_timestamp_seconds",
        "Ids before it may have been issued, as the journal has it, in Unix time.",
        layouts
            .iter()
            .filter_map(|layout| Some((of_layout(layout), seconds(layout.mark_ms?).into()))),
    );
}

fn of_times(w: &mut Writer, snapshot: &Snapshot) {
    let waits = &snapshot.counters.request_wait_seconds;
    w.histogram(
        "leafd_request_wait_seconds",
        "How long requests waited that could not be answered at once.",
        [(Labels::new(), &*waits.buckets, waits.sum)],
    );
    w.histogram(
        "leafd_store_claim_duration_seconds",
        "How long the store took over claims, whatever came of them.",
        snapshot.segments.stores.iter().map(|store| {
            let took = &store.numbers.claim_seconds;
            (of_store(store), &*took.buckets, took.sum)
        }),
    );
    let commits = &snapshot.counters.journal.commit_seconds;
    w.histogram(
        "leafd_journal_commit_duration_seconds",
        "How long the journal took over a transaction.",
        [(Labels::new(), &*commits.buckets, commits.sum)],
    );
}

fn of_tags(w: &mut Writer, tags: &Gathered) {
    let others = &tags.others;
    let mut metric =
        |kind, name, help, of: &dyn Fn(&TagFigures) -> Option<Number>, rest: Option<Number>| {
            let named =
                tags.named.iter().filter_map(|tag| Some((label("tag", &tag.tag), of(tag)?)));
            let rest = rest.filter(|_| others.tags > 0).map(|rest| (label("tag", OTHERS), rest));
            w.metric(kind, name, help, named.chain(rest));
        };
    metric(
        Counter,
        "leafd_tag_ids_issued",
        "Ids of the tag that this daemon has issued since the tag came into use. Not for the others together: see \
         leafd_segment_ids_issued_total.",
        &|tag| Some(tag.issued.into()),
        None,
    );
    metric(
        Gauge,
        "leafd_tag_ids_per_second",
        "The tag's measured rate, by which ids are claimed ahead.",
        &|tag| Some(tag.ids_per_second.into()),
        Some(others.ids_per_second.into()),
    );
    metric(
        Gauge,
        "leafd_tag_ids_held",
        "Ids of the tag that are claimed and not issued.",
        &|tag| Some(tag.held.into()),
        Some(others.held.into()),
    );
    metric(
        Gauge,
        "leafd_tag_requests_waiting",
        "Requests that wait for ids of the tag.",
        &|tag| Some(tag.waiting.into()),
        Some(others.waiting.into()),
    );
    metric(
        Gauge,
        "leafd_tag_runway_seconds",
        "How long the ids held last at the measured rate, without the store. Not for strict tags, which hold none, nor \
         while nothing is drawn; of the others the shortest.",
        &|tag| tag.lasts_seconds.map(Number::Float),
        others.lasts_seconds.map(Number::Float),
    );
    metric(
        Gauge,
        "leafd_tag_ceiling_used_ratio",
        "How much of the numbers up to the tag's ceiling is claimed, from 0 to 1; of the others the most.",
        &|tag| Some(tag.ceiling_used.into()),
        Some(others.ceiling_used.into()),
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
    some(Some(value))
}

fn some(value: Option<impl Into<Number>>) -> Option<(Labels, Number)> {
    Some((Labels::new(), value?.into()))
}

fn each(name: &'static str, counts: &Counts) -> impl Iterator<Item = (Labels, Number)> {
    counts.iter().map(move |(text, count)| (label(name, text), (*count).into()))
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}
