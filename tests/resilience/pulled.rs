//! Failures with pull fan-out, for authors with more followers than the push limit.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, Heard};
use crate::cluster::{Cluster, attempt, done, log_since, position, post, until};
use crate::random::SeededRandom;
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server};

const FOLLOWERS: usize = 60;

fn follower(n: usize) -> String {
    format!("f{n:03}")
}

/// The follower count above which posts are pulled, and the page size of a fan-out.
const KEYS: [(&str, &str); 2] = [("fanout.push_limit", "10"), ("fanout.page", "8")];

/// Starts two nodes that share a Redis and a SQLite file; the user `star` has many followers.
async fn on_sqlite() -> Cluster {
    let redis = RedisServer::start_appending();
    let url = redis.url();
    star(Cluster::start_on(redis, &url, 2, &KEYS).await).await
}

/// Like [`on_sqlite`], with PostgreSQL.
async fn on_postgres() -> Cluster {
    star(Cluster::start_on_postgres(RedisServer::start_appending(), 2, &KEYS).await).await
}

async fn star(cluster: Cluster) -> Cluster {
    let edges: Vec<_> = (0..FOLLOWERS).map(|n| (follower(n), "star".to_owned())).collect();
    cluster.load(&edges).await;
    cluster
}

/// Defines a test of each case for each ledger.
macro_rules! on_both_ledgers {
    ($($case:ident)*) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $case() {
                super::$case(super::on_sqlite().await).await;
            })*
        }
        mod on_postgres {
            $(#[tokio::test]
            async fn $case() {
                super::$case(super::on_postgres().await).await;
            })*
        }
    };
}

on_both_ledgers! {
    users_connected_to_two_nodes_get_posts_once
    lost_signals_delay_delivery_only
    nodes_killed_while_appending_lose_nothing
    empty_or_stale_redis_loses_nothing
    check_writes_hold_at_the_other_node
}

/// The next `many` posts pushed on a user's timeline.
async fn received(client: &mut Client, user: &str, many: usize) -> Vec<u64> {
    let mut received = Vec::new();
    for _ in 0..many {
        let publication = client.publication(&format!("timeline:{user}")).await;
        assert_eq!(publication["data"]["type"], "post", "{publication}");
        received.push(publication["data"]["post"]["id"].as_u64().expect("an id"));
    }
    received
}

/// The posts in a user's log since a position, in order.
async fn logged(node: &Server, user: &str, since: &Value) -> Vec<u64> {
    log_since(node, user, since).await.into_iter().map(|(_, _, post)| post).collect()
}

async fn users_connected_to_two_nodes_get_posts_once(cluster: Cluster) {
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    let mut clients = Vec::new();
    let mut since = Vec::new();
    for n in 0..20 {
        let user = follower(n);
        since.push(position(a, &user).await);
        // Users are connected to one of the nodes, or to both.
        for node in [a, b].iter().enumerate().filter(|(at, _)| n % 3 != *at).map(|(_, node)| node) {
            clients.push((user.clone(), Client::connect(node, &user).await));
        }
    }
    let mut posts = Vec::new();
    for n in 0..10 {
        posts.push(post([a, b][n % 2], "star", "hello").await);
    }
    for (user, client) in &mut clients {
        let mut received = received(client, user, posts.len()).await;
        received.sort_unstable();
        assert_eq!(received, posts, "{user}");
    }
    cluster.carried(PATIENCE).await;
    for (n, since) in since.iter().enumerate() {
        let mut log = logged([b, a][n % 2], &follower(n), since).await;
        log.sort_unstable();
        assert_eq!(log, posts, "{n}");
    }
    for (user, client) in &mut clients {
        assert!(client.pushed().await.is_empty(), "{user}");
    }
}

