//! Which member of the status is which metric. All numbers of STATUS are here, and no others.

/// The kind of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    /// It increases and decreases.
    Gauge,
    /// Also a gauge; the status has it in milliseconds.
    GaugeOfMs,
}

#[derive(Debug)]
pub(super) struct Metric {
    /// The name; that of a counter is without `_total`.
    pub name: &'static str,
    pub kind: Kind,
    /// Its path in the status; see [`super::paths`].
    pub path: &'static str,
    pub help: &'static str,
}

/// A metric whose labels contain the information.
#[derive(Debug)]
pub(super) struct Info {
    /// The name without `_info`.
    pub name: &'static str,
    pub path: &'static str,
    /// Labels, and their paths.
    pub members: &'static [(&'static str, &'static str)],
    pub help: &'static str,
}

const fn metric(name: &'static str, kind: Kind, path: &'static str, help: &'static str) -> Metric {
    Metric { name, kind, path, help }
}

use Kind::{Counter, Gauge, GaugeOfMs};

pub(super) static METRICS: &[Metric] = &[
    metric("leafd_uptime_seconds", GaugeOfMs, "uptime_ms", "How long the daemon has run."),
    metric(
        "leafd_segments_ready",
        Gauge,
        "segments.ready",
        "1 while ids of segment tags can be had.",
    ),
    metric("leafd_snowflake_ready", Gauge, "snowflake.ready", "1 while snowflake ids can be had."),
    metric("leafd_requests", Counter, "requests", "Requests of every kind."),
    metric(
        "leafd_requests_refused",
        Counter,
        "refusals{status}",
        "Requests that were answered with a failure, by its status in the protocol.",
    ),
    metric(
        "leafd_connections",
        Gauge,
        "connections_by_class{class}",
        "Open connections: of administrators (root and the daemon's own user among them) and of others.",
    ),
    metric(
        "leafd_connections_accepted",
        Counter,
        "connections_accepted",
        "Connections ever accepted.",
    ),
    metric(
        "leafd_connections_refused",
        Counter,
        "connections_refused",
        "Connections that found no room in connections_max.",
    ),
    metric("leafd_held_runs_granted", Counter, "ids.held_runs", "Runs given to processes to hold."),
    metric("leafd_held_run_ids_granted", Counter, "ids.in_held_runs", "Ids in them."),
    metric("leafd_direct_ids_issued", Counter, "ids.direct", "Ids drawn directly."),
    metric(
        "leafd_segment_ids_issued",
        Counter,
        "segments.issued",
        "Ids issued of all segment tags, held runs counted as issued.",
    ),
    metric(
        "leafd_ids_skipped",
        Counter,
        "segments.skipped{cause}",
        "Claimed ids that nobody gets, by cause. What a crash skips isn't known and isn't counted.",
    ),
    metric("leafd_tags_in_use", Gauge, "segments.tags_in_use", "Segment tags in use."),
    metric("leafd_claims", Counter, "segments.claims", "Claims that a store granted."),
    metric(
        "leafd_store_claims",
        Counter,
        "segments.stores[name=store].claims{result}",
        "Claims by store and by what came of them.",
    ),
    metric(
        "leafd_store_up",
        Gauge,
        "segments.stores[name=store].ready",
        "1 while the store can be claimed from.",
    ),
    metric(
        "leafd_store_failovers",
        Counter,
        "segments.stores[name=store].failovers",
        "Times that another server answered for the store, so that commits may be lost.",
    ),
    metric(
        "leafd_store_conflicts",
        Counter,
        "segments.stores[name=store].conflicts",
        "Calls of the store that met another transaction and were made again.",
    ),
    metric(
        "leafd_store_answer_age_seconds",
        GaugeOfMs,
        "segments.stores[name=store].answered_ms_ago",
        "How long ago the store answered last.",
    ),
    metric(
        "leafd_store_claim_age_seconds",
        GaugeOfMs,
        "segments.stores[name=store].claimed_ms_ago",
        "How long ago the store last granted a claim.",
    ),
    metric(
        "leafd_condition_age_seconds",
        GaugeOfMs,
        "health.conditions[code=code,subject=subject].since_ms_ago",
        "What is wrong, by code and by what it is about, and how long it has stood; as in leafctl status.",
    ),
    metric(
        "leafd_conditions_left_out",
        Gauge,
        "health.conditions_left_out",
        "Conditions beyond those that leafd_condition_age_seconds tells, which are the worst.",
    ),
    metric(
        "leafd_condition_remaining_seconds",
        GaugeOfMs,
        "health.conditions[code=code,subject=subject].remaining_ms",
        "How long ids go on in spite of it.",
    ),
    metric(
        "leafd_condition_last_success_age_seconds",
        GaugeOfMs,
        "health.conditions[code=code,subject=subject].last_success_ms_ago",
        "When what it keeps from succeeding last succeeded.",
    ),
    metric(
        "leafd_store_settling_seconds",
        GaugeOfMs,
        "segments.stores[name=store].settling_ms",
        "How long claims still wait after a fail-over.",
    ),
    metric(
        "leafd_store_journal_stale",
        Gauge,
        "segments.stores[name=store].journal_stale",
        "1 if what the journal held of the store was in doubt at the start, and was skipped.",
    ),
    metric(
        "leafd_journal_up",
        Gauge,
        "journal.works",
        "1 while the journal can be written; without it nothing is issued.",
    ),
    metric(
        "leafd_journal_commits",
        Counter,
        "journal_commits",
        "Transactions that the journal committed.",
    ),
    metric(
        "leafd_journal_errors",
        Counter,
        "journal.errors",
        "Times that the journal could not be read or written.",
    ),
    metric(
        "leafd_worker_number",
        Gauge,
        "snowflake.worker",
        "The snowflake worker that this host issues as.",
    ),
    metric(
        "leafd_worker_lease_remaining_seconds",
        GaugeOfMs,
        "snowflake.lease.left_ms",
        "How long snowflake ids go on without the registry.",
    ),
    metric(
        "leafd_worker_lease_end_timestamp_seconds",
        GaugeOfMs,
        "snowflake.lease.until_ms",
        "When the claim on the worker ends, in Unix time.",
    ),
    metric(
        "leafd_worker_renewal_age_seconds",
        GaugeOfMs,
        "snowflake.lease.renewed_ms_ago",
        "How long ago the registry confirmed the worker.",
    ),
    metric(
        "leafd_clock_offset_seconds",
        GaugeOfMs,
        "snowflake.lease.clock_offset_ms",
        "How far the host's clock is ahead of the registry's.",
    ),
    metric(
        "leafd_clock_held_back_seconds",
        GaugeOfMs,
        "snowflake.lease.clock_held_back_ms",
        "How far ids are kept behind a clock that stepped forward unconfirmed.",
    ),
    metric(
        "leafd_layout_ids_issued",
        Counter,
        "snowflake.layouts[name=layout].issued",
        "Ids issued of the layout.",
    ),
    metric(
        "leafd_layout_clock_ahead_seconds",
        GaugeOfMs,
        "snowflake.layouts[name=layout].clock_ahead_ms",
        "How far the layout's ids are ahead of the host's clock (drift).",
    ),
    metric(
        "leafd_layout_time_left_seconds",
        GaugeOfMs,
        "snowflake.layouts[name=layout].time_left_ms",
        "How long the layout's time bits last.",
    ),
    metric(
        "leafd_layout_mark_timestamp_seconds",
        GaugeOfMs,
        "snowflake.layouts[name=layout].mark_ms",
        "Ids before it may have been issued, as the journal has it, in Unix time.",
    ),
    metric(
        "leafd_config_reloads",
        Counter,
        "reloads{result}",
        "Reloads of the configuration, by what came of them.",
    ),
    metric(
        "leafd_config_last_reload_successful",
        Gauge,
        "last_reload.successful",
        "0 if the last reload was refused; the start counts as one.",
    ),
    metric(
        "leafd_config_last_reload_success_timestamp_seconds",
        GaugeOfMs,
        "last_reload.success_unix_ms",
        "When a configuration was last put in force, in Unix time.",
    ),
];

