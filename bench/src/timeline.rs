//! The first page of a timeline of users who follow 300: pages a second, and latency at 80 % of that rate.
//!
//! *Warm*: the inbox exists. *After 14 days away*: the inbox has expired, and is rebuilt from the ledger before the
//! response.
//!
//! Both are measured in short rounds: the maximum rate, then at once the latency at 80 % of it. The speed of a core of
//! a shared machine varies by a third within seconds. A load of 80 % of an earlier maximum can exceed the current
//! maximum, and would then measure only how long the overload lasts. The figures of a run are the medians of its
//! rounds.

use std::time::Duration;

use anyhow::{Result, ensure};
use feedline::model::PostId;
use hyper::Method;

use super::context::BenchContext;
use super::http_load::{HttpClient, HttpLoad, Latencies, LoadPace, quantile};
use super::process::{CpuMeter, ServerProcess};
use super::report::{Goal, Report, each, middle};
use super::seed;
use super::stores::Stores;

/// The number of readers. Each can return from 14 days away once a run.
const READERS: usize = 4_000;
/// The number of authors, and of their posts.
const AUTHORS: usize = 1_000;
const POSTS: usize = 60;
/// Authors that each reader follows.
const FOLLOWEES: usize = 300;
/// Milliseconds between two posts.
const POST_INTERVAL_MS: u64 = 1_000;
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
/// The length of a load that ends by its number of pages.
const NO_LIMIT: Duration = Duration::from_secs(3_600);

/// The figures of a round, and of a run: the medians of its rounds.
struct TimelineRun {
    /// The maximum rate, in pages a second.
    rate: f64,
    /// The p99 latency at [`LOAD_FACTOR`] of that rate, in milliseconds.
    p99: f64,
    /// CPU time of the server a page, in milliseconds.
    cost: f64,
}

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext) -> Result<Report> {
    let mut report = Report::new("timeline");
    let stores = Stores::start(bench, None).await?;
    fill(bench, &stores).await?;
    let tokens = (0..READERS).map(|n| seed::token(&stores.secret, &seed::user(n))).collect::<Result<Vec<_>>>()?;
    let mut away = Vec::new();
    let mut warm = Vec::new();
    for _ in bench.runs("first pages") {
        // A new server without inboxes.
        stores.forget_keys(bench).await?;
        let server = stores.start_feedline(bench).await?;
        let readers = TimelineReaders { tokens: &tokens, server: &server };
        away.push(readers.rounds(|round| (round * READERS / ROUNDS, READERS / ROUNDS, NO_LIMIT)).await?);
        let length = bench.length() / ROUNDS as u32;
        warm.push(readers.rounds(|_| (0, usize::MAX, length)).await?);
        server.stop().await?;
    }
    // The goal of the rate is for PostgreSQL and Redis.
    let pages = (stores.is_on_postgres() && stores.is_on_redis()).then_some(Goal::AtLeast(2_500.0));
    add_rows(&mut report, "warm", &warm, pages, Goal::AtMost(5.0));
    add_rows(&mut report, "after 14 days away", &away, None, Goal::AtMost(60.0));
    report.notes.push(format!("{READERS} readers who follow {FOLLOWEES} each; {ROUNDS} rounds a run"));
    report.notes.push(stores.note());
    Ok(report)
}

/// Adds the figures of one kind of page. The goals are of pages a second, and of their p99.
fn add_rows(report: &mut Report, what: &str, runs: &[TimelineRun], pages: Option<Goal>, p99: Goal) {
    report.row(format!("first page of {PAGE}, {what}"), "pages/s", each(runs, |run| run.rate)).goal(pages);
    let name = format!("  at {:.0} % of that, 99 of 100 within", LOAD_FACTOR * 100.0);
    report.row(name, "ms", each(runs, |run| run.p99)).goal(p99);
    report.row("  CPU time of the server a page", "ms", each(runs, |run| run.cost));
}

