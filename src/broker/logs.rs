//! Logs behind channels: what is appended and read.

use std::time::Duration;

use crate::model::{Entry, Position, Retention};

/// How long a repeated [idempotency key](Append::idempotency_key) is answered as before.
pub(super) const IDEMPOTENCY_TTL: Duration = Duration::from_secs(300);

/// One write to a log that comes into being with it.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// Where to.
    pub channel: &'a str,
    /// What.
    pub entry: &'a Entry,
    /// How much of the log is kept. The position outlives the entries by [`POSITION_TTL`](super::POSITION_TTL).
    pub retention: Retention,
    /// The same key again within five minutes on this channel changes nothing and answers as the first did.
    pub idempotency_key: Option<&'a str>,
    /// A version and the life it belongs to: an entry whose version is not greater than the last known one of
    /// the same life is not written (and the answer is the position as it was).
    pub version: Option<(u64, &'a str)>,
}

/// What came of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Where the entry is. Of an unlogged publication: offset 0 and an empty epoch.
    pub position: Position,
    /// How many nodes were told: 0 means that nobody is connected. 0 also where nothing was written.
    pub receivers: u64,
}

impl Appended {
    /// What came of a publication that is in no log.
    pub(super) fn unlogged(receivers: u64) -> Self {
        Self { position: Position { offset: 0, epoch: "".into() }, receivers }
    }
}

/// Which part of a log to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Oldest first, only what lies after this offset, at most so many.
    After(u64, usize),
    /// Newest first, only what lies before this offset (`u64::MAX` for all), at most so many.
    Before(u64, usize),
}

/// A part of a log, read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The log's last position at that moment.
    pub top: Position,
    /// Offsets and entries, in the order asked for. Entries of a kind this version does not know are absent.
    pub entries: Vec<(u64, Entry)>,
}