async fn lost_signals_delay_delivery_only(cluster: Cluster) {
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    let mut at_b = Client::connect(b, &follower(1)).await;
    let since = position(a, &follower(2)).await;
    let mut posts = Vec::new();
    for n in 0..12 {
        // Also before the last post, after which no further notification is sent.
        if n % 3 == 2 {
            assert!(cluster.redis.ask("CLIENT KILL TYPE pubsub").starts_with(':'));
        }
        posts.push(post(a, "star", "hello").await);
    }
    assert_eq!(received(&mut at_b, &follower(1), posts.len()).await, posts);
    cluster.carried(PATIENCE).await;
    // A user without a connection also finds the posts at a node that missed the notifications.
    until("the other node knows all", async || logged(b, &follower(2), &since).await.len() >= posts.len()).await;
    assert_eq!(logged(b, &follower(2), &since).await, posts);
}

async fn nodes_killed_while_appending_lose_nothing(mut cluster: Cluster) {
    let mut random = SeededRandom::new(SeededRandom::seed());
    let users: Vec<String> = (0..FOLLOWERS).map(follower).collect();
    for round in 0..SeededRandom::rounds(4) {
        let (dying, other) = (round % 2, 1 - round % 2);
        let mut since = Vec::new();
        let mut clients = Vec::new();
        for user in &users {
            since.push(position(&cluster.nodes[other], user).await);
            clients.push(Client::connect(&cluster.nodes[random.below(2)], user).await);
        }
        let mut posts = Vec::new();
        for _ in 0..3 {
            posts.push(post(&cluster.nodes[dying], "star", "is it there").await);
        }
        tokio::time::sleep(Duration::from_micros(random.below(30_000) as u64)).await;
        cluster.nodes[dying].kill();
        cluster.carried(PATIENCE).await;
        for (user, since) in users.iter().zip(&since) {
            let complete = async || logged(&cluster.nodes[other], user, since).await.len() >= posts.len();
            until("the inbox has all", complete).await;
            assert_eq!(logged(&cluster.nodes[other], user, since).await, posts, "{user}");
        }
        drop(clients);
        cluster.nodes[dying].start_again().await;
    }
}

async fn empty_or_stale_redis_loses_nothing(mut cluster: Cluster) {
    let mut posts = BTreeSet::new();
    for keeps in [true, false] {
        position(&cluster.nodes[0], &follower(1)).await;
        posts.extend(is_pushed_live(&cluster.nodes[1], &cluster.nodes[0]).await);
        cluster.redis.kill();
        posts.insert(post(&cluster.nodes[0], "star", "meanwhile").await);
        if !keeps {
            cluster.redis.forget();
        }
        cluster.redis.start_again();
        for node in &cluster.nodes {
            node.ready().await;
        }
        posts.insert(post(&cluster.nodes[1], "star", "after").await);
        cluster.carried(PATIENCE).await;
        for n in 0..3 {
            for node in &cluster.nodes {
                until("the timeline has all, once", async || {
                    let page = done(node, &follower(n), "GET", "/timeline?limit=50").await;
                    let items = page["items"].as_array().expect("items");
                    let seen: Vec<u64> = items.iter().filter_map(|item| item["id"].as_u64()).collect();
                    assert!(seen.len() <= posts.len(), "{seen:?}");
                    seen.iter().rev().eq(&posts)
                })
                .await;
            }
        }
        posts.extend(is_pushed_live(&cluster.nodes[0], &cluster.nodes[1]).await);
    }
}

/// Checks that a follower at one node receives a post from another node live. A node may ask its clients to reconnect
/// until it has compared its rooms with their logs; the client then reconnects, as SDKs do. Returns all created posts.
async fn is_pushed_live(at: &Server, from: &Server) -> Vec<u64> {
    let mut posts = Vec::new();
    for _ in 0..3 {
        let mut client = Client::connect(at, &follower(0)).await;
        posts.push(post(from, "star", "live").await);
        // Earlier posts may still arrive.
        while let Some(received) = notified_or_queried(&mut client, &follower(0)).await {
            assert!(posts.contains(&received), "{received} of {posts:?}");
            if posts.last() == Some(&received) {
                return posts;
            }
        }
    }
    panic!("asked to come back again and again");
}

