//! A client of a WebSocket or a stream that needs little CPU time, so that the server is the bottleneck.
//!
//! A socket is a `TcpStream` and a reader of some 80 bytes; all sockets of a thread read into one buffer. Source
//! addresses are spread over `127.0.x.y`, so that ports do not run out.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::context::BenchContext;
use super::frames::{FrameCounts, FrameReader, push_binary, push_text};
use super::greeting::Answer;
use super::messages::MessageReader;
use super::target::{LoadEncoding, SocketTarget};

/// The time limit of a handshake or a reply.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Concurrent handshakes: fewer than any listen backlog, enough to keep a core busy.
const MAX_HANDSHAKES: usize = 256;
/// Connections from one source address; Linux has some 28,000 ports for each.
const CONNECTIONS_PER_ADDRESS: u32 = 8_000;
/// The maximum number of sockets of a process: a usual limit of open files is 20,000.
pub(super) const MAX_SOCKETS: usize = 19_000;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 64 * 1024]);
}

/// One open socket.
#[derive(Debug)]
pub(super) struct LoadClient {
    stream: TcpStream,
    frames: FrameReader,
    encoding: LoadEncoding,
    /// The path of a stream whose request is to be sent with the first message.
    stream_path: Option<&'static str>,
}

impl LoadClient {
    /// Connects and upgrades.
    pub(super) async fn open(target: SocketTarget) -> Result<Self> {
        timeout(TIMEOUT, Self::handshake(target)).await.context("the handshake took too long")?
    }

    async fn handshake(SocketTarget { addr, path, is_websocket, encoding }: SocketTarget) -> Result<Self> {
        let messages = match encoding {
            LoadEncoding::Json => MessageReader::default(),
            LoadEncoding::Protobuf => MessageReader::protobuf(),
        };
        let socket = TcpSocket::new_v4()?;
        socket.bind(source())?;
        let mut stream = socket.connect(addr).await.with_context(|| format!("cannot connect to {addr}"))?;
        stream.set_nodelay(true)?;
        if !is_websocket {
            return Ok(Self { stream, frames: FrameReader::stream(messages), encoding, stream_path: Some(path) });
        }
        let subprotocol = match encoding {
            LoadEncoding::Json => "",
            LoadEncoding::Protobuf => "Sec-WebSocket-Protocol: centrifuge-protobuf\r\n",
        };
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{subprotocol}\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::with_capacity(256);
        while !answer.ends_with(b"\r\n\r\n") {
            // The server sends nothing after the response until the client does, so this does not read too far.
            ensure!(stream.read_buf(&mut answer).await? > 0 && answer.len() < 16_384, "the handshake broke off");
        }
        let answer = String::from_utf8_lossy(&answer);
        let line = answer.lines().next().unwrap_or_default();
        ensure!(line.starts_with("HTTP/1.1 101"), "the server did not upgrade: {line}");
        let has_subprotocol = answer.contains("centrifuge-protobuf");
        ensure!(has_subprotocol == (encoding == LoadEncoding::Protobuf), "the server chose another encoding");
        Ok(Self { stream, frames: FrameReader::websocket(messages), encoding, stream_path: None })
    }

