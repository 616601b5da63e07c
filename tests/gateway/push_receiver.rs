//! A server with the push bridge, and a server that receives its pushes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::server::{API_KEY, PATIENCE, Server};

/// How long notifications wait before they are pushed.
pub(crate) const GRACE: Duration = Duration::from_millis(700);

/// Longer than a silent message waits for more to be read.
pub(crate) const CLEAR_DELAY: Duration = Duration::from_millis(2_500);

/// A server that receives webhooks, as JSON, and messages of Web Push, as arrays of bytes. It answers with the given
/// statuses in turn, and with 200 afterwards.
pub(crate) struct Receiver {
    pub(crate) url: String,
    /// The bodies, in the order of arrival.
    pub(crate) received: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    pub(crate) async fn start(statuses: &[u16]) -> Self {
        Self::start_slow(statuses, Duration::ZERO).await
    }

    /// The same; each answer takes a while.
    pub(crate) async fn start_slow(statuses: &[u16], delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let received: Arc<Mutex<Vec<Value>>> = Arc::default();
        let statuses = Arc::new(Mutex::new(VecDeque::from(statuses.to_vec())));
        let bodies = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&bodies), Arc::clone(&statuses), delay));
            }
        });
        Self { url, received }
    }

    /// The alerts, without silent messages.
    pub(crate) fn alerts(&self) -> Vec<Value> {
        self.received.lock().iter().filter(|push| push["push"] == "alert").cloned().collect()
    }

    /// Waits until this many bodies arrived; returns all.
    pub(crate) async fn wait_for(&self, number: usize) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let received = self.received.lock().clone();
            if received.len() >= number {
                return received;
            }
            assert!(begun.elapsed() < PATIENCE, "{number} pushes are expected: {received:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn serve(
    mut socket: TcpStream,
    bodies: Arc<Mutex<Vec<Value>>>,
    statuses: Arc<Mutex<VecDeque<u16>>>,
    delay: Duration,
) {
    let mut buffer = Vec::new();
    loop {
        let (head, length) = loop {
            let text = String::from_utf8_lossy(&buffer).to_lowercase();
            if let Some(head) = text.find("\r\n\r\n") {
                let length = text.split("content-length:").nth(1).and_then(|rest| rest.split("\r\n").next());
                break (head + 4, length.and_then(|length| length.trim().parse::<usize>().ok()).unwrap_or(0));
            }
            if socket.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                return;
            }
        };
        while buffer.len() < head + length {
            if socket.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let body = &buffer[head..head + length];
        // Web Push is encrypted.
        let body = serde_json::from_slice(body).unwrap_or_else(|_| json!(body));
        buffer.drain(..head + length);
        bodies.lock().push(body);
        tokio::time::sleep(delay).await;
        let status = statuses.lock().pop_front().unwrap_or(200);
        let answer = format!("HTTP/1.1 {status} Status\r\ncontent-length: 0\r\n\r\n");
        if socket.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

pub(crate) async fn server() -> Server {
    server_with(&[]).await
}

pub(crate) async fn server_with(keys: &[(&str, &str)]) -> Server {
    let grace = format!("{}ms", GRACE.as_millis());
    let mut all = vec![
        ("push.enabled", "true"),
        ("push.grace", grace.as_str()),
        ("push.digest", "2s"),
        ("push.allow_networks", "127.0.0.0/8"),
        ("push.webhook_secrets", "a secret of webhooks with 32 characters or more"),
    ];
    all.extend(keys);
    Server::start_with(&all).await
}

/// A backend registers the receiver as a device of a user.
pub(crate) async fn register(server: &Server, user: &str, device: &str, url: &str) {
    register_as(server, user, device, &json!({ "platform": "webhook", "endpoint": url })).await;
}

/// The same, with all members of the device.
pub(crate) async fn register_as(server: &Server, user: &str, device: &str, members: &Value) {
    let headers = [("x-api-key", API_KEY), ("x-user", user)];
    let answer = server.http("PUT", &format!("/api/v1/devices/{device}"), &headers, &members.to_string()).await;
    assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
}
