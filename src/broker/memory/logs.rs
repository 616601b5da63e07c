//! Channels and logs in memory.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use super::channel::{MemoryChannel, SubscriptionState};
use super::inbox;
use super::log::{MemoryLog, later};
use super::store::MemoryBroker;
use crate::broker::logs::is_for_listeners;
use crate::broker::{
    Append, AppendOutcome, Broadcast, Broker, BrokerError, CacheLease, Confirmation, IdTimes, Invalidation,
    MessageListener, NodeLease, PresenceEvent, Result, Signal, Slice, Span, inbox_channel, is_inbox,
};
use crate::model::{Entry, Millis, Position, UserId};

/// The reason of refused appends.
const NO_APPEND: &str = "an inbox is not appended to";

/// The reason of refused removals.
const NO_CLEAR: &str = "an inbox is not cleared";

#[async_trait]
impl Broker for MemoryBroker {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn listen(&self, listener: Arc<dyn MessageListener>) {
        // A second listener is an error of the caller; the first one stays.
        let _ = self.listener.set(listener);
    }

    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    fn round_trips(&self) -> u64 {
        0
    }

    async fn subscribe(&self, channel: &str) -> Result<()> {
        self.find_or_create(channel).state.lock().subscription = SubscriptionState::Active;
        Ok(())
    }

    async fn unsubscribe(&self, channel: &str) -> Result<()> {
        if let Some(found) = self.find(channel) {
            found.state.lock().subscription = SubscriptionState::None;
        }
        self.drop_if_idle(channel);
        Ok(())
    }

    async fn connected(&self, users: &[UserId]) -> Result<Vec<bool>> {
        let hears = |channel: Arc<MemoryChannel>| channel.state.lock().subscription == SubscriptionState::Active;
        Ok(users.iter().map(|user| self.find(&inbox_channel(user)).is_some_and(hears)).collect())
    }

    async fn signal(&self, signal: Signal) -> Result<u64> {
        let Some(listener) = self.listener.get() else { return Ok(0) };
        listener.signal(signal);
        Ok(1)
    }

    fn node(&self) -> &Arc<str> {
        &self.node
    }

    async fn signal_node(&self, node: &str, signal: Signal) -> Result<bool> {
        if node == &*self.node { self.signal(signal).await.map(|receivers| receivers > 0) } else { Ok(false) }
    }

    async fn invalidate(&self, what: &[Invalidation]) -> Result<Confirmation> {
        if let Some(listener) = self.listener.get() {
            listener.invalidate(what);
        }
        Ok(Confirmation::immediate())
    }

    fn cache_lease(&self) -> Arc<CacheLease> {
        Arc::clone(&self.lease)
    }

    async fn append(&self, append: Append<'_>) -> Result<AppendOutcome> {
        let channel = append.channel;
        if is_inbox(channel) {
            return Err(BrokerError::Failed(NO_APPEND.to_owned()));
        }
        let found = self.find_or_create(channel);
        let now = Instant::now();
        let mut state = found.state.lock();
        let key = append.idempotency_key.map(|key| (channel.into(), key.into()));
        if let Some(position) = key.as_ref().and_then(|key| self.idempotency.get(key)) {
            return Ok(AppendOutcome { position, receivers: 0 });
        }
        let subscription = state.subscription;
        let has_listeners = subscription == SubscriptionState::Active;
        let is_new = state.log(now).is_none();
        let has_readers = has_listeners || (is_new && self.derived.is_awaited(channel, now));
        if is_new && !has_readers && is_for_listeners(channel) {
            let position = Position { offset: 0, epoch: self.derived.end(channel, now) };
            drop(state);
            drop(found);
            self.drop_if_idle(channel);
            return Ok(AppendOutcome { position, receivers: 0 });
        }
        let log = state.log_or_create(now, || self.derived.end(channel, now));
        if log.knows(&append) {
            return Ok(AppendOutcome { position: log.position(), receivers: 0 });
        }
        log.push(&append, now);
        if has_readers {
            log.keep_for_reader(now, self.reader_ttl());
        }
        let position = log.position();
        if let Some(key) = key {
            self.idempotency.insert(key, position.clone());
        }
        let receivers = self.notify(subscription, channel, Some(position.borrowed()), append.entry);
        Ok(AppendOutcome { position, receivers })
    }

