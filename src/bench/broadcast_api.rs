//! One publication to 1,000 channels with history on Redis, by `POST /api/broadcast`: channels a second.
//!
//! The baseline, in the same run, is Redis alone: the same writes by a process that does nothing else.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use feedline::broker::{Append, Broker};
use feedline::model::Entry;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::json;

use super::context::BenchContext;
use super::http_client::HttpClient;
use super::process::Process;
use super::report::{Better, Goal, Report, Row, median};
use super::seed;
use super::server::{HISTORY, HISTORY_NAMESPACE};

/// Channels of a broadcast.
const CHANNELS: usize = 1_000;
/// Writes in flight when Redis is measured alone.
const MAX_IN_FLIGHT: usize = 256;
/// The time before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext) -> Result<Report> {
    let (redis, url) = bench.start_redis().await?;
    let mut setup = bench.server_setup().await?;
    setup.broker.clone_from(&url);
    let server = bench.start_server(&setup).await?;
    let alone = seed::broker(&url, &format!("{}-alone", setup.prefix), "bench").await?;
    let channels: Vec<String> = (0..CHANNELS).map(|n| format!("{HISTORY_NAMESPACE}:{n}")).collect();
    let data: serde_json::Value = serde_json::from_str(seed::payload())?;
    let body = Bytes::from(json!({ "channels": channels, "data": data }).to_string());
    let length = Duration::from_secs(bench.options.seconds);
    let (mut rates, mut cpu) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new(), Vec::new()]);
    bench.start_progress(2 * bench.options.runs);
    for run in 0..bench.options.runs {
        bench.bar.set_message(format!("run {}", run + 1));
        for turn in [run % 2, (run + 1) % 2] {
            let below = redis.as_ref().map(|redis| redis.process.cpu()).transpose()?;
            let own = server.process.cpu()?;
            let (rate, written) = if turn == 0 {
                let key = seed::api_key(&setup.secret);
                let mut client = HttpClient::open(server.addr).await?;
                requests(&mut client, &key, &body, WARM_UP).await?;
                requests(&mut client, &key, &body, length).await?
            } else {
                writes(&*alone, &channels, length).await?
            };
            rates[turn].push(rate);
            let micros = |from: Duration, process: &Process| {
                Ok::<_, anyhow::Error>((process.cpu()? - from).as_secs_f64() * 1e6 / written as f64)
            };
            if turn == 0 {
                cpu[2].push(micros(own, &server.process)?);
            }
            if let (Some(from), Some(redis)) = (below, &redis) {
                cpu[turn].push(micros(from, &redis.process)?);
            }
            bench.bar.inc(1);
        }
    }
    let [measured, bare] = rates;
    let mut report = Report::new("broadcast-api");
    report.rows.push(Row {
        name: format!("broadcast to {CHANNELS} channels with history"),
        unit: "channels/s",
        better: Better::More,
        measured,
        against: Some(("Redis alone", bare)),
        goal: Some(Goal::RatioAtLeast(0.7)),
    });
    let [below, redis_alone, own] = cpu.map(|runs| median(&runs));
    report.notes.push(format!(
        "CPU time a channel: server {own:.1} µs, Redis below it {below:.1} µs, Redis alone {redis_alone:.1} µs"
    ));
    server.stop().await?;
    if redis.is_none() {
        seed::remove_keys(&url, &setup.prefix).await?;
    }
    bench.tear_down(setup).await?;
    match redis {
        Some(redis) => redis.stop().await.map(|()| report),
        None => Ok(report),
    }
}

/// Sends one request after another for `length`. Returns channels a second, and their number.
async fn requests(client: &mut HttpClient, key: &str, body: &Bytes, length: Duration) -> Result<(f64, usize)> {
    let (start, mut written) = (Instant::now(), 0);
    while start.elapsed() < length {
        let answer = client.post("/api/broadcast", key, "", body.clone()).await?;
        let errors = answer.windows(8).filter(|window| window == b"\"error\":").count();
        ensure!(errors == 0, "the server refused {errors} channels: {}", String::from_utf8_lossy(&answer));
        written += CHANNELS;
    }
    Ok((written as f64 / start.elapsed().as_secs_f64(), written))
}

/// Writes to the same channels without a server. Returns channels a second, and their number.
async fn writes(broker: &dyn Broker, channels: &[String], length: Duration) -> Result<(f64, usize)> {
    let entry = Entry::Data(format!("\"data\":{}", seed::payload()).into());
    let (start, mut written) = (Instant::now(), 0);
    while start.elapsed() < length {
        stream::iter(channels)
            .map(Ok::<_, anyhow::Error>)
            .try_for_each_concurrent(MAX_IN_FLIGHT, |channel| async {
                let append =
                    Append { channel, entry: &entry, retention: HISTORY, idempotency_key: None, version: None };
                broker.append(append).await.context("Redis refused a write").map(drop)
            })
            .await?;
        written += channels.len();
    }
    Ok((written as f64 / start.elapsed().as_secs_f64(), written))
}
