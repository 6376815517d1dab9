//! Where the snowflake worker's number comes from, as configured.

use std::ops::Range;

use super::layouts::Layouts;
use super::value::{ConfigNode, InvalidValue};
use super::zookeeper::{LeafAddress, LeafName, Servers};
use leafd_core::WorkerId;
use leafd_core::registry::Mode;

/// Where the snowflake worker's number comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerSpec {
    /// Nowhere: snowflake requests are refused.
    None,
    /// The operator assigns it.
    Static(WorkerId),
    /// A store, as an index into [`super::Routing::stores`].
    Store(usize),
    /// ZooKeeper.
    Zookeeper(Servers),
}

/// What the value of `worker` depends on.
pub(super) struct Context<'a> {
    pub layouts: &'a Layouts,
    /// The stores' names; the only store's may be empty.
    pub stores: Vec<&'a str>,
    pub zookeeper: Option<&'a Servers>,
    /// The numbers of hosts, by name.
    pub numbers: &'a [(String, WorkerId)],
    /// The host's name.
    pub host: &'a str,
    /// Its name in the configuration.
    pub identity: Option<&'a str>,
    pub mode: Mode,
    pub leaf_name: Option<&'a LeafName>,
}

impl Context<'_> {
    /// With several stores, a default would be a guess, and a different guess on another host would lease a number
    /// twice.
    pub(super) fn default(&self) -> &'static str {
        if self.stores.len() > 1 { "none" } else { "store" }
    }
}

/// Checks the requirements of permanent numbers: an identity; in ZooKeeper also the service's name, and an identity in
/// Leaf's form. Leased numbers must not be in the same place as Leaf's own.
fn check_permanent(
    node: &ConfigNode,
    context: &Context<'_>,
    zookeeper: bool,
) -> Result<(), InvalidValue> {
    if context.mode == Mode::Leased {
        return match context.leaf_name {
            Some(_) if zookeeper => Err(node.bad_because(
                "with leaf_name, it requires worker_mode = \"permanent\", because a leased number may be one that a \
                 Java Leaf has",
            )),
            _ => Ok(()),
        };
    }
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    let Some(identity) = context.identity.filter(|identity| plain(identity)) else {
        return Err(node.bad_because(
            "worker_mode = \"permanent\" requires an identity of printable ASCII without spaces, such as \
             \"10.0.0.1:8080\"",
        ));
    };
    if !zookeeper {
        return Ok(());
    }
    if context.leaf_name.is_none() {
        return Err(node.bad_because("with worker_mode = \"permanent\", it requires leaf_name"));
    }
    match identity.parse::<LeafAddress>() {
        Ok(_) => Ok(()),
        Err(words) => Err(node.bad_because(words)),
    }
}

pub(super) fn parse(node: &ConfigNode, context: &Context<'_>) -> Result<WorkerSpec, InvalidValue> {
    let text = node.text()?;
    match text {
        "none" => return Ok(WorkerSpec::None),
        "static" => {
            let mine = context.numbers.iter().find(|(host, _)| host == context.host);
            let (_, number) = mine.ok_or_else(|| {
                node.bad_because(format!(
                    "workers has no number for this host, whose name is {:?} (its identity, or else its host name)",
                    context.host
                ))
            })?;
            return Ok(WorkerSpec::Static(*number));
        }
        "store" if context.stores.len() > 1 => {
            return Err(node.bad_because(format!(
                "there are several stores; use store:NAME with one of {}, the same one on every host",
                context.stores.join(", ")
            )));
        }
        "store" => {
            check_permanent(node, context, false)?;
            return Ok(WorkerSpec::Store(0));
        }
        "zookeeper" => {
            let servers = context
                .zookeeper
                .ok_or_else(|| node.bad_because("it requires the setting zookeeper"))?;
            check_permanent(node, context, true)?;
            return Ok(WorkerSpec::Zookeeper(servers.clone()));
        }
        _ => {}
    }
    if let Some(name) = text.strip_prefix("store:") {
        // A single store has no name.
        if context.stores.iter().all(|store| store.is_empty()) {
            return Err(node.bad_because(
                "store:NAME requires several stores; with a single store, use store",
            ));
        }
        let index = context.stores.iter().position(|store| *store == name);
        let index = index.filter(|_| !name.is_empty()).ok_or_else(|| {
            node.bad_for(format!("store:NAME with one of stores: {}", context.stores.join(", ")))
        })?;
        check_permanent(node, context, false)?;
        return Ok(WorkerSpec::Store(index));
    }
    let digits = text.strip_prefix("static:").unwrap_or_default();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(node.bad());
    }
    let (most, layout) = context.layouts.worker_max();
    match digits.parse::<u64>() {
        Ok(number) if number <= most => Ok(WorkerSpec::Static(WorkerId(number))),
        _ => Err(node.bad_for(format!(
            "static:0 to static:{most}, because layout {layout:?} allows no more"
        ))),
    }
}

/// The numbers of hosts, which must be distinct.
pub(super) fn parse_numbers(
    node: &ConfigNode,
    layouts: &Layouts,
) -> Result<Vec<(String, WorkerId)>, InvalidValue> {
    let (most, layout) = layouts.worker_max();
    let mut numbers: Vec<(String, WorkerId)> = Vec::new();
    node.entries(|host, value| {
        let number = value.integer(0, most).map_err(|_| {
            value.bad_for(format!(
                "a whole number from 0 to {most}, the maximum of layout {layout:?}"
            ))
        })?;
        if let Some((other, _)) = numbers.iter().find(|(_, taken)| taken.0 == number) {
            return Err(value.bad_because(format!("{other:?} already has this number")));
        }
        numbers.push((host.to_owned(), WorkerId(number)));
        Ok(())
    })?;
    Ok(numbers)
}

/// The numbers that may be claimed: `FIRST..END`, without the end.
pub(super) fn parse_range(
    node: &ConfigNode,
    layouts: &Layouts,
) -> Result<Range<u64>, InvalidValue> {
    let (most, layout) = layouts.worker_max();
    let end_max = most.saturating_add(1);
    let range = node.text()?.split_once("..").and_then(|(first, end)| {
        let whole = |text: &str| text.parse::<u64>().ok().filter(|_| !text.starts_with('+'));
        Some(whole(first)?..whole(end)?)
    });
    range.filter(|range| !range.is_empty() && range.end <= end_max).ok_or_else(|| {
        node.bad_for(format!(
            "FIRST..END, the numbers from FIRST to END - 1 within 0..{end_max}, which fits layout {layout:?}"
        ))
    })
}

pub(super) fn parse_mode(node: &ConfigNode) -> Result<Mode, InvalidValue> {
    match node.text()? {
        "leased" => Ok(Mode::Leased),
        "permanent" => Ok(Mode::Permanent),
        _ => Err(node.bad()),
    }
}

pub(super) fn parse_servers(node: &ConfigNode) -> Result<Servers, InvalidValue> {
    node.text()?.parse().map_err(|allowed: String| node.bad_for(allowed))
}

pub(super) fn parse_leaf_name(node: &ConfigNode) -> Result<LeafName, InvalidValue> {
    node.text()?
        .parse()
        .map_err(|allowed: <LeafName as std::str::FromStr>::Err| node.bad_for(allowed.to_string()))
}
