//! A post goes to 10,000 full inboxes on Redis without connected users: followers a second.
//!
//! The baseline, in the same run, is Redis alone: the same script and the same inboxes, pipelined over one connection.
//! The difference is the cost of the ledger, the jobs and their bookkeeping.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tokio::time::sleep_until;

use super::client::LoadClient;
use super::context::BenchContext;
use super::fanout_setup::{FOLLOWERS, FanoutSetup, HintCounter, RedisBaseline};
use super::process::Process;
use super::report::{Better, Goal, Report, Row, median};
use super::seed::{self, AUTHOR};
use super::target::SocketTarget;

/// Posts in flight: accepted, but not yet delivered to the last follower.
const WINDOWS: [u64; 2] = [1, 4];
/// The time before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);
/// A run fails after this time without a reply.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext) -> Result<Report> {
    let setup = FanoutSetup::prepare(bench).await?;
    let alone = RedisBaseline::connect(&setup.server.broker, &setup.server.prefix).await?;
    let server = bench.start_server(&setup.server).await?;
    let author = PostAuthor::sign_in(server.feedline(), &setup.server.secret, AUTHOR).await?;
    let mut pair = FanoutComparison { setup: &setup, server: &server.process, author, alone };
    let mut report = Report::new("fanout");
    bench.start_progress(WINDOWS.len() * bench.options.runs * 2);
    for window in WINDOWS {
        pair.measure(bench, &mut report, window).await?;
    }
    server.stop().await?;
    setup.tear_down(bench).await?;
    Ok(report)
}

/// The server and the baseline.
struct FanoutComparison<'a> {
    setup: &'a FanoutSetup,
    server: &'a Process,
    author: PostAuthor,
    /// The same inboxes, without a server.
    alone: RedisBaseline,
}

impl FanoutComparison<'_> {
    /// Measures every run with this many posts in flight, the server and the baseline in turn.
    async fn measure(&mut self, bench: &BenchContext, report: &mut Report, window: u64) -> Result<()> {
        let length = Duration::from_secs(bench.options.seconds);
        let redis = self.setup.redis.as_ref().map(|redis| &redis.process);
        let mut rates = [Vec::new(), Vec::new()];
        let mut shares = [Vec::new(), Vec::new(), Vec::new()];
        for run in 0..bench.options.runs {
            bench.bar.set_message(format!("{window} posts in flight, run {}", run + 1));
            for turn in [run % 2, (run + 1) % 2] {
                let own = CpuUsage::since(self.server)?;
                let below = redis.map(CpuUsage::since).transpose()?;
                rates[turn].push(if turn == 0 {
                    self.author.write(&self.setup.hints, WARM_UP, window).await?;
                    self.author.write(&self.setup.hints, length, window).await?
                } else {
                    self.redis_alone(length).await?
                });
                if turn == 0 {
                    shares[0].push(own.share()?);
                }
                shares[1 + turn].extend(below.map(|below| below.share()).transpose()?);
                bench.bar.inc(1);
            }
        }
        let [measured, bare] = rates;
        report.rows.push(Row {
            name: format!("fan-out to {FOLLOWERS}, {window} posts in flight"),
            unit: "followers/s",
            better: Better::More,
            measured,
            against: Some(("Redis alone", bare)),
            goal: Some(Goal::RatioAtLeast(0.70)),
        });
        let [server, below, redis] = shares.map(|runs| median(&runs) * 100.0);
        report.notes.push(format!(
            "{window} in flight: server {server:.0} % of a core, Redis below it {below:.0} %; Redis alone {redis:.0} %"
        ));
        Ok(())
    }

    async fn redis_alone(&mut self, length: Duration) -> Result<f64> {
        let heard = self.setup.hints.heard();
        let rate = self.alone.measure(&self.setup.followers, length).await?;
        self.setup.hints.wait_until_quiet().await;
        ensure!(self.setup.hints.heard() > heard, "nothing was heard of Redis alone");
        Ok(rate)
    }
}

/// The CPU usage of a process, as a part of a core.
struct CpuUsage<'a> {
    process: &'a Process,
    before: Duration,
    start: Instant,
}

impl<'a> CpuUsage<'a> {
    fn since(process: &'a Process) -> Result<Self> {
        Ok(Self { process, before: process.cpu()?, start: Instant::now() })
    }

    fn share(&self) -> Result<f64> {
        Ok((self.process.cpu()?.saturating_sub(self.before)).as_secs_f64() / self.start.elapsed().as_secs_f64())
    }
}

/// The author of the posts.
pub(super) struct PostAuthor {
    socket: LoadClient,
    /// The id of the last command.
    last: u64,
}

impl PostAuthor {
    /// Connects.
    pub(super) async fn sign_in(target: SocketTarget, secret: &str, name: &str) -> Result<Self> {
        let mut socket = LoadClient::open(target).await?;
        socket.send(&seed::connect(secret, name)?).await?;
        socket.expect("\"connect\":").await?;
        Ok(Self { socket, last: 1 })
    }

    /// Keeps `window` posts in flight for `length`, then waits for the last one. Returns followers a second.
    async fn write(&mut self, hints: &HintCounter, length: Duration, window: u64) -> Result<f64> {
        let start = Instant::now();
        let first = hints.heard();
        let deadline = tokio::time::Instant::now() + length;
        let mut sent = 0;
        let mut replies = Vec::new();
        loop {
            let complete = (hints.heard() - first) / HintCounter::COUNT;
            let over = tokio::time::Instant::now() >= deadline;
            if over && complete >= sent {
                return Ok(sent as f64 * FOLLOWERS as f64 / start.elapsed().as_secs_f64());
            }
            while !over && sent < complete + window {
                self.last += 1;
                self.socket.send(&seed::post(self.last)).await?;
                sent += 1;
            }
            tokio::select! {
                () = hints.changed() => {}
                seen = self.socket.read_with(|segment| replies.extend_from_slice(segment)) => {
                    seen?;
                    let text = String::from_utf8_lossy(&replies);
                    ensure!(!text.contains("\"error\":"), "the server refused a post: {text}");
                    replies.clear();
                }
                () = sleep_until(deadline + TIMEOUT) => bail!("posts did not arrive within {TIMEOUT:?}"),
            }
        }
    }
}
