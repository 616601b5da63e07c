//! The transport: a WebSocket on a plain TCP stream, read by tokio-tungstenite and written past it.
//!
//! A server's frames are not masked, so a message framed once is the same bytes for every socket. They are framed where
//! they are encoded ([`Framed`]), shared, and handed to the kernel as they are: one vectored write for all that waits,
//! no copy for each socket, no write buffer that stays as large as its largest burst. Control frames (pongs, the close
//! handshake) are tokio-tungstenite's; they are flushed before anything is written past it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{FutureExt, SinkExt, StreamExt};
use smallvec::SmallVec;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{self, Message};

/// A text message with its WebSocket frame header. Cheap to clone: all sockets share the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framed(Bytes);

/// First byte of a frame that is a whole text message.
const WHOLE_TEXT: u8 = 0x81;

impl Framed {
    /// Frames a message, which must be UTF-8: all that is encoded for clients is JSON.
    pub fn text(message: &[u8]) -> Self {
        let mut framed = Vec::with_capacity(message.len() + 10);
        framed.push(WHOLE_TEXT);
        // RFC 6455, 5.2: the length in 7 bits, or in the 16 or 64 that follow.
        match message.len() {
            short @ 0..=125 => framed.push(short as u8),
            middle @ 126..=65_535 => {
                framed.push(126);
                framed.extend_from_slice(&(middle as u16).to_be_bytes());
            }
            long => {
                framed.push(127);
                framed.extend_from_slice(&(long as u64).to_be_bytes());
            }
        }
        framed.extend_from_slice(message);
        Self(framed.into())
    }

    /// Bytes on the wire.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Never: a frame has a header.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Buffers handed to the kernel at once.
const SLICES: usize = 64;

/// A client's socket.
#[derive(Debug)]
pub(super) struct Transport {
    socket: WebSocketStream<TcpStream>,
    /// How much of the first frame that waits was written already.
    written: usize,
    /// The library may have a control frame to write: it answers those that come.
    control: Control,
    /// What the library is known to hold of what was received.
    received: Received,
}

/// Whether the library may have something to say without reading more.
#[derive(Debug, PartialEq, Eq)]
enum Received {
    Maybe,
    /// Everything that came was told: there is nothing to ask for until more comes.
    Nothing,
}

/// Whether control frames may wait to be written.
#[derive(Debug, PartialEq, Eq)]
enum Control {
    None,
    Waiting,
}

impl Transport {
    pub(super) fn new(socket: WebSocketStream<TcpStream>) -> Self {
        Self { socket, written: 0, control: Control::None, received: Received::Maybe }
    }

    /// The next message. Cancelling it loses nothing.
    pub(super) async fn next(&mut self) -> Option<Result<Message, tungstenite::Error>> {
        let message = poll_fn(|cx| self.poll_next(cx)).await;
        if matches!(message, Some(Ok(Message::Ping(_) | Message::Close(_)))) {
            self.control = Control::Waiting;
        }
        message
    }

    /// A socket that is told something is asked each time whether it has something to say; the answer is nearly always
    /// no, and the runtime knows it without going through the library.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Message, tungstenite::Error>>> {
        if self.received == Received::Nothing {
            // An error is for the library to meet, when it reads.
            let _ = std::task::ready!(self.socket.get_ref().poll_read_ready(cx));
            self.received = Received::Maybe;
        }
        let next = self.socket.poll_next_unpin(cx);
        if next.is_pending() {
            self.received = Received::Nothing;
        }
        next
    }

    /// Writes as much of `frames` as the kernel takes at once, and takes it off them.
    pub(super) fn try_write(&mut self, frames: &mut VecDeque<Framed>) -> io::Result<()> {
        if self.control == Control::Waiting {
            // A control frame that is stuck goes first.
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
        // One frame alone is the rule, and the plain call is the cheaper one.
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

    /// Writes all of `frames`, however long it takes. Cancelling it leaves a frame half written: the socket can only be
    /// dropped then, see [`close`](Self::close).
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

    /// Says why, and waits until the client has heard it. Says nothing if a frame is half written: nothing said after
    /// that could be understood.
    pub(super) async fn close(&mut self, code: u16, reason: &str) {
        let frame = CloseFrame { code: code.into(), reason: reason.into() };
        if self.written == 0 && self.socket.close(Some(frame)).await.is_ok() {
            // Until the client's own close frame, or the end of the stream.
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
