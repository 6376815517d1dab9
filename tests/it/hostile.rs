//! Requests that no well-behaved client sends: each gets the documented answer, and the daemon continues.

use std::net::Shutdown;
use std::time::Duration;

use leafd_wire::{COUNT_MAX, Header, REQUEST_LENGTH_MAX, Status, flag, opcode};

use crate::host::Host;
use crate::raw::{Raw, Reply, ids_request};
use crate::seed::seeds;

fn serving() -> Host {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    host
}

/// Checks that another client is served normally.
#[track_caller]
fn assert_serves(host: &mut Host) {
    host.assert_alive();
    assert_eq!(host.raw().draw("orders", 3).len(), 3);
}

#[test]
fn a_length_that_no_request_has_is_refused_and_the_connection_closed() {
    let mut host = serving();
    for length in [0, 1, 7, REQUEST_LENGTH_MAX + 1, 1 << 24, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        let mut raw = host.raw();
        raw.send(&length.to_le_bytes());
        let reply = raw.reply();
        reply.refused(Status::FrameLength);
        assert_eq!((reply.header.opcode, reply.header.request_id), (opcode::REPLY, 0));
        raw.assert_closed();
    }
    assert_serves(&mut host);
}

#[test]
fn requests_before_a_bad_length_are_answered_and_those_after_it_are_not() {
    let mut host = serving();
    let mut raw = host.raw();
    // Ids are held from now on, so answers come in order.
    assert_eq!(raw.draw("orders", 1), [1]);
    let bytes = [
        ids_request("orders", 1, 1, 1_000),
        3u32.to_le_bytes().to_vec(),
        ids_request("orders", 1, 2, 1_000),
    ];
    raw.send(&bytes.concat());
    assert_eq!(raw.reply().ids(), [2]);
    raw.reply().refused(Status::FrameLength);
    raw.assert_closed();
    assert_serves(&mut host);
}

#[test]
fn the_largest_frame_is_read_and_its_body_judged() {
    let mut host = serving();
    let mut raw = host.raw();
    let body = vec![b' '; REQUEST_LENGTH_MAX as usize - 8];
    for (opcode, status) in [
        (opcode::IDS, Status::Malformed),
        (opcode::INFO, Status::Malformed),
        (opcode::STATUS, Status::Malformed),
        (opcode::TAG_SHOW, Status::Malformed),
        (99, Status::UnknownOpcode),
    ] {
        raw.request(opcode, 4, &body);
        raw.reply().refused(status);
    }
    assert_eq!(raw.draw("orders", 1), [1], "the connection is still good");
    assert_serves(&mut host);
}

#[test]
fn every_opcode_is_answered_by_itself() {
    let mut host = serving();
    let mut raw = host.raw();
    for opcode in 0..=255u8 {
        raw.request(opcode, u32::from(opcode), b"");
        let reply = raw.reply();
        assert_eq!(reply.header.opcode, opcode | opcode::REPLY);
        assert_eq!(reply.header.request_id, u32::from(opcode));
        match opcode {
            opcode::STATUS => assert_eq!(reply.status(), Status::Ok),
            1 | 2 | 4..=6 | 8 | 16..=29 => drop(reply.refused(Status::Malformed)),
            _ => drop(reply.refused(Status::UnknownOpcode)),
        }
    }
    assert_serves(&mut host);
}

#[test]
fn counts_outside_the_limits_are_refused() {
    let mut host = serving();
    let mut raw = host.raw();
    for count in [0, COUNT_MAX + 1, u32::MAX] {
        for tag in ["orders", "snowflake", "nosuch"] {
            raw.refused(&ids_request(tag, count, 1, 1_000), Status::CountInvalid);
        }
    }
    assert_eq!(raw.draw("orders", COUNT_MAX).len(), COUNT_MAX as usize);
    // The request needs more ticks than it may wait for.
    let text = raw.refused(&ids_request("snowflake", COUNT_MAX, 1, 0), Status::Deadline);
    assert!(text.contains("snowflake"), "{text}");
    assert_serves(&mut host);
}

