//! A publisher and 1,000 receivers: a closed loop with several publications in flight.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tokio::time::sleep_until;

use super::api_probe::ApiProbe;
use super::arrivals::ReceiverGroup;
use super::client::{LoadClient, open_all};
use super::context::BenchContext;
use super::floor::JOIN;
use super::floor_http::PUBLISH;
use super::frames::push_text;
use super::greeting;
use super::process::Process;
use super::publishers::{HttpPublishers, Publisher, PublisherKind, PublisherRequest};
use super::seed;
use super::target::{LoadEncoding, LoadTransport, SocketTarget};

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

/// How receivers are connected.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiverKind {
    /// The transport.
    pub transport: LoadTransport,
    /// The encoding.
    pub encoding: LoadEncoding,
}

impl ReceiverKind {
    /// The channel: rooms with different encodings on one server do not receive each other's publications.
    fn channel(self) -> &'static str {
        match self.encoding {
            LoadEncoding::Json => "bench:room",
            LoadEncoding::Protobuf => "bench:protobuf",
        }
    }
}

/// A publisher and its receivers.
pub(super) struct BroadcastRoom {
    publisher: Publisher,
    /// With HTTP publishers, calls beside them.
    probe: Option<ApiProbe>,
    audience: ReceiverGroup,
}

impl BroadcastRoom {
    /// A room on a Feedline server: all clients are signed in and subscribed to the channel.
    pub(super) async fn feedline(
        bench: &BenchContext,
        target: SocketTarget,
        secret: &str,
        kind: PublisherKind,
        receivers: ReceiverKind,
    ) -> Result<Self> {
        let ReceiverKind { transport, encoding } = receivers;
        let channel = receivers.channel();
        let greetings: Vec<_> = (0..SOCKETS)
            .map(|n| greeting::subscribe(encoding, secret, &seed::user(n), channel))
            .collect::<Result<_>>()?;
        let endpoint = target.over(transport).encoded(encoding);
        let sockets = open_all(endpoint, &greetings, greeting::subscribed(encoding), bench).await?;
        if let PublisherKind::Http(number) = kind {
            let request = |channel| PublisherRequest {
                path: "/api/publish".to_owned(),
                key: seed::api_key(secret),
                body: format!("{{\"channel\":\"{channel}\",\"data\":{}}}", seed::payload()).into(),
            };
            return Ok(Self::with_http(target, number, [request(channel), request(EMPTY_CHANNEL)], sockets));
        }
        let mut publisher = LoadClient::open(target).await?;
        publisher.send(&seed::connect(secret, "publisher")?).await?;
        publisher.expect("\"connect\":").await?;
        let publisher = Publisher::socket(publisher, move |n, frame| {
            let payload = seed::payload();
            let command = format!("{{\"id\":{},\"publish\":{{\"channel\":\"{channel}\",\"data\":{payload}}}}}", n + 10);
            push_text(frame, command.as_bytes());
        });
        Ok(Self::new(publisher, None, sockets))
    }

    /// A room on the floor, which sends only the payload.
    pub(super) async fn floor(bench: &BenchContext, target: SocketTarget, kind: PublisherKind) -> Result<Self> {
        let sockets = open_all(target, &vec![JOIN; SOCKETS], JOIN, bench).await?;
        if let PublisherKind::Http(number) = kind {
            let request = |path: &str| PublisherRequest {
                path: path.to_owned(),
                key: String::new(),
                body: seed::payload().into(),
            };
            return Ok(Self::with_http(target, number, [request(PUBLISH), request("/")], sockets));
        }
        let publisher = LoadClient::open(target).await?;
        let publisher = Publisher::socket(publisher, |_, frame| push_text(frame, seed::payload().as_bytes()));
        Ok(Self::new(publisher, None, sockets))
    }

    /// With HTTP publishers of the first request; the second one is sent beside them.
    fn with_http(
        target: SocketTarget,
        number: usize,
        [request, aside]: [PublisherRequest; 2],
        sockets: Vec<(LoadClient, String)>,
    ) -> Self {
        let publisher = Publisher::Http(HttpPublishers::new(target.addr, number, request));
        Self::new(publisher, Some(ApiProbe { addr: target.addr, request: aside }), sockets)
    }

    fn new(publisher: Publisher, probe: Option<ApiProbe>, sockets: Vec<(LoadClient, String)>) -> Self {
        Self { publisher, probe, audience: ReceiverGroup::new(sockets.into_iter().map(|(socket, _)| socket)) }
    }

    /// Publishes for the length of a run, and measures.
    pub(super) async fn measure(
        &mut self,
        bench: &BenchContext,
        server: Option<&Process>,
        window: usize,
    ) -> Result<BroadcastRun> {
        let length = Duration::from_secs(bench.options.seconds);
        self.publisher.prepare().await?;
        self.publish(WARM_UP, window).await?;
        let before = server.map(Process::cpu).transpose()?;
        let own = Process::own_cpu()?;
        let from = self.audience.arrivals.complete();
        let start = Instant::now();
        let probe = self.probe.clone();
        let probing = async {
            match &probe {
                Some(probe) => probe.p99(length).await,
                None => Ok(f64::NAN),
            }
        };
        let ((), call_p99) = tokio::try_join!(self.publish(length, window), probing)?;
        let count = self.audience.arrivals.complete() - from;
        let took = start.elapsed().as_secs_f64();
        ensure!(count > 0, "nothing arrived within {length:?}");
        let server = match (server, before) {
            (Some(server), Some(before)) => (server.cpu()? - before).as_secs_f64() / took,
            _ => f64::NAN,
        };
        let publications = count as f64;
        Ok(BroadcastRun {
            rate: publications * f64::from(self.audience.arrivals.sockets) / took,
            server,
            clients: (Process::own_cpu()? - own).as_secs_f64() / took,
            call_p99,
        })
    }

    /// Keeps up to `window` publications in flight for `length`, then waits for the last one. In flight are those that
    /// were sent and have not arrived at every socket.
    async fn publish(&mut self, length: Duration, window: usize) -> Result<()> {
        let Self { publisher, audience, .. } = self;
        let arrivals = Arc::clone(&audience.arrivals);
        let deadline = tokio::time::Instant::now() + length;
        let mut sent = arrivals.complete();
        loop {
            let complete = arrivals.complete();
            let over = tokio::time::Instant::now() >= deadline;
            if over && complete == sent {
                return publisher.drain().await;
            }
            if !over {
                sent += publisher.send(sent, window as u64 - (sent - complete)).await?;
            }
            tokio::select! {
                () = arrivals.changed.notified() => {}
                replied = publisher.replied() => replied?,
                error = audience.failure() => return Err(error),
                () = sleep_until(deadline + TIMEOUT) => bail!("publications did not arrive within {TIMEOUT:?}"),
            }
        }
    }
}
