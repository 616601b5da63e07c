//! Likes that this node has acknowledged and that are not settled yet: in the counts, and for the clients that sent
//! them.
//!
//! The settled count of an object has the settled offset of its partition. A like acknowledged here is added to the
//! count until the settled offset reaches it. Each like is therefore counted once, independent of where and when it is
//! settled.
//!
//! Another node may settle a like; settlers publish their progress to all nodes. Each node tracks the likes of its own
//! clients by queue offset, so the queue holds nothing about clients. The gateway informs only the connection that sent
//! the like.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::broker::{QueueOffset, SettlementEvent};
use crate::feed::caching::{GenerationalCache, RequestCoalescer};
use crate::model::{ContentId, LikeChange, Tally, UserId};

/// Objects with a cached count.
const MAX_OBJECTS: usize = 100_000;

/// How long a count is cached after the last settlement. This limits how long a node that missed a settlement can show
/// a wrong count.
const TTL: Duration = Duration::from_secs(30);

/// The maximal number of pending likes, in all partitions. Clients are not informed about further likes: these are
/// settled anyway, and their acknowledgements stay valid.
const MAX_PENDING: usize = 200_000;

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

/// The final state of an object that a client of this node liked or unliked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SettledLike {
    /// The client of this node that sent the requests.
    pub(crate) client: Arc<str>,
    /// The user of that client.
    pub(crate) user: UserId,
    /// The post or comment.
    pub(crate) object: ContentId,
    /// Whether the user likes it now, according to the last request of any of the user's clients.
    pub(crate) liked: bool,
    /// The number of likes and unlikes of this client that this settlement covers, at least 1. A client that sent more
    /// expects another settlement.
    pub(crate) requests: u64,
    /// The counts of the object.
    pub(crate) tally: Tally,
}

/// The likes of clients of this node that are not settled.
pub(super) struct PendingLikes {
    /// For each partition, the likes in the order of offsets.
    partitions: Vec<Mutex<VecDeque<PendingLike>>>,
    /// The maximal number of likes kept for each partition.
    capacity: usize,
}

struct PendingLike {
    place: QueueOffset,
    client: Arc<str>,
    change: LikeChange,
}

impl PendingLikes {
    pub(super) fn new(partitions: u16) -> Self {
        let capacity = MAX_PENDING / usize::from(partitions.max(1));
        Self { partitions: (0..partitions).map(|_| Mutex::default()).collect(), capacity }
    }

    /// Adds a client's like that is in the queue. Likes of a partition are added in the order of their offsets.
    pub(super) fn add(&self, partition: u16, place: QueueOffset, client: Arc<str>, change: LikeChange) {
        let mut pending = self.partitions[usize::from(partition)].lock();
        if pending.len() < self.capacity {
            pending.push_back(PendingLike { place, client, change });
        }
    }

    /// Drops all likes, because the progress of the partitions is unknown.
    pub(super) fn clear(&self) {
        self.partitions.iter().for_each(|pending| *pending.lock() = VecDeque::new());
    }

    /// Takes the likes that a settlement covers. Returns one result for each client and object, with the last state,
    /// covering all requests. Reverted likes have no result here: all devices of the user get the revert.
    pub(super) fn settle(&self, settled: &SettlementEvent, counts: &ProvisionalCounts) -> Vec<SettledLike> {
        let Some(pending) = self.partitions.get(usize::from(settled.partition)) else { return Vec::new() };
        let done: Vec<PendingLike> = {
            let mut pending = pending.lock();
            let covered = pending.partition_point(|like| like.place <= settled.through);
            pending.drain(..covered).collect()
        };
        let reverted: HashSet<(&UserId, ContentId)> =
            settled.reverted.iter().map(|(user, object)| (user, *object)).collect();
        let last: HashMap<(&UserId, ContentId), bool> =
            done.iter().map(|like| ((&like.change.user, like.change.object), like.change.liked)).collect();
        let mut requests: HashMap<(&Arc<str>, ContentId), u64> = HashMap::new();
        for PendingLike { client, change, .. } in &done {
            *requests.entry((client, change.object)).or_default() += 1;
        }
        let mut likes = Vec::with_capacity(requests.len());
        for PendingLike { client, change, .. } in &done {
            let user = &change.user;
            let object = change.object;
            // The first like of a client and object removes the entry.
            let Some(requests) = requests.remove(&(client, object)).filter(|_| !reverted.contains(&(user, object)))
            else {
                continue;
            };
            // The event may not include a like that was settled before this node knew its offset.
            let tally = settled.tallies.get(&object).copied().or_else(|| counts.tally(object));
            let Some((liked, tally)) = last.get(&(user, object)).copied().zip(tally) else { continue };
            likes.push(SettledLike { client: Arc::clone(client), user: user.clone(), object, liked, requests, tally });
        }
        likes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PostId;

    const POST: ContentId = ContentId::Post(PostId(7));

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

    fn at(major: u64) -> QueueOffset {
        QueueOffset { major, minor: 0 }
    }

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    fn post(id: u64) -> ContentId {
        ContentId::Post(PostId(id))
    }

    fn change(name: &str, id: u64, liked: bool) -> LikeChange {
        LikeChange { user: user(name), object: post(id), liked, at: 1 }
    }

    #[test]
    fn each_client_gets_the_last_state_once() {
        let pending = PendingLikes::new(2);
        let counts = ProvisionalCounts::new();
        pending.add(1, at(1), "phone".into(), change("ann", 7, true));
        pending.add(1, at(2), "phone".into(), change("ann", 7, true));
        pending.add(1, at(3), "desk".into(), change("ann", 7, false));
        pending.add(1, at(4), "bo's".into(), change("bo", 8, true));
        pending.add(1, at(5), "late".into(), change("cy", 7, true));
        pending.add(0, at(1), "other".into(), change("dee", 7, true));
        let tally = |likes| Tally { likes, comments: 0, version: 3 };
        let settled = SettlementEvent {
            partition: 1,
            through: at(4),
            tallies: HashMap::from([(post(7), tally(4)), (post(8), tally(0))]),
            reverted: vec![(user("bo"), post(8))],
            likes: Vec::new(),
        };
        let expected = [("phone", 2), ("desk", 1)].map(|(client, requests)| SettledLike {
            client: client.into(),
            user: user("ann"),
            object: post(7),
            liked: false,
            requests,
            tally: tally(4),
        });
        assert_eq!(pending.settle(&settled, &counts), expected);
        assert_eq!(pending.settle(&settled, &counts), []);
        // The next event does not include that object, so the cached count is used.
        let next = SettlementEvent { partition: 1, through: at(5), ..SettlementEvent::default() };
        counts.insert(post(7), tally(5));
        let likes = pending.settle(&next, &counts);
        assert_eq!(likes.iter().map(|like| (&*like.client, like.tally.likes)).collect::<Vec<_>>(), [("late", 5)]);
    }

    #[test]
    fn pending_likes_are_bounded() {
        let pending = PendingLikes::new(200);
        let counts = ProvisionalCounts::new();
        for n in 0..=pending.capacity as u64 {
            pending.add(0, at(n + 1), n.to_string().into(), change("ann", n, true));
        }
        counts.insert(post(pending.capacity as u64), Tally::default());
        let all = SettlementEvent { through: at(u64::MAX), ..SettlementEvent::default() };
        assert_eq!(pending.settle(&all, &counts), []);
    }
}
