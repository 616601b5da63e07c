//! HTTP clients like an application's: one persistent connection, one request at a time; their loads and latencies.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use futures::future::try_join_all;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::http::request::Builder;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::{sleep_until, timeout};

/// The time limit of a response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A client of a server's API. It connects when it sends a request and the server has closed its last connection.
pub(super) struct HttpClient {
    client: Client<HttpConnector, Full<Bytes>>,
    addr: SocketAddr,
}

impl HttpClient {
    /// A client, not yet connected.
    pub(super) fn open(addr: SocketAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { client: Client::builder(TokioExecutor::new()).build(connector), addr }
    }

    /// Some clients.
    pub(super) fn open_all(addr: SocketAddr, count: usize) -> Vec<Self> {
        (0..count).map(|_| Self::open(addr)).collect()
    }

    /// Sends a request as the user of a token, if it is not empty, and returns the body. Fails on an error status.
    pub(super) async fn call(&self, method: Method, path: &str, token: &str) -> Result<Bytes> {
        let mut request = Request::builder().method(method).uri(self.uri(path));
        if !token.is_empty() {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        self.send(request, path, Bytes::new()).await
    }

    /// Posts JSON as a backend. See [`ask`](Self::ask).
    pub(super) async fn post(&self, path: &str, key: &str, user: &str, body: Bytes) -> Result<Bytes> {
        self.ask(Method::POST, path, key, user, body).await
    }

    /// Sends JSON as a backend, on behalf of a user if the name is not empty, and returns the body. Fails on an error
    /// status.
    pub(super) async fn ask(&self, method: Method, path: &str, key: &str, user: &str, body: Bytes) -> Result<Bytes> {
        let mut request = Request::builder().method(method).uri(self.uri(path));
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request = request.header("x-api-key", key);
        if !user.is_empty() {
            request = request.header("x-user", user);
        }
        self.send(request, path, body).await
    }

    fn uri(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    async fn send(&self, request: Builder, path: &str, body: Bytes) -> Result<Bytes> {
        let request = request.body(Full::new(body))?;
        let asking = async {
            let answer = self.client.request(request).await?;
            let status = answer.status();
            let body = answer.into_body().collect().await?.to_bytes();
            ensure!(status.is_success(), "{path}: {status} {}", String::from_utf8_lossy(&body));
            Ok(body)
        };
        timeout(TIMEOUT, asking).await.with_context(|| format!("no answer to {path}"))?
    }
}

/// Latencies in microseconds.
pub(super) type Latencies = Histogram<u64>;

/// No latencies.
pub(super) fn no_latencies() -> Result<Latencies> {
    Ok(Histogram::new(3)?)
}

/// A quantile of latencies, in milliseconds.
pub(super) fn quantile(latencies: &Latencies, part: f64) -> f64 {
    latencies.value_at_quantile(part) as f64 / 1e3
}

/// The pace of a load.
#[derive(Clone, Copy)]
pub(super) enum LoadPace {
    /// As fast as the server answers.
    FlatOut,
    /// Requests a second of all clients together.
    Rate(f64),
}

impl LoadPace {
    /// When request `n` of a load that began at `start` is due.
    pub(super) fn due(self, start: Instant, n: usize) -> Instant {
        match self {
            Self::FlatOut => Instant::now(),
            Self::Rate(rate) => start + Duration::from_secs_f64(n as f64 / rate),
        }
    }
}

/// A load of HTTP clients: whichever has received its response takes the next request.
pub(super) struct HttpLoad {
    /// The pace.
    pub pace: LoadPace,
    /// The length: requests that are due later are not sent.
    pub length: Duration,
    /// The maximum number of requests.
    pub count: usize,
    /// Timers have a resolution of a millisecond. If this is set, the last millisecond is busy waiting; otherwise a
    /// latency does not include it.
    pub is_exact: bool,
}

impl HttpLoad {
    /// Sends requests with `call`, which gets their numbers from 0, and from when their latencies count. Returns the
    /// latencies, and with them the number of requests.
    pub(super) async fn run(
        &self,
        clients: &[HttpClient],
        call: impl AsyncFn(&HttpClient, usize, Instant) -> Result<()>,
    ) -> Result<Latencies> {
        let start = Instant::now();
        let next = Cell::new(0);
        let work = clients.iter().map(async |client| {
            let mut latencies = no_latencies()?;
            loop {
                let n = next.get();
                let mut due = self.pace.due(start, n);
                if n == self.count || due >= start + self.length {
                    return Ok::<_, anyhow::Error>(latencies);
                }
                next.set(n + 1);
                if self.is_exact {
                    wait_exactly(due).await;
                } else if due > Instant::now() {
                    sleep_until(due.into()).await;
                    due = Instant::now();
                }
                call(client, n, due).await?;
                latencies.record(due.elapsed().as_micros() as u64)?;
            }
        });
        let mut all = no_latencies()?;
        for latencies in try_join_all(work).await? {
            all.add(latencies)?;
        }
        Ok(all)
    }
}

async fn wait_exactly(due: Instant) {
    let early = due - Duration::from_millis(1).min(due.saturating_duration_since(Instant::now()));
    sleep_until(early.into()).await;
    while Instant::now() < due {
        tokio::task::yield_now().await;
    }
}
