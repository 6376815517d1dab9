//! Holds ids of each tag for the next requests: a held run, such as every client process has, and the requests that
//! wait for the next one.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use leafd_wire::{IdsReply, IdsRequest, Run, Status};
use tokio::sync::oneshot;

use super::link::{Link, Refused};
use crate::clock;
use leafd_core::BootMs;

/// How long a request may wait in the daemon, in milliseconds.
const DEADLINE_MS: u32 = 1_000;

/// How long a request waits in all. It is a little longer, because the daemon's answer says why there is no id.
const ANSWERED_WITHIN: Duration = Duration::from_millis(1_250);

/// A run contains as many ids as are drawn in this time, in milliseconds, or in half of the time for which it may be
/// held.
const RUN_LASTS_MS: u64 = 100;

/// Most ids of a run: so many are lost at most when the daemon ends.
const RUN_MAX: u32 = 4_096;

/// For how many tags runs are held. If there are more, tags without held ids are forgotten.
const TAGS_MAX: usize = 1_024;

/// How many requests may wait for one tag.
const WAITING_MAX: usize = 4_096;

/// Draws ids for HTTP requests.
pub(super) struct Taps {
    link: Rc<Link>,
    tags: RefCell<HashMap<Box<str>, Rc<Tap>>>,
}

/// The held ids and the waiting requests of one tag.
#[derive(Default)]
struct Tap(RefCell<Held>);

#[derive(Default)]
struct Held {
    runs: VecDeque<Run>,
    /// The held ids must be used before this instant.
    until: BootMs,
    /// When the daemon gave them.
    since: BootMs,
    waiting: VecDeque<oneshot::Sender<Result<u64, Refused>>>,
    asking: bool,
    /// Whether the last ids could not be held, because the tag is strict or masked. Then as many ids are asked for as
    /// requests wait.
    direct: bool,
    size: u32,
}

impl Taps {
    pub(super) fn new(link: Rc<Link>) -> Taps {
        Taps { link, tags: RefCell::default() }
    }

    /// The next id of a tag.
    pub(super) async fn next(&self, tag: &str) -> Result<u64, Refused> {
        let tap = self.tap(tag);
        let answer = {
            let mut held = tap.0.borrow_mut();
            if let Some(id) = held.take(clock::boot()) {
                return Ok(id);
            }
            if held.waiting.len() >= WAITING_MAX {
                let message = format!("{WAITING_MAX} requests by HTTP wait for tag {tag:?}");
                return Err(Refused { status: Status::Overloaded, message });
            }
            let (reply, answer) = oneshot::channel();
            held.waiting.push_back(reply);
            if !std::mem::replace(&mut held.asking, true) {
                let (link, tap, tag) = (Rc::clone(&self.link), Rc::clone(&tap), tag.to_owned());
                tokio::task::spawn_local(async move { tap.fill(&link, &tag).await });
            }
            answer
        };
        let outcome = match tokio::time::timeout(ANSWERED_WITHIN, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => {
                Err(Refused { status: Status::Internal, message: "nobody answered".to_owned() })
            }
            Err(_) => {
                let message = format!("no id of tag {tag:?} came within {ANSWERED_WITHIN:?}");
                Err(Refused { status: Status::Deadline, message })
            }
        };
        if matches!(&outcome, Err(refused) if refused.status == Status::TagUnknown) {
            // Requests for names that don't exist must not fill the memory.
            self.tags.borrow_mut().remove(tag);
        }
        outcome
    }

    fn tap(&self, tag: &str) -> Rc<Tap> {
        let mut tags = self.tags.borrow_mut();
        if let Some(tap) = tags.get(tag) {
            return Rc::clone(tap);
        }
        if tags.len() >= TAGS_MAX {
            let now = clock::boot();
            tags.retain(|_, tap| tap.0.borrow().in_use(now));
        }
        let tap = Rc::new(Tap::default());
        tags.insert(tag.into(), Rc::clone(&tap));
        tap
    }
}

