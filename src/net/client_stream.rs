//! The stream of a client's connection: TCP, a socket of this machine, or TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// The stream of a client's connection.
#[derive(Debug)]
pub enum ClientStream {
    /// TCP, not encrypted.
    Tcp(TcpStream),
    /// Another one. Boxed, so that TCP costs as much as without it: each idle connection holds one.
    Other(Box<OtherStream>),
}

/// A stream that is not plain TCP.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is boxed, and clients of sockets are proxies: they are few")]
pub enum OtherStream {
    /// By a socket of this machine.
    Unix(UnixStream),
    /// Encrypted.
    Tls {
        /// TLS over TCP.
        stream: TlsStream<TcpStream>,
        /// Bytes that were encrypted and of which some are not sent yet.
        unsent: usize,
    },
}

impl From<UnixStream> for ClientStream {
    fn from(stream: UnixStream) -> Self {
        Self::Other(Box::new(OtherStream::Unix(stream)))
    }
}

impl From<TlsStream<TcpStream>> for ClientStream {
    fn from(stream: TlsStream<TcpStream>) -> Self {
        Self::Other(Box::new(OtherStream::Tls { stream, unsent: 0 }))
    }
}

impl ClientStream {
    /// Whether it is encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Self::Other(other) if matches!(**other, OtherStream::Tls { .. }))
    }

    /// Whether bytes that [`try_write`](Self::try_write) has not returned yet are on their way.
    pub fn has_unsent(&self) -> bool {
        matches!(self, Self::Other(other) if matches!(**other, OtherStream::Tls { unsent: 1.., .. }))
    }

    /// Waits for data from the network, after a read has found none.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Other(other) => match &**other {
                OtherStream::Unix(stream) => stream.poll_read_ready(cx),
                OtherStream::Tls { stream, .. } => stream.get_ref().0.poll_read_ready(cx),
            },
        }
    }

    /// Waits until the network takes data, after a write has found that it takes none.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Other(other) => match &**other {
                OtherStream::Unix(stream) => stream.writable().await,
                OtherStream::Tls { stream, .. } => stream.get_ref().0.writable().await,
            },
        }
    }

    /// Writes as much as the kernel takes without blocking. After `WouldBlock`, the next call must begin with the same
    /// bytes: some of them may be encrypted and not sent yet.
    pub fn try_write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            // A single buffer is the common case, and a plain write is cheaper.
            Self::Tcp(stream) if slices.len() == 1 => stream.try_write(&slices[0]),
            Self::Tcp(stream) => stream.try_write_vectored(slices),
            Self::Other(other) => match &mut **other {
                OtherStream::Unix(stream) => stream.try_write_vectored(slices),
                OtherStream::Tls { stream, unsent } => try_write_encrypted(stream, unsent, slices),
            },
        }
    }
}

/// Bytes count as written once they were sent: nobody else sends the rest.
fn try_write_encrypted(
    stream: &mut TlsStream<TcpStream>,
    unsent: &mut usize,
    slices: &[IoSlice<'_>],
) -> io::Result<usize> {
    // The caller waits by `writable`.
    let cx = &mut Context::from_waker(Waker::noop());
    if *unsent == 0 {
        *unsent = at_once(Pin::new(&mut *stream).poll_write_vectored(cx, slices))?;
    }
    at_once(Pin::new(stream).poll_flush(cx))?;
    Ok(std::mem::take(unsent))
}

fn at_once<T>(result: Poll<io::Result<T>>) -> io::Result<T> {
    match result {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Other(other) => match &mut **other {
                OtherStream::Unix(stream) => Pin::new(stream).poll_read(cx, into),
                OtherStream::Tls { stream, .. } => Pin::new(stream).poll_read(cx, into),
            },
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, from),
            Self::Other(other) => match &mut **other {
                OtherStream::Unix(stream) => Pin::new(stream).poll_write(cx, from),
                OtherStream::Tls { stream, .. } => Pin::new(stream).poll_write(cx, from),
            },
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, from),
            Self::Other(other) => match &mut **other {
                OtherStream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, from),
                OtherStream::Tls { stream, .. } => Pin::new(stream).poll_write_vectored(cx, from),
            },
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Other(other) => match &mut **other {
                OtherStream::Unix(stream) => Pin::new(stream).poll_flush(cx),
                OtherStream::Tls { stream, .. } => Pin::new(stream).poll_flush(cx),
            },
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Other(other) => match &mut **other {
                OtherStream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
                OtherStream::Tls { stream, .. } => Pin::new(stream).poll_shutdown(cx),
            },
        }
    }
}
