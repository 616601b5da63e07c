//! 1,000 users like 10,000 posts, or all of them one post: likes acknowledged a second, and the time until they are
//! settled.
//!
//! The first load runs at the maximum rate. The second runs at half that rate (or another part), and measures the
//! latency of acknowledgements and the time until the user receives the settlement. With Redis, the baseline in the
//! same run is the rate of pipelined `XADD`s of the same size on the same Redis.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use feedline::model::{PostId, UserId};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use hdrhistogram::Histogram;
use hyper::Method;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

use super::client::open_all;
use super::context::BenchContext;
use super::dataset;
use super::http_client::HttpClient;
use super::ledger;
use super::likers::{self, LikeLoad, LikeTargets, Liker, LoadPace};
use super::process::{Process, ServerProcess};
use super::report::{Better, Goal, Report, Row, median};
use super::seed;
use super::server::ServerSetup;

/// Users, each with a socket: enough that a settlement batch of one post need not contain a user twice.
const PEOPLE: usize = 1_000;
/// The number of posts and their author.
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

/// The store of acknowledged likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum QueueKind {
    /// Memory and files
    Embedded,
    /// Redis, with an append-only file if it has one
    Redis,
}

/// The figures of one load.
struct LikeRun {
    /// Likes acknowledged a second.
    rate: f64,
    /// Likes settled a second in the same time.
    settled: f64,
    /// Likes that one transaction of the ledger settled.
    batch: f64,
    /// Milliseconds until a like is acknowledged: p50 and p99.
    answers: [f64; 2],
    /// Milliseconds from the acknowledgement until the user receives the settlement: p50 and p99.
    settling: [f64; 2],
    /// The CPU usage of the server and the clients, as parts of a core.
    cpu: [f64; 2],
    /// PostgreSQL's CPU time for a settled like, in microseconds; 0 with another ledger.
    postgres: f64,
}

/// Parses the part of the maximum rate.
pub(super) fn part(text: &str) -> std::result::Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.01..=1.0).contains(part));
    part.ok_or_else(|| "a part of the top rate is a number from 0.01 to 1".to_owned())
}

/// Runs the scenario; latencies are measured at `load` times the maximum rate.
pub(super) async fn run(bench: &BenchContext, kept: Option<QueueKind>, load: f64) -> Result<Report> {
    let on_redis = kept.map_or(bench.options.redis.is_some(), |kept| kept == QueueKind::Redis);
    let mut report = Report::new("likes");
    let mut setup = bench.server_setup().await?;
    let mut floor = None;
    let mut redis = None;
    if on_redis {
        let (own, url) = bench.start_redis().await?;
        floor = Some(XaddBaseline::connect(&url, &setup.prefix).await?);
        redis = own;
        setup.broker = url;
    }
    let posts = write(bench, &setup.ledger).await?;
    let server = bench.start_server(&setup).await?;
    let mut crowd = LikeClients::connect(bench, &server, &setup).await?;
    let aims = [
        LikeTargets { posts: posts[..POSTS].into(), which: 0 },
        LikeTargets { posts: posts[POSTS..].into(), which: 1 },
    ];
    let length = Duration::from_secs(bench.options.seconds);
    let mut tops = [const { Vec::new() }; 2];
    let mut parts = [const { Vec::new() }; 2];
    let mut alone = Vec::new();
    bench.start_progress(bench.options.runs * (4 + usize::from(on_redis)));
    for run in 1..=bench.options.runs {
        for (aim, what) in aims.iter().zip(["of all posts", "of one post"]) {
            bench.bar.set_message(format!("run {run}: {what}, as fast as answered"));
            let top = crowd.like(LoadPace::FlatOut, aim, length).await?;
            bench.bar.inc(1);
            bench.bar.set_message(format!("run {run}: {what}, at {load} of that"));
            parts[aim.which].push(crowd.like(LoadPace::Rate(load * top.rate), aim, length).await?);
            tops[aim.which].push(top);
            bench.bar.inc(1);
        }
        if let Some(floor) = &mut floor {
            bench.bar.set_message(format!("run {run}: Redis alone"));
            alone.push(floor.measure(posts[0], length).await?);
            bench.bar.inc(1);
        }
    }
    let spread = each(&tops[0], |tally| tally.rate);
    let goal = match (on_redis, setup.postgres.is_some()) {
        (true, true) => Goal::AtLeast(45_000.0),
        (true, false) => Goal::RatioAtLeast(0.6),
        _ => Goal::AtLeast(40_000.0),
    };
    let against = on_redis.then_some(("XADDs", alone));
    rows(&mut report, "spread over 10,000 posts", &tops[0], (load, &parts[0]), against, Some(goal));
    let goal = Goal::RatioAtLeast(1.0);
    rows(&mut report, "all of one post", &tops[1], (load, &parts[1]), Some(("spread", spread)), Some(goal));
    let queue = if on_redis { "Redis" } else { "files" };
    report.notes.push(format!("{PEOPLE} people, a socket each; {}, queue of likes in {queue}", setup.note()));
    drop(crowd);
    server.stop().await?;
    bench.tear_down(setup).await?;
    match redis {
        Some(redis) => redis.stop().await.map(|()| report),
        None => Ok(report),
    }
}

