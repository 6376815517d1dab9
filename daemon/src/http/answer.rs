//! The text of an answer, as it is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use leafd_core::shares::ShareSlot;

use super::listener::Party;

/// How many bytes hyper gets at a time. It copies them for each connection, and many answers may be the same text.
const PIECE_BYTES: usize = 16 * 1024;

/// What is left to send of an answer.
pub(super) struct Text {
    pub(super) left: Bytes,
    /// The place that it takes until it is sent.
    _place: Option<ShareSlot<Party>>,
}

impl Text {
    /// An answer that takes a place until it is sent or its connection ends.
    pub fn in_place(text: Bytes, place: Option<ShareSlot<Party>>) -> Text {
        Text { left: text, _place: place }
    }
}

impl<T: Into<Bytes>> From<T> for Text {
    fn from(text: T) -> Text {
        Text { left: text.into(), _place: None }
    }
}

impl Body for Text {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let count = self.left.len().min(PIECE_BYTES);
        let piece = self.left.split_to(count);
        Poll::Ready((count > 0).then_some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}
