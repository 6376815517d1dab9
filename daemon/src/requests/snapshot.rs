//! Takes the snapshots of the daemon's state that everything else renders; STATUS renders them as JSON. Tags, rates and
//! counters reveal how many ids are issued, so only administrators get them. Others only learn whether ids are
//! available.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use leafd_checkup::snapshot::{
    ByClass, Counters, Counts, Daemon, Host, Ids, Journal, LastReload, Layout, PageSegments,
    PageSnapshot, PageSnowflake, PublicSnapshot, Reloads, Segment, SegmentCounters, SegmentState,
    Segments, Snapshot, Snowflake, SnowflakeState, Store, StoreNumbers, TagInUse, TagNumbers,
    Times,
};

use super::tags::json;
use super::{Dispatcher, PeerRequest};
use crate::clock;
use crate::engine::lease::{NO_WORKER, Worker};
use crate::engine::segments::SegmentTag;
use crate::engine::snowflakes::SnowflakeTag;
use crate::engine::upstream::Upstream;
use crate::health::CONDITIONS_MAX;
use crate::histogram::{BOUNDS_SECONDS, Counted};
use crate::recent;
use crate::reply::Failure;
use leafd_core::BootMs;
use leafd_core::health::Lasts;
use leafd_core::series::counts_tenants;
use leafd_core::snowflake::Now;
use leafd_core::store::percent_used;
use leafd_wire::Malformed;

/// The maximum number of tags in a snapshot, the busiest first.
const TAGS_MAX: usize = 100;

/// For each kind of ids, why they are not available; `None` if they are.
#[derive(Clone, Debug)]
pub struct Readiness {
    pub segments: Option<String>,
    pub snowflake: Option<String>,
}

/// How many segments of a tag are listed individually: those that are issued first.
const SEGMENTS_MAX: usize = 6;

impl Dispatcher {
    pub(super) fn status(&self, request: &PeerRequest<'_>) -> Result<(), Failure> {
        if !request.body.is_empty() {
            return Err(Malformed { what: "the body continues after its last field" }.into());
        }
        let body = match self.access().may_administer(&request.session.peer) {
            true => json(&self.snapshot_with_tags()),
            false => json(&self.public_snapshot()),
        };
        request.session.outbox.body(request.header, &body);
        Ok(())
    }

    /// The kinds of ids that are available now.
    pub fn readiness(&self) -> Readiness {
        if self.stopping.get() {
            let why = Some("the daemon is stopping".to_owned());
            return Readiness { segments: why.clone(), snowflake: why };
        }
        let snapshot = self.public_snapshot();
        let snowflake = snapshot.unready("snowflake").map(|why| match &self.snowflakes.worker {
            Worker::None => NO_WORKER.to_owned(),
            _ => why,
        });
        Readiness { segments: snapshot.unready("segments"), snowflake }
    }

    /// The part that everyone may see.
    pub(crate) fn public_snapshot(&self) -> PublicSnapshot {
        PublicSnapshot {
            daemon: self.daemon(),
            health: self.health.public(CONDITIONS_MAX),
            segments: self.segment_state(),
            snowflake: self.snowflake_state(clock::now()),
        }
    }

    /// The part that readers of the page may see if they are not administrators.
    pub(super) fn page_snapshot(&self, conditions_max: usize) -> PageSnapshot {
        let now = clock::now();
        let lease = self.snowflakes.worker.lease_snapshot(now);
        PageSnapshot {
            daemon: self.daemon(),
            health: self.health.public(conditions_max),
            segments: PageSegments {
                state: self.segment_state(),
                counters: self.segment_counters(),
                stores: self.stores(now.boot).into_iter().map(|store| store.numbers).collect(),
            },
            snowflake: PageSnowflake {
                state: self.snowflake_state(now),
                lease: lease.map(|lease| lease.numbers),
                layouts: self.layouts(now),
            },
            counters: self.counts(),
        }
    }

