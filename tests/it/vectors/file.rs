//! The types in `protocol-vectors.json`, and how the document and the codec write its content.

use leafd_wire::{
    Header, IdsRequest, InfoRequest, MaskForm, MaskItems, MaskReply, MaskRequest, opcode,
};
use serde::Deserialize;

const VECTORS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../protocol-vectors.json"));

/// The file. Its first lines explain its members.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vectors {
    pub about: Vec<String>,
    pub vectors: Vec<Vector>,
    pub replies: Vec<Came>,
    pub leased: Vec<Administration>,
    pub masked: Vec<Masking>,
    pub series: Vec<Numbering>,
}

/// A draw of document numbers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbering {
    pub name: String,
    pub send: String,
    pub expect: String,
    pub request: NumberWords,
    pub reply: MaskAnswer,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumberWords {
    pub message: String,
    pub request_id: u32,
    pub series: String,
    pub tenant: String,
    pub count: u32,
    pub deadline_ms: u32,
}

/// An exchange about public ids.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Masking {
    pub name: String,
    pub send: String,
    pub expect: String,
    pub request: MaskWords,
    pub reply: MaskAnswer,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskWords {
    pub message: String,
    pub request_id: u32,
    pub bits: u8,
    pub key: u8,
    pub tag: String,
    pub prefix: Option<String>,
    #[serde(default)]
    pub ids: Vec<u64>,
    #[serde(default)]
    pub texts: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskAnswer {
    pub kind: String,
    pub request_id: u32,
    #[serde(default)]
    pub ids: Vec<u64>,
    #[serde(default)]
    pub texts: Vec<String>,
}

/// One exchange.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    pub name: String,
    pub send: String,
    pub expect: String,
    #[serde(default)]
    pub closes: bool,
    pub request: Option<Request>,
    pub reply: Option<Reply>,
}

/// A frame that a client may receive.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Came {
    pub name: String,
    pub bytes: String,
    pub asked: Option<Asked>,
    pub reply: Reply,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Asked {
    pub count: u32,
    pub hold: bool,
}

#[derive(Debug, Deserialize)]
pub struct Administration {
    pub name: String,
    pub request: Administered,
    pub body: String,
}

#[derive(Debug, Deserialize)]
pub struct Administered {
    pub message: String,
    pub json: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "message", deny_unknown_fields)]
pub enum Request {
    #[serde(rename = "IDS")]
    Ids { request_id: u32, hold: bool, count: u32, deadline_ms: u32, tag: String },
    #[serde(rename = "INFO")]
    Info { request_id: u32, version_min: u16, version_max: u16 },
    #[serde(rename = "STATUS")]
    Status { request_id: u32 },
    #[serde(rename = "METRICS")]
    Metrics { request_id: u32, format: u8 },
    #[serde(rename = "TAG_CREATE")]
    Create { request_id: u32, json: String },
    #[serde(rename = "TAG_LIST")]
    List { request_id: u32, json: String },
    #[serde(rename = "TAG_SHOW")]
    Show { request_id: u32, json: String },
    #[serde(rename = "TAG_SET")]
    Set { request_id: u32, json: String },
    #[serde(rename = "TAG_RAISE")]
    Raise { request_id: u32, json: String },
    #[serde(rename = "TAG_DELETE")]
    Delete { request_id: u32, json: String },
    #[serde(rename = "WHOSE")]
    Whose { request_id: u32, json: String },
    #[serde(rename = "GAPS")]
    Gaps { request_id: u32, json: String },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Reply {
    Ids {
        request_id: u32,
        hold_ms: u32,
        runs: Option<Vec<OneRun>>,
        total: Option<u32>,
    },
    Failure {
        request_id: u32,
        status: String,
        number: Option<u16>,
        retry_after_ms: Option<u32>,
        text: Option<String>,
    },
    Json {
        request_id: u32,
        body: Option<String>,
    },
    Info {
        request_id: u32,
    },
    /// No valid answer to the request.
    Broken {
        request_id: u32,
    },
}

#[derive(Debug, Deserialize, PartialEq)]
pub struct OneRun {
    pub first: u64,
    pub count: u32,
    pub stride: u32,
}

pub fn vectors() -> Vectors {
    serde_json::from_str(VECTORS).unwrap()
}

/// `??` is any byte, `|` is for readability, and `...` at the end stands for any further bytes.
pub fn bytes(text: &str) -> (Vec<Option<u8>>, bool) {
    let mut words: Vec<&str> = text.split_whitespace().filter(|word| *word != "|").collect();
    let more = words.last() == Some(&"...");
    words.truncate(words.len() - usize::from(more));
    let byte = |word: &str| match word {
        "??" => None,
        hex => Some(u8::from_str_radix(hex, 16).expect("two hexadecimal digits")),
    };
    (words.into_iter().map(byte).collect(), more)
}

pub fn exactly(text: &str) -> Vec<u8> {
    bytes(text).0.into_iter().map(|byte| byte.expect("no byte is left open")).collect()
}

impl MaskWords {
    pub fn form(&self) -> MaskForm<'_> {
        MaskForm {
            tag: self.tag.as_bytes(),
            bits: self.bits,
            key: self.key,
            prefix: self.prefix.as_deref().map(str::as_bytes),
        }
    }

