//! When Redis removes the entries of a log.

use std::time::{Duration, Instant};

use feedline::broker::Append;
use feedline::model::Retention;

use crate::engine::{Engine, data, redis_options, to};
use crate::redis_server::RedisServer;

const TTL: Duration = Duration::from_millis(1_600);

/// A sixteenth: for so long the expiry is not set again, and for so much longer the keys are kept.
const SLACK: Duration = Duration::from_millis(100);

/// Between two appends.
const PAUSE: Duration = Duration::from_millis(5);

const KEY: &str = "feedline:{app:1}:l";

/// The time until the entries expire. Their key must have an expiry.
fn expires_in(server: &RedisServer) -> Duration {
    let left = server.ask(&format!("PTTL {KEY}"));
    Duration::from_millis(
        left.trim_start_matches(':').parse().unwrap_or_else(|_| panic!("the expiry of {KEY}: {left}")),
    )
}

/// The entries stay for their time after the last one, although their expiry is not set with each. A log whose key was
/// removed meanwhile expires as well.
#[tokio::test]
async fn entries_expire_after_the_last_append() {
    let server = RedisServer::start();
    let options = redis_options(&server);
    let engine = Engine::redis_with(server, options).await;
    let server = engine.server.as_ref().unwrap();
    // Appends, and returns the time until the entries expire: at least their time less what has passed since then.
    let append = async || {
        let begun = Instant::now();
        let entry = data("1");
        let retention = Retention { size: 10, ttl: TTL };
        engine.broker.append(Append { retention, ..to(&entry) }).await.unwrap();
        let left = expires_in(server);
        assert!(left + begun.elapsed() >= TTL && left <= TTL + SLACK, "{left:?}");
        left
    };
    let (begun, mut set, mut before) = (Instant::now(), 0, Duration::ZERO);
    for _ in 0..60 {
        let left = append().await;
        // Otherwise it is nearer by the pause at least.
        set += u128::from(left + PAUSE / 2 > before);
        before = left;
        tokio::time::sleep(PAUSE).await;
    }
    let periods = begun.elapsed().as_millis() / SLACK.as_millis() + 2;
    assert!(set <= periods, "60 appends in {periods} periods set the expiry {set} times");
    for removal in ["clear", "evict"] {
        append().await;
        match removal {
            "clear" => engine.broker.clear_log("app:1").await.unwrap(),
            _ => assert_eq!(server.ask(&format!("DEL {KEY}")), ":1"),
        }
        append().await;
    }
}

/// What a publication to a channel leaves expires when its entries do, and at once what a topic without readers would
/// have left: clients choose these names.
#[tokio::test]
async fn no_key_of_an_unread_log_outlives_its_entries() {
    let server = RedisServer::start();
    let options = redis_options(&server);
    let engine = Engine::redis_with(server, options).await;
    let server = engine.server.as_ref().unwrap();
    let size = || server.ask("DBSIZE");
    let entry = data("1");
    let ttl = Duration::from_secs(60);
    let retention = Retention { size: 10, ttl };
    for _ in 0..3 {
        engine.broker.append(Append { retention, ..to(&entry) }).await.unwrap();
    }
    for key in [KEY, "feedline:{app:1}:m"] {
        let left: u64 = server.ask(&format!("PTTL {key}")).trim_start_matches(':').parse().expect("an expiry");
        assert!(Duration::from_millis(left) <= ttl + ttl / 16, "{key} stays for {left} ms");
    }
    let before = size();
    for n in 0..100 {
        let channel = &format!("topic:t{n}");
        engine.broker.append(Append { channel, retention, ..to(&entry) }).await.unwrap();
    }
    assert_eq!(size(), before, "keys");
}
