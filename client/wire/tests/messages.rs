//! Frames and messages byte by byte, and bytes that are none.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use leafd_wire::frame::{Frame, frame_end};
use leafd_wire::layout::UNIT_MS_MAX;
use leafd_wire::mask::MASKS_MAX;
use leafd_wire::reply::reply_header;
use leafd_wire::tag::check_tag;
use leafd_wire::*;

/// The bytes of hexadecimal digits. Other characters separate them.
fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digits = digits.as_chunks::<2>().0.iter();
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// The body of the only frame that this writes, which is these bytes.
#[track_caller]
fn body_of(expected: &str, put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut written = Vec::new();
    put(&mut written);
    assert_eq!(written, bytes(expected));
    let (frame, end) = Frame::first(&written, REPLY_LENGTH_MAX).unwrap().unwrap();
    assert_eq!(end, written.len());
    frame.body.to_vec()
}

/// No shorter body can be read, nor one with a byte more.
#[track_caller]
fn check_exact<T>(body: &[u8], decode: impl Fn(&[u8]) -> Result<T, Malformed>) {
    assert!((0..body.len()).all(|length| decode(&body[..length]).is_err()));
    let what = decode(&[body, &[0]].concat()).err().map(|malformed| malformed.to_string());
    assert_eq!(what.unwrap(), "the body continues after its last field");
}

#[test]
fn a_frame_is_found_once_it_is_complete() {
    let header = Header { opcode: 0x82, flags: 1, status: 0x0203, request_id: 0x0405_0607 };
    let mut buffer = Vec::new();
    header.put_frame(b"ab", &mut buffer);
    assert_eq!(buffer, bytes("0a000000 82 01 0302 07060504 6162"));
    buffer.push(0);
    assert_eq!(Frame::first(&buffer, 10), Ok(Some((Frame { header, body: b"ab" }, 14))));
    for length in 0..14 {
        assert_eq!(Frame::first(&buffer[..length], 10), Ok(None));
        assert_eq!(frame_end(&buffer[..length], 10), Ok((length >= 4).then_some(14)));
    }
    assert_eq!(frame_end(&buffer, 9), Err(FrameError { length: 10, length_max: 9 }));
    assert_eq!(frame_end(&[8, 0, 0, 0], 8), Ok(Some(12)));
    let error = frame_end(&[7, 0, 0, 0], 10).unwrap_err();
    assert_eq!(error.to_string(), "a frame's length field says 7; it must be from 8 to 10");
}

#[test]
fn requests_are_written_and_read() {
    let info = InfoRequest { version_min: 1, version_max: 0x0203 };
    let body = body_of("0c000000 01 00 0000 09000000 | 0100 0302", |sink| info.put(9, sink));
    assert_eq!(InfoRequest::decode(&body), Ok(info));
    check_exact(&body, InfoRequest::decode);

    let ids = IdsRequest { tag: b"abc", count: 5, deadline_ms: 0x0102 };
    let rest = "09000000 | 05000000 02010000 0300 616263";
    let body = body_of(&format!("15000000 02 00 0000 {rest}"), |sink| ids.put(false, 9, sink));
    assert_eq!(IdsRequest::decode(&body), Ok(ids));
    check_exact(&body, |body| IdsRequest::decode(body).map(drop));
    body_of(&format!("15000000 02 01 0000 {rest}"), |sink| ids.put(true, 9, sink));
    let series = opcode::SERIES_NEXT;
    body_of(&format!("15000000 08 04 0000 {rest}"), |sink| ids.put_as(series, 4, 9, sink));
}