/// Fills a ledger like that of an application after some time of use.
async fn fill(bench: &BenchContext, stores: &Stores) -> Result<()> {
    bench.say(&format!("{READERS} readers, {AUTHORS} authors with {POSTS} posts each"));
    let readers = seed::ids(seed::user, READERS)?;
    let authors = seed::ids(seed::author, AUTHORS)?;
    let mut edges = Vec::with_capacity(READERS * FOLLOWEES);
    for (n, reader) in readers.iter().enumerate() {
        // Each reader has another stride, so that no two have the same timeline.
        edges.extend((0..FOLLOWEES).map(|step| (reader.clone(), authors[(n * 7 + step * 3) % AUTHORS].clone())));
    }
    let begin = feedline::feed::now() - (AUTHORS * POSTS) as u64 * POST_INTERVAL_MS;
    let at = |n: usize| PostId::from_parts(begin + n as u64 * POST_INTERVAL_MS, 0, 0);
    let posts: Vec<_> = (0..AUTHORS * POSTS).map(|n| seed::post(at(n), &authors[n % AUTHORS])).collect();
    seed::fill(&stores.ledger, &[readers, authors].concat(), &edges, &posts).await.map(drop)
}

/// The readers and their server.
struct TimelineReaders<'a> {
    tokens: &'a [String],
    server: &'a ServerProcess,
}

impl TimelineReaders<'_> {
    /// All rounds of a run. `plan` says for each which reader is the first, how many pages are read at most, and for
    /// how long.
    async fn rounds(&self, plan: impl Fn(usize) -> (usize, usize, Duration)) -> Result<TimelineRun> {
        let clients = HttpClient::open_all(self.server.addr, CONNECTIONS);
        let mut rounds = Vec::with_capacity(ROUNDS);
        for round in 0..ROUNDS {
            rounds.push(self.round(&clients, plan(round)).await?);
        }
        Ok(TimelineRun {
            rate: middle(&rounds, |round| round.rate),
            p99: middle(&rounds, |round| round.p99),
            cost: middle(&rounds, |round| round.cost),
        })
    }

    async fn round(
        &self,
        clients: &[HttpClient],
        (first, pages, length): (usize, usize, Duration),
    ) -> Result<TimelineRun> {
        let meter = CpuMeter::start(self.server.pid)?;
        let rate_pages = (RATE_PART * pages as f64) as usize;
        let load =
            HttpLoad { pace: LoadPace::FlatOut, length: length.mul_f64(RATE_PART), count: rate_pages, is_exact: true };
        let read = self.read(&clients[..MAX_IN_FLIGHT], first, &load).await?.len() as f64;
        let cpu = meter.read()?;
        let rate = read / cpu.took;
        let load = HttpLoad {
            pace: LoadPace::Rate(LOAD_FACTOR * rate),
            length: length.mul_f64(1.0 - RATE_PART),
            count: pages - rate_pages,
            is_exact: true,
        };
        let latencies = self.read(clients, first + rate_pages % READERS, &load).await?;
        Ok(TimelineRun { rate, p99: quantile(&latencies, 0.99), cost: cpu.server * 1e3 / read })
    }

    /// Reads first pages, of each reader after the other. Returns the latencies, each from when its request was due.
    async fn read(&self, clients: &[HttpClient], first: usize, load: &HttpLoad) -> Result<Latencies> {
        let path = format!("/api/v1/timeline?limit={PAGE}");
        let call = async |client: &HttpClient, n: usize, _due| {
            let body = client.call(Method::GET, &path, &self.tokens[(first + n) % READERS]).await?;
            // Each post contains this much text. Parsing the page would cost the clients more than the server needs to
            // create it.
            ensure!(body.len() > PAGE * seed::TEXT, "not a whole page: {}", String::from_utf8_lossy(&body));
            Ok(())
        };
        load.run(clients, call).await
    }
}
