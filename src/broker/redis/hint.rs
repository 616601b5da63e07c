//! The messages of pub/sub.
//!
//! | text | meaning |
//! |---|---|
//! | `0-<offset> <epoch> <kind><body>` | an entry and its position in the log |
//! | `-<kind><body>` | an entry without a log |
//! | `j<json>`, `l<json>` | a join, a leave |

use bytes::Bytes;

use crate::broker::PresenceEvent;
use crate::model::{Entry, Position};

/// One message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hint {
    Entry(Option<Position>, Entry),
    PresenceEvent(PresenceEvent),
}

impl Hint {
    /// `None` if it is nothing this version knows.
    pub(super) fn decode(payload: &Bytes) -> Option<Self> {
        Some(match payload.first()? {
            b'0' => {
                let mut parts = payload.splitn(3, |byte| *byte == b' ');
                let offset = std::str::from_utf8(parts.next()?.strip_prefix(b"0-")?).ok()?.parse().ok()?;
                let epoch = std::str::from_utf8(parts.next()?).ok()?.into();
                let entry = decode_entry(&payload.slice_ref(parts.next()?))?;
                Self::Entry(Some(Position { offset, epoch }), entry)
            }
            b'-' => Self::Entry(None, decode_entry(&payload.slice(1..))?),
            b'j' => Self::PresenceEvent(PresenceEvent::Join(payload.slice(1..))),
            b'l' => Self::PresenceEvent(PresenceEvent::Leave(payload.slice(1..))),
            _ => return None,
        })
    }
}

fn decode_entry(text: &Bytes) -> Option<Entry> {
    Entry::decode(*text.first()?, text.slice(1..))
}

/// Encodes an entry without a log.
pub(super) fn unlogged(entry: &Entry) -> Vec<u8> {
    let (kind, body) = entry.encode();
    [&[b'-', kind][..], &body[..]].concat()
}

/// Encodes a join or leave.
pub(super) fn presence_event(event: &PresenceEvent) -> Vec<u8> {
    match event {
        PresenceEvent::Join(info) => [b"j", &info[..]].concat(),
        PresenceEvent::Leave(info) => [b"l", &info[..]].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PostId;

    #[test]
    fn hints_round_trip() {
        let entry = Entry::Data(Bytes::from_static(b"\"data\":\"a b\""));
        assert_eq!(Hint::decode(&unlogged(&entry).into()), Some(Hint::Entry(None, entry.clone())));
        let here = Position { offset: 12, epoch: "abc".into() };
        let payload = Bytes::from_static(b"0-12 abc d\"data\":\"a b\"");
        assert_eq!(Hint::decode(&payload), Some(Hint::Entry(Some(here.clone()), entry)));
        let payload = Bytes::from_static(b"0-12 abc p7");
        assert_eq!(Hint::decode(&payload), Some(Hint::Entry(Some(here), Entry::Post(PostId(7)))));
        for it in [PresenceEvent::Join(Bytes::from_static(b"{}")), PresenceEvent::Leave(Bytes::new())] {
            assert_eq!(Hint::decode(&presence_event(&it).into()), Some(Hint::PresenceEvent(it)));
        }
        for nonsense in ["", "-", "0", "0-1", "0-1 a", "0-1 a ", "0-x a p1", "?"] {
            assert_eq!(Hint::decode(&Bytes::from_static(nonsense.as_bytes())), None, "{nonsense:?}");
        }
    }
}
