//! The vectors in `protocol-vectors.json`, compared with `protocol.md`, the codec and a live daemon.

mod file;

use std::time::Duration;

use leafd_wire::frame::Frame;
use leafd_wire::{
    ErrorReply, Header, IdsReply, IdsRequest, InfoReply, InfoRequest, Layout, MaskReply,
    MaskRequest, REPLY_LENGTH_MAX, REQUEST_LENGTH_MAX, Run, Status, flag, opcode,
};
use serde_json::Value;

use self::file::{
    Administration, Asked, Came, Masking, Numbering, OneRun, Reply, Request, Vector, Vectors,
    bytes, exactly, vectors,
};
use crate::host::Host;
use crate::public_ids::host_of_vectors;
use crate::raw::Raw;

pub const DOCUMENT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../protocol.md"));

impl Reply {
    #[track_caller]
    fn check(&self, name: &str, asked: Option<Asked>, header: &Header, body: &[u8]) {
        match self {
            Reply::Ids { request_id, hold_ms, runs, total } => {
                assert_eq!((header.request_id, header.status), (*request_id, 0), "{name}");
                let reply = IdsReply::decode(body).unwrap();
                assert_eq!(reply.hold_ms, *hold_ms, "{name}");
                let came: Vec<OneRun> = reply
                    .runs()
                    .map(|Run { first, count, stride }| OneRun { first, count, stride })
                    .collect();
                assert!(runs.as_ref().is_none_or(|runs| *runs == came), "{name}: {came:?}");
                let given: u32 = came.iter().map(|run| run.count).sum();
                assert!(total.is_none_or(|total| total == given), "{name}: {given}");
                let fits = asked.is_none_or(|asked| {
                    given == asked.count || asked.hold && (1..asked.count).contains(&given)
                });
                assert!(fits, "{name}: {given} of {asked:?}");
            }
            Reply::Failure { request_id, status, number, retry_after_ms, text } => {
                assert_eq!(header.request_id, *request_id, "{name}");
                let known = Status::from_number(header.status);
                assert!(number.is_some() || known.is_some(), "{name}: {}", header.status);
                assert!(number.is_none_or(|number| number == header.status), "{name}");
                assert_eq!(known.unwrap_or(Status::Internal).name(), status, "{name}");
                let failure = ErrorReply::decode(body).unwrap();
                assert!(failure.message.len() > 10, "{name}: says why");
                assert!(text.as_ref().is_none_or(|text| text == failure.message), "{name}");
                let retry = retry_after_ms.unwrap_or(failure.retry_after_ms);
                assert_eq!(retry, failure.retry_after_ms, "{name}");
            }
            Reply::Json { request_id, body: example } => {
                assert_eq!((header.request_id, header.status), (*request_id, 0), "{name}");
                let came: Value = serde_json::from_slice(body).unwrap();
                if let Some(example) = example {
                    check_shape(name, &serde_json::from_str(example).unwrap(), &came);
                }
            }
            Reply::Info { request_id } => {
                assert_eq!((header.request_id, header.status), (*request_id, 0), "{name}");
                let info = InfoReply::decode(body).unwrap();
                assert!(info.segments_ready && info.snowflake_ready, "{name}: {info:?}");
                assert!(
                    info.layouts.contains(&("snowflake".to_owned(), Layout::LEAF)),
                    "{name}: {info:?}"
                );
            }
            Reply::Broken { request_id } => {
                assert_eq!(header.request_id, *request_id, "{name}");
                let asked = asked.expect("what was asked");
                let given = IdsReply::decode(body)
                    .map(|reply| reply.runs().map(|run| u64::from(run.count)).sum());
                let fits = given.is_ok_and(|given: u64| {
                    given == u64::from(asked.count)
                        || asked.hold && (1..u64::from(asked.count)).contains(&given)
                });
                assert!(!fits, "{name}: it was read");
            }
        }
    }
}

/// Checks that both have the same members of the same types; null may replace a text.
#[track_caller]
fn check_shape(name: &str, example: &Value, came: &Value) {
    match (example, came) {
        (Value::Object(example), Value::Object(came)) => {
            let names: Vec<_> =
                [example, came].map(|of| of.keys().cloned().collect::<Vec<_>>()).into();
            assert_eq!(names[0], names[1], "{name}");
            for (member, example) in example {
                check_shape(&format!("{name}: {member}"), example, &came[member]);
            }
        }
        (Value::Array(example), Value::Array(came)) => {
            assert_eq!(example.is_empty(), came.is_empty(), "{name}");
            came.iter().for_each(|came| check_shape(name, &example[0], came));
        }
        (Value::Number(_), Value::Number(_)) | (Value::Bool(_), Value::Bool(_)) => {}
        (Value::String(_) | Value::Null, Value::String(_) | Value::Null) => {}
        _ => panic!("{name}: {came} instead of {example}"),
    }
}

