//! Logs behind channels: the parameters and results of appends and reads.

use std::time::Duration;

use crate::model::{ChannelKind, Entry, Position, Retention};

/// How long a repeated [idempotency key](Append::idempotency_key) returns the result of the first write.
pub(super) const IDEMPOTENCY_TTL: Duration = Duration::from_secs(300);

/// How long after the last read of the position of a log without a write its readers are expected back.
pub(super) const AWAITED: Duration = Duration::from_secs(3_600);

/// Whether a channel is for those who listen to it: the content of its entries is in the ledger, and the names of such
/// channels are numberless. A write begins its log only if somebody listens, or read its position within [`AWAITED`].
pub(super) fn is_for_listeners(channel: &str) -> bool {
    [ChannelKind::User, ChannelKind::Topic, ChannelKind::Post].iter().any(|kind| kind.id_of(channel).is_some())
}

/// A write to the log of a channel. Creates the log if it does not exist, except of a channel of a profile, topic or
/// post that nobody has listened to for an hour.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// The channel.
    pub channel: &'a str,
    /// The entry to append.
    pub entry: &'a Entry,
    /// How much of the log is kept. The position is kept as long as the entries, and for readers.
    pub retention: Retention,
    /// A repeated key on the same channel within five minutes writes nothing and returns the position of the first
    /// write.
    pub idempotency_key: Option<&'a str>,
    /// A version and its epoch. An entry is written only if its version is greater than the last one of the same epoch;
    /// otherwise the position is returned unchanged.
    pub version: Option<(u64, &'a str)>,
}

/// A write of one entry to the logs of many channels, to each as by [`Append`].
#[derive(Clone, Copy, Debug)]
pub struct Broadcast<'a> {
    /// The channels.
    pub channels: &'a [&'a str],
    /// As in [`Append`].
    pub entry: &'a Entry,
    /// As in [`Append`].
    pub retention: Retention,
    /// As in [`Append`]: each channel has its own result of the first write.
    pub idempotency_key: Option<&'a str>,
    /// As in [`Append`].
    pub version: Option<(u64, &'a str)>,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendOutcome {
    /// The position of the entry. For a publication without a log: offset 0 and an empty epoch; for an entry that was
    /// not written because nobody awaits it: offset 0.
    pub position: Position,
    /// The number of nodes that received the hint; 0 if no node is subscribed, or nothing was written.
    pub receivers: u64,
}

impl AppendOutcome {
    /// The result of a publication without a log.
    pub(super) fn unlogged(receivers: u64) -> Self {
        Self { position: Position { offset: 0, epoch: "".into() }, receivers }
    }
}

/// The part of a log to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Entries after this offset, oldest first, at most this many.
    After(u64, usize),
    /// Entries before this offset (`u64::MAX` for all), newest first, at most this many.
    Before(u64, usize),
}

/// A part of a log, read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The last position of the log at the time of the read.
    pub top: Position,
    /// Offsets and entries in the requested order. Entries of kinds that this version does not know are omitted.
    pub entries: Vec<(u64, Entry)>,
}
