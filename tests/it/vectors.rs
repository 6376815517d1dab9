//! The vectors of `protocol.md`, parsed out of the document and held against the codec and a live daemon.

use std::collections::HashMap;

use leafd_wire::frame::Frame;
use leafd_wire::{
    ErrorReply, Header, IdsReply, IdsRequest, InfoRequest, REQUEST_LENGTH_MAX, Status, flag, opcode,
};

use crate::host::Host;
use crate::raw::Raw;

pub const DOCUMENT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../protocol.md"));

/// One exchange as the document has it.
#[derive(Debug, Default)]
struct Vector {
    name: String,
    send: Vec<u8>,
    /// What comes back, byte by byte; `None`: any byte.
    expect: Vec<Option<u8>>,
    /// More bytes may follow those.
    expect_more: bool,
    means: Option<Words>,
    answers: Option<Words>,
}

/// `KIND key=value key=value`.
#[derive(Debug)]
struct Words {
    kind: String,
    values: HashMap<String, String>,
}

impl Words {
    fn parse(text: &str) -> Words {
        let mut words = text.split_whitespace();
        let kind = words.next().expect("a kind").to_owned();
        let pair = |word: &str| {
            let (key, value) = word.split_once('=').expect("key=value");
            (key.to_owned(), value.to_owned())
        };
        Words { kind, values: words.map(pair).collect() }
    }

    #[track_caller]
    fn text(&self, key: &str) -> &str {
        self.values.get(key).unwrap_or_else(|| panic!("{key}= is missing in {self:?}"))
    }

    #[track_caller]
    fn number(&self, key: &str) -> u32 {
        self.text(key).parse().unwrap()
    }
}

/// Every block of the document that is marked as a vector.
fn vectors() -> Vec<Vector> {
    let mut vectors = Vec::new();
    let mut lines = DOCUMENT.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("```vector ") else { continue };
        let mut vector = Vector { name: name.to_owned(), ..Vector::default() };
        for line in lines.by_ref().take_while(|line| *line != "```") {
            let (key, value) = line.split_once(' ').expect("a word, then what it says");
            match key {
                "send" => vector.send = bytes(value).0.into_iter().map(Option::unwrap).collect(),
                "expect" => (vector.expect, vector.expect_more) = bytes(value),
                "means" => vector.means = Some(Words::parse(value)),
                "answers" => vector.answers = Some(Words::parse(value)),
                other => panic!("{name}: what is {other:?}?"),
            }
        }
        assert!(!vector.send.is_empty() && !vector.expect.is_empty(), "{name} is not complete");
        vectors.push(vector);
    }
    vectors
}

/// `??` is any byte, `|` is for the eye, and `...` at the end stands for any further bytes.
fn bytes(text: &str) -> (Vec<Option<u8>>, bool) {
    let mut words: Vec<&str> = text.split_whitespace().filter(|word| *word != "|").collect();
    let more = words.last() == Some(&"...");
    words.truncate(words.len() - usize::from(more));
    let byte = |word: &str| match word {
        "??" => None,
        hex => Some(u8::from_str_radix(hex, 16).expect("two hexadecimal digits")),
    };
    (words.into_iter().map(byte).collect(), more)
}

/// What a vector says that its request means, as the codec writes it.
fn encoded(means: &Words) -> Vec<u8> {
    let mut bytes = Vec::new();
    let request_id = means.number("request_id");
    match means.kind.as_str() {
        "IDS" => IdsRequest {
            tag: means.text("tag").as_bytes(),
            count: means.number("count"),
            deadline_ms: means.number("deadline_ms"),
        }
        .put(means.text("hold") == "true", request_id, &mut bytes),
        "INFO" => InfoRequest {
            version_min: means.number("version_min") as u16,
            version_max: means.number("version_max") as u16,
        }
        .put(request_id, &mut bytes),
        "STATUS" => Header::request(opcode::STATUS, 0, request_id).put_frame(b"", &mut bytes),
        "TAG_CREATE" => Header::request(opcode::TAG_CREATE, 0, request_id)
            .put_frame(means.text("json").as_bytes(), &mut bytes),
        other => panic!("no vector has used {other} so far"),
    }
    bytes
}

