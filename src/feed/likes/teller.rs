//! Tells counts on `post:<id>`: absolute ones, a few a second for each object, the last one always.

use std::collections::HashMap;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use tokio::time::Instant;

use super::super::{Feed, Result};
use super::settled::Settled;
use super::{Pace, SETTLED};
use crate::broker::{Append, BrokerError, Keep, Place};
use crate::model::{Entry, Object, Tally};

/// How much of the log of `post:` is kept, for readers that come back.
const LIVE: Keep = Keep { size: 100, ttl: Duration::from_secs(3600) };

/// How many are told in one step, and how many of those at a time where somebody may be looking.
const AT_ONCE: usize = 250;
const SIDE_BY_SIDE: usize = 64;

/// What a partition's settler has to tell.
pub(super) struct Teller {
    /// The shortest time between two counts of an object.
    pause: Duration,
    dirty: HashMap<Object, Dirty>,
    /// When each object was told last, as long as that matters.
    told: HashMap<Object, Instant>,
}

/// Counts that were not told yet.
struct Dirty {
    tally: Tally,
    /// The first entry of the queue that they come from: it is kept until they are told.
    since: Place,
}

impl Teller {
    pub(super) fn new(counts_per_second: u32) -> Self {
        let pause = Duration::from_secs(1) / counts_per_second.max(1);
        Self { pause, dirty: HashMap::new(), told: HashMap::new() }
    }

    /// Counts changed, by entries of the queue from `since` on.
    pub(super) fn changed(&mut self, object: Object, tally: Tally, since: Place) {
        self.dirty.entry(object).and_modify(|dirty| dirty.tally = tally).or_insert(Dirty { tally, since });
    }

    /// Another told this object's counts until now, perhaps just now.
    pub(super) fn inherited(&mut self, object: Object, tally: Tally, since: Place) {
        self.told.insert(object, Instant::now());
        self.changed(object, tally, since);
    }

    /// The first entry of the queue that is still to be told of.
    pub(super) fn untold(&self) -> Option<Place> {
        self.dirty.values().map(|dirty| dirty.since).min()
    }

    /// When the next object may be told.
    pub(super) fn next(&self) -> Option<Instant> {
        self.dirty.keys().map(|object| self.due(object)).min()
    }

    fn due(&self, object: &Object) -> Instant {
        self.told.get(object).map_or_else(Instant::now, |told| *told + self.pause)
    }

    /// Forgets when those were told that may be told again.
    fn forget(&mut self, now: Instant) {
        self.told.retain(|_, told| *told + self.pause > now);
    }

    /// Those that may be told now.
    fn due_at(&self, now: Instant) -> Vec<(Object, Tally)> {
        let told = &self.told;
        let due = self.dirty.iter().filter(|(object, _)| told.get(object).is_none_or(|told| *told + self.pause <= now));
        due.take(AT_ONCE).map(|(object, dirty)| (*object, dirty.tally)).collect()
    }

    fn done(&mut self, object: Object, now: Instant) {
        self.dirty.remove(&object);
        self.told.insert(object, now);
    }
}

impl Feed {
    /// Writes the tallies of those objects whose turn it is to the broker, and tells those who look at them.
    pub(super) async fn tell_counts(&self, teller: &mut Teller, pace: Pace) -> Result<()> {
        teller.forget(Instant::now());
        for step in 0.. {
            let now = Instant::now();
            let due = teller.due_at(now);
            if due.is_empty() {
                break;
            }
            if step > 0 {
                pace.pause().await;
            }
            let looked_at = self.set_tallies(&due).await?;
            let looks: Vec<_> =
                due.iter().zip(looked_at).filter(|(_, looked_at)| *looked_at).map(|(it, _)| *it).collect();
            let told = stream::iter(looks).map(|(object, tally)| async move { self.tell(object, tally).await });
            told.buffer_unordered(SIDE_BY_SIDE)
                .collect::<Vec<_>>()
                .await
                .into_iter()
                .try_for_each(pass_over_refused)?;
            due.iter().for_each(|(object, _)| teller.done(*object, now));
        }
        Ok(())
    }

    /// Sets counts, one by one if the broker refuses all of them: one that it always refuses must not keep the others
    /// back.
    async fn set_tallies(&self, tallies: &[(Object, Tally)]) -> Result<Vec<bool>> {
        match self.broker.set_tallies(tallies).await {
            Err(BrokerError::Refused(_)) if tallies.len() > 1 => {}
            Err(BrokerError::Refused(error)) => {
                tracing::error!(?tallies, error, "the broker refuses a count of likes");
                return Ok(vec![false; tallies.len()]);
            }
            done => return Ok(done?),
        }
        let mut looked_at = Vec::with_capacity(tallies.len());
        for tally in tallies {
            looked_at.append(&mut Box::pin(self.set_tallies(std::slice::from_ref(tally))).await?);
        }
        Ok(looked_at)
    }

    /// Tells counts that changed otherwise than by the queue: the broker, every node, and those who look.
    ///
    /// # Errors
    /// If the broker cannot be reached.
    pub(in crate::feed) async fn tell_tallies(&self, tallies: &[(Object, Tally)]) -> Result<()> {
        let looked_at = self.set_tallies(tallies).await?;
        for ((object, tally), _) in tallies.iter().zip(looked_at).filter(|(_, looked_at)| *looked_at) {
            pass_over_refused(self.tell(*object, *tally).await)?;
        }
        let mut by_partition: HashMap<u16, Settled> = HashMap::new();
        for (object, tally) in tallies {
            let partition = self.likes.partition(*object);
            let settled = by_partition.entry(partition).or_insert_with(|| Settled { partition, ..Settled::default() });
            settled.tallies.insert(*object, *tally);
        }
        for settled in by_partition.values() {
            let message = [SETTLED, &settled.encode()].concat();
            self.broker.signal(message.into()).await?;
        }
        Ok(())
    }

    /// Counts go into the log, so that a reader that missed a hint has the last one all the same. Their version keeps a
    /// settler that lost its partition without noticing from telling old ones.
    async fn tell(&self, object: Object, tally: Tally) -> Result<()> {
        let Tally { likes, comments, version } = tally;
        let id = object.number();
        let data = format!(
            r#""data":{{"type":"counts","id":{id},"likes":{likes},"comments":{comments},"version":{version}}}"#
        );
        let Some(channel) = object.channel() else { return Ok(()) };
        let entry = Entry::Data(data.into());
        let version = Some((version, "counts"));
        let append = Append { channel: &channel, entry: &entry, keep: LIVE, idempotency_key: None, version };
        self.broker.append(append).await?;
        Ok(())
    }
}

/// A count that the broker refuses is left to readers, who find it in the ledger. It was logged.
fn pass_over_refused(told: Result<()>) -> Result<()> {
    told.or_else(|error| if error.is_outage() { Err(error) } else { Ok(()) })
}
