//! A client's socket of messages, over any transport.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::{Sink, SinkExt, Stream, StreamExt};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::stream_socket::StreamSocket;
use crate::unidirectional::UniSocket;

/// A socket.
pub enum Socket {
    /// A WebSocket.
    WebSocket(Box<WebSocketStream<TcpStream>>),
    /// A WebSocket that only receives.
    UniWebSocket(UniSocket),
    /// An HTTP stream, or SSE.
    Stream(StreamSocket),
}

impl Socket {
    /// The WebSocket.
    pub fn websocket(&mut self) -> &mut WebSocketStream<TcpStream> {
        match self {
            Self::WebSocket(socket) => socket,
            Self::UniWebSocket(_) | Self::Stream(_) => panic!("this client has another transport"),
        }
    }
}

impl Stream for Socket {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut *self {
            Self::WebSocket(socket) => socket.poll_next_unpin(cx),
            Self::UniWebSocket(socket) => socket.poll_next_unpin(cx),
            Self::Stream(stream) => stream.poll_next_unpin(cx),
        }
    }
}

impl Sink<Message> for Socket {
    type Error = Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match &mut *self {
            Self::WebSocket(socket) | Self::UniWebSocket(UniSocket(socket)) => socket.poll_ready_unpin(cx),
            Self::Stream(_) => Poll::Ready(Ok(())),
        }
    }

    fn start_send(mut self: Pin<&mut Self>, message: Message) -> Result<(), Error> {
        match &mut *self {
            Self::WebSocket(socket) => socket.start_send_unpin(message),
            Self::UniWebSocket(socket) => socket.start_send(&message),
            Self::Stream(stream) => {
                stream.send(message);
                Ok(())
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match &mut *self {
            Self::WebSocket(socket) | Self::UniWebSocket(UniSocket(socket)) => socket.poll_flush_unpin(cx),
            Self::Stream(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if let Self::WebSocket(socket) | Self::UniWebSocket(UniSocket(socket)) = &mut *self {
            ready!(socket.poll_close_unpin(cx))?;
        }
        Poll::Ready(Ok(()))
    }
}
