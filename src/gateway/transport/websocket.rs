//! The transport WebSocket. tokio-tungstenite reads it; data frames are written without it.
//!
//! tokio-tungstenite writes control frames (pongs, the close handshake); they are flushed before data frames are
//! written.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};

use futures::{FutureExt, SinkExt, StreamExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{self, Message};

use super::connection_end::ConnectionEnd;
use super::frame_writer::FrameWriter;
use super::incoming::Incoming;
use super::stream_sessions::{StreamName, StreamSession};
use crate::gateway::wire::framed::Framed;
use crate::gateway::wire::message_codec::{FrameData, decode};
use crate::gateway::wire::message_format::MessageFormat;
use crate::net::ClientStream;

/// A client's WebSocket.
#[derive(Debug)]
pub(crate) struct WebSocketTransport {
    socket: WebSocketStream<ClientStream>,
    writer: FrameWriter,
    /// Whether tokio-tungstenite may have a control frame to write, such as the answer to one it received.
    control: Control,
    /// Whether tokio-tungstenite may return a message without reading the socket again.
    received: Received,
    /// The session of a unidirectional client.
    session: Option<Box<StreamSession>>,
}

/// Whether tokio-tungstenite may hold received data.
#[derive(Debug, PartialEq, Eq)]
enum Received {
    Maybe,
    /// It has returned every message; the next one needs more data from the socket.
    Nothing,
}

/// Whether control frames may be pending.
#[derive(Debug, PartialEq, Eq)]
enum Control {
    None,
    Waiting,
}

impl WebSocketTransport {
    /// A transport on this socket. `session` is that of a unidirectional client.
    pub(crate) fn new(socket: WebSocketStream<ClientStream>, session: Option<Box<StreamSession>>) -> Self {
        let writer = FrameWriter::default();
        Self { socket, writer, control: Control::None, received: Received::Maybe, session }
    }

    /// The name of the session of a unidirectional client.
    pub(crate) fn name(&self) -> Option<&StreamName> {
        self.session.as_ref().map(|session| session.name())
    }

    /// Polls for the next message of the client.
    pub(crate) fn poll_incoming(
        &mut self,
        format: MessageFormat,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Incoming, ConnectionEnd>> {
        let message = match std::task::ready!(self.poll_next(cx)) {
            Some(Ok(message)) => message,
            Some(Err(error)) => return Poll::Ready(Err(ConnectionEnd::from(&error))),
            None => return Poll::Ready(Err(ConnectionEnd::Gone)),
        };
        Poll::Ready(match message {
            Message::Text(text) => commands(format, FrameData::Text(&text)),
            Message::Binary(bytes) => commands(format, FrameData::Binary(&bytes)),
            // Pings of WebSocket are answered by the library.
            Message::Ping(_) => {
                self.control = Control::Waiting;
                Ok(Incoming::Ping)
            }
            Message::Pong(_) => Ok(Incoming::Pong),
            Message::Close(_) => Err(ConnectionEnd::ClosedByClient),
            Message::Frame(_) => Err(ConnectionEnd::Gone),
        })
    }

    /// Polls tokio-tungstenite only if the socket is readable. The task polls after each write, and nearly always no
    /// data has arrived; the runtime knows this without a call to the library.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Message, tungstenite::Error>>> {
        if self.received == Received::Nothing {
            // Ignores an error: the library returns it when it reads.
            let _ = std::task::ready!(self.socket.get_ref().poll_read_ready(cx));
            self.received = Received::Maybe;
        }
        let next = self.socket.poll_next_unpin(cx);
        if next.is_pending() {
            self.received = Received::Nothing;
        }
        next
    }

    /// Writes as many `frames` as the kernel accepts without blocking, and removes those that were written.
    pub(crate) fn try_write(&mut self, frames: &mut VecDeque<Framed>) -> io::Result<()> {
        if self.control == Control::Waiting {
            // A pending control frame is written first.
            match self.socket.flush().now_or_never() {
                Some(flushed) => flushed.map_err(io::Error::other)?,
                None => return Ok(()),
            }
            self.control = Control::None;
        }
        self.writer.try_write(self.socket.get_mut(), frames)
    }

    /// Writes all `frames`, without a time limit. If it is cancelled, a frame may be partly written; then the socket
    /// can only be dropped, see [`close`](Self::close).
    pub(crate) async fn write(&mut self, frames: &mut VecDeque<Framed>) -> io::Result<()> {
        if self.control == Control::Waiting {
            self.socket.flush().await.map_err(io::Error::other)?;
            self.control = Control::None;
        }
        while !frames.is_empty() {
            self.socket.get_ref().writable().await?;
            self.try_write(frames)?;
        }
        Ok(())
    }

    fn is_inside_frame(&self) -> bool {
        self.writer.is_inside_frame() || self.socket.get_ref().has_unsent()
    }

    /// Sends a last message, if there is one, and a close frame, and waits for the close frame of the client. Sends
    /// nothing if a frame is partly written, because the client could not parse what follows.
    pub(crate) async fn close(&mut self, last: Option<Framed>, code: u16, reason: &str) {
        if self.is_inside_frame() || self.write(&mut last.into_iter().collect()).await.is_err() {
            return;
        }
        let frame = CloseFrame { code: code.into(), reason: reason.into() };
        if self.socket.close(Some(frame)).await.is_ok() {
            // Reads until the client's close frame or the end of the stream.
            while let Some(Ok(_)) = self.socket.next().await {}
        }
    }

    /// Answers the client's close frame with one of the same code, unless a frame is partly written.
    pub(crate) async fn answer_close(&mut self) {
        if !self.is_inside_frame() {
            // The library has prepared the frame. Nobody is left to know of an error.
            let _ = self.socket.flush().await;
        }
    }
}

fn commands(format: MessageFormat, frame: FrameData<'_>) -> Result<Incoming, ConnectionEnd> {
    decode(format, frame).map(Incoming::Commands).map_err(ConnectionEnd::Close)
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;
    use crate::gateway::wire::framed::FrameKind;

    #[tokio::test]
    async fn frames_round_trip() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let near = WebSocketStream::from_raw_socket(ClientStream::Tcp(near), Role::Server, None).await;
        let mut far = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
        let said: Vec<String> =
            [0, 1, 125, 126, 65_535, 65_536, 3_000_000].map(|long| "é".repeat(long / 2) + "x").into();
        let mut frames: VecDeque<Framed> =
            said.iter().map(|text| Framed::new(FrameKind::Text, text.as_bytes())).collect();
        frames.extend((0..1_000).map(|number| Framed::new(FrameKind::Text, number.to_string().as_bytes())));
        let mut transport = WebSocketTransport::new(near, None);
        let reading = tokio::spawn(async move {
            let mut heard = Vec::new();
            while let Some(Ok(Message::Text(text))) = far.next().await {
                heard.push(text.to_string());
            }
            heard
        });
        transport.write(&mut frames).await.unwrap();
        transport.close(None, 1000, "done").await;
        let expected: Vec<String> = said.into_iter().chain((0..1_000).map(|number| number.to_string())).collect();
        assert!(reading.await.unwrap() == expected);
    }
}
