//! Follow, unfollow and block with full inboxes: the latency of each, and whether live delivery stalls during them.
//!
//! One author posts continuously, and one follower of the author listens. First there is no other load; then users with
//! full inboxes follow, unfollow and block, one call after another on each of a few connections.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hdrhistogram::Histogram;
use hyper::Method;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::client::LoadClient;
use super::context::BenchContext;
use super::dataset::{self, author};
use super::http_client::HttpClient;
use super::process::ServerProcess;
use super::report::{Better, Goal, Report, Row, median};
use super::seed;
use super::target::SocketTarget;

/// People with full inboxes.
const READERS: usize = 200;
/// Connections that change edges.
const CONNECTIONS: usize = 4;
/// The interval between the author's posts.
const POST_INTERVAL: Duration = Duration::from_millis(20);

/// The measured operations, in the order in which each connection calls them.
const STEPS: [(&str, Method, &str); 5] = [
    ("follow", Method::PUT, "follow"),
    ("unfollow", Method::DELETE, "follow"),
    ("follow, to be blocked", Method::PUT, "follow"),
    ("block", Method::PUT, "block"),
    ("unblock", Method::DELETE, "block"),
];

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext) -> Result<Report> {
    let mut report = Report::new("edges");
    let setup = bench.server_setup_noted(&mut report).await?;
    dataset::load(bench, &setup.ledger, READERS).await?;
    let server = bench.start_server(&setup).await?;
    bench.bar.set_message("filling inboxes");
    bench.start_progress(READERS);
    let mut http = HttpClient::open(server.addr).await?;
    for n in 0..READERS {
        http.call(Method::GET, "/api/v1/timeline", &seed::token(&setup.secret, &seed::user(n))?).await?;
        bench.bar.inc(1);
    }
    let mut probe = LiveProbe::connect(server.feedline(), &setup.secret).await?;
    let length = Duration::from_secs(bench.options.seconds);
    let (mut quiet, mut busy) = (Vec::new(), Vec::new());
    let mut steps = STEPS.map(|_| (Vec::new(), Vec::new()));
    bench.start_progress(bench.options.runs * 2);
    for run in 1..=bench.options.runs {
        bench.bar.set_message(format!("run {run}: nothing else happens"));
        quiet.push(probe.worst(length).await?);
        bench.bar.inc(1);
        bench.bar.set_message(format!("run {run}: edges change"));
        let (worst, times) = tokio::try_join!(probe.worst(length), change(&server, &setup.secret, length))?;
        busy.push(worst);
        for ((medians, tails), times) in steps.iter_mut().zip(times) {
            medians.push(millis(times.value_at_quantile(0.5)));
            tails.push(millis(times.value_at_quantile(0.99)));
        }
        bench.bar.inc(1);
    }
    for ((name, ..), (medians, tails)) in STEPS.iter().zip(steps) {
        report.notes.push(format!("{name}: 99 of 100 within {:.2} ms", median(&tails)));
        report.rows.push(row((*name).to_owned(), medians, None));
    }
    report.notes.push(format!("slowest live delivery with nothing else going on: {:.2} ms", median(&quiet)));
    report.rows.push(row("slowest live delivery meanwhile".to_owned(), busy, Some(Goal::AtMost(20.0))));
    server.stop().await?;
    bench.tear_down(setup).await?;
    Ok(report)
}

fn row(name: String, measured: Vec<f64>, goal: Option<Goal>) -> Row {
    Row { name, unit: "ms", better: Better::Less, measured, against: None, goal }
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1e3
}

/// An author and a connected follower.
struct LiveProbe {
    author: LoadClient,
    follower: LoadClient,
    /// The id of the author's last command.
    last: u64,
}

impl LiveProbe {
    async fn connect(target: SocketTarget, secret: &str) -> Result<Self> {
        let mut sockets = Vec::new();
        // The first reader follows the first author.
        for user in [author(0), seed::user(0)] {
            let mut socket = LoadClient::open(target).await?;
            socket.send(&seed::connect(secret, &user)?).await?;
            socket.expect("\"connect\":").await?;
            sockets.push(socket);
        }
        let [author, follower] = <[LoadClient; 2]>::try_from(sockets).ok().context("two sockets")?;
        Ok(Self { author, follower, last: 1 })
    }

    /// Posts for `length`. Returns the highest latency to the follower, in milliseconds.
    async fn worst(&mut self, length: Duration) -> Result<f64> {
        let (start, mut worst) = (Instant::now(), Duration::ZERO);
        let mut ticks = interval(POST_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while start.elapsed() < length {
            ticks.tick().await;
            self.last += 1;
            let sent = Instant::now();
            self.author.send(&seed::post(self.last)).await?;
            self.follower.expect_marks(1).await?;
            worst = worst.max(sent.elapsed());
            self.author.expect(&format!("\"id\":{},\"rpc\"", self.last)).await?;
        }
        Ok(worst.as_secs_f64() * 1e3)
    }
}

/// Changes edges for `length`. Returns the latencies of each kind of step, in microseconds.
async fn change(server: &ServerProcess, secret: &str, length: Duration) -> Result<Vec<Histogram<u64>>> {
    let start = Instant::now();
    let mut hands = JoinSet::new();
    for hand in 0..CONNECTIONS {
        let (addr, secret) = (server.addr, secret.to_owned());
        hands.spawn(async move {
            let mut http = HttpClient::open(addr).await?;
            let mut times = new_times()?;
            // The first reader is the connected follower.
            let mut turns = (1..READERS).skip(hand).step_by(CONNECTIONS).cycle();
            while start.elapsed() < length {
                let reader = turns.next().context("nobody")?;
                let token = seed::token(&secret, &seed::user(reader))?;
                // By the way in which the dataset assigns followees, the reader does not follow this author.
                let other = author(reader * 7 + 1);
                for ((_, method, edge), times) in STEPS.iter().zip(&mut times) {
                    let asked = Instant::now();
                    http.call(method.clone(), &format!("/api/v1/users/{other}/{edge}"), &token).await?;
                    times.record(asked.elapsed().as_micros() as u64)?;
                }
            }
            Ok::<_, anyhow::Error>(times)
        });
    }
    let mut all = new_times()?;
    while let Some(times) = hands.join_next().await {
        for (all, times) in all.iter_mut().zip(times??) {
            all.add(times)?;
        }
    }
    Ok(all)
}

fn new_times() -> Result<Vec<Histogram<u64>>> {
    STEPS.iter().map(|_| Ok(Histogram::<u64>::new(3)?)).collect()
}
