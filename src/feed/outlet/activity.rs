//! Users who connect to this node, and those who have gone away; channels that clients of this node subscribe to, and
//! those that have no subscriber any more. The gateway reports them through a bounded queue; the events are written in
//! batches. They are best effort: a full queue or a crash loses some, and each node knows its own connections only. A
//! node that stops reports everybody away.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use super::event::owner_of;
use crate::backoff::Backoff;
use crate::feed::base::Base;
use crate::feed::runtime;
use crate::ledger::EventConsumer;
use crate::model::{DomainEvent, EventOwner, Millis, UserId};

/// The reports that wait. More are dropped.
const QUEUE: usize = 16_384;

/// The users without a connection and channels without a subscriber who may come back in time. More are away at once.
const MAX_LEAVING: usize = 100_000;

/// The subscribers of channels whose repeated subscriptions are recognised.
const MAX_RECENT: usize = 100_000;

/// The interval at which users become away, and the events of one write.
const TICK: Duration = Duration::from_millis(250);
const BATCH: usize = 500;

/// Attempts at a write before its events are dropped, and the longest pause between them.
const MAX_ATTEMPTS: usize = 8;
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// How long a shutdown waits for the ledger.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Writes events of users who connect and go away, and of subscriptions.
pub(crate) struct ConnectionActivity {
    base: Arc<Base>,
    /// Reports of the gateway: events of arrivals, and those of departures that happen unless somebody returns.
    reports: mpsc::Sender<DomainEvent>,
    /// Held by the task of [`start`](Self::start).
    state: Mutex<ActivityState>,
}

/// What outlives a restart of the task.
struct ActivityState {
    incoming: mpsc::Receiver<DomainEvent>,
    departures: Departures,
}

impl std::fmt::Debug for ConnectionActivity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConnectionActivity")
    }
}

impl ConnectionActivity {
    /// Activity on this node; users are away after a time without a connection, and channels vacated after a time
    /// without a subscriber.
    pub(crate) fn new(base: Arc<Base>, away_after: Duration) -> Arc<Self> {
        let (reports, incoming) = mpsc::channel(QUEUE);
        let departures = Departures { leaving: HashMap::new(), recent: HashMap::new(), away_after };
        let state = Mutex::new(ActivityState { incoming, departures });
        Arc::new(Self { base, reports, state })
    }

    /// The user has the first connection to this node.
    pub(crate) fn connected(&self, user: &UserId) {
        self.report(DomainEvent::UserConnected { user: user.clone() });
    }

    /// The user has no connection to this node any more.
    pub(crate) fn gone(&self, user: &UserId) {
        self.report(DomainEvent::UserAway { user: user.clone() });
    }

    /// A client has subscribed to a channel.
    pub(crate) fn subscribed(&self, channel: &Arc<str>, user: Option<UserId>) {
        self.report(DomainEvent::ChannelSubscribed { channel: channel.to_string(), user });
    }

    /// A channel has no subscriber on this node any more.
    pub(crate) fn vacated(&self, channel: &Arc<str>) {
        self.report(DomainEvent::ChannelVacated { channel: channel.to_string() });
    }

    fn report(&self, report: DomainEvent) {
        if self.reports.try_send(report).is_err() {
            self.base.metrics.outlet.activity_dropped(1);
        }
    }

    /// Works until the process stops.
    pub(super) fn start(self: &Arc<Self>) {
        self.base.runtime.supervise("outlet_activity", self, |activity| async move { activity.run().await });
    }

    async fn run(&self) {
        let mut state = self.state.lock().await;
        let ActivityState { incoming, departures } = &mut *state;
        let mut reports = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                _ = incoming.recv_many(&mut reports, BATCH) => {}
                () = tokio::time::sleep(TICK) => {}
                () = self.base.runtime.stopped() => return self.flush(incoming, departures).await,
            }
            for batch in departures.due_events(&mut reports, Instant::now()).chunks(BATCH) {
                self.write(batch).await;
            }
        }
    }

    /// Writes what is left when the process stops, after the gateway closed all connections: nobody else knows that
    /// these users and channels were here. They are away at once. A user who connected to another node meanwhile is
    /// reported away, too, as if the connections had overlapped.
    async fn flush(&self, incoming: &mut mpsc::Receiver<DomainEvent>, departures: &mut Departures) {
        incoming.close();
        let mut reports: Vec<DomainEvent> = std::iter::from_fn(|| incoming.try_recv().ok()).collect();
        let mut events = departures.due_events(&mut reports, Instant::now());
        events.extend(departures.due_events(&mut reports, Instant::now() + departures.away_after));
        let mut written = 0;
        let writing = async {
            for batch in events.chunks(BATCH) {
                let mut backoff = Backoff::new(TICK, MAX_BACKOFF);
                while !self.append(batch).await {
                    tokio::time::sleep(backoff.next_delay()).await;
                }
                written += batch.len();
            }
        };
        let in_time = tokio::time::timeout(STOP_TIMEOUT, writing).await;
        if in_time.is_err() {
            tracing::warn!(lost = events.len() - written, "events of connections were not written before the stop");
            self.base.metrics.outlet.activity_dropped((events.len() - written) as u64);
        }
    }

    async fn write(&self, events: &[(Millis, DomainEvent)]) {
        let mut backoff = Backoff::new(TICK, MAX_BACKOFF);
        for _ in 0..MAX_ATTEMPTS {
            if self.append(events).await {
                return;
            }
            if !self.base.runtime.sleep(backoff.next_delay()).await {
                break;
            }
        }
        self.base.metrics.outlet.activity_dropped(events.len() as u64);
    }

    /// Returns whether the events were written.
    async fn append(&self, events: &[(Millis, DomainEvent)]) -> bool {
        if let Err(error) = self.base.ledger.append_events(events).await {
            tracing::debug!(%error, "events of connections wait for the ledger");
            return false;
        }
        self.base.events.wake(EventConsumer::Outlet);
        true
    }
}

