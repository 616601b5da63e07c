//! Takes the payload out of the bytes that a server sends, wherever reads split them, and counts the deliveries in it.
//!
//! Decoding a message costs more than sending it, so messages are not decoded. In JSON, each delivered item contains
//! [`MARK`] exactly once. The server sends this byte nowhere else, so the number of marks is the number of deliveries.
//! In Protobuf, the first byte of a message distinguishes pushes from replies.

use std::io::Cursor;

use anyhow::{Result, bail, ensure};
use clap::ValueEnum;
use memchr::{memchr_iter, memmem, memrchr};
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};

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
        if self.is_websocket {
            self.read_frames(bytes, counts, payload)
        } else {
            self.read_body(bytes, counts, payload)
        }
    }

    fn read_frames(&self, bytes: &[u8], counts: &mut FrameCounts, mut payload: impl FnMut(&[u8])) -> Result<usize> {
        let mut at = 0;
        let mut cursor = Cursor::new(bytes);
        while let Some((header, length)) = FrameHeader::parse(&mut cursor)? {
            let begin = cursor.position() as usize;
            let Some(content) = bytes.get(begin..begin + length as usize) else { break };
            at = begin + content.len();
            cursor.set_position(at as u64);
            match header.opcode {
                OpCode::Data(_) => {
                    let more = FrameCounts::of(self.encoding, content);
                    counts.deliveries += more.deliveries;
                    counts.pings += more.pings;
                    payload(content);
                }
                OpCode::Control(Control::Close) => {
                    let code = content.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code));
                    bail!("the server closed the connection with code {code}");
                }
                OpCode::Control(_) => {}
            }
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

/// Appends a client's frame in this encoding. The mask is zero: masking protects proxies, and a loopback connection has
/// none.
pub(super) fn push_frame(frame: &mut Vec<u8>, encoding: LoadEncoding, payload: &[u8]) -> Result<()> {
    let kind = if encoding == LoadEncoding::Json { Data::Text } else { Data::Binary };
    let header = FrameHeader { opcode: OpCode::Data(kind), mask: Some([0; 4]), ..FrameHeader::default() };
    header.format(payload.len() as u64, frame)?;
    frame.extend_from_slice(payload);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use prost::Message as _;

    /// The fields of a reply that decide what it is.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Reply {
        #[prost(uint32, tag = "1")]
        id: u32,
        #[prost(bytes, optional, tag = "4")]
        push: Option<Vec<u8>>,
        #[prost(bytes, optional, tag = "6")]
        subscribe: Option<Vec<u8>>,
    }

    fn reply() -> impl Strategy<Value = Reply> {
        let content = || prop::collection::vec(any::<u8>(), 0..400);
        prop_oneof![
            Just(Reply::default()),
            content().prop_map(|push| Reply { push: Some(push), ..Reply::default() }),
            (1..u32::MAX, content()).prop_map(|(id, it)| Reply { id, subscribe: Some(it), push: None }),
            // Longer than a read, with a length of three bytes.
            (16_384..70_000_usize).prop_map(|length| Reply { push: Some(vec![PUSH_KEY; length]), ..Reply::default() }),
        ]
    }

    fn line() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("{}".to_owned()),
            (0_usize..700).prop_map(|n| format!("{{\"push\":\"{}~\"}}", "x".repeat(n))),
            (0_usize..70_000).prop_map(|n| format!("{{\"id\":1,\"r\":{{}},\"t\":\"{}\"}}", "y".repeat(n))),
            Just("[{}~".to_owned()),
            Just("{".to_owned()),
        ]
    }

    /// A server's frame.
    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        let header = FrameHeader { opcode: OpCode::Data(Data::Text), ..FrameHeader::default() };
        header.format(payload.len() as u64, &mut frame).unwrap();
        [frame, payload.to_vec()].concat()
    }

    /// Reads a stream in pieces of these lengths. Returns the counts and the payload.
    fn read(mut reader: FrameReader, stream: &[u8], cuts: &[usize]) -> (FrameCounts, Vec<u8>) {
        let mut seen = FrameCounts::default();
        let mut payload = Vec::new();
        let mut rest = stream;
        let mut cuts = cuts.iter().cycle();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
            rest = after;
            let more = reader.feed(piece, |content| payload.extend_from_slice(content)).unwrap();
            seen.deliveries += more.deliveries;
            seen.pings += more.pings;
        }
        assert!(reader.partial.is_empty());
        (seen, payload)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn counts_of_json_do_not_depend_on_where_the_stream_is_cut(
            frames in prop::collection::vec(prop::collection::vec(line(), 1..5), 1..6),
            cuts in prop::collection::vec(1_usize..900, 1..40),
        ) {
            let lines = || frames.iter().flatten();
            let expected = FrameCounts {
                deliveries: lines().filter(|line| line.contains('~')).count() as u32,
                pings: lines().filter(|line| *line == "{}").count() as u32,
            };
            let texts: Vec<String> = frames.iter().map(|lines| lines.join("\n")).collect();
            let stream: Vec<u8> = texts.iter().flat_map(|text| frame(text.as_bytes())).collect();
            let seen = read(FrameReader::new(LoadEncoding::Json, true), &stream, &cuts);
            prop_assert_eq!(seen, (expected, texts.concat().into_bytes()));
        }

        #[test]
        fn counts_of_protobuf_do_not_depend_on_where_the_stream_is_cut(
            replies in prop::collection::vec(reply(), 1..12),
            cuts in prop::collection::vec(1_usize..900, 1..40),
        ) {
            let bytes: Vec<u8> = replies.iter().flat_map(Reply::encode_length_delimited_to_vec).collect();
            let deliveries = replies.iter().filter(|reply| reply.push.is_some()).count() as u32;
            let pings = replies.iter().filter(|reply| **reply == Reply::default()).count() as u32;
            let seen = read(FrameReader::new(LoadEncoding::Protobuf, true), &frame(&bytes), &cuts);
            prop_assert_eq!(seen, (FrameCounts { deliveries, pings }, bytes.clone()));
            let response = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &bytes].concat();
            let seen = read(FrameReader::new(LoadEncoding::Protobuf, false), &response, &cuts);
            prop_assert_eq!(seen, (FrameCounts { deliveries, pings: 0 }, bytes));
        }
    }

    #[test]
    fn server_sent_events_have_marks() {
        let response = b"HTTP/1.1 200 OK\r\n\r\ndata: \"~x\"\n\ndata: ~\n\n";
        for cut in 1..response.len() {
            let reader = FrameReader::new(LoadEncoding::Json, false);
            assert_eq!(read(reader, response, &[cut]).0.deliveries, 2, "pieces of {cut}");
        }
    }

    #[test]
    fn a_close_gives_its_code() {
        for (bytes, code) in [(&[0x88, 2, 0x0b, 0xc0][..], "3008"), (&[0x88, 0][..], "1005")] {
            let closed = FrameReader::new(LoadEncoding::Json, true).feed(bytes, |_| {}).unwrap_err();
            assert!(closed.to_string().contains(code), "{closed}");
        }
    }
}
