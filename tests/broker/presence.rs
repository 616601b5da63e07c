//! Presence: the clients in a channel.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use feedline::broker::{PresenceStats, PresentClient};
use futures::future::join_all;

use crate::engine::{Engine, PATIENCE};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(1);
const CHANNEL: &str = "app:1";

async fn enter(engine: &Engine, client: &str, user: &str, ttl: Duration) {
    let info = Bytes::from(format!("{{\"user\": \"{user}\"}}"));
    let client = PresentClient { client, user, info: &info };
    engine.broker.present(CHANNEL, client, ttl).await.expect("present succeeds");
}

async fn stats(engine: &Engine) -> (u64, u64) {
    let PresenceStats { clients, users } = engine.broker.presence_stats(CHANNEL).await.expect("counts");
    (clients, users)
}

/// Polls until the counts match.
async fn settle(engine: &Engine, expected: (u64, u64)) {
    let settled = async {
        while stats(engine).await != expected {
            tokio::task::yield_now().await;
        }
    };
    let result = tokio::time::timeout(PATIENCE, settled).await;
    assert!(result.is_ok(), "{:?}, expected {expected:?}", stats(engine).await);
}

async fn names(engine: &Engine, limit: usize) -> Vec<String> {
    let found = engine.broker.presence(CHANNEL, limit).await.expect("presence");
    let mut names: Vec<String> = found.into_iter().map(|(client, _)| client).collect();
    names.sort();
    names
}

pub(crate) async fn presence_is_added_removed_and_expired(engine: Engine) {
    assert_eq!((names(&engine, 9).await, stats(&engine).await), (vec![], (0, 0)));
    for (client, user, ttl) in [("a", "ann", LONG), ("b", "bo", LONG), ("c", "cy", SHORT), ("d", "ann", LONG)] {
        enter(&engine, client, user, ttl).await;
    }
    let info = Bytes::from_static(b"{\"user\":\"bo\",\"conn_info\":\"a b\"}");
    let renewed = PresentClient { client: "b", user: "bo", info: &info };
    engine.broker.present(CHANNEL, renewed, LONG).await.unwrap();
    let elsewhere = PresentClient { client: "e", user: "eve", info: &info };
    engine.broker.present("app:2", elsewhere, LONG).await.unwrap();
    settle(&engine, (3, 2)).await;
    assert_eq!(names(&engine, 9).await, ["a", "b", "d"]);
    let found = engine.broker.presence(CHANNEL, 9).await.unwrap();
    assert!(found.contains(&("b".to_owned(), info.clone())), "{found:?}");
    engine.broker.absent(CHANNEL, "a").await.unwrap();
    engine.broker.absent(CHANNEL, "nobody").await.unwrap();
    assert_eq!(stats(&engine).await, (2, 2), "d is a client of ann as well");
    engine.broker.absent(CHANNEL, "a").await.unwrap();
    engine.broker.absent(CHANNEL, "d").await.unwrap();
    assert_eq!((names(&engine, 9).await, stats(&engine).await), (vec!["b".to_owned()], (1, 1)));
    engine.broker.absent(CHANNEL, "b").await.unwrap();
    assert_eq!((names(&engine, 9).await, stats(&engine).await), (vec![], (0, 0)));
}

/// A user counts while at least one of their clients is present; all anonymous clients count as one user.
pub(crate) async fn presence_counts_users_once(engine: Engine) {
    enter(&engine, "a", "ann", SHORT).await;
    enter(&engine, "b", "ann", LONG).await;
    enter(&engine, "c", "", LONG).await;
    enter(&engine, "d", "", SHORT).await;
    settle(&engine, (2, 2)).await;
    enter(&engine, "c", "cy", LONG).await;
    settle(&engine, (2, 2)).await;
    engine.broker.absent(CHANNEL, "b").await.unwrap();
    settle(&engine, (1, 1)).await;
}

/// 20,000 clients: the list is truncated, the counts are exact, and neither call reads all clients.
pub(crate) async fn presence_of_large_channels_is_read_in_parts(engine: Engine) {
    const CLIENTS: u64 = 20_000;
    let clients: Vec<u64> = (0..CLIENTS).collect();
    for some in clients.chunks(1000) {
        let each = some.iter().map(async |n| {
            enter(&engine, &format!("client-{n}"), &format!("user-{}", n % 5000), LONG).await;
        });
        join_all(each).await;
    }
    let server = engine.server.as_ref().inspect(|server| {
        assert_eq!(server.ask("CONFIG RESETSTAT"), "+OK");
    });
    assert_eq!(stats(&engine).await, (CLIENTS, 5000));
    if let Some(server) = server {
        let (bytes, commands) = (server.stat("total_net_output_bytes"), server.ask_all("INFO commandstats"));
        assert!(bytes < 10_000, "{bytes} bytes");
        for reads_all in ["hgetall", "hkeys", "hvals", "smembers", "zrangebyscore"] {
            assert!(!commands.contains(&format!("cmdstat_{reads_all}:")), "{commands}");
        }
    }
    let found: HashSet<String> = names(&engine, 1000).await.into_iter().collect();
    assert_eq!(found.len(), 1000);
    if let Some(server) = server {
        let bytes = server.stat("total_net_output_bytes");
        assert!(bytes < 1000 * 100 + 20_000, "{bytes} bytes for 1,000 clients");
    }
    enter(&engine, "the last", "user-1", 2 * LONG).await;
    assert_eq!(names(&engine, 1).await, ["the last"]);
}

/// A node crashed with thousands of clients: no single call removes all of them, and the counts become correct over
/// time.
pub(crate) async fn expired_presence_is_removed_in_steps(engine: Engine) {
    for some in (0..3000).collect::<Vec<u64>>().chunks(1000) {
        let ttl = Duration::from_secs(1);
        let each = some.iter().map(async |n| {
            enter(&engine, &format!("client-{n}"), &format!("user-{n}"), ttl).await;
        });
        join_all(each).await;
    }
    enter(&engine, "a", "ann", LONG).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    if let Some(server) = &engine.server {
        assert_eq!(server.ask("CONFIG RESETSTAT"), "+OK");
        assert_eq!(stats(&engine).await, (1, 1), "expired entries are not counted, removed or not");
        let removed = server.calls("zrem");
        assert!((1..=250).contains(&removed), "{removed}");
    }
    assert_eq!(names(&engine, 9).await, ["a"], "expired entries are not returned, removed or not");
    settle(&engine, (1, 1)).await;
    if let Some(server) = &engine.server {
        let settled = async {
            while server.ask("ZCARD feedline:{app:1}:q") != ":1" {
                stats(&engine).await;
            }
        };
        tokio::time::timeout(PATIENCE, settled).await.expect("expired entries are removed");
        assert_eq!(server.ask("ZCARD feedline:{app:1}:u"), ":1");
        assert_eq!(server.ask("HLEN feedline:{app:1}:p"), ":2", "the client, and its user's count");
    }
}
