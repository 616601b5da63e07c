//! A Redis server that evicts keys when its memory is full.

use std::time::Duration;

use feedline::broker::continues;

use crate::engine::{Engine, PATIENCE, redis_options};
use crate::redis_server::RedisServer;

/// An eviction leaves nothing of a log, so no epoch derived before it may be derived again.
#[tokio::test]
async fn evicted_logs_do_not_reuse_their_epoch() {
    let server = RedisServer::start();
    // The seed has no expiry, so it is not evicted.
    assert_eq!(server.ask("CONFIG SET maxmemory-policy volatile-lru"), "+OK");
    let options = redis_options(&server);
    let engine = Engine::redis_with(server, options).await;
    let server = engine.server.as_ref().unwrap();
    let unwritten = engine.broker.position("app:1").await.unwrap().unwrap();
    let written = engine.append("app:1", "1").await.position;
    assert_eq!(written.epoch, unwritten.epoch);
    let seed = server.ask_all("HGET feedline:epochs s");
    assert_eq!(server.ask("CONFIG SET maxmemory 1"), "+OK");
    let evicted = async {
        while server.ask("EXISTS feedline:{app:1}:m") != ":0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, evicted).await.expect("the log is evicted");
    assert_eq!(server.ask("CONFIG SET maxmemory 0"), "+OK");
    assert_eq!(server.ask_all("HGET feedline:epochs s"), seed);

    let now = engine.broker.position("app:1").await.unwrap().unwrap();
    assert_eq!(now.offset, 0);
    assert!(!continues(&written.epoch, &now.epoch), "{written:?} {now:?}");
    assert_eq!(engine.broker.position("app:1").await.unwrap().unwrap(), now);
    let again = engine.append("app:1", "2").await.position;
    assert_eq!(again.epoch, now.epoch);
}
