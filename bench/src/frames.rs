//! Counts the deliveries in the bytes that a server sends, wherever reads and frames split them.

use super::messages::MessageReader;

/// The end of the head of an HTTP response.
const HEAD_END: &[u8; 4] = b"\r\n\r\n";

/// The counts for some bytes of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameCounts {
    /// Deliveries.
    pub marks: u32,
    /// The server's pings, each of which requires a pong.
    pub pings: u32,
    /// Completed data frames.
    pub frames: u32,
    /// The close code of the server; 1005 if it sends none.
    pub close: Option<u16>,
}

/// Reads the frames of one server, split anywhere.
#[derive(Debug, Default)]
pub(super) struct FrameReader {
    /// The bytes of the frame header so far.
    header: [u8; 10],
    /// The number of header bytes read; 0 while a payload is being read.
    have: usize,
    /// The number of payload bytes that are still to come.
    left: usize,
    /// Reads the payload.
    messages: MessageReader,
    /// Set if there are no frames: the bytes are an HTTP response.
    stream: Option<ResponseHead>,
}

/// The progress of a reader through the head of a response.
#[derive(Debug, Default)]
struct ResponseHead {
    /// How many of the last bytes begin [`HEAD_END`]; all of it once the body has begun.
    matched: usize,
}

impl ResponseHead {
    /// The part of `bytes` that belongs to the body.
    fn skip<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let mut rest = bytes;
        while self.matched < HEAD_END.len()
            && let Some((byte, after)) = rest.split_first()
        {
            self.matched = match *byte {
                byte if byte == HEAD_END[self.matched] => self.matched + 1,
                b'\r' => 1,
                _ => 0,
            };
            rest = after;
        }
        rest
    }
}

impl FrameReader {
    /// Reads WebSocket frames whose payload `messages` reads.
    pub(super) fn websocket(messages: MessageReader) -> Self {
        Self { messages, ..Self::default() }
    }

    /// Reads an HTTP response whose body `messages` reads. Pings are not counted: a stream cannot answer them.
    pub(super) fn stream(messages: MessageReader) -> Self {
        Self { messages, stream: Some(ResponseHead::default()), ..Self::default() }
    }

    /// Reads the next bytes of the connection, and passes the payload in them to `payload`, of a response also the
    /// head.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut payload: impl FnMut(&[u8])) -> FrameCounts {
        let mut seen = FrameCounts::default();
        if let Some(head) = &mut self.stream {
            payload(bytes);
            seen.marks = self.messages.feed(head.skip(bytes)).marks;
            return seen;
        }
        while !bytes.is_empty() {
            if self.left == 0 {
                self.header[self.have] = bytes[0];
                self.have += 1;
                bytes = &bytes[1..];
                self.begin(&mut seen);
                continue;
            }
            let (segment, rest) = bytes.split_at(self.left.min(bytes.len()));
            bytes = rest;
            self.left -= segment.len();
            if self.header[0] & 8 == 0 {
                let counts = self.messages.feed(segment);
                seen.marks += counts.marks;
                seen.pings += counts.pings;
                seen.frames += u32::from(self.left == 0);
                payload(segment);
            } else if self.is_close() && segment.len() >= 2 {
                seen.close = Some(u16::from_be_bytes([segment[0], segment[1]]));
            }
        }
        seen
    }

    /// Whether the last frame has ended and the next has not begun; of a response, the last message.
    pub(super) fn is_between_frames(&self) -> bool {
        match &self.stream {
            Some(head) => head.matched == HEAD_END.len() && self.messages.is_between_messages(),
            None => self.left == 0 && self.have == 0,
        }
    }

    /// Starts the payload if the header is complete.
    fn begin(&mut self, seen: &mut FrameCounts) {
        let length = self.header[1] & 0x7f;
        let size = match length {
            126 => 4,
            127 => 10,
            _ => 2,
        };
        if self.have < 2 || self.have < size {
            return;
        }
        self.left = match size {
            2 => usize::from(length),
            _ => self.header[2..size].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
        };
        self.have = 0;
        if self.header[0] & 8 == 0 {
            self.messages.begin_frame();
        }
        if self.is_close() {
            seen.close = Some(1005);
        } else if self.left == 0 && self.header[0] & 8 == 0 {
            seen.frames += 1;
        }
    }

    fn is_close(&self) -> bool {
        self.header[0] & 0x0f == 8
    }
}

