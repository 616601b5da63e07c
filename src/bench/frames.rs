//! Counts the deliveries in the bytes that a server sends.
//!
//! Decoding a message costs more than sending it, so messages are not decoded. Each delivered item contains [`MARK`]
//! exactly once. The server sends this byte nowhere else, so the number of marks is the number of deliveries, wherever
//! reads and frames split the stream.

/// The byte that each payload of the bench contains once.
pub(super) const MARK: u8 = b'~';

/// The counts for some bytes of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameCounts {
    /// Deliveries.
    pub marks: u32,
    /// The server's pings, each of which requires a pong: `{}` alone on a line.
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
    /// The last two bytes of the payload so far; initially a line break.
    last: [u8; 2],
}

impl FrameReader {
    /// Reads the next bytes of the stream, and passes the text in them to `payload`.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut payload: impl FnMut(&[u8])) -> FrameCounts {
        let mut seen = FrameCounts::default();
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
                seen.marks += count(segment);
                seen.pings += self.pings(segment);
                seen.frames += u32::from(self.left == 0);
                payload(segment);
            } else if self.is_close() && segment.len() >= 2 {
                seen.close = Some(u16::from_be_bytes([segment[0], segment[1]]));
            }
        }
        seen
    }

    /// Whether the last frame has ended and the next has not begun.
    pub(super) fn is_between_frames(&self) -> bool {
        self.left == 0 && self.have == 0
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
        self.last = [0, b'\n'];
        if self.is_close() {
            seen.close = Some(1005);
        } else if self.left == 0 && self.header[0] & 8 == 0 {
            seen.frames += 1;
        }
    }

    fn is_close(&self) -> bool {
        self.header[0] & 0x0f == 8
    }

    /// The number of times that `{}` begins a line and ends within the segment.
    fn pings(&mut self, segment: &[u8]) -> u32 {
        let is_ping = |a: u8, b: u8, c: u8| u8::from((a == b'\n') & (b == b'{') & (c == b'}'));
        let mut pings = u32::from(is_ping(self.last[0], self.last[1], segment[0]));
        let Some(second) = segment.get(1) else {
            self.last = [self.last[1], segment[0]];
            return pings;
        };
        pings += u32::from(is_ping(self.last[1], segment[0], *second));
        self.last = [segment[segment.len() - 2], segment[segment.len() - 1]];
        // Three overlapping slices, in chunks whose sum fits a byte: the compiler vectorises the loop.
        let triples = segment.len() - 2;
        for from in (0..triples).step_by(128) {
            let to = triples.min(from + 128);
            let (a, b, c) = (&segment[from..to], &segment[from + 1..=to], &segment[from + 2..to + 2]);
            pings += u32::from(a.iter().zip(b).zip(c).map(|((a, b), c)| is_ping(*a, *b, *c)).sum::<u8>());
        }
        pings
    }
}

/// The number of marks in the segment.
fn count(segment: &[u8]) -> u32 {
    segment.chunks(128).map(|piece| u32::from(piece.iter().map(|byte| u8::from(*byte == MARK)).sum::<u8>())).sum()
}

/// Appends a client's text frame. The mask is zero: masking protects proxies, and a loopback connection has none.
pub(super) fn push_text(frame: &mut Vec<u8>, text: &[u8]) {
    frame.push(0x81);
    match text.len() {
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
    frame.extend_from_slice(text);
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
            let (mut reader, mut seen, mut text) = (FrameReader::default(), FrameCounts::default(), Vec::new());
            let (mut rest, mut cuts) = (&stream[..], cuts.iter().cycle());
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
    fn a_close_gives_its_code() {
        let mut reader = FrameReader::default();
        assert_eq!(reader.feed(&[0x88, 2, 0x0b, 0xc0], |_| {}).close, Some(3008));
        assert_eq!(FrameReader::default().feed(&[0x88, 0], |_| {}).close, Some(1005));
    }
}
