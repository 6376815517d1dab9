//! Answers with ids of masked tags. Each id is a run of its own, and takes a permutation: a large answer takes
//! milliseconds and 160 KB, where the numbers behind it take 16 bytes. So an answer waits as its numbers, and is made in
//! pieces, as its peer takes them.

use std::collections::VecDeque;
use std::rc::Rc;

use leafd_core::mask::Mask;
use leafd_wire::{Header, IdsReply, Run};

use super::backlog::{Backlog, IDLE_BYTES};

/// The most bytes of an answer before its first id.
const HEAD_BYTES: usize = 32;

/// The bytes of an id that is a run of its own.
const ID_BYTES: usize = 16;

/// The answers of a connection with ids of masked tags, in their order.
#[derive(Debug, Default)]
pub(super) struct MaskedAnswers {
    answers: VecDeque<MaskedAnswer>,
    /// What was made of them and is not written yet.
    piece: Backlog,
}

#[derive(Debug)]
struct MaskedAnswer {
    header: Header,
    mask: Rc<Mask>,
    /// The numbers that are left, the next ones last.
    runs: Vec<Run>,
    begun: bool,
}

impl MaskedAnswers {
    /// Adds an answer with this header. The mask has all of the numbers.
    pub(super) fn push(&mut self, header: Header, mask: Rc<Mask>, runs: &[Run]) {
        let runs = runs.iter().rev().copied().collect();
        self.answers.push_back(MaskedAnswer { header, mask, runs, begun: false });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.piece.is_empty() && self.answers.is_empty()
    }

    /// Whether another piece has to be made before more can be written.
    pub(super) fn wants_piece(&self) -> bool {
        self.piece.is_empty() && !self.answers.is_empty()
    }

    /// Whether part of an answer may be written already: then the rest must follow before anything else.
    pub(super) fn in_the_middle(&self) -> bool {
        !self.piece.is_empty() || self.answers.front().is_some_and(|answer| answer.begun)
    }

    /// Makes the next piece. Returns how many answers are made completely with it.
    pub(super) fn make_piece(&mut self) -> u32 {
        let mut made = 0;
        while let Some(answer) = self.answers.front_mut()
            && self.piece.rest().len() + HEAD_BYTES + ID_BYTES <= IDLE_BYTES
        {
            answer.put_some(&mut self.piece);
            if !answer.runs.is_empty() {
                break;
            }
            self.answers.pop_front();
            made += 1;
        }
        if self.answers.is_empty() {
            self.answers = VecDeque::new();
        }
        made
    }

    pub(super) fn piece(&self) -> &Backlog {
        &self.piece
    }

    pub(super) fn piece_mut(&mut self) -> &mut Backlog {
        &mut self.piece
    }
}

impl MaskedAnswer {
    /// Puts as many ids as fit.
    fn put_some(&mut self, piece: &mut Backlog) {
        let left: usize = self.runs.iter().map(|run| run.count as usize).sum();
        let most = (IDLE_BYTES - HEAD_BYTES - piece.rest().len()) / ID_BYTES;
        let mut ids = Vec::with_capacity(left.min(most));
        piece.reserve(HEAD_BYTES + left.min(most) * ID_BYTES);
        if !self.begun {
            self.begun = true;
            // A process must not hold these ids: it would show the order in which they were drawn.
            IdsReply::put_head(&self.header, 0, left, piece);
        }
        while ids.len() < most
            && let Some(run) = self.runs.pop()
        {
            let count = run.count.min(u32::try_from(most - ids.len()).unwrap_or(u32::MAX));
            ids.extend(Run { count, ..run }.ids());
            self.runs.extend(run.without_first(count));
        }
        self.mask.mask_all(&mut ids).expect("an answer was checked before it came here");
        for id in ids {
            IdsReply::put_run(&Run { first: id, count: 1, stride: 1 }, piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use leafd_core::Tag;
    use leafd_core::mask::{MaskBits, MaskKeys};
    use leafd_wire::REPLY_LENGTH_MAX;
    use leafd_wire::frame::Frame;

    use super::*;

    #[test]
    fn answers_are_whole_and_in_order_in_pieces_of_a_page() {
        let keys: MaskKeys = MaskKeys::parse("1 000102030405060708090a0b0c0d0e0f\n").unwrap();
        let tag = Tag::parse(b"tickets").unwrap();
        let mask = Rc::new(Mask::new(keys.current(), &tag, MaskBits::new(40).unwrap()));
        let (mut answers, mut next, mut wanted) = (MaskedAnswers::default(), 1, Vec::new());
        for (request_id, counts) in
            (0..).zip([&[1][..], &[1, 1], &[10_000], &[1], &[250, 7], &[300, 9_000, 1], &[1]])
        {
            let runs: Vec<Run> = counts
                .iter()
                .map(|&count| {
                    let run = Run { first: next, count, stride: 2 };
                    next = run.end() + 5;
                    run
                })
                .collect();
            let header = Header { request_id, ..Header::default() };
            answers.push(header, Rc::clone(&mask), &runs);
            let ids = runs.iter().flat_map(|run| run.ids());
            wanted.push((request_id, ids.map(|id| mask.mask(id).unwrap()).collect::<Vec<_>>()));
        }
        let (mut bytes, mut made) = (Vec::new(), 0);
        while answers.wants_piece() {
            made += answers.make_piece();
            assert!(answers.piece().memory_bytes() <= IDLE_BYTES);
            bytes.extend_from_slice(answers.piece().rest());
            let length = answers.piece().rest().len();
            answers.piece_mut().wrote(length);
        }
        assert!(answers.is_empty() && !answers.in_the_middle());
        assert_eq!(made as usize, wanted.len());
        let (mut rest, mut got) = (&bytes[..], Vec::new());
        while let Some((frame, length)) = Frame::first(rest, REPLY_LENGTH_MAX).unwrap() {
            let reply = IdsReply::decode(frame.body).unwrap();
            assert_eq!(reply.hold_ms, 0);
            got.push((frame.header.request_id, reply.runs().flat_map(Run::ids).collect()));
            rest = &rest[length..];
        }
        assert!(rest.is_empty());
        assert_eq!(got, wanted);
    }
}
