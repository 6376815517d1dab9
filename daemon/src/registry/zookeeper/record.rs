//! The JSON that leafd writes to its own nodes and reads from them. Only an exact match counts as a claim.

use serde::{Deserialize, Serialize};

use leafd_core::UnixMs;
use leafd_core::registry::{Holder, LeaseRecord, check_id};

/// Who has a worker, until when, and the writer's clock. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRecord {
    /// `None` if it was released.
    holder: Option<Holder>,
    bound: UnixMs,
    pub(super) seen: UnixMs,
    /// The number, for a permanent holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) worker: Option<u64>,
}

/// The registry's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// 32 hexadecimal digits.
    pub(super) identity: String,
    /// Drawn again when writes turn out to be lost: 32 hexadecimal digits.
    pub(super) history: String,
}

impl NodeRecord {
    /// The record of a checked holding.
    pub fn new(holding: &LeaseRecord, seen: UnixMs, worker: Option<u64>) -> NodeRecord {
        NodeRecord { holder: holding.holder.clone(), bound: holding.expires, seen, worker }
    }

    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<NodeRecord, String> {
        let record: NodeRecord =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if let Some(Holder { id, name, incarnation }) = &record.holder {
            check_id("holder id", id)
                .and_then(|()| check_id("name", name))
                .and_then(|()| check_id("incarnation", &incarnation.0))?;
        }
        Ok(record)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it has only text and numbers")
    }

    pub(super) fn holding(&self) -> LeaseRecord {
        LeaseRecord { holder: self.holder.clone(), expires: self.bound }
    }
}

impl Registration {
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Registration, String> {
        let registration: Registration =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let hex =
            |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if hex(&registration.identity) && hex(&registration.history) {
            return Ok(registration);
        }
        Err("identity and history are 32 hexadecimal digits each".to_owned())
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it has only text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leafd_core::store::StartToken;

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
            assert_eq!((read.holding(), read.seen, read.worker), (holding, UnixMs(5), None));
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
            r#"{"holder":{"id":"h","name":"n","incarnation":"i","more":1},"bound":1,"seen":2}"#,
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
