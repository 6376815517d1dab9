//! Leaf's own HTTP: `/api/segment/get/{key}`, `/api/snowflake/get/{key}`, `/cache`, `/db` and `/decodeSnowflakeId`. A
//! caller of Leaf only has to change the address.
//!
//! - `gate`: decides who may ask.
//! - `taps`: holds ids for the next requests.
//! - `link`: a connection to the daemon's own socket.
//! - `pages`: Leaf's tables of the held ids and of all rows.
//! - `answers`: the form of Leaf's answers.

mod answers;
mod gate;
mod link;
mod pages;
mod taps;

use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONNECTION, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use leafd_wire::Status;
use tokio::sync::watch;

use super::body::Body;
use super::listener::{Caller, Limits, Party, Service};
use crate::config::{AccessRules, LeafHttp, percent_decoded};
use gate::{Closed, Gate};
use link::{Link, Refused};
use pages::{Page, Pages};
use taps::Taps;

pub(super) static LIMITS: Limits = Limits {
    connections: 1_024,
    head_within: Duration::from_secs(10),
    lasts: Duration::from_secs(3_600),
};

/// The layout of the ids that Leaf's snowflake path gives, whatever the key in the path is.
const SNOWFLAKE: &str = "snowflake";

/// Serves Leaf's paths.
pub(super) struct Leaf {
    gate: Gate,
    pages: Rc<Pages>,
    taps: Taps,
    /// The names of layouts, which are not segment tags.
    layouts: Vec<String>,
    /// The access rules. Tags that they reserve are refused, because no rule can name a caller without a token.
    reserved: Option<watch::Receiver<AccessRules>>,
}

impl Leaf {
    pub(super) fn new(
        settings: LeafHttp,
        token: Option<String>,
        layouts: Vec<String>,
        socket: PathBuf,
        access: watch::Receiver<AccessRules>,
    ) -> Rc<Leaf> {
        let tells_masked = token.is_some();
        let reserved = token.is_none().then_some(access);
        // The pages ask for large answers. They use a connection of their own, so as not to delay ids.
        let pages = Pages::new(Link::new(socket.clone()), tells_masked);
        let taps = Taps::new(Rc::new(Link::new(socket)));
        Rc::new(Leaf { gate: Gate::new(settings, token), pages, taps, layouts, reserved })
    }

    async fn segment(&self, path: &str, key: &str) -> Response<Bytes> {
        let key = percent_decoded(key);
        let known = key.as_deref().filter(|key| !self.layouts.iter().any(|layout| layout == key));
        let outcome = match known {
            Some(key) => match self.keeps(|rules| rules.reserves(key)) {
                true => return reserved(path),
                false => self.taps.next(key).await,
            },
            None => Err(Refused { status: Status::TagUnknown, message: String::new() }),
        };
        answered(path, outcome)
    }

    fn keeps(&self, reserves: impl FnOnce(&AccessRules) -> bool) -> bool {
        self.reserved.as_ref().is_some_and(|rules| reserves(&rules.borrow()))
    }
}

impl Service for Leaf {
    async fn answer(&self, caller: &Rc<Caller>, request: Request<Incoming>) -> Response<Body> {
        let peer = caller.address.unwrap_or(IpAddr::from([127, 0, 0, 1]));
        self.answer_to(peer, caller.party, request).await.map(Body::from)
    }
}

impl Leaf {
    async fn answer_to(
        &self,
        peer: IpAddr,
        party: Party,
        request: Request<Incoming>,
    ) -> Response<Bytes> {
        let path = request.uri().path();
        if let Err(closed) = self.gate.enter(peer, party, request.headers()) {
            return turned_away(path, peer, closed);
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let code = StatusCode::METHOD_NOT_ALLOWED;
            let mut answer = answers::error(code, path, None, "ask with GET or HEAD");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        // For Leaf, a path with a slash at its end is the same path.
        let bare = path.strip_suffix('/').unwrap_or(path);
        let key = |prefix: &str| {
            bare.strip_prefix(prefix).filter(|key| !key.is_empty() && !key.contains('/'))
        };
        if let Some(key) = key("/api/segment/get/") {
            return self.segment(path, key).await;
        }
        if key("/api/snowflake/get/").is_some() {
            if self.keeps(|rules| rules.reserves(SNOWFLAKE)) {
                return reserved(path);
            }
            return answered(path, self.taps.next(SNOWFLAKE).await);
        }
        match bare {
            // The pages show reserved tags too.
            "/cache" | "/db" if self.keeps(AccessRules::reserves_any) => reserved(path),
            "/cache" => self.pages.page(Page::Cache).await,
            "/db" => self.pages.page(Page::Rows).await,
            "/decodeSnowflakeId" => decode(path, request.uri().query().unwrap_or_default()),
            _ => answers::error(StatusCode::NOT_FOUND, path, None, "No message available"),
        }
    }
}

fn answered(path: &str, outcome: Result<u64, Refused>) -> Response<Bytes> {
    match outcome {
        Ok(id) => answers::id(id),
        Err(refused) => {
            tracing::debug!(path, status = refused.status.name(), "{}", refused.message);
            answers::no_id(path, &refused)
        }
    }
}

fn reserved(path: &str) -> Response<Bytes> {
    let why = "an access rule reserves it, and no rule can name who asks by HTTP; with leaf_http_token_file whoever has the \
               token may ask";
    answers::error(StatusCode::FORBIDDEN, path, None, why)
}

fn decode(path: &str, query: &str) -> Response<Bytes> {
    let values = query.split('&').filter_map(|pair| pair.strip_prefix("snowflakeId="));
    match values.into_iter().next() {
        Some(id) => answers::decoded(&percent_decoded(id).unwrap_or_default()),
        None => answers::error(
            StatusCode::BAD_REQUEST,
            path,
            Some("org.springframework.web.bind.MissingServletRequestParameterException"),
            "Required String parameter 'snowflakeId' is not present",
        ),
    }
}

fn turned_away(path: &str, peer: IpAddr, closed: Closed) -> Response<Bytes> {
    let stranger = |code: StatusCode, why: &str| {
        let mut answer = answers::error(code, path, None, why);
        // The connection must not be used for further requests.
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        answer
    };
    match closed {
        Closed::Address => stranger(
            StatusCode::FORBIDDEN,
            &format!("{peer} may not ask leafd: no network of leaf_http_allow has it"),
        ),
        Closed::Name => stranger(
            StatusCode::FORBIDDEN,
            "the Host header must be localhost, an address, or a name in leaf_http_names",
        ),
        Closed::Page => stranger(StatusCode::FORBIDDEN, "pages of other sites are not served"),
        Closed::Token => {
            let why = "send the token of leaf_http_token_file as Authorization: Bearer TOKEN";
            let mut answer = stranger(StatusCode::UNAUTHORIZED, why);
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            answer
        }
        Closed::TooOften(wait_ms) => {
            let why = format!("{peer} asks more often than leaf_http_requests_per_second allows");
            let mut answer = answers::error(StatusCode::TOO_MANY_REQUESTS, path, None, &why);
            answer.headers_mut().insert(RETRY_AFTER, wait_ms.div_ceil(1_000).into());
            answer
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_text_in_utf_8() {
        assert_eq!(percent_decoded("orders").as_deref(), Some("orders"));
        assert_eq!(percent_decoded("a%20b%E2%82%AC").as_deref(), Some("a b€"));
        for odd in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(percent_decoded(odd), None, "{odd}");
        }
    }
}