/// The next post pushed on a user's timeline; `None` if the node asks for a reconnect.
async fn notified_or_queried(client: &mut Client, user: &str) -> Option<u64> {
    let channel = format!("timeline:{user}");
    loop {
        match client.hear().await {
            Heard::Push(push) if push["channel"] == channel.as_str() && push.get("pub").is_some() => {
                return Some(push["pub"]["data"]["post"]["id"].as_u64().expect("an id"));
            }
            Heard::Closed(3010, _) => return None,
            Heard::Push(_) | Heard::Ping => {}
            other => panic!("{other:?} instead of a post on {channel}"),
        }
    }
}

/// The posts of a user's first page.
async fn page(node: &Server, user: &str) -> Vec<u64> {
    let page = done(node, user, "GET", "/timeline?limit=50").await;
    page["items"].as_array().expect("items").iter().filter_map(|item| item["id"].as_u64()).collect()
}

/// The next push on a user's timeline: its type and its post.
async fn word(client: &mut Client, user: &str) -> (String, u64) {
    let data = client.publication(&format!("timeline:{user}")).await["data"].take();
    let id = data["post"]["id"].as_u64().or(data["id"].as_u64());
    (data["type"].as_str().expect("a type").to_owned(), id.expect("a post"))
}

async fn check_writes_hold_at_the_other_node(cluster: Cluster) {
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    let [ann, bo, away] = [follower(0), follower(1), follower(2)];
    let (mut at_b, mut other) = (Client::connect(b, &ann).await, Client::connect(b, &bo).await);
    let one = post(a, "star", "one").await;
    let since = position(b, &away).await;
    for (user, client) in [(&ann, &mut at_b), (&bo, &mut other)] {
        assert_eq!(word(client, user).await, ("post".to_owned(), one));
    }
    let mut all = vec![one];
    for (method, path, back) in [
        ("PUT", "/users/star/mute", Some(("DELETE", "/users/star/mute"))),
        ("DELETE", "/users/star/follow", Some(("PUT", "/users/star/follow"))),
        ("PUT", "/users/star/block", None),
    ] {
        done(a, &ann, method, path).await;
        for id in &all {
            assert_eq!(word(&mut at_b, &ann).await, ("gone".to_owned(), *id), "{path}");
        }
        until("it has left the page", async || page(b, &ann).await.is_empty()).await;
        let unseen = post(a, "star", "unseen").await;
        assert_eq!(word(&mut other, &bo).await, ("post".to_owned(), unseen));
        assert_eq!(at_b.pushed().await, Vec::<Value>::new(), "{path}");
        assert_eq!(page(b, &ann).await, [0; 0], "{path}");
        all.push(unseen);
        let Some((method, path)) = back else { break };
        done(a, &ann, method, path).await;
        for id in &all {
            assert_eq!(word(&mut at_b, &ann).await, ("post".to_owned(), *id), "{path}");
        }
        until("it is back on the page", async || page(b, &ann).await.iter().rev().eq(&all)).await;
    }
    let edit = json!({ "text": "edited" });
    assert_eq!(attempt(a, "star", "PATCH", &format!("/posts/{one}"), &edit).await.0, 200);
    assert_eq!(word(&mut other, &bo).await, ("edited".to_owned(), one));
    done(a, "star", "DELETE", &format!("/posts/{one}")).await;
    assert_eq!(word(&mut other, &bo).await, ("gone".to_owned(), one));
    let left: Vec<u64> = all[1..].to_vec();
    for reader in [&bo, &away] {
        until("only the deleted one is missing", async || page(b, reader).await.iter().rev().eq(&left)).await;
    }
    let mut log = log_since(b, &away, &since).await.into_iter().map(|(_, kind, id)| (kind, id)).collect::<Vec<_>>();
    log.retain(|(kind, _)| kind == "post");
    assert_eq!(log, left.iter().map(|id| ("post".to_owned(), *id)).collect::<Vec<_>>());
}
