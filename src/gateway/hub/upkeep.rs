//! What the hub does besides delivering: it compares positions with the logs, and sweeps up rooms that nobody is in.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Hub;
use super::room::{Accepted, Room};
use crate::backoff::Backoff;
use crate::broker::BrokerError;

/// How long a room stays without members: somebody who comes back soon finds it warm.
const LINGER: Duration = Duration::from_secs(10);

/// How often empty rooms are looked for.
const SWEEP: Duration = Duration::from_secs(5);

/// How often positions are compared with the logs although nothing seems wrong: a single lost hint on a quiet channel
/// would otherwise be noticed with the next entry only.
const COMPARE: Duration = Duration::from_secs(30);

/// Positions asked for at once.
const BATCH: usize = 500;

/// Workers that put bodies to ids.
const WORKERS: usize = 2;

impl Hub {
    /// Starts delivering and keeping house, until `stopping`.
    pub fn start(self: &Arc<Self>, tasks: &TaskTracker, stopping: &CancellationToken) {
        for _ in 0..WORKERS {
            tasks.spawn(Arc::clone(self).serve_rooms(stopping.clone()));
        }
        let (hub, stop) = (Arc::clone(self), stopping.clone());
        tasks.spawn(async move {
            let mut compare = tokio::time::interval(COMPARE);
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    _ = compare.tick() => {}
                    () = hub.work.resync_asked() => {}
                }
                hub.compare_all(&stop).await;
            }
        });
        let (hub, stop) = (Arc::clone(self), stopping.clone());
        tasks.spawn(async move {
            let mut sweep = tokio::time::interval(SWEEP);
            while stop.run_until_cancelled(sweep.tick()).await.is_some() {
                hub.sweep().await;
            }
        });
    }

    /// Compares every room with its log, until that has worked.
    async fn compare_all(self: &Arc<Self>, stop: &CancellationToken) {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
        while let Err(error) = self.compare_rooms().await {
            tracing::warn!(%error, "positions could not be compared with the logs");
            if stop.run_until_cancelled(tokio::time::sleep(backoff.next_delay())).await.is_none() {
                return;
            }
        }
    }

    async fn compare_rooms(&self) -> Result<(), BrokerError> {
        let rooms: Vec<Arc<Room>> = self.rooms.iter().map(|room| Arc::clone(room.value())).collect();
        let logged: Vec<Arc<Room>> = rooms.into_iter().filter(|room| room.state.lock().position().is_some()).collect();
        for batch in logged.chunks(BATCH) {
            let names: Vec<Arc<str>> = batch.iter().map(|room| Arc::clone(&room.name)).collect();
            let positions = self.broker.positions(&names).await?;
            for (room, position) in batch.iter().zip(positions) {
                let accepted = match &position {
                    Some(position) => room.state.lock().establish(position),
                    None => room.state.lock().replace(None),
                };
                if let Accepted::Replaced(members) = &accepted {
                    tracing::debug!(channel = %room.name, members = members.len(), "a log is gone");
                }
                self.after(room, accepted);
            }
        }
        Ok(())
    }

    async fn sweep(&self) {
        let empty: Vec<Arc<Room>> = self
            .rooms
            .iter()
            .filter(|room| room.state.lock().is_idle(LINGER))
            .map(|room| Arc::clone(room.value()))
            .collect();
        for room in empty {
            let mut linked = room.linked.lock().await;
            if !room.state.lock().die(LINGER) {
                continue;
            }
            room.moved.notify_waiters();
            if *linked && let Err(error) = self.broker.unsubscribe(&room.name).await {
                // The node hears of the channel for nothing until somebody joins and leaves it again.
                tracing::debug!(%error, channel = %room.name, "a channel could not be unsubscribed from");
            }
            *linked = false;
            // After the broker is told: a new room of that name subscribes after it.
            self.rooms.remove_if(&room.name, |_, current| Arc::ptr_eq(current, &room));
        }
    }
}
