//! The first page of a timeline, for people who follow 300: pages a second, and how long one takes at 80 % of that rate.
//!
//! *Warm*: the inbox is there. *After 14 days away*: it is not, and is rebuilt from the ledger before the page is answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use hyper::Method;
use tokio::task::JoinSet;

use super::Bench;
use super::crowd::{self, FOLLOWEES, TEXT};
use super::report::{Better, Report, Row, Target, median};
use super::seed;
use super::server::{Listening, Setup};
use super::web::Web;

/// How many people there are. Each can come back from 14 days away once a run.
const READERS: usize = 4_000;
/// Posts on a page.
const PAGE: usize = 30;
/// Requests at a time when the top rate is measured.
const AT_ONCE: usize = 16;
/// Connections that share the load at a given rate: more than ever wait for an answer.
const OPEN: usize = 64;
/// The part of the top rate at which latencies are taken.
const LOAD: f64 = 0.8;
/// Of the readers, those with whom the top rate of coming back is found; the others come at [`LOAD`] of it.
const FINDING: usize = READERS / 4;

/// What a run came to: pages a second, and the 99th percentile in milliseconds.
struct Tally {
    rate: f64,
    p99: f64,
    /// Milliseconds of the server's CPU time a page.
    cost: f64,
}

/// Runs the scenario.
pub(super) async fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::new("timeline");
    let redis = bench.broker_if_asked(&mut report);
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    let mut setup = Setup::new(&seed::secret())?;
    if let Some(redis) = redis {
        redis.clone_into(&mut setup.broker);
    }
    crowd::gather(bench, &setup.ledger(), READERS).await?;
    let tokens: Arc<[String]> =
        (0..READERS).map(|n| seed::token(&setup.secret, &seed::user(n))).collect::<Result<_>>()?;
    let length = Duration::from_secs(bench.options.seconds);
    bench.begin(bench.options.runs * 4);
    for run in 1..=bench.options.runs {
        // A new server, and nobody's inbox is there.
        bench.forget(&setup).await?;
        let server = bench.serve(&setup).await?;
        bench.bar.set_message(format!("run {run}: after 14 days away"));
        cold.push(after_long(bench, &server, &tokens).await?);
        bench.bar.set_message(format!("run {run}: warm"));
        warm.push(once_more(bench, &server, &tokens, length).await?);
        server.stop().await?;
    }
    bench.forget(&setup).await?;
    rows(&mut report, "warm", &warm, 5.0);
    rows(&mut report, "after 14 days away", &cold, 60.0);
    report.notes.push(format!("{READERS} readers who follow {FOLLOWEES} each; ledger: SQLite"));
    Ok(report)
}

fn rows(report: &mut Report, what: &str, tallies: &[Tally], most: f64) {
    let each = |of: fn(&Tally) -> f64| tallies.iter().map(of).collect::<Vec<_>>();
    report.rows.push(Row {
        name: format!("first page of {PAGE}, {what}"),
        unit: "pages/s",
        better: Better::More,
        measured: each(|tally| tally.rate),
        against: None,
        goal: None,
    });
    report.rows.push(Row {
        name: format!("  at {:.0} % of that, 99 of 100 within", LOAD * 100.0),
        unit: "ms",
        better: Better::Less,
        measured: each(|tally| tally.p99),
        against: None,
        goal: Some(Target::AtMost(most)),
    });
    report.notes.push(format!("{what}: {:.3} ms of the server's CPU time a page", median(&each(|tally| tally.cost))));
}

/// Everybody comes back once.
async fn after_long(bench: &Bench, server: &Listening, tokens: &Arc<[String]>) -> Result<Tally> {
    let (cpu, start) = (server.process.cpu()?, Instant::now());
    flat_out(server.addr, tokens, &Take::new(0, FINDING, None)).await?;
    let took = start.elapsed();
    let cost = (server.process.cpu()? - cpu).as_secs_f64() * 1e3 / FINDING as f64;
    bench.bar.inc(1);
    let rate = FINDING as f64 / took.as_secs_f64();
    let p99 = paced(server.addr, tokens, &Take::new(FINDING, READERS - FINDING, None), LOAD * rate).await?;
    bench.bar.inc(1);
    Ok(Tally { rate, p99, cost })
}

