//! Settled likes: `like.settled` to the connections that sent them, `like.changed` to the other connections of their
//! users.
//!
//! A settlement may cover thousands of likes. Clients get their pushes a few at a time, with pauses: each push wakes a
//! connection that writes, and a client that reads, and acknowledgements of new likes would wait behind all of them. A
//! late receipt changes nothing that a user sees, so the receipts of a large settlement do not wake anything for a
//! while: most are written together with the acknowledgement of their client's next like.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::feed::{SettledLike, SettlementListener, SettlementNews, UserLike};
use crate::gateway::hub::{Broadcaster, Hub};
use crate::gateway::registry::connections::ConnectionRegistry;
use crate::gateway::wire::framed::Framed;
use crate::gateway::wire::message_codec::{PushFrames, frame_publications, frame_push};
use crate::gateway::wire::outbox::Outbox;
use crate::model::{Channel, ClientEvent, ContentId, Tally, UserId};
use crate::protocol::{Push, PushEvent};
use crate::supervisor::OnPanic;

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

/// Receipts of a settlement with this many or more are held, and for how long.
const MIN_HELD: usize = 32;
const HOLD_TIME: Duration = Duration::from_millis(100);

/// Settlements whose receipts are held at the same time.
const MAX_HELD: usize = 64;

/// The most receipts in one frame.
const MAX_PER_FRAME: usize = 16;

/// Likes whose users are looked up without yielding.
const MAX_LOOKUPS: usize = 128;

/// Sends the pushes of settled likes to the connections of this node.
pub(crate) struct LikeReceipts {
    pub(crate) settlements: Arc<SettlementListener>,
    pub(crate) connections: Arc<ConnectionRegistry>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) broadcaster: Arc<Broadcaster>,
}

/// A frame for one connection.
struct Delivery {
    outbox: Arc<Outbox>,
    frame: Framed,
    /// The number of publications in the frame.
    publications: u64,
}

/// The connections with receipts of one settlement, and until when these wait for another message.
struct Held {
    until: Instant,
    outboxes: Vec<Arc<Outbox>>,
}

impl LikeReceipts {
    /// Sends the pushes of each settlement until dropped.
    pub(crate) async fn run(&self) {
        // Receipts that were held are sent without the others.
        let _flushed = OnPanic(|| self.connections.all().iter().for_each(|outbox| outbox.flush()));
        let (hold, held) = mpsc::channel(MAX_HELD);
        tokio::join!(self.send_all(hold), flush_all(held));
    }

    async fn send_all(&self, held: mpsc::Sender<Held>) {
        loop {
            let news = self.settlements.next().await;
            let receipts: Vec<_> = batch(&news.receipts).iter().filter_map(|it| self.receipts(it)).collect();
            match held.try_reserve() {
                Ok(place) if receipts.len() >= MIN_HELD => place.send(self.hold(receipts).await),
                _ => self.send(&receipts).await,
            }
            self.send(&self.changes(&news).await).await;
        }
    }

    /// Queues receipts without waking their connections.
    async fn hold(&self, receipts: Vec<Delivery>) -> Held {
        let mut outboxes = Vec::with_capacity(receipts.len());
        for Delivery { outbox, frame, publications } in receipts {
            if outboxes.len() % MAX_STEP == MAX_STEP - 1 {
                tokio::task::yield_now().await;
            }
            self.broadcaster.queue_frame(&outbox, frame, publications);
            outboxes.push(outbox);
        }
        Held { outboxes, until: Instant::now() + HOLD_TIME }
    }

    /// Sends pushes in steps.
    async fn send(&self, deliveries: &[Delivery]) {
        let backlog = self.settlements.backlog();
        for (index, step) in deliveries.chunks(step_size(deliveries.len(), backlog)).enumerate() {
            if index > 0 {
                pause(backlog).await;
            }
            for Delivery { outbox, frame, publications } in step {
                self.broadcaster.send_frame(outbox, frame, *publications);
            }
        }
    }

    /// Receipts for a client that is still connected.
    fn receipts(&self, ReceiptBatch { client, channel, publications }: &ReceiptBatch) -> Option<Delivery> {
        let outbox = self.connections.get(client)?;
        let spelling = self.hub.spelling_of(channel, &outbox);
        let channel = spelling.as_deref().unwrap_or(channel);
        let frame = frame_publications(outbox.format(), channel, publications);
        Some(Delivery { outbox, frame, publications: publications.len() as u64 })
    }

