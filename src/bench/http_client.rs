//! An HTTP client like an application's: one persistent connection, one request at a time.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The time limit of a response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to a server's API.
pub(super) struct HttpClient {
    sender: SendRequest<Empty<Bytes>>,
    host: String,
}

impl HttpClient {
    /// Connects.
    pub(super) async fn open(addr: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(addr).await.with_context(|| format!("cannot connect to {addr}"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // The task ends with the sender; the request reports its errors.
        tokio::spawn(connection);
        Ok(Self { sender, host: addr.to_string() })
    }

    /// Sends a request as the user of a token, and returns the body. Fails on an error status.
    pub(super) async fn call(&mut self, method: Method, path: &str, token: &str) -> Result<Bytes> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host)
            .header(AUTHORIZATION, format!("Bearer {token}"))
            .body(Empty::new())?;
        let asking = async {
            let answer = self.sender.send_request(request).await?;
            let status = answer.status();
            let body = answer.into_body().collect().await?.to_bytes();
            ensure!(status.is_success(), "{path}: {status} {}", String::from_utf8_lossy(&body));
            Ok(body)
        };
        timeout(TIMEOUT, asking).await.with_context(|| format!("no answer to {path}"))?
    }
}
