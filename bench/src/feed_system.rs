//! One of the systems that the feed scenario measures: its processes, readers and writers.

use std::cell::Cell;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use feedline::model::PostId;
use hyper::Method;
use tokio::task::JoinSet;

use super::client::{LoadClient, SocketTarget, failure, open_all, sign_in_all};
use super::context::BenchContext;
use super::feed_readers::DeliveryLog;
use super::floor::{JOIN, POSTS};
use super::http_load::{HttpClient, HttpLoad, LoadPace};
use super::process::{CpuMeter, ServerProcess};
use super::seed;
use super::stores::Stores;

/// The time before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);
/// The authors.
pub(super) const AUTHORS: usize = 100;
/// Authors that each follower follows: one of each group of ten.
pub(super) const FOLLOWS: usize = 10;
/// The followers are a multiple of this: then every author has as many.
pub(super) const GROUP: usize = AUTHORS / FOLLOWS;

/// The numbers of the authors that a follower follows: one of each group, another combination for each follower.
pub(super) fn followees(follower: usize) -> impl Iterator<Item = usize> {
    (0..FOLLOWS).map(move |n| n * GROUP + (follower + follower / GROUP * n) % GROUP)
}

/// What the writers of a system create.
#[derive(Clone, Debug)]
pub(super) enum FeedContent {
    /// Posts.
    Posts,
    /// Posts, and for every tenth a repost of the next one of these posts, which are not measured themselves.
    WithReposts(Vec<PostId>),
    /// Posts that name this topic.
    Topic(&'static str),
}

/// The figures of one load.
#[derive(Clone, Debug)]
pub(super) struct FeedRun {
    /// Posts a second, reposts included, until the last delivery.
    pub posts: f64,
    /// Deliveries a second.
    pub deliveries: f64,
    /// CPU time of the server, in microseconds a post.
    pub server: f64,
    /// The clients' part of a core.
    pub clients: f64,
    /// From sending a post to its arrival at a socket, in milliseconds: p50, p99, p99.9.
    pub latency: [f64; 3],
}

impl FeedRun {
    /// CPU time of the server, in microseconds a delivery.
    pub(super) fn cpu_per_delivery(&self) -> f64 {
        self.server * self.posts / self.deliveries
    }
}

/// A system that is measured.
pub(super) struct FeedSystem {
    /// Its name in the report.
    pub name: &'static str,
    addr: SocketAddr,
    /// The key of Feedline's API; empty for the floor and its like.
    key: String,
    /// The process whose CPU time counts.
    pid: u32,
    /// The numbers of the authors, and how many of the readers see the posts of each.
    authors: Range<usize>,
    followers: usize,
    content: FeedContent,
    log: Arc<DeliveryLog>,
    readers: JoinSet<Result<()>>,
    /// The clients of the writers so far.
    writers: Vec<HttpClient>,
    /// The number of the next post.
    next: Cell<u64>,
}

impl FeedSystem {
    /// Connects the followers to a Feedline server.
    pub(super) async fn feedline(
        bench: &BenchContext,
        server: &ServerProcess,
        stores: &Stores,
        followers: usize,
    ) -> Result<Self> {
        Self::group(bench, server, stores, 0..followers, 0..AUTHORS, FeedContent::Posts).await
    }

    /// Connects some users to a Feedline server, who see the posts of some authors; every author has as many of them.
    pub(super) async fn group(
        bench: &BenchContext,
        server: &ServerProcess,
        stores: &Stores,
        users: Range<usize>,
        authors: Range<usize>,
        content: FeedContent,
    ) -> Result<Self> {
        let target = SocketTarget::feedline(server.addr);
        let sockets = sign_in_all(bench, target, &stores.secret, users).await?;
        let followers = sockets.len() * FOLLOWS.min(authors.len()) / authors.len();
        Self::new("server", server, seed::api_key(&stores.secret), sockets, authors, followers, content)
    }

