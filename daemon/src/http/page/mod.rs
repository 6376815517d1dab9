//! The web page for people: the page itself, its files, and the events that update it.
//!
//! - `readers`: the browsers that read the events.

mod readers;

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::body::Body;
pub(super) use readers::Readers;

/// The page loads only its own files, talks to no other server, and can't be embedded in another page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page, or one of its files.
pub(super) fn file(path: &str) -> Option<Response<Body>> {
    let (kind, text) = match path {
        "/" => ("text/html; charset=utf-8", include_str!("page.html")),
        "/page.css" => ("text/css; charset=utf-8", include_str!("page.css")),
        "/page.js" => ("text/javascript; charset=utf-8", include_str!("page.js")),
        _ => return None,
    };
    Some(answer(kind, text.into()))
}

fn answer(kind: &'static str, body: Body) -> Response<Body> {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::OK;
    let headers = answer.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE.as_str(), kind),
        // After an upgrade a browser must get the new daemon's page.
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
