//! The transport: a WebSocket on a plain TCP stream. tokio-tungstenite reads it; data frames are written without it.
//!
//! Frames of a server are not masked, so a framed message has the same bytes for every socket. Messages are framed
//! where they are encoded ([`Framed`]) and then shared. All pending frames of a socket are passed to the kernel in one
//! vectored write: there is no copy per socket, and no write buffer that keeps the size of its largest burst.
//! tokio-tungstenite writes control frames (pongs, the close handshake); they are flushed before data frames are
//! written.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use futures::{FutureExt, SinkExt, StreamExt};
use smallvec::SmallVec;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{self, Message};

/// A text message with its WebSocket frame header. Cheap to clone: all sockets share the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framed(Bytes);

/// The first byte of a frame that contains a whole text message.
const WHOLE_TEXT: u8 = 0x81;

/// The longest frame header of a server, in bytes.
const MAX_HEADER: usize = 10;

impl Framed {
    /// Frames a message. It must be UTF-8; every message for clients is JSON.
    pub fn text(message: &[u8]) -> Self {
        Self::written(message.len(), |frame| frame.extend_from_slice(message))
    }

    /// Frames the message that `write` appends to a buffer with room for `capacity` bytes. It must be UTF-8.
    pub fn written(capacity: usize, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut frame = Vec::with_capacity(MAX_HEADER + capacity);
        frame.extend_from_slice(&[0; MAX_HEADER]);
        write(&mut frame);
        let mut header: SmallVec<[u8; MAX_HEADER]> = SmallVec::new();
        header.push(WHOLE_TEXT);
        // RFC 6455, 5.2: the length takes 7 bits, or the 16 or 64 bits that follow.
        match frame.len() - MAX_HEADER {
            short @ 0..=125 => header.push(short as u8),
            middle @ 126..=65_535 => {
                header.push(126);
                header.extend_from_slice(&(middle as u16).to_be_bytes());
            }
            long => {
                header.push(127);
                header.extend_from_slice(&(long as u64).to_be_bytes());
            }
        }
        let start = MAX_HEADER - header.len();
        frame[start..MAX_HEADER].copy_from_slice(&header);
        let mut frame = Bytes::from(frame);
        frame.advance(start);
        Self(frame)
    }

    /// The length on the wire, in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Always `false`: a frame has a header.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The maximum number of buffers in one vectored write.
const SLICES: usize = 64;

/// A client's socket.
#[derive(Debug)]
pub(super) struct Transport {
    socket: WebSocketStream<TcpStream>,
    /// The number of bytes of the first pending frame that were written already.
    written: usize,
    /// Whether tokio-tungstenite may have a control frame to write, such as the answer to one it received.
    control: Control,
    /// Whether tokio-tungstenite may return a message without reading the socket again.
    received: Received,
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

impl Transport {
    pub(super) fn new(socket: WebSocketStream<TcpStream>) -> Self {
        Self { socket, written: 0, control: Control::None, received: Received::Maybe }
    }

    /// The next message. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Result<Message, tungstenite::Error>> {
        let message = poll_fn(|cx| self.poll_next(cx)).await;
        if matches!(message, Some(Ok(Message::Ping(_) | Message::Close(_)))) {
            self.control = Control::Waiting;
        }
        message
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
    pub(super) fn try_write(&mut self, frames: &mut VecDeque<Framed>) -> io::Result<()> {
        if self.control == Control::Waiting {
            // A pending control frame is written first.
            match self.socket.flush().now_or_never() {
                Some(flushed) => flushed.map_err(io::Error::other)?,
                None => return Ok(()),
            }
            self.control = Control::None;
        }
        while !frames.is_empty() {
            match self.write_once(frames) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.take_off(frames, bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_once(&self, frames: &VecDeque<Framed>) -> io::Result<usize> {
        let stream = self.socket.get_ref();
        // A single frame is the common case, and a plain write is cheaper.
        if let (1, Some(Framed(frame))) = (frames.len(), frames.front()) {
            return stream.try_write(&frame[self.written..]);
        }
        let mut slices: SmallVec<[IoSlice<'_>; SLICES]> =
            frames.iter().take(SLICES).map(|Framed(frame)| IoSlice::new(frame)).collect();
        slices[0].advance(self.written);
        stream.try_write_vectored(&slices)
    }

    fn take_off(&mut self, frames: &mut VecDeque<Framed>, bytes: usize) {
        self.written += bytes;
        while let Some(first) = frames.front().map(Framed::len)
            && self.written >= first
        {
            self.written -= first;
            frames.pop_front();
        }
    }

    /// Writes all `frames`, without a time limit. If it is cancelled, a frame may be partly written; then the socket
    /// can only be dropped, see [`close`](Self::close).
    pub(super) async fn write(&mut self, frames: &mut VecDeque<Framed>) -> io::Result<()> {
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

    /// Sends a close frame, and waits for the close frame of the client. Sends nothing if a frame is partly written,
    /// because the client could not parse the close frame.
    pub(super) async fn close(&mut self, code: u16, reason: &str) {
        let frame = CloseFrame { code: code.into(), reason: reason.into() };
        if self.written == 0 && self.socket.close(Some(frame)).await.is_ok() {
            // Reads until the client's close frame or the end of the stream.
            while let Some(Ok(_)) = self.socket.next().await {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    #[tokio::test]
    async fn frames_round_trip() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let near = WebSocketStream::from_raw_socket(near, Role::Server, None).await;
        let mut far = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
        let said: Vec<String> =
            [0, 1, 125, 126, 65_535, 65_536, 3_000_000].map(|long| "é".repeat(long / 2) + "x").into();
        let mut frames: VecDeque<Framed> = said.iter().map(|text| Framed::text(text.as_bytes())).collect();
        frames.extend((0..1_000).map(|number| Framed::text(number.to_string().as_bytes())));
        let mut transport = Transport::new(near);
        let reading = tokio::spawn(async move {
            let mut heard = Vec::new();
            while let Some(Ok(Message::Text(text))) = far.next().await {
                heard.push(text.to_string());
            }
            heard
        });
        transport.write(&mut frames).await.unwrap();
        transport.close(1000, "done").await;
        let expected: Vec<String> = said.into_iter().chain((0..1_000).map(|number| number.to_string())).collect();
        assert!(reading.await.unwrap() == expected);
    }
}
