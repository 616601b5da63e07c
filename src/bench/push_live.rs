//! Live delivery beside pushes: the latency of posts to connected followers, first alone, then while pushes are sent at
//! half of the goal's rate, and at half of the rate that the same run reached.
//!
//! The followers are other users than those with devices, and have followed one author all along. The author posts at
//! fixed times; a post that is late counts from when it was due.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use feedline::feed::now;
use feedline::model::UserId;
use tokio::time::{Instant, interval};

use super::client::{LoadClient, open_all};
use super::context::BenchContext;
use super::feed_deliveries::{self, FeedReaders};
use super::ledger;
use super::process::ServerProcess;
use super::push::{goal_rate, rate, rate_row};
use super::push_metrics::PushMetrics;
use super::push_queue::PushQueue;
use super::report::{Better, Goal, Report, Row};
use super::seed::{self, AUTHOR};
use super::server::ServerSetup;

/// Connected followers of the author.
const FOLLOWERS: usize = 200;
/// The interval between the author's posts.
const POST_INTERVAL: Duration = Duration::from_millis(20);
/// The time before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);

/// The goal: the latency beside pushes is at most this ratio of the latency without, or this much more, in
/// milliseconds.
const MAX_RATIO: f64 = 1.5;
const MAX_DIFFERENCE: f64 = 5.0;

/// The part of the scheduled pushes that is to be sent meanwhile: the last ones are sent after the end.
const MIN_PART: f64 = 0.9;

/// Runs the scenario with this number of users with devices.
pub(super) async fn run(bench: &BenchContext, pushes: usize) -> Result<Report> {
    let mut report = Report::new("push --live");
    let length = Duration::from_secs(bench.options.seconds);
    let (mut rates, mut quiet, mut beside) =
        (Vec::new(), Vec::new(), [BesidePushes::default(), BesidePushes::default()]);
    bench.start_progress(bench.options.runs);
    for run in 1..=bench.options.runs {
        let mut setup = bench.server_setup_noted(&mut report).await?;
        setup.push = true;
        bench.bar.set_message(format!("run {run}: filling the queue"));
        let mut queue = PushQueue::new(&setup, pushes)?;
        queue.fill().await?;
        let followers = add_followers(&setup, pushes).await?;
        let server = bench.start_server(&setup).await?;
        bench.bar.set_message(format!("run {run}: {pushes} pushes"));
        let rate = rate(&server, &setup, pushes).await?;
        let mut feed = LiveFeed::connect(bench, &server, &setup, &followers).await?;
        bench.bar.set_message(format!("run {run}: live delivery alone"));
        feed.p99(WARM_UP).await?;
        quiet.push(feed.p99(length).await?);
        for (wanted, beside) in [goal_rate(bench) / 2.0, rate / 2.0].into_iter().zip(&mut beside) {
            bench.bar.set_message(format!("run {run}: scheduling pushes"));
            queue.schedule(wanted, length).await?;
            bench.bar.set_message(format!("run {run}: live delivery beside {wanted:.0} pushes/s"));
            let (p99, sent) = feed.p99_beside_pushes(&server, &setup, length).await?;
            beside.p99.push(p99);
            beside.sent.push(sent);
            beside.scheduled.push(wanted);
        }
        rates.push(rate);
        drop(feed);
        server.stop().await?;
        bench.tear_down(setup).await?;
        bench.start_progress(bench.options.runs);
        bench.bar.set_position(run as u64);
    }
    report.rows.push(rate_row(bench, rates));
    let [at_goal, at_reached] = beside;
    report.rows.extend(at_goal.rows(&format!("{:.0} pushes/s", goal_rate(bench) / 2.0), quiet.clone()));
    report.rows.extend(at_reached.rows("half of the rate", quiet));
    let posts = Duration::from_secs(1).as_millis() / POST_INTERVAL.as_millis();
    let note = format!("{posts} posts a second to {FOLLOWERS} sockets; {pushes} other users with a device each");
    report.notes.push(note);
    Ok(report)
}

/// The runs beside pushes at one rate.
#[derive(Default)]
struct BesidePushes {
    /// Publish to socket, p99, in milliseconds.
    p99: Vec<f64>,
    /// Pushes a second that were sent, and scheduled.
    sent: Vec<f64>,
    scheduled: Vec<f64>,
}

