//! STATUS: the daemon's state as JSON. Tags, rates and counters show volumes, so only administrators get them. Others
//! only learn whether ids can be issued.

use std::rc::Rc;

use leafd_wire::{Header, Malformed};
use serde_json::{Value, json};

use super::{Dispatcher, Session};
use crate::clock;
use crate::engine::segments::SegmentTag;
use crate::engine::snowflakes::SnowflakeTag;
use crate::health::CONDITIONS_MAX;
use crate::recent;
use crate::reply::Failure;
use leafd_core::BootMs;
use leafd_core::health::Lasts;
use leafd_core::store::percent_used;

/// How long a rendered answer is used for everybody who asks, in milliseconds.
const RENDERING_LASTS_MS: u64 = 100;

/// So many answers within that time are rendered anew, for programs that ask only now and then.
const RENDERINGS_FRESH: u32 = 10;

/// The last answer, and how many were given in this window of time.
#[derive(Debug, Default)]
pub(super) struct Rendering {
    window: u64,
    count: u32,
    body: Option<Rc<[u8]>>,
}

/// Most tags in an answer. The busiest come first.
const TAGS_MAX: usize = 100;

/// How many segments of a tag are listed individually: those that are issued first.
const SEGMENTS_MAX: usize = 6;

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
        let administers = self.access().may_administer(&session.peer);
        session.outbox.body(header, &self.rendered(administers));
        Ok(())
    }

    /// The answer for all who ask within a short time, so that a request costs little more than sending the answer.
    fn rendered(&self, administers: bool) -> Rc<[u8]> {
        let window = clock::boot().0 / RENDERING_LASTS_MS;
        let mut renderings = self.renderings.borrow_mut();
        let rendering = &mut renderings[usize::from(administers)];
        if rendering.window != window {
            *rendering = Rendering { window, count: 0, body: None };
        }
        if let Some(body) = &rendering.body
            && rendering.count >= RENDERINGS_FRESH
        {
            return Rc::clone(body);
        }
        let mut status = self.summary();
        status["health"] = self.health.status(administers, CONDITIONS_MAX);
        if administers {
            self.add_details(&mut status);
        }
        let body: Rc<[u8]> = super::tags::json(&status).into();
        rendering.count += 1;
        rendering.body = Some(Rc::clone(&body));
        body
    }

    pub(super) fn summary(&self) -> Value {
        let journal = self.writer.trouble().map(|failure| failure.message);
        json!({
            "release": env!("CARGO_PKG_VERSION"),
            "protocol": leafd_wire::VERSION,
            "pid": std::process::id(),
            "uptime_ms": clock::boot().0 - self.about.started.0,
            "segments": {
                "ready": journal.is_none() && self.segments.ready(),
                "store_error": self.segments.store_failure(),
            },
            "snowflake": {
                "ready": self.snowflakes.ready(),
                "worker": self.snowflakes.worker.number(clock::now()),
                "worker_error": self.snowflake_error(),
            },
            "journal_error": journal,
        })
    }

    /// Why there is no worker, or why no id can be issued although there is one.
    fn snowflake_error(&self) -> Option<String> {
        let now = clock::now();
        self.snowflakes.worker.error(now).or_else(|| {
            let refused = |tag: &Rc<SnowflakeTag>| {
                let refusal = self.snowflakes.clock_refusal(tag, now)?;
                Some(Failure::refusal(&tag.name, refusal, now.unix).message)
            };
            self.snowflakes.layouts().iter().find_map(refused)
        })
    }

    fn add_details(&self, status: &mut Value) {
        let now = clock::now();
        // The busiest tags; no more than these are shown individually, as a host may use a hundred thousand.
        let mut tags: Vec<(f64, Rc<SegmentTag>)> = self
            .segments
            .all_in_use()
            .into_iter()
            .map(|tag| {
                let rate = tag.allocator.borrow_mut().ids_per_second(now.boot);
                (rate, tag)
            })
            .collect();
        let in_use = tags.len();
        let busier = |one: &(f64, _), other: &(f64, _)| other.0.total_cmp(&one.0);
        if in_use > TAGS_MAX {
            tags.select_nth_unstable_by(TAGS_MAX, busier);
            tags.truncate(TAGS_MAX);
        }
        tags.sort_by(busier);
        let tags: Vec<Value> = tags.iter().map(|(_, tag)| show_tag(tag, now.boot)).collect();
        self.add_figures(status, now);
        self.add_of_host(status);
        if let Some(refusals) = status["refusals"].as_object_mut() {
            refusals.retain(|_, count| *count != 0);
        }
        let refused: u64 = self.tally.refusals().map(|(_, count)| count).sum();
        status["requests_refused"] = json!(refused);
        status["segments"]["tags_in_use"] = json!(in_use);
        status["segments"]["tags"] = json!(tags);
    }

    /// Adds what concerns the host and its users.
    pub(super) fn add_of_host(&self, status: &mut Value) {
        status["host"] = json!(self.about.host);
        status["socket"] = json!(self.about.socket);
        status["state_dir"] = json!(self.about.state_dir);
        status["journal_set_aside"] = json!(self.about.set_aside);
        status["snowflake"]["registry"] = json!(self.about.worker);
        status["users"] = json!(self.tally.users.list());
        status["events"] = json!(recent::list());
    }
}

/// A tag in use, as the status shows it.
pub(super) fn show_tag(tag: &SegmentTag, now: BootMs) -> Value {
    let lasts = tag.lasts(now);
    let mut allocator = tag.allocator.borrow_mut();
    let ceiling = allocator.ceiling();
    let segments: Vec<Value> = allocator
        .segments()
        .take(SEGMENTS_MAX)
        .map(|(left, claimed)| json!({"left": left, "claimed": claimed}))
        .collect();
    json!({
        "tag": tag.tag.as_str(),
        "issued": allocator.issued(),
        "ids_per_second": allocator.ids_per_second(now).round(),
        "held": allocator.unissued(),
        "segments": segments,
        "lasts_ms": lasts.and_then(Lasts::ms),
        "ceiling": ceiling,
        "ceiling_used_percent": ceiling.map(|ceiling| percent_used(allocator.claimed_to(), ceiling)),
        "waiting": allocator.waiting(),
        "strict": allocator.is_strict(),
        "masked": tag.is_masked(),
        "highest_ends": allocator.highest_ends(),
    })
}
