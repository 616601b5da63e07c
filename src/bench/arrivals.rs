//! Counts what arrives at many sockets, and knows when the last of them has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anyhow::{Error, Result, anyhow};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};

use super::client::LoadClient;

/// Which publications have arrived everywhere.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// How many sockets there are.
    pub sockets: u32,
    /// How many of them still wait for publication `n`, at `n % len`. More slots than are ever in flight.
    waiting: [AtomicU32; 64],
    /// How many publications are complete. Each socket gets them in order, so they are completed in order.
    complete: AtomicU64,
    /// One was completed.
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

    /// How many publications have arrived everywhere.
    pub(super) fn complete(&self) -> u64 {
        self.complete.load(Ordering::Acquire)
    }
}

/// Sockets that do nothing but count.
#[derive(Debug)]
pub(super) struct ReceiverGroup {
    /// What they have seen.
    pub arrivals: Arc<Arrivals>,
    sockets: JoinSet<Result<()>>,
}

impl ReceiverGroup {
    /// Lets them count from now on.
    pub(super) fn new(sockets: impl ExactSizeIterator<Item = LoadClient>) -> Self {
        let arrivals = Arc::new(Arrivals::new(sockets.len() as u32));
        let mut listening = JoinSet::new();
        for socket in sockets {
            listening.spawn(count(socket, Arc::clone(&arrivals)));
        }
        Self { arrivals, sockets: listening }
    }

    /// Waits until a socket fails, and says why.
    pub(super) async fn failure(&mut self) -> Error {
        match self.sockets.join_next().await {
            Some(ended) => reason(ended).context("a socket failed"),
            None => std::future::pending().await,
        }
    }
}

fn reason(ended: Result<Result<()>, JoinError>) -> Error {
    match ended {
        Ok(Err(error)) => error,
        Ok(Ok(())) => anyhow!("it ended"),
        Err(error) => error.into(),
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
