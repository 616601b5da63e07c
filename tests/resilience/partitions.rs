//! The partitions of fan-out change hands while nodes are killed, paused and restarted. Nothing is lost, repeated or
//! reordered, and nobody waits for long.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use feedline::ledger::{FANOUT_PARTITIONS, fanout_partition};
use feedline::model::UserId;
use futures::future::join_all;
use futures::stream::{self, StreamExt};
use parking_lot::Mutex;
use serde_json::json;
use tokio_postgres::NoTls;

use crate::api::attempt_named;
use crate::backlog::{AUTHORS as BACKLOG_AUTHORS, author, posts, reader, written};
use crate::chaos;
use crate::client::Client;
use crate::cluster::{Cluster, LEASE, pause, position, post, resume, until};
use crate::random::SeededRandom;
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server};

const NODES: usize = 3;
const AUTHORS: usize = 9;

/// Several pages of followers, so that disruptions interrupt jobs.
const READERS: usize = 24;
const KEYS: [(&str, &str); 2] = [("timeline.length", "100000"), ("fanout.page", "8")];

/// With a lease that is longer than any delay that a test allows.
const KEYS_WITH_LONG_LEASE: [(&str, &str); 3] = [KEYS[0], KEYS[1], ("fanout.lease", "5s")];

async fn on_sqlite(keys: &[(&str, &str)]) -> Cluster {
    Cluster::start_with(NODES, keys).await
}

async fn on_postgres(keys: &[(&str, &str)]) -> Cluster {
    Cluster::start_on_postgres(RedisServer::start(), NODES, keys).await
}

/// Every reader follows every author, and has an inbox.
async fn everybody_follows(cluster: &Cluster) {
    let edges: Vec<_> = (0..READERS).flat_map(|n| (0..AUTHORS).map(move |m| (reader(n), author(m)))).collect();
    cluster.load(&edges).await;
    for n in 0..READERS {
        position(&cluster.nodes[0], &reader(n)).await;
    }
}

fn ports(cluster: &Cluster) -> Vec<u16> {
    cluster.nodes.iter().map(Server::port).collect()
}

/// A post, and when its write was acknowledged.
struct Acknowledged {
    id: u64,
    at: Instant,
}