    /// The pushes to connections of the users that did not send the like themselves, so that all their devices show the
    /// same.
    async fn changes(&self, news: &SettlementNews) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        let mut senders: HashMap<(&UserId, ContentId), Vec<Arc<Outbox>>> = HashMap::new();
        for SettledLike { client, user, object, .. } in &news.receipts {
            senders.entry((user, *object)).or_default().extend(self.connections.get(client));
        }
        for (index, UserLike { user, object, liked, tally }) in news.likes.iter().enumerate() {
            if index % MAX_LOOKUPS == MAX_LOOKUPS - 1 {
                tokio::task::yield_now().await;
            }
            let channel = Channel::Notifications(user.clone()).to_string();
            let senders = senders.get(&(user, *object)).map_or(&[][..], Vec::as_slice);
            let others = self.hub.subscribers(&channel).into_iter();
            let others: Vec<_> =
                others.filter(|(other, _)| senders.iter().all(|sender| !Arc::ptr_eq(sender, other))).collect();
            if others.is_empty() {
                continue;
            }
            let Tally { likes, version, .. } = *tally;
            let changed = ClientEvent::LikeChanged { id: object.number(), liked: *liked, likes, version }.encode();
            let event = PushEvent::Publication { members: &changed, position: None };
            let mut frames = PushFrames::new(Push { channel: &channel, event });
            deliveries.extend(others.into_iter().map(|(outbox, spelling)| {
                let frame = match spelling {
                    Some(channel) => frame_push(outbox.format(), &Push { channel: &channel, event }),
                    None => frames.get(outbox.format()).clone(),
                };
                Delivery { outbox, frame, publications: 1 }
            }));
        }
        deliveries
    }
}

/// Wakes the connections whose receipts were not written while they were held.
async fn flush_all(mut held: mpsc::Receiver<Held>) {
    while let Some(Held { until, outboxes }) = held.recv().await {
        sleep_until(until).await;
        let waiting: Vec<_> = outboxes.into_iter().filter(|outbox| outbox.is_ready()).collect();
        let backlog = held.len();
        for (index, step) in waiting.chunks(step_size(waiting.len(), backlog)).enumerate() {
            if index > 0 {
                pause(backlog).await;
            }
            step.iter().for_each(|outbox| outbox.flush());
        }
    }
}

/// Pauses between two steps, if few other settlements wait.
async fn pause(backlog: usize) {
    if backlog < UNTHROTTLED_BACKLOG {
        tokio::time::sleep(PAUSE).await;
    } else {
        tokio::task::yield_now().await;
    }
}

/// The pushes of one step: the more settlements wait, the larger.
fn step_size(pushes: usize, backlog: usize) -> usize {
    pushes.div_ceil(STEPS.div_ceil(backlog + 1)).clamp(MIN_STEP, MAX_STEP)
}

/// The receipts of one client that are sent in one frame.
#[derive(Debug, PartialEq, Eq)]
struct ReceiptBatch {
    client: Arc<str>,
    channel: String,
    /// The members of each publication, 1 to [`MAX_PER_FRAME`] of them.
    publications: Vec<Bytes>,
}

/// The receipts of one client are sent together, because waking and writing to a connection is most of their cost.
fn batch(likes: &[SettledLike]) -> Vec<ReceiptBatch> {
    let mut batches: Vec<ReceiptBatch> = Vec::new();
    let mut last_of_client: HashMap<&Arc<str>, usize> = HashMap::new();
    for like in likes {
        match last_of_client.get(&like.client).and_then(|last| batches.get_mut(*last)) {
            Some(batch) if batch.publications.len() < MAX_PER_FRAME => batch.publications.push(receipt(like)),
            _ => {
                last_of_client.insert(&like.client, batches.len());
                let (client, channel) =
                    (Arc::clone(&like.client), Channel::Notifications(like.user.clone()).to_string());
                batches.push(ReceiptBatch { client, channel, publications: vec![receipt(like)] });
            }
        }
    }
    batches
}

/// The members of the publication.
fn receipt(SettledLike { object, liked, requests, tally, .. }: &SettledLike) -> Bytes {
    let (id, Tally { likes, version, .. }) = (object.number(), *tally);
    ClientEvent::LikeSettled { id, liked: *liked, asks: *requests, likes, version }.encode()
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
            let sent: Vec<&ReceiptBatch> = batches.iter().filter(|batch| &*batch.client == client).collect();
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
