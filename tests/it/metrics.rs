//! The metrics of a real daemon: well-formed, bounded, available to administrators, and equal to the numbers in its
//! status.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use leafd_wire::{COUNT_MAX, Status, opcode};
use serde_json::{Value, json};

use crate::access::{STRANGER, raw_as};
use crate::host::{Host, eventually};
use crate::raw::ids_request;
use leafd_tests::http::get;

/// Members of the status, and the metrics that report them. Lists and members with variable names are `[]` and `{}`.
const TOLD: &[(&str, &str)] = &[
    ("uptime_ms", "leafd_uptime_seconds"),
    ("requests", "leafd_requests_total"),
    ("requests_refused", "leafd_requests_refused_total"),
    ("refusals{}", "leafd_requests_refused_total"),
    ("request_wait_seconds{}", "leafd_request_wait_seconds"),
    ("ids.held_runs", "leafd_held_runs_granted_total"),
    ("ids.in_held_runs", "leafd_held_run_ids_granted_total"),
    ("ids.direct", "leafd_direct_ids_issued_total"),
    ("connections", "leafd_connections"),
    ("connections_by_class{}", "leafd_connections"),
    ("connections_accepted", "leafd_connections_accepted_total"),
    ("connections_refused", "leafd_connections_refused_total"),
    ("journal_commits", "leafd_journal_commits_total"),
    ("journal.errors", "leafd_journal_errors_total"),
    ("journal.commit_seconds{}", "leafd_journal_commit_duration_seconds"),
    ("journal_error", "leafd_journal_up"),
    ("reloads{}", "leafd_config_reloads_total"),
    ("last_reload.successful", "leafd_config_last_reload_successful"),
    ("last_reload.success_unix_ms", "leafd_config_last_reload_success_timestamp_seconds"),
    ("segments.ready", "leafd_segments_ready"),
    ("segments.claims", "leafd_claims_total"),
    ("segments.issued", "leafd_segment_ids_issued_total"),
    ("segments.skipped{}", "leafd_ids_skipped_total"),
    ("segments.tags_in_use", "leafd_tags_in_use"),
    ("segments.tags[].issued", "leafd_tag_ids_issued_total"),
    ("segments.tags[].ids_per_second", "leafd_tag_ids_per_second"),
    ("segments.tags[].held", "leafd_tag_ids_held"),
    ("segments.tags[].segments[].left", "leafd_tag_ids_held"),
    ("segments.tags[].segments[].claimed", "leafd_tag_ids_held"),
    ("segments.tags[].waiting", "leafd_tag_requests_waiting"),
    ("segments.tags[].lasts_ms", "leafd_tag_runway_seconds"),
    ("segments.tags[].highest_ends[]", "leafd_tag_ceiling_used_ratio"),
    ("segments.stores[].ready", "leafd_store_up"),
    ("segments.stores[].failovers", "leafd_store_failovers_total"),
    ("segments.stores[].conflicts", "leafd_store_conflicts_total"),
    ("segments.stores[].answered_ms_ago", "leafd_store_answer_age_seconds"),
    ("segments.stores[].claimed_ms_ago", "leafd_store_claim_age_seconds"),
    ("health.conditions[].since_ms_ago", "leafd_condition_age_seconds"),
    ("health.conditions_left_out", "leafd_conditions_left_out"),
    ("health.conditions[].remaining_ms", "leafd_condition_remaining_seconds"),
    ("health.conditions[].last_success_ms_ago", "leafd_condition_last_success_age_seconds"),
    ("segments.tags[].ceiling", "leafd_tag_ceiling_used_ratio"),
    ("segments.tags[].ceiling_used_percent", "leafd_tag_ceiling_used_ratio"),
    ("segments.stores[].settling_ms", "leafd_store_settling_seconds"),
    ("segments.stores[].journal_stale", "leafd_store_journal_stale"),
    ("segments.stores[].claims{}", "leafd_store_claims_total"),
    ("segments.stores[].claim_seconds{}", "leafd_store_claim_duration_seconds"),
    ("snowflake.ready", "leafd_snowflake_ready"),
    ("snowflake.worker", "leafd_worker_number"),
    ("snowflake.lease.worker", "leafd_worker_number"),
    ("snowflake.lease.left_ms", "leafd_worker_lease_remaining_seconds"),
    ("snowflake.lease.until_ms", "leafd_worker_lease_end_timestamp_seconds"),
    ("snowflake.lease.renewed_ms_ago", "leafd_worker_renewal_age_seconds"),
    ("snowflake.lease.clock_offset_ms", "leafd_clock_offset_seconds"),
    ("snowflake.lease.clock_held_back_ms", "leafd_clock_held_back_seconds"),
    ("snowflake.layouts[].issued", "leafd_layout_ids_issued_total"),
    ("snowflake.layouts[].clock_ahead_ms", "leafd_layout_clock_ahead_seconds"),
    ("snowflake.layouts[].time_left_ms", "leafd_layout_time_left_seconds"),
    ("snowflake.layouts[].mark_ms", "leafd_layout_mark_timestamp_seconds"),
    ("snowflake.layouts[].time_bits", "leafd_layout_info"),
    ("snowflake.layouts[].worker_bits", "leafd_layout_info"),
    ("snowflake.layouts[].sequence_bits", "leafd_layout_info"),
    ("snowflake.layouts[].unit_ms", "leafd_layout_info"),
    ("snowflake.layouts[].epoch_ms", "leafd_layout_info"),
    ("protocol", "leafd_build_info"),
    ("release", "leafd_build_info"),
    ("snowflake.lease.registry_id", "leafd_worker_info"),
];