#[test]
fn tags_of_every_length_get_the_documented_answer() {
    let mut host = serving();
    let mut raw = host.raw();
    let mut invalid: Vec<Vec<u8>> = vec![
        vec![],
        vec![b'x'; 129],
        vec![b'x'; 513],
        vec![b'x'; 60_000],
        "\u{1f600}".repeat(129).into_bytes(),
        "\u{e9}".repeat(129).into_bytes(),
        vec![0xff],
        vec![0xc3],
        // A surrogate, and an overlong encoding of a slash.
        vec![0xed, 0xa0, 0x80],
        vec![0xc0, 0xaf],
    ];
    for control in ["\0", "a\0b", "\n", "a\tb", "\u{7f}", "\u{80}", "\u{9f}"] {
        invalid.push(control.into());
    }
    for tag in &invalid {
        let text = raw.refused(&ids_request(tag, 1, 1, 1_000), Status::TagInvalid);
        assert!(text.contains("a tag "), "{text}");
    }
    for tag in
        ["x".to_owned(), "x".repeat(128), "\u{1f600}".repeat(128), " ".into(), "'; --".into()]
    {
        raw.refused(&ids_request(&tag, 1, 1, 1_000), Status::TagUnknown);
        host.create(&tag);
        assert_eq!(raw.draw(&tag, 1), [1], "{tag:?}");
    }
    // A trailing space or another case makes another tag.
    for tag in ["orders ", "Orders"] {
        raw.refused(&ids_request(tag, 1, 1, 1_000), Status::TagUnknown);
    }
    assert_serves(&mut host);
}

#[test]
fn bodies_of_another_form_are_malformed() {
    let mut host = serving();
    let mut raw = host.raw();
    let good = ids_request("orders", 1, 1, 1_000)[12..].to_vec();
    for cut in 0..good.len() {
        raw.request(opcode::IDS, 1, &good[..cut]);
        raw.reply().refused(Status::Malformed);
    }
    for body in [[&good[..], b"x"].concat(), [&good[..8], &[0xff, 0xff], &good[10..]].concat()] {
        raw.request(opcode::IDS, 1, &body);
        raw.reply().refused(Status::Malformed);
    }
    for body in [&b"\x01"[..], b"\x01\x00\x01", b"\x01\x00\x01\x00\x00"] {
        raw.request(opcode::INFO, 1, body);
        raw.reply().refused(Status::Malformed);
    }
    assert_eq!(raw.draw("orders", 1), [1], "nothing was issued for those");
    assert_serves(&mut host);
}

#[test]
fn bits_that_mean_nothing_are_ignored() {
    let host = serving();
    let mut raw = host.raw();
    let mut bytes = ids_request("orders", 1, 1, 1_000);
    bytes[5] = !flag::HOLD;
    bytes[6..8].copy_from_slice(&7u16.to_le_bytes());
    raw.send(&bytes);
    assert_eq!(raw.reply().ids(), [1]);
}

#[test]
fn frames_that_never_end_cost_nobody_anything() {
    let mut host = serving();
    let request = ids_request("orders", 1, 1, 1_000);
    let mut kept = Vec::new();
    for cut in 1..request.len() {
        let mut raw = host.raw();
        raw.send(&request[..cut]);
        if cut % 2 == 0 {
            kept.push(raw);
        }
    }
    let mut large = host.raw();
    Header::request(opcode::TAG_SHOW, 0, 1)
        .encode(REQUEST_LENGTH_MAX as usize - 8)
        .iter()
        .chain(&[b'x'; 50_000])
        .collect::<Vec<_>>()
        .chunks(1_000)
        .for_each(|piece| large.send(&piece.iter().map(|byte| **byte).collect::<Vec<u8>>()));
    assert_serves(&mut host);
}

