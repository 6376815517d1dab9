//! Decides who may use Leaf's paths, and how often.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderMap};

use super::super::routes::is_this_host;
use crate::clock;
use crate::config::LeafHttp;
use leafd_core::quota::{Bucket, Quota};

/// For how many addresses the rate is remembered. If there are more, all are forgotten.
const ADDRESSES_MAX: usize = 4_096;

/// Decides whether a request is served.
pub(super) struct Gate {
    settings: LeafHttp,
    token: Option<String>,
    /// Whether only processes of this host can connect.
    local: bool,
    paces: RefCell<HashMap<IpAddr, Bucket>>,
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    Address,
    /// The Host field has another name than this host's.
    Name,
    /// The request comes from a web page of another site.
    Page,
    Token,
    /// Too many requests; try again after this many milliseconds.
    TooOften(u64),
}

impl Gate {
    pub(super) fn new(settings: LeafHttp, token: Option<String>, local: bool) -> Gate {
        Gate { settings, token, local, paces: RefCell::default() }
    }

    pub(super) fn enter(&self, peer: IpAddr, headers: &HeaderMap) -> Result<(), Closed> {
        if !self.settings.allow.iter().any(|network| network.contains(peer)) {
            return Err(Closed::Address);
        }
        if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
            return Err(Closed::Page);
        }
        let host = headers.get(HOST).map(|host| host.to_str().unwrap_or("?"));
        if self.local && self.token.is_none() && !host.is_none_or(is_this_host) {
            return Err(Closed::Name);
        }
        if let Some(token) = &self.token {
            let given = headers.get(AUTHORIZATION).map_or(&b""[..], |value| value.as_bytes());
            let given = given.strip_prefix(b"Bearer ").unwrap_or_default();
            if !same(given, token.as_bytes()) {
                return Err(Closed::Token);
            }
        }
        let Some(per_second) = self.settings.requests_per_second else { return Ok(()) };
        let now = clock::boot();
        let mut paces = self.paces.borrow_mut();
        if paces.len() >= ADDRESSES_MAX && !paces.contains_key(&peer) {
            paces.clear();
        }
        let quota = Quota { ids_per_second: per_second, burst: per_second };
        let pace = paces.entry(peer).or_insert_with(|| Bucket::new(quota, now));
        pace.draw(1, now).map_err(|wait_ms| Closed::TooOften(wait_ms.unwrap_or(1_000)))
    }
}

/// Compares in a time that doesn't depend on where the texts differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differ) == 0
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn gate(allow: &str, token: Option<&str>, requests_per_second: Option<u64>) -> Gate {
        let allow = vec![allow.parse().expect("a network")];
        Gate::new(LeafHttp { allow, requests_per_second }, token.map(str::to_owned), false)
    }

    #[test]
    fn addresses_tokens_and_pace_are_looked_at() {
        let (near, far) = (IpAddr::from([10, 1, 2, 3]), IpAddr::from([10, 2, 0, 1]));
        let mut headers = HeaderMap::new();
        let open = gate("10.1.0.0/16", None, Some(2));
        assert_eq!(open.enter(far, &headers), Err(Closed::Address));
        assert_eq!((open.enter(near, &headers), open.enter(near, &headers)), (Ok(()), Ok(())));
        assert!(matches!(open.enter(near, &headers), Err(Closed::TooOften(1..=500))));
        let kept = gate("0.0.0.0/0", Some("s3cret"), None);
        assert_eq!(kept.enter(far, &headers), Err(Closed::Token));
        for (given, outcome) in [
            ("Bearer s3cret", Ok(())),
            ("Bearer s3cre", Err(Closed::Token)),
            ("Bearer s3crett", Err(Closed::Token)),
            ("Basic s3cret", Err(Closed::Token)),
            ("Bearer ", Err(Closed::Token)),
        ] {
            headers.insert(AUTHORIZATION, HeaderValue::from_static(given));
            assert_eq!(kept.enter(far, &headers), outcome, "{given}");
        }
    }
}
