//! Counts the messages that arrive at many sockets, and detects when one has arrived at all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anyhow::{Error, Result};
use tokio::sync::Notify;

use super::client::LoadClient;
use super::socket_group::SocketGroup;

/// Which publications have arrived at every socket.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// The number of sockets.
    pub sockets: u32,
    /// The number of sockets that wait for publication `n`, at `n % len`. There are more slots than publications in
    /// flight.
    waiting: [AtomicU32; 64],
    /// The number of complete publications. Each socket receives them in order, so they complete in order.
    complete: AtomicU64,
    /// Notified when a publication is complete.
    pub changed: Notify,
}

impl Arrivals {
    fn new(sockets: u32) -> Self {
        let waiting = std::array::from_fn(|_| AtomicU32::new(sockets));
        Self { sockets, waiting, complete: AtomicU64::new(0), changed: Notify::new() }
    }

    /// A socket had seen `from` publications, and now `to`.
    fn add(&self, from: u64, to: u64) {
        for n in from..to {
            let slot = &self.waiting[n as usize % self.waiting.len()];
            if slot.fetch_sub(1, Ordering::AcqRel) == 1 {
                slot.store(self.sockets, Ordering::Release);
                self.complete.store(n + 1, Ordering::Release);
                self.changed.notify_one();
            }
        }
    }

    /// The number of publications that have arrived at every socket.
    pub(super) fn complete(&self) -> u64 {
        self.complete.load(Ordering::Acquire)
    }
}

/// Sockets that only count messages.
#[derive(Debug)]
pub(super) struct ReceiverGroup {
    /// The messages that have arrived.
    pub arrivals: Arc<Arrivals>,
    sockets: SocketGroup,
}

impl ReceiverGroup {
    /// Starts counting.
    pub(super) fn new(sockets: impl ExactSizeIterator<Item = LoadClient>) -> Self {
        let arrivals = Arc::new(Arrivals::new(sockets.len() as u32));
        let mut listening = SocketGroup::default();
        for socket in sockets {
            listening.spawn(count(socket, Arc::clone(&arrivals)));
        }
        Self { arrivals, sockets: listening }
    }

    /// Waits until a socket fails, and returns the reason.
    pub(super) async fn failure(&mut self) -> Error {
        self.sockets.failure().await
    }
}

async fn count(mut socket: LoadClient, arrivals: Arc<Arrivals>) -> Result<()> {
    let mut seen = 0;
    loop {
        let marks = u64::from(socket.read().await?.marks);
        arrivals.add(seen, seen + marks);
        seen += marks;
    }
}
