//! Presence: the clients in the channels that track it, and the joins and leaves that are pushed there. Subscriptions
//! that are events of the outlet are counted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::task::TaskTracker;

use super::channel_occupancy::{ChannelOccupancy, Occupant};
use super::presence_order::{PresenceOrder, PresenceTurn};
use crate::broker::{Broker, PresenceEvent, PresentClient};
use crate::gateway::channels::join::Join;
use crate::gateway::hub::Membership;

/// How long a client counts as present at least without a renewal.
const MIN_PRESENCE_TTL: Duration = Duration::from_secs(60);

/// How long a client counts as present without a renewal. Pings renew it; a client misses one of them at most before it
/// is closed.
pub(crate) fn presence_ttl(ping_interval: Duration, pong_timeout: Duration) -> Duration {
    MIN_PRESENCE_TTL.max(ping_interval.saturating_mul(2).saturating_add(pong_timeout))
}

/// Writes presence to the broker.
pub(crate) struct PresenceTracker {
    broker: Arc<dyn Broker>,
    /// The tasks of the gateway: a shutdown waits for updates in progress.
    tasks: TaskTracker,
    order: Arc<PresenceOrder>,
    /// See [`presence_ttl`].
    ttl: Duration,
    /// Counts subscriptions that are events; `None`: there are none.
    occupancy: Option<Arc<ChannelOccupancy>>,
}

/// A client in a channel: its membership in the room and, where the channel tracks presence, its entry there. Dropping
/// it removes the client from both. It does not matter whether a subscription ended, was refused after the client had
/// joined, or its command was dropped together with the connection.
pub(crate) struct Subscriber {
    membership: Membership,
    /// In a box: most channels have neither presence nor events.
    tracked: Option<Box<TrackedSubscriber>>,
}

/// What is known elsewhere of a client in a channel.
struct TrackedSubscriber {
    presence: Option<PresenceEntry>,
    occupant: Option<Occupant>,
}

impl Subscriber {
    /// The channel's name.
    pub(crate) fn channel(&self) -> &Arc<str> {
        self.membership.channel()
    }

    /// Counts the subscription, and pushes the join to the channel. Only a client whose join was pushed pushes a leave
    /// later.
    pub(crate) fn announce(&mut self) {
        let Some(tracked) = &mut self.tracked else { return };
        if let Some(occupant) = &mut tracked.occupant {
            occupant.count();
        }
        let Some(entry) = tracked.presence.as_mut().filter(|entry| entry.pushes_joins) else { return };
        entry.announced = true;
        let tracker = Arc::clone(&entry.tracker);
        let name = Arc::clone(&entry.channel);
        let info = entry.info.clone();
        let mut turn = tracker.order.push(&name, &entry.client);
        entry.tracker.tasks.spawn(async move {
            turn.wait().await;
            log_failure(tracker.broker.publish_presence_event(&name, &PresenceEvent::Join(info)).await);
        });
    }

    /// Renews the client's presence.
    pub(crate) fn renew_presence(&self) {
        let Some(entry) = self.tracked.as_ref().and_then(|tracked| tracked.presence.as_ref()) else { return };
        let Some(turn) = entry.turn.clone() else { return };
        let tracker = Arc::clone(&entry.tracker);
        let name = Arc::clone(&entry.channel);
        let info = entry.info.clone();
        let client = entry.client.clone();
        let user = entry.user.clone();
        entry.tracker.tasks.spawn(async move {
            let Some(_guard) = turn.update().await else { return };
            let client = PresentClient { client: &client, user: &user, info: &info };
            log_failure(tracker.broker.present(&name, client, tracker.ttl).await);
        });
    }
}

/// One client's entry in a channel that tracks presence or pushes joins.
struct PresenceEntry {
    tracker: Arc<PresenceTracker>,
    channel: Arc<str>,
    client: String,
    user: String,
    /// The client's `ClientInfo` as JSON.
    info: Bytes,
    /// Where the client is kept in the presence.
    turn: Option<PresenceTurn>,
    pushes_joins: bool,
    /// The join was pushed.
    announced: bool,
}

impl Drop for PresenceEntry {
    fn drop(&mut self) {
        let tracker = Arc::clone(&self.tracker);
        let channel = Arc::clone(&self.channel);
        let client = self.client.clone();
        let turn = self.turn.take();
        let leave = self.announced.then(|| (self.info.clone(), tracker.order.push(&channel, &client)));
        self.tracker.tasks.spawn(async move {
            if let Some(turn) = turn
                && let Some(_guard) = turn.end().await
            {
                log_failure(tracker.broker.absent(&channel, &client).await);
            }
            if let Some((info, mut turn)) = leave {
                turn.wait().await;
                log_failure(tracker.broker.publish_presence_event(&channel, &PresenceEvent::Leave(info)).await);
            }
        });
    }
}

impl PresenceTracker {
    /// A tracker of clients that are present for `ttl` after each renewal, see [`presence_ttl`].
    pub(crate) fn new(
        broker: Arc<dyn Broker>,
        tasks: TaskTracker,
        ttl: Duration,
        occupancy: Option<Arc<ChannelOccupancy>>,
    ) -> Self {
        Self { broker, tasks, order: Arc::new(PresenceOrder::new()), ttl, occupancy }
    }

    /// Makes a client present in its room, where the channel tracks that.
    pub(crate) async fn enter(self: &Arc<Self>, join: &Join, membership: Membership) -> Subscriber {
        let presence = self.present(join).await;
        let occupancy = self.occupancy.as_ref().filter(|_| join.features.causes_events);
        let occupant = occupancy.map(|occupancy| occupancy.occupant(&join.name, join.user.clone()));
        let is_tracked = presence.is_some() || occupant.is_some();
        let tracked = is_tracked.then(|| Box::new(TrackedSubscriber { presence, occupant }));
        Subscriber { membership, tracked }
    }

    async fn present(self: &Arc<Self>, join: &Join) -> Option<PresenceEntry> {
        let is_tracked = join.features.presence;
        let pushes_joins = join.features.announces_joins;
        let info = join.info.as_ref().filter(|_| is_tracked || pushes_joins);
        let encoded = info.and_then(|info| Some((info, serde_json::to_vec(info).ok()?.into())));
        let (client_info, info) = encoded?;
        let tracker = Arc::clone(self);
        let channel = Arc::clone(&join.name);
        // Before the call of the broker: what is in progress when the client disconnects is undone as well.
        let client = client_info.client.clone();
        let user = client_info.user.clone();
        let turn = is_tracked.then(|| self.order.begin(&channel, &client));
        let entry = PresenceEntry { tracker, channel, client, user, info, turn, pushes_joins, announced: false };
        if let Some(turn) = &entry.turn
            && let Some(_guard) = turn.update().await
        {
            let client = PresentClient { client: &entry.client, user: &entry.user, info: &entry.info };
            log_failure(self.broker.present(&entry.channel, client, self.ttl).await);
        }
        Some(entry)
    }
}

/// Presence is renewed with every ping, and a lost join or leave does no harm.
fn log_failure(result: crate::broker::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "presence could not be updated");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presence_outlives_a_missed_ping() {
        let ttl = |ping, pong| presence_ttl(Duration::from_secs(ping), Duration::from_secs(pong)).as_secs();
        assert_eq!([ttl(25, 8), ttl(30, 10), ttl(60, 8), ttl(300, 20)], [60, 70, 128, 620]);
    }
}
