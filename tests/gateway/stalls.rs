//! Requests and responses that make no progress do not hold connections.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use crate::client::Client;
use crate::server::{API_KEY, PATIENCE, Server, token};

/// Files that the server has open.
fn open_files(server: &Server) -> usize {
    fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count()
}

async fn connection(server: &Server) -> TcpStream {
    TcpStream::connect(("127.0.0.1", server.port())).await.unwrap()
}

fn head(path: &str, bytes: usize) -> String {
    let bearer = token("ann");
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {bearer}\r\nx-api-key: {API_KEY}\r\nx-user: ann\r\n\
         content-length: {bytes}\r\n\r\n"
    )
}

/// Sends a body in parts, then waits for the end of the connection; returns the response.
async fn post(server: &Server, path: &str, parts: &[&[u8]], every: Duration, bytes: usize) -> String {
    let (mut reading, mut writing) = connection(server).await.into_split();
    writing.write_all(head(path, bytes).as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let sending = async {
        for part in parts {
            if writing.write_all(part).await.is_err() {
                break;
            }
            sleep(every).await;
        }
        std::future::pending::<()>().await;
    };
    let reading = async {
        // Either a response or the end: an idle connection is closed after `server.keep_alive`.
        let _ = reading.read_to_end(&mut answer).await;
    };
    timeout(PATIENCE, async {
        tokio::select! {
            () = sending => {}
            () = reading => {}
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{path}: the server waits for ever"));
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn stalled_request_bodies_time_out() {
    let keys = [("server.stall_timeout", "300ms"), ("server.keep_alive", "2s")];
    let server = Server::start_with(&keys).await;
    let drops = vec![&b" "[..]; 1_000];
    for path in ["/api/v1/posts", "/api/publish"] {
        let begin = Instant::now();
        let answer = post(&server, path, &[b"{"], Duration::ZERO, 100).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{path}: {answer}");
        assert!(answer.contains(r#""code":"timeout""#) && answer.contains("connection: close"), "{answer}");
        let answer = post(&server, path, &drops, Duration::from_millis(20), 1_000).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{path}, byte by byte: {answer}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }
    // A slow but steady request is served: it takes three times as long as one pause may.
    let text = json!({ "text": "x".repeat(4_000) }).to_string();
    let parts: Vec<&[u8]> = text.as_bytes().chunks(250).collect();
    let answer = post(&server, "/api/v1/posts", &parts, Duration::from_millis(60), text.len()).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
}

#[tokio::test]
async fn unread_responses_time_out() {
    let server = Server::start_with(&[("server.stall_timeout", "500ms")]).await;
    let before = open_files(&server);
    let mut stuck = Vec::new();
    for _ in 0..3 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(([127, 0, 0, 1], server.port()).into()).await.unwrap();
        let asked = "GET /api/openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1_000);
        // As many requests as the server accepts before its unread responses block it.
        let _ = timeout(Duration::from_millis(300), stream.write_all(asked.as_bytes())).await;
        stuck.push(stream);
    }
    let until = Instant::now() + PATIENCE;
    while open_files(&server) > before {
        assert!(Instant::now() < until, "{} files more than before", open_files(&server) - before);
        sleep(Duration::from_millis(50)).await;
    }
    // A slow reader receives the complete response.
    let mut slow = connection(&server).await;
    slow.write_all(b"GET /api/openapi.json HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let mut part = vec![0; 4_096];
    loop {
        let read = timeout(PATIENCE, slow.read(&mut part)).await.unwrap().unwrap();
        if read == 0 {
            break;
        }
        answer.extend_from_slice(&part[..read]);
        sleep(Duration::from_millis(50)).await;
    }
    assert!(answer.ends_with(b"}"), "{} bytes", answer.len());
}

#[tokio::test]
async fn idle_http_connections_are_closed_and_websockets_are_not() {
    let keys = [("server.stall_timeout", "300ms"), ("server.header_timeout", "300ms"), ("server.keep_alive", "1s")];
    let server = Server::start_with(&keys).await;
    let mut client = Client::connect(&server, "ann").await;
    for first in ["", "GET /health HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut idle = connection(&server).await;
        idle.write_all(first.as_bytes()).await.unwrap();
        let begin = Instant::now();
        let mut answer = String::new();
        timeout(PATIENCE, idle.read_to_string(&mut answer)).await.expect("the server closes it").unwrap();
        assert_eq!(answer.starts_with("HTTP/1.1 200 "), !first.is_empty(), "{answer}");
        assert!(begin.elapsed() < Duration::from_secs(5));
    }
    sleep(Duration::from_secs(1)).await;
    client.subscribe("topic:x").await;
}
