//! The publishers of a broadcast: one socket, or sequential HTTP clients.

use std::collections::VecDeque;
use std::net::SocketAddr;

use anyhow::{Result, ensure};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

use super::client::LoadClient;
use super::http_client::HttpClient;

/// The maximum number of HTTP publishers.
const MAX_PUBLISHERS: usize = 1_000;

/// How publications are sent (`--publishers`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PublisherKind {
    /// One WebSocket, which sends everything that may be in flight at once.
    Socket,
    /// HTTP clients with a persistent connection each. Each waits for a response before it sends the next request.
    Http(usize),
}

impl std::str::FromStr for PublisherKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = match text {
            "socket" => return Ok(Self::Socket),
            text => text.strip_prefix("http:").and_then(|number| number.parse().ok()),
        };
        let number = number.filter(|number| (1..=MAX_PUBLISHERS).contains(number));
        number.map(Self::Http).ok_or_else(|| format!("expected socket, or http:N with N from 1 to {MAX_PUBLISHERS}"))
    }
}

/// One request of an HTTP publisher.
#[derive(Clone, Debug, Default)]
pub(super) struct PublisherRequest {
    /// The path.
    pub path: String,
    /// The API key; empty for the floor.
    pub key: String,
    /// The body.
    pub body: Bytes,
}

/// Sequential HTTP clients.
pub(super) struct HttpPublishers {
    addr: SocketAddr,
    number: usize,
    request: PublisherRequest,
    idle: VecDeque<HttpClient>,
    busy: FuturesUnordered<BoxFuture<'static, Result<HttpClient>>>,
}

impl HttpPublishers {
    /// `number` clients that all send `request`.
    pub(super) fn new(addr: SocketAddr, number: usize, request: PublisherRequest) -> Self {
        Self { addr, number, request, idle: VecDeque::new(), busy: FuturesUnordered::new() }
    }

    /// Connects the clients. Servers close connections that were idle for some time.
    async fn connect(&mut self) -> Result<()> {
        self.idle.clear();
        for _ in 0..self.number {
            self.idle.push_back(HttpClient::open(self.addr).await?);
        }
        Ok(())
    }

    /// Starts a request, unless all clients wait for a response. Returns whether it started one.
    fn begin(&mut self) -> bool {
        let Some(mut client) = self.idle.pop_front() else { return false };
        let PublisherRequest { path, key, body } = self.request.clone();
        self.busy.push(Box::pin(async move {
            let answer = client.post(&path, &key, "", body).await?;
            // The server API answers errors with status 200 as well.
            ensure!(!answer.starts_with(b"{\"error\":"), "{path}: {}", String::from_utf8_lossy(&answer));
            Ok(client)
        }));
        true
    }

    /// Waits for a response. Pending for ever if no request is under way.
    async fn answered(&mut self) -> Result<()> {
        match self.busy.next().await {
            Some(client) => self.idle.push_back(client?),
            None => std::future::pending().await,
        }
        Ok(())
    }
}

/// Appends the frame of the publication with this number.
type AppendFrame = Box<dyn Fn(u64, &mut Vec<u8>) + Send>;

/// A publisher of a broadcast.
pub(super) enum Publisher {
    /// A WebSocket, its frames, and the replies so far.
    Socket { socket: LoadClient, frame: AppendFrame, replies: Vec<u8> },
    /// HTTP clients.
    Http(HttpPublishers),
}

impl Publisher {
    /// A publisher on a WebSocket. `frame` appends the frame of the publication number `n`.
    pub(super) fn socket(socket: LoadClient, frame: impl Fn(u64, &mut Vec<u8>) + Send + 'static) -> Self {
        Self::Socket { socket, frame: Box::new(frame), replies: Vec::new() }
    }

    /// Prepares for a load.
    pub(super) async fn prepare(&mut self) -> Result<()> {
        match self {
            Self::Socket { .. } => Ok(()),
            Self::Http(publishers) => publishers.connect().await,
        }
    }

    /// Sends publications from number `first`, `limit` at most. Returns how many it sent.
    pub(super) async fn send(&mut self, first: u64, limit: u64) -> Result<u64> {
        match self {
            Self::Socket { socket, frame, .. } => {
                let mut frames = Vec::new();
                for n in first..first + limit {
                    frame(n, &mut frames);
                }
                if !frames.is_empty() {
                    socket.send_frames(&frames).await?;
                }
                Ok(limit)
            }
            Self::Http(publishers) => {
                let mut sent = 0;
                while sent < limit && publishers.begin() {
                    sent += 1;
                }
                Ok(sent)
            }
        }
    }

    /// Waits for replies. Fails on an error reply.
    pub(super) async fn replied(&mut self) -> Result<()> {
        match self {
            Self::Socket { socket, replies, .. } => {
                socket.read_with(|segment| replies.extend_from_slice(segment)).await?;
                let text = String::from_utf8_lossy(replies);
                ensure!(!text.contains("\"error\":"), "the server refused a publication: {text}");
                replies.clear();
                Ok(())
            }
            Self::Http(publishers) => publishers.answered().await,
        }
    }

    /// Waits for the responses to all requests under way.
    pub(super) async fn drain(&mut self) -> Result<()> {
        if let Self::Http(publishers) = self {
            while !publishers.busy.is_empty() {
                publishers.answered().await?;
            }
        }
        Ok(())
    }
}
