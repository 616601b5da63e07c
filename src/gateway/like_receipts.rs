//! Receipts of likes: `like.settled` to the connections that sent them.
//!
//! A settlement may cover thousands of likes. Clients get their receipts a few at a time, with pauses: each receipt
//! wakes a connection that writes, and a client that reads, and acknowledgements of new likes would wait behind all of
//! them. A late receipt changes nothing that a user sees.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::connection_registry::ConnectionRegistry;
use super::hub::Broadcaster;
use crate::feed::{SettledLike, SettlementListener};
use crate::model::{Channel, Event, Tally};
use crate::protocol::push_publication;

/// Receipts are sent in about this many steps, with pauses between them: some 80 ms in all, since a partition is
/// settled every 80 to 150 ms under load. If other settlements wait, the steps are fewer.
const STEPS: usize = 48;

/// Pushes of one step.
const MIN_STEP: usize = 8;
const MAX_STEP: usize = 128;

/// The pause between two steps. A yield would let other tasks of this thread run, but not other threads and the
/// clients, which need a core too.
const PAUSE: Duration = Duration::from_millis(1);

/// There are no pauses while this many settlements wait: the backlog would grow with them.
const UNTHROTTLED_BACKLOG: usize = 8;

/// The most receipts in one frame.
const MAX_PER_FRAME: usize = 16;

/// Sends receipts to the connections of this node.
pub(super) struct LikeReceipts {
    settlements: Arc<SettlementListener>,
    connections: Arc<ConnectionRegistry>,
    broadcaster: Arc<Broadcaster>,
}

impl LikeReceipts {
    pub(super) fn new(
        settlements: Arc<SettlementListener>,
        connections: Arc<ConnectionRegistry>,
        broadcaster: Arc<Broadcaster>,
    ) -> Self {
        Self { settlements, connections, broadcaster }
    }

    /// Sends the receipts of each settlement until dropped.
    pub(super) async fn run(&self) {
        loop {
            let batches = batch(&self.settlements.next().await);
            let backlog = self.settlements.backlog();
            for (index, step) in batches.chunks(step_size(batches.len(), backlog)).enumerate() {
                if index > 0 && backlog < UNTHROTTLED_BACKLOG {
                    tokio::time::sleep(PAUSE).await;
                } else if index > 0 {
                    tokio::task::yield_now().await;
                }
                step.iter().for_each(|batch| self.send(batch));
            }
        }
    }

    fn send(&self, Batch { client, channel, publications }: &Batch) {
        let Some(outbox) = self.connections.get(client) else { return };
        let pushes: Vec<_> = publications.iter().map(|members| push_publication(channel, members, None)).collect();
        self.broadcaster.send_in_one_frame(&outbox, &pushes);
    }
}

/// The pushes of one step: the more settlements wait, the larger.
fn step_size(pushes: usize, backlog: usize) -> usize {
    pushes.div_ceil(STEPS.div_ceil(backlog + 1)).clamp(MIN_STEP, MAX_STEP)
}

/// The receipts of one client that are sent in one frame.
#[derive(Debug, PartialEq, Eq)]
struct Batch {
    client: Arc<str>,
    channel: String,
    /// The members of each publication, 1 to [`MAX_PER_FRAME`] of them.
    publications: Vec<Bytes>,
}

/// The receipts of one client are sent together, because waking and writing to a connection is most of their cost.
fn batch(likes: &[SettledLike]) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let mut last_of_client: HashMap<&Arc<str>, usize> = HashMap::new();
    for like in likes {
        match last_of_client.get(&like.client).and_then(|last| batches.get_mut(*last)) {
            Some(batch) if batch.publications.len() < MAX_PER_FRAME => batch.publications.push(receipt(like)),
            _ => {
                last_of_client.insert(&like.client, batches.len());
                let (client, channel) =
                    (Arc::clone(&like.client), Channel::Notifications(like.user.clone()).to_string());
                batches.push(Batch { client, channel, publications: vec![receipt(like)] });
            }
        }
    }
    batches
}

/// The members of the publication.
fn receipt(SettledLike { object, liked, requests, tally, .. }: &SettledLike) -> Bytes {
    let (id, Tally { likes, version, .. }) = (object.number(), *tally);
    Event::LikeSettled { id, liked: *liked, asks: *requests, likes, version }.encode()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ContentId, PostId, UserId};

    fn settled(client: &str, post: u64) -> SettledLike {
        SettledLike {
            client: client.into(),
            user: UserId::parse("ann").unwrap(),
            object: ContentId::Post(PostId(post)),
            liked: true,
            requests: 2,
            tally: Tally { likes: 4, comments: 0, version: 3 },
        }
    }

    #[test]
    fn receipts_of_a_client_are_sent_together_and_in_order() {
        let count = MAX_PER_FRAME as u64 + 1;
        let likes: Vec<SettledLike> =
            (1..=count).flat_map(|n| [settled("phone", n), settled("desk", 100 + n)]).collect();
        let batches = batch(&likes);
        assert_eq!(batches.len(), 4);
        for (client, first) in [("phone", 1), ("desk", 101)] {
            let expected: Vec<Bytes> = (first..first + count).map(|n| receipt(&settled(client, n))).collect();
            let sent: Vec<&Batch> = batches.iter().filter(|batch| &*batch.client == client).collect();
            assert!(sent.iter().all(|batch| batch.channel == "notifications:ann"));
            let sent: Vec<_> = sent.iter().map(|batch| &batch.publications[..]).collect();
            assert_eq!(sent, [&expected[..MAX_PER_FRAME], &expected[MAX_PER_FRAME..]], "{client}");
        }
    }

    #[test]
    fn a_receipt_has_the_counts() {
        let expected = r#""data":{"type":"like.settled","id":7,"liked":true,"asks":2,"likes":4,"version":3}"#;
        assert_eq!(receipt(&settled("phone", 7)), expected);
    }

    #[test]
    fn steps_grow_with_the_backlog() {
        assert_eq!((step_size(10, 0), step_size(4_800, 0), step_size(4_800, 1)), (MIN_STEP, 100, MAX_STEP));
    }
}
