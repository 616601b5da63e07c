//! Publishes counts on `post:<id>`: absolute values, limited to a few per second and object; the last value is always
//! published.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use tokio::time::Instant;

use super::memory::LikeMemory;
use crate::broker::{Append, Broker, BrokerError, QueueOffset, SettlementEvent, Signal};
use crate::feed::error::Result;
use crate::model::{Channel, ClientEvent, ContentId, Entry, Retention, Tally};

/// Counts that are published in one step, and how many of those concurrently. Redis stores the counts of a step in one
/// script, behind which appends of likes wait.
const MAX_STEP: usize = 250;
const MAX_CONCURRENT_APPENDS: usize = 64;

/// The counts that a partition's settler has to publish.
pub(super) struct PendingCounts {
    /// The shortest time between two publications of an object.
    interval: Duration,
    pending: HashMap<ContentId, PendingCount>,
    /// The time of the last publication of each object, kept as long as it delays the next one.
    published: HashMap<ContentId, Instant>,
}

/// Counts that are not published yet.
struct PendingCount {
    tally: Tally,
    /// The first queue entry that contributes to the count. The queue keeps it until the count is published.
    since: QueueOffset,
}

impl PendingCounts {
    pub(super) fn new(counts_per_second: u32) -> Self {
        let interval = Duration::from_secs(1) / counts_per_second.max(1);
        Self { interval, pending: HashMap::new(), published: HashMap::new() }
    }

    /// Records changed counts, from queue entries starting at `since`.
    pub(super) fn changed(&mut self, object: ContentId, tally: Tally, since: QueueOffset) {
        self.pending.entry(object).and_modify(|count| count.tally = tally).or_insert(PendingCount { tally, since });
    }

    /// Records a count of the previous settler, which may have published it a moment ago.
    pub(super) fn inherited(&mut self, object: ContentId, tally: Tally, since: QueueOffset) {
        self.published.insert(object, Instant::now());
        self.changed(object, tally, since);
    }

    /// The first queue entry whose counts are not published.
    pub(super) fn unpublished(&self) -> Option<QueueOffset> {
        self.pending.values().map(|count| count.since).min()
    }

    /// The time at which the next object is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.pending.keys().map(|object| self.due(object)).min()
    }

    fn due(&self, object: &ContentId) -> Instant {
        self.published.get(object).map_or_else(Instant::now, |published| *published + self.interval)
    }

    /// Drops the publication times of objects that may be published again.
    fn expire(&mut self, now: Instant) {
        self.published.retain(|_, published| *published + self.interval > now);
    }

    /// Objects that are due.
    fn due_at(&self, now: Instant) -> Vec<(ContentId, Tally)> {
        let is_due = |object: &ContentId| self.published.get(object).is_none_or(|at| *at + self.interval <= now);
        let due = self.pending.iter().filter(|(object, _)| is_due(object));
        due.take(MAX_STEP).map(|(object, count)| (*object, count.tally)).collect()
    }

    fn done(&mut self, object: ContentId, now: Instant) {
        self.pending.remove(&object);
        self.published.insert(object, now);
    }
}

/// Publishes counts.
pub(crate) struct CountPublisher {
    broker: Arc<dyn Broker>,
    memory: Arc<LikeMemory>,
}

impl CountPublisher {
    /// A publisher to this broker. The memory maps objects to partitions.
    pub(crate) fn new(broker: Arc<dyn Broker>, memory: Arc<LikeMemory>) -> Self {
        Self { broker, memory }
    }

    /// Stores the counts that are due in the broker, and pushes them to subscribers of the posts.
    ///
    /// # Errors
    /// If the broker cannot be reached; the counts stay pending.
    pub(super) async fn publish_due(&self, counts: &mut PendingCounts) -> Result<()> {
        counts.expire(Instant::now());
        loop {
            let now = Instant::now();
            let due = counts.due_at(now);
            if due.is_empty() {
                return Ok(());
            }
            let watched = self.store(&due).await?;
            let watched: Vec<_> = due.iter().zip(watched).filter(|(_, watched)| *watched).map(|(it, _)| *it).collect();
            let pushed = stream::iter(watched).map(|(object, tally)| async move { self.push(object, tally).await });
            let pushed = pushed.buffer_unordered(MAX_CONCURRENT_APPENDS).collect::<Vec<_>>().await;
            pushed.into_iter().try_for_each(skip_refused)?;
            due.iter().for_each(|(object, _)| counts.done(*object, now));
        }
    }

    /// Publishes counts that changed outside the queue: to the broker, to all nodes, and to subscribers.
    ///
    /// # Errors
    /// If the broker cannot be reached.
    pub(crate) async fn publish(&self, tallies: &[(ContentId, Tally)]) -> Result<()> {
        let watched = self.store(tallies).await?;
        for ((object, tally), _) in tallies.iter().zip(watched).filter(|(_, watched)| *watched) {
            skip_refused(self.push(*object, *tally).await)?;
        }
        let mut by_partition: HashMap<u16, SettlementEvent> = HashMap::new();
        for (object, tally) in tallies {
            let partition = self.memory.partition(*object);
            let event = SettlementEvent { partition, ..SettlementEvent::default() };
            by_partition.entry(partition).or_insert(event).tallies.insert(*object, *tally);
        }
        for settlement in by_partition.into_values() {
            self.broker.signal(Signal::LikesSettled(settlement)).await?;
        }
        Ok(())
    }

    /// Stores counts in the broker. If the broker refuses the batch, stores them one by one, so that a count that is
    /// always refused does not block the others. Returns which objects have subscribers.
    async fn store(&self, tallies: &[(ContentId, Tally)]) -> Result<Vec<bool>> {
        match self.broker.set_tallies(tallies).await {
            Err(BrokerError::Failed(_)) if tallies.len() > 1 => {}
            Err(BrokerError::Failed(error)) => {
                tracing::error!(?tallies, error, "the broker refuses a count of likes");
                return Ok(vec![false; tallies.len()]);
            }
            done => return Ok(done?),
        }
        let mut watched = Vec::with_capacity(tallies.len());
        for tally in tallies {
            watched.append(&mut Box::pin(self.store(std::slice::from_ref(tally))).await?);
        }
        Ok(watched)
    }

    /// Appends counts to the log, so that a reader that missed a hint gets the latest counts. Their version prevents a
    /// settler that lost its partition without noticing from publishing old counts.
    async fn push(&self, object: ContentId, tally: Tally) -> Result<()> {
        // The counts of comments are not pushed.
        let ContentId::Post(post) = object else { return Ok(()) };
        let entry = Entry::Data(ClientEvent::counts(post, tally).encode());
        let channel = Channel::Post(post).to_string();
        let version = Some((tally.version, "counts"));
        let append =
            Append { channel: &channel, entry: &entry, retention: Retention::SHARED, idempotency_key: None, version };
        self.broker.append(append).await?;
        Ok(())
    }
}

/// Skips a count that the broker refuses: readers find the count in the ledger. The refusal was logged.
fn skip_refused(pushed: Result<()>) -> Result<()> {
    pushed.or_else(|error| if error.is_outage() { Err(error) } else { Ok(()) })
}
