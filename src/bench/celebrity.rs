//! A post of an author with 1,000,000 followers, 1,000 of them connected: latency from acceptance to the last socket.
//!
//! The comparison, in the same run, is a post of an author who has only twice as many followers as are connected; the
//! same 1,000 are connected. Both authors are above the push limit, so their posts are pulled. The two differ only in
//! the number of offline followers, and the ratio shows the cost of those.

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

/// The author with few followers.
const FEW: &str = "few";
/// Users that are loaded into the ledger at a time.
const USERS_PER_LOAD: usize = 10_000;
/// Posts before the measurement of each run.
const WARM_UP: usize = 3;
/// The maximum latency to the last connected follower, in milliseconds.
const GOAL: f64 = 100.0;
/// The reported latencies of each run.
const FIGURES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)];

/// The numbers of users and posts.
#[derive(Clone, Copy, Debug)]
pub(super) struct CelebritySize {
    /// The number of followers of the celebrity.
    pub followers: usize,
    /// The number of connected followers.
    pub connected: usize,
    /// The number of measured posts of each author in a run.
    pub posts: usize,
}

impl CelebritySize {
    /// One follower in this many is connected.
    fn step(self) -> usize {
        self.followers / self.connected
    }

    /// The numbers of the connected followers.
    fn connected(self) -> impl Iterator<Item = usize> {
        (0..self.followers).step_by(self.step()).take(self.connected)
    }

    /// Whether a follower also follows the other author: the connected followers do, and the one after each.
    fn is_among_few(self, person: usize) -> bool {
        person / self.step() < self.connected && person % self.step() < 2
    }

    /// The number of followers of the other author.
    fn few(self) -> usize {
        2 * self.connected
    }
}

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext, size: CelebritySize) -> Result<Report> {
    ensure!(size.followers >= size.few(), "--followers is at least twice --connected");
    let mut report = Report::new("celebrity");
    let mut setup = bench.server_setup_noted(&mut report).await?;
    // Both authors are above the limit.
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
        // The author that goes first alternates.
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

/// Loads the users and their follows into a ledger before its server starts.
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
    /// Each of [`FIGURES`] of each run, in milliseconds.
    times: [Vec<f64>; 3],
    /// The server's CPU time a post in each run, in milliseconds.
    cpu: Vec<f64>,
}

impl CelebritySide {
    /// Writes one post after another.
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
