//! An HTTP client like an application's: one persistent connection, one request at a time.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::http::request::Builder;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The time limit of a response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to a server's API.
pub(super) struct HttpClient {
    sender: SendRequest<Full<Bytes>>,
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

    /// Sends a request as the user of a token, if it is not empty, and returns the body. Fails on an error status.
    pub(super) async fn call(&mut self, method: Method, path: &str, token: &str) -> Result<Bytes> {
        let mut request = Request::builder().method(method).uri(path);
        if !token.is_empty() {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        self.send(request, path, Bytes::new()).await
    }

    /// Posts JSON as a backend, on behalf of a user if the name is not empty, and returns the body. Fails on an error
    /// status.
    pub(super) async fn post(&mut self, path: &str, key: &str, user: &str, body: Bytes) -> Result<Bytes> {
        let mut request = Request::post(path).header(CONTENT_TYPE, "application/json").header("x-api-key", key);
        if !user.is_empty() {
            request = request.header("x-user", user);
        }
        self.send(request, path, body).await
    }

    async fn send(&mut self, request: Builder, path: &str, body: Bytes) -> Result<Bytes> {
        let request = request.header(HOST, &self.host).body(Full::new(body))?;
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
