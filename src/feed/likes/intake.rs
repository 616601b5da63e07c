//! Gathers likes that come at the same time into one append.
//!
//! One append is on its way at a time. While it is, others gather, and the next takes them all: the time of a round trip,
//! or of a flush, is shared by as many as there happen to be, and likes stay in the order in which they came.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::super::{Feed, FeedError, Result};
use super::entry;
use crate::broker::{BrokerError, Item, Place};
use crate::model::LikeChange;

/// How many may wait to be appended; more are told to come again.
pub(super) const WAITING: usize = 16_384;

/// How many one append takes.
const BATCH: usize = 1_000;

/// A like that waits to be appended.
pub(super) struct Asked {
    item: Item,
    change: LikeChange,
    /// Which client of this node asks, if it is one.
    client: Option<Arc<str>>,
    answer: oneshot::Sender<std::result::Result<Place, Refusal>>,
}

/// Why a like was not appended.
#[derive(Clone, Copy)]
enum Refusal {
    /// Too many wait to be settled.
    Full,
    /// The queue could not be reached.
    Unreachable,
    /// The queue failed.
    Failed,
}

impl From<Refusal> for FeedError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => FeedError::Busy("too many likes wait to be settled, try again"),
            Refusal::Unreachable => FeedError::Unavailable,
            Refusal::Failed => FeedError::Internal,
        }
    }
}

impl Feed {
    /// Appends a like to the queue, together with those that come now. From when this returns it is safe.
    pub(super) async fn enqueue_like(
        &self,
        partition: u16,
        change: &LikeChange,
        client: Option<Arc<str>>,
    ) -> Result<Place> {
        let (answer, answered) = oneshot::channel();
        let item = Item { partition, body: entry::encode(change) };
        let asked = Asked { item, change: change.clone(), client, answer };
        let full = |_| FeedError::Busy("too many likes come at once, try again");
        self.likes.intake.try_send(asked).map_err(full)?;
        // Nobody answers if the process stops: the like may be in the queue or not.
        answered.await.map_err(|_| FeedError::Unavailable)?.map_err(FeedError::from)
    }

    /// Appends what is asked for until the process stops.
    pub(super) async fn take_likes(&self, mut asked: mpsc::Receiver<Asked>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let come = tokio::select! {
                come = asked.recv_many(&mut batch, BATCH) => come,
                () = self.runtime.stopped() => 0,
            };
            if come == 0 {
                break;
            }
            self.append_likes(&mut batch).await;
        }
        // Those who ask from now on are told that it is too late; those who did already still get their answer.
        asked.close();
        while asked.recv_many(&mut batch, BATCH).await > 0 {
            self.append_likes(&mut batch).await;
        }
    }

    async fn append_likes(&self, batch: &mut Vec<Asked>) {
        // Whoever went away does not want it any more.
        batch.retain(|asked| !asked.answer.is_closed());
        let items: Vec<Item> = batch.iter().map(|asked| asked.item.clone()).collect();
        if items.is_empty() {
            return;
        }
        let places = match self.likes.queue.enqueue(&items, self.likes.options.queue_length).await {
            Ok(places) => places.into_iter().map(|place| place.ok_or(Refusal::Full)).collect(),
            Err(error) => {
                let refusal = match error {
                    BrokerError::Unreachable(_) => Refusal::Unreachable,
                    BrokerError::Refused(_) => Refusal::Failed,
                };
                tracing::warn!(%error, likes = items.len(), "likes could not be queued");
                vec![Err(refusal); items.len()]
            }
        };
        self.metrics.likes_queued(places.iter().filter(|place| place.is_ok()).count());
        for (asked, place) in batch.drain(..).zip(places) {
            let partition = usize::from(asked.item.partition);
            if let (Ok(place), Some(client)) = (place, asked.client) {
                self.likes.asks.wait(asked.item.partition, place, client, asked.change);
            }
            // Whoever went away meanwhile does not know of it; it is settled all the same.
            let _ = asked.answer.send(place);
            self.likes.woken[partition].notify_one();
        }
    }
}