    /// Connects the followers to the floor, or to a peer, which has the same interface.
    pub(super) async fn floor(
        bench: &BenchContext,
        name: &'static str,
        server: &ServerProcess,
        followers: usize,
    ) -> Result<Self> {
        let greeting = |n| format!("{JOIN} {}", followees(n).map(seed::author).collect::<Vec<_>>().join(" "));
        let greetings: Vec<String> = (0..followers).map(greeting).collect();
        let target = SocketTarget::floor(server.addr);
        let sockets = open_all(bench, target, &greetings, JOIN.as_bytes()).await?;
        let each = followers / GROUP;
        Self::new(name, server, String::new(), sockets, 0..AUTHORS, each, FeedContent::Posts)
    }

    /// The same with another name in the report.
    pub(super) fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    fn new(
        name: &'static str,
        server: &ServerProcess,
        key: String,
        sockets: Vec<(LoadClient, String)>,
        authors: Range<usize>,
        followers: usize,
        content: FeedContent,
    ) -> Result<Self> {
        let ServerProcess { addr, pid, .. } = *server;
        let log = Arc::new(DeliveryLog::new()?);
        let readers = sockets.into_iter().map(|(socket, _)| Arc::clone(&log).read(socket)).collect();
        let (writers, next) = (Vec::new(), Cell::new(0));
        Ok(Self { name, addr, key, pid, authors, followers, content, log, readers, writers, next })
    }

    /// Measures a load of `writers` clients.
    pub(super) async fn measure(&mut self, writers: usize, pace: LoadPace, length: Duration) -> Result<FeedRun> {
        self.write(writers, pace, WARM_UP).await?;
        self.log.clear_latencies();
        let meter = CpuMeter::start(self.pid)?;
        let start = Instant::now();
        let arrived = self.log.arrived();
        let (posts, last) = self.write(writers, pace, length).await?;
        let took = (last - start).as_secs_f64();
        let cpu = meter.read()?;
        Ok(FeedRun {
            posts: posts as f64 / took,
            deliveries: (self.log.arrived() - arrived) as f64 / took,
            server: cpu.server * 1e6 / posts as f64,
            clients: cpu.clients / took,
            latency: self.log.latencies(),
        })
    }

    /// Creates posts. Returns their number, and when the last of them had arrived everywhere.
    async fn write(&mut self, writers: usize, pace: LoadPace, length: Duration) -> Result<(u64, Instant)> {
        let Self { addr, key, authors, followers, log, readers, writers: clients, next, .. } = self;
        let content = &self.content;
        clients.resize_with(clients.len().max(writers), || HttpClient::open(*addr));
        let post = async |client: &HttpClient, _, due| {
            let n = next.replace(next.get() + 1);
            // Spread evenly, the same in each run.
            let place = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % authors.len();
            let author = seed::author(authors.start + place);
            if let FeedContent::WithReposts(originals) = content
                && n % 10 == 9
            {
                let path = format!("/api/v1/posts/{}/repost", originals[n as usize / 10 % originals.len()]);
                return client.ask(Method::PUT, &path, key, &author, Bytes::new()).await.map(drop);
            }
            let mut text = log.text(due, *followers);
            if let FeedContent::Topic(topic) = content {
                text.insert_str(1, &format!("#{topic} "));
            }
            match key.as_str() {
                "" => client.post(&format!("{POSTS}{author}"), "", "", text.into()).await.map(drop),
                key => {
                    client.post("/api/v1/posts", key, &author, format!("{{\"text\":{text}}}").into()).await.map(drop)
                }
            }
        };
        let writing = async {
            let load = HttpLoad { pace, length, count: usize::MAX, is_exact: false };
            let posts = load.run(&clients[..writers], post).await?.len();
            Ok((posts, log.settle().await?))
        };
        tokio::select! {
            written = writing => written,
            error = failure(readers) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn every_author_has_as_many_followers() {
        for sockets in [10, 1_000, 10_000] {
            let mut count = HashMap::<usize, usize>::new();
            for n in 0..sockets {
                let followees: HashSet<usize> = followees(n).collect();
                assert_eq!(followees.len(), FOLLOWS, "a follower of {sockets} follows an author twice");
                for author in followees {
                    *count.entry(author).or_default() += 1;
                }
            }
            assert_eq!(count.len(), AUTHORS);
            assert!(count.values().all(|number| *number == sockets / GROUP), "{sockets} sockets: {count:?}");
        }
    }
}
