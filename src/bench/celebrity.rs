//! A post of somebody whom 1,000,000 follow, of whom 1,000 are connected: from its acceptance to the last socket.
//!
//! Beside it, in turn, a post of somebody whom twice as many follow as are connected, and the same 1,000 are. Both are
//! past the limit from which on authors are pulled, so that what differs is the number of those who are not there: the
//! ratio says what they cost.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use feedline::model::UserId;
use hdrhistogram::Histogram;

use super::arrivals::ReceiverGroup;
use super::client::open_all;
use super::context::BenchContext;
use super::fanout::PostAuthor;
use super::ledger;
use super::live;
use super::process::Process;
use super::report::{Better, Goal, Report, Row, median};
use super::seed::{self, AUTHOR};

/// Whom few follow.
const FEW: &str = "few";
/// How many people come into the ledger at once.
const USERS_PER_LOAD: usize = 10_000;
/// Posts before those that are measured, in each run.
const WARM_UP: usize = 3;
/// How long a post may take to the last of those who are connected, in milliseconds.
const GOAL: f64 = 100.0;
/// What is reported of each run's times.
const FIGURES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)];

/// How many people there are, and how many posts.
#[derive(Clone, Copy, Debug)]
pub(super) struct CelebritySize {
    /// Who follow the celebrity.
    pub followers: usize,
    /// Those of them who are connected.
    pub connected: usize,
    /// How many posts of each of the two are measured in a run.
    pub posts: usize,
}

impl CelebritySize {
    /// Every so many-th follower is connected.
    fn step(self) -> usize {
        self.followers / self.connected
    }

    /// The numbers of those who are.
    fn connected(self) -> impl Iterator<Item = usize> {
        (0..self.followers).step_by(self.step()).take(self.connected)
    }

    /// Whether somebody follows the other author too: who is connected, and the next.
    fn is_among_few(self, person: usize) -> bool {
        person / self.step() < self.connected && person % self.step() < 2
    }

    /// How many those are.
    fn few(self) -> usize {
        2 * self.connected
    }
}

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext, size: CelebritySize) -> Result<Report> {
    ensure!(size.followers >= size.few(), "--followers is at least twice --connected");
    let mut report = Report::new("celebrity");
    let mut setup = bench.server_setup_noted(&mut report).await?;
    // Both authors are past it.
    setup.push_limit = Some(size.few() - 1);
    let begun = Instant::now();
    load(bench, &setup.ledger, size).await?;
    report.notes.push(format!(
        "{} people and {} edges put into the ledger in {:.0} s, {:.0} MB",
        size.followers,
        size.followers + size.few(),
        begun.elapsed().as_secs_f64(),
        setup.ledger_size()? as f64 / 1e6,
    ));

    let server = bench.start_server(&setup).await?;
    let greetings: Vec<String> =
        size.connected().map(|n| seed::connect(&setup.secret, &seed::user(n))).collect::<Result<_>>()?;
    bench.bar.set_message(format!("connecting {}", size.connected));
    let sockets = open_all(server.feedline(), &greetings, "\"connect\":", bench).await?;
    let mut audience = ReceiverGroup::new(sockets.into_iter().map(|(socket, _)| socket));
    let mut sides = Vec::new();
    for name in [AUTHOR, FEW] {
        let author = PostAuthor::sign_in(server.feedline(), &setup.secret, name).await?;
        sides.push(CelebritySide { author, times: FIGURES.map(|_| Vec::new()), cpu: Vec::new() });
    }
    bench.start_progress(2 * bench.options.runs * (WARM_UP + size.posts));
    for run in 0..bench.options.runs {
        bench.bar.set_message(format!("run {}", run + 1));
        // Who goes first alternates.
        for turn in [run % 2, (run + 1) % 2] {
            sides[turn].measure(bench, &mut audience, &server.process, size.posts).await?;
        }
    }
    compare(&mut report, size, &sides);
    report.notes.push(format!("server's memory: {:.0} MB", server.process.resident()? as f64 / 1e6));
    server.stop().await?;
    bench.tear_down(setup).await?;
    Ok(report)
}

