//! Leaf's own HTTP: `/api/segment/get/{key}`, `/api/snowflake/get/{key}`, `/decodeSnowflakeId`, `/cache` and `/db`.
//! Callers of Leaf only have to change the address.
//!
//! - `gate`: decides which requests are served.
//! - `answers`: the form of Leaf's answers.
//! - `pages`: what `/cache` and `/db` show.

mod answers;
mod gate;
mod pages;

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONNECTION, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use leafd_wire::Status;
use tokio::sync::{mpsc, watch};

use super::answer::Text;
use super::inquiries::{Inquiry, asked};
use super::listener::{Caller, ConnectionLimits, Party, Service};
use super::routes::may_be_of_any_page;
use crate::config::{AccessRules, LeafHttp, percent_decoded};
use crate::reply::Failure;
use gate::{Closed, Gate};
use pages::{LeafPage, Pages};

pub(super) static LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 1_024,
    head_within: Duration::from_secs(10),
    lasts: Duration::from_secs(3_600),
};

/// The layout of the ids that Leaf's snowflake path returns, whatever the key in the path is.
const SNOWFLAKE: &str = "snowflake";

/// How long a draw may take: the daemon's own limit, plus time for the answer.
const DRAWN_WITHIN: Duration = Duration::from_millis(1_250);

/// Serves Leaf's paths.
pub(super) struct Leaf {
    gate: Gate,
    pages: Pages,
    ask: mpsc::Sender<Inquiry>,
    /// The names of layouts, which are not segment tags.
    layouts: Vec<String>,
    /// The access rules. Tags that they reserve are refused, because rules can't name callers without a token.
    reserved: Option<watch::Receiver<AccessRules>>,
}

impl Leaf {
    pub(super) fn new(
        settings: LeafHttp,
        token: Option<String>,
        layouts: Vec<String>,
        ask: mpsc::Sender<Inquiry>,
        access: watch::Receiver<AccessRules>,
    ) -> Rc<Leaf> {
        let pages = Pages::new(ask.clone(), token.is_some());
        let reserved = token.is_none().then_some(access);
        Rc::new(Leaf { gate: Gate::new(settings, token), pages, ask, layouts, reserved })
    }

    async fn segment(&self, path: &str, key: &str, accept: &str) -> Response<Text> {
        match percent_decoded(key) {
            Some(tag) if !self.layouts.contains(&tag) => self.draw(path, &tag, accept).await,
            _ => answers::no_id(path, Status::TagUnknown),
        }
    }

    async fn draw(&self, path: &str, tag: &str, accept: &str) -> Response<Text> {
        if self.reserves(|rules| rules.reserves(tag)) {
            return reserved(path);
        }
        let stopped = || Err(Failure::stopping());
        let tag = tag.to_owned();
        let drawn = asked(&self.ask, async move |requests| requests.draw_for_http(&tag).await);
        let Ok(drawn) = tokio::time::timeout(DRAWN_WITHIN, drawn).await else {
            return answers::no_id(path, Status::Deadline);
        };
        match drawn.unwrap_or_else(stopped) {
            Ok(id) => answers::id(id, accept),
            Err(failure) => failed(path, &failure),
        }
    }

    async fn page(&self, path: &str, party: Party, page: LeafPage) -> Response<Text> {
        // The pages show reserved tags too.
        if self.reserves(AccessRules::reserves_any) {
            return reserved(path);
        }
        match self.pages.page(party, page).await {
            Ok(Some(text)) => answers::page(text),
            Ok(None) => {
                too_many(path, "finish reading the pages that are being sent to you", 1_000)
            }
            Err(failure) => failed(path, &failure),
        }
    }

    fn reserves(&self, reserves: impl FnOnce(&AccessRules) -> bool) -> bool {
        self.reserved.as_ref().is_some_and(|rules| reserves(&rules.borrow()))
    }
}

fn reserved(path: &str) -> Response<Text> {
    let why = "an access rule reserves this for certain users, and HTTP callers are anonymous; set \
               leaf_http_token_file to admit callers with the token";
    answers::error(StatusCode::FORBIDDEN, path, None, why)
}

