//! Counts the deliveries of numbered posts at many sockets, and measures how long each took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Error, Result, bail, ensure};
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tokio::time::sleep;

use super::client::LoadClient;
use super::messages::MARK;
use super::socket_group::SocketGroup;

/// Digits of the number behind the mark of a post.
const DIGITS: usize = 8;
/// Bytes of a post's text as JSON, quotes included.
const TEXT: usize = 200;
/// Posts whose time of sending is kept: more than can be under way.
const SLOTS: usize = 1 << 16;
/// The interval of checks whether everything has arrived, and their time limit.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_secs(30);

/// The text of the post number `n`, as a JSON string.
pub(super) fn text(n: u64) -> String {
    format!("\"{}{n:0DIGITS$}{}\"", char::from(MARK), "x".repeat(TEXT - 3 - DIGITS))
}

/// Deliveries since the last reset.
#[derive(Debug)]
pub(super) struct DeliveryLog {
    start: Instant,
    /// When each post was sent, in microseconds after `start`: post `n` at `n % SLOTS`.
    sent: Box<[AtomicU64]>,
    /// Deliveries to come of the posts sent so far, and those that arrived.
    expected: AtomicU64,
    arrived: AtomicU64,
    /// When the last delivery arrived, in microseconds after `start`.
    last: AtomicU64,
    micros: Mutex<Histogram<u64>>,
}

impl DeliveryLog {
    fn new() -> Result<Self> {
        Ok(Self {
            start: Instant::now(),
            sent: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            expected: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            last: AtomicU64::new(0),
            micros: Mutex::new(Histogram::new(3)?),
        })
    }

    fn micros(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.start).as_micros() as u64
    }

    /// Post `n` is sent now; its latency counts from `due`, and it will arrive at `sockets` sockets.
    pub(super) fn sending(&self, n: u64, due: Instant, sockets: usize) {
        self.sent[n as usize % SLOTS].store(self.micros(due), Ordering::Release);
        self.expected.fetch_add(sockets as u64, Ordering::AcqRel);
    }

    /// Post `n` arrived at a socket.
    fn arrive(&self, n: u64) -> Result<()> {
        let now = self.micros(Instant::now());
        let sent = self.sent[n as usize % SLOTS].load(Ordering::Acquire);
        self.micros.lock().record(now.saturating_sub(sent))?;
        self.last.store(now, Ordering::Release);
        self.arrived.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Waits until every post has arrived at every socket. Returns when the last one did.
    pub(super) async fn settle(&self) -> Result<Instant> {
        let start = Instant::now();
        loop {
            let arrived = self.arrived.load(Ordering::Acquire);
            let expected = self.expected.load(Ordering::Acquire);
            if arrived == expected {
                return Ok(self.start + Duration::from_micros(self.last.load(Ordering::Acquire)));
            }
            ensure!(arrived < expected, "{arrived} deliveries arrived, only {expected} were expected");
            if start.elapsed() > TIMEOUT {
                bail!("{arrived} of {expected} deliveries arrived within {TIMEOUT:?}");
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// The number of deliveries so far.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Acquire)
    }

    /// Forgets the latencies so far.
    pub(super) fn clear_latencies(&self) {
        self.micros.lock().reset();
    }

    /// The median, the 99th and the 99.9th percentile of the latency of a delivery, in milliseconds.
    pub(super) fn latencies(&self) -> [f64; 3] {
        let micros = self.micros.lock();
        [0.5, 0.99, 0.999].map(|part| micros.value_at_quantile(part) as f64 / 1e3)
    }
}

/// Sockets that receive posts.
#[derive(Debug)]
pub(super) struct FeedReaders {
    /// The deliveries.
    pub log: Arc<DeliveryLog>,
    sockets: SocketGroup,
}

impl FeedReaders {
    /// Starts to read.
    pub(super) fn new(sockets: impl Iterator<Item = LoadClient>) -> Result<Self> {
        let log = Arc::new(DeliveryLog::new()?);
        let mut reading = SocketGroup::default();
        for socket in sockets {
            reading.spawn(read(socket, Arc::clone(&log)));
        }
        Ok(Self { log, sockets: reading })
    }

    /// Waits until a socket fails, and returns the reason.
    pub(super) async fn failure(&mut self) -> Error {
        self.sockets.failure().await
    }
}

async fn read(mut socket: LoadClient, log: Arc<DeliveryLog>) -> Result<()> {
    let mut numbers = NumberReader::default();
    loop {
        let mut recorded = Ok(());
        socket
            .read_with(|segment| {
                numbers.feed(segment, |n| {
                    if let Err(error) = log.arrive(n) {
                        recorded = Err(error);
                    }
                });
            })
            .await?;
        recorded?;
    }
}

/// Reads the numbers behind the marks of a stream that is split anywhere.
#[derive(Debug, Default)]
struct NumberReader {
    /// Digits of the current number that are still to come.
    left: usize,
    number: u64,
}

impl NumberReader {
    fn feed(&mut self, mut bytes: &[u8], mut found: impl FnMut(u64)) {
        loop {
            while self.left > 0 {
                let Some((digit, rest)) = bytes.split_first() else { return };
                bytes = rest;
                self.number = self.number * 10 + u64::from(digit.wrapping_sub(b'0'));
                self.left -= 1;
                if self.left == 0 {
                    found(self.number);
                }
            }
            let Some(at) = bytes.iter().position(|byte| *byte == MARK) else { return };
            bytes = &bytes[at + 1..];
            (self.left, self.number) = (DIGITS, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_do_not_depend_on_where_the_stream_is_cut() {
        let stream: String = (0..20).map(|n| text(n * 1_234_567)).collect();
        assert_eq!(text(7).len(), TEXT);
        for cut in [1, 2, 7, 100, 10_000] {
            let mut reader = NumberReader::default();
            let mut found = Vec::new();
            for piece in stream.as_bytes().chunks(cut) {
                reader.feed(piece, |n| found.push(n));
            }
            assert_eq!(found, (0..20).map(|n| n * 1_234_567).collect::<Vec<_>>(), "cut after {cut}");
        }
    }
}
