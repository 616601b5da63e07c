//! What a connection reads from and writes to: a WebSocket, or a stream.

pub(crate) mod connection_end;
mod frame_writer;
pub(crate) mod incoming;
pub(crate) mod stream;
pub(crate) mod stream_inbox;
pub(crate) mod stream_sessions;
pub(crate) mod websocket;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;

use crate::gateway::wire::framed::Framed;
use crate::gateway::wire::message_format::MessageFormat;
use connection_end::ConnectionEnd;
use incoming::Incoming;
use stream::StreamTransport;
use stream_sessions::StreamName;
use websocket::WebSocketTransport;

/// A client's transport.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are WebSockets, which a box would cost an allocation")]
pub(crate) enum Transport {
    /// A WebSocket.
    WebSocket(WebSocketTransport),
    /// The body of an HTTP response, with commands in requests of their own.
    Stream(StreamTransport),
}

impl Transport {
    /// The next input of the client. Cancel safe.
    pub(crate) async fn next(&mut self, format: MessageFormat) -> Result<Incoming, ConnectionEnd> {
        poll_fn(|cx| match self {
            Self::WebSocket(socket) => socket.poll_incoming(format, cx),
            Self::Stream(stream) => stream.poll_incoming(format, cx),
        })
        .await
    }

    /// Writes as many `frames` as the kernel accepts without blocking, and removes those that were written.
    pub(crate) fn try_write(&mut self, frames: &mut VecDeque<Framed>) -> io::Result<()> {
        match self {
            Self::WebSocket(socket) => socket.try_write(frames),
            Self::Stream(stream) => stream.try_write(frames),
        }
    }

    /// Writes all `frames`, without a time limit. If it is cancelled, a frame may be partly written; then the transport
    /// can only be dropped, see [`close`](Self::close).
    pub(crate) async fn write(&mut self, frames: &mut VecDeque<Framed>) -> io::Result<()> {
        match self {
            Self::WebSocket(socket) => socket.write(frames).await,
            Self::Stream(stream) => stream.write(frames).await,
        }
    }

    /// Sends a last message, and ends the transport. Sends nothing if a frame is partly written.
    pub(crate) async fn close(&mut self, last: Option<Framed>, code: u16, reason: &str) {
        match self {
            Self::WebSocket(socket) => socket.close(last, code, reason).await,
            Self::Stream(stream) => stream.close(last).await,
        }
    }

    /// Answers the close handshake that the client began.
    pub(crate) async fn answer_close(&mut self) {
        if let Self::WebSocket(socket) = self {
            socket.answer_close().await;
        }
    }

    /// The name of the stream for the client; `None` for a WebSocket that is not unidirectional.
    pub(crate) fn stream_name(&self) -> Option<&StreamName> {
        match self {
            Self::WebSocket(socket) => socket.name(),
            Self::Stream(stream) => Some(stream.name()),
        }
    }
}
