//! A fan-out delivers to connected users first.

use std::collections::BTreeSet;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::client::Client;
use crate::cluster::{Cluster, done, post};
use crate::random::SeededRandom;
use crate::server::PATIENCE;

fn follower(n: usize) -> String {
    format!("f{n:05}")
}

async fn load(cluster: &Cluster, followers: usize) -> Vec<String> {
    let users: Vec<String> = (0..followers).map(follower).collect();
    let edges: Vec<_> = users.iter().map(|user| (user.clone(), "ann".to_owned())).collect();
    cluster.load(&edges).await;
    users
}

/// A Redis `MONITOR` connection.
struct Monitor(BufReader<TcpStream>);

impl Monitor {
    async fn start(cluster: &Cluster) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", cluster.redis.port())).await.expect("redis");
        stream.write_all(b"MONITOR\r\n").await.expect("to ask");
        let mut monitor = Self(BufReader::new(stream));
        assert_eq!(monitor.line().await, "+OK");
        monitor
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        tokio::time::timeout(PATIENCE, self.0.read_line(&mut line)).await.expect("a line in time").expect("a line");
        line.trim_end().to_owned()
    }

    /// The users whose inboxes a fan-out wrote so far, in order.
    async fn visits(mut self, cluster: &Cluster) -> Vec<String> {
        cluster.carried(PATIENCE).await;
        cluster.redis.ask("ECHO all-of-it");
        let mut visits = Vec::new();
        loop {
            let line = self.line().await;
            if line.contains("all-of-it") {
                return visits;
            }
            if line.contains("lua] \"HMGET\"") && line.ends_with("\"h\" \"c\"") {
                let inbox = line.split_once("{timeline:").and_then(|(_, rest)| rest.split_once('}'));
                visits.extend(inbox.map(|(user, _)| user.to_owned()));
            }
        }
    }
}

/// Checks that each inbox was written once, those of the author and of connected users before all others.
fn connected_first(visits: &[String], users: &[String], connected: &BTreeSet<&str>) {
    let mut everybody: Vec<&str> = users.iter().map(String::as_str).chain(["ann"]).collect();
    everybody.sort_unstable();
    let mut visited: Vec<&str> = visits.iter().map(String::as_str).collect();
    // Pages are written over several connections, so the order within one batch is arbitrary.
    let early: BTreeSet<&str> = visited[..=connected.len()].iter().copied().collect();
    assert_eq!(early, connected.iter().copied().chain(["ann"]).collect());
    visited.sort_unstable();
    assert!(visited == everybody, "not everybody once: {} visits, {} people", visited.len(), everybody.len());
}

#[tokio::test]
async fn connected_followers_are_served_first() {
    let mut random = SeededRandom::new(SeededRandom::seed());
    let cluster = Cluster::start_with(2, &[("fanout.page", "8")]).await;
    let users = load(&cluster, 60).await;
    let connected: BTreeSet<&str> = (0..20).map(|_| random.pick(&users).as_str()).collect();
    let mut clients = Vec::new();
    for user in &connected {
        clients.push((*user, Client::connect(&cluster.nodes[random.below(2)], user).await));
    }
    let monitor = Monitor::start(&cluster).await;
    let id = post(&cluster.nodes[0], "ann", "who is there").await;
    connected_first(&monitor.visits(&cluster).await, &users, &connected);
    for (user, client) in &mut clients {
        assert_eq!(client.publication(&format!("timeline:{user}")).await["data"]["post"]["id"], id);
    }
    // The deletion also reaches connected users first.
    let monitor = Monitor::start(&cluster).await;
    done(&cluster.nodes[1], "ann", "DELETE", &format!("/posts/{id}")).await;
    connected_first(&monitor.visits(&cluster).await, &users, &connected);
    for (user, client) in &mut clients {
        let received = client.publication(&format!("timeline:{user}")).await;
        assert_eq!((&received["data"]["type"], &received["data"]["id"]), (&"gone".into(), &Value::from(id)));
    }
}

#[tokio::test]
async fn followers_past_the_memory_bound_are_served_once() {
    let cluster = Cluster::start_with(1, &[("fanout.push_limit", "100000")]).await;
    let users = load(&cluster, 23_000).await;
    let connected: BTreeSet<&str> = [0, 1, 9_000, 19_999, 20_000, 21_500, 22_999].map(|n| users[n].as_str()).into();
    let mut clients = Vec::new();
    for user in &connected {
        clients.push(Client::connect(&cluster.nodes[0], user).await);
    }
    let monitor = Monitor::start(&cluster).await;
    post(&cluster.nodes[0], "ann", "to everybody").await;
    connected_first(&monitor.visits(&cluster).await, &users, &connected);
}