#[test]
fn the_document_shows_vectors_of_the_file() {
    let Vectors { about, vectors, leased, masked, series, .. } = vectors();
    assert!(!about.is_empty());
    let mut shown = 0;
    for (at, _) in DOCUMENT.match_indices("```vector ") {
        let block = DOCUMENT[at..].split("\n```").next().unwrap();
        let name = block.lines().next().unwrap().trim_start_matches("```vector ");
        let of_masked = masked
            .iter()
            .map(|one| (&one.name, &one.send, one.request.words(), &one.expect, one.reply.words()));
        let of_series = series
            .iter()
            .map(|one| (&one.name, &one.send, one.request.words(), &one.expect, one.reply.words()));
        if let Some((_, send, means, expect, answers)) =
            of_masked.chain(of_series).find(|vector| *vector.0 == name)
        {
            let lines = [
                format!("```vector {name}"),
                format!("send    {send}"),
                format!("means   {means}"),
                format!("expect  {expect}"),
                format!("answers {answers}"),
            ];
            assert_eq!(block, lines.join("\n"));
            shown += 1;
            continue;
        }
        let vector = vectors.iter().find(|vector| vector.name == name);
        let vector = vector.unwrap_or_else(|| panic!("{name:?} is not in the file"));
        let mut lines = vec![format!("```vector {name}"), format!("send    {}", vector.send)];
        lines.extend(vector.request.as_ref().map(|request| format!("means   {}", request.words())));
        lines.push(format!("expect  {}", vector.expect));
        lines.extend(
            vector.reply.as_ref().and_then(Reply::words).map(|words| format!("answers {words}")),
        );
        assert_eq!(block, lines.join("\n"));
        shown += 1;
    }
    assert!(shown >= 12, "only {shown} vectors are shown");
    let bodies = vectors.iter().filter_map(|vector| match &vector.reply {
        Some(Reply::Json { body: Some(body), .. }) => Some(body),
        _ => None,
    });
    let bodies: Vec<&String> = bodies.chain(leased.iter().map(|of| &of.body)).collect();
    let examples: Vec<&str> = DOCUMENT
        .split("```json\n")
        .skip(1)
        .map(|rest| rest.split("\n```").next().unwrap())
        .collect();
    assert!(examples.len() >= 4, "{examples:?}");
    for example in examples {
        let value: Value = serde_json::from_str(example).unwrap();
        let same = |body: &&&String| serde_json::from_str::<Value>(body).unwrap() == value;
        assert!(bodies.iter().any(|body| same(&body)), "{example} is the body of no vector");
    }
}

#[test]
fn the_codec_reads_and_writes_the_vectors_requests() {
    let mut checked = 0;
    for Vector { name, send, request, .. } in vectors().vectors {
        let (Some(request), send) = (request, exactly(&send)) else { continue };
        assert_eq!(request.encoded(), send, "{name}");
        let (frame, end) = Frame::first(&send, REQUEST_LENGTH_MAX).unwrap().expect("it is whole");
        assert_eq!(end, send.len(), "{name}");
        assert_eq!((frame.header.status, frame.header.flags & !flag::HOLD), (0, 0), "{name}");
        match request {
            Request::Ids { count, deadline_ms, tag, hold, .. } => {
                let decoded = IdsRequest::decode(frame.body).unwrap();
                assert_eq!(
                    decoded,
                    IdsRequest { tag: tag.as_bytes(), count, deadline_ms },
                    "{name}"
                );
                assert_eq!(frame.header.flags & flag::HOLD != 0, hold, "{name}");
            }
            Request::Info { version_min, version_max, .. } => {
                let decoded = InfoRequest::decode(frame.body).unwrap();
                assert_eq!(decoded, InfoRequest { version_min, version_max }, "{name}");
            }
            _ => {}
        }
        checked += 1;
    }
    assert!(checked >= 30, "only {checked} were checked");
}

#[test]
fn the_codec_reads_the_replies_that_clients_may_get() {
    let replies = vectors().replies;
    assert!(replies.len() >= 15, "only {} replies were found", replies.len());
    for Came { name, bytes, asked, reply } in &replies {
        let bytes = exactly(bytes);
        let (frame, end) = Frame::first(&bytes, REPLY_LENGTH_MAX).unwrap().expect("it is whole");
        assert_eq!(end, bytes.len(), "{name}");
        reply.check(name, *asked, &frame.header, frame.body);
        if let Reply::Ids { hold_ms, runs: Some(runs), .. } = reply {
            let runs =
                runs.iter().map(|&OneRun { first, count, stride }| Run { first, count, stride });
            let mut written = Vec::new();
            IdsReply::put(&frame.header, *hold_ms, &runs.collect::<Vec<_>>(), &mut written);
            assert_eq!(written, bytes, "{name}");
        }
    }
}

#[track_caller]
fn check_answer(vector: &Vector, header: &Header, body: &[u8]) {
    let (name, (expect, more)) = (&vector.name, bytes(&vector.expect));
    let mut came = Vec::new();
    header.put_frame(body, &mut came);
    let fits = came.len() == expect.len() || came.len() > expect.len() && more;
    let same = expect.iter().zip(&came).all(|(expect, byte)| expect.is_none_or(|e| e == *byte));
    assert!(fits && same, "{name}: {came:02x?} instead of {}", vector.expect);
    let asked = match &vector.request {
        Some(Request::Ids { count, hold, .. }) => Some(Asked { count: *count, hold: *hold }),
        _ => None,
    };
    if let Some(reply) = &vector.reply {
        reply.check(name, asked, header, body);
    }
    let status = Status::from_number(header.status).expect("a status of the table");
    assert_eq!(
        (status.closes(), name.ends_with(": closes")),
        (vector.closes, vector.closes),
        "{name}"
    );
}

