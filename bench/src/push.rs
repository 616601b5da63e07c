//! Notifications that are due for as many devices: how many the bridge reviews, renders, sends and settles a second.
//! The provider accepts everything at once (`push.dry_run`).
//!
//! The queue is filled before the server starts. The measurement begins when the first push was accepted, and ends with
//! the last one. Then notifications come at half of the goal's rate and at half of the rate that was reached, and the
//! time to their acceptance is measured.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::sleep;

use super::context::BenchContext;
use super::process::ServerProcess;
use super::push_metrics::PushMetrics;
use super::push_queue::PushQueue;
use super::report::{Better, Goal, Report, Row};
use super::server::ServerSetup;

/// The interval between two writes of notifications.
const WRITE_INTERVAL: Duration = Duration::from_millis(20);

/// How long the latency is measured.
const LATENCY_TIME: Duration = Duration::from_secs(10);

/// The least part of a rate at which a figure counts as taken at that rate.
const MIN_PART: f64 = 0.95;

/// Runs the scenario with this number of pushes.
pub(super) async fn run(bench: &BenchContext, pushes: usize) -> Result<Report> {
    let mut report = Report::new("push");
    let mut rates = Vec::new();
    let mut latencies = [Vec::new(), Vec::new()];
    let mut filled = Vec::new();
    let mut empty = Vec::new();
    bench.start_progress(bench.options.runs);
    for run in 1..=bench.options.runs {
        let mut setup = bench.server_setup_noted(&mut report).await?;
        setup.push = true;
        bench.bar.set_message(format!("run {run}: an empty queue"));
        empty.push(idle_memory(bench, &setup).await?);
        bench.bar.set_message(format!("run {run}: filling the queue"));
        let mut queue = PushQueue::new(&setup, pushes)?;
        queue.fill().await?;
        bench.bar.set_message(format!("run {run}: {pushes} pushes"));
        let server = bench.start_server(&setup).await?;
        let rate = rate(&server, &setup, pushes).await?;
        filled.push(megabytes(server.process.peak_resident()?));
        rates.push(rate);
        for (wanted, latencies) in [goal_rate(bench) / 2.0, rate / 2.0].into_iter().zip(&mut latencies) {
            bench.bar.set_message(format!("run {run}: {wanted:.0} pushes/s"));
            let latency = latency(&server, &setup, &mut queue, wanted).await?;
            latencies.push(latency.p99 * 1_000.0);
            if latency.rate < MIN_PART * wanted {
                let reached = latency.rate;
                report.notes.push(format!("run {run}: a latency is that at {reached:.0}/s; {wanted:.0}/s were wanted"));
            }
        }
        server.stop().await?;
        bench.tear_down(setup).await?;
        bench.bar.inc(1);
    }
    report.rows.push(rate_row(bench, rates));
    let [at_goal, at_reached] = latencies;
    report.rows.push(latency_row(format!("event to provider at {:.0}/s, p99", goal_rate(bench) / 2.0), at_goal, true));
    report.rows.push(latency_row("event to provider at half of the rate, p99".to_owned(), at_reached, false));
    let name = format!("peak memory of the server, {pushes} pushes");
    let against = Some(("empty queue", empty));
    report.rows.push(Row { name, unit: "MB", better: Better::Less, measured: filled, against, goal: None });
    report.notes.push(format!("{pushes} users with a device and a notification each; the provider accepts at once"));
    Ok(report)
}

/// The row of the rates of all runs.
pub(super) fn rate_row(bench: &BenchContext, measured: Vec<f64>) -> Row {
    let goal = Some(Goal::AtLeast(goal_rate(bench)));
    let name = "pushes, from the queue to the provider".to_owned();
    Row { name, unit: "/s", better: Better::More, measured, against: None, goal }
}

/// The pushes a second that are to be reached at least. Latencies are measured at half of them.
pub(super) fn goal_rate(bench: &BenchContext) -> f64 {
    if bench.options.redis.is_some() { 2_000.0 } else { 5_000.0 }
}

/// The row of a latency, which is at most a second where it has a goal.
fn latency_row(name: String, measured: Vec<f64>, has_goal: bool) -> Row {
    let goal = has_goal.then_some(Goal::AtMost(1_000.0));
    Row { name, unit: "ms", better: Better::Less, measured, against: None, goal }
}

/// The peak memory of a server that starts with an empty queue, in megabytes.
async fn idle_memory(bench: &BenchContext, setup: &ServerSetup) -> Result<f64> {
    let server = bench.start_server(setup).await?;
    server.process.settle().await?;
    let peak = server.process.peak_resident()?;
    server.stop().await?;
    Ok(megabytes(peak))
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Waits until the server has sent everything in the queue. Returns the number a second.
pub(super) async fn rate(server: &ServerProcess, setup: &ServerSetup, pushes: usize) -> Result<f64> {
    let (rate, _) = PushMetrics::open(server, setup).await?.until_accepted(pushes).await?;
    ensure!(rate > 0.0, "{pushes} pushes are too few: all were accepted at the first look");
    Ok(rate)
}

/// The latency of pushes at a rate.
struct PushLatency {
    /// The p99 of the time from a notification to its acceptance, in seconds.
    p99: f64,
    /// The number of notifications that were written a second.
    rate: f64,
}

/// Notifies users at this rate for [`LATENCY_TIME`].
async fn latency(server: &ServerProcess, setup: &ServerSetup, queue: &mut PushQueue, rate: f64) -> Result<PushLatency> {
    let ledger = queue.open().await?;
    let before = PushMetrics::open(server, setup).await?.read().await?;
    let begun = Instant::now();
    let mut written = 0;
    while begun.elapsed() < LATENCY_TIME {
        let due = (begun.elapsed().as_secs_f64() * rate) as usize;
        queue.add(&*ledger, due - written, Duration::ZERO).await?;
        written = due;
        sleep(WRITE_INTERVAL).await;
    }
    let reached = written as f64 / begun.elapsed().as_secs_f64();
    ledger.close().await;
    // The server has closed the former connection, which had no request for a while.
    let (_, after) = PushMetrics::open(server, setup).await?.until_accepted(before.accepted + written).await?;
    Ok(PushLatency { p99: after.p99_since(&before), rate: reached })
}
