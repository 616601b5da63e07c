//! Background work on rooms: compares their positions with the logs, and removes empty rooms.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::room::Room;
use super::room_queue::RoomQueue;
use super::room_update::RoomUpdate;
use super::rooms::RoomTable;
use crate::backoff::Backoff;
use crate::broker::{Broker, BrokerError};

/// How long a room stays without members: a client that reconnects soon finds it up to date.
const IDLE_PERIOD: Duration = Duration::from_secs(10);

/// How often empty rooms are removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// How often positions are compared with the logs although nothing seems wrong: a single lost hint on a quiet channel
/// would otherwise be noticed with the next entry only.
const COMPARE_INTERVAL: Duration = Duration::from_secs(30);

/// Positions that are read in one call.
const MAX_POSITIONS: usize = 500;

/// The delays between attempts to compare.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const MAX_RETRY: Duration = Duration::from_secs(2);

/// Keeps rooms in step with the logs.
pub(super) struct RoomUpkeep {
    rooms: Arc<RoomTable>,
    queue: Arc<RoomQueue>,
    broker: Arc<dyn Broker>,
}

impl RoomUpkeep {
    pub(super) fn new(rooms: Arc<RoomTable>, queue: Arc<RoomQueue>, broker: Arc<dyn Broker>) -> Self {
        Self { rooms, queue, broker }
    }

    /// Compares positions with the logs, at intervals and on request, until `stopping`.
    pub(super) async fn compare_until(&self, stopping: &CancellationToken) {
        let mut interval = tokio::time::interval(COMPARE_INTERVAL);
        loop {
            tokio::select! {
                () = stopping.cancelled() => return,
                _ = interval.tick() => {}
                () = self.queue.resync_requested() => {}
            }
            self.compare_all(stopping).await;
        }
    }

    /// Removes empty rooms until `stopping`.
    pub(super) async fn sweep_until(&self, stopping: &CancellationToken) {
        let mut interval = tokio::time::interval(SWEEP_INTERVAL);
        while stopping.run_until_cancelled(interval.tick()).await.is_some() {
            for room in self.rooms.filter(|room| room.is_idle(IDLE_PERIOD)) {
                if room.remove_if_idle(IDLE_PERIOD, &*self.broker).await {
                    // After the node has unsubscribed: a new room of the channel subscribes later.
                    self.rooms.remove(&room);
                }
            }
        }
    }

    /// Compares every room with its log, until that has succeeded.
    async fn compare_all(&self, stopping: &CancellationToken) {
        let mut backoff = Backoff::new(FIRST_RETRY, MAX_RETRY);
        while let Err(error) = self.compare_rooms().await {
            tracing::warn!(%error, "positions could not be compared with the logs");
            if stopping.run_until_cancelled(tokio::time::sleep(backoff.next_delay())).await.is_none() {
                return;
            }
        }
    }

    async fn compare_rooms(&self) -> Result<(), BrokerError> {
        let mut replaced = 0;
        let with_log = self.rooms.filter(|room| room.position().is_some());
        for batch in with_log.chunks(MAX_POSITIONS) {
            let names: Vec<Arc<str>> = batch.iter().map(|room| Arc::clone(room.name())).collect();
            let positions = self.broker.positions(&names).await?;
            let compared = batch.iter().zip(positions);
            replaced += compared.filter(|(room, end)| self.compare(room, end.as_ref())).count();
        }
        if replaced > 0 {
            tracing::warn!(channels = replaced, "logs were lost or replaced in the broker: their clients read a page");
        }
        Ok(())
    }

    /// Returns whether the log of a room was lost or replaced.
    fn compare(&self, room: &Arc<Room>, end: Option<&crate::model::Position>) -> bool {
        let update = room.compare(end);
        let is_replaced = matches!(update, RoomUpdate::Replaced(_));
        if let RoomUpdate::Replaced(members) = &update {
            tracing::debug!(channel = %room.name(), members = members.len(), "a log was lost or replaced");
        }
        self.queue.apply(room, update);
        is_replaced
    }
}