fn each(tallies: &[LikeRun], of: impl Fn(&LikeRun) -> f64) -> Vec<f64> {
    tallies.iter().map(of).collect()
}

fn rows(
    report: &mut Report,
    what: &str,
    tops: &[LikeRun],
    (load, parts): (f64, &[LikeRun]),
    against: Option<(&'static str, Vec<f64>)>,
    goal: Option<Goal>,
) {
    report.rows.push(Row {
        name: format!("acknowledged, {what}"),
        unit: "likes/s",
        better: Better::More,
        measured: each(tops, |tally| tally.rate),
        against,
        goal,
    });
    let mut row = |name: &str, unit, better, measured, goal| {
        report.rows.push(Row { name: format!("  {name}"), unit, better, measured, against: None, goal });
    };
    row("settled in the same time", "likes/s", Better::More, each(tops, |tally| tally.settled), None);
    let cost = each(tops, |tally| tally.postgres);
    if median(&cost) > 0.0 {
        row("PostgreSQL's CPU time a settled like", "µs", Better::Less, cost, Some(Goal::AtMost(7.0)));
    }
    let least = what.contains("one post").then_some(Goal::AtLeast(500.0));
    row("likes a transaction of the ledger", "likes", Better::More, each(tops, |tally| tally.batch), least);
    // The goals hold for half the maximum rate.
    let goal = |most: f64| load.total_cmp(&0.5).is_eq().then_some(Goal::AtMost(most));
    for (place, name, most) in [(0, "half", None), (1, "99 of 100", goal(10.0))] {
        let name = format!("at {load} of that, {name} acknowledged within");
        row(&name, "ms", Better::Less, each(parts, |tally| tally.answers[place]), most);
    }
    for (place, name, most) in [(0, "half", None), (1, "99 of 100", goal(500.0))] {
        let name = format!("at {load} of that, {name} settled within");
        row(&name, "ms", Better::Less, each(parts, |tally| tally.settling[place]), most);
    }
    for (when, tallies) in [("at the top".to_owned(), tops), (format!("at {load} of that"), parts)] {
        let middle = |of: fn(&LikeRun) -> f64| median(&each(tallies, of));
        report.notes.push(format!(
            "{what}, {when}: {:.0} acknowledged and {:.0} settled a second, {:.0} a transaction; \
             server {:.0} % of a core, clients {:.0} %",
            middle(|tally| tally.rate),
            middle(|tally| tally.settled),
            middle(|tally| tally.batch),
            middle(|tally| tally.cpu[0]) * 100.0,
            middle(|tally| tally.cpu[1]) * 100.0,
        ));
    }
}

/// Fills a ledger with [`POSTS`] posts and one more, before its server starts.
async fn write(bench: &BenchContext, ledger: &str) -> Result<Vec<u64>> {
    bench.bar.set_message(format!("writing {POSTS} posts"));
    let ledger = ledger::open(ledger).await?;
    let id = |name: String| UserId::parse(&name).context("a name that is no id");
    let authors: Vec<UserId> = (0..AUTHORS).map(|n| id(dataset::author(n))).collect::<Result<_>>()?;
    let people: Vec<UserId> = (0..PEOPLE).map(|n| id(seed::user(n))).collect::<Result<_>>()?;
    let now = feedline::feed::now();
    ledger.load_users(&authors, now).await?;
    ledger.load_users(&people, now).await?;
    let begin = now.saturating_sub(3_600_000);
    let ids: Vec<PostId> = (0..=POSTS as u64).map(|n| PostId::from_parts(begin + n, 0, 0)).collect();
    let posts: Vec<_> = ids.iter().enumerate().map(|(n, id)| dataset::post(*id, &authors[n % AUTHORS])).collect();
    ledger.load_posts(&posts).await?;
    ledger.close().await;
    Ok(ids.into_iter().map(|id| id.0).collect())
}

/// The clients that like posts, and their server.
struct LikeClients<'a> {
    people: Vec<Liker>,
    server: &'a ServerProcess,
    setup: &'a ServerSetup,
    /// The token for requests of the server's metrics.
    token: String,
}

impl<'a> LikeClients<'a> {
    async fn connect(bench: &BenchContext, server: &'a ServerProcess, setup: &'a ServerSetup) -> Result<Self> {
        let secret = &setup.secret;
        bench.bar.set_message(format!("{PEOPLE} people connect"));
        let greetings: Vec<String> =
            (0..PEOPLE).map(|n| seed::connect(secret, &seed::user(n))).collect::<Result<_>>()?;
        let sockets = open_all(server.feedline(), &greetings, "\"connect\":", bench).await?;
        let people = sockets.into_iter().enumerate().map(|(n, (socket, _))| Liker::new(socket, n)).collect();
        Ok(Self { people, server, setup, token: seed::token(secret, &seed::user(0))? })
    }

