//! Users who connect to this node, and those who have gone away; channels that clients of this node subscribe to, and
//! those that have no subscriber any more. The gateway reports them through a bounded queue; the events are written in
//! batches. They are best effort: a full queue or a crash loses some, and each node knows its own connections only. A
//! node that stops reports everybody away.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::feed::event_queue::EventQueue;
use crate::feed::runtime::{Runtime, now};
use crate::ledger::{EventConsumer, Ledger};
use crate::metrics::Metrics;
use crate::model::{DomainEvent, Millis, UserId};

/// The reports that wait. More are dropped.
const QUEUE: usize = 16_384;

/// The users without a connection and channels without a subscriber who may come back in time. More are away at once.
const MAX_LEAVING: usize = 100_000;

/// The interval at which users become away, and the events of one write.
const TICK: Duration = Duration::from_millis(250);
const BATCH: usize = 500;

/// Attempts at a write before its events are dropped, and the longest pause between them.
const MAX_ATTEMPTS: usize = 8;
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// How long a shutdown waits for the ledger.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// A report of the gateway.
#[derive(Debug)]
enum Report {
    /// The user has the first connection to this node.
    Connected(UserId),
    /// The user has no connection to this node any more.
    Gone(UserId),
    /// A client of the user has subscribed to the channel.
    Subscribed(Arc<str>, Option<UserId>),
    /// The channel has no subscriber on this node any more.
    Vacated(Arc<str>),
}

/// Writes events of users who connect and go away, and of subscriptions.
pub(crate) struct ConnectionActivity {
    reports: mpsc::Sender<Report>,
    /// Held by the task of [`start`](Self::start).
    state: Mutex<ActivityState>,
    ledger: Arc<dyn Ledger>,
    runtime: Arc<Runtime>,
    queue: Arc<EventQueue>,
    metrics: Arc<Metrics>,
    away_after: Duration,
}

/// What outlives a restart of the task.
struct ActivityState {
    incoming: mpsc::Receiver<Report>,
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
    pub(super) fn new(
        ledger: Arc<dyn Ledger>,
        runtime: Arc<Runtime>,
        queue: Arc<EventQueue>,
        metrics: Arc<Metrics>,
        away_after: Duration,
    ) -> Arc<Self> {
        let (reports, incoming) = mpsc::channel(QUEUE);
        let departures = Departures { leaving: HashMap::new(), away_after };
        let state = Mutex::new(ActivityState { incoming, departures });
        Arc::new(Self { reports, state, ledger, runtime, queue, metrics, away_after })
    }

    /// The user has the first connection to this node.
    pub(crate) fn connected(&self, user: &UserId) {
        self.report(Report::Connected(user.clone()));
    }

    /// The user has no connection to this node any more.
    pub(crate) fn gone(&self, user: &UserId) {
        self.report(Report::Gone(user.clone()));
    }

    /// A client has subscribed to a channel.
    pub(crate) fn subscribed(&self, channel: &Arc<str>, user: Option<UserId>) {
        self.report(Report::Subscribed(Arc::clone(channel), user));
    }

    /// A channel has no subscriber on this node any more.
    pub(crate) fn vacated(&self, channel: &Arc<str>) {
        self.report(Report::Vacated(Arc::clone(channel)));
    }

    fn report(&self, report: Report) {
        if self.reports.try_send(report).is_err() {
            self.metrics.outlet.activity_dropped(1);
        }
    }

    /// Works until the process stops.
    pub(super) fn start(self: &Arc<Self>) {
        self.runtime.supervise("outlet_activity", self, |activity| async move { activity.run().await });
    }

    async fn run(&self) {
        let mut state = self.state.lock().await;
        let ActivityState { incoming, departures } = &mut *state;
        let mut reports = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                _ = incoming.recv_many(&mut reports, BATCH) => {}
                () = tokio::time::sleep(TICK) => {}
                () = self.runtime.stopped() => return self.flush(incoming, departures).await,
            }
            let (time, instant) = (now(), Instant::now());
            let mut events: Vec<(Millis, DomainEvent)> = reports
                .drain(..)
                .filter_map(|report| departures.take(report, instant))
                .map(|event| (time, event))
                .collect();
            events.extend(departures.expire(instant).map(|event| (time, event)));
            for batch in events.chunks(BATCH) {
                self.write(batch).await;
            }
        }
    }

    /// Writes what is left when the process stops, after the gateway closed all connections: nobody else knows that
    /// these users and channels were here. They are away at once. A user who connected to another node meanwhile is
    /// reported away, too, as if the connections had overlapped.
    async fn flush(&self, incoming: &mut mpsc::Receiver<Report>, departures: &mut Departures) {
        incoming.close();
        let (time, instant) = (now(), Instant::now());
        let mut events = Vec::new();
        while let Ok(report) = incoming.try_recv() {
            events.extend(departures.take(report, instant).map(|event| (time, event)));
        }
        events.extend(departures.expire(instant + self.away_after).map(|event| (time, event)));
        let mut written = 0;
        let writing = async {
            for batch in events.chunks(BATCH) {
                let mut backoff = Backoff::new(TICK, MAX_BACKOFF);
                while let Err(error) = self.ledger.append_events(batch).await {
                    tracing::debug!(%error, "events of connections wait for the ledger");
                    tokio::time::sleep(backoff.next_delay()).await;
                }
                written += batch.len();
            }
        };
        let in_time = tokio::time::timeout(STOP_TIMEOUT, writing).await;
        if in_time.is_err() {
            tracing::warn!(lost = events.len() - written, "events of connections were not written before the stop");
            self.metrics.outlet.activity_dropped((events.len() - written) as u64);
        }
        self.queue.wake(EventConsumer::Outlet);
    }

    async fn write(&self, events: &[(Millis, DomainEvent)]) {
        let mut backoff = Backoff::new(TICK, MAX_BACKOFF);
        for _ in 0..MAX_ATTEMPTS {
            match self.ledger.append_events(events).await {
                Ok(()) => return self.queue.wake(EventConsumer::Outlet),
                Err(error) => tracing::debug!(%error, "events of connections wait for the ledger"),
            }
            if !self.runtime.sleep(backoff.next_delay()).await {
                break;
            }
        }
        self.metrics.outlet.activity_dropped(events.len() as u64);
    }
}

