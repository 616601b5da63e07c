//! The first page of a timeline, for people who follow 300: pages a second, and how long one takes at 80 % of that rate.
//!
//! *Warm*: the inbox is there. *After 14 days away*: it is not, and is rebuilt from the ledger before the page is answered.
//!
//! Both are measured in short rounds, the rate and then at once the times at 80 % of it. What a core of a shared machine
//! does in a second changes by a third within seconds, as others use what it shares with them; at 80 % of what it did a
//! while ago it may be asked for more than it can do now, and what is measured then is for how long. A run's figures are
//! the medians of its rounds; the worst round is told too.

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
/// The part of the top rate at which times are taken.
const LOAD: f64 = 0.8;
/// Rounds of a run.
const ROUNDS: usize = 10;
/// The part of a round in which the top rate is found.
const FINDING: f64 = 0.25;

/// What a round came to.
struct Round {
    /// Pages a second, as fast as they are answered.
    rate: f64,
    /// Milliseconds within which 99 of 100 are answered, at [`LOAD`] of it.
    p99: f64,
    /// Milliseconds of CPU time a page: the server's, and its PostgreSQL's.
    cost: [f64; 2],
}

/// What a run came to: the medians of its rounds.
struct Tally {
    rate: f64,
    p99: f64,
    /// The largest of the rounds' `p99`.
    worst: f64,
    cost: [f64; 2],
}

impl From<Vec<Round>> for Tally {
    fn from(rounds: Vec<Round>) -> Self {
        let each = |of: fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<_>>();
        let (rate, p99) = (median(&each(|round| round.rate)), each(|round| round.p99));
        let cost = [median(&each(|round| round.cost[0])), median(&each(|round| round.cost[1]))];
        Self { rate, worst: p99.iter().copied().fold(0.0, f64::max), p99: median(&p99), cost }
    }
}

/// Runs the scenario.
pub(super) async fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::new("timeline");
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    let setup = bench.setup_as_asked(&mut report).await?;
    crowd::gather(bench, &setup.ledger, READERS).await?;
    let tokens: Arc<[String]> =
        (0..READERS).map(|n| seed::token(&setup.secret, &seed::user(n))).collect::<Result<_>>()?;
    let length = Duration::from_secs(bench.options.seconds) / ROUNDS as u32;
    bench.begin(bench.options.runs * ROUNDS * 2);
    for run in 1..=bench.options.runs {
        // A new server, and nobody's inbox is there.
        bench.forget(&setup).await?;
        let server = bench.serve(&setup).await?;
        let mut crowd = Crowd::gather(&server, &setup, &tokens).await?;
        bench.bar.set_message(format!("run {run}: after 14 days away"));
        cold.push(crowd.rounds(bench, everybody_once).await?);
        bench.bar.set_message(format!("run {run}: warm"));
        warm.push(crowd.rounds(bench, |_| for_so_long(length)).await?);
        server.stop().await?;
    }
    rows(&mut report, "warm", &warm, 5.0);
    rows(&mut report, "after 14 days away", &cold, 60.0);
    report.notes.push(format!("{READERS} readers who follow {FOLLOWEES} each; {ROUNDS} rounds a run"));
    bench.strike(setup).await?;
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
    let mut row = |name: String, measured, goal| {
        report.rows.push(Row { name, unit: "ms", better: Better::Less, measured, against: None, goal });
    };
    let name = format!("  at {:.0} % of that, 99 of 100 within", LOAD * 100.0);
    row(name, each(|tally| tally.p99), Some(Target::AtMost(most)));
    row("  in the worst round of a run".to_owned(), each(|tally| tally.worst), None);
    let cost = [median(&each(|tally| tally.cost[0])), median(&each(|tally| tally.cost[1]))];
    let of_postgres = if cost[1] > 0.0 { format!(", {:.3} ms of PostgreSQL's", cost[1]) } else { String::new() };
    report.notes.push(format!("{what}: {:.3} ms of the server's CPU time a page{of_postgres}", cost[0]));
}

/// In a round, who comes to find the top rate, and who at [`LOAD`] of it: everybody comes once a run.
fn everybody_once(round: usize) -> [Take; 2] {
    let (first, many) = (round * READERS / ROUNDS, READERS / ROUNDS);
    let finding = (FINDING * many as f64) as usize;
    [Take::new(first, finding, None), Take::new(first + finding, many - finding, None)]
}

