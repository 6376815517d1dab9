//! The daemon's state at one moment. STATUS, the page, the metrics, `leafctl status` and `leafctl top`, readiness and
//! the service manager's status line are renderings of it.
//!
//! - [`Snapshot`] is for administrators.
//! - [`PublicSnapshot`] is for everyone else who queries the socket.
//! - [`PageSnapshot`] is for readers of the page who may not administer: it adds the numbers that the metrics show.
//!
//! The parts of a snapshot that share a visibility are a type of their own, so that what somebody may not see is never
//! put in. The tests below list all public fields.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The name of a count, and the count.
pub type Counts = BTreeMap<String, u64>;

macro_rules! parts {
    ($($(#[$about:meta])* struct $name:ident { $($(#[$field:meta])* $member:ident: $kind:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[$field])* pub $member: $kind,)*
        }
    )*};
}

parts! {
    /// Everything, for administrators.
    struct Snapshot {
        #[serde(flatten)]
        daemon: Daemon,
        health: Health<Condition>,
        segments: Segments,
        snowflake: Snowflake,
        #[serde(flatten)]
        counters: Counters,
        #[serde(flatten)]
        host: Host,
    }

    /// Whether ids are available, for everyone.
    struct PublicSnapshot {
        #[serde(flatten)]
        daemon: Daemon,
        health: Health<PublicCondition>,
        segments: SegmentState,
        snowflake: SnowflakeState,
    }

    /// For readers of the page: the numbers of the metrics as well.
    struct PageSnapshot {
        #[serde(flatten)]
        daemon: Daemon,
        health: Health<PublicCondition>,
        segments: PageSegments,
        snowflake: PageSnowflake,
        #[serde(flatten)]
        counters: Counters,
    }

    /// Public: the process.
    struct Daemon {
        release: String,
        protocol: u64,
        pid: u64,
        uptime_ms: u64,
    }

    /// Public: without error texts of stores, registries and the system, which name users, hosts and paths.
    struct PublicCondition {
        code: String,
        subject: String,
        kind: String,
        severity: String,
        since_ms_ago: u64,
    }

    struct Condition {
        #[serde(flatten)]
        public: PublicCondition,
        message: String,
        last_success_ms_ago: Option<u64>,
        remaining_ms: Option<u64>,
        meaning: String,
        remedy: String,
    }

    /// Public.
    struct SegmentState {
        ready: bool,
    }

    struct Segments {
        #[serde(flatten)]
        state: SegmentState,
        #[serde(flatten)]
        counters: SegmentCounters,
        stores: Vec<Store>,
        tags: Vec<TagInUse>,
    }

    struct PageSegments {
        #[serde(flatten)]
        state: SegmentState,
        #[serde(flatten)]
        counters: SegmentCounters,
        stores: Vec<StoreNumbers>,
    }

    /// On the page: counts of all segment tags.
    struct SegmentCounters {
        claims: u64,
        issued: u64,
        skipped: Counts,
        tags_in_use: u64,
    }

    struct Store {
        #[serde(flatten)]
        numbers: StoreNumbers,
        url: String,
        server: Option<String>,
        store_id: Option<String>,
        role: String,
        history: Option<String>,
        error: Option<String>,
        journal_stale: bool,
    }

    /// On the page: a store without its address and its identity.
    struct StoreNumbers {
        name: String,
        ready: bool,
        answered_ms_ago: Option<u64>,
        claimed_ms_ago: Option<u64>,
        failovers: u64,
        conflicts: u64,
        settling_ms: u64,
        claims: Counts,
        claim_seconds: Times,
    }

    struct TagInUse {
        #[serde(flatten)]
        numbers: TagNumbers,
        masked: bool,
        highest_ends: Vec<u64>,
    }

    /// On the page: a tag without the number of ids that all hosts have claimed.
    struct TagNumbers {
        tag: String,
        issued: u64,
        ids_per_second: f64,
        held: u64,
        segments: Vec<Segment>,
        lasts_ms: Option<u64>,
        ceiling: Option<u64>,
        ceiling_used_percent: Option<u64>,
        waiting: u64,
        strict: bool,
        /// Whether this host holds the strict tag.
        holding: bool,
    }

    struct Segment {
        left: u64,
        claimed: u64,
    }

    /// Public.
    struct SnowflakeState {
        ready: bool,
        worker: Option<u64>,
    }

    struct Snowflake {
        #[serde(flatten)]
        state: SnowflakeState,
        worker_error: Option<String>,
        registry: String,
        lease: Option<Lease>,
        layouts: Vec<Layout>,
    }

    struct PageSnowflake {
        #[serde(flatten)]
        state: SnowflakeState,
        lease: Option<LeaseNumbers>,
        layouts: Vec<Layout>,
    }

    struct Lease {
        #[serde(flatten)]
        numbers: LeaseNumbers,
        place: String,
        registry_id: Option<String>,
        holder: String,
        name: String,
    }

    /// On the page: a lease without its registry and its holder.
    struct LeaseNumbers {
        mode: String,
        worker: Option<u64>,
        until_ms: Option<u64>,
        left_ms: Option<u64>,
        renewed_ms_ago: Option<u64>,
        clock_offset_ms: Option<i64>,
        clock_error: Option<String>,
        clock_held_back_ms: u64,
    }

    /// On the page.
    struct Layout {
        name: String,
        time_bits: u64,
        worker_bits: u64,
        sequence_bits: u64,
        unit_ms: u64,
        epoch_ms: u64,
        time_left_ms: u64,
        issued: u64,
        mark_ms: Option<u64>,
        clock_ahead_ms: Option<u64>,
    }

    /// On the page: counts since the start.
    struct Counters {
        requests: u64,
        requests_refused: u64,
        refusals: Counts,
        request_wait_seconds: Times,
        ids: Ids,
        connections: u64,
        connections_by_class: ByClass,
        connections_accepted: u64,
        connections_refused: u64,
        journal_commits: u64,
        journal: Journal,
        reloads: Reloads,
        last_reload: LastReload,
    }

    struct Ids {
        held_runs: u64,
        in_held_runs: u64,
        direct: u64,
    }

    struct ByClass {
        administrator: u64,
        other: u64,
    }

    struct Journal {
        errors: u64,
        commit_seconds: Times,
    }

    struct Reloads {
        succeeded: u64,
        refused: u64,
    }

    struct LastReload {
        successful: bool,
        success_unix_ms: u64,
    }

    /// How many events there were, and how long they took together.
    struct Times {
        count: u64,
        sum: f64,
        /// For the metrics: how many took at most as long as each bound.
        #[serde(skip)]
        buckets: Vec<(f64, u64)>,
    }

    /// The host and its users.
    struct Host {
        host: String,
        socket: String,
        state_dir: String,
        journal_error: Option<String>,
        journal_set_aside: Option<String>,
        users: Vec<User>,
        events: Vec<Event>,
    }

    struct User {
        uid: Option<u32>,
        connections: u64,
        issued: u64,
        ids_per_second: f64,
    }

    /// A line of the log.
    struct Event {
        unix_ms: u64,
        level: String,
        text: String,
        times: u64,
    }
}