    /// Everything but the tags.
    pub(crate) fn snapshot(&self, conditions_max: usize) -> Snapshot {
        let now = clock::now();
        Snapshot {
            daemon: self.daemon(),
            health: self.health.snapshot(conditions_max),
            segments: Segments {
                state: self.segment_state(),
                counters: self.segment_counters(),
                stores: self.stores(now.boot),
                tags: Vec::new(),
            },
            snowflake: Snowflake {
                state: self.snowflake_state(now),
                worker_error: self.worker_error(now),
                registry: self.about.worker.clone(),
                lease: self.snowflakes.worker.lease_snapshot(now),
                layouts: self.layouts(now),
            },
            counters: self.counts(),
            host: Host {
                host: self.segments.host().to_string(),
                socket: self.about.socket.clone(),
                state_dir: self.about.state_dir.clone(),
                journal_error: self.writer.trouble().map(|failure| failure.message),
                journal_set_aside: self.about.set_aside.clone(),
                users: self.tally.users.list(),
                events: recent::list(),
            },
        }
    }

    /// Everything, with the busiest tags.
    pub(crate) fn snapshot_with_tags(&self) -> Snapshot {
        let now = clock::boot();
        let mut tags: Vec<(f64, Rc<SegmentTag>)> = self
            .segments
            .all_in_use()
            .into_iter()
            .map(|tag| {
                let rate = tag.allocator.borrow_mut().ids_per_second(now);
                (rate, tag)
            })
            .collect();
        let busier = |one: &(f64, _), other: &(f64, _)| other.0.total_cmp(&one.0);
        if tags.len() > TAGS_MAX {
            tags.select_nth_unstable_by(TAGS_MAX, busier);
            tags.truncate(TAGS_MAX);
        }
        tags.sort_by(busier);
        let mut snapshot = self.snapshot(CONDITIONS_MAX);
        snapshot.segments.tags = tags.iter().map(|(_, tag)| tag_snapshot(tag, now)).collect();
        snapshot
    }

    fn daemon(&self) -> Daemon {
        Daemon {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: leafd_wire::VERSION.into(),
            pid: std::process::id().into(),
            uptime_ms: clock::boot().0 - self.about.started.0,
        }
    }

    fn segment_state(&self) -> SegmentState {
        SegmentState { ready: self.writer.works() && self.segments.ready() }
    }

    fn segment_counters(&self) -> SegmentCounters {
        SegmentCounters {
            claims: self.segments.claims.get(),
            issued: self.segments.issued(),
            skipped: counts(self.segments.losses.by_cause()),
            tags_in_use: self.segments.count() as u64,
        }
    }

    fn snowflake_state(&self, now: Now) -> SnowflakeState {
        SnowflakeState {
            ready: self.snowflakes.ready(),
            worker: self.snowflakes.worker.claim(now).map(|claim| claim.worker.0),
        }
    }

    fn worker_error(&self, now: Now) -> Option<String> {
        let clock_error = || {
            let refused = |tag: &Rc<SnowflakeTag>| {
                let refusal = self.snowflakes.clock_refusal(tag, now)?;
                Some(Failure::refusal(&tag.name, refusal, now.unix).message)
            };
            self.snowflakes.layouts().iter().find_map(refused)
        };
        self.snowflakes.worker.error(now).or_else(clock_error)
    }

    fn counts(&self) -> Counters {
        let counters = &self.counters;
        let [held_runs, in_held_runs, direct] = self.tally.ids();
        let (connections, administrator) =
            (counters.connections.get(), counters.administrators.get());
        let journal = self.writer.journal();
        Counters {
            requests: counters.requests.get(),
            requests_refused: self.tally.refusals().map(|(_, count)| count).sum(),
            refusals: counts(self.tally.refusals().map(|(status, count)| (status.name(), count))),
            request_wait_seconds: times(&self.tally.waits.counted()),
            ids: Ids { held_runs, in_held_runs, direct },
            connections,
            connections_by_class: ByClass { administrator, other: connections - administrator },
            connections_accepted: counters.accepted.get(),
            connections_refused: counters.turned_away.get(),
            journal_commits: journal.commits(),
            journal: Journal {
                errors: journal.errors(),
                commit_seconds: times(&journal.commit_times()),
            },
            reloads: Reloads {
                succeeded: counters.reloads.get(),
                refused: counters.reloads_refused.get(),
            },
            last_reload: LastReload {
                successful: !counters.reload_refused_last.get(),
                success_unix_ms: counters.configured_at.get().0,
            },
        }
    }

