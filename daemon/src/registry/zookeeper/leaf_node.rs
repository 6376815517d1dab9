//! Leaf's own nodes, as Java Leaf reads and writes them.
//!
//! The name is `IP:PORT-N`; N is the worker, with ten digits if ZooKeeper's counter assigned it. Java Leaf uses the
//! text between the first `-` and the next one. The payload is
//! `{"ip":"10.0.0.1","port":"8080","timestamp":1600000000000}`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::LeafAddress;
use leafd_core::UnixMs;

/// How long beyond its timestamp a node written by Java Leaf still covers ids. Java Leaf writes its clock every 3 s,
/// and issues ids meanwhile.
pub const LEAF_COVER: Duration = Duration::from_secs(10);

/// A child of `forever` that gives its holder a worker number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafNode {
    /// The child's name.
    pub(super) name: String,
    /// The text before the first `-`: a [`LeafAddress`] if Leaf wrote it.
    pub(super) holder: String,
    pub(super) worker: u64,
}

#[derive(Serialize, Deserialize)]
struct Payload {
    ip: String,
    port: String,
    timestamp: i64,
}

/// The only field that adds to the node's name.
#[derive(Deserialize)]
struct Timestamp {
    timestamp: i64,
}

/// What Java Leaf would write for this host. Times beyond its numeric range become the largest one.
pub(super) fn payload(address: &LeafAddress, timestamp: UnixMs) -> Vec<u8> {
    let payload = Payload {
        ip: address.ip.clone(),
        port: address.port.to_string(),
        timestamp: i64::try_from(timestamp.0).unwrap_or(i64::MAX),
    };
    serde_json::to_vec(&payload).expect("it has only text and numbers")
}

/// The timestamp of a payload. Unknown fields are ignored.
///
/// # Errors
/// What is wrong with it.
pub(super) fn timestamp(payload: &[u8]) -> Result<UnixMs, String> {
    let Timestamp { timestamp } =
        serde_json::from_slice(payload).map_err(|error| error.to_string())?;
    u64::try_from(timestamp).map(UnixMs).map_err(|_| "its timestamp is negative".to_owned())
}

/// How Java Leaf reads this child; `None` if it assigns no number.
pub fn parse(child: &str) -> Option<LeafNode> {
    let mut parts = child.split('-');
    let (holder, number) = (parts.next()?, parts.next()?);
    // As Java's `Integer.parseInt` does.
    let number = number.strip_prefix('+').unwrap_or(number);
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let worker = digits.then(|| number.parse::<i32>().ok())??;
    let worker = u64::try_from(worker).ok()?;
    Some(LeafNode { name: child.to_owned(), holder: holder.to_owned(), worker })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_is_leafs_byte_for_byte() {
        let address: LeafAddress = "10.0.0.1:8080".parse().unwrap();
        let text = br#"{"ip":"10.0.0.1","port":"8080","timestamp":1600000000000}"#;
        assert_eq!(payload(&address, UnixMs(1_600_000_000_000)), text);
        assert_eq!(timestamp(text).unwrap(), UnixMs(1_600_000_000_000));
        let end = payload(&address, UnixMs(u64::MAX));
        assert_eq!(timestamp(&end).unwrap(), UnixMs(i64::MAX.unsigned_abs()));
    }

    #[test]
    fn payloads_that_say_no_time_are_told() {
        assert_eq!(timestamp(br#"{"timestamp":5,"port":1,"more":[]}"#).unwrap(), UnixMs(5));
        for text in [
            "",
            "{}",
            "5",
            "\u{0}",
            r#"{"timestamp":-1}"#,
            r#"{"timestamp":"5"}"#,
            r#"{"timestamp":1.5}"#,
            r#"{"timestamp":99999999999999999999}"#,
            r#"{"timestamp":5"#,
            r#"{"timestamp":5}{"timestamp":6}"#,
        ] {
            assert!(timestamp(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn children_are_taken_as_java_leaf_takes_them() {
        let of = |child: &str| parse(child).map(|node| (node.holder, node.worker));
        let some = |holder: &str, worker| Some((holder.to_owned(), worker));
        assert_eq!(of("10.0.0.1:8080-0000000005"), some("10.0.0.1:8080", 5));
        assert_eq!(of("10.0.0.1:8080-7"), some("10.0.0.1:8080", 7));
        assert_eq!(of("10.0.0.1:8080-0000000005-x"), some("10.0.0.1:8080", 5));
        assert_eq!(of("a-+7"), some("a", 7));
        assert_eq!(of("::1:8080-2147483647"), some("::1:8080", 2_147_483_647));
        for child in ["leafd", "a:1-", "a:1-x5", "a:1-2147483648", "a:1--5", "-", "a:1- 5"] {
            assert_eq!(of(child), None, "{child}");
        }
    }
}
