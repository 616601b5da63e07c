//! Users who connect to this node, and those who have gone away. The gateway reports connections through a bounded
//! queue; the events are written in batches. They are best effort: a full queue or a crash loses some, and each node
//! knows its own connections only.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::feed::event_queue::EventQueue;
use crate::feed::runtime::{Runtime, now};
use crate::ledger::{EventConsumer, Ledger};
use crate::metrics::Metrics;
use crate::model::{DomainEvent, Millis, UserId};

/// The reports that wait. More are dropped.
const QUEUE: usize = 16_384;

/// The users without a connection who may come back in time. More are away at once.
const MAX_LEAVING: usize = 100_000;

/// The interval at which users become away, and the events of one write.
const TICK: Duration = Duration::from_millis(250);
const BATCH: usize = 500;

/// Attempts at a write before its events are dropped, and the longest pause between them.
const MAX_ATTEMPTS: usize = 8;
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// A report of the gateway.
#[derive(Debug)]
enum Report {
    /// The user has the first connection to this node.
    Connected(UserId),
    /// The user has no connection to this node any more.
    Gone(UserId),
}

/// Writes events of users who connect and go away.
pub(crate) struct UserActivity {
    reports: mpsc::Sender<Report>,
    incoming: Mutex<Option<mpsc::Receiver<Report>>>,
    ledger: Arc<dyn Ledger>,
    runtime: Arc<Runtime>,
    queue: Arc<EventQueue>,
    metrics: Arc<Metrics>,
    away_after: Duration,
}

impl std::fmt::Debug for UserActivity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UserActivity")
    }
}

impl UserActivity {
    /// Activity on this node; users are away after a time without a connection.
    pub(super) fn new(
        ledger: Arc<dyn Ledger>,
        runtime: Arc<Runtime>,
        queue: Arc<EventQueue>,
        metrics: Arc<Metrics>,
        away_after: Duration,
    ) -> Arc<Self> {
        let (reports, incoming) = mpsc::channel(QUEUE);
        let incoming = Mutex::new(Some(incoming));
        Arc::new(Self { reports, incoming, ledger, runtime, queue, metrics, away_after })
    }

    /// The user has the first connection to this node.
    pub(crate) fn connected(&self, user: &UserId) {
        self.report(Report::Connected(user.clone()));
    }

    /// The user has no connection to this node any more.
    pub(crate) fn gone(&self, user: &UserId) {
        self.report(Report::Gone(user.clone()));
    }

    fn report(&self, report: Report) {
        if self.reports.try_send(report).is_err() {
            self.metrics.outlet.activity_dropped(1);
        }
    }

    /// Works until the process stops.
    pub(super) fn start(self: &Arc<Self>) {
        let Some(incoming) = self.incoming.lock().take() else { return };
        let activity = Arc::clone(self);
        self.runtime.spawn(async move { activity.run(incoming).await });
    }

    async fn run(&self, mut incoming: mpsc::Receiver<Report>) {
        let mut users = Users { leaving: HashMap::new(), away_after: self.away_after };
        let mut reports = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                _ = incoming.recv_many(&mut reports, BATCH) => {}
                () = tokio::time::sleep(TICK) => {}
                () = self.runtime.stopped() => return,
            }
            let (time, instant) = (now(), Instant::now());
            let mut events: Vec<(Millis, DomainEvent)> =
                reports.drain(..).filter_map(|report| users.take(report, instant)).map(|event| (time, event)).collect();
            events.extend(users.expire(instant).map(|event| (time, event)));
            for batch in events.chunks(BATCH) {
                self.write(batch).await;
            }
        }
    }

    async fn write(&self, events: &[(Millis, DomainEvent)]) {
        let mut backoff = Backoff::new(TICK, MAX_BACKOFF);
        for _ in 0..MAX_ATTEMPTS {
            match self.ledger.append_events(events).await {
                Ok(()) => return self.queue.wake(EventConsumer::Outlet),
                Err(error) => tracing::debug!(%error, "the activity of users waits for the ledger"),
            }
            if !self.runtime.sleep(backoff.next_delay()).await {
                break;
            }
        }
        self.metrics.outlet.activity_dropped(events.len() as u64);
    }
}

/// The users of this node who have lost their last connection.
struct Users {
    /// When each becomes away.
    leaving: HashMap<UserId, Instant>,
    away_after: Duration,
}

impl Users {
    /// The event of a report; `None` if it causes none, or none yet.
    fn take(&mut self, report: Report, now: Instant) -> Option<DomainEvent> {
        match report {
            Report::Connected(user) => match self.leaving.remove(&user) {
                Some(_) => None,
                None => Some(DomainEvent::UserConnected { user }),
            },
            Report::Gone(user) if self.leaving.len() >= MAX_LEAVING => Some(DomainEvent::UserAway { user }),
            Report::Gone(user) => {
                self.leaving.insert(user, now + self.away_after);
                None
            }
        }
    }

    /// The events of users whose time is over.
    fn expire(&mut self, now: Instant) -> impl Iterator<Item = DomainEvent> {
        let away: Vec<UserId> = self.leaving.extract_if(|_, until| *until <= now).map(|(user, _)| user).collect();
        away.into_iter().map(|user| DomainEvent::UserAway { user })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn users_who_return_in_time_were_not_away() {
        let user = UserId::parse("ann").expect("an id");
        let second = Duration::from_secs(1);
        let (mut users, start) = (Users { leaving: HashMap::new(), away_after: 10 * second }, Instant::now());
        let connected = DomainEvent::UserConnected { user: user.clone() };
        assert_eq!(users.take(Report::Connected(user.clone()), start), Some(connected));
        assert_eq!(users.take(Report::Gone(user.clone()), start), None);
        assert_eq!(users.take(Report::Connected(user.clone()), start + 9 * second), None);
        assert_eq!(users.expire(start + 20 * second).count(), 0);
        assert_eq!(users.take(Report::Gone(user.clone()), start + 20 * second), None);
        assert_eq!(users.expire(start + 29 * second).count(), 0);
        let away: Vec<_> = users.expire(start + 30 * second).collect();
        assert_eq!(away, [DomainEvent::UserAway { user: user.clone() }]);
        assert!(users.take(Report::Connected(user), start + 31 * second).is_some());
    }
}
