//! Logs whose reader has gone or stalls: they lose lines, and the server serves as before.

use std::io::{Write as _, pipe};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::postgres_server::PostgresServer;
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server};

const LOST: &str = "feedline_log_lines_lost_total";

/// What a pipe of Linux holds.
const PIPE_BYTES: usize = 64 * 1024;

/// Waits for a post in the reader's timeline.
async fn delivered(reader: &mut Client, server: &Server) {
    let post = server.post("ann", "hello").await;
    let publication = reader.publication("timeline:bo").await;
    assert_eq!(publication["data"]["post"]["id"], json!(post));
}

#[tokio::test]
async fn a_server_whose_log_has_no_reader_serves_and_stops_as_usual() {
    let redis = RedisServer::start();
    let (reader, output) = pipe().unwrap();
    drop(reader);
    let keys = [("broker.url", &*redis.url()), ("server.log_level", "debug")];
    let mut server = Server::start_piped(output, &keys).await;
    let mut bo = Client::connect(&server, "bo").await;
    server.follow("bo", "ann").await;
    delivered(&mut bo, &server).await;
    for _ in 0..3 {
        let reconnects = redis.calls("subscribe");
        assert!(redis.ask("CLIENT KILL TYPE pubsub").starts_with(':'));
        let deadline = Instant::now() + PATIENCE;
        while redis.calls("subscribe") == reconnects {
            assert!(Instant::now() < deadline, "pub/sub is not connected again");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        delivered(&mut bo, &server).await;
    }
    assert!(server.metric(LOST).await.unwrap() > 0.0);
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_server_whose_log_is_not_read_serves_and_stops_as_usual() {
    let (_reader, mut output) = pipe().unwrap();
    output.write_all(&[b' '; PIPE_BYTES]).unwrap();
    let mut server = Server::start_piped(output, &[("server.log_level", "debug")]).await;
    let mut bo = Client::connect(&server, "bo").await;
    server.follow("bo", "ann").await;
    // The path is a part of the line.
    let long = format!("/{}", "x".repeat(16 * 1024));
    let deadline = Instant::now() + PATIENCE;
    while server.metric(LOST).await == Some(0.0) {
        assert!(Instant::now() < deadline, "no line was lost");
        Server::request_at(server.port(), "GET", &long, &[], "").await.unwrap();
    }
    delivered(&mut bo, &server).await;
    assert!(server.stop().await.success());
}

/// The warnings and errors in the log of a server, and what it says about stores.
fn notable(server: &Server) -> Vec<String> {
    let is_notable = |line: &&str| ["WARN", "ERROR", "a store is"].iter().any(|word| line.contains(word));
    server.log().lines().filter(is_notable).map(str::to_owned).collect()
}

/// Uses a server while a store is away, until it is back.
async fn use_during_outage<S>(server: &Server, store: &mut S, begin: impl FnOnce(&mut S), end: impl FnOnce(&mut S)) {
    let (before, outages) = (notable(server).len(), server.log().matches("a store is back").count());
    begin(store);
    let deadline = Instant::now() + Duration::from_secs(4);
    while Instant::now() < deadline {
        let post = json!({ "text": "during an outage" });
        let (read, write) = (Value::Null, "/posts");
        tokio::join!(server.call("ann", "GET", "/timeline", &read), server.call("ann", "POST", write, &post));
    }
    end(store);
    server.until_logged("a store is back", outages + 1).await;
    let lines = notable(server).split_off(before);
    assert_eq!(lines.len(), 2, "one line when it begins, one when it ends: {lines:#?}");
    assert!(lines[0].contains("a store is away") && lines[1].contains("failed_calls"), "{lines:#?}");
}

#[tokio::test]
async fn an_outage_of_a_store_is_one_line_when_it_begins_and_one_when_it_ends() {
    let (mut redis, mut postgres) = (RedisServer::start(), PostgresServer::start());
    let database = postgres.database("template1").await;
    let keys = [("broker.url", &*redis.url()), ("ledger.url", &*postgres.url(&database))];
    let mut server = Server::start_with(&[keys[0], keys[1], ("ledger.connections", "4")]).await;
    server.follow("bo", "ann").await;
    use_during_outage(&server, &mut postgres, PostgresServer::kill, PostgresServer::start_again).await;
    assert!(server.stop().await.success());
    server.start_again().await;
    use_during_outage(&server, &mut redis, RedisServer::kill, RedisServer::start_again).await;
}