#[test]
fn the_codec_reads_and_writes_the_vectors_requests() {
    let vectors = vectors();
    assert!(vectors.len() >= 12, "only {} vectors were found", vectors.len());
    for Vector { name, send, means, .. } in &vectors {
        let Some(means) = means else { continue };
        assert_eq!(&encoded(means), send, "{name}");
        let (frame, end) = Frame::first(send, REQUEST_LENGTH_MAX).unwrap().expect("it is whole");
        assert_eq!(end, send.len(), "{name}");
        assert_eq!(frame.header.request_id, means.number("request_id"), "{name}");
        assert_eq!((frame.header.status, frame.header.flags & !flag::HOLD), (0, 0), "{name}");
        match means.kind.as_str() {
            "IDS" => {
                let request = IdsRequest::decode(frame.body).unwrap();
                assert_eq!(request.tag, means.text("tag").as_bytes(), "{name}");
                assert_eq!(request.count, means.number("count"), "{name}");
                assert_eq!(request.deadline_ms, means.number("deadline_ms"), "{name}");
                let held = frame.header.flags & flag::HOLD != 0;
                assert_eq!(held.to_string(), means.text("hold"), "{name}");
            }
            "INFO" => {
                let request = InfoRequest::decode(frame.body).unwrap();
                assert_eq!(u32::from(request.version_min), means.number("version_min"), "{name}");
                assert_eq!(u32::from(request.version_max), means.number("version_max"), "{name}");
            }
            "TAG_CREATE" => assert_eq!(frame.body, means.text("json").as_bytes(), "{name}"),
            _ => assert!(frame.body.is_empty(), "{name}"),
        }
    }
}

#[test]
fn a_live_daemon_answers_every_vector_as_the_document_says() {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    let mut raw = host.raw();
    for vector in vectors() {
        raw.send(&vector.send);
        let reply = raw.reply();
        check_answer(&vector, &reply.header, &reply.body);
        if vector.name.ends_with(": closes") {
            raw.assert_closed();
            raw = host.raw();
        }
    }
    host.stop();
}

#[track_caller]
fn check_answer(vector: &Vector, header: &Header, body: &[u8]) {
    let name = &vector.name;
    let mut came = Vec::new();
    header.put_frame(body, &mut came);
    let fits =
        came.len() == vector.expect.len() || came.len() > vector.expect.len() && vector.expect_more;
    let same =
        vector.expect.iter().zip(&came).all(|(expect, byte)| expect.is_none_or(|e| e == *byte));
    assert!(fits && same, "{name}: {came:02x?} instead of {:02x?}", vector.expect);
    let Some(answers) = &vector.answers else { return };
    assert_eq!(header.request_id, answers.number("request_id"), "{name}");
    match answers.kind.as_str() {
        "ids" => {
            let reply = IdsReply::decode(body).unwrap();
            assert_eq!(reply.hold_ms, answers.number("hold_ms"), "{name}");
            let runs: Vec<String> =
                reply.runs().map(|run| format!("{}x{}", run.first, run.count)).collect();
            assert_eq!(runs.join(","), answers.text("runs"), "{name}");
        }
        "failure" => {
            let status = Status::from_number(header.status).expect("a status of the table");
            assert_eq!(status.name(), answers.text("status"), "{name}");
            assert!(ErrorReply::decode(body).unwrap().message.len() > 10, "{name}: says why");
            assert_eq!(status.closes(), name.ends_with(": closes"), "{name}");
        }
        other => panic!("{name}: what is {other:?}?"),
    }
}

#[test]
fn the_codec_writes_the_replies_that_the_vectors_name() {
    let mut checked = 0;
    for vector in vectors() {
        let Some(answers) = vector.answers.as_ref().filter(|answers| answers.kind == "ids") else {
            continue;
        };
        let expect: Vec<u8> = vector.expect.iter().map(|byte| byte.unwrap_or(0)).collect();
        let runs = answers.text("runs").split(',').map(|run| {
            let (first, count) = run.split_once('x').unwrap();
            let (first, count) = (first.parse().unwrap(), count.parse().unwrap());
            leafd_wire::Run { first, count, stride: 1 }
        });
        let header = Header {
            opcode: opcode::IDS | opcode::REPLY,
            flags: 0,
            status: 0,
            request_id: answers.number("request_id"),
        };
        let mut bytes = Vec::new();
        IdsReply::put(&header, answers.number("hold_ms"), &runs.collect::<Vec<_>>(), &mut bytes);
        assert_eq!(bytes, expect, "{}", vector.name);
        checked += 1;
    }
    assert!(checked >= 2);
}

/// The connection of this test sends every vector's request one byte at a time.
#[test]
fn vectors_arrive_byte_by_byte_as_well() {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    let mut raw: Raw = host.raw();
    for vector in vectors().iter().filter(|vector| !vector.name.ends_with(": closes")) {
        for byte in &vector.send {
            raw.send(&[*byte]);
        }
        let reply = raw.reply();
        check_answer(vector, &reply.header, &reply.body);
    }
}