/// Appends a client's text frame.
pub(super) fn push_text(frame: &mut Vec<u8>, text: &[u8]) {
    push_frame(frame, 0x81, text);
}

/// Appends a client's binary frame.
pub(super) fn push_binary(frame: &mut Vec<u8>, bytes: &[u8]) {
    push_frame(frame, 0x82, bytes);
}

/// Appends a client's frame. The mask is zero: masking protects proxies, and a loopback connection has none.
fn push_frame(frame: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    frame.push(kind);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A server's text frame.
    fn frame(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_text(&mut bytes, text.as_bytes());
        bytes[1] &= 0x7f;
        let header = bytes.len() - text.len();
        bytes.drain(header - 4..header);
        bytes
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn counts_do_not_depend_on_where_the_stream_is_cut(
            frames in prop::collection::vec(prop::collection::vec(line(), 1..5), 1..6),
            cuts in prop::collection::vec(1_usize..900, 1..40),
        ) {
            let lines = || frames.iter().flatten();
            let expected = FrameCounts {
                marks: lines().filter(|line| line.contains('~')).count() as u32,
                pings: lines().filter(|line| *line == "{}").count() as u32,
                frames: frames.len() as u32,
                close: None,
            };
            let texts: Vec<String> = frames.iter().map(|lines| lines.join("\n")).collect();
            let stream: Vec<u8> = texts.iter().flat_map(|text| frame(text)).collect();
            let mut reader = FrameReader::default();
            let mut seen = FrameCounts::default();
            let mut text = Vec::new();
            let mut rest = &stream[..];
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.len().min(cuts.next().copied().unwrap_or(1)));
                rest = after;
                let more = reader.feed(piece, |segment| text.extend_from_slice(segment));
                seen.marks += more.marks;
                seen.pings += more.pings;
                seen.frames += more.frames;
                prop_assert_eq!(more.close, None);
            }
            prop_assert_eq!(seen, expected);
            prop_assert_eq!(text, texts.concat().into_bytes());
        }
    }

    #[test]
    fn streams_have_marks_wherever_they_are_cut() {
        let mut reader = FrameReader::stream(MessageReader::default());
        assert_eq!(reader.feed(b"HTTP/1.1 200 OK\r\n\r\ndata: \"~x", |_| {}).marks, 1);
        assert!(!reader.is_between_frames());
        assert_eq!(reader.feed(b"\"\n\ndata: ~\n\n", |_| {}).marks, 1);
        assert!(reader.is_between_frames());
    }

    #[test]
    fn the_head_of_a_stream_is_no_message() {
        for cut in 0..24 {
            let mut reader = FrameReader::stream(MessageReader::protobuf());
            let response = b"HTTP/1.1 200 OK\r\n\r\n\x03\x22\x01\x00\x00";
            let (first, second) = response.split_at(cut);
            let marks = reader.feed(first, |_| {}).marks + reader.feed(second, |_| {}).marks;
            assert_eq!((marks, reader.is_between_frames()), (1, true), "cut at {cut}");
        }
    }

    #[test]
    fn a_close_gives_its_code() {
        let mut reader = FrameReader::default();
        assert_eq!(reader.feed(&[0x88, 2, 0x0b, 0xc0], |_| {}).close, Some(3008));
        assert_eq!(FrameReader::default().feed(&[0x88, 0], |_| {}).close, Some(1005));
    }
}
