//! A like in its queue format: `+ p17 1767225600000 ann` for a like, `-` for an unlike.

use std::collections::HashMap;

use bytes::Bytes;

use crate::broker::{QueueOffset, QueuedEntry};
use crate::model::{ContentId, Epoch, LikeChange, UserId};

/// The longest content of an entry that is quarantined, in bytes.
const MAX_CONTENT: usize = 1_000;

/// A position in the queue, as the ledger stores it.
pub(super) fn position(epoch: &Epoch, place: QueueOffset) -> String {
    format!("{epoch} {place}")
}

/// The queue offset of a stored position; `None` if it belongs to another epoch.
pub(super) fn parse_position(position: &str, epoch: &Epoch) -> Option<QueueOffset> {
    let (of, place) = position.split_once(' ')?;
    (of == &**epoch).then(|| QueueOffset::parse(place)).flatten()
}

pub(super) fn encode(change: &LikeChange) -> Bytes {
    let LikeChange { user, object, liked, at } = change;
    let sign = if *liked { '+' } else { '-' };
    format!("{sign} {} {at} {}", object.to_text(), user.shown()).into()
}

/// Decodes the output of [`encode`]. `None` for other content, for example an entry of a newer version.
pub(super) fn decode(body: &[u8]) -> Option<LikeChange> {
    let mut parts = std::str::from_utf8(body).ok()?.splitn(4, ' ');
    let liked = match parts.next()? {
        "+" => true,
        "-" => false,
        _ => return None,
    };
    let object = ContentId::parse(parts.next()?)?;
    let at = parts.next()?.parse().ok()?;
    Some(LikeChange { user: UserId::parse(parts.next()?)?, object, liked, at })
}

/// The content of an entry, for the quarantine.
pub(super) fn text(item: &QueuedEntry) -> String {
    String::from_utf8_lossy(&item.body[..item.body.len().min(MAX_CONTENT)]).into_owned()
}

/// The last state of each user and object, in the order of arrival, and the time at which the oldest entry was
/// acknowledged.
pub(super) fn merge(items: &[QueuedEntry]) -> (Vec<LikeChange>, Option<u64>) {
    let mut last: HashMap<(UserId, ContentId), usize> = HashMap::new();
    let mut changes: Vec<Option<LikeChange>> = Vec::with_capacity(items.len());
    let mut oldest: Option<u64> = None;
    for item in items {
        let Some(change) = decode(&item.body) else {
            continue;
        };
        oldest = Some(oldest.map_or(change.at, |oldest| oldest.min(change.at)));
        let key = (change.user.clone(), change.object);
        if let Some(before) = last.insert(key, changes.len()) {
            changes[before] = None;
        }
        changes.push(Some(change));
    }
    (changes.into_iter().flatten().collect(), oldest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::QueueOffset;
    use crate::model::PostId;

    #[test]
    fn likes_round_trip_through_the_queue() {
        for liked in [true, false] {
            let user = UserId::parse("ann.b-c_d").unwrap();
            let change = LikeChange { user, object: ContentId::Post(PostId(17)), liked, at: 1_767_225_600_000 };
            assert_eq!(decode(&encode(&change)), Some(change));
        }
        for nothing in [&b""[..], b"+ p1 2", b"* p1 2 ann", b"+ x1 2 ann", b"+ p1 2 a b"] {
            assert_eq!(decode(nothing), None);
        }
    }

    #[test]
    fn the_last_state_of_each_user_and_object_is_kept_in_order() {
        let change = |user: &str, post, liked, at| LikeChange {
            user: UserId::parse(user).unwrap(),
            object: ContentId::Post(PostId(post)),
            liked,
            at,
        };
        let all = [
            change("ann", 1, true, 5),
            change("bo", 1, true, 4),
            change("ann", 1, false, 6),
            change("ann", 2, true, 7),
            change("ann", 1, true, 8),
        ];
        let item = |(major, change)| QueuedEntry { place: QueueOffset { major, minor: 0 }, body: encode(change) };
        let items: Vec<QueuedEntry> = (1..).zip(&all).map(item).collect();
        let (merged, oldest) = merge(&items);
        assert_eq!(merged, [all[1].clone(), all[3].clone(), all[4].clone()]);
        assert_eq!(oldest, Some(4));
    }
}
