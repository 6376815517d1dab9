//! Decides who may use Leaf's paths, and how often.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderMap};

use super::super::listener::Party;
use super::super::routes::{host_name, is_from_another_site, is_this_host};
use crate::clock;
use crate::config::LeafHttp;
use leafd_core::quota::{Bucket, Quota};

/// The number of users and addresses whose rates are remembered. If there are more, all are forgotten.
const PARTIES_MAX: usize = 4_096;

/// Decides whether a request is served.
pub(super) struct Gate {
    settings: LeafHttp,
    token: Option<String>,
    paces: RefCell<HashMap<Party, Bucket>>,
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    Address,
    /// The Host field names another host.
    Name,
    /// The request comes from a web page of another site.
    Page,
    /// The request comes from a browser that doesn't report whose page sent it.
    Browser,
    Token,
    /// Too many requests; try again after this many milliseconds.
    TooOften(u64),
}

impl Gate {
    pub(super) fn new(settings: LeafHttp, token: Option<String>) -> Gate {
        Gate { settings, token, paces: RefCell::default() }
    }

    pub(super) fn enter(
        &self,
        peer: IpAddr,
        party: Party,
        headers: &HeaderMap,
    ) -> Result<(), Closed> {
        if !self.settings.allow.iter().any(|network| network.contains(&peer)) {
            return Err(Closed::Address);
        }
        if is_from_another_site(headers) {
            return Err(Closed::Page);
        }
        let host = headers.get(HOST).map(|host| host.to_str().unwrap_or("?"));
        if self.token.is_none() && !host.is_none_or(|host| self.is_named(host)) {
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
        if paces.len() >= PARTIES_MAX && !paces.contains_key(&party) {
            paces.clear();
        }
        let quota = Quota { ids_per_second: per_second, burst: per_second };
        let pace = paces.entry(party).or_insert_with(|| Bucket::new(quota, now));
        pace.draw(1, now).map_err(|wait_ms| Closed::TooOften(wait_ms.unwrap_or(1_000)))
    }

    /// Whether a `Host` field names this host, or is one of the configured names. Any other name may be one that the
    /// author of a web page has pointed at this host.
    fn is_named(&self, host: &str) -> bool {
        let named = |name: &String| name.eq_ignore_ascii_case(host_name(host));
        is_this_host(host) || self.settings.names.iter().any(named)
    }
}

/// Compares in constant time, no matter where the texts differ.
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
        let names = vec!["ids.example.com".to_owned()];
        Gate::new(LeafHttp { allow, names, requests_per_second }, token.map(str::to_owned))
    }

    #[test]
    fn names_and_pages_of_others_are_refused() {
        let address = IpAddr::from([10, 1, 2, 3]);
        let outcome = |gate: &Gate, fields: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            gate.enter(address, Party::Address(address), &headers)
        };
        let open = gate("0.0.0.0/0", None, None);
        for own in ["10.0.0.1:8080", "localhost", "ids.example.com", "IDS.example.com:8080"] {
            assert_eq!(outcome(&open, &[("host", own)]), Ok(()), "{own}");
            let origin = format!("http://{own}").leak();
            assert_eq!(outcome(&open, &[("host", own), ("origin", origin)]), Ok(()), "{own}");
        }
        assert_eq!(outcome(&open, &[("host", "evil.example")]), Err(Closed::Name));
        for site in ["cross-site", "same-site"] {
            let fields = [("host", "localhost:8080"), ("sec-fetch-site", site)];
            assert_eq!(outcome(&open, &fields), Err(Closed::Page));
        }
        for origin in ["http://localhost:3000", "null", "https://localhost:8080.evil.example"] {
            let fields = [("host", "localhost:8080"), ("origin", origin)];
            assert_eq!(outcome(&open, &fields), Err(Closed::Page), "{origin}");
        }
    }

    #[test]
    fn addresses_tokens_and_pace_are_looked_at() {
        let (near, far) = (IpAddr::from([10, 1, 2, 3]), IpAddr::from([10, 2, 0, 1]));
        let mut headers = HeaderMap::new();
        let open = gate("10.1.0.0/16", None, Some(2));
        let enter = |near| open.enter(near, Party::User(7), &HeaderMap::new());
        assert_eq!(open.enter(far, Party::Address(far), &headers), Err(Closed::Address));
        assert_eq!((enter(near), enter(near)), (Ok(()), Ok(())));
        assert!(matches!(enter(near), Err(Closed::TooOften(1..=500))));
        let kept = gate("0.0.0.0/0", Some("s3cret"), None);
        assert_eq!(kept.enter(far, Party::Address(far), &headers), Err(Closed::Token));
        for (given, outcome) in [
            ("Bearer s3cret", Ok(())),
            ("Bearer s3cre", Err(Closed::Token)),
            ("Bearer s3crett", Err(Closed::Token)),
            ("Basic s3cret", Err(Closed::Token)),
            ("Bearer ", Err(Closed::Token)),
        ] {
            headers.insert(AUTHORIZATION, HeaderValue::from_static(given));
            assert_eq!(kept.enter(far, Party::Address(far), &headers), outcome, "{given}");
        }
    }
}
