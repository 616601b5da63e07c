//! A receiver of webhooks, which answers as the test says and can be stopped and started again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A request that arrived.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The path and query.
    pub path: String,
    /// The headers, with names in lower case.
    pub headers: HashMap<String, String>,
    /// The body as it was sent.
    pub body: Vec<u8>,
    /// The body as JSON.
    pub json: Value,
    /// The status of the answer.
    pub status: u16,
    /// When it arrived.
    pub at: Instant,
}

/// Returns the status of the answer to a body. 0: no answer, the connection is closed.
type Decide = dyn Fn(&Value) -> u16 + Send + Sync;

/// A server that receives webhooks. Answers 429 and 503 ask to be left alone for a second.
pub struct WebhookReceiver {
    port: u16,
    decide: Arc<Decide>,
    deliveries: Arc<Mutex<Vec<Delivery>>>,
    serving: Option<JoinHandle<()>>,
}

impl WebhookReceiver {
    /// A receiver that answers each body with the status that `decide` returns.
    pub async fn start(decide: impl Fn(&Value) -> u16 + Send + Sync + 'static) -> Self {
        let port = crate::ports::free_port();
        let mut receiver = Self { port, decide: Arc::new(decide), deliveries: Arc::default(), serving: None };
        receiver.start_again().await;
        receiver
    }

    /// Listens again, after [`stop`](Self::stop).
    pub async fn start_again(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.expect("the port");
        let (decide, deliveries) = (Arc::clone(&self.decide), Arc::clone(&self.deliveries));
        self.serving = Some(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                connections.spawn(serve(socket, Arc::clone(&decide), Arc::clone(&deliveries)));
            }
        }));
    }

    /// Closes all connections, and refuses new ones.
    pub async fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
            let _ = serving.await;
        }
    }

    /// The URL of the receiver.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?key=secret", self.port)
    }

    /// The URL of the root.
    pub fn root(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// All requests so far.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.lock().clone()
    }

    /// The bodies that were accepted, in the order of arrival.
    pub fn accepted(&self) -> Vec<Value> {
        let accepted = |delivery: &Delivery| (delivery.status / 100 == 2).then(|| delivery.json.clone());
        self.deliveries.lock().iter().filter_map(accepted).collect()
    }

    /// Waits until the accepted bodies satisfy a condition. Returns them.
    pub async fn wait(&self, patience: Duration, enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let accepted = self.accepted();
            if enough(&accepted) {
                return accepted;
            }
            assert!(begun.elapsed() < patience, "{} accepted: {:#?}", accepted.len(), self.deliveries());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for WebhookReceiver {
    fn drop(&mut self) {
        if let Some(serving) = &self.serving {
            serving.abort();
        }
    }
}

async fn serve(mut socket: TcpStream, decide: Arc<Decide>, deliveries: Arc<Mutex<Vec<Delivery>>>) {
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if socket.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                return;
            }
        };
        let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let header =
            |line: &str| line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
        let headers: HashMap<String, String> = head.lines().skip(1).filter_map(header).collect();
        let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        while buffer.len() < end + 4 + length {
            if socket.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let body = buffer[end + 4..end + 4 + length].to_vec();
        buffer.drain(..end + 4 + length);
        let json = serde_json::from_slice(&body).expect("JSON");
        let status = decide(&json);
        deliveries.lock().push(Delivery { path, headers, body, json, status, at: Instant::now() });
        if status == 0 {
            return;
        }
        let retry = if matches!(status, 429 | 503) { "retry-after: 1\r\n" } else { "" };
        let answer = format!("HTTP/1.1 {status} Status\r\n{retry}content-length: 0\r\n\r\n");
        if socket.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}
