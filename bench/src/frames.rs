//! Takes the payload out of the bytes that a server sends, wherever reads split them, and counts the deliveries in it.
//!
//! Decoding a message costs more than sending it, so messages are not decoded. In JSON, each delivered item contains
//! [`MARK`] exactly once. The server sends this byte nowhere else, so the number of marks is the number of deliveries.
//! In Protobuf, the first byte of a message distinguishes pushes from replies.

use anyhow::{Result, bail, ensure};
use clap::ValueEnum;
use memchr::{memchr_iter, memmem, memrchr};

/// The byte that each payload of the bench contains once.
pub(super) const MARK: u8 = b'~';
/// The first byte of a Protobuf message with a push: the key of field 4 of `Reply`, which has a length. Pushes have no
/// id, so that no field precedes it.
const PUSH_KEY: u8 = 4 << 3 | 2;

/// The encoding of the clients that receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LoadEncoding {
    /// JSON.
    #[default]
    Json,
    /// Protobuf.
    Protobuf,
}

/// The counts for some bytes of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameCounts {
    /// Deliveries.
    pub deliveries: u32,
    /// The server's pings, each of which requires a pong: `{}` alone on a line in JSON, a message of length 0 in
    /// Protobuf.
    pub pings: u32,
}

impl FrameCounts {
    fn of(encoding: LoadEncoding, payload: &[u8]) -> Self {
        match encoding {
            LoadEncoding::Json => {
                let pings = memchr_iter(b'\n', payload).filter(|end| payload[end + 1..].starts_with(b"{}")).count();
                let first = usize::from(payload.starts_with(b"{}"));
                Self { deliveries: memchr_iter(MARK, payload).count() as u32, pings: (pings + first) as u32 }
            }
            LoadEncoding::Protobuf => delimited(payload).fold(Self::default(), |counts, (message, _)| Self {
                deliveries: counts.deliveries + u32::from(message.first() == Some(&PUSH_KEY)),
                pings: counts.pings + u32::from(message.is_empty()),
            }),
        }
    }
}

/// The Protobuf messages in some bytes, each of which follows its length, and the position after each. Stops at one
/// that is incomplete.
pub(super) fn delimited(bytes: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let mut rest = &bytes[at..];
        let length = prost::decode_length_delimiter(&mut rest).ok()?;
        let message = rest.get(..length)?;
        at = bytes.len() - rest.len() + length;
        Some((message, at))
    })
}

/// Reads what one server sends to a client, split anywhere.
#[derive(Debug)]
pub(super) struct FrameReader {
    encoding: LoadEncoding,
    /// Whether the bytes are WebSocket frames; otherwise they are an HTTP response.
    is_websocket: bool,
    /// Whether the head of the response has ended.
    is_in_body: bool,
    /// The beginning of what is incomplete. Empty most of the time.
    partial: Vec<u8>,
}

impl FrameReader {
    /// Reads WebSocket frames, or the body of an HTTP response.
    pub(super) fn new(encoding: LoadEncoding, is_websocket: bool) -> Self {
        Self { encoding, is_websocket, is_in_body: false, partial: Vec::new() }
    }

    /// Reads the next bytes of the connection, and passes the payload that is complete to `payload`: data frames, or
    /// whole messages of a body. Fails if the server closes the connection.
    pub(super) fn feed(&mut self, bytes: &[u8], payload: impl FnMut(&[u8])) -> Result<FrameCounts> {
        let mut counts = FrameCounts::default();
        if self.partial.is_empty() {
            let used = self.read(bytes, &mut counts, payload)?;
            self.partial = bytes[used..].to_vec();
        } else {
            let mut all = std::mem::take(&mut self.partial);
            all.extend_from_slice(bytes);
            let used = self.read(&all, &mut counts, payload)?;
            self.partial = all.split_off(used);
        }
        Ok(counts)
    }

    /// Returns the number of bytes that are complete.
    fn read(&mut self, bytes: &[u8], counts: &mut FrameCounts, payload: impl FnMut(&[u8])) -> Result<usize> {
        if self.is_websocket { self.read_frames(bytes, counts, payload) } else { self.read_body(bytes, counts, payload) }
    }

    fn read_frames(&self, bytes: &[u8], counts: &mut FrameCounts, mut payload: impl FnMut(&[u8])) -> Result<usize> {
        let mut at = 0;
        while let Some((kind, data)) = frame(&bytes[at..]) {
            let content = &bytes[at..][data.clone()];
            if kind & 0x0f == 8 {
                let code = content.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code));
                bail!("the server closed the connection with code {code}");
            }
            if kind & 8 == 0 {
                let more = FrameCounts::of(self.encoding, content);
                counts.deliveries += more.deliveries;
                counts.pings += more.pings;
                payload(content);
            }
            at += data.end;
        }
        Ok(at)
    }

    fn read_body(&mut self, bytes: &[u8], counts: &mut FrameCounts, mut payload: impl FnMut(&[u8])) -> Result<usize> {
        let mut begin = 0;
        if !self.is_in_body {
            let Some(end) = memmem::find(bytes, b"\r\n\r\n") else { return Ok(0) };
            let head = String::from_utf8_lossy(&bytes[..end]);
            ensure!(head.starts_with("HTTP/1.1 200"), "the server refused the stream: {head}");
            self.is_in_body = true;
            begin = end + 4;
        }
        let body = &bytes[begin..];
        let whole = match self.encoding {
            LoadEncoding::Json => memrchr(b'\n', body).map_or(0, |end| end + 1),
            LoadEncoding::Protobuf => delimited(body).last().map_or(0, |(_, end)| end),
        };
        // A stream cannot answer pings.
        counts.deliveries = FrameCounts::of(self.encoding, &body[..whole]).deliveries;
        payload(&body[..whole]);
        Ok(begin + whole)
    }
}

/// The first byte of a server's frame and the place of its payload, if the bytes begin with a whole frame.
fn frame(bytes: &[u8]) -> Option<(u8, std::ops::Range<usize>)> {
    let (begin, length) = match *bytes.get(1)? {
        126 => (4, usize::from(u16::from_be_bytes(*bytes[2..].first_chunk()?))),
        127 => (10, u64::from_be_bytes(*bytes[2..].first_chunk()?) as usize),
        length => (2, usize::from(length)),
    };
    let end = begin + length;
    (bytes.len() >= end).then_some((bytes[0], begin..end))
}

/// Appends a client's frame in this encoding. The mask is zero: masking protects proxies, and a loopback connection has
/// none.
pub(super) fn push_frame(frame: &mut Vec<u8>, encoding: LoadEncoding, payload: &[u8]) {
    frame.push(if encoding == LoadEncoding::Json { 0x81 } else { 0x82 });
    match payload.len() {
        length @ 0..126 => frame.push(0x80 | length as u8),
        length @ 126..0x1_0000 => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
}
