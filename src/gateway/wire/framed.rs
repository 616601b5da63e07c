//! Messages in the form in which they are written to a socket.
//!
//! Frames of a server are not masked, so a framed message has the same bytes for every socket of its format. Messages
//! are framed where they are encoded and then shared.

use bytes::{Buf as _, Bytes};
use smallvec::SmallVec;

/// A message, or a ping, with everything that its transport needs around it. Cheap to clone: all sockets share the
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framed(Bytes);

/// The kind of a WebSocket frame: its first byte, which also says that the frame is a whole message (RFC 6455, 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Text, which must be UTF-8.
    Text = 0x81,
    /// Bytes.
    Binary = 0x82,
    /// A ping of WebSocket, which the client's library answers.
    Ping = 0x89,
}

/// The longest frame header of a server, in bytes.
const MAX_HEADER: usize = 10;

impl Framed {
    /// A WebSocket frame with this message.
    pub fn new(kind: FrameKind, message: &[u8]) -> Self {
        Self::written(kind, message.len(), |frame| frame.extend_from_slice(message))
    }

    /// A WebSocket frame with the message that `write` appends to a buffer with room for `capacity` bytes.
    pub fn written(kind: FrameKind, capacity: usize, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut frame = Vec::with_capacity(MAX_HEADER + capacity);
        frame.extend_from_slice(&[0; MAX_HEADER]);
        write(&mut frame);
        let mut header: SmallVec<[u8; MAX_HEADER]> = SmallVec::new();
        header.push(kind as u8);
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

    /// Bytes of a stream, without a WebSocket frame around them: `write` appends them to a buffer with room for
    /// `capacity` bytes.
    pub fn bare(capacity: usize, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = Vec::with_capacity(capacity);
        write(&mut bytes);
        Self(bytes.into())
    }

    /// The bytes on the wire.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The length on the wire, in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether both are the same bytes in memory.
    #[cfg(test)]
    pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
        self.0.as_ptr() == other.0.as_ptr()
    }

    /// Always `false`: a message has at least a header or a separator.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
