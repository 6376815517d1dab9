//! What leafd writes as JSON into its own nodes, and reads there. Only an exact match counts as a claim.

use serde::{Deserialize, Serialize};

use leafd_core::UnixMs;
use leafd_core::registry::{Holder, LeaseRecord, check_id};
use leafd_core::store::StartToken;

/// Who has a worker, until when, and the writer's clock. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeRecord {
    /// `None` when it was given back.
    holder: Option<WrittenHolder>,
    bound: u64,
    seen: u64,
    /// The number, for a permanent holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenHolder {
    id: String,
    name: String,
    incarnation: String,
}

/// The registry's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Registration {
    /// 32 hexadecimal digits.
    pub(super) identity: String,
    /// Drawn anew when writes are found to be lost: 32 hexadecimal digits.
    pub(super) history: String,
}

impl NodeRecord {
    /// The record of a checked holding.
    pub(super) fn new(holding: &LeaseRecord, seen: UnixMs, worker: Option<u64>) -> NodeRecord {
        let holder = holding.holder.as_ref().map(|holder| WrittenHolder {
            id: holder.id.to_string(),
            name: holder.name.to_string(),
            incarnation: holder.incarnation.0.to_string(),
        });
        NodeRecord { holder, bound: holding.expires.0, seen: seen.0, worker }
    }

    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(bytes: &[u8]) -> Result<NodeRecord, String> {
        let record: NodeRecord =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        record.check().map(|()| record)
    }

    fn check(&self) -> Result<(), String> {
        let Some(WrittenHolder { id, name, incarnation }) = &self.holder else { return Ok(()) };
        check_id("holder id", id)
            .and_then(|()| check_id("name", name))
            .and_then(|()| check_id("incarnation", incarnation))
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it has only text and numbers")
    }

    pub(super) fn holding(&self) -> LeaseRecord {
        let holder = self.holder.as_ref().map(|holder| Holder {
            id: holder.id.as_str().into(),
            name: holder.name.as_str().into(),
            incarnation: StartToken(holder.incarnation.as_str().into()),
        });
        LeaseRecord { holder, expires: UnixMs(self.bound) }
    }

    pub(super) fn seen(&self) -> UnixMs {
        UnixMs(self.seen)
    }

    pub(super) fn worker(&self) -> Option<u64> {
        self.worker
    }
}

impl Registration {
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(bytes: &[u8]) -> Result<Registration, String> {
        let registration: Registration =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let hex =
            |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if hex(&registration.identity) && hex(&registration.history) {
            return Ok(registration);
        }
        Err("identity and history are 32 hexadecimal digits each".to_owned())
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it has only text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding() -> LeaseRecord {
        let holder =
            Holder { id: "h1".into(), name: "db-7".into(), incarnation: StartToken("00ff".into()) };
        LeaseRecord { holder: Some(holder), expires: UnixMs(u64::MAX) }
    }

    #[test]
    fn what_is_written_is_read() {
        for holding in [holding(), LeaseRecord { holder: None, expires: UnixMs(7) }] {
            let record = NodeRecord::new(&holding, UnixMs(5), None);
            let read = NodeRecord::parse(&record.to_bytes()).unwrap();
            assert_eq!((read.holding(), read.seen(), read.worker()), (holding, UnixMs(5), None));
        }
        let text = br#"{"holder":{"id":"h1","name":"db-7","incarnation":"00ff"},"bound":1,"seen":2,"worker":3}"#;
        assert_eq!(NodeRecord::parse(text).unwrap().to_bytes(), text);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "{}",
            "null",
            "[]",
            "\u{0}",
            r#"{"holder":null,"bound":1}"#,
            r#"{"holder":null,"bound":-1,"seen":2}"#,
            r#"{"holder":null,"bound":1.5,"seen":2}"#,
            r#"{"holder":null,"bound":99999999999999999999,"seen":2}"#,
            r#"{"holder":null,"bound":1,"seen":2,"more":3}"#,
            r#"{"holder":null,"bound":1,"seen":2}x"#,
            r#"{"holder":{"id":"h"},"bound":1,"seen":2}"#,
            r#"{"holder":{"id":"h 1","name":"n","incarnation":"i"},"bound":1,"seen":2}"#,
            r#"{"holder":{"id":"","name":"n","incarnation":"i"},"bound":1,"seen":2}"#,
        ] {
            assert!(NodeRecord::parse(text.as_bytes()).is_err(), "{text}");
        }
        let mut long = holding();
        long.holder.as_mut().unwrap().name =
            "x".repeat(leafd_core::registry::HOLDER_BYTES_MAX + 1).into();
        let text = NodeRecord::new(&long, UnixMs(0), None).to_bytes();
        assert!(NodeRecord::parse(&text).is_err());
    }
}
