//! An upper bound for any server: the same sockets and the same batching, without a protocol.
//!
//! Each socket has a queue and a waker; all queued messages are fed and flushed once. A client that sends `+` receives
//! `+`, and from then on every message of the other clients. The authors that it follows may be named after the `+`.
//! A message is encoded once, and all queues share its bytes. Publishers may use HTTP on the same port.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use futures::{SinkExt as _, StreamExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, accept_async_with_config};

use super::floor_http;
use super::floor_room::{FloorOutbox, FloorRoom};

/// The message with which a socket joins the room, and the reply to it.
pub(super) const JOIN: &str = "+";

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
        return floor_http::serve(stream, room).await;
    }
    let outbox = Arc::new(FloorOutbox::default());
    let ended = serve_socket(stream, room, &outbox).await;
    room.leave(&outbox);
    ended
}

async fn serve_socket(stream: TcpStream, room: &FloorRoom, outbox: &Arc<FloorOutbox>) -> Result<()> {
    let config = WebSocketConfig::default().read_buffer_size(1024).write_buffer_size(4096);
    let mut socket = accept_async_with_config(stream, Some(config)).await?;
    let mut batch = VecDeque::new();
    loop {
        tokio::select! {
            biased;
            () = poll_fn(|context| outbox.poll_take(context, &mut batch)) => deliver(&mut socket, &mut batch).await?,
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => match text.strip_prefix(JOIN) {
                    Some(authors) => {
                        room.join(outbox, authors);
                        outbox.push(JOIN.into());
                    }
                    None => room.broadcast(&text),
                },
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(()),
            },
        }
    }
}

/// Feeds all queued messages and flushes once.
async fn deliver(socket: &mut WebSocketStream<TcpStream>, batch: &mut VecDeque<Utf8Bytes>) -> Result<()> {
    for message in batch.drain(..) {
        socket.feed(Message::Text(message)).await?;
    }
    Ok(socket.flush().await?)
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
