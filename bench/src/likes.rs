//! 1,000 users like 10,000 posts, or all of them one post: likes acknowledged a second, and the time until they are
//! settled.
//!
//! The first load runs at the maximum rate. The second runs at half that rate (or another part), and measures the
//! latency of acknowledgements and the time until the user receives the settlement. With Redis, the baseline in the
//! same run is the rate of pipelined `XADD`s of the same size on the same Redis.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use feedline::model::PostId;
use futures::TryStreamExt as _;
use futures::stream::FuturesUnordered;
use hyper::Method;
use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, sleep_until};

use super::client::{SocketTarget, sign_in_all};
use super::context::BenchContext;
use super::http_load::{HttpClient, LoadPace, quantile};
use super::likers::{LikeLoad, Liker, run_all};
use super::options::{BrokerKind, part};
use super::process::{CpuMeter, ServerProcess};
use super::report::{Goal, Report, each};
use super::seed;
use super::stores::Stores;

/// Users, each with a socket: enough that a settlement batch of one post need not contain a user twice.
const PEOPLE: usize = 1_000;
/// The number of posts and their authors.
const POSTS: usize = 10_000;
const AUTHORS: usize = 100;
/// The time before the measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// The interval of checks for completed settlement, and their time limit.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(50);
/// `XADD`s in a pipeline of the baseline, and pipelines in flight.
const PIPELINE_LENGTH: usize = 200;
const MAX_PIPELINES: usize = 8;
/// Streams of the baseline: as many as the queue has.
const STREAMS: usize = 8;

/// The load of the likes.
#[derive(Clone, Debug, Args)]
pub(super) struct LikesOptions {
    /// The store of the broker and of the queue of likes [default: redis with --redis, otherwise memory, and files for
    /// the queue]. `redis` without --redis starts a Redis
    #[arg(long, value_enum)]
    broker: Option<BrokerKind>,
    /// The part of the maximum rate at which latencies are measured; 0 leaves this out
    #[arg(long, value_name = "PART", default_value_t = 0.5, value_parser = part)]
    load: f64,
}

/// The figures of one load.
struct LikeRun {
    /// Likes acknowledged a second.
    rate: f64,
    /// Likes settled a second in the same time.
    settled: f64,
    /// Milliseconds until a like is acknowledged: p50 and p99.
    answers: [f64; 2],
    /// Milliseconds from the acknowledgement until the user receives the settlement: p50 and p99.
    settling: [f64; 2],
    /// The server's part of a core.
    server: f64,
}

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext, options: &LikesOptions) -> Result<Report> {
    let mut report = Report::new("likes");
    let stores = Stores::start(bench, options.broker).await?;
    let on_redis = stores.is_on_redis();
    let posts = fill(&stores).await?;
    let server = stores.start_feedline(bench).await?;
    let sockets = sign_in_all(bench, SocketTarget::feedline(server.addr), &stores.secret, 0..PEOPLE).await?;
    let people = sockets.into_iter().enumerate().map(|(n, (socket, _))| Liker::new(socket, n)).collect();
    let token = seed::token(&stores.secret, &seed::user(0))?;
    let mut crowd = LikeCrowd { people, bench, server: &server, token };
    let aims = posts.split_at(POSTS);
    let mut tops = [const { Vec::new() }; 2];
    let mut parts = [const { Vec::new() }; 2];
    let mut alone = Vec::new();
    for _ in bench.runs("likes") {
        for (which, posts) in [aims.0, aims.1].into_iter().enumerate() {
            let top = crowd.like(LoadPace::FlatOut, posts, which).await?;
            if options.load > 0.0 {
                parts[which].push(crowd.like(LoadPace::Rate(options.load * top.rate), posts, which).await?);
            }
            tops[which].push(top);
        }
        if on_redis {
            alone.push(add_to_streams(bench, &stores, posts[0]).await?);
        }
    }
    let goal = match (on_redis, stores.is_on_postgres()) {
        (true, true) => Goal::AtLeast(45_000.0),
        (true, false) => Goal::RatioAtLeast(0.6),
        _ => Goal::AtLeast(40_000.0),
    };
    let rate = |which: usize| each(&tops[which], |run| run.rate);
    let row = report.row("acknowledged, spread over 10,000 posts", "likes/s", rate(0));
    row.against(on_redis.then_some(("XADDs", alone))).goal(goal);
    add_rows(&mut report, &tops[0], options.load, &parts[0]);
    let row = report.row("acknowledged, all of one post", "likes/s", rate(1));
    row.against(("spread", rate(0))).goal(Goal::RatioAtLeast(1.0));
    add_rows(&mut report, &tops[1], options.load, &parts[1]);
    report.notes.push(format!("{PEOPLE} people, a socket each; {}", stores.note()));
    drop(crowd);
    server.stop().await?;
    Ok(report)
}