/// The users who have lost their last connection to this node, and the channels that have lost their last subscriber.
struct Departures {
    /// When each is away, and the event of it.
    leaving: HashMap<EventOwner, (Instant, DomainEvent)>,
    /// The subscribers of channels that were reported, and until when they are not reported again: a client can
    /// subscribe and unsubscribe as often as it likes.
    recent: HashMap<(EventOwner, Option<UserId>), Instant>,
    away_after: Duration,
}

impl Departures {
    /// Takes reports. Returns the events that happen now: arrivals, and departures whose time is over.
    fn due_events(&mut self, reports: &mut Vec<DomainEvent>, now: Instant) -> Vec<(Millis, DomainEvent)> {
        let mut events: Vec<DomainEvent> = reports.drain(..).filter_map(|report| self.take(report, now)).collect();
        events.extend(self.leaving.extract_if(|_, (until, _)| *until <= now).map(|(_, (_, event))| event));
        self.recent.retain(|_, until| *until > now);
        let time = runtime::now();
        events.into_iter().map(|event| (time, event)).collect()
    }

    /// The event of a report; `None` if it causes none, or none yet.
    fn take(&mut self, event: DomainEvent, now: Instant) -> Option<DomainEvent> {
        let owner = owner_of(&event)?;
        if matches!(event, DomainEvent::UserAway { .. } | DomainEvent::ChannelVacated { .. }) {
            if self.leaving.len() >= MAX_LEAVING {
                // A channel that is vacated early has new subscribers.
                self.recent.clear();
                return Some(event);
            }
            self.leaving.insert(owner, (now + self.away_after, event));
            return None;
        }
        let has_returned = self.leaving.remove(&owner).is_some();
        let is_known = match &event {
            DomainEvent::ChannelSubscribed { user, .. } => self.is_recent((owner, user.clone()), now),
            // A user who returns in time was not away.
            _ => has_returned,
        };
        (!is_known).then_some(event)
    }

    /// Whether a subscriber of a channel was reported a moment ago. If not, it is from now on.
    fn is_recent(&mut self, subscriber: (EventOwner, Option<UserId>), now: Instant) -> bool {
        if self.recent.get(&subscriber).is_some_and(|until| *until > now) {
            return true;
        }
        if self.recent.len() < MAX_RECENT {
            self.recent.insert(subscriber, now + self.away_after);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn departures() -> (Departures, Instant) {
        (Departures { leaving: HashMap::new(), recent: HashMap::new(), away_after: 10 * SECOND }, Instant::now())
    }

    impl Departures {
        fn events(&mut self, report: Option<&DomainEvent>, at: Instant) -> Vec<DomainEvent> {
            let mut reports: Vec<_> = report.cloned().into_iter().collect();
            self.due_events(&mut reports, at).into_iter().map(|(_, event)| event).collect()
        }
    }

    #[tokio::test]
    async fn users_who_return_in_time_were_not_away() {
        let user = UserId::parse("ann").expect("an id");
        let (mut departures, start) = departures();
        let connected = DomainEvent::UserConnected { user: user.clone() };
        let away = DomainEvent::UserAway { user };
        assert_eq!(departures.events(Some(&connected), start), std::slice::from_ref(&connected));
        assert_eq!(departures.events(Some(&away), start), []);
        assert_eq!(departures.events(Some(&connected), start + 9 * SECOND), []);
        assert_eq!(departures.events(Some(&away), start + 20 * SECOND), []);
        assert_eq!(departures.events(None, start + 29 * SECOND), []);
        assert_eq!(departures.events(None, start + 30 * SECOND), [away]);
        assert_eq!(departures.events(Some(&connected), start + 31 * SECOND), [connected]);
    }

    #[tokio::test]
    async fn channels_with_a_subscriber_in_time_were_not_vacated() {
        let (mut departures, start) = departures();
        let subscribed = DomainEvent::ChannelSubscribed { channel: "chat:1".into(), user: None };
        let vacated = DomainEvent::ChannelVacated { channel: "chat:1".into() };
        assert_eq!(departures.events(Some(&subscribed), start), std::slice::from_ref(&subscribed));
        assert_eq!(departures.events(Some(&vacated), start), []);
        let other = DomainEvent::ChannelSubscribed { channel: "chat:1".into(), user: UserId::parse("ann") };
        assert_eq!(departures.events(Some(&other), start + 9 * SECOND), [other]);
        assert_eq!(departures.events(Some(&vacated), start + 20 * SECOND), []);
        assert_eq!(departures.events(None, start + 30 * SECOND), [vacated]);
    }

    /// A client that subscribes and unsubscribes all the time causes one event in each period.
    #[tokio::test]
    async fn repeated_subscriptions_are_reported_once() {
        let (mut departures, start) = departures();
        let subscribed = DomainEvent::ChannelSubscribed { channel: "chat:1".into(), user: UserId::parse("ann") };
        let vacated = DomainEvent::ChannelVacated { channel: "chat:1".into() };
        let mut events = Vec::new();
        for step in 0..300 {
            let at = start + step * SECOND / 10;
            events.extend(departures.events(Some(&subscribed), at));
            events.extend(departures.events(Some(&vacated), at));
        }
        assert_eq!(events, [&subscribed, &subscribed, &subscribed].map(Clone::clone));
        assert_eq!(departures.events(None, start + 60 * SECOND), [vacated]);
        assert_eq!(departures.events(Some(&subscribed), start + 61 * SECOND), [subscribed]);
        assert!(departures.recent.len() <= 1, "it does not grow");
    }
}
