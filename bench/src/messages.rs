//! Counts the messages in the payload of frames, or in the body of a stream.
//!
//! Decoding a message costs more than sending it, so messages are not decoded. In JSON, each delivered item contains
//! [`MARK`] exactly once. The server sends this byte nowhere else, so the number of marks is the number of deliveries.
//! In Protobuf, each message is preceded by its length, which gives the start of the next one; the first byte of a
//! message distinguishes pushes from replies.

/// The byte that each payload of the bench contains once.
pub(super) const MARK: u8 = b'~';
/// The first byte of a Protobuf message with a push: the key of field 4 of `Reply`, which has a length. Pushes have no
/// id, so that no field precedes it.
const PUSH_KEY: u8 = 4 << 3 | 2;

/// The counts for some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MessageCounts {
    /// Deliveries: marks in JSON, pushes in Protobuf.
    pub marks: u32,
    /// Pings: `{}` alone on a line in JSON, a message of length 0 in Protobuf.
    pub pings: u32,
}

/// Reads the messages of one server, split anywhere.
#[derive(Debug)]
pub(super) enum MessageReader {
    /// JSON, one message in a line.
    Json(LineReader),
    /// Protobuf, each message after its length.
    Protobuf(DelimitedReader),
}

impl Default for MessageReader {
    fn default() -> Self {
        Self::Json(LineReader::default())
    }
}

impl MessageReader {
    /// A reader of Protobuf.
    pub(super) fn protobuf() -> Self {
        Self::Protobuf(DelimitedReader::default())
    }

    /// The next bytes begin a frame, and with it a message.
    pub(super) fn begin_frame(&mut self) {
        if let Self::Json(reader) = self {
            *reader = LineReader::default();
        }
    }

    /// Reads the next bytes.
    pub(super) fn feed(&mut self, segment: &[u8]) -> MessageCounts {
        match self {
            Self::Json(reader) => reader.feed(segment),
            Self::Protobuf(reader) => reader.feed(segment),
        }
    }

    /// Whether the last message has ended and the next has not begun.
    pub(super) fn is_between_messages(&self) -> bool {
        match self {
            Self::Json(reader) => reader.last[1] == b'\n',
            Self::Protobuf(reader) => reader.left == 0 && reader.shift == 0,
        }
    }
}

/// Reads lines of JSON.
#[derive(Debug)]
pub(super) struct LineReader {
    /// The last two bytes so far; initially a line break.
    last: [u8; 2],
}

impl Default for LineReader {
    fn default() -> Self {
        Self { last: [0, b'\n'] }
    }
}

impl LineReader {
    fn feed(&mut self, segment: &[u8]) -> MessageCounts {
        if segment.is_empty() {
            return MessageCounts::default();
        }
        MessageCounts { marks: count(segment), pings: self.pings(segment) }
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
            let a = &segment[from..to];
            let b = &segment[from + 1..=to];
            let c = &segment[from + 2..to + 2];
            pings += u32::from(a.iter().zip(b).zip(c).map(|((a, b), c)| is_ping(*a, *b, *c)).sum::<u8>());
        }
        pings
    }
}

/// The number of marks in the segment.
fn count(segment: &[u8]) -> u32 {
    segment.chunks(128).map(|piece| u32::from(piece.iter().map(|byte| u8::from(*byte == MARK)).sum::<u8>())).sum()
}

/// Reads Protobuf messages, each of which follows its length.
#[derive(Debug, Default)]
pub(super) struct DelimitedReader {
    /// The bits of the length so far.
    length: u64,
    /// The number of these bits; 0 if the length has not begun.
    shift: u32,
    /// The number of bytes of the message that are still to come.
    left: usize,
    /// Whether none of its bytes has come.
    is_fresh: bool,
}

impl DelimitedReader {
    fn feed(&mut self, mut bytes: &[u8]) -> MessageCounts {
        let mut counts = MessageCounts::default();
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.left == 0 {
                bytes = rest;
                // Longer lengths than 64 bits do not occur; the shift only must not overflow.
                self.length |= u64::from(byte & 0x7f) << self.shift.min(63);
                self.shift += 7;
                if byte & 0x80 == 0 {
                    self.left = self.length as usize;
                    self.is_fresh = true;
                    counts.pings += u32::from(self.left == 0);
                    (self.length, self.shift) = (0, 0);
                }
                continue;
            }
            counts.marks += u32::from(self.is_fresh && byte == PUSH_KEY);
            self.is_fresh = false;
            let taken = self.left.min(bytes.len());
            bytes = &bytes[taken..];
            self.left -= taken;
        }
        counts
    }
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn pushes_and_pings_are_counted_wherever_the_bytes_are_cut(
            replies in prop::collection::vec(reply(), 1..12),
            cuts in prop::collection::vec(1_usize..900, 1..40),
        ) {
            let bytes: Vec<u8> = replies.iter().flat_map(Reply::encode_length_delimited_to_vec).collect();
            let expected = MessageCounts {
                marks: replies.iter().filter(|reply| reply.push.is_some()).count() as u32,
                pings: replies.iter().filter(|reply| **reply == Reply::default()).count() as u32,
            };
            let mut reader = MessageReader::protobuf();
            let mut seen = MessageCounts::default();
            let mut rest = &bytes[..];
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.len().min(cuts.next().copied().unwrap_or(1)));
                rest = after;
                let more = reader.feed(piece);
                seen.marks += more.marks;
                seen.pings += more.pings;
            }
            prop_assert_eq!(seen, expected);
            prop_assert!(reader.is_between_messages());
        }
    }
}
