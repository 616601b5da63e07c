//! Intake: appends concurrent likes to the write-behind queue in one call.
//!
//! One append is under way at a time. Likes that arrive during it are collected, and the next append takes them all:
//! they share a round trip, or a flush, and stay in order.
//!
//! A like in its queue format is `+ p17 1767225600000 ann`; an unlike begins with `-`.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Mutex, mpsc, oneshot};

use super::memory::LikeMemory;
use crate::broker::{BrokerError, DurableQueue, QueueItem, QueueOffset, QueuedEntry};
use crate::feed::base::Base;
use crate::feed::error::{FeedError, Result};
use crate::feed::work::Partition;
use crate::model::{ContentId, Epoch, LikeChange, UserId};

/// The maximal number of likes that wait to be appended. Further likes are rejected.
const MAX_WAITING: usize = 16_384;

/// The maximal number of likes of one append.
const MAX_BATCH: usize = 1_000;

/// The longest content of an entry that is quarantined, in bytes.
const MAX_CONTENT: usize = 1_000;

/// A like that waits to be appended.
struct WaitingLike {
    item: QueueItem,
    change: LikeChange,
    /// The client connection of this node that sent the like, if it came over a socket.
    client: Option<Arc<str>>,
    reply: oneshot::Sender<std::result::Result<QueueOffset, AppendFailure>>,
}

/// The reason why a like was not appended.
#[derive(Clone, Copy)]
enum AppendFailure {
    /// Too many likes wait to be settled.
    Full,
    /// The queue could not be reached.
    Unreachable,
    /// The queue failed.
    Failed,
}

impl From<AppendFailure> for FeedError {
    fn from(refusal: AppendFailure) -> Self {
        match refusal {
            AppendFailure::Full => FeedError::Busy("too many likes wait to be settled, try again"),
            AppendFailure::Unreachable => FeedError::Unavailable,
            AppendFailure::Failed => FeedError::Internal,
        }
    }
}

/// Appends likes to the queue.
pub(crate) struct LikeIntake {
    base: Arc<Base>,
    queue: Arc<dyn DurableQueue>,
    memory: Arc<LikeMemory>,
    /// The partitions of the queue, whose settlers are woken.
    partitions: Vec<Arc<Partition>>,
    waiting: mpsc::Sender<WaitingLike>,
    /// Held by the task of [`start`](Self::start).
    receiver: Mutex<mpsc::Receiver<WaitingLike>>,
}

impl LikeIntake {
    /// The queue.
    pub(crate) fn queue(&self) -> &dyn DurableQueue {
        &*self.queue
    }

    /// An intake for this queue: see [`start`](Self::start).
    pub(crate) fn new(
        base: Arc<Base>,
        queue: Arc<dyn DurableQueue>,
        memory: Arc<LikeMemory>,
        partitions: Vec<Arc<Partition>>,
    ) -> Self {
        let (waiting, receiver) = mpsc::channel(MAX_WAITING);
        Self { base, queue, memory, partitions, waiting, receiver: Mutex::new(receiver) }
    }

    /// Appends likes until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        self.base.runtime.supervise("like_intake", self, |intake| async move { intake.run().await });
    }

    /// Appends a like together with concurrent ones. When it returns, the like is stored durably.
    ///
    /// # Errors
    /// If too many likes wait, or the queue fails.
    pub(super) async fn enqueue(
        &self,
        partition: u16,
        change: &LikeChange,
        client: Option<Arc<str>>,
    ) -> Result<QueueOffset> {
        let (reply, replied) = oneshot::channel();
        let item = QueueItem { partition, body: encode(change) };
        let like = WaitingLike { item, change: change.clone(), client, reply };
        let full = |_| FeedError::Busy("too many likes come at once, try again");
        self.waiting.try_send(like).map_err(full)?;
        // Without a reply, the process is stopping: the like may or may not be in the queue.
        replied.await.map_err(|_| FeedError::Unavailable)?.map_err(FeedError::from)
    }

    async fn run(&self) {
        let mut receiver = self.receiver.lock().await;
        let mut batch = Vec::with_capacity(MAX_BATCH);
        loop {
            let received = tokio::select! {
                received = receiver.recv_many(&mut batch, MAX_BATCH) => received,
                () = self.base.runtime.stopped() => 0,
            };
            if received == 0 {
                break;
            }
            self.append(&mut batch).await;
        }
        // New likes are refused from now on; waiting likes get a reply.
        receiver.close();
        while receiver.recv_many(&mut batch, MAX_BATCH).await > 0 {
            self.append(&mut batch).await;
        }
    }

    async fn append(&self, batch: &mut Vec<WaitingLike>) {
        // Drops likes of callers that gave up.
        batch.retain(|like| !like.reply.is_closed());
        let items: Vec<QueueItem> = batch.iter().map(|like| like.item.clone()).collect();
        if items.is_empty() {
            return;
        }
        let places = match self.queue.enqueue(&items, self.base.options.likes.queue_length).await {
            Ok(places) => places.into_iter().map(|place| place.ok_or(AppendFailure::Full)).collect(),
            Err(error) => {
                let refusal = match error {
                    BrokerError::Unreachable(_) | BrokerError::Refused(..) => AppendFailure::Unreachable,
                    BrokerError::Failed(_) => AppendFailure::Failed,
                };
                tracing::warn!(%error, likes = items.len(), "likes could not be queued");
                vec![Err(refusal); items.len()]
            }
        };
        self.base.metrics.likes.queued(places.iter().filter(|place| place.is_ok()).count());
        for (like, place) in batch.drain(..).zip(places) {
            let partition = like.item.partition;
            if let (Ok(place), Some(client)) = (place, like.client) {
                self.memory.pending.add(partition, place, client, like.change);
            }
            // If the caller gave up in the meantime, the like is settled anyway.
            let _ = like.reply.send(place);
            self.partitions[usize::from(partition)].wake();
        }
    }
}

/// A position in the queue, as the ledger stores it.
pub(super) fn position(epoch: &Epoch, place: QueueOffset) -> String {
    format!("{epoch} {place}")
}

/// The queue offset of a stored position; `None` if it belongs to another epoch.
pub(super) fn parse_position(position: &str, epoch: &Epoch) -> Option<QueueOffset> {
    let (of, place) = position.split_once(' ')?;
    (of == &**epoch).then(|| QueueOffset::parse(place)).flatten()
}

fn encode(change: &LikeChange) -> Bytes {
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
pub(super) fn content(item: &QueuedEntry) -> String {
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
