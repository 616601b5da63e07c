//! Publishers and 1,000 receivers: a closed loop with several publications in flight.

use std::cell::Cell;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use feedline_test_support::protobuf::command_frame;
use futures::future::try_join_all;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::{LoadClient, SocketTarget, failure, open_all};
use super::context::BenchContext;
use super::floor::{JOIN, PUBLISH};
use super::frames::{LoadEncoding, push_frame};
use super::http_client::HttpClient;
use super::pace::{HttpLoad, LoadPace, quantile};
use super::process::{CpuMeter, ServerProcess};
use super::seed;

/// Subscribers of the channel.
pub(super) const SOCKETS: usize = 1_000;
/// The most publications in flight.
pub(super) const MAX_IN_FLIGHT: u64 = 32;
/// The maximum number of HTTP publishers.
const MAX_PUBLISHERS: usize = 1_000;
/// The time before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);
/// A run fails after this time without a reply.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A channel without subscribers, and the publications to it a second beside HTTP publishers.
const EMPTY_CHANNEL: &str = "bench:empty";
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

/// The figures of one run.
pub(super) struct BroadcastRun {
    /// Deliveries a second.
    pub rate: f64,
    /// The server's part of a core; NaN if it is not the bench's.
    pub server: f64,
    /// The clients' part of a core.
    pub clients: f64,
    /// The 99th percentile of other HTTP calls meanwhile, in milliseconds; NaN without HTTP publishers.
    pub call_p99: f64,
}

/// Publishers and their receivers.
pub(super) struct BroadcastRoom {
    /// The server, if it is a process of the bench.
    pid: Option<u32>,
    publisher: Publisher,
    arrivals: Arc<Arrivals>,
    receivers: JoinSet<Result<()>>,
}

impl BroadcastRoom {
    /// A room on a Feedline server: all clients are signed in and subscribed to the channel. Rooms with different
    /// encodings on one server do not receive each other's publications.
    pub(super) async fn feedline(
        bench: &BenchContext,
        target: SocketTarget,
        encoding: LoadEncoding,
        secret: &str,
        kind: PublisherKind,
        pid: Option<u32>,
    ) -> Result<Self> {
        let (channel, answer) = match encoding {
            LoadEncoding::Json => ("bench:room", &b"\"id\":2"[..]),
            LoadEncoding::Protobuf => ("bench:protobuf", &[8, 2][..]),
        };
        let greeting = |n| {
            let connect = json!({ "id": 1, "connect": { "token": seed::token(secret, &seed::user(n))? } });
            let subscribe = json!({ "id": 2, "subscribe": { "channel": channel } });
            Ok(match encoding {
                LoadEncoding::Json => format!("{connect}\n{subscribe}").into_bytes(),
                LoadEncoding::Protobuf => [command_frame(&connect), command_frame(&subscribe)].concat(),
            })
        };
        let greetings: Vec<Vec<u8>> = (0..SOCKETS).map(greeting).collect::<Result<_>>()?;
        let sockets = open_all(bench, target, &greetings, answer).await?;
        let publisher = match kind {
            PublisherKind::Socket => {
                let target = SocketTarget::feedline(target.addr);
                let socket = LoadClient::sign_in(target, secret, "publisher").await?;
                Publisher::Socket { socket, channel: Some(channel) }
            }
            PublisherKind::Http(number) => {
                let request = |channel| PublishRequest {
                    path: "/api/publish",
                    key: seed::api_key(secret),
                    body: format!("{{\"channel\":\"{channel}\",\"data\":{}}}", seed::text("")).into(),
                };
                Publisher::http(target.addr, number, request(channel), request(EMPTY_CHANNEL))
            }
        };
        Ok(Self::new(pid, publisher, sockets))
    }

    /// A room on the floor, which sends only the payload.
    pub(super) async fn floor(bench: &BenchContext, floor: &ServerProcess, kind: PublisherKind) -> Result<Self> {
        let target = SocketTarget::floor(floor.addr);
        let sockets = open_all(bench, target, &[JOIN; SOCKETS], JOIN.as_bytes()).await?;
        let publisher = match kind {
            PublisherKind::Socket => Publisher::Socket { socket: LoadClient::open(target).await?, channel: None },
            PublisherKind::Http(number) => {
                let request = |path| PublishRequest { path, key: String::new(), body: seed::text("").into() };
                Publisher::http(target.addr, number, request(PUBLISH), request("/"))
            }
        };
        Ok(Self::new(Some(floor.pid), publisher, sockets))
    }

    fn new(pid: Option<u32>, publisher: Publisher, sockets: Vec<(LoadClient, String)>) -> Self {
        let arrivals = Arc::new(Arrivals::new(sockets.len() as u32));
        let receivers = sockets.into_iter().map(|(socket, _)| receive(socket, Arc::clone(&arrivals))).collect();
        Self { pid, publisher, arrivals, receivers }
    }

    /// Keeps up to `window` publications in flight for some time, and measures.
    pub(super) async fn measure(&mut self, length: Duration, window: usize) -> Result<BroadcastRun> {
        self.publisher.connect().await?;
        self.publish(WARM_UP, window).await?;
        let from = self.arrivals.complete();
        let meter = CpuMeter::start(self.pid.as_slice())?;
        let call_p99 = self.publish(length, window).await?;
        let cpu = meter.read()?;
        let count = self.arrivals.complete() - from;
        ensure!(count > 0, "nothing arrived within {length:?}");
        Ok(BroadcastRun {
            rate: (count * u64::from(self.arrivals.sockets)) as f64 / cpu.took,
            server: cpu.servers.first().map_or(f64::NAN, |seconds| seconds / cpu.took),
            clients: cpu.clients / cpu.took,
            call_p99,
        })
    }

