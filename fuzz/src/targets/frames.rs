//! Requests and replies, by the codec that clients and daemon share.

use leafd_wire::frame::Frame;
use leafd_wire::tag::{TAG_CHARACTERS_MAX, check_tag};
use leafd_wire::{
    ErrorReply, HEADER_BYTES, Header, IdsReply, IdsRequest, InfoReply, InfoRequest, MaskItems,
    MaskReply, MaskRequest, REPLY_LENGTH_MAX, REQUEST_LENGTH_MAX, Status, flag, opcode,
};

/// The first byte says whether the stream is a daemon's.
pub(crate) fn run(input: &[u8]) {
    let Some((from, stream)) = input.split_first() else { return };
    let length_max = if from.is_multiple_of(2) { REQUEST_LENGTH_MAX } else { REPLY_LENGTH_MAX };
    let mut rest = stream;
    while let Ok(Some((frame, end))) = Frame::first(rest, length_max) {
        let mut again = Vec::new();
        frame.header.put_frame(frame.body, &mut again);
        assert_eq!(again, rest[..end], "a frame is written as it was read");
        body(&frame.header, frame.body);
        rest = &rest[end..];
    }
    // Without a header: then the fuzzer need not get a length right first.
    let header = Header { opcode: opcode::IDS, flags: *from, ..Header::default() };
    body(&header, stream);
}

fn body(header: &Header, body: &[u8]) {
    requests(header, body);
    mask_messages(header, body);
    replies(header, body);
    let _ = Status::from_number(header.status).map(|status| assert!(!status.name().is_empty()));
}

/// The body of the frame that `put` writes.
fn rewritten(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes);
    let (frame, end) =
        Frame::first(&bytes, REPLY_LENGTH_MAX).expect("a length").expect("a whole frame");
    assert_eq!(end, bytes.len());
    assert_eq!(end, HEADER_BYTES + frame.body.len());
    frame.body.to_vec()
}

fn requests(header: &Header, body: &[u8]) {
    let hold = header.flags & flag::HOLD != 0;
    if let Ok(request) = InfoRequest::decode(body) {
        assert_eq!(rewritten(|sink| request.put(1, sink)), body);
    }
    if let Ok(request) = IdsRequest::decode(body) {
        assert_eq!(rewritten(|sink| request.put(hold, 1, sink)), body);
        tag(request.tag);
    }
}

fn tag(bytes: &[u8]) {
    if let Ok(text) = check_tag(bytes) {
        assert_eq!(text.as_bytes(), bytes);
        let characters = text.chars().count();
        assert!((1..=TAG_CHARACTERS_MAX).contains(&characters) && !text.contains('\n'));
    }
}

fn mask_messages(header: &Header, body: &[u8]) {
    if let Ok(request) = MaskRequest::decode(header, body) {
        let (numbers, texts): (Vec<u64>, Vec<&[u8]>) =
            (request.numbers().collect(), request.texts().collect());
        let ids = match texts.is_empty() {
            true => MaskItems::Numbers(&numbers),
            false => MaskItems::Texts(&texts),
        };
        assert_eq!(MaskRequest::body(&request.form, ids), body);
        assert_eq!(request.form.flags(), header.flags & flag::TEXT);
    }
    if let Ok(reply) = MaskReply::decode(body) {
        if let Ok(numbers) = reply.numbers() {
            assert_eq!(MaskReply::of_numbers(&numbers.collect::<Vec<_>>()), body);
        }
        if let Ok(texts) = reply.texts() {
            let texts: Vec<String> = texts.map(str::to_owned).collect();
            assert!(texts.is_empty() || MaskReply::of_texts(&texts) == body);
        }
    }
}

fn replies(header: &Header, body: &[u8]) {
    if let Ok(reply) = IdsReply::decode(body) {
        let runs: Vec<_> = reply.runs().collect();
        for run in &runs {
            let last = run.last().expect("decoded runs have ids");
            assert!(1 <= run.first && run.first <= last && last <= i64::MAX as u64);
            assert_eq!(run.ids().next(), Some(run.first));
        }
        let again = rewritten(|sink| IdsReply::put(header, reply.hold_ms, &runs, sink));
        assert_eq!(IdsReply::decode(&again), Ok(reply));
    }
    if let Ok(reply) = InfoReply::decode(body) {
        let again = rewritten(|sink| reply.put(header, sink));
        assert_eq!(InfoReply::decode(&again).as_ref(), Ok(&reply));
        for (_, layout) in &reply.layouts {
            layout.check().expect("decoded layouts are valid");
            let last = layout.decompose(i64::MAX as u64 >> (63 - bits(layout)));
            assert_eq!(
                layout.compose(last.expect("it has the layout's bits")).leading_zeros()
                    + bits(layout),
                64
            );
        }
    }
    if let Ok(reply) = ErrorReply::decode(body) {
        let again = rewritten(|sink| reply.put(header, sink));
        assert_eq!(ErrorReply::decode(&again), Ok(reply));
    }
}

fn bits(layout: &leafd_wire::Layout) -> u32 {
    u32::from(layout.time_bits) + u32::from(layout.worker_bits) + u32::from(layout.sequence_bits)
}
