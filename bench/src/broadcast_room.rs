//! Publishers and 1,000 receivers: a closed loop with several publications in flight.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use feedline_test_support::protobuf::command_frame;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::{LoadClient, SocketTarget, failure, open_all};
use super::context::BenchContext;
use super::floor::{JOIN, PUBLISH};
use super::frames::LoadEncoding;
use super::http_load::HttpClient;
use super::process::{CpuMeter, ServerProcess};
use super::publishers::{Arrivals, PublishRequest, Publisher, PublisherKind, receive};
use super::seed;

/// Subscribers of the channel.
pub(super) const SOCKETS: usize = 1_000;
/// The time before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);
/// A run fails after this time without a reply.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A channel without subscribers.
const EMPTY_CHANNEL: &str = "bench:empty";

/// The figures of one run.
pub(super) struct BroadcastRun {
    /// Deliveries a second.
    pub rate: f64,
    /// The server's part of a core.
    pub server: f64,
    /// The clients' part of a core.
    pub clients: f64,
    /// The 99th percentile of other HTTP calls meanwhile, in milliseconds; NaN without HTTP publishers.
    pub call_p99: f64,
}

/// The publishers of a room, and what another client sends beside HTTP publishers.
type PublisherAndAside = (Publisher, Option<(HttpClient, PublishRequest)>);

fn by_http(addr: SocketAddr, number: usize, request: PublishRequest, aside: PublishRequest) -> PublisherAndAside {
    let clients = HttpClient::open_all(addr, number);
    (Publisher::Http { clients, request }, Some((HttpClient::open(addr), aside)))
}

/// Publishers and their receivers.
pub(super) struct BroadcastRoom {
    /// The server, if it is a process of the bench.
    pid: Option<u32>,
    publisher: Publisher,
    /// What another client sends beside HTTP publishers.
    aside: Option<(HttpClient, PublishRequest)>,
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
                (Publisher::Socket { socket, channel: Some(channel) }, None)
            }
            PublisherKind::Http(number) => {
                let request = |channel| PublishRequest {
                    path: "/api/publish",
                    key: seed::api_key(secret),
                    body: format!("{{\"channel\":\"{channel}\",\"data\":{}}}", seed::text("")).into(),
                };
                by_http(target.addr, number, request(channel), request(EMPTY_CHANNEL))
            }
        };
        Ok(Self::new(pid, publisher, sockets))
    }

    /// A room on the floor, which sends only the payload.
    pub(super) async fn floor(bench: &BenchContext, floor: &ServerProcess, kind: PublisherKind) -> Result<Self> {
        let target = SocketTarget::floor(floor.addr);
        let sockets = open_all(bench, target, &[JOIN; SOCKETS], JOIN.as_bytes()).await?;
        let publisher = match kind {
            PublisherKind::Socket => {
                (Publisher::Socket { socket: LoadClient::open(target).await?, channel: None }, None)
            }
            PublisherKind::Http(number) => {
                let request = |path| PublishRequest { path, key: String::new(), body: seed::text("").into() };
                by_http(target.addr, number, request(PUBLISH), request("/"))
            }
        };
        Ok(Self::new(Some(floor.pid), publisher, sockets))
    }

    fn new(pid: Option<u32>, (publisher, aside): PublisherAndAside, sockets: Vec<(LoadClient, String)>) -> Self {
        let arrivals = Arc::new(Arrivals::new(sockets.len() as u32));
        let receivers = sockets.into_iter().map(|(socket, _)| receive(socket, Arc::clone(&arrivals))).collect();
        Self { pid, publisher, aside, arrivals, receivers }
    }

    /// Keeps up to `window` publications in flight for some time, and measures.
    pub(super) async fn measure(&mut self, length: Duration, window: usize) -> Result<BroadcastRun> {
        self.publish(WARM_UP, window).await?;
        let from = self.arrivals.complete();
        let meter = CpuMeter::start(self.pid)?;
        let call_p99 = self.publish(length, window).await?;
        let cpu = meter.read()?;
        let count = self.arrivals.complete() - from;
        ensure!(count > 0, "nothing arrived within {length:?}");
        Ok(BroadcastRun {
            rate: (count * u64::from(self.arrivals.sockets)) as f64 / cpu.took,
            server: cpu.server / cpu.took,
            clients: cpu.clients / cpu.took,
            call_p99,
        })
    }

    /// Returns once all publications have arrived, with the p99 of other calls.
    async fn publish(&mut self, length: Duration, window: usize) -> Result<f64> {
        let Self { publisher, aside, arrivals, receivers, .. } = self;
        let calls = async {
            match aside {
                Some((client, request)) => request.p99(client, length).await,
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