    fn layouts(&self, now: Now) -> Vec<Layout> {
        let layout = |tag: &Rc<SnowflakeTag>| {
            let generator = tag.generator.borrow();
            Layout {
                name: tag.name.as_str().to_owned(),
                time_bits: tag.layout.time_bits.into(),
                worker_bits: tag.layout.worker_bits.into(),
                sequence_bits: tag.layout.sequence_bits.into(),
                unit_ms: tag.layout.unit_ms.into(),
                epoch_ms: tag.layout.epoch_ms,
                time_left_ms: tag.time_left_ms(now.unix),
                issued: generator.issued,
                mark_ms: generator.grant.map(|_| generator.mark.0),
                clock_ahead_ms: generator.used_end().map(|used_end| {
                    used_end.0.saturating_sub(now.unix.0 + u64::from(tag.layout.unit_ms))
                }),
            }
        };
        self.snowflakes.layouts().iter().map(layout).collect()
    }

    fn stores(&self, now: BootMs) -> Vec<Store> {
        let ago = |at: BootMs| now.0.saturating_sub(at.0);
        let store = |(index, upstream): (usize, &Rc<Upstream>)| {
            let error = self.segments.store_trouble(index, now).map(|trouble| trouble.message);
            let monitor = upstream.monitor.borrow();
            let claimed_at = self.segments.outcomes.borrow().succeeded_at(index);
            Store {
                numbers: StoreNumbers {
                    name: upstream.name.to_string(),
                    ready: error.is_none(),
                    answered_ms_ago: monitor.answered_at.map(ago),
                    claimed_ms_ago: claimed_at.map(ago),
                    failovers: monitor.failovers,
                    conflicts: upstream.conflicts.load(Ordering::Relaxed),
                    settling_ms: monitor.settling_ms(now),
                    claims: counts(upstream.claims.by_result()),
                    claim_seconds: times(&upstream.claims.took.counted()),
                },
                url: upstream.url.to_string(),
                server: upstream.server.borrow().clone(),
                store_id: upstream.key().map(|key| key.to_string()),
                role: upstream.role.0.to_string(),
                history: monitor.trusted.as_ref().map(|trusted| trusted.history.to_string()),
                error,
                journal_stale: upstream.stale.get(),
            }
        };
        self.segments.upstreams.iter().enumerate().map(store).collect()
    }
}

/// A tag in use.
pub(super) fn tag_snapshot(tag: &SegmentTag, now: BootMs) -> TagInUse {
    let lasts = tag.lasts(now);
    let mut allocator = tag.allocator.borrow_mut();
    let ceiling = allocator.ceiling();
    let segments = allocator.held.segments().take(SEGMENTS_MAX);
    TagInUse {
        numbers: TagNumbers {
            segments: segments
                .map(|(left, claimed)| Segment { left: left.into(), claimed: claimed.into() })
                .collect(),
            tag: tag.tag.as_str().to_owned(),
            issued: allocator.issued(),
            ids_per_second: allocator.ids_per_second(now).round(),
            held: allocator.held.unissued() + allocator.held_strictly(),
            lasts_ms: lasts.and_then(Lasts::ms),
            ceiling,
            ceiling_used_percent: ceiling
                .filter(|_| !counts_tenants(tag.tag.as_str()))
                .map(|ceiling| percent_used(allocator.claimed_to(), ceiling)),
            waiting: allocator.waiting.len() as u64,
            strict: allocator.is_strict(),
            holding: allocator.holds(),
        },
        masked: tag.is_masked(),
        highest_ends: allocator.highest_ends(),
    }
}

fn counts<'a>(each: impl Iterator<Item = (&'a str, u64)>) -> Counts {
    each.map(|(name, count)| (name.to_owned(), count)).collect()
}

fn times(counted: &Counted) -> Times {
    Times {
        count: counted.count(),
        sum: counted.sum_seconds,
        buckets: BOUNDS_SECONDS.into_iter().zip(counted.counts).collect(),
    }
}
