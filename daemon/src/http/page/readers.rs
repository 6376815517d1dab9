//! The browsers that read the page's events. There are only a few at a time. Each gets the newest event once it has
//! read the one before. A browser that doesn't read is disconnected.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::Response;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::super::body::{Body, Stream};
use super::super::inquiries::{ANSWERS_WITHIN, Inquiry, asked};
use super::super::listener::Caller;
use super::answer;
use crate::clock;
use crate::config::{AccessRules, percent_decoded};
use crate::requests::{Found, Overview};

/// Most pages that are updated at a time.
const READERS_MAX: usize = 8;

/// How often they are updated.
const EVERY: Duration = Duration::from_secs(1);

/// How long a reader may take no event although there is one.
const STALL_MAX: Duration = Duration::from_secs(15);

/// Most bytes of a text to search for: as many as a name may have.
const TEXT_BYTES_MAX: usize = 512;

/// The readers.
pub(in super::super) struct Readers {
    ask: mpsc::Sender<Inquiry>,
    /// The access rules, which say who is an administrator.
    access: watch::Receiver<AccessRules>,
    seats: RefCell<Vec<Seat>>,
    /// Whether a task updates the readers at present.
    telling: Cell<bool>,
}

/// The place of a reader.
struct Seat {
    caller: Rc<Caller>,
    /// The text that the tags which it sees have in their names.
    text: String,
    /// Has room for one event. When the reader has taken it, the newest one follows.
    events: mpsc::Sender<Bytes>,
    took: Instant,
}

/// The events for a reader.
struct Events {
    events: mpsc::Receiver<Bytes>,
    caller: Rc<Caller>,
}

impl Stream for Events {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.events.poll_recv(cx)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.caller.streaming.set(false);
    }
}

impl Readers {
    pub(in super::super) fn new(
        ask: mpsc::Sender<Inquiry>,
        access: watch::Receiver<AccessRules>,
    ) -> Rc<Readers> {
        Rc::new(Readers { ask, access, seats: RefCell::default(), telling: Cell::new(false) })
    }

    /// The events for another reader, if there is room. `reads` is false if it only asks for the head.
    pub(in super::super) fn events(
        self: &Rc<Self>,
        caller: &Rc<Caller>,
        query: &str,
        reads: bool,
    ) -> Response<Body> {
        let text = query.split('&').find_map(|pair| pair.strip_prefix("find="));
        let mut text =
            text.and_then(|text| percent_decoded(&text.replace('+', " "))).unwrap_or_default();
        while text.len() > TEXT_BYTES_MAX {
            text.pop();
        }
        let mut seats = self.seats.borrow_mut();
        seats.retain(|seat| !seat.events.is_closed());
        if !reads || seats.len() >= READERS_MAX {
            let full = event("full", &json!({"readers": READERS_MAX}));
            return answer("text/event-stream", Body::Whole(Some(full)));
        }
        let (events, receiver) = mpsc::channel(1);
        caller.streaming.set(true);
        seats.push(Seat { caller: Rc::clone(caller), text, events, took: Instant::now() });
        if !self.telling.replace(true) {
            let readers = Rc::clone(self);
            tokio::task::spawn_local(async move { readers.tell().await });
        }
        let stream = Events { events: receiver, caller: Rc::clone(caller) };
        answer("text/event-stream", Body::Stream(Box::new(stream)))
    }

    /// Sends the present state to all readers, until there are none.
    async fn tell(&self) {
        loop {
            let mut texts: Vec<String> = Vec::new();
            for seat in &*self.seats.borrow() {
                if !texts.contains(&seat.text) {
                    texts.push(seat.text.clone());
                }
            }
            let asks = texts.clone();
            let overview = asked(&self.ask, |reply| Inquiry::Overview(asks, reply)).await;
            self.seats.borrow_mut().retain(|seat| !seat.events.is_closed());
            self.pass_on(&texts, overview.as_ref());
            if self.seats.borrow().is_empty() {
                self.telling.set(false);
                return;
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    fn pass_on(&self, texts: &[String], overview: Option<&Overview>) {
        let mut written: HashMap<(&str, bool), Bytes> = HashMap::new();
        let rules = self.access.borrow();
        for seat in &mut *self.seats.borrow_mut() {
            let Ok(room) = seat.events.try_reserve() else {
                if seat.took.elapsed() >= STALL_MAX {
                    tracing::debug!("a reader of the page takes nothing: it is cut off");
                    seat.caller.cut.notify_one();
                }
                continue;
            };
            seat.took = Instant::now();
            let Some(overview) = overview else {
                room.send(event("stuck", &json!({"seconds": ANSWERS_WITHIN.as_secs()})));
                continue;
            };
            let Some(place) = texts.iter().position(|text| *text == seat.text) else { continue };
            let administers =
                seat.caller.peer.as_ref().is_some_and(|peer| rules.may_administer(peer));
            let event = written
                .entry((&texts[place], administers))
                .or_insert_with(|| show(overview, &overview.found[place], administers));
            room.send(event.clone());
        }
    }
}

/// What a reader sees.
fn show(overview: &Overview, found: &Found, administers: bool) -> Bytes {
    let (status, tags_max) = match administers {
        true => (json!(overview.all), usize::MAX),
        false => (json!(overview.public), overview.public_tags),
    };
    let busiest = &found.busiest[..found.busiest.len().min(tags_max)];
    event(
        "state",
        &json!({
            "administers": administers,
            "unix_ms": clock::now().unix.0,
            "status": status,
            "tags": {"sums": found.sums, "busiest": busiest},
        }),
    )
}

/// An event in the form that browsers read. JSON contains no line breaks.
fn event(name: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\nretry: 2000\ndata: {data}\n\n"))
}
