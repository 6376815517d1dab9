//! STATUS: the daemon's state as JSON. Tags, rates and counters show volumes, so only administrators get them. Others
//! only learn whether ids can be issued.

use std::rc::Rc;

use leafd_wire::{Header, Malformed};

use super::{Dispatcher, Session};
use crate::clock;
use crate::reply::Failure;

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
        let body = match administers {
            true => super::tags::json(&self.snapshot_with_tags()),
            false => super::tags::json(&self.public_snapshot()),
        };
        let body: Rc<[u8]> = body.into();
        rendering.count += 1;
        rendering.body = Some(Rc::clone(&body));
        body
    }
}