/// Adds the further figures of the runs at the top rate, and at a part of it.
fn add_rows(report: &mut Report, tops: &[LikeRun], load: f64, parts: &[LikeRun]) {
    report.row("  settled in the same time", "likes/s", each(tops, |run| run.settled));
    report.row("  CPU time of the server", "cores", each(tops, |run| run.server));
    if parts.is_empty() {
        return;
    }
    for (place, name) in ["half", "99 of 100"].into_iter().enumerate() {
        // The goals hold for half the maximum rate.
        let goal = |most| (place == 1 && load.total_cmp(&0.5).is_eq()).then_some(Goal::AtMost(most));
        let name = format!("  at {load} of that, {name}");
        let answers = each(parts, |run| run.answers[place]);
        report.row(format!("{name} acknowledged within"), "ms", answers).goal(goal(10.0));
        let settling = each(parts, |run| run.settling[place]);
        report.row(format!("{name} settled within"), "ms", settling).goal(goal(500.0));
    }
}

/// Fills a ledger with [`POSTS`] posts and one more, before its server starts.
async fn fill(stores: &Stores) -> Result<Vec<u64>> {
    let authors = seed::ids(seed::author, AUTHORS)?;
    let begin = feedline::feed::now().saturating_sub(3_600_000);
    let ids: Vec<PostId> = (0..=POSTS as u64).map(|n| PostId::from_parts(begin + n, 0, 0)).collect();
    let posts: Vec<_> = ids.iter().enumerate().map(|(n, id)| seed::post(*id, &authors[n % AUTHORS])).collect();
    let users = [authors, seed::ids(seed::user, PEOPLE)?].concat();
    seed::fill(&stores.ledger, &users, &[], &posts).await?;
    Ok(ids.into_iter().map(|id| id.0).collect())
}

/// The clients that like posts, and their server.
struct LikeCrowd<'a> {
    people: Vec<Liker>,
    bench: &'a BenchContext,
    server: &'a ServerProcess,
    /// The token for requests of the server's metrics.
    token: String,
}

impl LikeCrowd<'_> {
    async fn like(&mut self, pace: LoadPace, posts: &[u64], which: usize) -> Result<LikeRun> {
        let load = LikeLoad::begin(pace, posts, which, [WARM_UP, self.bench.length()])?;
        let mut people = std::mem::take(&mut self.people);
        let ((), run) = tokio::try_join!(run_all(&mut people, &load), self.watch(&load))?;
        self.people = people;
        Ok(run)
    }

    /// Measures a load, and ends it once everything is settled.
    async fn watch(&self, load: &LikeLoad<'_>) -> Result<LikeRun> {
        sleep_until(load.warm.into()).await;
        let [_, settled_before] = self.counters().await?;
        let meter = CpuMeter::start(self.server.pid)?;
        sleep_until(load.until.into()).await;
        let cpu = meter.read()?;
        let [_, settled] = self.counters().await?;
        let start = Instant::now();
        loop {
            let [acknowledged, settled] = self.counters().await?;
            // The last messages are still on their way.
            sleep(POLL_INTERVAL).await;
            if settled >= acknowledged {
                break;
            }
            ensure!(start.elapsed() < TIMEOUT, "not settled in {TIMEOUT:?}");
        }
        load.is_over.set(true);
        let seconds = self.bench.options.seconds as f64;
        let settled = settled - settled_before;
        let [answers, settling] = [&load.answers, &load.settling].map(|latencies| latencies.borrow());
        Ok(LikeRun {
            rate: answers.len() as f64 / seconds,
            settled: settled / seconds,
            answers: [0.5, 0.99].map(|part| quantile(&answers, part)),
            settling: [0.5, 0.99].map(|part| quantile(&settling, part)),
            server: cpu.server / cpu.took,
        })
    }

    /// The likes that were acknowledged and settled since the start of the server.
    async fn counters(&self) -> Result<[f64; 2]> {
        let metrics = HttpClient::open(self.server.addr).call(Method::GET, "/metrics", &self.token).await?;
        let text = String::from_utf8_lossy(&metrics);
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.parse::<f64>().ok()).with_context(|| format!("no {name} is counted"))
        };
        Ok([value("feedline_likes_queued_total")?, value("feedline_likes_batch_sum")?])
    }
}

/// The baseline, Redis alone: appends likes in the form of the queue, pipelined. Returns the number a second.
async fn add_to_streams(bench: &BenchContext, stores: &Stores, post: u64) -> Result<f64> {
    let mut redis = seed::connection(&stores.broker).await?;
    let streams: Vec<String> = (0..STREAMS).map(|n| format!("{}:floor:{n}", bench.prefix())).collect();
    let body = format!("+ p{post} {} {}", feedline::feed::now(), seed::user(0));
    let mut pipe = redis::pipe();
    for n in 0..PIPELINE_LENGTH {
        pipe.cmd("XADD").arg(&streams[n % STREAMS]).arg("*").arg("b").arg(&body).ignore();
    }
    let send = async |mut redis: MultiplexedConnection| pipe.exec_async(&mut redis).await;
    let start = Instant::now();
    let mut in_flight = FuturesUnordered::new();
    let mut done = 0;
    while start.elapsed() < bench.length() || !in_flight.is_empty() {
        while in_flight.len() < MAX_PIPELINES && start.elapsed() < bench.length() {
            in_flight.push(send(redis.clone()));
        }
        if in_flight.try_next().await?.is_some() {
            done += PIPELINE_LENGTH;
        }
    }
    let took = start.elapsed().as_secs_f64();
    drop(in_flight);
    redis::cmd("UNLINK").arg(&streams).exec_async(&mut redis).await?;
    Ok(done as f64 / took)
}
