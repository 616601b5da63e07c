//! The feed: connected followers, posts by several HTTP writers: posts and deliveries a second, CPU time, latency.
//!
//! The floor has the same followers and the same writers. On Redis, a peer is measured as well: a script that does the
//! least with Redis, or another system.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use super::client::MAX_SOCKETS;
use super::context::BenchContext;
use super::feed_system::{AUTHORS, FeedRun, FeedSystem, GROUP, followees};
use super::http_load::LoadPace;
use super::options::{BrokerKind, number, part};
use super::report::{Goal, Report, each, middle};
use super::seed;
use super::stores::Stores;

/// The load of the feed.
#[derive(Clone, Debug, Args)]
pub(super) struct FeedOptions {
    /// HTTP clients that create posts, one request at a time each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 32], value_parser = number(1..=1_000))]
    writers: Vec<usize>,
    /// Connected followers, a multiple of 10: each of 100 authors is followed by a tenth of them
    #[arg(long, default_value_t = 1_000, value_parser = number(10..=MAX_SOCKETS as u64))]
    sockets: usize,
    /// The store of the broker [default: redis with --redis, otherwise memory]. `redis` without --redis starts a Redis
    #[arg(long, value_enum)]
    broker: Option<BrokerKind>,
    /// The part of the top rate at which latencies are measured again; 0 leaves this out
    #[arg(long, value_name = "PART", default_value_t = 0.8, value_parser = part)]
    load: f64,
    /// Command that runs another system to compare with; it listens on HOST and PORT, and may use REDIS_URL and PREFIX
    /// [default on Redis: node tests/baseline/feed.mjs]
    #[arg(long, value_name = "COMMAND")]
    beside: Option<String>,
    /// Another build of the server to compare with, on stores of its own
    #[arg(long, value_name = "PATH", conflicts_with = "beside")]
    against: Option<PathBuf>,
    /// Leaves out the floor and the peer
    #[arg(long)]
    alone: bool,
}

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext, options: &FeedOptions) -> Result<Report> {
    let mut report = Report::new("feed");
    let sockets = options.sockets;
    ensure!(sockets.is_multiple_of(GROUP), "--sockets must be a multiple of {GROUP}");
    let stores = Stores::start(bench, options.broker).await?;
    fill(&stores, sockets).await?;
    let server = stores.start_feedline(bench).await?;
    let other_build = match &options.against {
        Some(path) => {
            let stores = Stores::start_apart(bench, options.broker).await?;
            fill(&stores, sockets).await?;
            Some((stores.start_build(bench, path).await?, stores))
        }
        None => None,
    };
    let floor = if options.alone { None } else { Some(bench.start_floor().await?) };
    let mut peer = None;
    if options.beside.is_some() || stores.is_on_redis() && !options.alone && other_build.is_none() {
        match bench.start_peer(options.beside.as_deref(), &stores.broker).await {
            Ok(started) => peer = Some(started),
            Err(error) if options.beside.is_some() => return Err(error),
            Err(error) => report.notes.push(format!("not compared with the script: {error:#}")),
        }
    }
    let others = [("floor", &floor), ("peer", &peer)].into_iter();
    let others: Vec<_> = others.filter_map(|(name, server)| Some((name, server.as_ref()?))).collect();
    let all = sockets * (1 + others.len() + usize::from(other_build.is_some()));
    ensure!(all <= MAX_SOCKETS, "{all} sockets do not fit into one process: at most {MAX_SOCKETS}, or --alone");
    let mut systems = vec![FeedSystem::feedline(bench, &server, &stores, sockets).await?];
    if let Some((server, stores)) = &other_build {
        systems.push(FeedSystem::feedline(bench, server, stores, sockets).await?.named("build"));
    }
    for (name, server) in others {
        systems.push(FeedSystem::floor(bench, name, server, sockets).await?);
    }
    let names: Vec<&'static str> = systems.iter().map(|system| system.name).collect();
    for &writers in &options.writers {
        let measure = async |system: &mut FeedSystem| {
            let top = system.measure(writers, LoadPace::FlatOut, bench.length()).await?;
            ensure!(top.deliveries > 0.0, "nothing arrived");
            let pace = LoadPace::Rate(options.load * top.posts);
            let is_paced = options.load > 0.0 && system.name == "server";
            let paced = if is_paced { Some(system.measure(writers, pace, bench.length()).await?) } else { None };
            Ok((top, paced))
        };
        let runs = bench.alternate(&format!("{writers} writers"), &mut systems, measure).await?;
        let paced: Vec<FeedRun> = runs[0].iter().filter_map(|(_, paced)| paced.clone()).collect();
        let tops = runs.into_iter().map(|runs| runs.into_iter().map(|(top, _)| top).collect());
        let figures = FeedFigures { systems: names.iter().copied().zip(tops).collect(), paced };
        figures.add_rows(&mut report, writers, options.load, &stores);
    }
    report.notes.push(format!("{sockets} sockets, {AUTHORS} authors; {}", stores.note()));
    drop(systems);
    // The stores of the other build are needed until it has stopped.
    let (other_build, _other_stores) = other_build.unzip();
    for server in [Some(server), other_build, floor, peer].into_iter().flatten() {
        server.stop().await?;
    }
    Ok(report)
}

