//! The common state of a connection's requests: its process, its outbox, and the tag that it drew last.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use leafd_wire::frame::HEADER_BYTES;
use leafd_wire::{REPLY_LENGTH_MAX, Run, Status};

use super::PeerRequest;
use crate::clock;
use crate::config::{AccessRules, Peer};
use crate::engine::quotas::QuotaBucket;
use crate::engine::segments::SegmentTag;
use crate::engine::snowflakes::SnowflakeTag;
use crate::reply::Failure;
use crate::reply::outbox::Outbox;
use crate::reply::tally::Tally;
use leafd_core::quota::Quota;
use leafd_core::shares::Claimant;
use leafd_core::snowflake::Now;

/// A connection, with what is needed to answer its requests.
pub struct Session {
    /// The process at the other end.
    pub peer: Peer,
    /// Where answers are put.
    pub outbox: Rc<Outbox>,
    /// The tag of the last request, because most connections draw the same tag repeatedly.
    pub(super) last: RefCell<Option<Last>>,
    pub(super) runs: RefCell<Vec<Run>>,
    /// The time for requests that are answered together, read when the first of them needs it.
    now: Cell<Option<Now>>,
    /// Tags for which requests of this connection have waited. When the connection ends, those that still wait are
    /// dropped.
    pub(super) waited_for: Rc<RefCell<Vec<Source>>>,
}

/// The tag that a connection drew last.
pub(super) struct Last {
    pub(super) tag: Box<[u8]>,
    pub(super) source: Source,
    /// The user's quota of this tag.
    pub(super) quota: Option<QuotaBucket>,
    /// The edition of the access rules that allowed it.
    pub(super) access_edition: u64,
}

/// The source of a tag's ids.
#[derive(Clone)]
pub(super) enum Source {
    Segment(Rc<SegmentTag>),
    Snowflake(Rc<SnowflakeTag>),
}

impl Session {
    /// A session for a new connection.
    pub fn new(peer: Peer, pid: u32, claimant: Claimant, tally: Rc<Tally>) -> Self {
        Session {
            peer,
            outbox: Outbox::new(claimant, pid, tally),
            last: RefCell::default(),
            runs: RefCell::default(),
            now: Cell::default(),
            waited_for: Rc::default(),
        }
    }

    /// The same connection, for a task that works on one of its requests.
    pub(super) fn for_task(&self) -> Session {
        Session {
            peer: self.peer.clone(),
            outbox: Rc::clone(&self.outbox),
            last: RefCell::default(),
            runs: RefCell::default(),
            now: Cell::default(),
            waited_for: Rc::clone(&self.waited_for),
        }
    }

    /// The time: read once for requests that are answered together.
    pub(super) fn now(&self) -> Now {
        let now = self.now.get().unwrap_or_else(clock::now);
        self.now.set(Some(now));
        now
    }

    /// Makes the next request read the time again.
    pub fn time_passes(&self) {
        self.now.set(None);
    }

    /// Whether a request waits for a tag that these rules don't let its user draw.
    pub fn waits_in_vain(&self, rules: &AccessRules) -> bool {
        let in_vain =
            |source: &Source| source.waited_for() && !rules.may_draw(source.name(), &self.peer);
        self.outbox.awaiting.get() > 0 && self.waited_for.borrow().iter().any(in_vain)
    }

    /// Remembers that a request waits for this tag.
    pub(super) fn waits_for(&self, source: Source) {
        let mut waited_for = self.waited_for.borrow_mut();
        // Each entry keeps its tag in memory, and a connection may draw a hundred thousand tags in turn.
        if waited_for.len() > 2 * self.outbox.awaiting.get() as usize {
            waited_for.retain(Source::waited_for);
        }
        if !waited_for.iter().any(|known| known.is(&source)) {
            waited_for.push(source);
        }
    }
}

impl PeerRequest<'_> {
    /// Answers once `work` is done, with the body that it returns.
    pub(super) fn answer_later(
        &self,
        work: impl Future<Output = Result<Vec<u8>, Failure>> + 'static,
    ) {
        let reply = self.session.outbox.later(*self.header);
        tokio::task::spawn_local(async move {
            match work.await {
                // The texts of a store's rows may be of any length.
                Ok(body) if body.len() + HEADER_BYTES > REPLY_LENGTH_MAX as usize => {
                    let words = "the reply would be longer than the protocol allows: request smaller pages if the \
                                 request has a limit, or shorten the longest texts in the store's tables";
                    reply.failure(&Failure::new(Status::ValueRefused, words));
                }
                Ok(body) => reply.body(&body),
                Err(failure) => reply.failure(&failure),
            }
        });
    }
}

impl Source {
    /// Whether both are the same tag in use.
    pub(super) fn is(&self, other: &Source) -> bool {
        match (self, other) {
            (Source::Segment(one), Source::Segment(other)) => Rc::ptr_eq(one, other),
            (Source::Snowflake(one), Source::Snowflake(other)) => Rc::ptr_eq(one, other),
            _ => false,
        }
    }

    fn name(&self) -> &str {
        match self {
            Source::Segment(tag) => tag.tag.as_str(),
            Source::Snowflake(tag) => tag.name.as_str(),
        }
    }

    /// Whether any request waits for this tag.
    pub(super) fn waited_for(&self) -> bool {
        match self {
            Source::Segment(tag) => tag.is_waited_for(),
            Source::Snowflake(tag) => tag.is_waited_for(),
        }
    }

    /// What remains of a user's quota of it.
    pub(super) fn quota_bucket(&self, uid: u32, quota: Quota) -> QuotaBucket {
        match self {
            Source::Segment(tag) => tag.quotas.borrow_mut().bucket(uid, quota, clock::boot()),
            Source::Snowflake(tag) => tag.quotas.borrow_mut().bucket(uid, quota, clock::boot()),
        }
    }

    pub(super) fn dead(&self) -> bool {
        match self {
            Source::Segment(tag) => tag.evicted.get(),
            Source::Snowflake(_) => false,
        }
    }
}