    async fn like(&mut self, pace: LoadPace, aim: &LikeTargets, length: Duration) -> Result<LikeRun> {
        let load = LikeLoad::begin(pace, aim.clone(), PEOPLE, WARM_UP, length)?;
        let people = std::mem::take(&mut self.people);
        let (people, tally) = tokio::try_join!(likers::all(people, &load), self.watch(&load, length))?;
        self.people = people;
        Ok(tally)
    }

    /// Measures a load, and ends it once everything is settled.
    async fn watch(&self, load: &LikeLoad, length: Duration) -> Result<LikeRun> {
        load.warmed_up().await;
        let before = self.counted().await?;
        let server = self.server.process.cpu()?;
        let own = Process::own_cpu()?;
        let postgres = self.postgres_cpu()?;
        load.asked().await;
        let cpu = [self.server.process.cpu()? - server, Process::own_cpu()? - own];
        let postgres = self.postgres_cpu()?.saturating_sub(postgres);
        let after = self.counted().await?;
        let start = Instant::now();
        while !self.counted().await?.is_settled() {
            ensure!(start.elapsed() < TIMEOUT, "not settled in {TIMEOUT:?}");
            sleep(POLL_INTERVAL).await;
        }
        // The last messages are still on their way.
        sleep(POLL_INTERVAL).await;
        load.over.store(true, Ordering::Relaxed);
        let seconds = length.as_secs_f64();
        Ok(LikeRun {
            rate: load.acknowledged.load(Ordering::Relaxed) as f64 / seconds,
            settled: (after.settled - before.settled) / seconds,
            batch: (after.settled - before.settled) / (after.batches - before.batches),
            answers: middle_and_tail(&load.answers),
            settling: middle_and_tail(&load.settling),
            cpu: cpu.map(|cpu| cpu.as_secs_f64() / seconds),
            postgres: postgres.as_secs_f64() * 1e6 / (after.settled - before.settled),
        })
    }

    fn postgres_cpu(&self) -> Result<Duration> {
        Ok(self.setup.postgres_cpu()?.unwrap_or_default())
    }

    async fn counted(&self) -> Result<LikeCounters> {
        // A new connection each time: the server closes idle ones.
        let mut http = HttpClient::open(self.server.addr).await?;
        let text = String::from_utf8(http.call(Method::GET, "/metrics", &self.token).await?.into())?;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.parse::<f64>().ok()).with_context(|| format!("no {name} is counted"))
        };
        Ok(LikeCounters {
            acknowledged: value("feedline_likes_queued_total")?,
            settled: value("feedline_likes_batch_sum")?,
            batches: value("feedline_likes_batch_count")?,
        })
    }
}

/// The counters of a server since its start.
struct LikeCounters {
    acknowledged: f64,
    settled: f64,
    batches: f64,
}

impl LikeCounters {
    fn is_settled(&self) -> bool {
        self.settled >= self.acknowledged
    }
}

/// p50 and p99 in milliseconds.
fn middle_and_tail(micros: &Mutex<Histogram<u64>>) -> [f64; 2] {
    let micros = micros.lock();
    [0.5, 0.99].map(|part| micros.value_at_quantile(part) as f64 / 1e3)
}

/// The baseline: Redis alone.
struct XaddBaseline {
    connection: MultiplexedConnection,
    streams: Vec<String>,
}

impl XaddBaseline {
    async fn connect(url: &str, prefix: &str) -> Result<Self> {
        let streams = (0..STREAMS).map(|n| format!("{prefix}:floor:{n}")).collect();
        Ok(Self { connection: seed::connection(url).await?, streams })
    }

    /// Appends likes in the form of the queue, pipelined, for `length`. Returns the number a second.
    async fn measure(&mut self, post: u64, length: Duration) -> Result<f64> {
        let body = format!("+ p{post} {} {}", feedline::feed::now(), seed::user(0));
        let mut pipe = redis::pipe();
        for n in 0..PIPELINE_LENGTH {
            pipe.cmd("XADD").arg(&self.streams[n % STREAMS]).arg("*").arg("b").arg(&body).ignore();
        }
        let pipe = Arc::new(pipe);
        let start = Instant::now();
        let mut in_flight = FuturesUnordered::new();
        let mut done = 0;
        while start.elapsed() < length || !in_flight.is_empty() {
            while in_flight.len() < MAX_PIPELINES && start.elapsed() < length {
                let mut connection = self.connection.clone();
                let pipe = Arc::clone(&pipe);
                in_flight.push(async move { pipe.exec_async(&mut connection).await });
            }
            if let Some(answer) = in_flight.next().await {
                answer?;
                done += PIPELINE_LENGTH;
            }
        }
        let took = start.elapsed().as_secs_f64();
        redis::cmd("UNLINK").arg(&self.streams).exec_async(&mut self.connection).await?;
        Ok(done as f64 / took)
    }
}
