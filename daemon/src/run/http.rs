//! HTTP in a daemon's life: bound at the start, served once requests are answered. A program that was built without it
//! refuses a socket for it.

use std::rc::Rc;

use anyhow::Result;

use crate::config::Config;
use crate::requests::Dispatcher;
use crate::systemd::activation::HttpListener;

#[cfg(feature = "http")]
pub(super) use crate::http::{Bound, Http};

/// Nothing can be bound.
#[cfg(not(feature = "http"))]
pub(super) enum Bound {}

/// Nothing can be served.
#[cfg(not(feature = "http"))]
pub(super) enum Http {}

/// Listens where the configuration says, or on what was handed over.
#[cfg(feature = "http")]
pub(super) fn bind(config: &Config, given: Option<HttpListener>) -> Result<Option<Bound>> {
    let group = config.socket_group.as_ref().map(|group| group.gid);
    let handed_over = given.is_some();
    let bound = Bound::open(config.http.as_ref(), given, config.socket_mode, group)?;
    if let (Some(bound), true, Some(address)) = (&bound, handed_over, &config.http) {
        tracing::info!(
            "HTTP is served on {}, the socket that systemd passed; the setting http, {address}, is not used",
            bound.place()
        );
    }
    Ok(bound)
}

/// Refuses what can't be served.
#[cfg(not(feature = "http"))]
pub(super) fn bind(_: &Config, given: Option<HttpListener>) -> Result<Option<Bound>> {
    match given {
        None => Ok(None),
        Some(_) => Err(crate::config::NotBuilt::http("the socket called leafd-http").into()),
    }
}

/// Serves until the answer is dropped.
#[cfg(feature = "http")]
pub(super) fn serve(bound: Option<Bound>, dispatcher: &Rc<Dispatcher>) -> Result<Option<Http>> {
    use anyhow::Context as _;
    let Some(bound) = bound else { return Ok(None) };
    let place = bound.place();
    let (http, inquiries) = bound.serve_monitoring().context("cannot serve HTTP")?;
    tokio::task::spawn_local(crate::http::attend(Rc::clone(dispatcher), inquiries));
    tracing::info!("metrics and health are served by HTTP on {place}");
    Ok(Some(http))
}

#[cfg(not(feature = "http"))]
pub(super) fn serve(bound: Option<Bound>, _: &Rc<Dispatcher>) -> Result<Option<Http>> {
    Ok(bound.map(|never| match never {}))
}