impl BesidePushes {
    /// The rows of the report, with the latencies without pushes.
    fn rows(self, rate: &str, quiet: Vec<f64>) -> [Row; 2] {
        let p99 = Row {
            name: format!("publish to socket, p99, beside {rate}"),
            unit: "ms",
            better: Better::Less,
            measured: self.p99,
            against: Some(("without pushes", quiet)),
            goal: Some(Goal::RatioOrDifferenceAtMost(MAX_RATIO, MAX_DIFFERENCE)),
        };
        let sent = Row {
            name: format!("  pushes sent meanwhile, {rate}"),
            unit: "/s",
            better: Better::More,
            measured: self.sent,
            against: Some(("scheduled", self.scheduled)),
            goal: Some(Goal::RatioAtLeast(MIN_PART)),
        };
        [p99, sent]
    }
}

/// Creates the followers, after the users with devices. Returns their names.
async fn add_followers(setup: &ServerSetup, users: usize) -> Result<Vec<String>> {
    let names: Vec<String> = (users..users + FOLLOWERS).map(seed::user).collect();
    let ledger = ledger::open(&setup.ledger).await?;
    let author = UserId::parse(AUTHOR).context("the author's name is no id")?;
    let people: Vec<UserId> = names.iter().filter_map(|name| UserId::parse(name)).collect();
    let edges: Vec<(UserId, UserId)> = people.iter().map(|person| (person.clone(), author.clone())).collect();
    ledger.load_users(&people, now()).await?;
    ledger.load_follows(&edges, now()).await?;
    ledger.close().await;
    Ok(names)
}

/// An author and the connected followers.
struct LiveFeed {
    author: LoadClient,
    readers: FeedReaders,
    /// The number of the last post, and the id of its command.
    last: u64,
}

impl LiveFeed {
    async fn connect(
        bench: &BenchContext,
        server: &ServerProcess,
        setup: &ServerSetup,
        followers: &[String],
    ) -> Result<Self> {
        let greetings: Vec<String> =
            followers.iter().map(|name| seed::connect(&setup.secret, name)).collect::<Result<_>>()?;
        let sockets = open_all(server.feedline(), &greetings, "\"connect\":", bench).await?;
        let readers = FeedReaders::new(sockets.into_iter().map(|(socket, _)| socket))?;
        let mut author = LoadClient::open(server.feedline()).await?;
        author.send(&seed::connect(&setup.secret, AUTHOR)?).await?;
        author.expect("\"connect\":").await?;
        Ok(Self { author, readers, last: 1 })
    }

    /// Posts for `length`. Returns the p99 of the time from a post to a socket, in milliseconds.
    async fn p99(&mut self, length: Duration) -> Result<f64> {
        let log = Arc::clone(&self.readers.log);
        log.clear_latencies();
        let (mut ticks, mut replies) = (interval(POST_INTERVAL), Vec::new());
        let ends = Instant::now() + length;
        loop {
            tokio::select! {
                // After a delay, the posts that are due are sent at once, each counted from when it was due.
                due = ticks.tick() => {
                    if due >= ends {
                        break;
                    }
                    self.last += 1;
                    log.sending(self.last, due.into_std(), FOLLOWERS);
                    self.author.send(&seed::post_of(self.last, &feed_deliveries::text(self.last))).await?;
                }
                read = self.author.read_with(|segment| replies.extend_from_slice(segment)) => {
                    read?;
                    let text = String::from_utf8_lossy(&replies);
                    ensure!(!text.contains("\"error\":"), "the server refused a post: {text}");
                    replies.clear();
                }
                error = self.readers.failure() => return Err(error),
            }
        }
        log.settle().await?;
        Ok(log.latencies()[1])
    }

    /// The same while scheduled pushes are sent. Returns their number a second, too.
    async fn p99_beside_pushes(
        &mut self,
        server: &ServerProcess,
        setup: &ServerSetup,
        length: Duration,
    ) -> Result<(f64, f64)> {
        let (before, begun) = (PushMetrics::open(server, setup).await?.read().await?, Instant::now());
        let p99 = self.p99(length).await?;
        let after = PushMetrics::open(server, setup).await?.read().await?;
        Ok((p99, (after.accepted - before.accepted) as f64 / begun.elapsed().as_secs_f64()))
    }
}
