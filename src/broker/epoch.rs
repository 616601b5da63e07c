//! Epochs identify one life of a log.
//!
//! A log without a write is not stored: its epoch is *derived*, `<digest>.<period>.<lives>`. The digest is computed
//! from the run of the store, a seed that is lost together with the data of the store, and the channel. The period
//! counts halves of [`POSITION_TTL`] by the clock of the store. The lives are the number of logs that were begun in the
//! group of the channel: one of 65,536, by a hash of its name. The first append stores the epoch, which the log keeps
//! from then on, and ends it: no later log of the channel has it, whatever becomes of this one.
//!
//! So names that clients choose leave nothing in the store but two numbers for each group:
//!
//! - The metadata of a log expires with its entries, or [`READER_TTL`] after its position was last read, if that is
//!   later. A client that still has a position of the old log cannot be mistaken for one that missed nothing.
//! - A write to a channel of the feed that nobody listens to begins no log; it only ends the derived epoch. It does
//!   begin one if the position of a channel of the group was read within an hour. Nodes read positions when clients
//!   join, and every 30 s: clients that lost their connection, and nodes that lost theirs, find what they missed.
//!
//! A client that keeps a derived epoch while another log of the group is begun receives `recovered: false` once and
//! reloads its content; so does one that keeps it for longer than two periods. A node whose rooms follow such a channel
//! [carries on](follows).
//!
//! [`drop_logs`](super::Broker::drop_logs) leaves an empty log with a random epoch, which is kept for two periods.

use std::time::Duration;

use crate::model::{ChannelKind, Epoch, PostId};

/// The least time for which the position (offset and epoch) of a log is kept for its readers: some intervals in which
/// rooms are compared with their logs.
pub(crate) const READER_TTL: Duration = Duration::from_secs(300);

/// Two periods of derived epochs.
pub const POSITION_TTL: Duration = Duration::from_secs(7 * 24 * 3600);

/// The length of a period, if positions are kept for `position_ttl`.
pub(super) fn period(position_ttl: Duration) -> Duration {
    (position_ttl / 2).max(Duration::from_millis(1))
}

/// Whether a position of epoch `known` belongs to the log that now has the epoch `current`: the two are equal, or
/// derived for the same channel in neighbouring periods, and no log was begun in between.
pub fn continues(known: &str, current: &str) -> bool {
    let lives = |epoch| derived_parts(epoch).map(|(_, _, lives)| lives);
    known == current || (follows(known, current) && lives(known) == lives(current))
}

/// The same for a room that was subscribed to the channel the whole time and received no entry: the logs that were
/// begun between the two are those of other channels.
pub fn follows(known: &str, current: &str) -> bool {
    known == current
        || derived_parts(known)
            .zip(derived_parts(current))
            .is_some_and(|(known, current)| known.0 == current.0 && known.1.abs_diff(current.1) <= 1)
}

/// The digest, period and lives of a derived epoch.
fn derived_parts(epoch: &str) -> Option<(&str, u64, &str)> {
    let (digest, rest) = epoch.split_once('.')?;
    let (period, lives) = rest.split_once('.')?;
    Some((digest, period.parse().ok()?, lives))
}

/// The post of a channel that carries the changes of a post.
pub(super) fn posted_on(channel: &str) -> Option<PostId> {
    ChannelKind::Post.id_of(channel).and_then(PostId::parse)
}

/// A new epoch: 8 random letters and digits.
pub(super) fn new_epoch() -> Epoch {
    const ALPHABET: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";
    (0..8).map(|_| ALPHABET[rand::random_range(0..ALPHABET.len())] as char).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_epoch_continues_its_neighbours_only() {
        for (known, current) in [("a.7.3", "a.7.3"), ("a.7.3", "a.8.3"), ("a.8.3", "a.7.3"), ("abc", "abc"), ("", "")] {
            assert!(continues(known, current) && follows(known, current), "{known} {current}");
        }
        for (known, current) in [("a.7.0", "a.7.3"), ("a.7.3", "a.7.4"), ("a.7.3", "a.8.0")] {
            assert!(!continues(known, current) && follows(known, current), "{known} {current}");
        }
        assert!(!follows("a.7.1", "a.9.1") && !follows("a.7.1", "b.7.1"));
        let others = [
            ("a.7.0", "a.9.0"),
            ("a.7.0", "b.7.0"),
            ("a.7", "a.8"),
            ("abc", "abd"),
            ("a.x.0", "a.y.0"),
            ("_", "a.7.0"),
        ];
        for (known, current) in others {
            assert!(!continues(known, current), "{known} {current}");
        }
    }
}