    async fn broadcast(&self, broadcast: Broadcast<'_>) -> Vec<Result<AppendOutcome>> {
        let Broadcast { channels, entry, retention, idempotency_key, version } = broadcast;
        if channels.iter().any(|channel| is_inbox(channel)) {
            return channels.iter().map(|_| Err(BrokerError::Failed(NO_APPEND.to_owned()))).collect();
        }
        let mut outcomes = Vec::with_capacity(channels.len());
        for channel in channels {
            outcomes.push(self.append(Append { channel, entry, retention, idempotency_key, version }).await);
        }
        outcomes
    }

    async fn publish(&self, channel: &str, entry: &Entry) -> Result<AppendOutcome> {
        let receivers = self.find(channel).map(|found| {
            let state = found.state.lock();
            self.notify(state.subscription, channel, None, entry)
        });
        Ok(AppendOutcome::unlogged(receivers.unwrap_or(0)))
    }

    async fn publish_on_all(
        &self,
        channels: &[&str],
        entry: &Entry,
        idempotency_key: Option<&str>,
    ) -> Vec<Result<AppendOutcome>> {
        let mut outcomes = Vec::with_capacity(channels.len());
        for channel in channels {
            let key: Option<(Box<str>, Box<str>)> = idempotency_key.map(|key| ((*channel).into(), key.into()));
            if let Some(position) = key.as_ref().and_then(|key| self.idempotency.get(key)) {
                outcomes.push(Ok(AppendOutcome { position, receivers: 0 }));
                continue;
            }
            let outcome = self.publish(channel, entry).await;
            if let (Some(key), Ok(published)) = (key, &outcome) {
                self.idempotency.insert(key, published.position.clone());
            }
            outcomes.push(outcome);
        }
        outcomes
    }

    async fn publish_presence_event(&self, channel: &str, event: &PresenceEvent) -> Result<()> {
        let Some((found, listener)) = self.find(channel).zip(self.listener.get()) else { return Ok(()) };
        let state = found.state.lock();
        if state.subscription == SubscriptionState::Active {
            listener.presence_event(channel, event);
        }
        Ok(())
    }

    async fn position(&self, channel: &str) -> Result<Option<Position>> {
        Ok(self.position_of(channel))
    }

    async fn positions(&self, channels: &[Arc<str>]) -> Result<Vec<Option<Position>>> {
        Ok(channels.iter().map(|channel| self.position_of(channel)).collect())
    }

    async fn read(&self, channel: &str, span: Span) -> Result<Option<Slice>> {
        let found = self.find(channel);
        let now = Instant::now();
        let mut state = found.as_ref().map(|found| found.state.lock());
        if is_inbox(channel) {
            let slice = |it: &mut inbox::MemoryInbox| Slice { top: it.position(), entries: it.entries(span) };
            return Ok(state.and_then(|mut state| state.filled_inbox(now).map(slice)));
        }
        let log = state.as_mut().and_then(|state| state.log(now));
        let slice = |log: &mut MemoryLog| Slice { top: log.position(), entries: log.entries(span) };
        Ok(Some(log.map_or_else(|| Slice { top: self.empty_log_position(channel, now), entries: Vec::new() }, slice)))
    }

    async fn clear_log(&self, channel: &str) -> Result<()> {
        if is_inbox(channel) {
            return Err(BrokerError::Failed(NO_CLEAR.to_owned()));
        }
        if let Some(found) = self.find(channel)
            && let Some(log) = found.state.lock().log(Instant::now())
        {
            log.clear();
        }
        Ok(())
    }

    async fn drop_logs(&self, channels: &[String]) -> Result<()> {
        let now = Instant::now();
        for found in channels.iter().filter_map(|channel| self.find(channel)) {
            found.state.lock().drop_log(now, later(now, self.position_ttl));
        }
        Ok(())
    }

    async fn lease_node(&self, _: &str, _: Option<u8>, _: IdTimes) -> Result<NodeLease> {
        Ok(NodeLease { number: 0, ttl: None, used_until: 0, store_time: None })
    }

    async fn release_node(&self, _: &str, _: u8, _: Millis) -> Result<()> {
        Ok(())
    }
}
