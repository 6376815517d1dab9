//! Where HTTP is served: an address of this host, or a Unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::types;
use super::value::{InvalidValue, Node};

/// Where HTTP is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpAddress {
    /// On an address and port.
    Tcp(SocketAddr),
    /// On a Unix socket.
    Unix(PathBuf),
}

pub(super) fn parse(node: &Node) -> Result<HttpAddress, InvalidValue> {
    if node.text()?.starts_with('/') {
        return types::socket(node).map(HttpAddress::Unix);
    }
    parse_tcp(node).map(HttpAddress::Tcp)
}

pub(super) fn parse_tcp(node: &Node) -> Result<SocketAddr, InvalidValue> {
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