#[test]
fn ids_are_written_and_read() {
    let header = reply_header(&Header::request(opcode::IDS, 0, 9), Status::Ok, flag::AWAKE);
    let run = |first, count, stride| Run { first, count, stride };
    let runs = [run(1, 2, 3), run(i64::MAX as u64, 1, 1)];
    let text = "30000000 82 01 0000 09000000 | 07000000 0200 0000 | 0100000000000000 02000000 03000000 | \
                ffffffffffffff7f 01000000 01000000";
    let body = body_of(text, |sink| IdsReply::put(&header, 7, &runs, sink));
    let reply = IdsReply::decode(&body).unwrap();
    assert_eq!((reply.hold_ms, reply.runs().collect::<Vec<_>>()), (7, runs.to_vec()));
    assert!((0..body.len()).all(|length| IdsReply::decode(&body[..length]).is_err()));
    assert!(IdsReply::decode(&[&body[..], &[0]].concat()).is_err());
    for bad in [run(0, 1, 1), run(1, 0, 1), run(1, 1, 0), run(i64::MAX as u64, 2, 1)] {
        let mut written = Vec::new();
        IdsReply::put(&header, 0, &[bad], &mut written);
        let what = IdsReply::decode(&written[HEADER_BYTES..]).unwrap_err().what;
        assert_eq!(what, "a run is empty or exceeds the signed 64-bit numbers", "{bad:?}");
    }
}

#[test]
fn info_and_errors_are_written_and_read() {
    let header = reply_header(&Header::request(opcode::INFO, 0, 9), Status::Ok, 0);
    let layouts = vec![("a".to_owned(), Layout::JS53)];
    for (segments_ready, snowflake_ready, bits) in [(true, false, 1), (false, true, 2)] {
        let [request_length_max, count_max, pipeline_max, deadline_ms_max, pid] = [1, 2, 3, 4, 5];
        let (version, release, layouts) = (1, "0.1".to_owned(), layouts.clone());
        let info = InfoReply {
            version,
            segments_ready,
            snowflake_ready,
            request_length_max,
            count_max,
            pipeline_max,
            deadline_ms_max,
            pid,
            release,
            layouts,
        };
        let text = format!(
            "3a000000 81 00 0000 09000000 | 0100 0{bits}00 01000000 02000000 03000000 04000000 05000000 0300 302e31 \
             | 0100 0100 61 25 08 08 00 0a000000 007c291f94010000"
        );
        let mut body = body_of(&text, |sink| info.put(&header, sink));
        assert_eq!(InfoReply::decode(&body), Ok(info.clone()));
        assert!((0..body.len()).all(|length| InfoReply::decode(&body[..length]).is_err()));
        body.push(1);
        assert_eq!(InfoReply::decode(&body), Ok(info), "a later daemon may say more");
        body[26] = 0xff;
        assert_eq!(InfoReply::decode(&body).unwrap_err().what, "text is not UTF-8");
        (body[26], body[34]) = (b'0', 0);
        assert_eq!(InfoReply::decode(&body).unwrap_err().what, "a layout that is not valid");
    }
    let header = reply_header(&Header::request(opcode::IDS, 0, 9), Status::Denied, 0);
    let error = ErrorReply { retry_after_ms: 300, message: "nö" };
    let text = "0f000000 82 00 0800 09000000 | 2c010000 6e c3b6";
    let body = body_of(text, |sink| error.put(&header, sink));
    assert_eq!(ErrorReply::decode(&body), Ok(error));
    assert_eq!(ErrorReply::decode(&body[..6]).map(|error| error.message), Ok("n"));
    assert!(ErrorReply::decode(&body[..3]).is_err());
}

