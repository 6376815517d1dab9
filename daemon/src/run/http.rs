//! HTTP in a daemon's life cycle: bound at the start, and served once requests are answered. A program that was built
//! without HTTP refuses a socket for it.

use std::rc::Rc;

use anyhow::Result;

use crate::config::Config;
use crate::requests::Dispatcher;
use crate::systemd::activation::HttpListener;

/// Listeners that are bound but not served yet.
#[cfg(feature = "http")]
pub(super) struct Listeners {
    monitoring: Option<crate::http::Bound>,
    /// With the token that callers must send.
    leaf: Option<(crate::http::Bound, Option<String>)>,
}

/// Nothing can be bound.
#[cfg(not(feature = "http"))]
pub(super) struct Listeners;

/// Servers that run until they are dropped.
#[cfg(feature = "http")]
pub(super) type Serving = Vec<crate::http::Http>;
#[cfg(not(feature = "http"))]
pub(super) type Serving = Listeners;

/// Listens on the configured addresses, or on the passed socket.
#[cfg(feature = "http")]
pub(super) fn bind(config: &Config, given: Option<HttpListener>) -> Result<Listeners> {
    use crate::config::HttpAddress;
    use crate::http::Bound;
    let group = config.socket_group.as_ref().map(|group| group.gid);
    let handed_over = given.is_some();
    let open = |address, given| or_without(Bound::open(address, given, config.socket_mode, group));
    let monitoring = open(config.http.as_ref(), given)?;
    if let (Some(bound), true, Some(address)) = (&monitoring, handed_over, &config.http) {
        tracing::info!(
            "serving HTTP on {}, the socket passed by systemd; the setting http ({address}) is not used",
            bound.place()
        );
    }
    let address = config.leaf_http.map(HttpAddress::Tcp);
    let token = config.leaf_http_token_file.as_deref().filter(|_| address.is_some());
    let token = token.map(read_token).transpose()?;
    let leaf = open(address.as_ref(), None)?;
    Ok(Listeners { monitoring, leaf: leaf.map(|bound| (bound, token)) })
}

/// Goes on without a port that another program has. Any user could have taken it while the daemon was stopped, and ids
/// don't depend on it.
#[cfg(feature = "http")]
fn or_without(bound: Result<Option<crate::http::Bound>>) -> Result<Option<crate::http::Bound>> {
    use crate::http::BindError;
    bound.or_else(|error| match error.downcast_ref::<BindError>() {
        Some(BindError { cause, .. }) if cause.kind() == std::io::ErrorKind::AddrInUse => {
            tracing::error!(
                "{error}, or stop the other program, then restart leafd; ids are not affected"
            );
            Ok(None)
        }
        _ => Err(error),
    })
}

#[cfg(feature = "http")]
fn read_token(file: &std::path::Path) -> Result<String> {
    use crate::config::read_regular_file;
    use anyhow::{Context as _, ensure};
    const BYTES_MAX: u64 = 4096;
    let name = file.display();
    let (text, _) = read_regular_file(file, BYTES_MAX)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("cannot read {name} (leaf_http_token_file)"))?;
    let token = text.trim();
    let plain = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    ensure!(
        plain,
        "{name} (leaf_http_token_file) must contain one token of visible ASCII characters"
    );
    Ok(token.to_owned())
}

/// Refuses a socket that this program can't serve.
#[cfg(not(feature = "http"))]
pub(super) fn bind(_: &Config, given: Option<HttpListener>) -> Result<Listeners> {
    match given {
        None => Ok(Listeners),
        Some(_) => Err(crate::config::NotBuilt::http("the socket called leafd-http").into()),
    }
}

/// Serves until the returned value is dropped.
#[cfg(feature = "http")]
pub(super) fn serve(
    listeners: Listeners,
    config: &Config,
    dispatcher: &Rc<Dispatcher>,
) -> Result<Serving> {
    use anyhow::Context as _;
    let mut served = Vec::new();
    if let Some(bound) = listeners.monitoring {
        let place = bound.place();
        served.push(bound.serve_monitoring(dispatcher).context("cannot serve HTTP")?);
        tracing::info!("serving metrics and health over HTTP on {place}");
    }
    if let Some((bound, token)) = listeners.leaf {
        let place = bound.place();
        let leaf = bound.serve_leaf(dispatcher, config.leaf_http_callers.clone(), token);
        served.push(leaf.context("cannot serve Leaf's paths over HTTP")?);
        tracing::info!("serving Leaf's paths over HTTP on {place}");
    }
    Ok(served)
}

#[cfg(not(feature = "http"))]
pub(super) fn serve(none: Listeners, _: &Config, _: &Rc<Dispatcher>) -> Result<Serving> {
    Ok(none)
}