fn failed(path: &str, failure: &Failure) -> Response<Text> {
    tracing::debug!(path, status = failure.status.name(), "{}", failure.message);
    answers::no_id(path, failure.status)
}

impl Service for Leaf {
    async fn answer(&self, caller: &Rc<Caller>, request: Request<Incoming>) -> Response<Text> {
        let peer = caller.address.unwrap_or(IpAddr::from([127, 0, 0, 1]));
        let path = request.uri().path();
        if let Err(closed) = self.gate.enter(peer, caller.party, request.headers()) {
            return turned_away(path, peer, closed);
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let code = StatusCode::METHOD_NOT_ALLOWED;
            let mut answer = answers::error(code, path, None, "send GET or HEAD");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        let bare = bare(path);
        let key = |prefix: &str| bare.strip_prefix(prefix).filter(|key| !key.contains('/'));
        // Any page can make a browser ask for a path. It can't read the answer, but ids would be lost.
        if self.reserved.is_some()
            && bare.starts_with("/api/")
            && may_be_of_any_page(request.headers())
        {
            return turned_away(path, peer, Closed::Browser);
        }
        let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
        let accept = accept.unwrap_or_default();
        if let Some(key) = key("/api/segment/get/") {
            return self.segment(path, key, accept).await;
        }
        if key("/api/snowflake/get/").is_some() {
            return self.draw(path, SNOWFLAKE, accept).await;
        }
        match &*bare {
            "/cache" => self.page(path, caller.party, LeafPage::Cache).await,
            "/db" => self.page(path, caller.party, LeafPage::Rows).await,
            "/decodeSnowflakeId" => decode(path, request.uri().query().unwrap_or_default()),
            _ => answers::error(StatusCode::NOT_FOUND, path, None, "No message available"),
        }
    }
}

/// The path as Leaf's server reads it: without empty parts, dots and parameters.
fn bare(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/').filter_map(|part| part.split(';').next()) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn decode(path: &str, query: &str) -> Response<Text> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let values: Vec<_> = pairs.filter(|(name, _)| *name == "snowflakeId").collect();
    match values[..] {
        // Spring joins several values into one, which is not a number.
        [(_, id), ref more @ ..] => {
            let id = percent_decoded(&id.replace('+', " ")).filter(|_| more.is_empty());
            answers::decoded(&id.unwrap_or_default())
        }
        [] => answers::error(
            StatusCode::BAD_REQUEST,
            path,
            Some("org.springframework.web.bind.MissingServletRequestParameterException"),
            "Required String parameter 'snowflakeId' is not present",
        ),
    }
}

fn too_many(path: &str, why: &str, wait_ms: u64) -> Response<Text> {
    let mut answer = answers::error(StatusCode::TOO_MANY_REQUESTS, path, None, why);
    answer.headers_mut().insert(RETRY_AFTER, wait_ms.div_ceil(1_000).into());
    answer
}

fn turned_away(path: &str, peer: IpAddr, closed: Closed) -> Response<Text> {
    let stranger = |code: StatusCode, why: &str| {
        let mut answer = answers::error(code, path, None, why);
        // The connection must not be used for further requests.
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        answer
    };
    match closed {
        Closed::Address => {
            stranger(StatusCode::FORBIDDEN, &format!("{peer} is not in leaf_http_allow"))
        }
        Closed::Name => stranger(
            StatusCode::FORBIDDEN,
            "the Host header must be localhost, an address, or a name in leaf_http_names",
        ),
        Closed::Page => {
            stranger(StatusCode::FORBIDDEN, "requests from pages of other sites are rejected")
        }
        Closed::Browser => stranger(
            StatusCode::FORBIDDEN,
            "any web page could make a browser draw ids, so browsers may connect only to a loopback address; other \
             programs must not send a User-Agent that begins with Mozilla/",
        ),
        Closed::Token => {
            let why = "send the token of leaf_http_token_file as Authorization: Bearer TOKEN";
            let mut answer = stranger(StatusCode::UNAUTHORIZED, why);
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            answer
        }
        Closed::TooOften(wait_ms) => {
            let why =
                format!("{peer} sends more requests than leaf_http_requests_per_second allows");
            too_many(path, &why, wait_ms)
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
