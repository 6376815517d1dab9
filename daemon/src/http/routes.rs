//! The paths for monitoring the daemon.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, ORIGIN, USER_AGENT};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{mpsc, watch};

use super::answer::Text;
use super::inquiries::{ANSWERS_WITHIN, Inquiry, asked};
use super::listener::{Caller, ConnectionLimits, Service};
use super::page::{self, PageState};
use crate::config::AccessRules;
use crate::requests::Readiness;

pub(super) static LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 64,
    head_within: Duration::from_secs(3),
    lasts: Duration::from_secs(60),
};

const PLAIN: &str = "text/plain; charset=utf-8";

/// The text of an answer to an unknown path.
const PATHS: &str = "not found; the paths are /, /metrics, /livez and /readyz\n";

/// Serves metrics and health.
pub(super) struct Monitoring {
    ask: mpsc::Sender<Inquiry>,
    /// Whether only processes of this host can connect.
    local: bool,
    page: PageState,
}

impl Monitoring {
    pub(super) fn new(
        ask: mpsc::Sender<Inquiry>,
        access: watch::Receiver<AccessRules>,
        local: bool,
    ) -> Rc<Monitoring> {
        let page = PageState::new(ask.clone(), access);
        Rc::new(Monitoring { ask, local, page })
    }

    async fn metrics(&self) -> Response<Text> {
        let text = asked(&self.ask, async |dispatcher| dispatcher.metrics_text(true).await);
        let Some(text) = text.await else { return blocked() };
        let mut answer = plain(StatusCode::OK, text);
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        answer.headers_mut().insert(CONTENT_TYPE, kind);
        answer
    }

    async fn live(&self) -> Response<Text> {
        match asked(&self.ask, async |_| ()).await {
            Some(()) => plain(StatusCode::OK, "ok\n"),
            None => blocked(),
        }
    }

    async fn ready(&self, query: Option<&str>) -> Response<Text> {
        let found = asked(&self.ask, async |dispatcher| dispatcher.readiness());
        let Some(found) = found.await else { return blocked() };
        let Some(ready) = is_ready(&found, query) else {
            return plain(
                StatusCode::BAD_REQUEST,
                "use /readyz, or name the kinds of ids that you need: /readyz?segments, /readyz?snowflake or \
                 /readyz?segments&snowflake\n",
            );
        };
        let (code, word) = if ready {
            (StatusCode::OK, "ready")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "not ready")
        };
        let line = |kind: &str, why: &Option<String>| match why {
            None => format!("{kind}: ids are available\n"),
            Some(why) => format!("{kind}: no ids available: {why}\n"),
        };
        let text = line("segments", &found.segments) + &line("snowflake", &found.snowflake);
        plain(code, format!("{word}\n{text}"))
    }
}

impl Service for Monitoring {
    async fn answer(&self, caller: &Rc<Caller>, request: Request<Incoming>) -> Response<Text> {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "send GET or HEAD\n");
            answer.headers_mut().insert(ALLOW, "GET, HEAD".parse().expect("plain text"));
            return answer;
        }
        let host = request.headers().get(HOST).map(|host| host.to_str().unwrap_or("?"));
        if self.local && !host.is_none_or(is_this_host) {
            return plain(
                StatusCode::FORBIDDEN,
                "the Host header must be localhost or an IP address\n",
            );
        }
        match request.uri().path() {
            "/metrics" => self.metrics().await,
            "/livez" => self.live().await,
            "/readyz" => self.ready(request.uri().query()).await,
            "/state" if is_from_another_site(request.headers()) => {
                plain(StatusCode::FORBIDDEN, "requests from pages of other sites are rejected\n")
            }
            "/state" => {
                let query = request.uri().query().unwrap_or_default();
                self.page.state(caller, query).await.unwrap_or_else(blocked)
            }
            path => match page::file(path) {
                Some(file) => file,
                None => plain(StatusCode::NOT_FOUND, PATHS),
            },
        }
    }
}