impl Tap {
    /// Asks for ids until no request waits any more.
    async fn fill(&self, link: &Link, tag: &str) {
        loop {
            let (waiting, count, hold) = {
                let mut held = self.0.borrow_mut();
                held.waiting.retain(|waiting| !waiting.is_closed());
                let waiting = held.waiting.len();
                let Ok(count @ 1..) = u32::try_from(waiting) else {
                    held.asking = false;
                    return;
                };
                match held.direct {
                    true => (waiting, count, false),
                    false => (waiting, held.size.clamp(1, RUN_MAX).max(count), true),
                }
            };
            let asked = clock::boot();
            let request = IdsRequest { tag: tag.as_bytes(), count, deadline_ms: DEADLINE_MS };
            let answer = link.ask(|id, frame| request.put(hold, id, frame)).await;
            let drawn = answer.and_then(|body| {
                let reply = IdsReply::decode(&body).map_err(|malformed| Refused {
                    status: Status::Internal,
                    message: format!("the daemon's answer can't be read: {malformed}"),
                })?;
                Ok((u64::from(reply.hold_ms), reply.runs().collect::<Vec<Run>>()))
            });
            let mut held = self.0.borrow_mut();
            match drawn {
                Ok((hold_ms, runs)) => {
                    held.direct = hold_ms == 0;
                    // Ids that were not asked for to be held are given to the waiting requests at once.
                    held.give(runs, if hold { hold_ms } else { 0 }, asked, waiting);
                }
                // The tag's last ids are fewer than the waiting requests.
                Err(refused)
                    if count > 1 && held.direct && refused.status == Status::TagExhausted =>
                {
                    held.direct = false;
                }
                Err(refused) => {
                    for waiting in held.waiting.drain(..waiting) {
                        let _ = waiting.send(Err(refused.clone()));
                    }
                }
            }
        }
    }
}

impl Held {
    fn in_use(&self, now: BootMs) -> bool {
        self.asking || !self.runs.is_empty() && now < self.until
    }

    fn take(&mut self, now: BootMs) -> Option<u64> {
        // Requests are served in the order in which they came.
        if !self.waiting.is_empty() || now >= self.until {
            return None;
        }
        self.first()
    }

    fn first(&mut self) -> Option<u64> {
        let run = self.runs.front_mut()?;
        let id = run.first;
        match run.without_first(1) {
            Some(rest) => *run = rest,
            None => drop(self.runs.pop_front()),
        }
        Some(id)
    }

    /// Takes a run that was asked for at `asked`, when `waited` requests waited. If it may not be held, only these
    /// requests get it: an id of a strict tag may have been claimed before a later request came, and would be too low
    /// for that one.
    fn give(&mut self, runs: Vec<Run>, hold_ms: u64, asked: BootMs, waited: usize) {
        let lasted_ms = asked.0.saturating_sub(self.since.0);
        let aim_ms = RUN_LASTS_MS.min(hold_ms / 2);
        self.size = match (self.runs.is_empty(), lasted_ms) {
            (true, ..) if lasted_ms < aim_ms => self.size.max(1).saturating_mul(2).min(RUN_MAX),
            (true, _) if lasted_ms < aim_ms * 4 => self.size,
            _ => self.size / 2,
        };
        self.runs = runs.into();
        (self.since, self.until) = (asked, BootMs(asked.0.saturating_add(hold_ms)));
        let mut served = if hold_ms == 0 { waited } else { usize::MAX };
        while served > 0
            && let Some(waiting) = self.waiting.pop_front()
        {
            served -= 1;
            if waiting.is_closed() {
                continue;
            }
            let Some(id) = self.first() else {
                self.waiting.push_front(waiting);
                break;
            };
            let _ = waiting.send(Ok(id));
        }
        if hold_ms == 0 {
            self.runs.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(held: &mut Held) -> oneshot::Receiver<Result<u64, Refused>> {
        let (reply, answer) = oneshot::channel();
        held.waiting.push_back(reply);
        answer
    }

    #[test]
    fn what_may_not_be_held_goes_to_nobody_who_came_later() {
        let mut held = Held::default();
        let (gone, mut first) = (waiter(&mut held), waiter(&mut held));
        drop(gone);
        let mut later = waiter(&mut held);
        let run = |first, count| vec![Run { first, count, stride: 1 }];
        held.give(run(10, 2), 0, BootMs(1), 2);
        assert!(matches!(first.try_recv(), Ok(Ok(10))));
        assert!(later.try_recv().is_err(), "11 was claimed before the last one asked");
        assert!(held.runs.is_empty());
        held.give(run(20, 1), 0, BootMs(2), 1);
        assert!(matches!(later.try_recv(), Ok(Ok(20))));
        // Ids that may be held have no order relative to those of other hosts.
        let mut later = waiter(&mut held);
        held.give(run(30, 2), 60_000, BootMs(3), 0);
        assert!(matches!(later.try_recv(), Ok(Ok(30))));
        assert_eq!(held.take(BootMs(4)), Some(31));
    }
}