#[test]
fn requests_are_answered_alike_in_whatever_pieces_they_come() {
    let mut host = serving();
    let mut issued = 0;
    for mut random in seeds(8) {
        let mut raw = host.raw();
        let mut bytes = Vec::new();
        let requests: Vec<u32> = (0..2_000).map(|_| random.u32(..6)).collect();
        for (request_id, &kind) in (0..).zip(&requests) {
            match kind {
                0 => bytes.extend(ids_request(
                    "x".repeat(random.usize(129..9_000)),
                    1,
                    request_id,
                    0,
                )),
                1 => Header::request(99, 0, request_id).put_frame(b"", &mut bytes),
                count => bytes.extend(ids_request("orders", count, request_id, 10_000)),
            }
        }
        let mut sender = Raw::over(raw.stream.try_clone().unwrap());
        let sending = std::thread::spawn(move || {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                // Pieces of a few bytes, of a part of a frame, or of many frames and a part of the next one.
                let most = [3, 40, 20_000, 200_000][random.usize(..4)];
                let (piece, more) = rest.split_at(rest.len().min(random.usize(1..=most)));
                sender.send(piece);
                rest = more;
                if random.bool() {
                    std::thread::sleep(Duration::from_micros(random.u64(..300)));
                }
            }
        });
        // Refusals overtake requests that wait for a claim.
        let mut replies: Vec<Reply> = requests.iter().map(|_| raw.reply()).collect();
        replies.sort_by_key(|reply| reply.header.request_id);
        for ((request_id, kind), reply) in (0..).zip(requests).zip(replies) {
            assert_eq!(reply.header.request_id, request_id);
            match kind {
                0 => drop(reply.refused(Status::TagInvalid)),
                1 => drop(reply.refused(Status::UnknownOpcode)),
                count => {
                    let wanted: Vec<u64> = (issued + 1..=issued + u64::from(count)).collect();
                    assert_eq!(reply.ids(), wanted);
                    issued += u64::from(count);
                }
            }
        }
        sending.join().unwrap();
    }
    assert_serves(&mut host);
}

#[test]
fn a_half_closed_connection_gets_its_answers_and_then_the_end() {
    let mut host = serving();
    let mut raw = host.raw();
    for request_id in 0..100 {
        raw.ask("orders", 10, request_id);
    }
    // This tag must be looked up first.
    raw.ask("nosuch", 1, 100);
    // The beginning of a frame whose rest never arrives.
    raw.send(&[24, 0]);
    raw.stream.shutdown(Shutdown::Write).unwrap();
    let mut answered = [false; 101];
    for _ in 0..101 {
        let reply = raw.reply();
        let request_id = reply.header.request_id as usize;
        assert!(!std::mem::replace(&mut answered[request_id], true), "{request_id} twice");
        match request_id {
            100 => drop(reply.refused(Status::TagUnknown)),
            _ => assert_eq!(reply.ids().len(), 10),
        }
    }
    raw.assert_closed();
    assert_serves(&mut host);
}

