//! Counts the deliveries of posts at many sockets, and measures how long each took.
//!
//! Each post contains the time when it was due, in microseconds after the start of the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use parking_lot::Mutex;
use tokio::time::sleep;

use super::client::LoadClient;
use super::frames::MARK;
use super::http_load::{Latencies, no_latencies, quantile};
use super::seed;

/// Digits of the time behind the mark of a post.
const DIGITS: usize = 11;
/// The interval of checks whether everything has arrived, and their time limit.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_secs(30);

/// The text of a post that was due at this time, as a JSON string.
fn text(micros: u64) -> String {
    seed::text(&format!("{micros:0DIGITS$}"))
}

/// The times behind the marks of whole messages.
fn times(payload: &[u8]) -> impl Iterator<Item = Option<u64>> {
    memchr::memchr_iter(MARK, payload).map(|at| {
        let digits = payload.get(at + 1..at + 1 + DIGITS)?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    })
}

/// The deliveries so far.
#[derive(Debug)]
pub(super) struct DeliveryLog {
    start: Instant,
    /// Deliveries of the posts sent so far, and those that arrived.
    expected: AtomicU64,
    arrived: AtomicU64,
    /// When the last delivery arrived, in microseconds after `start`.
    last: AtomicU64,
    latencies: Mutex<Latencies>,
}

impl DeliveryLog {
    /// No deliveries.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            start: Instant::now(),
            expected: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            last: AtomicU64::new(0),
            latencies: Mutex::new(no_latencies()?),
        })
    }

    fn micros(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.start).as_micros() as u64
    }

    /// The text of a post that is sent now, as a JSON string. Its latency counts from `due`, and it will arrive at
    /// `sockets` sockets.
    pub(super) fn text(&self, due: Instant, sockets: usize) -> String {
        self.expected.fetch_add(sockets as u64, Ordering::AcqRel);
        text(self.micros(due))
    }

    /// Reads a socket until it fails.
    pub(super) async fn read(self: Arc<Self>, mut socket: LoadClient) -> Result<()> {
        loop {
            let mut arrived = Vec::new();
            socket.read(|payload| arrived.extend(times(payload))).await?;
            let now = self.micros(Instant::now());
            for due in arrived {
                let due = due.context("a post without its time")?;
                self.latencies.lock().record(now.saturating_sub(due))?;
                self.last.store(now, Ordering::Release);
                self.arrived.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// Waits until every post has arrived at every socket. Returns when the last one did.
    pub(super) async fn settle(&self) -> Result<Instant> {
        let start = Instant::now();
        loop {
            let arrived = self.arrived();
            let expected = self.expected.load(Ordering::Acquire);
            if arrived == expected {
                return Ok(self.start + Duration::from_micros(self.last.load(Ordering::Acquire)));
            }
            ensure!(arrived < expected, "{arrived} deliveries arrived, only {expected} were expected");
            ensure!(start.elapsed() < TIMEOUT, "{arrived} of {expected} deliveries arrived within {TIMEOUT:?}");
            sleep(POLL_INTERVAL).await;
        }
    }

    /// The number of deliveries so far.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Acquire)
    }

    /// Forgets the latencies so far.
    pub(super) fn clear_latencies(&self) {
        self.latencies.lock().reset();
    }

    /// The median, the 99th and the 99.9th percentile of the latency of a delivery, in milliseconds.
    pub(super) fn latencies(&self) -> [f64; 3] {
        let latencies = self.latencies.lock();
        [0.5, 0.99, 0.999].map(|part| quantile(&latencies, part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posts_have_their_times() {
        let payload: String = (0..20).map(|n| text(n * 1_234_567)).collect();
        assert_eq!(text(7).len(), seed::TEXT);
        assert!(times(payload.as_bytes()).eq((0..20).map(|n| Some(n * 1_234_567))));
        assert!(times(b"~123").eq([None]));
    }
}
