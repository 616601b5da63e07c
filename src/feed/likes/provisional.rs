//! Counts that include likes acknowledged on this node but not settled yet.
//!
//! The settled count of an object has the settled offset of its partition. A like acknowledged here is added to the
//! count until the settled offset reaches it. Each like is therefore counted once, independent of where and when it is
//! settled.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::broker::QueueOffset;
use crate::feed::caching::{GenerationalCache, RequestCoalescer};
use crate::model::{ContentId, Tally};

/// Objects with a cached count.
const MAX_OBJECTS: usize = 100_000;

/// How long a count is cached after the last settlement. This limits how long a node that missed a settlement can show
/// a wrong count.
const TTL: Duration = Duration::from_secs(30);

/// The cached counts.
pub(super) struct ProvisionalCounts {
    known: GenerationalCache<ContentId, ProvisionalCount>,
    /// Cache misses that wait for a fetch.
    pub(super) misses: RequestCoalescer<ContentId>,
}

/// The count of one object.
#[derive(Clone)]
pub(super) struct ProvisionalCount(Arc<Mutex<CachedCount>>);

struct CachedCount {
    tally: Tally,
    /// As far as this node knows, the tally includes everything up to this offset.
    settled: Option<(u16, QueueOffset)>,
    /// Likes acknowledged here and not in the tally: the offset of each, and its change of the count.
    pending: VecDeque<(QueueOffset, i64)>,
    /// The sum of the pending changes.
    difference: i64,
}

impl ProvisionalCounts {
    pub(super) fn new() -> Self {
        Self { known: GenerationalCache::new(MAX_OBJECTS, TTL), misses: RequestCoalescer::new() }
    }

    pub(super) fn get(&self, object: ContentId) -> Option<ProvisionalCount> {
        self.known.get(&object)
    }

    /// Adds a count loaded from a store, unless the cache has one.
    pub(super) fn insert(&self, object: ContentId, tally: Tally) -> ProvisionalCount {
        self.known.get_or_insert(object, || {
            ProvisionalCount(Arc::new(Mutex::new(CachedCount {
                tally,
                settled: None,
                pending: VecDeque::new(),
                difference: 0,
            })))
        })
    }

    pub(super) fn clear(&self) {
        self.known.clear();
    }

    /// The settled tally of an object, if it is cached.
    pub(super) fn tally(&self, object: ContentId) -> Option<Tally> {
        self.known.get(&object).map(|known| known.0.lock().tally)
    }

    /// Records that a partition was settled up to an offset, on this node or another, with the new tally of an object.
    pub(super) fn settle(&self, partition: u16, through: QueueOffset, object: ContentId, tally: Tally) {
        if let Some(known) = self.known.keep(&object) {
            known.0.lock().settle(partition, through, tally);
        }
    }
}

impl ProvisionalCount {
    /// Records an acknowledged like. Returns the count that includes it.
    pub(super) fn accept(&self, partition: u16, place: QueueOffset, difference: i64) -> u64 {
        let mut count = self.0.lock();
        // The like may be settled already.
        let settled = count.settled.is_some_and(|(of, through)| of == partition && place <= through);
        if difference != 0 && !settled {
            count.pending.push_back((place, difference));
            count.difference += difference;
        }
        count.likes()
    }
}

impl CachedCount {
    fn settle(&mut self, partition: u16, place: QueueOffset, tally: Tally) {
        if tally.version >= self.tally.version {
            self.tally = tally;
        }
        // A late message, or one about a change outside the queue, does not advance the settled offset.
        if self.settled.is_none_or(|(of, through)| of != partition || through < place) {
            self.settled = Some((partition, place));
        }
        // Replies to one append arrive in any order, so the offsets are only nearly sorted.
        let pending = &mut self.pending;
        let difference = &mut self.difference;
        pending.retain(|(at, by)| {
            let waits = *at > place;
            *difference -= if waits { 0 } else { *by };
            waits
        });
    }

    fn likes(&self) -> u64 {
        self.tally.likes.saturating_add_signed(self.difference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PostId;

    const POST: ContentId = ContentId::Post(PostId(7));

    fn at(major: u64) -> QueueOffset {
        QueueOffset { major, minor: 0 }
    }

    fn settle(counts: &ProvisionalCounts, through: u64, likes: u64, version: u64) {
        counts.settle(0, at(through), POST, Tally { likes, comments: 0, version });
    }

    #[test]
    fn likes_count_once_before_and_after_settling() {
        let counts = ProvisionalCounts::new();
        let known = counts.insert(POST, Tally { likes: 10, comments: 0, version: 4 });
        assert_eq!(known.accept(0, at(1), 1), 11);
        assert_eq!(known.accept(0, at(2), 1), 12);
        settle(&counts, 1, 11, 5);
        assert_eq!(known.accept(0, at(3), 0), 12);
        settle(&counts, 3, 12, 6);
        // This like was settled before its append was answered here.
        assert_eq!(known.accept(0, at(3), 1), 12);
        // A late message changes nothing.
        settle(&counts, 2, 11, 5);
        assert_eq!(known.accept(0, at(4), -1), 11);
    }
}
