//! A suspension holds on every node before its answer.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chaos;
use crate::client::Client;
use crate::cluster::{Cluster, attempt, resume, until};
use crate::redis_server::RedisServer;
use crate::server::Server;

/// The sizes of a test. `make chaos` has the larger ones.
struct Size {
    /// The posts of the author. Half of them are written before their followers open their timelines.
    posts: usize,
    /// The connected followers, on all nodes together.
    connected: usize,
    /// The other followers.
    others: usize,
    /// The reads of pages after the suspension.
    reads: usize,
}

impl Size {
    fn of_test() -> Self {
        Self {
            posts: chaos::rounds(60, 500),
            connected: chaos::rounds(30, 100),
            others: chaos::rounds(970, 9_900),
            reads: chaos::rounds(200, 1_000),
        }
    }
}

async fn moderate(node: &Server, method: &str, body: &Value) {
    let (status, body) = attempt(node, "", method, "/users/ann/suspend", body).await;
    assert_eq!(status, 200, "{body}\n{}", node.log());
}

async fn suspend(node: &Server) {
    moderate(node, "PUT", &json!({ "level": "suspended" })).await;
}

/// The sockets are not read while the posts are written, and the machine may be busy.
const KEYS: [(&str, &str); 3] =
    [("client.ping_interval", "600s"), ("broker.timeout", "5s"), ("broker.probe_interval", "5s")];

fn follower(n: usize) -> String {
    format!("f{n}")
}

/// What a reader sees of the author, by several paths in turn.
async fn read(node: &Server, reader: &str, post: u64, turn: usize) -> String {
    let path = match turn % 6 {
        0 => "/timeline?limit=100".to_owned(),
        1 => "/users/ann/posts".to_owned(),
        2 => format!("/posts/{post}"),
        3 => "/posts/explore?limit=100".to_owned(),
        4 => "/topics/hers/posts".to_owned(),
        _ => "/users?q=ann".to_owned(),
    };
    let (status, body) = attempt(node, reader, "GET", &path, &Value::Null).await;
    assert!(matches!(status, 200 | 404), "{path}: {status} {body}");
    body["items"].as_array().map_or_else(|| body["author"].to_string(), |items| Value::from(items.clone()).to_string())
}

async fn a_suspended_author_leaves_all_pages_of_all_nodes(cluster: Cluster) {
    let Size { posts, connected, others, reads } = Size::of_test();
    let edges: Vec<(String, String)> = (0..connected + others).map(|n| (follower(n), "ann".to_owned())).collect();
    cluster.load(&edges).await;
    let nodes = &cluster.nodes;
    let mut last = 0;
    let write = async |many: usize| {
        let mut last = 0;
        for n in 0..many {
            let text = json!({ "text": format!("post {n} #hers") });
            let (status, body) = attempt(&nodes[n % nodes.len()], "ann", "POST", "/posts", &text).await;
            assert_eq!(status, 201, "{body}");
            last = body["id"].as_u64().expect("an id");
        }
        last
    };
    write(posts / 2).await;
    let mut clients = Vec::new();
    for n in 0..connected {
        clients.push(Client::connect(&nodes[n % nodes.len()], &follower(n)).await);
    }
    last = last.max(write(posts / 2).await);
    for (n, client) in clients.iter_mut().enumerate() {
        let channel = format!("timeline:{}", follower(n));
        while client.publication(&channel).await["data"]["post"]["id"] != last {}
    }
    let pages = async || {
        let mut pages = Vec::new();
        for turn in 0..60 {
            let reader = follower(turn * 7 % connected);
            pages.push(read(&nodes[turn % nodes.len()], &reader, last, turn).await);
        }
        pages
    };
    let before = pages().await;
    assert!(before.iter().all(|page| page.contains("ann")), "{before:?}");
    let begun = Instant::now();
    suspend(&nodes[0]).await;
    let answered = Instant::now();
    let mut slowest = Duration::ZERO;
    for turn in 0..reads {
        let reader = follower(turn * 13 % (connected + others));
        let page = read(&nodes[turn % nodes.len()], &reader, last, turn).await;
        assert!(!page.contains("ann"), "read {turn}: {page}");
        if turn == 0 {
            for (n, client) in clients.iter_mut().enumerate() {
                let gone = client.publication(&format!("timeline:{}", follower(n))).await["data"].take();
                assert_eq!(gone, json!({ "type": "gone", "author": "ann", "reason": "hidden" }));
                slowest = slowest.max(answered.elapsed());
            }
        }
    }
    eprintln!("suspended in {:?}, the last of {connected} told {slowest:?} later", answered - begun);
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    moderate(&nodes[1], "DELETE", &Value::Null).await;
    assert_eq!(pages().await, before, "as before");
}

#[tokio::test]
async fn a_suspended_author_leaves_all_pages_of_three_nodes_on_sqlite() {
    a_suspended_author_leaves_all_pages_of_all_nodes(Cluster::start_with(3, &KEYS).await).await;
}

#[tokio::test]
async fn a_suspended_author_leaves_all_pages_of_three_nodes_on_postgres() {
    let cluster = Cluster::start_on_postgres(RedisServer::start(), 3, &KEYS).await;
    a_suspended_author_leaves_all_pages_of_all_nodes(cluster).await;
}

/// A node that cannot confirm has lost its lease, and reads the ledger when it returns.
#[tokio::test]
async fn a_paused_node_knows_the_suspension_when_it_returns() {
    let cluster = Cluster::start().await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    let post = crate::cluster::post(a, "ann", "hers").await;
    for (round, reader) in ["bo", "cy", "dee"].into_iter().enumerate() {
        let seen = async || read(b, reader, post, 2).await.contains("ann");
        until("the other node shows it", seen).await;
        cluster.pause_without_lock(b).await;
        suspend(a).await;
        resume(b);
        let first: BTreeSet<bool> = futures::future::join_all((0..20).map(|_| seen())).await.into_iter().collect();
        assert_eq!(first, BTreeSet::from([false]), "round {round}");
        moderate(a, "DELETE", &Value::Null).await;
    }
}