/// Puts the people into a ledger before its server starts, and lets them follow.
async fn load(bench: &BenchContext, ledger: &str, size: CelebritySize) -> Result<()> {
    let ledger = ledger::open(ledger).await?;
    let id = |name: &str| UserId::parse(name).context("a name that is no id");
    let (author, few, now) = (id(AUTHOR)?, id(FEW)?, feedline::feed::now());
    ledger.load_users(&[author.clone(), few.clone()], now).await?;
    bench.bar.set_message(format!("{} people", size.followers));
    bench.start_progress(size.followers);
    for first in (0..size.followers).step_by(USERS_PER_LOAD) {
        let numbers = first..size.followers.min(first + USERS_PER_LOAD);
        let people: Vec<UserId> = numbers.clone().map(|n| id(&seed::user(n))).collect::<Result<_>>()?;
        let mut edges: Vec<(UserId, UserId)> = people.iter().map(|person| (person.clone(), author.clone())).collect();
        let among_few = people.iter().zip(numbers).filter(|(_, n)| size.is_among_few(*n));
        edges.extend(among_few.map(|(person, _)| (person.clone(), few.clone())));
        ledger.load_users(&people, now).await?;
        ledger.load_follows(&edges, now).await?;
        bench.bar.inc(people.len() as u64);
    }
    ledger.close().await;
    Ok(())
}

/// One of the two authors.
struct CelebritySide {
    author: PostAuthor,
    /// Of each run, each of [`FIGURES`], in milliseconds.
    times: [Vec<f64>; 3],
    /// Of each run, the server's CPU time for a post, in milliseconds.
    cpu: Vec<f64>,
}

impl CelebritySide {
    /// Writes one post after the other.
    async fn measure(
        &mut self,
        bench: &BenchContext,
        audience: &mut ReceiverGroup,
        server: &Process,
        posts: usize,
    ) -> Result<()> {
        for _ in 0..WARM_UP {
            live::post(&mut self.author, audience).await?;
            bench.bar.inc(1);
        }
        let mut times = Histogram::<u64>::new(3)?;
        let before = server.cpu()?;
        for _ in 0..posts {
            times.record(micros(live::post(&mut self.author, audience).await?))?;
            bench.bar.inc(1);
        }
        self.cpu.push((server.cpu()? - before).as_secs_f64() * 1e3 / posts as f64);
        for ((_, quantile), runs) in FIGURES.iter().zip(&mut self.times) {
            runs.push(times.value_at_quantile(*quantile) as f64 / 1e3);
        }
        Ok(())
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn compare(report: &mut Report, size: CelebritySize, sides: &[CelebritySide]) {
    let [celebrity, few] = sides else { return };
    for (at, (name, _)) in FIGURES.iter().enumerate() {
        report.rows.push(Row {
            name: format!("accepted → last of {} sockets, {} followers: {name}", size.connected, size.followers),
            unit: "ms",
            better: Better::Less,
            measured: celebrity.times[at].clone(),
            against: Some(("with few followers", few.times[at].clone())),
            goal: Some(Goal::AtMost(GOAL)),
        });
    }
    report.notes.push(format!(
        "server's CPU time a post: {:.1} ms with {} followers, {:.1} ms with {}; {} of them are connected each time",
        median(&celebrity.cpu),
        size.followers,
        median(&few.cpu),
        size.few(),
        size.connected,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connected_users_follow_both_authors() {
        for (followers, connected) in [(2, 1), (20, 10), (23, 7), (1_000_000, 1_000)] {
            let size = CelebritySize { followers, connected, posts: 1 };
            assert_eq!(size.connected().count(), connected);
            assert!(size.connected().all(|n| size.is_among_few(n)));
            assert_eq!((0..followers).filter(|n| size.is_among_few(*n)).count(), size.few());
        }
    }
}