/// Whether the ids in the query can be issued: ids of all kinds that it names, or of any kind if it names none. `None`
/// if it names an unknown kind.
fn is_ready(found: &Readiness, query: Option<&str>) -> Option<bool> {
    let (segments, snowflake) = (found.segments.is_none(), found.snowflake.is_none());
    let Some(query) = query.filter(|query| !query.is_empty()) else {
        return Some(segments || snowflake);
    };
    query.split('&').try_fold(true, |ready, kind| match kind {
        "segments" => Some(ready && segments),
        "snowflake" => Some(ready && snowflake),
        _ => None,
    })
}

/// Whether a `Host` field names this host by an address or as localhost, so that a web page whose own name points here
/// gets no answer.
pub(super) fn is_this_host(host: &str) -> bool {
    let name = host_name(host);
    // Browsers reach this host by 0.0.0.0 as well, and then don't say whose page asks.
    let is_address =
        name.parse().is_ok_and(|address: IpAddr| !address.to_canonical().is_unspecified());
    is_address || name.eq_ignore_ascii_case("localhost") || name.is_empty()
}

/// The name or address in a `Host` field, without the port.
pub(super) fn host_name(host: &str) -> &str {
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    let name = if port.ends_with(']') { host } else { name };
    name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
}

/// The header field in which a browser reports whose page sent a request.
const SITE: &str = "sec-fetch-site";

/// Whether a browser sent the request without reporting whose page it was. Browsers report that only over encrypted
/// connections and to loopback addresses.
pub(super) fn may_be_of_any_page(headers: &HeaderMap) -> bool {
    let is_browser = |agent: &HeaderValue| agent.as_bytes().starts_with(b"Mozilla/");
    headers.get(USER_AGENT).is_some_and(is_browser) && !headers.contains_key(SITE)
}

/// Whether a browser reports that the request comes from a page of another site, such as another port of this host.
pub(super) fn is_from_another_site(headers: &HeaderMap) -> bool {
    let site = headers.get(SITE);
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        return true;
    }
    let host = headers.get(HOST).map_or(&b""[..], |host| host.as_bytes());
    headers.get(ORIGIN).is_some_and(|origin| {
        let origin = origin.as_bytes();
        let name = origin.strip_prefix(b"http://").or(origin.strip_prefix(b"https://"));
        !name.is_some_and(|name| name.eq_ignore_ascii_case(host))
    })
}

fn blocked() -> Response<Text> {
    plain(
        StatusCode::SERVICE_UNAVAILABLE,
        format!(
            "the request loop has been blocked for {} s; see the log\n",
            ANSWERS_WITHIN.as_secs()
        ),
    )
}

fn plain(code: StatusCode, text: impl Into<Text>) -> Response<Text> {
    let mut answer = Response::new(text.into());
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, PLAIN.parse().expect("plain text"));
    headers.insert(CACHE_CONTROL, "no-store".parse().expect("plain text"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_host_are_its_names() {
        for own in ["localhost", "LOCALHOST:9644", "127.0.0.1:9644", "[::1]:9644", "[::1]", ""] {
            assert!(is_this_host(own), "{own}");
        }
        for other in [
            "evil.example",
            "evil.example:9644",
            "localhost.evil.example",
            "[evil]:1",
            "0.0.0.0:1",
            "[::]",
            "[::ffff:0.0.0.0]:80",
            "[::1].evil.example",
            "[::1]evil:1",
        ] {
            assert!(!is_this_host(other), "{other}");
        }
    }

    #[test]
    fn each_kind_that_is_named_has_to_be_there() {
        let found = Readiness { segments: None, snowflake: Some("no worker".to_owned()) };
        assert_eq!(is_ready(&found, None), Some(true));
        assert_eq!(is_ready(&found, Some("segments")), Some(true));
        assert_eq!(is_ready(&found, Some("segments&snowflake")), Some(false));
        assert_eq!(is_ready(&found, Some("tea")), None);
    }
}
