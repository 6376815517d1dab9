//! The web page for people: its files, and the state that it requests once a second.

use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::json;
use tokio::sync::{Mutex, mpsc, watch};

use super::answer::Text;
use super::inquiries::{Inquiry, asked};
use super::listener::Caller;
use crate::clock;
use crate::config::{AccessRules, percent_decoded};
use crate::requests::Overview;

/// The page loads only its own files, talks to no other server, and can't be embedded in another page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// How long an overview is used before it is generated again.
const FRESH: Duration = Duration::from_millis(500);

/// The maximum number of bytes of a search text: as many as a name may have.
const TEXT_BYTES_MAX: usize = 512;

/// The content of the page. One overview at a time is generated for all readers, and another one for searches.
pub(super) struct PageState {
    ask: mpsc::Sender<Inquiry>,
    /// The access rules, which say who is an administrator.
    access: watch::Receiver<AccessRules>,
    made: [Mutex<Option<Made>>; 2],
}

struct Made {
    at: Instant,
    text: String,
    overview: Overview,
}

impl PageState {
    pub(super) fn new(
        ask: mpsc::Sender<Inquiry>,
        access: watch::Receiver<AccessRules>,
    ) -> PageState {
        PageState { ask, access, made: Default::default() }
    }

    /// The state as JSON; `None` if the request loop is blocked.
    pub(super) async fn state(&self, caller: &Rc<Caller>, query: &str) -> Option<Response<Text>> {
        let text = query.split('&').find_map(|pair| pair.strip_prefix("find="));
        let mut text =
            text.and_then(|text| percent_decoded(&text.replace('+', " "))).unwrap_or_default();
        while text.len() > TEXT_BYTES_MAX {
            text.pop();
        }
        let mut made = self.made[usize::from(!text.is_empty())].lock().await;
        let fresh = |made: &Made| made.text == text && made.at.elapsed() < FRESH;
        if !made.as_ref().is_some_and(fresh) {
            let find = text.clone();
            let overview = asked(&self.ask, async move |requests| requests.overview(&find).await);
            let overview = overview.await?;
            *made = Some(Made { at: Instant::now(), text, overview });
        }
        let rules = self.access.borrow();
        let administers = caller.peer.as_ref().is_some_and(|peer| rules.may_administer(peer));
        let state = made.as_ref().map(|made| show(&made.overview, administers))?;
        Some(answer("application/json", state))
    }
}

/// The part that a reader may see.
fn show(overview: &Overview, administers: bool) -> String {
    let (status, tags_max) = match administers {
        true => (json!(overview.all), usize::MAX),
        false => (json!(overview.public), overview.public_tags),
    };
    let tags = &overview.tags;
    let busiest = &tags.named[..tags.named.len().min(tags_max)];
    json!({
        "administers": administers,
        "unix_ms": clock::now().unix.0,
        "status": status,
        "tags": {"sums": tags.sums(), "busiest": busiest},
    })
    .to_string()
}

/// The page, or one of its files.
pub(super) fn file(path: &str) -> Option<Response<Text>> {
    let (kind, text) = match path {
        "/" => ("text/html; charset=utf-8", include_str!("page/page.html")),
        "/page.css" => ("text/css; charset=utf-8", include_str!("page/page.css")),
        "/page.js" => ("text/javascript; charset=utf-8", include_str!("page/page.js")),
        _ => return None,
    };
    Some(answer(kind, text))
}

fn answer(kind: &'static str, text: impl Into<Text>) -> Response<Text> {
    let mut answer = Response::new(text.into());
    *answer.status_mut() = StatusCode::OK;
    let headers = answer.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE.as_str(), kind),
        // After an upgrade, browsers must get the new daemon's page.
        (CACHE_CONTROL.as_str(), "no-store"),
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}
