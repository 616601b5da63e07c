//! A client of a WebSocket or a stream that needs little CPU time, so that the server is the bottleneck.
//!
//! A socket is a `TcpStream` and a reader of some 50 bytes; all sockets of a thread read into one buffer.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use anyhow::{Context as _, Error, Result, anyhow, ensure};
use clap::ValueEnum;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::ClientRequestBuilder;

use super::context::BenchContext;
use super::frames::{FrameReader, LoadEncoding, delimited, push_frame};
use super::seed;

/// What is in the reply to a connect command.
const CONNECTED: &str = "\"connect\":";
/// The time limit of a handshake or a reply.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Concurrent handshakes: fewer than any listen backlog, enough to keep a core busy.
pub(super) const MAX_HANDSHAKES: usize = 256;
/// The maximum number of sockets of a process: a usual limit of open files is 20,000, and Linux has some 28,000 ports.
pub(super) const MAX_SOCKETS: usize = 19_000;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 64 * 1024]);
}

/// The transport of the clients that receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LoadTransport {
    /// WebSockets.
    #[default]
    Websocket,
    /// HTTP streams.
    HttpStream,
    /// Server-sent events.
    Sse,
}

/// An endpoint of a server, which is always on a loopback address, and how a client uses it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketTarget {
    /// The address.
    pub addr: SocketAddr,
    /// The path.
    path: &'static str,
    transport: LoadTransport,
    encoding: LoadEncoding,
}

impl SocketTarget {
    /// The endpoint of a Feedline server for WebSockets with JSON.
    pub(super) fn feedline(addr: SocketAddr) -> Self {
        Self::feedline_with(addr, LoadTransport::Websocket, LoadEncoding::Json)
    }

    /// The endpoint of a Feedline server for this transport and encoding.
    pub(super) fn feedline_with(addr: SocketAddr, transport: LoadTransport, encoding: LoadEncoding) -> Self {
        let path = match transport {
            LoadTransport::Websocket => "/connection/websocket",
            LoadTransport::HttpStream => "/connection/http_stream",
            LoadTransport::Sse => "/connection/sse",
        };
        Self { addr, path, transport, encoding }
    }

    /// The endpoint of the floor.
    pub(super) fn floor(addr: SocketAddr) -> Self {
        Self { path: "/", ..Self::feedline(addr) }
    }
}

/// One open socket.
#[derive(Debug)]
pub(super) struct LoadClient {
    stream: TcpStream,
    frames: FrameReader,
    target: SocketTarget,
}

impl LoadClient {
    /// Connects to a Feedline server as a user.
    pub(super) async fn sign_in(target: SocketTarget, secret: &str, user: &str) -> Result<Self> {
        let mut socket = Self::open(target).await?;
        socket.send(connect_command(secret, user)?).await?;
        socket.expect(CONNECTED).await?;
        Ok(socket)
    }

    /// Connects and upgrades.
    pub(super) async fn open(target: SocketTarget) -> Result<Self> {
        let SocketTarget { addr, path, transport, encoding } = target;
        let stream = TcpStream::connect(addr).await.with_context(|| format!("cannot connect to {addr}"))?;
        stream.set_nodelay(true)?;
        let is_websocket = transport == LoadTransport::Websocket;
        let frames = FrameReader::new(encoding, is_websocket);
        if !is_websocket {
            return Ok(Self { stream, frames, target });
        }
        let mut request = ClientRequestBuilder::new(format!("ws://{addr}{path}").parse()?);
        if encoding == LoadEncoding::Protobuf {
            request = request.with_sub_protocol("centrifuge-protobuf");
        }
        // The server sends nothing after the response until the client does, so nothing is lost here.
        let stream = timeout(TIMEOUT, client_async(request, stream))
            .await
            .context("the handshake took too long")??
            .0
            .into_inner();
        Ok(Self { stream, frames, target })
    }

