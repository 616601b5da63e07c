//! One publication to 1,000 channels with history on Redis, by `POST /api/broadcast`: channels a second.
//!
//! The baseline, in the same run, is Redis alone: the same script calls by a process that does nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use feedline::broker::{Broadcast, Broker};
use feedline::model::Entry;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::json;

use super::context::BenchContext;
use super::http_client::HttpClient;
use super::process::ServerProcess;
use super::report::{Better, Goal, Report, Row, median};
use super::seed;
use super::server::{HISTORY, HISTORY_NAMESPACE};

/// Channels of a broadcast.
const CHANNELS: usize = 1_000;
/// Broadcasts in flight when Redis is measured alone: Redis always has a script to run.
const MAX_BROADCASTS: usize = 4;
/// The time before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);

/// The server and the baseline.
struct ApiComparison<'a> {
    server: &'a ServerProcess,
    redis: Option<&'a ServerProcess>,
    key: String,
    /// The body of a request.
    body: Bytes,
    /// The channels of a request.
    channels: Vec<String>,
    /// A broker on the same Redis with keys of its own.
    alone: Arc<dyn Broker>,
}

/// The figures of all runs.
#[derive(Default)]
struct ApiRuns {
    /// Channels a second: the server's, and those of Redis alone.
    rates: [Vec<f64>; 2],
    /// CPU time of Redis in microseconds a channel: below the server, and alone.
    redis: [Vec<f64>; 2],
    /// CPU time of the server in microseconds a channel.
    server: Vec<f64>,
}

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext) -> Result<Report> {
    let (redis, url) = bench.start_redis().await?;
    let mut setup = bench.server_setup().await?;
    setup.broker.clone_from(&url);
    let server = bench.start_server(&setup).await?;
    let channels: Vec<String> = (0..CHANNELS).map(|n| format!("{HISTORY_NAMESPACE}:{n}")).collect();
    let data: serde_json::Value = serde_json::from_str(seed::payload())?;
    let comparison = ApiComparison {
        server: &server,
        redis: redis.as_ref(),
        key: seed::api_key(&setup.secret),
        body: json!({ "channels": channels, "data": data }).to_string().into(),
        channels,
        alone: seed::broker(&url, &format!("{}-alone", setup.prefix), "bench").await?,
    };
    let report = comparison.compare(bench).await?;
    server.stop().await?;
    bench.tear_down(setup).await?;
    match redis {
        Some(redis) => redis.stop().await.map(|()| report),
        None => Ok(report),
    }
}

impl ApiComparison<'_> {
    /// Measures both in turn.
    async fn compare(&self, bench: &BenchContext) -> Result<Report> {
        let length = Duration::from_secs(bench.options.seconds);
        let mut runs = ApiRuns::default();
        bench.start_progress(2 * bench.options.runs);
        for run in 0..bench.options.runs {
            bench.bar.set_message(format!("run {}", run + 1));
            for turn in [run % 2, (run + 1) % 2] {
                self.measure(&mut runs, turn, length).await?;
                bench.bar.inc(1);
            }
        }
        let [measured, bare] = runs.rates;
        let mut report = Report::new("broadcast-api");
        report.rows.push(Row {
            name: format!("broadcast to {CHANNELS} channels with history"),
            unit: "channels/s",
            better: Better::More,
            measured,
            against: Some(("Redis alone", bare)),
            goal: Some(Goal::RatioAtLeast(0.7)),
        });
        let ([below, alone], server) = (runs.redis.map(|runs| median(&runs)), median(&runs.server));
        report.notes.push(format!(
            "CPU time a channel: server {server:.1} µs, Redis below it {below:.1} µs, Redis alone {alone:.1} µs"
        ));
        Ok(report)
    }

    /// Measures the server (0), or Redis alone (1).
    async fn measure(&self, runs: &mut ApiRuns, turn: usize, length: Duration) -> Result<()> {
        let mut client = HttpClient::open(self.server.addr).await?;
        if turn == 0 {
            self.requests(&mut client, WARM_UP).await?;
        }
        let own = self.server.process.cpu()?;
        let below = self.redis.map(|redis| redis.process.cpu()).transpose()?;
        let start = Instant::now();
        let written =
            if turn == 0 { self.requests(&mut client, length).await? } else { self.writes(length).await? } as f64;
        runs.rates[turn].push(written / start.elapsed().as_secs_f64());
        if turn == 0 {
            runs.server.push((self.server.process.cpu()? - own).as_secs_f64() * 1e6 / written);
        }
        if let (Some(redis), Some(below)) = (self.redis, below) {
            runs.redis[turn].push((redis.process.cpu()? - below).as_secs_f64() * 1e6 / written);
        }
        Ok(())
    }

    /// Sends one request after another for `length`. Returns the number of channels.
    async fn requests(&self, client: &mut HttpClient, length: Duration) -> Result<usize> {
        let (start, mut written) = (Instant::now(), 0);
        while start.elapsed() < length {
            let answer = client.post("/api/broadcast", &self.key, "", self.body.clone()).await?;
            let refused = answer.windows(8).any(|window| window == b"\"error\":");
            ensure!(!refused, "the server refused a channel: {}", String::from_utf8_lossy(&answer));
            written += CHANNELS;
        }
        Ok(written)
    }

    /// Writes to the same channels without a server. Returns their number.
    async fn writes(&self, length: Duration) -> Result<usize> {
        let channels: Vec<&str> = self.channels.iter().map(String::as_str).collect();
        let entry = Entry::Data(format!("\"data\":{}", seed::payload()).into());
        let broadcast =
            Broadcast { channels: &channels, entry: &entry, retention: HISTORY, idempotency_key: None, version: None };
        let (start, mut written, mut in_flight) = (Instant::now(), 0, FuturesUnordered::new());
        while start.elapsed() < length || !in_flight.is_empty() {
            while in_flight.len() < MAX_BROADCASTS && start.elapsed() < length {
                in_flight.push(self.alone.broadcast(broadcast));
            }
            for outcome in in_flight.next().await.unwrap_or_default() {
                outcome.context("Redis refused a write")?;
                written += 1;
            }
        }
        Ok(written)
    }
}
