//! The socket to a server, or to any program that listens on its port while the server is down. Unless the
//! configuration allows it, the password is never sent in clear text, and no answer exhausts the memory.

use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::config::Endpoint;

/// AuthenticationCleartextPassword, which would be the first message.
const ASKS_FOR_PASSWORD: &[u8] = b"R\0\0\0\x08\0\0\0\x03";

/// How many bytes are read in answer to one call. No statement asks for as much.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// A socket that breaks when the server asks for the password in clear text, or sends too much.
pub(super) struct ServerSocket {
    stream: Box<dyn ByteStream>,
    /// The rest of that request; `None` once the server has sent something else, or if it may have the password.
    feared: Option<&'static [u8]>,
    allowance: Allowance,
}

/// A TCP or a Unix socket.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// How much more the server may send in answer to the current call.
#[derive(Clone, Debug)]
pub(super) struct Allowance(Arc<AtomicUsize>);

#[derive(Debug, thiserror::Error)]
#[error("the server asks for the password in clear text")]
struct Refused;

impl ServerSocket {
    /// Connects. `readable`: whether the server may have the password in clear text.
    pub(super) async fn connect(
        endpoint: &Endpoint,
        readable: bool,
        allowance: Allowance,
    ) -> io::Result<ServerSocket> {
        let stream: Box<dyn ByteStream> = match endpoint {
            Endpoint::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                setsockopt(&stream, sockopt::KeepAlive, &true)?;
                Box::new(stream)
            }
            Endpoint::Unix(directory, port) => {
                Box::new(UnixStream::connect(directory.join(format!(".s.PGSQL.{port}"))).await?)
            }
        };
        let feared = (!readable).then_some(ASKS_FOR_PASSWORD);
        Ok(ServerSocket { stream, feared, allowance })
    }

    /// Whether a connection failed because the server asked for the password.
    pub(super) fn has_refused(error: &tokio_postgres::Error) -> bool {
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        cause.and_then(io::Error::get_ref).is_some_and(|cause| cause.is::<Refused>())
    }
}

impl Allowance {
    pub(super) fn new() -> Allowance {
        Allowance(Arc::new(ANSWER_BYTES_MAX.into()))
    }

    /// Call this when a call begins.
    pub(super) fn renew(&self) {
        self.0.store(ANSWER_BYTES_MAX, Ordering::Relaxed);
    }
}

impl AsyncRead for ServerSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.allowance.0.load(Ordering::Relaxed);
        if left == 0 {
            let words = format!("the server sent more than {ANSWER_BYTES_MAX} bytes in one answer");
            return Poll::Ready(Err(io::Error::other(words)));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let arrived = &buffer.filled()[before..];
        self.allowance.0.store(left.saturating_sub(arrived.len()), Ordering::Relaxed);
        let Some(feared) = self.feared else { return Poll::Ready(Ok(())) };
        let (expected, left) = feared.split_at(arrived.len().min(feared.len()));
        self.feared = arrived.starts_with(expected).then_some(left);
        match self.feared {
            Some([]) => Poll::Ready(Err(io::Error::other(Refused))),
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for ServerSocket {
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
