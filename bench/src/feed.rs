//! The feed: connected followers, posts by several HTTP writers: posts and deliveries a second, CPU time, latency.
//!
//! The floor has the same followers and the same writers. On Redis, a peer is measured as well: a script that does the
//! least with Redis, or another system.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use super::client::MAX_SOCKETS;
use super::context::BenchContext;
use super::feed_graph::FeedGraph;
use super::feed_peer;
use super::feed_report::{self, FeedGoals, FeedResult, FeedRuns};
use super::feed_side::{FeedSide, MeasuredProcess};
use super::ledger::LedgerKind;
use super::likers::LoadPace;
use super::options::number_between;
use super::process::ServerProcess;
use super::report::Report;
use super::server::ServerSetup;

/// The store of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum BrokerKind {
    /// The server's memory
    Memory,
    /// Redis
    Redis,
}

/// The load of the feed.
#[derive(Clone, Debug, Args)]
pub(super) struct FeedLoad {
    /// HTTP clients that create posts, one request at a time each
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_values_t = [1, 8, 32],
        value_parser = number_between(1, 1_000)
    )]
    writers: Vec<usize>,
    /// Connected followers
    #[arg(long, default_value_t = 1_000, value_parser = number_between(1, MAX_SOCKETS))]
    sockets: usize,
    /// Followers of each author [default: a tenth of the sockets]
    #[arg(long, value_parser = number_between(1, MAX_SOCKETS))]
    followers: Option<usize>,
    /// Authors [default: a tenth of the sockets]
    #[arg(long, value_parser = number_between(1, MAX_SOCKETS))]
    authors: Option<usize>,
    /// The store of the broker [default: redis with --redis, otherwise memory]. `redis` without --redis starts a Redis
    #[arg(long, value_enum)]
    broker: Option<BrokerKind>,
    /// The part of the top rate at which latencies are measured again; 0 leaves this out
    #[arg(long, value_name = "PART", default_value_t = 0.8, value_parser = part_or_nothing)]
    load: f64,
    /// Command that runs another system to compare with; it listens on HOST and PORT, and may use REDIS_URL and PREFIX
    /// [default on Redis: node tests/baseline/feed.mjs]
    #[arg(long, value_name = "COMMAND")]
    beside: Option<String>,
    /// Leaves out the floor and the peer
    #[arg(long)]
    alone: bool,
}

fn part_or_nothing(text: &str) -> Result<f64, String> {
    if text == "0" { Ok(0.0) } else { super::likes::part(text) }
}

impl FeedLoad {
    fn is_on_redis(&self, bench: &BenchContext) -> bool {
        self.broker.map_or(bench.options.redis.is_some(), |broker| broker == BrokerKind::Redis)
    }

    fn graph(&self) -> Result<FeedGraph> {
        let tenth = (self.sockets / 10).max(1);
        FeedGraph::new(self.sockets, self.followers.unwrap_or(tenth), self.authors.unwrap_or(tenth))
    }
}

/// The servers of the scenario.
struct FeedServers {
    setup: ServerSetup,
    server: ServerProcess,
    redis: Option<ServerProcess>,
    floor: Option<ServerProcess>,
    peer: Option<ServerProcess>,
}

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext, load: &FeedLoad) -> Result<Report> {
    let graph = load.graph()?;
    let mut report = Report::new("feed");
    let servers = FeedServers::start(bench, load, graph, &mut report).await?;
    let results = servers.measure(bench, load, graph, &mut report).await?;
    let goals =
        FeedGoals { on_redis: load.is_on_redis(bench), on_postgres: bench.options.ledger == LedgerKind::Postgres };
    feed_report::fill(&mut report, &load.writers, load.load, goals, &results);
    report.notes.push(format!(
        "{} sockets, {} authors with {} followers each; {}",
        graph.sockets,
        graph.authors,
        graph.followers,
        servers.setup.note()
    ));
    servers.stop(bench).await?;
    Ok(report)
}

impl FeedServers {
    async fn start(bench: &BenchContext, load: &FeedLoad, graph: FeedGraph, report: &mut Report) -> Result<Self> {
        let mut setup = bench.server_setup().await?;
        let mut redis = None;
        if load.is_on_redis(bench) {
            let (own, url) = bench.start_redis().await?;
            (redis, setup.broker) = (own, url);
        }
        graph.load(bench, &setup.ledger).await?;
        let server = bench.start_server(&setup).await?;
        let floor = if load.alone { None } else { Some(bench.start_floor().await?) };
        let mut peer = None;
        if load.beside.is_some() || load.is_on_redis(bench) && !load.alone {
            let core = bench.pinning.cores().map(|cores| cores.server);
            match feed_peer::start(load.beside.as_deref(), &setup.broker, &setup.prefix, core).await {
                Ok(started) => peer = Some(started),
                Err(error) if load.beside.is_some() => return Err(error),
                Err(error) => report.notes.push(format!("not compared with the script: {error:#}")),
            }
        }
        Ok(Self { setup, server, redis, floor, peer })
    }

