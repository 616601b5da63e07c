//! An upper bound for any server: the same sockets and the same batching, without a protocol.
//!
//! Each socket has a queue and a waker; all queued messages are fed and flushed once. A client that sends `+` receives
//! `+`, and from then on every message of the other clients. A message is encoded once, and all queues share its bytes.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use futures::task::AtomicWaker;
use futures::{SinkExt as _, StreamExt as _};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, accept_async_with_config};

/// The message with which a socket joins the room.
pub(super) const JOIN: &str = "+";

/// The messages queued for one socket.
#[derive(Default)]
struct FloorOutbox {
    queue: Mutex<VecDeque<Utf8Bytes>>,
    /// The socket's task.
    waker: AtomicWaker,
}

impl FloorOutbox {
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

/// The sockets that joined.
type FloorRoom = Arc<Mutex<Vec<Arc<FloorOutbox>>>>;

/// Accepts connections until the process ends.
async fn serve(listener: TcpListener) -> Result<()> {
    let room = FloorRoom::default();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let room = Arc::clone(&room);
        tokio::spawn(async move {
            let outbox = Arc::new(FloorOutbox::default());
            // A socket that fails is dropped; the client notices it on its side.
            let _gone = converse(stream, &room, &outbox).await;
            room.lock().retain(|other| !Arc::ptr_eq(other, &outbox));
        });
    }
}

async fn converse(stream: TcpStream, room: &FloorRoom, outbox: &Arc<FloorOutbox>) -> Result<(), Error> {
    let config = WebSocketConfig::default().read_buffer_size(1024).write_buffer_size(4096);
    let mut socket = accept_async_with_config(stream, Some(config)).await?;
    let mut batch = VecDeque::new();
    loop {
        tokio::select! {
            biased;
            () = poll_fn(|context| outbox.poll_take(context, &mut batch)) => deliver(&mut socket, &mut batch).await?,
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) if text.as_str() == JOIN => {
                    room.lock().push(Arc::clone(outbox));
                    outbox.push(text);
                }
                Some(Ok(Message::Text(text))) => {
                    for listener in room.lock().iter() {
                        listener.push(text.clone());
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            },
        }
    }
}

/// Feeds all queued messages and flushes once.
async fn deliver(socket: &mut WebSocketStream<TcpStream>, batch: &mut VecDeque<Utf8Bytes>) -> Result<(), Error> {
    for message in batch.drain(..) {
        socket.feed(Message::Text(message)).await?;
    }
    socket.flush().await
}

/// Runs the floor in this process until its standard input ends, which happens when the parent process ends.
pub(super) async fn run(listen: SocketAddr) -> Result<()> {
    let listener = bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
    let (ended, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || ended.send(std::io::copy(&mut std::io::stdin(), &mut std::io::sink())));
    tokio::select! {
        served = serve(listener) => served,
        _ = end => Ok(()),
    }
}

fn bind(listen: SocketAddr) -> Result<TcpListener> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    Ok(socket.listen(4096)?)
}