    /// The bytes that the codec writes.
    pub fn encoded(&self) -> Vec<u8> {
        let (form, texts) = (self.form(), self.texts.iter().map(String::as_bytes));
        let texts: Vec<&[u8]> = texts.collect();
        let (opcode, items) = match (self.message.as_str(), self.prefix.is_some()) {
            ("MASK", _) => (opcode::MASK, MaskItems::Numbers(&self.ids)),
            ("UNMASK", true) => (opcode::UNMASK, MaskItems::Texts(&texts)),
            ("UNMASK", false) => (opcode::UNMASK, MaskItems::Numbers(&self.ids)),
            (other, _) => panic!("what is {other}?"),
        };
        let body = MaskRequest::body(&form, items);
        let mut out = Vec::new();
        Header::request(opcode, form.flags(), self.request_id).put_frame(&body, &mut out);
        out
    }

    /// The words in the document.
    pub fn words(&self) -> String {
        let MaskWords { message, request_id, bits, key, tag, .. } = self;
        let prefix = self.prefix.as_ref().map_or(String::new(), |text| format!(" prefix={text}"));
        let items = items(&self.ids, &self.texts);
        format!("{message} request_id={request_id} bits={bits} key={key} tag={tag}{prefix} {items}")
    }
}

impl NumberWords {
    /// The bytes that the codec writes.
    pub fn encoded(&self) -> Vec<u8> {
        let NumberWords { request_id, series, tenant, count, deadline_ms, .. } = self;
        let name = if tenant.is_empty() { series.clone() } else { format!("{series}/{tenant}") };
        let mut out = Vec::new();
        IdsRequest { tag: name.as_bytes(), count: *count, deadline_ms: *deadline_ms }.put_as(
            opcode::SERIES_NEXT,
            0,
            *request_id,
            &mut out,
        );
        out
    }

    /// The words in the document.
    pub fn words(&self) -> String {
        let NumberWords { message, request_id, series, tenant, count, deadline_ms } = self;
        format!(
            "{message} request_id={request_id} count={count} deadline_ms={deadline_ms} series={series} tenant={tenant}"
        )
    }
}

impl MaskAnswer {
    /// The words in the document.
    pub fn words(&self) -> String {
        let MaskAnswer { kind, request_id, ids, texts } = self;
        format!("{kind} request_id={request_id} {}", items(ids, texts))
    }

    /// The body that the codec writes.
    pub fn body(&self) -> Vec<u8> {
        match self.kind.as_str() {
            "numbers" => MaskReply::of_numbers(&self.ids),
            "texts" => MaskReply::of_texts(&self.texts),
            other => panic!("what is {other}?"),
        }
    }
}

