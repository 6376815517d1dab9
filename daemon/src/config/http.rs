//! Where HTTP is served (an address of this host, or a Unix socket), and to whom.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;

use super::types;
use super::value::{ConfigNode, InvalidValue};

/// Where HTTP is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpAddress {
    /// On an address and port.
    Tcp(SocketAddr),
    /// On a Unix socket.
    Unix(PathBuf),
}

pub(super) fn parse(node: &ConfigNode) -> Result<HttpAddress, InvalidValue> {
    if node.text()?.starts_with('/') {
        return types::socket(node).map(HttpAddress::Unix);
    }
    parse_tcp(node).map(HttpAddress::Tcp)
}

pub(super) fn parse_tcp(node: &ConfigNode) -> Result<SocketAddr, InvalidValue> {
    node.text()?.parse().map_err(|_| node.bad())
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpAddress::Tcp(address) => address.fmt(f),
            HttpAddress::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Who may use Leaf's paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafHttp {
    /// The networks that may call.
    pub allow: Vec<IpNet>,
    /// The names of this host that callers may use.
    pub names: Vec<String>,
    /// The rate that each address, and each user of this host, may use; `None`: no limit.
    pub requests_per_second: Option<u64>,
}

pub(super) fn parse_networks(node: &ConfigNode) -> Result<Vec<IpNet>, InvalidValue> {
    node.items(|item| network(item.text()?).ok_or_else(|| item.bad()))
}

/// `10.0.0.0/8`, or one address. `ipnet` itself would read `010.0.0.0/8`, which means 8.0.0.0/8 elsewhere.
fn network(text: &str) -> Option<IpNet> {
    let Some((address, length)) = text.split_once('/') else {
        return text.parse::<IpAddr>().map(IpNet::from).ok();
    };
    IpNet::new(address.parse().ok()?, length.parse().ok()?).ok()
}

pub(super) fn parse_names(node: &ConfigNode) -> Result<Vec<String>, InvalidValue> {
    node.items(|item| {
        let name = item.text()?;
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        let is_name = !name.is_empty() && name.chars().all(plain);
        if is_name { Ok(name.to_owned()) } else { Err(item.bad()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_that_begin_like_it() {
        let has = |text: &str, address: &str| {
            let network = network(text).expect("a network");
            network.contains(&address.parse::<IpAddr>().expect("an address"))
        };
        assert!(has("10.0.0.0/8", "10.255.0.1") && !has("10.0.0.0/8", "11.0.0.1"));
        assert!(has("10.0.0.7", "10.0.0.7") && !has("10.0.0.7", "10.0.0.6"));
        assert!(has("0.0.0.0/0", "1.2.3.4") && !has("0.0.0.0/0", "::1"));
        assert!(has("fd00::/8", "fd12::1") && has("::/0", "::1") && !has("::1", "::2"));
        for odd in
            ["", "10.0.0.0/33", "10.0.0.0/", "example.com", "::/129", "10.0.0.0/-1", "010.0.0.0/8"]
        {
            assert_eq!(network(odd), None, "{odd}");
        }
    }
}
