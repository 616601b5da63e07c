//! Receipts: clients of this node whose likes are not settled yet get one when they are.
//!
//! Another node may settle a like; settlers publish to all nodes how far they are. Each node knows the likes of its own clients
//! by their offsets in the queue, so the queue holds nothing about clients, and a receipt goes to the connection that sent the
//! like and to no other.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::provisional::ProvisionalCounts;
use super::settlement::SettlementEvent;
use crate::broker::Place;
use crate::model::{LikeChange, Object, Tally, UserId};

/// Likes that can wait for receipts, in all partitions. Clients of further likes get no receipt: the likes are settled all the
/// same, and their acknowledgements stay true.
const MAX_PENDING: usize = 200_000;

/// Publications of one message: a frame holds at most that many.
const MAX_PUBLICATIONS: usize = 16;

/// A message to one client alone.
#[derive(Debug, PartialEq, Eq)]
pub struct DirectMessage {
    /// The client of this node.
    pub client: Arc<str>,
    /// The channel.
    pub channel: String,
    /// The members of each publication, 1 to 16 of them.
    pub publications: Vec<Bytes>,
}

/// The likes of clients of this node that are not settled.
pub(super) struct PendingReceipts {
    /// By partition, each in the order of offsets.
    waiting: Vec<Mutex<VecDeque<PendingReceipt>>>,
    /// The most that wait in each.
    capacity: usize,
}

struct PendingReceipt {
    place: Place,
    client: Arc<str>,
    change: LikeChange,
}

impl PendingReceipts {
    pub(super) fn new(partitions: u16) -> Self {
        let waiting = (0..partitions).map(|_| Mutex::default()).collect();
        Self { waiting, capacity: MAX_PENDING / usize::from(partitions.max(1)) }
    }

    /// A client's like is in the queue. Likes of a partition are added in the order of their offsets.
    pub(super) fn wait(&self, partition: u16, place: Place, client: Arc<str>, change: LikeChange) {
        let mut waiting = self.waiting[usize::from(partition)].lock();
        if waiting.len() < self.capacity {
            waiting.push_back(PendingReceipt { place, client, change });
        }
    }

    /// Drops all: it is unknown how far the partitions are.
    pub(super) fn clear(&self) {
        self.waiting.iter().for_each(|waiting| *waiting.lock() = VecDeque::new());
    }

    /// Takes the likes that a settlement covers. Returns their receipts: one message per object with the last state, covering all
    /// pending requests. Reverted likes have no receipt; all devices of the user get the revert. The receipts of one client are
    /// sent together, because waking and writing to a connection is most of their cost.
    pub(super) fn settle(&self, settled: &SettlementEvent, counts: &ProvisionalCounts) -> Vec<DirectMessage> {
        let Some(waiting) = self.waiting.get(usize::from(settled.partition)) else { return Vec::new() };
        let done: Vec<PendingReceipt> = {
            let mut waiting = waiting.lock();
            let many = waiting.partition_point(|ask| ask.place <= settled.through);
            waiting.drain(..many).collect()
        };
        let reverted: HashSet<(&UserId, Object)> =
            settled.reverted.iter().map(|(user, object)| (user, *object)).collect();
        let last: HashMap<(&UserId, Object), bool> =
            done.iter().map(|ask| ((&ask.change.user, ask.change.object), ask.change.liked)).collect();
        let mut asks: HashMap<(&Arc<str>, Object), u64> = HashMap::new();
        for PendingReceipt { client, change, .. } in &done {
            *asks.entry((client, change.object)).or_default() += 1;
        }
        let mut messages: Vec<DirectMessage> = Vec::new();
        let mut of_client: HashMap<&Arc<str>, usize> = HashMap::new();
        for PendingReceipt { client, change, .. } in &done {
            let key = (&change.user, change.object);
            // Removed with the first of them.
            let Some(asks) = asks.remove(&(client, change.object)).filter(|_| !reverted.contains(&key)) else {
                continue;
            };
            // A like that was settled before this node knew its offset is not in this event.
            let tally = settled.tallies.get(&change.object).copied().or_else(|| counts.tally(change.object));
            let Some((liked, tally)) = last.get(&key).copied().zip(tally) else { continue };
            let publication = publication(change.object, liked, asks, tally);
            match of_client.get(client).and_then(|last| messages.get_mut(*last)) {
                Some(message) if message.publications.len() < MAX_PUBLICATIONS => {
                    message.publications.push(publication);
                }
                _ => {
                    of_client.insert(client, messages.len());
                    let (client, channel) = (Arc::clone(client), format!("notifications:{}", change.user));
                    messages.push(DirectMessage { client, channel, publications: vec![publication] });
                }
            }
        }
        messages
    }
}