/// Members that are not measurements, and how much each user draws, which only administrators may see, while anyone who
/// can connect may read the metrics.
const NO_MEASURE: [&str; 10] = [
    "pid",
    "segments.tags[].strict",
    "segments.tags[].holding",
    "segments.tags[].masked",
    "events[].times",
    "events[].unix_ms",
    "users[].uid",
    "users[].connections",
    "users[].issued",
    "users[].ids_per_second",
];

/// A host that serves HTTP, and that has issued ids of these tags and snowflake ids.
fn busy(tags: &[&str], settings: &[(&str, &str)]) -> (Host, String) {
    let mut host = Host::new().set("http", "127.0.0.1:0");
    settings.iter().for_each(|(key, value)| host.change(key, value));
    host.start();
    let client = host.client();
    for (place, tag) in tags.iter().enumerate() {
        host.create(tag);
        // The first tag is the busiest.
        let _ = client.next_batch(tag, 100 * (tags.len() - place) as u64).unwrap().count();
    }
    assert!(client.next("snowflake").unwrap() > 0);
    let address = host.http("serving metrics and health");
    (host, address)
}

/// The series of a metric, as they appear in the text.
fn series<'a>(text: &'a str, metric: &str) -> Vec<(&'a str, f64)> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let split = samples.map(|line| line.rsplit_once(' ').expect("a value"));
    let named = split.filter(|(name, _)| name.split('{').next() == Some(metric));
    named.map(|(name, value)| (name, value.parse().unwrap())).collect()
}

#[track_caller]
fn promtool(arguments: &[&str], input: &str) {
    let mut child = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool of Debian's package prometheus");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.trim().is_empty(), "{said}\n{input}");
}

#[test]
fn the_metrics_are_as_prometheus_wants_them() {
    let odd = "a \"quoted\\ tag\u{202e} \u{1f98a}";
    let (host, address) = busy(&["orders", odd], &[]);
    let answer = get(&address, "/metrics");
    assert_eq!(answer.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    promtool(&["check", "metrics"], &answer.body);
    let escaped = r#"leafd_tag_ids_issued_total{tag="a \"quoted\\ tag"#;
    assert!(answer.body.contains(escaped), "{}", answer.body);
    let issued = series(&answer.body, "leafd_tag_ids_issued_total");
    let orders = issued.iter().find(|(name, _)| name.contains("tag=\"orders\"")).unwrap();
    assert_eq!(orders.1, 200.0);

    // Over leafd's own socket, the text has everything except what a collector that reads files measures itself.
    let (own, by_http): (BTreeSet<_>, BTreeSet<_>) = {
        let own = host.client().metrics_text().unwrap();
        let families = |text: &str| -> BTreeSet<String> {
            text.lines().filter(|line| line.starts_with("# TYPE")).map(str::to_owned).collect()
        };
        promtool(&["check", "metrics"], &own);
        (families(&own), families(&answer.body))
    };
    let more: Vec<&String> = by_http.difference(&own).collect();
    assert!(own.is_subset(&by_http) && more.len() == 4, "{more:?}");
    assert!(more.iter().all(|family| family.starts_with("# TYPE process_")), "{more:?}");
}

#[test]
fn status_and_metrics_tell_the_same() {
    let (host, address) = busy(&["orders"], &[]);
    let mut found = BTreeSet::new();
    leaves("", &host.status(), &mut found);
    let told = |path: &str| TOLD.iter().any(|(status, _)| *status == path);
    for path in &found {
        assert!(told(path) || NO_MEASURE.contains(&path.as_str()), "no metric tells {path}");
    }
    let text = get(&address, "/metrics").body;
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE leafd_"));
    let families: BTreeSet<String> =
        families.map(|line| format!("leafd_{}", line.split(' ').next().unwrap())).collect();
    for family in &families {
        assert!(TOLD.iter().any(|(_, metric)| metric == family), "the status lacks {family}");
    }
    // Most of them exist on this host, and have the same values.
    assert!(families.len() > 35, "{families:?}");
    let status = host.status();
    let same = |metric: &str, value: &Value| {
        let sum: f64 = series(&text, metric).into_iter().map(|(_, value)| value).sum();
        assert_eq!(Some(sum), value.as_f64(), "{metric}");
    };
    same("leafd_tag_ids_issued_total", &status["segments"]["tags"][0]["issued"]);
    same("leafd_tag_ids_held", &status["segments"]["tags"][0]["held"]);
    same("leafd_segment_ids_issued_total", &status["segments"]["issued"]);
    same("leafd_claims_total", &status["segments"]["claims"]);
    same("leafd_store_claims_total", &status["segments"]["claims"]);
    same("leafd_worker_number", &status["snowflake"]["worker"]);
    same("leafd_layout_ids_issued_total", &status["snowflake"]["layouts"][0]["issued"]);
    same("leafd_direct_ids_issued_total", &status["ids"]["direct"]);
}

#[test]
fn nothing_lasts_of_a_tag_that_has_too_little_for_who_waits() {
    let (host, address) = busy(&["orders"], &[]);
    let store = rusqlite::Connection::open(host.state_dir().join("store.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut raw = host.raw();
    raw.send(&ids_request("orders", COUNT_MAX, 1, 60_000));
    let tag = eventually("the request waits", Duration::from_secs(10), || {
        let tag = host.status()["segments"]["tags"][0].clone();
        (tag["waiting"] == 1).then_some(tag)
    });
    assert!(tag["held"].as_u64() > Some(0) && tag["lasts_ms"] == 0, "{tag}");
    let text = get(&address, "/metrics").body;
    let lasts = series(&text, "leafd_tag_runway_seconds");
    assert_eq!(lasts, [(r#"leafd_tag_runway_seconds{tag="orders"}"#, 0.0)]);
}

#[test]
fn the_used_part_of_a_ceiling_does_not_tell_how_many_ids_there_are() {
    let (host, address) = busy(&["orders"], &[]);
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "tickets", "step": 1_000, "ceiling": 54_321 }));
    let _ = host.client().next_batch("tickets", 12_345).unwrap().count();
    let text = get(&address, "/metrics").body;
    let ratios = series(&text, "leafd_tag_ceiling_used_ratio");
    let (_, ratio) = ratios.iter().find(|(labels, _)| labels.contains("tickets")).expect("a ratio");
    assert!(*ratio > 0.2, "{ratio}");
    assert_eq!(*ratio, (ratio * 100.0).round() / 100.0);
}

/// The paths of all numbers and booleans.
fn leaves(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let varying = format!("{path}{{}}");
                let known = TOLD.iter().any(|(status, _)| *status == varying);
                leaves(if known { &varying } else { &inner }, member, found);
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| leaves(&format!("{path}[]"), item, found));
        }
        Value::Number(_) | Value::Bool(_) => drop(found.insert(path.to_owned())),
        _ => {}
    }
}