/// Everybody has been here.
async fn once_more(bench: &Bench, server: &Listening, tokens: &Arc<[String]>, length: Duration) -> Result<Tally> {
    let (cpu, start) = (server.process.cpu()?, Instant::now());
    let take = Take::new(0, usize::MAX, Some(length));
    flat_out(server.addr, tokens, &take).await?;
    let (took, pages) = (start.elapsed(), take.taken());
    let cost = (server.process.cpu()? - cpu).as_secs_f64() * 1e3 / pages as f64;
    bench.bar.inc(1);
    let rate = pages as f64 / took.as_secs_f64();
    let p99 = paced(server.addr, tokens, &Take::new(0, usize::MAX, Some(length)), LOAD * rate).await?;
    bench.bar.inc(1);
    Ok(Tally { rate, p99, cost })
}

/// Numbers handed out to whoever asks next, so many of them or for so long.
#[derive(Clone)]
struct Take {
    next: Arc<AtomicUsize>,
    first: usize,
    count: usize,
    until: Option<Instant>,
}

impl Take {
    fn new(first: usize, count: usize, length: Option<Duration>) -> Self {
        Self { next: Arc::default(), first, count, until: length.map(|length| Instant::now() + length) }
    }

    /// The place in the order, from 0, and the reader whose turn it is.
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

async fn page(web: &mut Web, token: &str) -> Result<()> {
    let body = web.call(Method::GET, &format!("/api/v1/timeline?limit={PAGE}"), token).await?;
    // Every post holds so much text. Counting them would cost the clients more than the server needs to make them.
    ensure!(body.len() > PAGE * TEXT, "not a whole page: {}", String::from_utf8_lossy(&body));
    Ok(())
}

/// As fast as the server answers.
async fn flat_out(addr: SocketAddr, tokens: &Arc<[String]>, take: &Take) -> Result<()> {
    let mut working = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (take, tokens) = (take.clone(), Arc::clone(tokens));
        working.spawn(async move {
            let mut web = Web::open(addr).await?;
            while let Some((_, reader)) = take.one() {
                page(&mut web, &tokens[reader]).await?;
            }
            Ok::<(), anyhow::Error>(())
        });
    }
    while let Some(worked) = working.join_next().await {
        worked??;
    }
    Ok(())
}

/// So many a second, whether or not earlier ones are answered. The 99th percentile, in milliseconds, from when each was due.
async fn paced(addr: SocketAddr, tokens: &Arc<[String]>, take: &Take, rate: f64) -> Result<f64> {
    let start = Instant::now();
    let mut working = JoinSet::new();
    for _ in 0..OPEN {
        let (take, tokens) = (take.clone(), Arc::clone(tokens));
        working.spawn(async move {
            let mut web = Web::open(addr).await?;
            let mut times = Histogram::<u64>::new(3)?;
            while let Some((place, reader)) = take.one() {
                let due = start + Duration::from_secs_f64(place as f64 / rate);
                wait_until(due).await;
                page(&mut web, &tokens[reader]).await?;
                times.record(due.elapsed().as_micros() as u64)?;
            }
            Ok::<_, anyhow::Error>(times)
        });
    }
    let mut all = Histogram::<u64>::new(3)?;
    while let Some(worked) = working.join_next().await {
        all.add(worked??)?;
    }
    Ok(all.value_at_quantile(0.99) as f64 / 1e3)
}

/// Timers are a millisecond coarse, which is a good part of what is measured: the last of them is waited for awake.
async fn wait_until(due: Instant) {
    let early = due - Duration::from_millis(1).min(due.saturating_duration_since(Instant::now()));
    tokio::time::sleep_until(early.into()).await;
    while Instant::now() < due {
        tokio::task::yield_now().await;
    }
}