    /// Sends frames made by [`push_frame`].
    pub(super) async fn send_frames(&mut self, frames: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(frames).await?)
    }

    /// Sends one frame in the encoding of the client; to a stream its only request.
    pub(super) async fn send(&mut self, message: impl AsRef<[u8]>) -> Result<()> {
        let message = message.as_ref();
        let SocketTarget { addr, path, transport, encoding } = self.target;
        let mut bytes = Vec::with_capacity(message.len() + 14);
        if transport == LoadTransport::Websocket {
            push_frame(&mut bytes, encoding, message)?;
        } else {
            let content = match encoding {
                LoadEncoding::Json => "application/json",
                LoadEncoding::Protobuf => "application/octet-stream",
            };
            let length = message.len();
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: {addr}\r\nContent-Type: {content}\r\nContent-Length: {length}\r\n\r\n"
            );
            bytes.extend_from_slice(head.as_bytes());
            bytes.extend_from_slice(message);
        }
        self.send_frames(&bytes).await
    }

    /// Waits for bytes and passes the payload that is complete to `payload`, as [`FrameReader::feed`]. Answers pings.
    /// Returns the number of deliveries. Fails once the server has closed the connection.
    ///
    /// Cancel-safe while no bytes have arrived.
    pub(super) async fn read(&mut self, mut payload: impl FnMut(&[u8])) -> Result<u32> {
        let Self { stream, frames, .. } = self;
        let counts = poll_fn(|context| {
            BUFFER.with_borrow_mut(|buffer| {
                let mut buffer = ReadBuf::new(buffer);
                ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
                let bytes = buffer.filled();
                let closed = || Err(anyhow!("the server closed the connection"));
                Poll::Ready(if bytes.is_empty() { closed() } else { frames.feed(bytes, &mut payload) })
            })
        });
        let counts = counts.await?;
        for _ in 0..counts.pings {
            match self.target.encoding {
                LoadEncoding::Json => self.send("{}").await?,
                LoadEncoding::Protobuf => self.send([0]).await?,
            }
        }
        Ok(counts.deliveries)
    }

    /// Reads until `answer` appears, and returns everything that was read. In JSON this is a text in the answer, in
    /// Protobuf the beginning of a message. An error reply is an error here.
    pub(super) async fn expect(&mut self, answer: impl AsRef<[u8]>) -> Result<String> {
        let answer = answer.as_ref();
        let encoding = self.target.encoding;
        let mut received = Vec::new();
        let reading = async {
            while !has_answer(encoding, &received, answer)? {
                self.read(|payload| received.extend_from_slice(payload)).await?;
            }
            Ok(String::from_utf8_lossy(&received).into_owned())
        };
        let wanted = || format!("no {} came", String::from_utf8_lossy(answer));
        timeout(TIMEOUT, reading).await.with_context(wanted)?
    }

    /// Reads until this many deliveries have arrived.
    pub(super) async fn expect_deliveries(&mut self, wanted: u32) -> Result<()> {
        let mut seen = 0;
        let reading = async {
            while seen < wanted {
                seen += self.read(|_| {}).await?;
            }
            Ok::<_, Error>(())
        };
        let read = timeout(TIMEOUT, reading).await;
        read.map_err(Error::from).flatten().with_context(|| format!("{seen} of {wanted} entries came"))?;
        ensure!(seen == wanted, "{seen} entries came, not {wanted}");
        Ok(())
    }
}

fn has_answer(encoding: LoadEncoding, received: &[u8], answer: &[u8]) -> Result<bool> {
    if encoding == LoadEncoding::Json {
        let find = |needle| memchr::memmem::find(received, needle).is_some();
        ensure!(!find(b"\"error\":"), "the server refused: {}", String::from_utf8_lossy(received));
        return Ok(find(answer));
    }
    let found = delimited(received).any(|(message, _)| message.starts_with(answer));
    // The fields of a reply are in order: the id of one byte, then an error, which is field 2.
    let is_error = |message: &[u8]| message.first() == Some(&8) && message.get(2) == Some(&(2 << 3 | 2));
    let error = delimited(received).find(|(message, _)| is_error(message));
    ensure!(error.is_none(), "the server refused: {}", String::from_utf8_lossy(received));
    Ok(found)
}

/// The connect command of a user, with command id 1.
fn connect_command(secret: &str, user: &str) -> Result<String> {
    Ok(json!({ "id": 1, "connect": { "token": seed::token(secret, user)? } }).to_string())
}

/// Opens a socket for each of `greetings`, sends the greeting, and waits for `answer`. Returns the sockets and the text
/// that each received, in order.
pub(super) async fn open_all(
    bench: &BenchContext,
    target: SocketTarget,
    greetings: &[impl AsRef<[u8]>],
    answer: &[u8],
) -> Result<Vec<(LoadClient, String)>> {
    let sockets = greetings.len();
    ensure!(sockets <= MAX_SOCKETS, "more than {MAX_SOCKETS} sockets do not fit into one process");
    bench.say(&format!("{sockets} sockets connect"));
    stream::iter(greetings)
        .map(|greeting| async move {
            let mut socket = LoadClient::open(target).await?;
            socket.send(greeting).await?;
            let reply = socket.expect(answer).await?;
            Ok((socket, reply))
        })
        .buffered(MAX_HANDSHAKES)
        .try_collect()
        .await
}

/// Connects some users to a Feedline server. Returns the sockets and the reply to each.
pub(super) async fn sign_in_all(
    bench: &BenchContext,
    target: SocketTarget,
    secret: &str,
    users: Range<usize>,
) -> Result<Vec<(LoadClient, String)>> {
    let commands: Vec<_> = users.map(|n| connect_command(secret, &seed::user(n))).collect::<Result<_>>()?;
    open_all(bench, target, &commands, CONNECTED.as_bytes()).await
}

/// Waits until one of some tasks that read sockets fails, and returns the reason.
pub(super) async fn failure(readers: &mut JoinSet<Result<()>>) -> Error {
    match readers.join_next().await {
        Some(Ok(Err(error))) => error.context("a socket failed"),
        Some(Ok(Ok(()))) => anyhow!("a socket ended"),
        Some(Err(error)) => error.into(),
        None => std::future::pending().await,
    }
}
