//! The first page of a timeline of users who follow 300: pages a second, and latency at 80 % of that rate.
//!
//! *Warm*: the inbox exists. *After 14 days away*: the inbox has expired, and is rebuilt from the ledger before the
//! response.
//!
//! Both are measured in short rounds: the maximum rate, then at once the latency at 80 % of it. The speed of a core of
//! a shared machine varies by a third within seconds. A load of 80 % of an earlier maximum can exceed the current
//! maximum, and would then measure only how long the overload lasts. The figures of a run are the medians of its
//! rounds; the report also shows the worst round.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use hyper::Method;
use tokio::task::JoinSet;

use super::context::BenchContext;
use super::dataset::{self, FOLLOWEES, TEXT};
use super::http_client::HttpClient;
use super::process::ServerProcess;
use super::report::{Better, Goal, Report, Row, median};
use super::seed;
use super::server::ServerSetup;

/// The number of readers. Each can return from 14 days away once a run.
const READERS: usize = 4_000;
/// Posts on a page.
const PAGE: usize = 30;
/// Concurrent requests while the maximum rate is measured.
const MAX_IN_FLIGHT: usize = 16;
/// Connections that share the load at a given rate: more than requests ever wait for a response.
const CONNECTIONS: usize = 64;
/// The part of the maximum rate at which latencies are measured.
const LOAD_FACTOR: f64 = 0.8;
/// Rounds of a run.
const ROUNDS: usize = 10;
/// The part of a round that measures the maximum rate.
const RATE_PART: f64 = 0.25;

/// The figures of a round.
struct TimelineRound {
    /// The maximum rate, in pages a second.
    rate: f64,
    /// The p99 latency at [`LOAD_FACTOR`] of that rate, in milliseconds.
    p99: f64,
    /// CPU time a page, in milliseconds: of the server and of its PostgreSQL.
    cost: [f64; 2],
}

/// The figures of a run: the medians of its rounds.
struct TimelineRun {
    rate: f64,
    p99: f64,
    /// The largest of the rounds' `p99`.
    worst: f64,
    cost: [f64; 2],
}

impl From<Vec<TimelineRound>> for TimelineRun {
    fn from(rounds: Vec<TimelineRound>) -> Self {
        let each = |of: fn(&TimelineRound) -> f64| rounds.iter().map(of).collect::<Vec<_>>();
        let rate = median(&each(|round| round.rate));
        let p99 = each(|round| round.p99);
        let cost = [median(&each(|round| round.cost[0])), median(&each(|round| round.cost[1]))];
        Self { rate, worst: p99.iter().copied().fold(0.0, f64::max), p99: median(&p99), cost }
    }
}

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext) -> Result<Report> {
    let mut report = Report::new("timeline");
    let mut cold = Vec::new();
    let mut warm = Vec::new();
    let setup = bench.server_setup_noted(&mut report).await?;
    dataset::load(bench, &setup.ledger, READERS).await?;
    let tokens: Arc<[String]> =
        (0..READERS).map(|n| seed::token(&setup.secret, &seed::user(n))).collect::<Result<_>>()?;
    let length = Duration::from_secs(bench.options.seconds) / ROUNDS as u32;
    bench.start_progress(bench.options.runs * ROUNDS * 2);
    for run in 1..=bench.options.runs {
        // A new server without inboxes.
        bench.remove_keys(&setup).await?;
        let server = bench.start_server(&setup).await?;
        let mut crowd = TimelineReaders::connect(&server, &setup, &tokens).await?;
        bench.bar.set_message(format!("run {run}: after 14 days away"));
        cold.push(crowd.rounds(bench, everybody_once).await?);
        bench.bar.set_message(format!("run {run}: warm"));
        warm.push(crowd.rounds(bench, |_| for_so_long(length)).await?);
        server.stop().await?;
    }
    // Two goals are for PostgreSQL alone: of warm pages a second, if Redis is the broker, and of a rebuild's CPU time.
    let on_postgres = setup.postgres.is_some();
    let on_redis = setup.is_on_redis();
    let least = (on_postgres && on_redis).then_some(Goal::AtLeast(2_500.0));
    rows(&mut report, "warm", &warm, TimelineGoals { least, p99: 5.0, postgres: None });
    let goals = TimelineGoals { least: None, p99: 60.0, postgres: Some(Goal::AtMost(4.0)) };
    rows(&mut report, "after 14 days away", &cold, goals);
    report.notes.push(format!("{READERS} readers who follow {FOLLOWEES} each; {ROUNDS} rounds a run"));
    bench.tear_down(setup).await?;
    Ok(report)
}