#[test]
fn masks_are_written_and_read() {
    let form = MaskForm { tag: b"ab", bits: 53, key: 2, prefix: None };
    let texts: [&[u8]; 2] = [b"x", &[b'y'; 300]];
    let (p, long) = (Some(&b"p"[..]), "79".repeat(255));
    for (prefix, opcode, items, expected) in [
        (
            None,
            opcode::UNMASK,
            MaskItems::Numbers(&[1, 2]),
            "0000 6162 0100000000000000 0200000000000000",
        ),
        (
            p,
            opcode::MASK,
            MaskItems::Numbers(&[1, 2]),
            "0100 6162 70 0100000000000000 0200000000000000",
        ),
        (p, opcode::UNMASK, MaskItems::Texts(&texts), &format!("0100 6162 70 01 78 ff {long}")[..]),
    ] {
        let form = MaskForm { prefix, ..form };
        assert_eq!(form.flags(), if prefix.is_some() { flag::TEXT } else { 0 });
        let body = MaskRequest::body(&form, items);
        assert_eq!(body, bytes(&format!("35 02 0200 0200 {expected}")));
        let header = Header::request(opcode, form.flags(), 9);
        let request = MaskRequest::decode(&header, &body).unwrap();
        let numbers: Vec<u64> = request.numbers().collect();
        let texts: Vec<&[u8]> = request.texts().collect();
        assert_eq!(request.form, form);
        match items {
            MaskItems::Numbers(ids) => assert_eq!((&numbers[..], texts.len()), (ids, 0)),
            MaskItems::Texts(_) => {
                assert_eq!((numbers.len(), texts), (0, vec![b"x", &[b'y'; 255][..]]))
            }
        }
        check_exact(&body, |body| MaskRequest::decode(&header, body).map(drop));
    }
    let decode = |flags, body: &[u8]| {
        MaskRequest::decode(&Header::request(opcode::MASK, flags, 9), body).map(drop)
    };
    let prefixed = MaskForm { prefix: p, ..form };
    let body = MaskRequest::body(&prefixed, MaskItems::Numbers(&[1]));
    assert_eq!(decode(0, &body).unwrap_err().what, "a prefix in a request for numbers");
    for (count, good) in [(0, false), (1, true), (MASKS_MAX, true), (MASKS_MAX + 1, false)] {
        let body = MaskRequest::body(&form, MaskItems::Numbers(&vec![1; count]));
        assert_eq!(decode(0, &body).is_ok(), good, "{count}");
    }
}

#[test]
fn masked_ids_are_numbers_or_texts_of_one_length() {
    let body = MaskReply::of_numbers(&[1, 2]);
    assert_eq!(body, bytes("0200 0800 0100000000000000 0200000000000000"));
    check_exact(&body, |body| MaskReply::decode(body).map(drop));
    let reply = MaskReply::decode(&body).unwrap();
    assert_eq!(reply.numbers().unwrap().collect::<Vec<_>>(), [1, 2]);
    assert!(reply.texts().is_err());
    let body = MaskReply::of_texts(&["abc".to_owned(), "def".to_owned()]);
    assert_eq!(body, bytes("0200 0300 616263 646566"));
    let reply = MaskReply::decode(&body).unwrap();
    assert_eq!(reply.texts().unwrap().collect::<Vec<_>>(), ["abc", "def"]);
    assert!(reply.numbers().is_err());
    assert_eq!(MaskReply::of_texts(&[]), [0; 4]);
    for bad in ["0000 0000", "0300 0000", "0100 0200 6107", "0200 0200 c3a4 6162", "0100 0100 ff"] {
        let body = bytes(bad);
        assert!(
            MaskReply::decode(&body).and_then(|reply| reply.texts().map(drop)).is_err(),
            "{bad}"
        );
    }
}

