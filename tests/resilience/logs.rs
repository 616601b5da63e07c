//! Logs whose reader has gone or stalls: they lose lines, and the server serves as before.

use std::io::{Write as _, pipe};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::Client;
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
