//! The publishers of a broadcast, one socket or sequential HTTP clients, and what has arrived at its receivers.

use std::cell::Cell;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use tokio::sync::Notify;

use super::client::LoadClient;
use super::frames::{LoadEncoding, push_frame};
use super::http_load::{HttpClient, HttpLoad, LoadPace, quantile};
use super::seed;

/// The most publications in flight.
pub(super) const MAX_IN_FLIGHT: u64 = 32;
/// The maximum number of HTTP publishers.
const MAX_PUBLISHERS: usize = 1_000;
/// Calls a second beside HTTP publishers.
const CALL_RATE: f64 = 100.0;

/// How publications are sent (`--publishers`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PublisherKind {
    /// One WebSocket, which sends everything that may be in flight at once.
    Socket,
    /// HTTP clients with a persistent connection each. Each waits for a response before it sends the next request.
    Http(usize),
}

impl FromStr for PublisherKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "socket" {
            return Ok(Self::Socket);
        }
        let number = text.strip_prefix("http:").and_then(|number| number.parse().ok());
        let number = number.filter(|number| (1..=MAX_PUBLISHERS).contains(number));
        number.map(Self::Http).ok_or_else(|| format!("expected socket, or http:N with N from 1 to {MAX_PUBLISHERS}"))
    }
}

/// Which publications have arrived at every socket.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// The number of sockets.
    pub sockets: u32,
    /// The number of sockets that wait for publication `n`, at `n % len`. There are more slots than publications in
    /// flight.
    waiting: [AtomicU32; 2 * MAX_IN_FLIGHT as usize],
    /// The number of complete publications. Each socket receives them in order, so they complete in order.
    complete: AtomicU64,
    /// Notified when a publication is complete.
    changed: Notify,
}

impl Arrivals {
    /// Nothing has arrived.
    pub(super) fn new(sockets: u32) -> Self {
        let waiting = std::array::from_fn(|_| AtomicU32::new(sockets));
        Self { sockets, waiting, complete: AtomicU64::new(0), changed: Notify::new() }
    }

    /// The number of publications that have arrived at every socket.
    pub(super) fn complete(&self) -> u64 {
        self.complete.load(Ordering::Acquire)
    }
}

/// Counts what arrives at a socket, until it fails.
pub(super) async fn receive(mut socket: LoadClient, arrivals: Arc<Arrivals>) -> Result<()> {
    let mut seen = 0;
    loop {
        let from = seen;
        seen += u64::from(socket.read(|_| {}).await?);
        for n in from..seen {
            let slot = &arrivals.waiting[n as usize % arrivals.waiting.len()];
            if slot.fetch_sub(1, Ordering::AcqRel) == 1 {
                slot.store(arrivals.sockets, Ordering::Release);
                arrivals.complete.store(n + 1, Ordering::Release);
                arrivals.changed.notify_one();
            }
        }
    }
}

/// A publication by HTTP.
pub(super) struct PublishRequest {
    /// The path.
    pub path: &'static str,
    /// The API key; empty for the floor.
    pub key: String,
    /// The body.
    pub body: Bytes,
}

impl PublishRequest {
    async fn send(&self, client: &HttpClient) -> Result<()> {
        let answer = client.post(self.path, &self.key, "", self.body.clone()).await?;
        // The server API answers errors with status 200 as well.
        ensure!(!answer.starts_with(b"{\"error\":"), "{}: {}", self.path, String::from_utf8_lossy(&answer));
        Ok(())
    }

    /// Sends it at [`CALL_RATE`]. Returns the 99th percentile of the latency, in milliseconds.
    pub(super) async fn p99(&self, client: &HttpClient, length: Duration) -> Result<f64> {
        let load = HttpLoad { pace: LoadPace::Rate(CALL_RATE), length, count: usize::MAX, is_exact: false };
        let send = async |client: &HttpClient, _, _| self.send(client).await;
        Ok(quantile(&load.run(std::slice::from_ref(client), send).await?, 0.99))
    }
}

/// The publishers of a room.
pub(super) enum Publisher {
    /// A WebSocket, and the channel that it publishes to; `None` on the floor.
    Socket { socket: LoadClient, channel: Option<&'static str> },
    /// HTTP clients, and what each sends.
    Http { clients: Vec<HttpClient>, request: PublishRequest },
}

impl Publisher {
    /// Keeps up to `window` publications in flight until the deadline, then waits for the last one. In flight are those
    /// that were sent and have not arrived at every socket.
    pub(super) async fn publish(&mut self, arrivals: &Arrivals, deadline: Instant, window: u64) -> Result<()> {
        match self {
            Self::Socket { socket, channel } => publish_on(socket, *channel, arrivals, deadline, window).await,
            Self::Http { clients, request } => {
                let sent = Cell::new(arrivals.complete());
                let publish = async |client: &HttpClient, _, _| {
                    while sent.get() >= arrivals.complete() + window {
                        arrivals.changed.notified().await;
                    }
                    sent.set(sent.get() + 1);
                    request.send(client).await
                };
                let length = deadline.saturating_duration_since(Instant::now());
                let load = HttpLoad { pace: LoadPace::FlatOut, length, count: usize::MAX, is_exact: false };
                load.run(clients, publish).await?;
                while arrivals.complete() < sent.get() {
                    arrivals.changed.notified().await;
                }
                Ok(())
            }
        }
    }
}

async fn publish_on(
    socket: &mut LoadClient,
    channel: Option<&str>,
    arrivals: &Arrivals,
    deadline: Instant,
    window: u64,
) -> Result<()> {
    let payload = seed::text("");
    let mut sent = arrivals.complete();
    loop {
        let complete = arrivals.complete();
        let is_over = Instant::now() >= deadline;
        if is_over && complete == sent {
            return Ok(());
        }
        let mut frames = Vec::new();
        while !is_over && sent < complete + window {
            sent += 1;
            let message = match channel {
                Some(channel) => {
                    let id = sent + 10;
                    format!("{{\"id\":{id},\"publish\":{{\"channel\":\"{channel}\",\"data\":{payload}}}}}")
                }
                None => payload.clone(),
            };
            push_frame(&mut frames, LoadEncoding::Json, message.as_bytes())?;
        }
        if !frames.is_empty() {
            socket.send_frames(&frames).await?;
        }
        let mut replies = String::new();
        tokio::select! {
            () = arrivals.changed.notified() => {}
            read = socket.read(|payload| replies += &String::from_utf8_lossy(payload)) => drop(read?),
        }
        ensure!(!replies.contains("\"error\":"), "the server refused a publication: {replies}");
    }
}