fn serving() -> Host {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    host
}

#[test]
fn a_live_daemon_answers_every_vector_as_the_file_says() {
    let mut host = serving();
    let mut raw = host.raw();
    for vector in vectors().vectors {
        raw.send(&exactly(&vector.send));
        let reply = raw.reply();
        check_answer(&vector, &reply.header, &reply.body);
        if vector.closes {
            raw.assert_closed();
            raw = host.raw();
        }
    }
    host.stop();
}

/// The connection of this test sends every vector's request one byte at a time.
#[test]
fn vectors_arrive_byte_by_byte_as_well() {
    let host = serving();
    let mut raw: Raw = host.raw();
    for vector in vectors().vectors.iter().filter(|vector| !vector.closes) {
        for byte in exactly(&vector.send) {
            raw.send(&[byte]);
        }
        let reply = raw.reply();
        check_answer(vector, &reply.header, &reply.body);
    }
}

#[test]
fn a_daemon_that_leases_its_worker_answers_as_the_file_says() {
    let mut host = Host::new().set("worker_range", "0..1");
    host.start();
    let mut raw = host.raw();
    raw.draw_until("snowflake", Duration::from_secs(10));
    host.create("orders");
    raw.draw("orders", 1);
    for Administration { name, request, body } in vectors().leased {
        let opcode = match request.message.as_str() {
            "WORKER_LIST" => opcode::WORKER_LIST,
            "WORKER_RELEASE" => opcode::WORKER_RELEASE,
            "WHOSE" => opcode::WHOSE,
            "FLEET" => opcode::FLEET,
            other => panic!("{name}: what is {other}?"),
        };
        raw.request(opcode, 1, request.json.as_bytes());
        let came: Value = serde_json::from_slice(&raw.reply().body).unwrap();
        check_shape(&name, &serde_json::from_str(&body).unwrap(), &came);
    }
}

#[test]
fn a_daemon_with_that_key_masks_as_the_file_says() {
    let mut host = host_of_vectors();
    host.start();
    let mut raw = host.raw();
    let masked = vectors().masked;
    assert!(masked.len() >= 3, "only {} were found", masked.len());
    for Masking { name, send, expect, request, reply } in masked {
        let send = exactly(&send);
        assert_eq!(request.encoded(), send, "{name}");
        let (frame, _) = Frame::first(&send, REQUEST_LENGTH_MAX).unwrap().expect("it is whole");
        let decoded = MaskRequest::decode(&frame.header, frame.body).unwrap();
        assert_eq!(decoded.form, request.form(), "{name}");
        assert_eq!(decoded.numbers().collect::<Vec<_>>(), request.ids, "{name}");
        let texts: Vec<&[u8]> = request.texts.iter().map(String::as_bytes).collect();
        assert_eq!(decoded.texts().collect::<Vec<_>>(), texts, "{name}");
        raw.send(&send);
        let came = raw.reply();
        assert_eq!((came.header.request_id, came.header.status), (reply.request_id, 0), "{name}");
        assert_eq!(came.body, reply.body(), "{name}");
        let mut bytes_came = Vec::new();
        came.header.put_frame(&came.body, &mut bytes_came);
        let (expect, _) = bytes(&expect);
        assert_eq!(expect.len(), bytes_came.len(), "{name}");
        let same = expect.iter().zip(&bytes_came).all(|(e, byte)| e.is_none_or(|e| e == *byte));
        assert!(same, "{name}: {bytes_came:02x?}");
        let decoded = MaskReply::decode(&came.body).unwrap();
        if reply.texts.is_empty() {
            assert_eq!(decoded.numbers().unwrap().collect::<Vec<_>>(), reply.ids, "{name}");
        } else {
            assert_eq!(decoded.texts().unwrap().collect::<Vec<_>>(), reply.texts, "{name}");
        }
    }
}

#[test]
fn a_daemon_with_that_series_numbers_as_the_file_says() {
    let host = serving();
    let words = ["series", "create", "bills", "--format", "B{n:4}"];
    assert!(host.leafctl(&words).status.success());
    let mut raw = host.raw();
    for Numbering { name, send, expect, request, reply } in vectors().series {
        let send = exactly(&send);
        assert_eq!(request.encoded(), send, "{name}");
        raw.send(&send);
        let came = raw.reply();
        assert_eq!(came.body, reply.texts.join("\n").into_bytes(), "{name}");
        let mut bytes = Vec::new();
        came.header.put_frame(&came.body, &mut bytes);
        let (expect, _) = file::bytes(&expect);
        let same =
            expect.iter().zip(&bytes).all(|(expect, byte)| expect.is_none_or(|e| e == *byte));
        assert!(same && expect.len() == bytes.len(), "{name}: {bytes:02x?}");
    }
}
