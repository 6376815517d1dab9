//! Turns a request into its answer: a `match` over all kinds of requests, with the tags in use behind it.
//!
//! Everything here runs on one thread and never blocks. A request that needs the store or the journal waits in a queue,
//! with its deadline. It is answered when the blocking thread has reported back.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use leafd_wire::tag::check_tag;
use leafd_wire::{COUNT_MAX, DEADLINE_MS_MAX, Header, IdsRequest, InfoReply, InfoRequest, Status};
use leafd_wire::{VERSION, flag, opcode};
use tokio::sync::{Mutex, watch};

mod busiest;
mod counters;
mod fleet;
#[cfg(feature = "http")]
mod for_http;
mod masks;
mod metrics;
mod overview;
mod quotas;
mod series;
mod session;
mod snapshot;
mod tag_stores;
mod tags;
mod trace;
mod workers;

use crate::clock;
use crate::config::AccessRules;
use crate::engine::lease::Worker;
use crate::engine::masks::Masks;
use crate::engine::quotas::QuotaBucket;
use crate::engine::segments::Segments;
use crate::engine::series::SeriesBook;
use crate::engine::snowflakes::{self, Snowflakes};
use crate::engine::writer::Writer;
use crate::health::{Remedies, Watch};
use crate::reply::Failure;
use crate::reply::tally::Tally;
pub use busiest::{Busiest, OTHERS, Sums};
pub use counters::Counters;
use leafd_core::series::is_tag_of_series;
use leafd_core::{BootMs, Tag, Want};
pub use overview::Overview;
pub use session::Session;
use session::{Last, Source};
pub use snapshot::Readiness;

pub struct Dispatcher {
    pub segments: Rc<Segments>,
    pub snowflakes: Rc<Snowflakes>,
    /// The keys of public ids.
    pub masks: Rc<Masks>,
    pub writer: Rc<Writer>,
    series: SeriesBook,
    access: watch::Sender<AccessRules>,
    /// Increases with each change of the access rules, so that connections don't use what former rules allowed.
    pub(crate) access_edition: Cell<u64>,
    /// What the status says about the daemon as a whole.
    pub about: About,
    stopping: Cell<bool>,
    /// The counts since the start.
    pub(crate) counters: Counters,
    /// The sums over all answers.
    pub(crate) tally: Rc<Tally>,
    /// Held while metrics are rendered.
    rendering: Mutex<()>,
    /// Whether ids can be issued, and why not.
    pub health: Watch,
}

/// What the status says about the daemon as a whole.
#[derive(Debug)]
pub struct About {
    pub started: BootMs,
    pub socket: String,
    pub state_dir: String,
    /// Where its worker number comes from.
    pub worker: String,
    /// How many tags the metrics list individually.
    pub metrics_tags: usize,
    /// The number of draws whose processes the daemon remembers.
    pub draws_kept: usize,
    /// Where the journal was moved, if it was a copy or an old one.
    pub set_aside: Option<String>,
}

/// A request of a connection.
struct PeerRequest<'a> {
    session: &'a Session,
    header: &'a Header,
    body: &'a [u8],
}

impl Dispatcher {
    /// Assembles a dispatcher from its parts.
    pub fn new(
        segments: Rc<Segments>,
        snowflakes: Rc<Snowflakes>,
        masks: Rc<Masks>,
        writer: Rc<Writer>,
        access: AccessRules,
        about: About,
        remedies: Remedies,
    ) -> Rc<Self> {
        let (stopping, counters) = (Cell::new(false), Counters::default());
        counters.configured_at.set(clock::now().unix);
        let health =
            Watch::new(Rc::clone(&segments), Rc::clone(&snowflakes), Rc::clone(&writer), remedies);
        let series = SeriesBook::new(Rc::clone(&segments.upstreams[0]));
        Rc::new(Dispatcher {
            series,
            segments,
            snowflakes,
            masks,
            writer,
            access: watch::Sender::new(access),
            access_edition: Cell::new(0),
            rendering: Mutex::default(),
            tally: Rc::new(Tally::new(about.draws_kept)),
            about,
            stopping,
            counters,
            health,
        })
    }

    /// The current access rules.
    pub fn access(&self) -> AccessRules {
        self.access.borrow().clone()
    }