/// The users who have lost their last connection to this node, and the channels that have lost their last subscriber.
struct Departures {
    /// When each is away.
    leaving: HashMap<Departed, Instant>,
    away_after: Duration,
}

/// A user or a channel that was left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Departed {
    User(UserId),
    Channel(Arc<str>),
}

impl Departed {
    fn event(self) -> DomainEvent {
        match self {
            Self::User(user) => DomainEvent::UserAway { user },
            Self::Channel(channel) => DomainEvent::ChannelVacated { channel: channel.to_string() },
        }
    }
}

impl Departures {
    /// The event of a report; `None` if it causes none, or none yet.
    fn take(&mut self, report: Report, now: Instant) -> Option<DomainEvent> {
        match report {
            Report::Connected(user) => match self.leaving.remove(&Departed::User(user.clone())) {
                Some(_) => None,
                None => Some(DomainEvent::UserConnected { user }),
            },
            Report::Gone(user) => self.leave(Departed::User(user), now),
            Report::Subscribed(channel, user) => {
                self.leaving.remove(&Departed::Channel(Arc::clone(&channel)));
                Some(DomainEvent::ChannelSubscribed { channel: channel.to_string(), user })
            }
            Report::Vacated(channel) => self.leave(Departed::Channel(channel), now),
        }
    }

    fn leave(&mut self, departed: Departed, now: Instant) -> Option<DomainEvent> {
        if self.leaving.len() >= MAX_LEAVING {
            return Some(departed.event());
        }
        self.leaving.insert(departed, now + self.away_after);
        None
    }

    /// The events of those whose time is over.
    fn expire(&mut self, now: Instant) -> impl Iterator<Item = DomainEvent> {
        let away: Vec<Departed> = self.leaving.extract_if(|_, until| *until <= now).map(|(who, _)| who).collect();
        away.into_iter().map(Departed::event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn departures() -> (Departures, Instant) {
        (Departures { leaving: HashMap::new(), away_after: 10 * SECOND }, Instant::now())
    }

    #[tokio::test]
    async fn users_who_return_in_time_were_not_away() {
        let user = UserId::parse("ann").expect("an id");
        let (mut departures, start) = departures();
        let connected = DomainEvent::UserConnected { user: user.clone() };
        assert_eq!(departures.take(Report::Connected(user.clone()), start), Some(connected));
        assert_eq!(departures.take(Report::Gone(user.clone()), start), None);
        assert_eq!(departures.take(Report::Connected(user.clone()), start + 9 * SECOND), None);
        assert_eq!(departures.expire(start + 20 * SECOND).count(), 0);
        assert_eq!(departures.take(Report::Gone(user.clone()), start + 20 * SECOND), None);
        assert_eq!(departures.expire(start + 29 * SECOND).count(), 0);
        let away: Vec<_> = departures.expire(start + 30 * SECOND).collect();
        assert_eq!(away, [DomainEvent::UserAway { user: user.clone() }]);
        assert!(departures.take(Report::Connected(user), start + 31 * SECOND).is_some());
    }

    #[tokio::test]
    async fn channels_with_a_subscriber_in_time_were_not_vacated() {
        let channel: Arc<str> = "chat:1".into();
        let (mut departures, start) = departures();
        let subscribed = Some(DomainEvent::ChannelSubscribed { channel: channel.to_string(), user: None });
        assert_eq!(departures.take(Report::Subscribed(Arc::clone(&channel), None), start), subscribed);
        assert_eq!(departures.take(Report::Vacated(Arc::clone(&channel)), start), None);
        assert_eq!(departures.take(Report::Subscribed(Arc::clone(&channel), None), start + 9 * SECOND), subscribed);
        assert_eq!(departures.expire(start + 20 * SECOND).count(), 0);
        assert_eq!(departures.take(Report::Vacated(Arc::clone(&channel)), start + 20 * SECOND), None);
        let vacated: Vec<_> = departures.expire(start + 30 * SECOND).collect();
        assert_eq!(vacated, [DomainEvent::ChannelVacated { channel: channel.to_string() }]);
    }
}