/// The goals of one kind of page.
#[derive(Clone, Copy)]
struct TimelineGoals {
    /// Pages a second.
    least: Option<Goal>,
    /// The 99th percentile of the latency, in milliseconds.
    p99: f64,
    /// PostgreSQL's CPU time a page, in milliseconds.
    postgres: Option<Goal>,
}

fn rows(report: &mut Report, what: &str, tallies: &[TimelineRun], goals: TimelineGoals) {
    let each = |of: fn(&TimelineRun) -> f64| tallies.iter().map(of).collect::<Vec<_>>();
    report.rows.push(Row {
        name: format!("first page of {PAGE}, {what}"),
        unit: "pages/s",
        better: Better::More,
        measured: each(|tally| tally.rate),
        against: None,
        goal: goals.least,
    });
    let mut row = |name: String, measured, goal| {
        report.rows.push(Row { name, unit: "ms", better: Better::Less, measured, against: None, goal });
    };
    let name = format!("  at {:.0} % of that, 99 of 100 within", LOAD_FACTOR * 100.0);
    row(name, each(|tally| tally.p99), Some(Goal::AtMost(goals.p99)));
    row("  in the worst round of a run".to_owned(), each(|tally| tally.worst), None);
    let cost = each(|tally| tally.cost[1]);
    if median(&cost) > 0.0 {
        row("  PostgreSQL's CPU time a page".to_owned(), cost, goals.postgres);
    }
    let cost = median(&each(|tally| tally.cost[0]));
    report.notes.push(format!("{what}: {cost:.3} ms of the server's CPU time a page"));
}

/// The readers of a round for the maximum rate and for [`LOAD_FACTOR`] of it. Each reader reads once a run.
fn everybody_once(round: usize) -> [ReaderSequence; 2] {
    let first = round * READERS / ROUNDS;
    let many = READERS / ROUNDS;
    let finding = (RATE_PART * many as f64) as usize;
    [ReaderSequence::new(first, finding, None), ReaderSequence::new(first + finding, many - finding, None)]
}

/// The same with warm inboxes, limited by time.
fn for_so_long(length: Duration) -> [ReaderSequence; 2] {
    [RATE_PART, 1.0 - RATE_PART].map(|part| ReaderSequence::new(0, usize::MAX, Some(length.mul_f64(part))))
}

/// The readers and their server.
struct TimelineReaders<'a> {
    connections: Vec<HttpClient>,
    tokens: Arc<[String]>,
    server: &'a ServerProcess,
    setup: &'a ServerSetup,
}