/// The receipt has the number of likes and unlikes that it covers, so that a client that sent several knows whether another
/// receipt follows.
fn publication(object: Object, liked: bool, asks: u64, tally: Tally) -> Bytes {
    let (id, Tally { likes, version, .. }) = (object.number(), tally);
    format!(
        r#""data":{{"type":"like.settled","id":{id},"liked":{liked},"asks":{asks},"likes":{likes},"version":{version}}}"#
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PostId;

    fn at(major: u64) -> Place {
        Place { major, minor: 0 }
    }

    fn change(user: &str, post: u64, liked: bool) -> LikeChange {
        LikeChange { user: UserId::parse(user).unwrap(), object: Object::Post(PostId(post)), liked, at: 1 }
    }

    #[test]
    fn each_client_gets_one_receipt_with_the_last_state() {
        let (asks, counts) = (PendingReceipts::new(2), ProvisionalCounts::new());
        asks.wait(1, at(1), "phone".into(), change("ann", 7, true));
        asks.wait(1, at(2), "phone".into(), change("ann", 7, true));
        asks.wait(1, at(3), "desk".into(), change("ann", 7, false));
        asks.wait(1, at(4), "bo's".into(), change("bo", 8, true));
        asks.wait(1, at(5), "late".into(), change("cy", 7, true));
        asks.wait(0, at(1), "other".into(), change("dee", 7, true));
        let tally = |likes| Tally { likes, comments: 0, version: 3 };
        let settled = SettlementEvent {
            partition: 1,
            through: at(4),
            tallies: HashMap::from([(Object::Post(PostId(7)), tally(4)), (Object::Post(PostId(8)), tally(0))]),
            reverted: vec![(UserId::parse("bo").unwrap(), Object::Post(PostId(8)))],
        };
        let told = asks.settle(&settled, &counts);
        let members = |asks| {
            let counts = r#""likes":4,"version":3"#;
            format!(r#""data":{{"type":"like.settled","id":7,"liked":false,"asks":{asks},{counts}}}"#)
        };
        let expected = [("phone", 2), ("desk", 1)].map(|(client, asks)| DirectMessage {
            client: client.into(),
            channel: "notifications:ann".to_owned(),
            publications: vec![members(asks).into()],
        });
        assert_eq!(told, expected);
        assert_eq!(asks.settle(&settled, &counts), []);
        // The next event does not have that object: the cached count is used.
        let next = SettlementEvent { partition: 1, through: at(5), ..SettlementEvent::default() };
        counts.insert(Object::Post(PostId(7)), tally(5));
        let told = asks.settle(&next, &counts);
        assert_eq!(told.iter().map(|message| &*message.client).collect::<Vec<_>>(), ["late"]);
    }

    #[test]
    fn receipts_of_a_client_are_sent_together_and_in_order() {
        let (asks, counts) = (PendingReceipts::new(1), ProvisionalCounts::new());
        let many = MAX_PUBLICATIONS as u64 + 1;
        for n in 1..=many {
            asks.wait(0, at(2 * n), "phone".into(), change("ann", n, true));
            asks.wait(0, at(2 * n + 1), "desk".into(), change("ann", 100 + n, true));
            counts.insert(Object::Post(PostId(n)), Tally::default());
            counts.insert(Object::Post(PostId(100 + n)), Tally::default());
        }
        let told = asks.settle(&SettlementEvent { through: at(u64::MAX), ..SettlementEvent::default() }, &counts);
        let heard = |client: &str| {
            let mine = told.iter().filter(|message| &*message.client == client);
            mine.map(|message| message.publications.clone()).collect::<Vec<_>>()
        };
        for (client, from) in [("phone", 0), ("desk", 100)] {
            let expected: Vec<Bytes> =
                (1..=many).map(|n| publication(Object::Post(PostId(from + n)), true, 1, Tally::default())).collect();
            assert_eq!(
                heard(client),
                [expected[..MAX_PUBLICATIONS].to_vec(), expected[MAX_PUBLICATIONS..].to_vec()],
                "{client}"
            );
        }
    }

    #[test]
    fn pending_receipts_are_bounded() {
        let (asks, counts) = (PendingReceipts::new(200), ProvisionalCounts::new());
        for n in 0..=asks.capacity as u64 {
            asks.wait(0, at(n + 1), n.to_string().into(), change("ann", n, true));
        }
        counts.insert(Object::Post(PostId(asks.capacity as u64)), Tally::default());
        let all = SettlementEvent { through: at(u64::MAX), ..SettlementEvent::default() };
        assert_eq!(asks.settle(&all, &counts), []);
    }
}