    /// Returns once all publications have arrived, with the p99 of other calls.
    async fn publish(&mut self, length: Duration, window: usize) -> Result<f64> {
        let Self { publisher, arrivals, receivers, .. } = self;
        let aside = publisher.aside();
        let calls = async {
            match aside {
                Some((addr, request)) => request.p99(addr, length).await,
                None => Ok(f64::NAN),
            }
        };
        let publishing = publisher.publish(arrivals, Instant::now() + length, window as u64);
        let all = async { tokio::try_join!(publishing, calls) };
        tokio::select! {
            done = timeout(length + TIMEOUT, all) => Ok(done.context("publications did not arrive")??.1),
            error = failure(receivers) => Err(error),
        }
    }
}

/// Which publications have arrived at every socket.
#[derive(Debug)]
struct Arrivals {
    sockets: u32,
    /// The number of sockets that wait for publication `n`, at `n % len`. There are more slots than publications in
    /// flight.
    waiting: [AtomicU32; 2 * MAX_IN_FLIGHT as usize],
    /// The number of complete publications. Each socket receives them in order, so they complete in order.
    complete: AtomicU64,
    /// Notified when a publication is complete.
    changed: Notify,
}

impl Arrivals {
    fn new(sockets: u32) -> Self {
        let waiting = std::array::from_fn(|_| AtomicU32::new(sockets));
        Self { sockets, waiting, complete: AtomicU64::new(0), changed: Notify::new() }
    }

    fn complete(&self) -> u64 {
        self.complete.load(Ordering::Acquire)
    }
}

/// Counts what arrives at a socket.
async fn receive(mut socket: LoadClient, arrivals: Arc<Arrivals>) -> Result<()> {
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
#[derive(Clone)]
struct PublishRequest {
    path: &'static str,
    /// The API key; empty for the floor.
    key: String,
    body: Bytes,
}

impl PublishRequest {
    async fn send(&self, client: &mut HttpClient) -> Result<()> {
        let answer = client.post(self.path, &self.key, "", self.body.clone()).await?;
        // The server API answers errors with status 200 as well.
        ensure!(!answer.starts_with(b"{\"error\":"), "{}: {}", self.path, String::from_utf8_lossy(&answer));
        Ok(())
    }

    /// Sends it at [`CALL_RATE`]. Returns the 99th percentile of the latency, in milliseconds.
    async fn p99(&self, addr: SocketAddr, length: Duration) -> Result<f64> {
        let load = HttpLoad { pace: LoadPace::Rate(CALL_RATE), length, count: usize::MAX, is_exact: false };
        let mut client = [HttpClient::open(addr).await?];
        Ok(quantile(&load.run(&mut client, async |client, _, _| self.send(client).await).await?, 0.99))
    }
}

/// The publishers of a room.
enum Publisher {
    /// A WebSocket, and the channel that it publishes to; `None` on the floor.
    Socket { socket: LoadClient, channel: Option<&'static str> },
    /// HTTP clients, what each sends, and what another client sends beside them.
    Http { addr: SocketAddr, number: usize, request: PublishRequest, aside: PublishRequest, clients: Vec<HttpClient> },
}

impl Publisher {
    fn http(addr: SocketAddr, number: usize, request: PublishRequest, aside: PublishRequest) -> Self {
        Self::Http { addr, number, request, aside, clients: Vec::new() }
    }

    /// Connects HTTP clients: servers close connections that were idle for some time.
    async fn connect(&mut self) -> Result<()> {
        if let Self::Http { addr, number, clients, .. } = self {
            *clients = try_join_all((0..*number).map(|_| HttpClient::open(*addr))).await?;
        }
        Ok(())
    }

    /// What is called beside the publishers, and where.
    fn aside(&self) -> Option<(SocketAddr, PublishRequest)> {
        match self {
            Self::Socket { .. } => None,
            Self::Http { addr, aside, .. } => Some((*addr, aside.clone())),
        }
    }

    /// Keeps up to `window` publications in flight until the deadline, then waits for the last one. In flight are those
    /// that were sent and have not arrived at every socket.
    async fn publish(&mut self, arrivals: &Arrivals, deadline: Instant, window: u64) -> Result<()> {
        match self {
            Self::Socket { socket, channel } => publish_on(socket, *channel, arrivals, deadline, window).await,
            Self::Http { request, clients, .. } => {
                let sent = Cell::new(arrivals.complete());
                let publishing = clients.iter_mut().map(async |client| {
                    while Instant::now() < deadline {
                        if sent.get() - arrivals.complete() >= window {
                            arrivals.changed.notified().await;
                            continue;
                        }
                        sent.set(sent.get() + 1);
                        request.send(client).await?;
                    }
                    // Another client may wait for its turn, which does not come.
                    arrivals.changed.notify_one();
                    Ok::<_, anyhow::Error>(())
                });
                try_join_all(publishing).await?;
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
            push_frame(&mut frames, LoadEncoding::Json, message.as_bytes());
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