    /// Sends frames made by [`push_text`].
    pub(super) async fn send_frames(&mut self, frames: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(frames).await?)
    }

    /// Sends one frame in the encoding of the client; to a stream its only request.
    pub(super) async fn send(&mut self, message: impl AsRef<[u8]>) -> Result<()> {
        let message = message.as_ref();
        if let Some(path) = self.stream_path.take() {
            let content = match self.encoding {
                LoadEncoding::Json => "application/json",
                LoadEncoding::Protobuf => "application/octet-stream",
            };
            let mut request = format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content}\r\nContent-Length: {}\r\n\r\n",
                message.len()
            )
            .into_bytes();
            request.extend_from_slice(message);
            return Ok(self.stream.write_all(&request).await?);
        }
        let mut frame = Vec::with_capacity(message.len() + 14);
        match self.encoding {
            LoadEncoding::Json => push_text(&mut frame, message),
            LoadEncoding::Protobuf => push_binary(&mut frame, message),
        }
        self.send_frames(&frame).await
    }

    /// Waits for bytes and counts their frames. Answers pings. Fails once the server has closed the connection.
    ///
    /// Cancel-safe while no bytes have arrived.
    pub(super) async fn read(&mut self) -> Result<FrameCounts> {
        self.read_with(|_| {}).await
    }

    /// The same, and passes the payload to `payload`.
    pub(super) async fn read_with(&mut self, mut payload: impl FnMut(&[u8])) -> Result<FrameCounts> {
        let Self { stream, frames, .. } = self;
        let seen = poll_fn(|context| {
            BUFFER.with_borrow_mut(|buffer| {
                let mut buffer = ReadBuf::new(buffer);
                Pin::new(&mut *stream)
                    .poll_read(context, &mut buffer)
                    .map_ok(|()| (!buffer.filled().is_empty()).then(|| frames.feed(buffer.filled(), &mut payload)))
            })
        })
        .await?;
        let Some(seen) = seen else { bail!("the server closed the connection") };
        if let Some(code) = seen.close {
            bail!("the server closed the connection with code {code}");
        }
        for _ in 0..seen.pings {
            match self.encoding {
                LoadEncoding::Json => self.send("{}").await?,
                LoadEncoding::Protobuf => self.send([0]).await?,
            }
        }
        Ok(seen)
    }

    /// Whether only whole messages have been read so far.
    pub(super) fn is_between_frames(&self) -> bool {
        self.frames.is_between_frames()
    }

    /// Reads until `answer` appears, and returns everything up to the end of the frame it is in. An error reply is an
    /// error here.
    pub(super) async fn expect(&mut self, answer: impl Into<Answer<'_>>) -> Result<String> {
        let answer = answer.into();
        let reading = async {
            let mut received = Vec::new();
            loop {
                self.read_with(|segment| received.extend_from_slice(segment)).await?;
                if self.frames.is_between_frames() && answer.is_in(&received)? {
                    return Ok(String::from_utf8_lossy(&received).into_owned());
                }
            }
        };
        timeout(TIMEOUT, reading).await.with_context(|| format!("no {answer:?} came"))?
    }

    /// Reads until `marks` marks have arrived.
    pub(super) async fn expect_marks(&mut self, marks: u32) -> Result<()> {
        let mut seen = 0;
        let mut text = Vec::new();
        let reading = async {
            while seen < marks {
                seen += self.read_with(|segment| text.extend_from_slice(segment)).await?.marks;
            }
            Ok::<(), anyhow::Error>(())
        };
        let ended = timeout(TIMEOUT, reading).await;
        let progress = || format!("{seen} of {marks} entries came: {}", String::from_utf8_lossy(&text));
        ended.with_context(progress)?.with_context(progress)?;
        ensure!(seen == marks, progress());
        Ok(())
    }
}

/// The next source address.
fn source() -> SocketAddr {
    static OPENED: AtomicU32 = AtomicU32::new(0);
    let block = OPENED.fetch_add(1, Ordering::Relaxed) / CONNECTIONS_PER_ADDRESS;
    let host = block % (250 * 250);
    let ip = Ipv4Addr::new(127, 0, 1 + (host / 250) as u8, 1 + (host % 250) as u8);
    SocketAddr::new(IpAddr::V4(ip), 0)
}

/// Opens a socket for each of `greetings`, sends the greeting, and waits for `answer`. Returns the sockets and the text
/// that each received, in order.
pub(super) async fn open_all(
    target: SocketTarget,
    greetings: &[impl AsRef<[u8]>],
    answer: impl Into<Answer<'_>>,
    bench: &BenchContext,
) -> Result<Vec<(LoadClient, String)>> {
    ensure!(greetings.len() <= MAX_SOCKETS, "more than {MAX_SOCKETS} sockets do not fit into one process");
    let answer = answer.into();
    bench.start_progress(greetings.len());
    stream::iter(greetings)
        .map(|greeting| async move {
            let mut socket = LoadClient::open(target).await?;
            socket.send(greeting).await?;
            let reply = socket.expect(answer).await?;
            bench.bar.inc(1);
            Ok((socket, reply))
        })
        .buffered(MAX_HANDSHAKES)
        .try_collect()
        .await
}
