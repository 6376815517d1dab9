//! What a person looks at: one page, its files, and the events that keep it up to date.
//!
//! - `readers`: who reads the events.

mod readers;

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::body::Body;
pub(super) use readers::Readers;

/// The page loads nothing but its own files, talks to nobody else, and stands in no other page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page, or a file of it.
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
        // After an upgrade the page is the new daemon's.
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