#[test]
fn administrative_json_is_read_with_suspicion() {
    let mut host = serving();
    let mut raw = host.raw();
    let long = "y".repeat(60_000);
    let cases: Vec<(u8, String, Status)> = vec![
        (opcode::TAG_CREATE, "[".repeat(60_000), Status::Malformed),
        (opcode::TAG_CREATE, "{\"tag\":".repeat(8_000), Status::Malformed),
        (opcode::TAG_CREATE, "\u{feff}{}".into(), Status::Malformed),
        (opcode::TAG_CREATE, "{}".into(), Status::Malformed),
        (opcode::TAG_CREATE, "[]".into(), Status::Malformed),
        (opcode::TAG_CREATE, "null".into(), Status::Malformed),
        (opcode::TAG_CREATE, r#"{"tag":"a"} {"tag":"b"}"#.into(), Status::Malformed),
        (opcode::TAG_CREATE, r#"{"tag":"a","tag":"b"}"#.into(), Status::Malformed),
        (opcode::TAG_CREATE, r#"{"tag":"a","max_id":5}"#.into(), Status::Malformed),
        (opcode::TAG_CREATE, r#"{"tag":7}"#.into(), Status::Malformed),
        (opcode::TAG_CREATE, r#"{"tag":"a","start":1.5}"#.into(), Status::Malformed),
        (opcode::TAG_CREATE, r#"{"tag":"a","start":-1}"#.into(), Status::Malformed),
        (
            opcode::TAG_CREATE,
            r#"{"tag":"a","start":18446744073709551616}"#.into(),
            Status::Malformed,
        ),
        (opcode::TAG_CREATE, r#"{"tag":"a","start":0}"#.into(), Status::ValueRefused),
        (
            opcode::TAG_CREATE,
            r#"{"tag":"a","start":9223372036854775808}"#.into(),
            Status::ValueRefused,
        ),
        (
            opcode::TAG_CREATE,
            r#"{"tag":"a","start":9223372036854775807}"#.into(),
            Status::ValueRefused,
        ),
        (opcode::TAG_CREATE, r#"["a"]"#.into(), Status::Malformed),
        (opcode::TAG_SHOW, r#" ["orders"]"#.into(), Status::Malformed),
        (opcode::TAG_LIST, "[null,5,null]".into(), Status::Malformed),
        (opcode::TAG_CREATE, r#"{"tag":"a","step":0}"#.into(), Status::ValueRefused),
        (opcode::TAG_CREATE, r#"{"tag":"a","step":2147483648}"#.into(), Status::ValueRefused),
        (opcode::TAG_CREATE, r#"{"tag":"a","start":10,"ceiling":9}"#.into(), Status::ValueRefused),
        (opcode::TAG_CREATE, r#"{"tag":"a","description":"a\nb"}"#.into(), Status::ValueRefused),
        (
            opcode::TAG_CREATE,
            format!(r#"{{"tag":"a","description":"{long}"}}"#),
            Status::ValueRefused,
        ),
        (opcode::TAG_CREATE, format!(r#"{{"tag":"{long}"}}"#), Status::TagInvalid),
        (opcode::TAG_CREATE, r#"{"tag":"a\u0000"}"#.into(), Status::TagInvalid),
        (opcode::TAG_CREATE, r#"{"tag":"snowflake"}"#.into(), Status::ValueRefused),
        (opcode::TAG_LIST, r#"{"limit":0}"#.into(), Status::ValueRefused),
        (opcode::TAG_LIST, r#"{"limit":1001}"#.into(), Status::ValueRefused),
        (opcode::TAG_LIST, r#"{"after":""}"#.into(), Status::TagInvalid),
        (opcode::TAG_SET, r#"{"tag":"orders"}"#.into(), Status::ValueRefused),
        (opcode::TAG_SET, r#"{"tag":"orders","step":0}"#.into(), Status::ValueRefused),
        (opcode::TAG_SET, r#"{"tag":"nosuch","step":5}"#.into(), Status::TagUnknown),
        (opcode::TAG_SHOW, r#"{"tag":"nosuch"}"#.into(), Status::TagUnknown),
    ];
    for (opcode, body, status) in cases {
        raw.request(opcode, 9, body.as_bytes());
        let reply = raw.reply();
        let shown: String = body.chars().take(60).collect();
        assert_eq!(reply.status(), status, "{shown}: {}", reply.text());
        if shown.contains("\"start\":")
            && status == Status::ValueRefused
            && !shown.contains("ceiling")
        {
            assert!(reply.text().contains("1 to 9223372036854775806"), "{}", reply.text());
        }
    }
    let tags = host.admin(opcode::TAG_LIST, &serde_json::json!({}));
    assert_eq!(tags["tags"].as_array().map(Vec::len), Some(1), "{tags}");
    assert_serves(&mut host);
}

#[test]
fn one_connection_may_draw_many_tags_in_any_order() {
    let host = serving();
    let mut raw: Raw = host.raw();
    for name in 0..50 {
        host.create(&format!("t{name}"));
    }
    for round in 1..=3 {
        for name in 0..50 {
            assert_eq!(raw.draw(format!("t{name}"), 1), [round]);
        }
    }
}

/// Other programs may write texts of any length into the tables.
#[test]
fn long_texts_of_the_store_make_no_reply_longer_than_the_limit() {
    let mut host = serving();
    host.store_sql(
        "UPDATE leaf_alloc SET description = hex(zeroblob(5000000));
         INSERT INTO leafd_host (host, start_token) VALUES (hex(zeroblob(1000000)), 'x')",
    );
    let mut raw = host.raw();
    for (opcode, body) in
        [(opcode::TAG_SHOW, &br#"{"tag":"orders"}"#[..]), (opcode::TAG_LIST, b"{}")]
    {
        raw.request(opcode, 1, body);
        let reply = raw.reply();
        assert_eq!(reply.status(), Status::Ok, "{}", reply.text());
        assert!(reply.body.len() < 1_000, "{} bytes", reply.body.len());
    }
    raw.request(opcode::FLEET, 1, b"{}");
    let said = raw.reply().refused(Status::ValueRefused);
    assert!(said.contains("smaller pages"), "{said}");
    assert_serves(&mut host);
}