/// Which ids are available, and the problems, the worst first; `C`: the form for administrators, or for everyone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Health<C> {
    pub state: String,
    pub line: String,
    pub conditions_left_out: u64,
    pub conditions: Vec<C>,
}

/// The public name of a store, because the only one has no name in the configuration.
pub fn store_subject(name: &str) -> &str {
    if name.is_empty() { "default" } else { name }
}

impl PublicCondition {
    /// A problem, as everyone may see it.
    pub fn summary(&self) -> String {
        match (self.code.replace('_', " "), &*self.subject) {
            (code, "") => code,
            (code, subject) => format!("{code} ({subject})"),
        }
    }

    fn is_of(&self, kind: &str) -> bool {
        self.kind == kind || self.kind == "all"
    }
}

impl Condition {
    /// A problem, as the reader may see it.
    pub fn words(&self) -> String {
        if self.message.is_empty() { self.public.summary() } else { self.message.clone() }
    }
}

impl PublicSnapshot {
    /// Why ids of this kind are not available; `None` if they are.
    pub fn unready(&self, kind: &str) -> Option<String> {
        let ready = if kind == "segments" { self.segments.ready } else { self.snowflake.ready };
        let of_kind = self.health.conditions.iter().filter(|one| one.is_of(kind));
        (!ready).then(|| of_kind.map(PublicCondition::summary).collect::<Vec<_>>().join("; "))
    }
}

impl Snapshot {
    /// Why ids of this kind are not available; `None` if they are.
    pub fn unready(&self, kind: &str) -> Option<String> {
        let (segments, snowflake) = (&self.segments.state, &self.snowflake);
        let ready = if kind == "segments" { segments.ready } else { snowflake.state.ready };
        let of_kind = self.health.conditions.iter().filter(|one| one.public.is_of(kind));
        let words = of_kind.map(Condition::words).collect::<Vec<_>>().join("; ");
        (!ready).then_some(if words.is_empty() { self.health.line.clone() } else { words })
    }

