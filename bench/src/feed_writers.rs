//! Sequential HTTP clients that create posts.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;

use super::feed_deliveries::{self, DeliveryLog};
use super::feed_graph::FeedGraph;
use super::floor_http::POSTS;
use super::http_client::HttpClient;
use super::likers::LoadPace;

/// The interface that posts are sent to.
#[derive(Clone, Debug)]
pub(super) enum PostApi {
    /// Feedline's, called by a backend with this API key.
    Feedline { key: String },
    /// The floor's; a peer has the same.
    Floor,
}

/// The clients and what they send.
#[derive(Debug)]
pub(super) struct FeedWriters {
    /// The address of the server.
    pub addr: SocketAddr,
    /// Its interface.
    pub api: PostApi,
    /// The followers of each author.
    pub graph: FeedGraph,
    /// The number of the next post.
    pub next: Cell<u64>,
}

impl FeedWriters {
    /// `writers` clients create posts for `length`, each one request at a time. Returns the number of posts.
    pub(super) async fn write(
        &self,
        writers: usize,
        pace: LoadPace,
        length: Duration,
        log: &DeliveryLog,
    ) -> Result<u64> {
        let mut clients = Vec::new();
        for _ in 0..writers {
            clients.push(HttpClient::open(self.addr).await?);
        }
        let first = self.next.get();
        let start = Instant::now();
        let begin = (start, first);
        let end = start + length;
        try_join_all(clients.iter_mut().map(|client| self.write_with(client, pace, begin, end, log))).await?;
        Ok(self.next.get() - first)
    }

    /// One client: posts that are due before `end`.
    async fn write_with(
        &self,
        client: &mut HttpClient,
        pace: LoadPace,
        (start, first): (Instant, u64),
        end: Instant,
        log: &DeliveryLog,
    ) -> Result<()> {
        loop {
            let n = self.next.get();
            let mut due = match pace {
                LoadPace::FlatOut => Instant::now(),
                LoadPace::Rate(rate) => start + Duration::from_secs_f64((n - first) as f64 / rate),
            };
            if due >= end {
                return Ok(());
            }
            self.next.set(n + 1);
            if due > Instant::now() {
                tokio::time::sleep_until(due.into()).await;
                // The timer is late by up to a millisecond. A writer that is late counts from when the post was due.
                due = Instant::now();
            }
            log.sending(n, due, self.graph.followers);
            self.post(client, n).await?;
        }
    }

    /// Creates the post number `n`.
    async fn post(&self, client: &mut HttpClient, n: u64) -> Result<()> {
        let author = FeedGraph::author(spread(n) as usize % self.graph.authors);
        let text = feed_deliveries::text(n);
        match &self.api {
            PostApi::Feedline { key } => {
                let body = format!("{{\"text\":{text}}}");
                client.post("/api/v1/posts", key, &author, body.into()).await?;
            }
            PostApi::Floor => {
                client.post(&format!("{POSTS}{author}"), "", "", text.into()).await?;
            }
        }
        Ok(())
    }
}

/// A number that is spread evenly, the same in each run.
fn spread(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}
