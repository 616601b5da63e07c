//! Epochs identify one life of a log.
//!
//! A log without a write is not stored: its epoch is *derived*, `<digest>.<period>`. The digest is computed from the
//! run of the store, a seed that is lost together with the data of the store, and the channel. The period counts halves
//! of [`POSITION_TTL`] by the clock of the store. The first append stores the epoch, and the log keeps it from then on.
//!
//! The position of a log is kept for at least [`POSITION_TTL`], two periods, after its last write. So a log that was
//! created in one period still exists at the end of the next one. Two rules follow:
//!
//! - After a log has expired, its channel has a later epoch that does not [continue](continues) the old one. A client
//!   that still has a position of the old log cannot be mistaken for one that missed nothing.
//! - An epoch derived in the period before belongs to the same life: no log can have been written and expired since.
//!
//! A log that is dropped earlier would break the rules. Therefore [`drop_logs`](super::Broker::drop_logs) leaves an
//! empty log with a random epoch, which is kept for two periods as well. A log that Redis evicts leaves nothing behind;
//! where Redis may evict keys, derived epochs have a third part, `<digest>.<period>.<evictions>`, and the eviction of
//! any key changes all of them.
//!
//! A client that keeps a derived epoch for longer than two periods (it stayed connected to a quiet channel, or was
//! away) receives `recovered: false` once and reloads its content. The broker keeps no trace of expired logs, so it
//! cannot know that such a client missed nothing. Therefore the period is long. After its entries have expired, a log
//! takes some 150 bytes of Redis.

use std::time::Duration;

use crate::model::{ChannelKind, Epoch, PostId};

/// The time for which the position (offset and epoch) of a log is kept after its entries have expired.
pub const POSITION_TTL: Duration = Duration::from_secs(7 * 24 * 3600);

/// The length of a period, if positions are kept for `position_ttl`.
pub(super) fn period(position_ttl: Duration) -> Duration {
    (position_ttl / 2).max(Duration::from_millis(1))
}

/// Whether a position of epoch `known` belongs to the log that now has the epoch `current`: the two are equal, or
/// derived for the same channel in neighbouring periods without an eviction in between.
pub fn continues(known: &str, current: &str) -> bool {
    let evictions = |epoch| derived_parts(epoch).map(|(_, _, evictions)| evictions);
    known == current || (follows(known, current) && evictions(known) == evictions(current))
}

/// The same for a room that was subscribed to the channel the whole time and received no entry: evictions between the
/// two do not matter, because there was no entry to evict.
pub fn follows(known: &str, current: &str) -> bool {
    known == current
        || derived_parts(known)
            .zip(derived_parts(current))
            .is_some_and(|(known, current)| known.0 == current.0 && known.1.abs_diff(current.1) <= 1)
}

/// The digest, period and evictions of a derived epoch.
fn derived_parts(epoch: &str) -> Option<(&str, u64, &str)> {
    let (digest, rest) = epoch.split_once('.')?;
    let (period, evictions) = rest.split_once('.').unwrap_or((rest, "0"));
    Some((digest, period.parse().ok()?, evictions))
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
        for (known, current) in [("a.7", "a.7"), ("a.7", "a.8"), ("a.8", "a.7"), ("abc", "abc"), ("", "")] {
            assert!(continues(known, current), "{known} {current}");
        }
        for (known, current) in [("a.7.3", "a.7.3"), ("a.7.3", "a.8.3")] {
            assert!(continues(known, current) && follows(known, current), "{known} {current}");
        }
        for (known, current) in [("a.7", "a.7.3"), ("a.7.3", "a.7.4"), ("a.7.3", "a.8")] {
            assert!(!continues(known, current) && follows(known, current), "{known} {current}");
        }
        assert!(!follows("a.7", "a.9.1") && !follows("a.7", "b.7.1"));
        let others =
            [("a.7", "a.9"), ("a.7", "b.7"), ("a.7", "a7"), ("abc", "abd"), ("a.x", "a.y"), ("_", "a.7"), ("", "a.7")];
        for (known, current) in others {
            assert!(!continues(known, current), "{known} {current}");
        }
    }
}