/// The same, for those who have been here.
fn for_so_long(length: Duration) -> [Take; 2] {
    [FINDING, 1.0 - FINDING].map(|part| Take::new(0, usize::MAX, Some(length.mul_f64(part))))
}

/// Those who read, and whom they ask.
struct Crowd<'a> {
    webs: Vec<Web>,
    tokens: Arc<[String]>,
    server: &'a Listening,
    setup: &'a Setup,
}

impl<'a> Crowd<'a> {
    async fn gather(server: &'a Listening, setup: &'a Setup, tokens: &Arc<[String]>) -> Result<Self> {
        let mut webs = Vec::with_capacity(OPEN);
        for _ in 0..OPEN {
            webs.push(Web::open(server.addr).await?);
        }
        Ok(Self { webs, tokens: Arc::clone(tokens), server, setup })
    }

    async fn rounds(&mut self, bench: &Bench, takes: impl Fn(usize) -> [Take; 2]) -> Result<Tally> {
        let mut rounds = Vec::with_capacity(ROUNDS);
        for round in 0..ROUNDS {
            rounds.push(self.round(takes(round)).await?);
            bench.bar.inc(2);
        }
        Ok(rounds.into())
    }

    async fn round(&mut self, [mut finding, mut times]: [Take; 2]) -> Result<Round> {
        let (cpu, start) = (self.cpu()?, Instant::now());
        finding.begin();
        self.read(AT_ONCE, &finding, None).await?;
        let (took, pages) = (start.elapsed().as_secs_f64(), finding.taken() as f64);
        let after = self.cpu()?;
        let cost = [0, 1].map(|whose| after[whose].saturating_sub(cpu[whose]).as_secs_f64() * 1e3 / pages);
        let rate = pages / took;
        times.begin();
        let p99 = self.read(OPEN, &times, Some(LOAD * rate)).await?.value_at_quantile(0.99) as f64 / 1e3;
        Ok(Round { rate, p99, cost })
    }

    /// What the server used so far, and its PostgreSQL.
    fn cpu(&self) -> Result<[Duration; 2]> {
        let postgres = self.setup.postgres.as_ref().map(|(postgres, _)| postgres.process.family_cpu());
        Ok([self.server.process.cpu()?, postgres.transpose()?.unwrap_or_default()])
    }

    /// Reads over so many connections: so many pages a second, whether or not earlier ones are answered, or as fast as they
    /// are. How many microseconds each took, from when it was due.
    async fn read(&mut self, connections: usize, take: &Take, rate: Option<f64>) -> Result<Histogram<u64>> {
        let start = Instant::now();
        let mut working = JoinSet::new();
        for mut web in self.webs.drain(..connections) {
            let (take, tokens) = (take.clone(), Arc::clone(&self.tokens));
            working.spawn(async move {
                let mut times = Histogram::<u64>::new(3)?;
                while let Some((place, reader)) = take.one() {
                    let due =
                        rate.map_or_else(Instant::now, |rate| start + Duration::from_secs_f64(place as f64 / rate));
                    wait_until(due).await;
                    page(&mut web, &tokens[reader]).await?;
                    times.record(due.elapsed().as_micros() as u64)?;
                }
                Ok::<_, anyhow::Error>((web, times))
            });
        }
        let mut all = Histogram::<u64>::new(3)?;
        while let Some(worked) = working.join_next().await {
            let (web, times) = worked??;
            self.webs.push(web);
            all.add(times)?;
        }
        Ok(all)
    }
}

/// Numbers handed out to whoever asks next, so many of them or for so long.
#[derive(Clone)]
struct Take {
    next: Arc<AtomicUsize>,
    first: usize,
    count: usize,
    length: Option<Duration>,
    until: Option<Instant>,
}

impl Take {
    fn new(first: usize, count: usize, length: Option<Duration>) -> Self {
        Self { next: Arc::default(), first, count, length, until: None }
    }

    /// Its time runs from now on.
    fn begin(&mut self) {
        self.until = self.length.map(|length| Instant::now() + length);
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

/// Timers are a millisecond coarse, which is a good part of what is measured: the last of them is waited for awake.
async fn wait_until(due: Instant) {
    let early = due - Duration::from_millis(1).min(due.saturating_duration_since(Instant::now()));
    tokio::time::sleep_until(early.into()).await;
    while Instant::now() < due {
        tokio::task::yield_now().await;
    }
}