    /// The access rules, with all their later changes.
    pub fn watch_access(&self) -> watch::Receiver<AccessRules> {
        self.access.subscribe()
    }

    /// Uses other access rules from now on, also on open connections.
    pub fn set_access(&self, access: AccessRules) {
        self.access.send_replace(access);
        self.access_edition.set(self.access_edition.get() + 1);
    }

    /// Answers a request: puts the answer into the session's outbox, now or later.
    pub fn request(self: &Rc<Self>, session: &Session, header: &Header, body: &[u8]) {
        self.counters.requests.set(self.counters.requests.get() + 1);
        let request = &PeerRequest { session, header, body };
        let answered = if self.stopping.get() {
            Err(Failure::stopping())
        } else {
            match header.opcode {
                opcode::IDS => self.ids(request),
                opcode::INFO => self.info(request),
                opcode::STATUS => self.status(request),
                opcode::MASK | opcode::UNMASK => self.mask(request),
                opcode::METRICS => self.metrics(request),
                opcode::SERIES_NEXT => self.series_next(request),
                opcode::TAG_CREATE..=opcode::TAG_DELETE => self.administer(request),
                opcode::WORKER_LIST | opcode::WORKER_RELEASE => self.administer_workers(request),
                opcode::WHOSE | opcode::GAPS => self.trace(request),
                opcode::FLEET => self.fleet(request),
                opcode::SERIES_CREATE..=opcode::SERIES_CHECK => self.about_series(request),
                unknown => Err(Failure::new(
                    Status::UnknownOpcode,
                    format!("protocol version {VERSION} has no opcode {unknown}"),
                )),
            }
        };
        if let Err(failure) = answered {
            session.outbox.failure(header, &failure);
        }
    }

    fn ids(self: &Rc<Self>, request: &PeerRequest<'_>) -> Result<(), Failure> {
        let PeerRequest { session, header, body } = *request;
        let request = IdsRequest::decode(body)?;
        if request.count == 0 || request.count > COUNT_MAX {
            return Err(Failure::new(
                Status::CountInvalid,
                format!("a request can draw 1 to {COUNT_MAX} ids, not {}", request.count),
            ));
        }
        if let Some(failure) = self.writer.failure() {
            return Err(failure);
        }
        // A series knows which of its numbers may be drawn now.
        if let Ok(tag) = std::str::from_utf8(request.tag)
            && is_tag_of_series(tag)
        {
            return Err(tags::refused(format!(
                "tag {tag:?} belongs to a series: draw its numbers with leafctl series next"
            )));
        }
        let (source, quota) = self.source(session, request.tag)?;
        let mut want = Want { count: request.count, allow_partial: header.flags & flag::HOLD != 0 };
        if let Source::Segment(tag) = &source {
            want = tag.limit(want)?;
        }
        if let Some(bucket) = quota {
            let uid = session.outbox.claimant.uid;
            quotas::charge(&mut bucket.borrow_mut(), &mut want, uid, request.tag)?;
        }
        let mut runs = session.runs.borrow_mut();
        runs.clear();
        let deadline = || {
            let deadline_ms = request.deadline_ms.min(DEADLINE_MS_MAX);
            BootMs(clock::boot().0 + u64::from(deadline_ms))
        };
        match source {
            Source::Segment(tag) => {
                if self.segments.take(&tag, want, &mut runs) {
                    session.outbox.given(tag.trace_key, &runs);
                    tag.put_ids(&session.outbox, header, &runs)?;
                } else {
                    let reply = session.outbox.later(*header);
                    session.waits_for(Source::Segment(Rc::clone(&tag)));
                    self.segments.wait(&tag, want, deadline(), reply);
                }
            }
            Source::Snowflake(tag) => {
                self.snowflakes.check_count(&tag, request.count)?;
                if self.snowflakes.take(&tag, want, session.now(), &mut runs) {
                    session.outbox.given(tag.trace_key, &runs);
                    session.outbox.ids(header, snowflakes::HOLD_MS, &runs);
                } else {
                    let reply = session.outbox.later(*header);
                    let drawn = std::mem::take(&mut *runs);
                    session.waits_for(Source::Snowflake(Rc::clone(&tag)));
                    // The wait reads the clock itself. Later readings must not be earlier.
                    session.time_passes();
                    self.snowflakes.wait(&tag, want, deadline(), drawn, reply);
                }
            }
        }
        Ok(())
    }

