//! A connection without TLS, on which the password is never sent in clear text, because any program may listen on the
//! port while the server is down.

use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// AuthenticationCleartextPassword, which would be the first message.
const ASKS_FOR_PASSWORD: &[u8] = b"R\0\0\0\x08\0\0\0\x03";

/// A connection that breaks when the server asks for the password in clear text.
pub(super) struct PlainStream {
    stream: TcpStream,
    /// The rest of that message; `None` once the server has sent something else.
    feared: Option<&'static [u8]>,
}

#[derive(Debug, thiserror::Error)]
#[error("the server asks for the password in clear text")]
struct Refused;

impl PlainStream {
    pub(super) async fn connect(host: &str, port: u16) -> io::Result<PlainStream> {
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        setsockopt(&stream, sockopt::KeepAlive, &true)?;
        Ok(PlainStream { stream, feared: Some(ASKS_FOR_PASSWORD) })
    }

    /// Whether a connection failed for this reason.
    pub(super) fn has_refused(error: &tokio_postgres::Error) -> bool {
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        cause.and_then(io::Error::get_ref).is_some_and(|cause| cause.is::<Refused>())
    }
}

impl AsyncRead for PlainStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let Some(feared) = self.feared else { return Poll::Ready(Ok(())) };
        let arrived = &buffer.filled()[before..];
        let (expected, left) = feared.split_at(arrived.len().min(feared.len()));
        self.feared = arrived.starts_with(expected).then_some(left);
        match self.feared {
            Some([]) => Poll::Ready(Err(io::Error::other(Refused))),
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for PlainStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
