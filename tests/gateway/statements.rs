//! The number of statements that PostgreSQL gets for an operation. Each is a transaction and a round trip of its own.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;

use crate::postgres_server::PostgresServer;
use crate::redis_server::RedisServer;
use crate::server::Server;

/// Gives the work of the event queue to a node that does not exist. Events are processed later and in batches, so their
/// statements do not belong to one operation.
const HOLD_EVENTS: &str = "\
    INSERT INTO work_nodes (holder, lease_until, kinds)
    VALUES ('away', (extract(epoch FROM now()) * 1000)::bigint + 300000, '{events}');
    UPDATE work_partitions SET holder = 'away', generation = generation + 1 WHERE name LIKE 'events/%'";

/// A server on PostgreSQL whose statements are counted.
struct Counted {
    server: Server,
    postgres: PostgresServer,
    _redis: RedisServer,
    /// The statements of an idle server.
    background: HashSet<String>,
}

impl Counted {
    async fn start() -> Self {
        let redis = RedisServer::start();
        let settings = ["-c", "log_statement=all", "-c", "log_parameter_max_length=0", "-c", "log_line_prefix=%a|"];
        let postgres = PostgresServer::start_with(&settings);
        let keys = [("broker.url", redis.url()), ("ledger.url", postgres.url("postgres"))];
        let server = Server::start_with(&keys.each_ref().map(|(key, url)| (*key, url.as_str()))).await;
        postgres.ask("postgres", HOLD_EVENTS).await;
        Self { server, postgres, _redis: redis, background: HashSet::new() }
    }

    /// All statements of the server so far.
    fn statements(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.postgres.data().join("log")).expect("the log of PostgreSQL");
        let entries = log.split("feedline|").filter_map(|entry| entry.strip_prefix("LOG:  execute "));
        let text =
            |entry: &str| entry.split_once(": ").map(|(_, sql)| sql.split_whitespace().collect::<Vec<_>>().join(" "));
        entries.filter_map(text).collect()
    }

    /// Learns the statements of an idle server.
    async fn learn_background(&mut self) {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let before = self.statements().len();
        tokio::time::sleep(Duration::from_secs(3)).await;
        self.background = self.statements().split_off(before).into_iter().collect();
    }

    /// The statements of a write. Of several similar writes, the one with the fewest: rare background work adds others.
    async fn of(&self, writes: impl Iterator<Item = (&'static str, String, String)>) -> Vec<String> {
        let mut fewest: Option<Vec<String>> = None;
        for (method, user, path) in writes {
            let before = self.statements().len();
            self.server.done(&user, method, &path, &Value::Null).await;
            let mut made = self.statements().split_off(before);
            made.retain(|sql| !self.background.contains(sql));
            if fewest.as_ref().is_none_or(|fewest| made.len() < fewest.len()) {
                fewest = Some(made);
            }
        }
        fewest.expect("a write")
    }
}

#[tokio::test]
async fn a_follow_is_three_statements() {
    let mut counted = Counted::start().await;
    let range = 0..4;
    for n in range.clone() {
        for user in ["fan", "star"].map(|name| format!("{name}-{n}")) {
            counted.server.post(&user, "a post").await;
            let timeline = counted.server.done(&user, "GET", "/timeline", &Value::Null).await;
            assert_eq!(timeline["items"].as_array().map(Vec::len), Some(1));
        }
    }
    counted.learn_background().await;
    let follow = |user: &'static str, target: &'static str| {
        let write = move |n| ("PUT", format!("{user}-{n}"), format!("/users/{target}-{n}/follow"));
        range.clone().map(write)
    };
    let first = counted.of(follow("fan", "star")).await;
    assert!((1..=3).contains(&first.len()), "{}: {first:#?}", first.len());
    // The two are friends now: the posts of both enter the timeline of the other.
    let mutual = counted.of(follow("star", "fan")).await;
    assert!((1..=3).contains(&mutual.len()), "{}: {mutual:#?}", mutual.len());
    let repeated = counted.of(follow("fan", "star")).await;
    assert_eq!(repeated.len(), 1, "{repeated:#?}");
    for n in range.clone() {
        for user in ["fan", "star"].map(|name| format!("{name}-{n}")) {
            let timeline = counted.server.done(&user, "GET", "/timeline", &Value::Null).await;
            assert_eq!(timeline["items"].as_array().map(Vec::len), Some(2), "{user}: {timeline}");
        }
    }
    let unfollow = range.map(|n| ("DELETE", format!("fan-{n}"), format!("/users/star-{n}/follow")));
    let ended = counted.of(unfollow).await;
    assert!((1..=6).contains(&ended.len()), "{}: {ended:#?}", ended.len());
}
