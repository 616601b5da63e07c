//! One of the systems that the feed scenario measures: its processes, readers and writers.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::client::open_all;
use super::context::BenchContext;
use super::feed_deliveries::FeedReaders;
use super::feed_graph::FeedGraph;
use super::feed_writers::{FeedWriters, PostApi};
use super::floor::JOIN;
use super::likers::LoadPace;
use super::process::Process;
use super::seed;
use super::target::SocketTarget;

/// The time before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);

/// A process whose CPU time is reported.
#[derive(Clone, Copy)]
pub(super) struct MeasuredProcess<'a> {
    /// Its name in the report.
    pub name: &'static str,
    /// The process.
    pub process: &'a Process,
    /// Whether the processes it started count as well.
    pub with_children: bool,
}

impl MeasuredProcess<'_> {
    fn cpu(&self) -> Result<Duration> {
        if self.with_children { self.process.family_cpu() } else { self.process.cpu() }
    }
}

/// The figures of one load.
#[derive(Clone, Debug)]
pub(super) struct FeedRun {
    /// Posts and deliveries a second, until the last delivery.
    pub posts: f64,
    /// Deliveries a second.
    pub deliveries: f64,
    /// CPU time of each process, the server first, in microseconds a post.
    pub cpu: Vec<f64>,
    /// The clients' part of a core.
    pub clients: f64,
    /// From sending a post to its arrival at a socket, in milliseconds: p50, p99, p99.9.
    pub latency: [f64; 3],
}

impl FeedRun {
    /// Deliveries of a post.
    pub(super) fn fan_out(&self) -> f64 {
        self.deliveries / self.posts
    }

    /// CPU time of the server in microseconds a delivery.
    pub(super) fn cpu_a_delivery(&self) -> f64 {
        self.cpu[0] / self.fan_out()
    }
}

/// A system that is measured.
pub(super) struct FeedSide<'a> {
    /// Its name in the report.
    pub name: &'static str,
    /// Its processes: the server first.
    pub processes: Vec<MeasuredProcess<'a>>,
    readers: FeedReaders,
    writers: FeedWriters,
}

impl<'a> FeedSide<'a> {
    /// Connects all followers of a graph to a Feedline server.
    pub(super) async fn feedline(
        bench: &BenchContext,
        target: SocketTarget,
        secret: &str,
        graph: FeedGraph,
        processes: Vec<MeasuredProcess<'a>>,
    ) -> Result<Self> {
        let greetings: Vec<String> =
            (0..graph.sockets).map(|n| seed::connect(secret, &seed::user(n))).collect::<Result<_>>()?;
        let api = PostApi::Feedline { key: seed::api_key(secret) };
        Self::open(bench, "server", target, (&greetings, "\"connect\":"), (graph, api), processes).await
    }

    /// Connects all followers of a graph to the floor, or to a peer, which has the same interface.
    pub(super) async fn floor(
        bench: &BenchContext,
        target: SocketTarget,
        graph: FeedGraph,
        processes: Vec<MeasuredProcess<'a>>,
    ) -> Result<Self> {
        let greeting = |n| {
            let authors: Vec<String> = graph.followees(n).collect();
            format!("{JOIN} {}", authors.join(" "))
        };
        let greetings: Vec<String> = (0..graph.sockets).map(greeting).collect();
        let name = processes[0].name;
        Self::open(bench, name, target, (&greetings, JOIN), (graph, PostApi::Floor), processes).await
    }

    async fn open(
        bench: &BenchContext,
        name: &'static str,
        target: SocketTarget,
        (greetings, answer): (&[String], &str),
        (graph, api): (FeedGraph, PostApi),
        processes: Vec<MeasuredProcess<'a>>,
    ) -> Result<Self> {
        bench.bar.set_message(format!("{}: {} connect", name, greetings.len()));
        let sockets = open_all(target, greetings, answer, bench).await?;
        let readers = FeedReaders::new(sockets.into_iter().map(|(socket, _)| socket))?;
        let writers = FeedWriters { addr: target.addr, api, graph, next: 0.into() };
        Ok(Self { name, processes, readers, writers })
    }

    /// Measures a load of `writers` clients.
    pub(super) async fn measure(&mut self, writers: usize, pace: LoadPace, length: Duration) -> Result<FeedRun> {
        self.write(writers, pace, WARM_UP).await?;
        self.readers.log.clear_latencies();
        let cpu = |processes: &[MeasuredProcess<'_>]| {
            processes.iter().map(MeasuredProcess::cpu).collect::<Result<Vec<Duration>>>()
        };
        let before = cpu(&self.processes)?;
        let own = Process::own_cpu()?;
        let start = Instant::now();
        let arrived = self.readers.log.arrived();
        let (posts, last) = self.write(writers, pace, length).await?;
        let took = (last - start).as_secs_f64();
        let clients = (Process::own_cpu()? - own).as_secs_f64() / took;
        let after = cpu(&self.processes)?;
        let cpu = after.iter().zip(before).map(|(after, before)| after.saturating_sub(before).as_secs_f64());
        Ok(FeedRun {
            posts: posts as f64 / took,
            deliveries: (self.readers.log.arrived() - arrived) as f64 / took,
            cpu: cpu.map(|seconds| seconds * 1e6 / posts as f64).collect(),
            clients,
            latency: self.readers.log.latencies(),
        })
    }

    /// Returns the number of posts, and when the last of them had arrived everywhere.
    async fn write(&mut self, writers: usize, pace: LoadPace, length: Duration) -> Result<(u64, Instant)> {
        let log = std::sync::Arc::clone(&self.readers.log);
        let writing = async {
            let posts = self.writers.write(writers, pace, length, &log).await?;
            Ok((posts, log.settle().await?))
        };
        tokio::select! {
            written = writing => written,
            error = self.readers.failure() => Err(error),
        }
    }
}