/// Fills a ledger with the followers and the authors, before its server starts.
async fn fill(stores: &Stores, sockets: usize) -> Result<()> {
    let followers = seed::ids(seed::user, sockets)?;
    let mut edges = Vec::new();
    for (n, follower) in followers.iter().enumerate() {
        for author in followees(n) {
            edges.push((follower.clone(), seed::id(&seed::author(author))?));
        }
    }
    let people = [followers, seed::ids(seed::author, AUTHORS)?].concat();
    seed::fill(&stores.ledger, &people, &edges, &[]).await.map(drop)
}

/// Everything that was measured with one number of writers.
struct FeedFigures {
    /// The runs of each system, as fast as posts are accepted; the server is the first.
    systems: Vec<(&'static str, Vec<FeedRun>)>,
    /// The runs of the server at a part of that rate.
    paced: Vec<FeedRun>,
}

impl FeedFigures {
    /// A figure of the runs of another system, if it was measured.
    fn other(&self, name: &str, of: impl Fn(&FeedRun) -> f64) -> Option<(&'static str, Vec<f64>)> {
        let (name, runs) = self.systems.iter().find(|(other, _)| *other == name)?;
        Some((*name, each(runs, of)))
    }

    fn add_rows(&self, report: &mut Report, writers: usize, load: f64, stores: &Stores) {
        let top = &self.systems[0].1;
        let floor = self.other("floor", FeedRun::cpu_per_delivery);
        let has_peer = self.other("peer", |run| run.posts).is_some();
        // What posts and latencies are compared with.
        let rivals = ["build", "peer", "floor"];
        let rival = |of: &dyn Fn(&FeedRun) -> f64| rivals.iter().find_map(|name| self.other(name, of));
        let least = Goal::RatioAtLeast(if stores.is_on_postgres() { 2.0 } else { 3.0 });
        // A goal that holds for the embedded stores only.
        let embedded = |goal| (!stores.is_on_redis() && !stores.is_on_postgres()).then_some(goal);
        report
            .row(format!("{writers} writers: deliveries"), "deliveries/s", each(top, |run| run.deliveries))
            .against(self.other("floor", |run| run.deliveries))
            .goal(embedded(Goal::RatioAtLeast(0.7)).filter(|_| floor.is_some()));
        report
            .row("  posts", "posts/s", each(top, |run| run.posts))
            .against(rival(&|run| run.posts).filter(|(name, _)| *name != "floor"))
            .goal(has_peer.then_some(least));
        let cost = each(top, FeedRun::cpu_per_delivery);
        report
            .row("  CPU of the server a delivery", "µs", cost)
            .against(self.other("build", FeedRun::cpu_per_delivery).or_else(|| floor.clone()));
        if let Some((_, floor)) = floor {
            let bare = middle(&floor, |cost| *cost);
            let beside = each(top, |run| (run.server - bare * run.deliveries / run.posts) / 1e3);
            let goal = embedded(Goal::AtMost(0.3)).filter(|_| writers == 8);
            report.row("  CPU of a post beside the floor's for its deliveries", "ms", beside).goal(goal);
        }
        let percentiles = ["p50", "p99", "p99.9"].into_iter().enumerate();
        for (place, name) in percentiles.clone() {
            let of = |run: &FeedRun| run.latency[place];
            report
                .row(format!("  publish to socket, {name}"), "ms", each(top, of))
                .against(rival(&of))
                .goal((has_peer && place == 1).then_some(Goal::RatioAtMost(1.0)));
        }
        for (place, name) in percentiles.filter(|_| !self.paced.is_empty()) {
            let name = format!("  at {load} of that, publish to socket, {name}");
            let goal = embedded(Goal::AtMost(10.0)).filter(|_| place == 1);
            report.row(name, "ms", each(&self.paced, |run| run.latency[place])).goal(goal);
        }
        for (name, runs) in &self.systems {
            report.notes.push(format!(
                "{writers} writers, {name}: {:.0} posts/s; CPU {:.1} µs a delivery, clients {:.0} %; p99 {:.1}",
                middle(runs, |run| run.posts),
                middle(runs, FeedRun::cpu_per_delivery),
                middle(runs, |run| run.clients * 100.0),
                middle(runs, |run| run.latency[1]),
            ));
        }
    }
}
