//! Epochs: names of the lives of logs.
//!
//! A log that nothing was written to is kept nowhere: its epoch is *derived*, `<digest>.<period>`. The digest is that
//! of the store's run, a seed that is lost together with the store's data, and the channel; the period counts halves of
//! [`POSITION_TTL`] by the store's clock. The first append stores the epoch, and from then on the log has it.
//!
//! A log stays known for at least [`POSITION_TTL`], two periods, after it was written to. So a log that began in some
//! period is still known at the end of the next one, which gives both rules:
//!
//! - Once a log is forgotten, its channel has a later epoch that does not [continue](continues) the old one. A client
//!   that still holds a position of the old log cannot be mistaken for one that missed nothing.
//! - An epoch derived in the period before belongs to the same life: nothing can have been written and forgotten since.
//!
//! A log that is dropped earlier would break them. One that [`drop_logs`](super::Broker::drop_logs) drops leaves an
//! empty log with a random epoch, which stays known for two periods as well. Of a log that Redis evicts nothing is
//! left; where Redis may evict keys, derived epochs have a third part, `<digest>.<period>.<evictions>`, and an eviction
//! of any key makes all of them new.
//!
//! A client that keeps a derived epoch for longer than two periods (it stayed connected to a quiet channel, or was
//! away) is answered `recovered: false` once and loads what it shows. Without a trace of each log that ever was, the
//! broker cannot know that it missed nothing. The period is therefore long: what is left of a log after its entries
//! takes Redis some 150 bytes.

use std::time::Duration;

use crate::model::{ChannelKind, Epoch, PostId};

/// How long the position (offset and epoch) of a log stays known after its entries went.
pub const POSITION_TTL: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long an epoch is derived for, where positions stay known for `position_ttl`.
pub(super) fn period(position_ttl: Duration) -> Duration {
    (position_ttl / 2).max(Duration::from_millis(1))
}

/// Whether a position of epoch `known` is one of the log that now has the epoch `current`: the two are equal, or
/// derived for the same channel in neighbouring periods without an eviction in between.
pub fn continues(known: &str, current: &str) -> bool {
    let evictions = |epoch| derived_parts(epoch).map(|(_, _, evictions)| evictions);
    known == current || (follows(known, current) && evictions(known) == evictions(current))
}

/// The same for a room that has listened to the channel all the time and heard nothing: evictions between the two do
/// not matter, because there was no entry to evict.
pub fn follows(known: &str, current: &str) -> bool {
    known == current
        || derived_parts(known)
            .zip(derived_parts(current))
            .is_some_and(|(known, current)| known.0 == current.0 && known.1.abs_diff(current.1) <= 1)
}

/// Digest, period and evictions of a derived epoch.
fn derived_parts(epoch: &str) -> Option<(&str, u64, &str)> {
    let (digest, rest) = epoch.split_once('.')?;
    let (period, evictions) = rest.split_once('.').unwrap_or((rest, "0"));
    Some((digest, period.parse().ok()?, evictions))
}

/// The post whose changes the channel carries, if it is one's.
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