pub(super) static INFOS: &[Info] = &[
    Info {
        name: "leafd_build",
        path: "release_and_protocol",
        members: &[("version", "/release"), ("protocol", "/protocol")],
        help: "The daemon's release and its protocol's version.",
    },
    Info {
        name: "leafd_worker",
        path: "snowflake",
        members: &[("worker", "/worker"), ("registry", "/registry_place")],
        help: "The snowflake worker and where it is from. Two hosts with one worker of one registry are a mistake.",
    },
    Info {
        name: "leafd_layout",
        path: "snowflake.layouts[name=layout]",
        members: &[
            ("time_bits", "/time_bits"),
            ("worker_bits", "/worker_bits"),
            ("sequence_bits", "/sequence_bits"),
            ("unit_ms", "/unit_ms"),
            ("epoch_ms", "/epoch_ms"),
        ],
        help: "The layout's bits, unit and epoch.",
    },
];

/// Histograms of times: name and help text.
pub(super) static HISTOGRAMS: &[(&str, &str)] = &[
    (WAITS, "How long requests waited that could not be answered at once."),
    (CLAIMS, "How long the store took over claims, whatever came of them."),
    (COMMITS, "How long the journal took over a transaction."),
];

pub(crate) const WAITS: &str = "leafd_request_wait_seconds";
pub(crate) const CLAIMS: &str = "leafd_store_claim_duration_seconds";
pub(crate) const COMMITS: &str = "leafd_journal_commit_duration_seconds";