    /// Measures all systems: in turn, or one after the other if their sockets do not fit into this process together.
    async fn measure(
        &self,
        bench: &BenchContext,
        load: &FeedLoad,
        graph: FeedGraph,
        report: &mut Report,
    ) -> Result<Vec<FeedResult>> {
        let systems = 1 + usize::from(self.floor.is_some()) + usize::from(self.peer.is_some());
        bench.start_progress(systems);
        if systems * graph.sockets <= MAX_SOCKETS {
            let mut sides = Vec::new();
            for system in 0..systems {
                sides.push(self.open(bench, system, graph).await?);
            }
            return compare(bench, load, sides).await;
        }
        report.notes.push("the systems were measured one after the other, not in turn".to_owned());
        let mut results = Vec::new();
        for system in 0..systems {
            let side = self.open(bench, system, graph).await?;
            results.extend(compare(bench, load, vec![side]).await?);
        }
        Ok(results)
    }

    /// Connects to a system: 0 is the server, then come the floor and the peer.
    async fn open(&self, bench: &BenchContext, system: usize, graph: FeedGraph) -> Result<FeedSide<'_>> {
        let redis = self.redis.as_ref().map(|redis| measured("redis", redis));
        if system == 0 {
            let postgres = self.setup.postgres.as_ref();
            let postgres = postgres.map(|(server, _)| MeasuredProcess {
                name: "postgres",
                process: &server.process,
                with_children: true,
            });
            let processes = std::iter::once(measured("server", &self.server)).chain(redis).chain(postgres).collect();
            return FeedSide::feedline(bench, self.server.feedline(), &self.setup.secret, graph, processes).await;
        }
        let others = self.floor.iter().map(|floor| ("floor", floor)).chain(self.peer.iter().map(|peer| ("peer", peer)));
        let Some((name, server)) = others.into_iter().nth(system - 1) else { anyhow::bail!("there is no such system") };
        let redis = redis.filter(|_| name == "peer");
        let processes = std::iter::once(measured(name, server)).chain(redis).collect();
        FeedSide::floor(bench, server.floor(), graph, processes).await
    }

    async fn stop(self, bench: &BenchContext) -> Result<()> {
        self.server.stop().await?;
        for server in self.floor.into_iter().chain(self.peer) {
            server.stop().await?;
        }
        bench.tear_down(self.setup).await?;
        match self.redis {
            Some(redis) => redis.stop().await,
            None => Ok(()),
        }
    }
}

fn measured<'a>(name: &'static str, server: &'a ServerProcess) -> MeasuredProcess<'a> {
    // A peer may start other processes.
    MeasuredProcess { name, process: &server.process, with_children: name == "peer" }
}

/// Measures some systems in turn, for each number of writers.
async fn compare(bench: &BenchContext, load: &FeedLoad, mut sides: Vec<FeedSide<'_>>) -> Result<Vec<FeedResult>> {
    let length = Duration::from_secs(bench.options.seconds);
    let mut results: Vec<FeedResult> = sides
        .iter()
        .map(|side| FeedResult {
            name: side.name,
            processes: side.processes.iter().map(|process| process.name).collect(),
            runs: vec![FeedRuns::default(); load.writers.len()],
        })
        .collect();
    bench.start_progress(load.writers.len() * bench.options.runs * sides.len());
    for (at, &writers) in load.writers.iter().enumerate() {
        for run in 0..bench.options.runs {
            for turn in 0..sides.len() {
                // The first of them changes from run to run.
                let which = (run + turn) % sides.len();
                let side = &mut sides[which];
                let runs = &mut results[which].runs[at];
                bench.bar.set_message(format!("{}: {writers} writers, run {}", side.name, run + 1));
                let top = side.measure(writers, LoadPace::FlatOut, length).await?;
                ensure!(top.deliveries > 0.0, "nothing arrived");
                if load.load > 0.0 && side.name == "server" {
                    runs.paced.push(side.measure(writers, LoadPace::Rate(load.load * top.posts), length).await?);
                }
                runs.top.push(top);
                bench.bar.inc(1);
            }
        }
    }
    Ok(results)
}
