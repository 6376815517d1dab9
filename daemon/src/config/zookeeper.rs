//! The settings for ZooKeeper: the address of an ensemble, `HOST[:PORT][,HOST[:PORT]..][/PATH]`, and the name of a Leaf
//! service in it.

use std::fmt;
use std::str::FromStr;

use super::store_url::{Endpoint, host_and_port, is_host};

/// A server's default port.
const PORT: u16 = 2181;

/// The allowed forms.
pub const ALLOWED: &str =
    "HOST[:PORT][,HOST[:PORT]..][/PATH], an IPv6 address in brackets; the default port is 2181";

/// The servers of an ensemble, and the path in it that contains everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Servers {
    /// Each a host by name or address, and its port; never empty.
    pub hosts: Vec<(String, u16)>,
    /// The path, with a `/` in front and none at the end; empty for the whole ensemble.
    pub path: String,
}

/// The name of a Leaf service, `leaf.name` in its configuration: one part of a node's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafName(String);

/// `IP:PORT`, the holder of a number on Leaf's nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeafAddress {
    /// The host's address, or its name, without a `-`.
    pub ip: String,
    /// Its port.
    pub port: u16,
}

impl FromStr for Servers {
    type Err = String;

    /// The error says what is allowed.
    fn from_str(text: &str) -> Result<Servers, String> {
        if text.contains("://") || text.contains('@') {
            return Err(format!("{ALLOWED}; without TLS, and without a user"));
        }
        let (hosts, path) = match text.split_once('/') {
            Some((hosts, path)) => (hosts, format!("/{}", path.strip_suffix('/').unwrap_or(path))),
            None => (text, String::new()),
        };
        let path = if path == "/" { String::new() } else { path };
        if !path.is_empty() && !path[1..].split('/').all(is_node_name) {
            return Err(format!("{ALLOWED}; no part of PATH empty, . or .."));
        }
        let host = |text| {
            let (host, port) = host_and_port(text, PORT)?;
            is_host(host).then(|| (host.to_owned(), port))
        };
        let hosts: Option<Vec<_>> = hosts.split(',').map(host).collect();
        Ok(Servers { hosts: hosts.ok_or(ALLOWED)?, path })
    }
}

/// Whether it can be part of a node's path: not empty, not relative, and plain text.
pub(super) fn is_node_name(name: &str) -> bool {
    let odd = |c: char| {
        c == '/' || c.is_control() || matches!(u32::from(c), 0xd800..=0xf8ff | 0xfff0..=0xffff)
    };
    !matches!(name, "" | "." | "..") && !name.chars().any(odd)
}

/// As configured, with every port.
impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.hosts.iter().map(|(host, port)| Endpoint::Tcp(host.clone(), *port));
        let hosts: Vec<String> = hosts.map(|host| host.to_string()).collect();
        write!(f, "{}{}", hosts.join(","), self.path)
    }
}

impl FromStr for LeafName {
    type Err = &'static str;

    /// The error says what is allowed.
    fn from_str(text: &str) -> Result<LeafName, &'static str> {
        if !is_node_name(text) || text.len() > 255 {
            return Err(
                "leaf.name of the Leaf service: 1 to 255 bytes, no / and no control characters",
            );
        }
        Ok(LeafName(text.to_owned()))
    }
}

impl FromStr for LeafAddress {
    type Err = String;

    /// The error says what is allowed.
    fn from_str(text: &str) -> Result<LeafAddress, String> {
        let parts = text
            .rsplit_once(':')
            .filter(|(ip, _)| !ip.is_empty() && ip.bytes().all(|byte| byte.is_ascii_graphic()));
        let plain = !text.contains(['-', '/']);
        let address = parts.filter(|_| plain).and_then(|(ip, port)| {
            let port = port.parse().ok().filter(|port| *port > 0)?;
            // For Java Leaf, another spelling would be another holder.
            Some(LeafAddress { ip: ip.to_owned(), port }).filter(|one| one.to_string() == text)
        });
        address.ok_or_else(|| {
            format!(
                "a permanent worker belongs to an identity IP:PORT, but the identity is {text:?}: set identity to the \
                 address of this host and a port of its own, without a - (which would break Java Leafs)"
            )
        })
    }
}

impl fmt::Display for LeafAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.ip, self.port)
    }
}

impl fmt::Display for LeafName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        text.parse::<Servers>().unwrap_or_else(|allowed| panic!("{text}: {allowed}")).to_string()
    }

    #[test]
    fn servers_ports_and_a_path() {
        assert_eq!(shown("zk"), "zk:2181");
        assert_eq!(shown("zk1,zk2:2182/ids/a"), "zk1:2181,zk2:2182/ids/a");
        assert_eq!(shown("10.0.0.1:1/"), "10.0.0.1:1");
        assert_eq!(shown("[::1]:7,[fe80::2],h_1.x-y/a/"), "[::1]:7,[fe80::2]:2181,h_1.x-y:2181/a");
        let servers: Servers = "[::1]:7/a".parse().unwrap();
        assert_eq!((&*servers.hosts[0].0, servers.hosts[0].1, &*servers.path), ("::1", 7, "/a"));
    }

    #[test]
    fn what_can_t_be_used_is_said() {
        for text in [
            "", ",", "h,", "h:0", "h:65536", "h:", "h:x", ":2181", "[::1", "[x]:1", "[::1]x",
            "h h", "h:1:2", "h//a", "h/a//b", "h/../b", "h/.", "h/a\u{7}", "h\n",
        ] {
            let allowed = text.parse::<Servers>().unwrap_err();
            assert!(allowed.contains("HOST[:PORT]"), "{text}: {allowed}");
        }
        for text in ["tcp+tls://h", "ann:hunter2@h:1"] {
            let allowed = text.parse::<Servers>().unwrap_err();
            assert!(allowed.contains("without TLS") && !allowed.contains("hunter2"), "{allowed}");
        }
    }

    #[test]
    fn a_service_has_a_name_that_fits_a_path() {
        assert_eq!("com.acme.leaf-1".parse::<LeafName>().unwrap().to_string(), "com.acme.leaf-1");
        for text in ["", "a/b", "..", "a\n"] {
            assert!(text.parse::<LeafName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn identities_that_leaf_could_not_keep_apart_are_refused() {
        for text in ["10.0.0.1:8080", "::1:80", "host:1"] {
            assert_eq!(text.parse::<LeafAddress>().unwrap().to_string(), text);
        }
        for text in [
            "", ":8080", "10.0.0.1", "h:", "h:0", "h:+5", "h:65536", "pod-1:80", "a/b:1", "a b:1",
            "h:08",
        ] {
            let words = text.parse::<LeafAddress>().unwrap_err();
            assert!(words.contains("IP:PORT"), "{words}");
        }
    }
}