#[test]
fn many_tags_make_few_series() {
    let (_host, address) = busy(&["a", "b", "c", "d", "e"], &[("metrics_tags", "2")]);
    let text = get(&address, "/metrics").body;
    let issued = series(&text, "leafd_tag_ids_issued_total");
    // They are ordered by rate, which depends on how long ago each tag was drawn.
    assert_eq!(issued.len(), 2, "{issued:?}");
    assert_eq!(series(&text, "leafd_segment_ids_issued_total")[0].1, 1_500.0);
    let held = series(&text, "leafd_tag_ids_held");
    assert_eq!(held.len(), 3);
    assert_eq!(held[2].0, r#"leafd_tag_ids_held{tag="(others)"}"#);
    assert!(held[2].1 >= 3.0);
}

#[test]
fn only_administrators_read_them_over_the_socket() {
    let mut host = Host::new().set("socket_mode", "0666");
    host.start();
    let mut stranger = raw_as(&host, STRANGER, STRANGER, &[]);
    stranger.request(opcode::METRICS, 1, &[0]);
    let text = stranger.reply().refused(Status::Denied);
    assert!(text.contains("admin_uids"), "{text}");
    stranger.request(opcode::METRICS, 2, b"\0\0");
    stranger.reply().refused(Status::Malformed);
}

#[test]
fn what_goes_wrong_is_counted() {
    let mut host = Host::new().set("http", "127.0.0.1:0");
    host.start();
    let address = host.http("serving metrics and health");
    let _ = host.client().next("nosuch").unwrap_err();
    host.create("orders");
    assert_eq!(host.raw().draw("orders", 1), [1]);
    let text = get(&address, "/metrics").body;
    let refused = series(&text, "leafd_requests_refused_total");
    let unknown = refused.iter().find(|(name, _)| name.contains("TAG_UNKNOWN")).unwrap();
    assert!(unknown.1 >= 1.0, "{refused:?}");
    let waited = series(&text, "leafd_request_wait_seconds_count");
    assert!(waited[0].1 >= 1.0, "the first id waited for a claim: {waited:?}");
    let took = series(&text, "leafd_store_claim_duration_seconds_count");
    assert!(took[0].0.contains(r#"store="default""#) && took[0].1 >= 1.0, "{took:?}");
}

#[test]
fn leafctl_writes_a_file_for_collectors_whole_or_not_at_all() {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    let file = host.path("leafd.prom");
    let words = ["metrics", "--output", file.to_str().unwrap()];
    assert!(host.leafctl(&words).status.success());
    let text = std::fs::read_to_string(&file).unwrap();
    promtool(&["check", "metrics"], &text);
    assert!(!text.contains("process_"), "{text}");
    host.stop();
    assert_eq!(host.leafctl(&words).status.code(), Some(3));
    assert!(!file.exists(), "numbers of a daemon that is gone");
}