    /// The source of a tag's ids, and the peer's quota of them, if the peer may draw them.
    fn source(
        self: &Rc<Self>,
        session: &Session,
        name: &[u8],
    ) -> Result<(Source, Option<QuotaBucket>), Failure> {
        let access_edition = self.access_edition.get();
        if let Some(last) = &*session.last.borrow()
            && *last.tag == *name
            && last.access_edition == access_edition
            && !last.source.dead()
        {
            return Ok((last.source.clone(), last.quota.clone()));
        }
        let text = check_tag(name)?;
        if !self.access.borrow().may_draw(text, &session.peer) {
            return Err(Failure::may_not_draw(text, session.peer.uid));
        }
        let source = match self.snowflakes.layout(text) {
            Some(layout) => Source::Snowflake(Rc::clone(layout)),
            None => {
                Source::Segment(self.segments.tag(&Tag::parse(name)?, session.outbox.claimant)?)
            }
        };
        let quota = self.access.borrow().quota(text, &session.peer);
        let uid = session.outbox.claimant.uid;
        let quota = quota.map(|quota| source.quota_bucket(uid, quota));
        let found = (source.clone(), quota.clone());
        *session.last.borrow_mut() = Some(Last { tag: name.into(), source, quota, access_edition });
        Ok(found)
    }

    fn info(&self, request: &PeerRequest<'_>) -> Result<(), Failure> {
        let PeerRequest { session, header, body } = *request;
        let request = InfoRequest::decode(body)?;
        if !(request.version_min..=request.version_max).contains(&VERSION) {
            return Err(Failure::new(
                Status::Version,
                format!(
                    "the daemon supports protocol version {VERSION}, the client {} to {}; upgrade the older one",
                    request.version_min, request.version_max
                ),
            ));
        }
        let reply = InfoReply {
            version: VERSION,
            segments_ready: self.writer.works() && self.segments.ready(),
            snowflake_ready: self.snowflakes.ready(),
            request_length_max: leafd_wire::REQUEST_LENGTH_MAX,
            count_max: COUNT_MAX,
            pipeline_max: leafd_wire::PIPELINE_MAX,
            deadline_ms_max: DEADLINE_MS_MAX,
            pid: std::process::id(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            layouts: self
                .snowflakes
                .layouts()
                .iter()
                .map(|layout| (layout.name.as_str().to_owned(), layout.layout))
                .collect(),
        };
        session.outbox.info(header, &reply);
        Ok(())
    }

    /// A connection has ended: drops its waiting requests, so that others have room.
    pub fn left(&self, session: &Session) {
        for source in session.waited_for.take() {
            match source {
                Source::Segment(tag) => self.segments.drop_gone(&tag),
                Source::Snowflake(tag) => self.snowflakes.drop_gone(&tag),
            }
        }
    }

    /// Does the work between requests, until dropped.
    pub async fn run(self: &Rc<Self>, check_removed: Duration) {
        let writing = self.writer.run(
            |failure| {
                // A full disk may have space again before the next tick, and the recovery would go unnoticed.
                self.health.tell();
                self.segments.abandon_all(failure);
                self.snowflakes.abandon_all(failure);
            },
            || {
                self.segments.drive_all();
                self.snowflakes.serve_all();
            },
        );
        let at_ticks = async {
            loop {
                tokio::time::sleep(clock::TICK).await;
                self.snowflakes.keep_warm();
                self.tally.given.tick();
                self.health.tell();
            }
        };
        let keeping = async {
            if let Worker::Leased(keeper) = &self.snowflakes.worker {
                keeper.run(|| self.snowflakes.follow_worker()).await;
            }
        };
        let checking = self.segments.check_in_rounds(check_removed);
        let (segments, masks) = (self.segments.run(), self.masks.run());
        tokio::join!(writing, at_ticks, keeping, checking, segments, masks, self.keep_series());
    }

    /// Issues no more ids. Waiting and later requests get the answer that the daemon stops.
    pub fn stop_issuing(&self) {
        self.stopping.set(true);
        self.segments.abandon_all(&Failure::stopping());
        self.segments.give_up_holds();
        self.segments.stopping.set(true);
        self.snowflakes.abandon_all(&Failure::stopping());
    }
}
