//! An upper bound for any server: the same sockets and the same batching, without a protocol.
//!
//! Each socket has a queue and a waker; all queued messages are fed and flushed once. A client that sends `+` receives
//! `+`, and from then on every message of the other clients. The authors that it follows may be named after the `+`.
//! A message is encoded once, and all queues share its bytes.
//!
//! Publishers may use HTTP on the same port. The body is the message: `POST /publish` queues it for every socket,
//! `POST /posts/<author>` for the followers of an author; other paths only answer.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures::task::AtomicWaker;
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime;
use tokio_tungstenite::accept_async_with_config;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// The message with which a socket joins the room, and the reply to it.
pub(super) const JOIN: &str = "+";
/// The author that every socket follows.
const ALL: &str = "";
/// The path of publications to every socket.
pub(super) const PUBLISH: &str = "/publish";
/// The path of an author's posts, before the author.
pub(super) const POSTS: &str = "/posts/";

/// Runs the floor in this process until its standard input ends, which happens when the parent process ends. It has one
/// thread for each core; on a single core the single-threaded runtime, which is faster there.
pub(super) fn run(listen: SocketAddr) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut builder =
        if cores == 1 { runtime::Builder::new_current_thread() } else { runtime::Builder::new_multi_thread() };
    builder.enable_all().build()?.block_on(async {
        let listener = bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
        let (ended, end) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || ended.send(std::io::copy(&mut std::io::stdin(), &mut std::io::sink())));
        tokio::select! {
            served = serve(listener) => served,
            _ = end => Ok(()),
        }
    })
}

fn bind(listen: SocketAddr) -> Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    Ok(socket.listen(4096)?)
}

/// Accepts connections until the process ends.
async fn serve(listener: TcpListener) -> Result<()> {
    let room = Arc::<FloorRoom>::default();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let room = Arc::clone(&room);
        tokio::spawn(async move {
            // A connection that fails is dropped; the client notices it on its side.
            let _gone = converse(stream, &room).await;
        });
    }
}

/// Serves a connection: HTTP for a publisher, which begins with `POST`, otherwise a WebSocket.
async fn converse(stream: TcpStream, room: &Arc<FloorRoom>) -> Result<()> {
    let mut first = [0];
    stream.peek(&mut first).await?;
    if &first == b"P" {
        let service = service_fn(|request| {
            let room = Arc::clone(room);
            async move { Ok::<_, Infallible>(answer(request, &room).await) }
        });
        return Ok(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await?);
    }
    let outbox = Arc::new(FloorOutbox::default());
    let config = WebSocketConfig::default().read_buffer_size(1024).write_buffer_size(4096);
    let mut socket = accept_async_with_config(stream, Some(config)).await?;
    let mut batch = VecDeque::new();
    loop {
        tokio::select! {
            biased;
            () = poll_fn(|context| outbox.poll_take(context, &mut batch)) => {
                for message in batch.drain(..) {
                    socket.feed(Message::Text(message)).await?;
                }
                socket.flush().await?;
            }
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => match text.strip_prefix(JOIN) {
                    Some(authors) => {
                        room.join(&outbox, authors);
                        outbox.push(JOIN.into());
                    }
                    None => room.post(ALL, &text),
                },
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(()),
            },
        }
    }
}

async fn answer(request: Request<Incoming>, room: &FloorRoom) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let message = body.collect().await.ok().and_then(|body| Utf8Bytes::try_from(body.to_bytes()).ok());
    let mut response = Response::new(Full::new(Bytes::from_static(b"{}")));
    match message {
        None => *response.status_mut() = StatusCode::BAD_REQUEST,
        Some(message) if parts.uri.path() == PUBLISH => room.post(ALL, &message),
        Some(message) => {
            if let Some(author) = parts.uri.path().strip_prefix(POSTS) {
                room.post(author, &message);
            }
        }
    }
    response
}

/// The messages queued for one socket.
#[derive(Default)]
struct FloorOutbox {
    queue: Mutex<VecDeque<Utf8Bytes>>,
    /// The socket's task.
    waker: AtomicWaker,
}

impl FloorOutbox {
    /// Queues a message and wakes the socket's task.
    fn push(&self, message: Utf8Bytes) {
        self.queue.lock().push_back(message);
        self.waker.wake();
    }

    /// Swaps all queued messages into `batch`, which is empty.
    fn poll_take(&self, context: &Context<'_>, batch: &mut VecDeque<Utf8Bytes>) -> Poll<()> {
        self.waker.register(context.waker());
        let mut queue = self.queue.lock();
        if queue.is_empty() {
            return Poll::Pending;
        }
        std::mem::swap(&mut *queue, batch);
        Poll::Ready(())
    }
}

/// The sockets that follow each author, and [`ALL`]. They stay until the floor ends.
#[derive(Default)]
struct FloorRoom(Mutex<HashMap<String, Vec<Arc<FloorOutbox>>>>);

impl FloorRoom {
    /// Adds a socket. `authors` are the authors it follows, separated by spaces.
    fn join(&self, outbox: &Arc<FloorOutbox>, authors: &str) {
        let mut followers = self.0.lock();
        for author in authors.split_whitespace().chain([ALL]) {
            followers.entry(author.to_owned()).or_default().push(Arc::clone(outbox));
        }
    }

    /// Queues a message for the followers of an author.
    fn post(&self, author: &str, message: &Utf8Bytes) {
        for follower in self.0.lock().get(author).into_iter().flatten() {
            follower.push(message.clone());
        }
    }
}