impl<'a> TimelineReaders<'a> {
    async fn connect(server: &'a ServerProcess, setup: &'a ServerSetup, tokens: &Arc<[String]>) -> Result<Self> {
        let mut connections = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            connections.push(HttpClient::open(server.addr).await?);
        }
        Ok(Self { connections, tokens: Arc::clone(tokens), server, setup })
    }

    async fn rounds(
        &mut self,
        bench: &BenchContext,
        takes: impl Fn(usize) -> [ReaderSequence; 2],
    ) -> Result<TimelineRun> {
        let mut rounds = Vec::with_capacity(ROUNDS);
        for round in 0..ROUNDS {
            rounds.push(self.round(takes(round)).await?);
            bench.bar.inc(2);
        }
        Ok(rounds.into())
    }

    async fn round(&mut self, [mut finding, mut times]: [ReaderSequence; 2]) -> Result<TimelineRound> {
        let cpu = self.cpu()?;
        let start = Instant::now();
        finding.begin();
        self.read(MAX_IN_FLIGHT, &finding, None).await?;
        let took = start.elapsed().as_secs_f64();
        let pages = finding.taken() as f64;
        let after = self.cpu()?;
        let cost = [0, 1].map(|whose| after[whose].saturating_sub(cpu[whose]).as_secs_f64() * 1e3 / pages);
        let rate = pages / took;
        times.begin();
        let p99 = self.read(CONNECTIONS, &times, Some(LOAD_FACTOR * rate)).await?.value_at_quantile(0.99) as f64 / 1e3;
        Ok(TimelineRound { rate, p99, cost })
    }

    /// The CPU time so far of the server and of its PostgreSQL.
    fn cpu(&self) -> Result<[Duration; 2]> {
        Ok([self.server.process.cpu()?, self.setup.postgres_cpu()?.unwrap_or_default()])
    }

    /// Reads pages over this many connections: either at this many pages a second, whether or not earlier requests are
    /// answered, or at the maximum rate. Returns the latencies in microseconds, each from the time its request was due.
    async fn read(&mut self, connections: usize, take: &ReaderSequence, rate: Option<f64>) -> Result<Histogram<u64>> {
        let start = Instant::now();
        let mut working = JoinSet::new();
        for mut http in self.connections.drain(..connections) {
            let take = take.clone();
            let tokens = Arc::clone(&self.tokens);
            working.spawn(async move {
                let mut times = Histogram::<u64>::new(3)?;
                while let Some((place, reader)) = take.one() {
                    let due =
                        rate.map_or_else(Instant::now, |rate| start + Duration::from_secs_f64(place as f64 / rate));
                    wait_until(due).await;
                    page(&mut http, &tokens[reader]).await?;
                    times.record(due.elapsed().as_micros() as u64)?;
                }
                Ok::<_, anyhow::Error>((http, times))
            });
        }
        let mut all = Histogram::<u64>::new(3)?;
        while let Some(worked) = working.join_next().await {
            let (http, times) = worked??;
            self.connections.push(http);
            all.add(times)?;
        }
        Ok(all)
    }
}

/// A sequence of reader numbers, limited by count or by time. Connections take the next number.
#[derive(Clone)]
struct ReaderSequence {
    next: Arc<AtomicUsize>,
    first: usize,
    count: usize,
    length: Option<Duration>,
    until: Option<Instant>,
}

impl ReaderSequence {
    fn new(first: usize, count: usize, length: Option<Duration>) -> Self {
        Self { next: Arc::default(), first, count, length, until: None }
    }

    /// Starts the time limit.
    fn begin(&mut self) {
        self.until = self.length.map(|length| Instant::now() + length);
    }

    /// The index of the request, from 0, and the number of its reader.
    fn one(&self) -> Option<(usize, usize)> {
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        let over = place >= self.count || self.until.is_some_and(|until| Instant::now() >= until);
        if over {
            self.next.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some((place, (self.first + place) % READERS))
    }

    fn taken(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }
}

async fn page(http: &mut HttpClient, token: &str) -> Result<()> {
    let body = http.call(Method::GET, &format!("/api/v1/timeline?limit={PAGE}"), token).await?;
    // Each post contains this much text. Parsing the page would cost the clients more than the server needs to create
    // it.
    ensure!(body.len() > PAGE * TEXT, "not a whole page: {}", String::from_utf8_lossy(&body));
    Ok(())
}

/// Waits for a time. Timers have a resolution of a millisecond, too coarse here, so the last millisecond is busy
/// waiting.
async fn wait_until(due: Instant) {
    let early = due - Duration::from_millis(1).min(due.saturating_duration_since(Instant::now()));
    tokio::time::sleep_until(early.into()).await;
    while Instant::now() < due {
        tokio::task::yield_now().await;
    }
}