#[test]
fn a_layout_s_fields_have_room_and_its_ids_are_positive() {
    let leaf = Layout::LEAF;
    let longest = Layout { time_bits: 31, unit_ms: UNIT_MS_MAX, epoch_ms: 0, ..leaf };
    let latest = u64::MAX / 2 - (1 << 41);
    for (layout, what) in [
        (leaf, ""),
        (Layout::JS53, ""),
        (longest, ""),
        (Layout { worker_bits: 0, ..leaf }, ""),
        (Layout { epoch_ms: latest, ..leaf }, ""),
        (Layout { epoch_ms: latest + 1, ..leaf }, "last instant"),
        (Layout { time_bits: 0, ..leaf }, "at least one bit"),
        (Layout { sequence_bits: 0, ..leaf }, "at least one bit"),
        (Layout { time_bits: 42, ..leaf }, "more than 63 bits"),
        (Layout { worker_bits: 255, ..leaf }, "more than 63 bits"),
        (Layout { unit_ms: 0, ..leaf }, "1 ms to 3600000 ms"),
        (Layout { unit_ms: UNIT_MS_MAX + 1, ..longest }, "1 ms to 3600000 ms"),
        (
            Layout {
                unit_ms: UNIT_MS_MAX,
                time_bits: 62,
                worker_bits: 0,
                sequence_bits: 1,
                ..leaf
            },
            "last instant",
        ),
    ] {
        let said = layout.check().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said.contains(what) && said.is_empty() == what.is_empty(), "{layout:?}: {said}");
    }
}

#[test]
fn an_id_is_composed_of_its_parts() {
    let layout =
        Layout { time_bits: 4, worker_bits: 3, sequence_bits: 2, unit_ms: 10, epoch_ms: 1_000 };
    let parts = Parts { tick: 0b1001, worker: 0b110, sequence: 0b01 };
    assert_eq!((layout.tick_max(), layout.worker_max(), layout.sequence_max()), (15, 7, 3));
    assert_eq!(layout.compose(parts), 0b1_0011_1001);
    assert_eq!(layout.decompose(0b1_0011_1001), Ok(parts));
    assert!(layout.decompose((1 << 9) - 1).is_ok() && layout.decompose(1 << 9).is_err());
    assert_eq!([999, 1_000, 1_019].map(|ms| layout.tick_at(ms)), [None, Some(0), Some(1)]);
    let first = [999, 1_009, 1_010, 1_159, 1_160].map(|ms| layout.first_id_at(ms));
    assert_eq!(first, [None, Some(0), Some(32), Some(480), None]);
    assert_eq!([0, 2, u64::MAX].map(|tick| layout.tick_start_ms(tick)), [1_000, 1_020, u64::MAX]);
    let most = Parts { tick: 15, worker: 7, sequence: 3 };
    assert_eq!(layout.compose(most), 511);
    for too_large in
        [Parts { tick: 16, ..most }, Parts { worker: 8, ..most }, Parts { sequence: 4, ..most }]
    {
        std::panic::catch_unwind(|| layout.compose(too_large)).unwrap_err();
    }
}

#[test]
fn tags_are_short_printable_text() {
    let [longest, widest] = ["a", "\u{1f600}"].map(|character| character.repeat(128));
    for good in ["a", "line item", "数", &longest, &widest] {
        assert_eq!(check_tag(good.as_bytes()), Ok(good));
    }
    for (bad, what) in [
        (&b""[..], "a tag has at least one character"),
        (format!("{longest}a").as_bytes(), "a tag has at most 128 characters"),
        (format!("{widest}a").as_bytes(), "a tag has at most 128 characters"),
        (&[0xff; 513][..], "a tag has at most 128 characters"),
        (&[0xff][..], "a tag is UTF-8 text"),
        (&b"a\n"[..], "a tag has no control characters"),
    ] {
        assert_eq!(check_tag(bad).unwrap_err().to_string(), what);
    }
}

#[test]
fn statuses_have_their_numbers_and_say_what_a_client_may_do() {
    for (number, status) in (0..).zip(Status::ALL) {
        assert_eq!((Status::from_number(number), *status as u16), (Some(*status), number));
    }
    assert_eq!(Status::from_number(Status::ALL.len() as u16), None);
    assert_eq!(Status::TagUnknown.to_string(), "TAG_UNKNOWN");
    assert!(Status::ShuttingDown.closes() && !Status::Overloaded.closes());
    assert!(Status::Overloaded.retry_may_help() && !Status::Denied.retry_may_help());
}