    /// Why ids of a tag are not available; `None` if they are, or would be claimed with the next request.
    pub fn tag_unready(&self, tag: &str) -> Option<String> {
        let of_tag = |one: &&Condition| one.public.subject == tag && one.public.severity == "error";
        if let Some(condition) = self.health.conditions.iter().find(of_tag) {
            return Some(condition.words());
        }
        let held = self.segments.tags.iter().find(|one| one.numbers.tag == tag);
        if self.segments.state.ready && held.is_some_and(|tag| tag.numbers.held > 0) {
            return None;
        }
        let away = self.segments.stores.iter().find_map(|store| store.error.clone());
        away.or_else(|| self.unready("segments"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// The paths of all fields; a map of counts is one field.
    fn fields(path: &str, value: &Value, found: &mut BTreeSet<String>) {
        let members = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let Some(members) = members.as_object().filter(|members| !members.is_empty()) else {
            found.insert(path.to_owned());
            return;
        };
        for (name, member) in members {
            let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            fields(&inner, member, found);
        }
    }

    fn fields_of(snapshot: &impl Serialize) -> Vec<String> {
        let mut found = BTreeSet::new();
        fields("", &serde_json::to_value(snapshot).unwrap(), &mut found);
        found.into_iter().collect()
    }

    fn health() -> Health<PublicCondition> {
        Health { conditions: vec![PublicCondition::default()], ..Health::default() }
    }

    const PUBLIC: [&str; 14] = [
        "health.conditions.code",
        "health.conditions.kind",
        "health.conditions.severity",
        "health.conditions.since_ms_ago",
        "health.conditions.subject",
        "health.conditions_left_out",
        "health.line",
        "health.state",
        "pid",
        "protocol",
        "release",
        "segments.ready",
        "snowflake.ready",
        "snowflake.worker",
    ];

    /// On the page, besides: numbers that the metrics show too.
    const PAGE: [&str; 52] = [
        "connections",
        "connections_accepted",
        "connections_by_class.administrator",
        "connections_by_class.other",
        "connections_refused",
        "ids.direct",
        "ids.held_runs",
        "ids.in_held_runs",
        "journal.commit_seconds.count",
        "journal.commit_seconds.sum",
        "journal.errors",
        "journal_commits",
        "last_reload.success_unix_ms",
        "last_reload.successful",
        "refusals",
        "reloads.refused",
        "reloads.succeeded",
        "request_wait_seconds.count",
        "request_wait_seconds.sum",
        "requests",
        "requests_refused",
        "segments.claims",
        "segments.issued",
        "segments.skipped",
        "segments.stores.answered_ms_ago",
        "segments.stores.claim_seconds.count",
        "segments.stores.claim_seconds.sum",
        "segments.stores.claimed_ms_ago",
        "segments.stores.claims",
        "segments.stores.conflicts",
        "segments.stores.failovers",
        "segments.stores.name",
        "segments.stores.ready",
        "segments.stores.settling_ms",
        "segments.tags_in_use",
        "snowflake.layouts.clock_ahead_ms",
        "snowflake.layouts.epoch_ms",
        "snowflake.layouts.issued",
        "snowflake.layouts.mark_ms",
        "snowflake.layouts.name",
        "snowflake.layouts.sequence_bits",
        "snowflake.layouts.time_bits",
        "snowflake.layouts.time_left_ms",
        "snowflake.layouts.unit_ms",
        "snowflake.layouts.worker_bits",
        "snowflake.lease.clock_error",
        "snowflake.lease.clock_held_back_ms",
        "snowflake.lease.clock_offset_ms",
        "snowflake.lease.left_ms",
        "snowflake.lease.mode",
        "snowflake.lease.renewed_ms_ago",
        "snowflake.lease.until_ms",
    ];

    #[test]
    fn strangers_see_these_fields_and_no_others() {
        let snapshot = PublicSnapshot { health: health(), ..PublicSnapshot::default() };
        let mut listed: Vec<&str> = PUBLIC.to_vec();
        listed.push("uptime_ms");
        assert_eq!(fields_of(&snapshot), listed);
    }

    #[test]
    fn readers_of_the_page_see_these_fields_and_no_others() {
        let snapshot = PageSnapshot {
            health: health(),
            segments: PageSegments {
                stores: vec![StoreNumbers::default()],
                ..PageSegments::default()
            },
            snowflake: PageSnowflake {
                lease: Some(LeaseNumbers::default()),
                layouts: vec![Layout::default()],
                ..PageSnowflake::default()
            },
            ..PageSnapshot::default()
        };
        let more = ["uptime_ms", "snowflake.lease.worker"];
        let mut listed: Vec<&str> = PUBLIC.into_iter().chain(PAGE).chain(more).collect();
        listed.sort_unstable();
        assert_eq!(fields_of(&snapshot), listed);
    }

    #[test]
    fn a_public_snapshot_can_be_read_as_one_with_nothing_else_filled_in() {
        let public = PublicSnapshot { health: health(), ..PublicSnapshot::default() };
        let text = serde_json::to_string(&public).unwrap();
        let read: Snapshot = serde_json::from_str(&text).unwrap();
        assert!(read.host.host.is_empty() && read.health.conditions.len() == 1);
        let whole = serde_json::to_string(&Snapshot::default()).unwrap();
        assert!(serde_json::from_str::<Snapshot>(&whole).is_ok(), "{whole}");
    }
}