fn items(ids: &[u64], texts: &[String]) -> String {
    match texts {
        [] => format!("ids={}", ids.iter().map(u64::to_string).collect::<Vec<_>>().join(",")),
        texts => format!("texts={}", texts.join(",")),
    }
}

impl Request {
    /// The bytes that the codec writes.
    pub fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Request::Ids { request_id, hold, count, deadline_ms, tag } => {
                let (count, deadline_ms) = (*count, *deadline_ms);
                IdsRequest { tag: tag.as_bytes(), count, deadline_ms }.put(
                    *hold,
                    *request_id,
                    &mut out,
                );
            }
            Request::Info { request_id, version_min, version_max } => {
                let (version_min, version_max) = (*version_min, *version_max);
                InfoRequest { version_min, version_max }.put(*request_id, &mut out);
            }
            Request::Status { request_id } => {
                Header::request(opcode::STATUS, 0, *request_id).put_frame(b"", &mut out);
            }
            Request::Metrics { request_id, format } => {
                Header::request(opcode::METRICS, 0, *request_id).put_frame(&[*format], &mut out);
            }
            Request::Create { request_id, json }
            | Request::List { request_id, json }
            | Request::Show { request_id, json }
            | Request::Set { request_id, json }
            | Request::Raise { request_id, json }
            | Request::Delete { request_id, json }
            | Request::Whose { request_id, json }
            | Request::Gaps { request_id, json } => {
                let header = Header::request(self.opcode(), 0, *request_id);
                header.put_frame(json.as_bytes(), &mut out);
            }
        }
        out
    }

    pub fn opcode(&self) -> u8 {
        match self {
            Request::Ids { .. } => opcode::IDS,
            Request::Info { .. } => opcode::INFO,
            Request::Status { .. } => opcode::STATUS,
            Request::Metrics { .. } => opcode::METRICS,
            Request::Create { .. } => opcode::TAG_CREATE,
            Request::List { .. } => opcode::TAG_LIST,
            Request::Show { .. } => opcode::TAG_SHOW,
            Request::Set { .. } => opcode::TAG_SET,
            Request::Raise { .. } => opcode::TAG_RAISE,
            Request::Delete { .. } => opcode::TAG_DELETE,
            Request::Whose { .. } => opcode::WHOSE,
            Request::Gaps { .. } => opcode::GAPS,
        }
    }

    /// The words in the document.
    pub fn words(&self) -> String {
        match self {
            Request::Ids { request_id, hold, count, deadline_ms, tag } => format!(
                "IDS request_id={request_id} hold={hold} count={count} deadline_ms={deadline_ms} tag={tag}"
            ),
            Request::Info { request_id, version_min, version_max } => {
                format!(
                    "INFO request_id={request_id} version_min={version_min} version_max={version_max}"
                )
            }
            Request::Status { request_id } => format!("STATUS request_id={request_id}"),
            Request::Metrics { request_id, format } => {
                format!("METRICS request_id={request_id} format={format}")
            }
            Request::Create { request_id, json } => {
                format!("TAG_CREATE request_id={request_id} json={json}")
            }
            other => panic!("the document shows no {other:?} so far"),
        }
    }
}

impl Reply {
    /// The words in the document; `None` for kinds that it doesn't describe.
    pub fn words(&self) -> Option<String> {
        match self {
            Reply::Ids { request_id, hold_ms, runs: Some(runs), .. } => {
                let runs: Vec<_> =
                    runs.iter().map(|run| format!("{}x{}", run.first, run.count)).collect();
                Some(format!(
                    "ids request_id={request_id} hold_ms={hold_ms} runs={}",
                    runs.join(",")
                ))
            }
            Reply::Failure { request_id, status, .. } => {
                Some(format!("failure request_id={request_id} status={status}"))
            }
            _ => None,
        }
    }
}