/// Creates a post at one node after the other, until one acknowledges it. The key makes it one post.
async fn post_somewhere(ports: &[u16], first: usize, author: &str, key: &str) -> Acknowledged {
    let (begun, mut node) = (Instant::now(), first);
    loop {
        let (port, text) = (ports[node % ports.len()], json!({ "text": key }));
        let attempt = attempt_named(port, author, Some(key), "POST", "/posts", &text);
        match tokio::time::timeout(LEASE, attempt).await {
            Ok((201, body)) => return Acknowledged { id: body["id"].as_u64().expect("an id"), at: Instant::now() },
            // The node is down, stops or is paused, or another one still has the request.
            Ok((0 | 409 | 503, _)) | Err(_) => node += 1,
            Ok((status, body)) => panic!("{key}: {status} {body}"),
        }
        assert!(begun.elapsed() < PATIENCE, "{key} is never acknowledged");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Every author writes one post after the other until the end: every other author at the nodes in turn, the rest at one
/// node while it is there. Returns the posts of each author, in the order of their acknowledgements.
async fn write_until(over: &AtomicBool, ports: &[u16], seed: u64) -> Vec<Vec<Acknowledged>> {
    let write = async |n: usize| {
        let (mut random, mut acknowledged) = (SeededRandom::new(seed.wrapping_add(n as u64)), Vec::new());
        while !over.load(Ordering::Relaxed) {
            let count = acknowledged.len();
            let first = if n.is_multiple_of(2) { n + count } else { n };
            acknowledged.push(post_somewhere(ports, first, &author(n), &format!("{n}-{count}-{seed}")).await);
            tokio::time::sleep(Duration::from_millis(random.below(160) as u64)).await;
        }
        acknowledged
    };
    join_all((0..AUTHORS).map(write)).await
}

/// Checks that every inbox has each author's posts once, in order; that nothing was set aside; and that the nodes own
/// about a third of the partitions each.
async fn everything_is_right(cluster: &Cluster, acknowledged: &[Vec<Acknowledged>], seed: u64) {
    cluster.carried(PATIENCE).await;
    assert_eq!(cluster.quarantined().await, [""; 0], "seed {seed}");
    let ids = |posts: &Vec<Acknowledged>| posts.iter().map(|post| post.id).collect::<Vec<u64>>();
    let expected: Vec<Vec<u64>> = acknowledged.iter().map(ids).collect();
    let authors: HashMap<u64, usize> =
        expected.iter().enumerate().flat_map(|(n, ids)| ids.iter().map(move |id| (*id, n))).collect();
    for reader in (0..READERS).map(reader) {
        let mut inbox: Vec<Vec<u64>> = vec![Vec::new(); AUTHORS];
        for id in written(cluster, &reader) {
            inbox[*authors.get(&id).unwrap_or_else(|| panic!("seed {seed}: nobody wrote {id}"))].push(id);
        }
        for (n, (inbox, expected)) in inbox.iter().zip(&expected).enumerate() {
            let first = inbox.iter().zip(expected).position(|(one, other)| one != other);
            assert!(
                inbox == expected,
                "seed {seed}: {reader} has {} entries of {}'s {} posts; the first difference is at {first:?}",
                inbox.len(),
                author(n),
                expected.len()
            );
        }
    }
    let mut shares = BTreeMap::new();
    until("each node owns about a third of the partitions", async || {
        shares = cluster.shares().await;
        let fair = |share: &u16| (FANOUT_PARTITIONS / 3 - 1..=FANOUT_PARTITIONS / 3 + 1).contains(share);
        shares.len() == NODES && shares.values().all(fair) && shares.values().sum::<u16>() == FANOUT_PARTITIONS
    })
    .await;
}

/// Disrupts the nodes in turn, each in all ways.
async fn disrupt(nodes: &mut [Server], round: usize, random: &mut SeededRandom) {
    let node = &mut nodes[round % NODES];
    let pause_millis = random.below(900) as u64;
    match (round + round / NODES) % 3 {
        0 => {
            node.kill();
            tokio::time::sleep(Duration::from_millis(pause_millis)).await;
            node.start_again().await;
        }
        1 => {
            pause(node);
            tokio::time::sleep(LEASE + Duration::from_millis(200 + pause_millis)).await;
            resume(node);
        }
        _ => {
            assert!(node.stop().await.success(), "{}", node.log());
            node.start_again().await;
        }
    }
    tokio::time::sleep(Duration::from_millis(100 + random.below(700) as u64)).await;
}

async fn disrupted_nodes_lose_repeat_and_reorder_nothing(mut cluster: Cluster) {
    let seed = SeededRandom::seed();
    everybody_follows(&cluster).await;
    let (ports, over) = (ports(&cluster), AtomicBool::new(false));
    let disruptions = async {
        let mut random = SeededRandom::new(seed);
        for round in 0..SeededRandom::rounds(chaos::rounds(6, 45)) {
            disrupt(&mut cluster.nodes, round, &mut random).await;
        }
        over.store(true, Ordering::Relaxed);
    };
    let (acknowledged, ()) = tokio::join!(write_until(&over, &ports, seed), disruptions);
    eprintln!("seed {seed}: {} posts", acknowledged.iter().map(Vec::len).sum::<usize>());
    everything_is_right(&cluster, &acknowledged, seed).await;
}

/// The longest time from the reply to a post until its delivery, while nodes are restarted.
const LATEST_DELIVERY: Duration = Duration::from_secs(2);

/// Receives a reader's posts from now on. Returns when each one arrived, as it grows.
async fn arrivals(node: &Server, reader: &str) -> (Arc<Mutex<HashMap<u64, Instant>>>, tokio::task::JoinHandle<()>) {
    let (mut client, arrived) = (Client::connect(node, reader).await, Arc::<Mutex<HashMap<_, _>>>::default());
    let (channel, seen) = (format!("timeline:{reader}"), Arc::clone(&arrived));
    let receive = async move {
        loop {
            let publication = client.publication(&channel).await;
            if let Some(id) = publication["data"]["post"]["id"].as_u64() {
                seen.lock().insert(id, Instant::now());
            }
        }
    };
    (arrived, tokio::spawn(receive))
}

async fn rolling_restarts_delay_no_post(mut cluster: Cluster) {
    let seed = SeededRandom::seed();
    everybody_follows(&cluster).await;
    let (ports, mut all) = (ports(&cluster), Vec::new());
    all.resize_with(AUTHORS, Vec::new);
    for round in 0..chaos::rounds(NODES, 5 * NODES) {
        let (arrived, receiver) = arrivals(&cluster.nodes[(round + 1) % NODES], &reader(0)).await;
        let over = AtomicBool::new(false);
        let restart = async {
            let node = &mut cluster.nodes[round % NODES];
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert!(node.stop().await.success(), "{}", node.log());
            node.start_again().await;
            // The new process gets its share from the others.
            tokio::time::sleep(Duration::from_secs(2)).await;
            over.store(true, Ordering::Relaxed);
        };
        let (acknowledged, ()) = tokio::join!(write_until(&over, &ports, seed.wrapping_add(round as u64)), restart);
        let written: Vec<&Acknowledged> = acknowledged.iter().flatten().collect();
        until("all posts arrive", async || {
            let arrived = arrived.lock();
            written.iter().all(|post| arrived.contains_key(&post.id))
        })
        .await;
        receiver.abort();
        let arrived = arrived.lock().clone();
        let latest = written.iter().map(|post| arrived[&post.id].saturating_duration_since(post.at)).max();
        let latest = latest.expect("posts");
        eprintln!("round {round}: {} posts, the latest delivery after {latest:?}", written.len());
        assert!(latest < LATEST_DELIVERY, "seed {seed}, round {round}: a post was delivered after {latest:?}");
        all.iter_mut().zip(acknowledged).for_each(|(all, acknowledged): (&mut Vec<_>, _)| all.extend(acknowledged));
    }
    everything_is_right(&cluster, &all, seed).await;
}

/// The time from the request to the delivery of some posts of an author, sorted.
async fn latencies(node: &Server, author: &str, reader: &str) -> Vec<Duration> {
    let (mut client, channel) = (Client::connect(node, reader).await, format!("timeline:{reader}"));
    let mut latencies = Vec::new();
    for n in 0..40 {
        let begun = Instant::now();
        let id = post(node, author, &format!("{n}")).await;
        while client.publication(&channel).await["data"]["post"]["id"] != id {}
        latencies.push(begun.elapsed());
    }
    latencies.sort_unstable();
    latencies
}

/// Pages that all statements read from a table and its indexes.
async fn pages_read(ledger: &tokio_postgres::Client, table: &str) -> i64 {
    let sql = "SELECT (heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::bigint \
               FROM pg_statio_user_tables WHERE relname = $1";
    ledger.query_one(sql, &[&table]).await.expect("statistics").get(0)
}

/// Pages of the table of jobs that idle nodes read in ten seconds, to load jobs and to measure the backlog.
async fn pages_read_by_idle_nodes(ledger: &tokio_postgres::Client) -> i64 {
    // PostgreSQL publishes the statistics of a connection about a second later.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = pages_read(ledger, "jobs").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    pages_read(ledger, "jobs").await - before
}

/// Waits until the nodes have raised the floors of all partitions to about the last job.
async fn floors_are_raised(ledger: &tokio_postgres::Client) {
    let begun = Instant::now();
    let sql = "SELECT min(floor), (SELECT last_value FROM pg_sequences WHERE sequencename LIKE 'jobs_id%') \
               FROM work_partitions WHERE name LIKE 'fanout/%'";
    loop {
        let row = ledger.query_one(sql, &[]).await.expect("floors");
        let (floor, last): (i64, i64) = (row.get(0), row.get(1));
        if floor > last * 98 / 100 {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "the floor is {floor}, the last job was {last}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// A dump, for example. Rows that were removed since it began cannot be vacuumed. Floors rise a minute later, so only
/// the long form waits for them.
#[tokio::test]
async fn an_old_snapshot_does_not_slow_down_work() {
    let cluster = on_postgres(&KEYS_WITH_LONG_LEASE).await;
    everybody_follows(&cluster).await;
    let connect = async || {
        let (client, connection) = tokio_postgres::connect(cluster.ledger_url(), NoTls).await.expect("to connect");
        tokio::spawn(connection);
        client
    };
    let (ledger, dump) = (connect().await, connect().await);
    let measure = async || {
        let pages = if chaos::is_asked_for() { pages_read_by_idle_nodes(&ledger).await } else { 0 };
        (latencies(&cluster.nodes[0], &author(0), &reader(0)).await, pages)
    };
    latencies(&cluster.nodes[0], &author(0), &reader(0)).await;
    let (usual, usual_pages) = measure().await;
    dump.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jobs").await.expect("a snapshot");
    let (ports, each) = (ports(&cluster), chaos::rounds(450, 3_000) / AUTHORS);
    join_all((0..AUTHORS).map(async |n| {
        for count in 0..each {
            post_somewhere(&ports, n + count, &author(n), &format!("{n}-{count}")).await;
        }
    }))
    .await;
    cluster.carried(PATIENCE).await;
    if chaos::is_asked_for() {
        floors_are_raised(&ledger).await;
    }
    let (late, pages) = measure().await;
    dump.batch_execute("ROLLBACK").await.expect("to end");
    let (usual, late) = (usual[usual.len() / 2], late[late.len() / 2]);
    eprintln!("median latency {usual:?}, then {late:?}; pages {usual_pages}, then {pages}");
    // The machine may be busy with other tests for a while.
    assert!(late < 3 * usual.max(Duration::from_millis(20)), "{late:?} behind an old snapshot, {usual:?} before");
    assert!(pages <= 3 * usual_pages, "{pages} pages behind an old snapshot, {usual_pages} before");
}

/// The longest time from the request until the delivery of a post, behind another author's burst.
const LATEST_BEHIND_A_BURST: Duration = Duration::from_secs(1);

/// Another user whose jobs are in the same partition.
fn neighbour(user: &str) -> String {
    let partition = |user: &str| fanout_partition(&UserId::parse(user).expect("an id"));
    let names = (0..).map(|n| format!("neighbour{n}"));
    names.into_iter().find(|name| partition(name) == partition(user)).expect("one of very many")
}

async fn bursts_do_not_delay_others_of_the_partition(cluster: Cluster) {
    const FANS: usize = 400;
    const BURST: usize = 500;
    let (busy, small) = (author(0), neighbour(&author(0)));
    let mut edges: Vec<_> = (0..FANS).map(|n| (format!("f{n:03}"), busy.clone())).collect();
    edges.push(("fan".to_owned(), small.clone()));
    cluster.load(&edges).await;
    stream::iter(&edges).for_each_concurrent(8, async |(fan, _)| _ = position(&cluster.nodes[0], fan).await).await;
    let mut fan = Client::connect(&cluster.nodes[0], "fan").await;
    post(&cluster.nodes[0], &small, "before").await;
    fan.publication("timeline:fan").await;
    // The table has them in the order of the posts.
    let burst: Vec<_> = posts(BURST * BACKLOG_AUTHORS).into_iter().step_by(BACKLOG_AUTHORS).collect();
    cluster.write_unclaimed(&burst, 1).await;
    until("the owner has found the burst", async || cluster.backlog().await < BURST as u64).await;
    let (mut waited, mut left) = (Vec::new(), u64::MAX);
    for round in 0..3 * NODES {
        // The owner of the partition, and nodes that have to wake it.
        let node = &cluster.nodes[round % NODES];
        let begun = Instant::now();
        let id = post(node, &small, &format!("{round}")).await;
        while fan.publication("timeline:fan").await["data"]["post"]["id"] != id {}
        waited.push(begun.elapsed());
        left = cluster.backlog().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    eprintln!("behind {left} jobs: {waited:?}");
    assert!(left > 0, "the burst ended before the last post: {waited:?}");
    let slowest = waited.iter().max().expect("some posts");
    assert!(*slowest < LATEST_BEHIND_A_BURST, "behind {left} jobs: {waited:?}");
}

mod sqlite {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn disrupted_nodes_lose_repeat_and_reorder_nothing() {
        super::disrupted_nodes_lose_repeat_and_reorder_nothing(on_sqlite(&KEYS).await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn rolling_restarts_delay_no_post() {
        super::rolling_restarts_delay_no_post(on_sqlite(&KEYS_WITH_LONG_LEASE).await).await;
    }

    #[tokio::test]
    async fn bursts_do_not_delay_others_of_the_partition() {
        super::bursts_do_not_delay_others_of_the_partition(on_sqlite(&[]).await).await;
    }
}

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn disrupted_nodes_lose_repeat_and_reorder_nothing() {
        super::disrupted_nodes_lose_repeat_and_reorder_nothing(on_postgres(&KEYS).await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn rolling_restarts_delay_no_post() {
        super::rolling_restarts_delay_no_post(on_postgres(&KEYS_WITH_LONG_LEASE).await).await;
    }

    #[tokio::test]
    async fn bursts_do_not_delay_others_of_the_partition() {
        super::bursts_do_not_delay_others_of_the_partition(on_postgres(&[]).await).await;
    }
}
