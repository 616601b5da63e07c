//! Wakes the settlers of this node when the intake has appended likes.

use tokio::sync::Notify;

/// One waker for each partition.
pub(crate) struct SettlerWakers(Vec<Notify>);

impl SettlerWakers {
    /// Wakers for this many partitions.
    pub(crate) fn new(partitions: u16) -> Self {
        Self((0..partitions).map(|_| Notify::new()).collect())
    }

    /// Wakes the settler of a partition.
    pub(super) fn wake(&self, partition: u16) {
        self.0[usize::from(partition)].notify_one();
    }

    /// Waits until likes were appended to a partition.
    pub(super) async fn wait(&self, partition: u16) {
        self.0[usize::from(partition)].notified().await;
    }
}
