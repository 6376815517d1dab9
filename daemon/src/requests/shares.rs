//! SHARE: gives a process the ids of a tag that all processes of its user draw from memory.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use leafd_core::quota::Bucket;
use leafd_core::{BootMs, Tag, Want};
use leafd_wire::{DEADLINE_MS_MAX, Header, ShareReply, ShareRequest};

use super::{Dispatcher, Session, Source, quotas};
use crate::clock;
use crate::config::Peer;
use crate::engine::segments::{NOT_SHARED_MS, SegmentTag};
use crate::reply::Failure;
use crate::reply::outbox::ReplyTo;

impl Dispatcher {
    pub(super) fn share(
        self: &Rc<Self>,
        session: &Session,
        header: &Header,
        body: &[u8],
    ) -> Result<(), Failure> {
        let request = ShareRequest::decode(body)?;
        let tag = Tag::parse(request.tag)?;
        let deadline_ms = request.deadline_ms.min(DEADLINE_MS_MAX);
        let deadline = BootMs(clock::boot().0 + u64::from(deadline_ms));
        let reply = session.outbox.later(*header).sharing(request.page);
        let Some(reply) = self.may_share(&session.peer, &tag, reply) else { return Ok(()) };
        let opens = self.segments.shares_from();
        if clock::boot() < opens {
            let peer = session.peer.clone();
            let later = Rc::clone(self).share_later(opens, peer, tag, deadline, reply);
            tokio::task::spawn_local(later);
        } else if let Some(waited_for) = self.share_now(&session.peer, &tag, deadline, reply) {
            session.waits_for(Source::Segment(waited_for));
        }
        Ok(())
    }

    /// Answers once nobody can draw any more from pages that a former daemon has published.
    async fn share_later(
        self: Rc<Self>,
        opens: BootMs,
        peer: Peer,
        tag: Tag,
        deadline: BootMs,
        reply: ReplyTo,
    ) {
        let until = opens.min(deadline);
        while clock::boot() < until && !reply.gone() {
            // A timer stops while the host sleeps, so the wait is short and the clock is read again.
            let left_ms = until.0.saturating_sub(clock::boot().0);
            tokio::time::sleep(Duration::from_millis(left_ms.clamp(1, 100))).await;
        }
        if self.stopping.get() {
            return reply.failure(&Failure::stopping());
        }
        if clock::boot() < opens {
            let waited_for = "what the daemon before this one has published may still be drawn";
            return reply.failure(&Failure::deadline(&tag, waited_for));
        }
        self.share_now(&peer, &tag, deadline, reply);
    }

    /// Returns `reply` if the user may draw the tag and share it. Otherwise answers it.
    fn may_share(&self, peer: &Peer, tag: &Tag, reply: ReplyTo) -> Option<ReplyTo> {
        let (access, name) = (self.access(), tag.as_str());
        if let Some(failure) = self.writer.failure() {
            reply.failure(&failure);
        } else if !access.may_draw(name, peer) {
            reply.failure(&Failure::may_not_draw(name, peer.uid));
        } else if !access.may_share(name, peer.uid) || self.snowflakes.layout(name).is_some() {
            reply.share(ShareReply::NotShared { again_ms: NOT_SHARED_MS }, None);
        } else {
            return Some(reply);
        }
        None
    }

    /// Answers a request to share. Returns the tag if the request has to wait for an id.
    fn share_now(
        self: &Rc<Self>,
        peer: &Peer,
        tag: &Tag,
        deadline: BootMs,
        reply: ReplyTo,
    ) -> Option<Rc<SegmentTag>> {
        let reply = self.may_share(peer, tag, reply)?;
        let (access, name) = (self.access(), tag.as_str());
        let drawable = self.segments.tag(tag, reply.claimant()).and_then(|in_use| {
            let quota = access.quota(name, peer);
            let quota = quota.map(|quota| in_use.quota_bucket(peer.uid, quota));
            // Ids that are published already were taken from the quota.
            let used_up =
                |bucket: &RefCell<Bucket>| bucket.borrow_mut().available(clock::boot()) == 0;
            if let Some(bucket) = quota.as_deref().filter(|bucket| used_up(bucket))
                && !self.segments.has_shared_ids(&in_use, reply.claimant())
            {
                let mut want = Want { count: 1, allow_partial: true };
                quotas::charge(&mut bucket.borrow_mut(), &mut want, peer.uid, name.as_bytes())?;
            }
            Ok((in_use, quota))
        });
        match drawable {
            Ok((in_use, quota)) => {
                self.segments.share(&in_use, quota, deadline, reply);
                Some(in_use)
            }
            Err(failure) => {
                reply.failure(&failure);
                None
            }
        }
    }
}
