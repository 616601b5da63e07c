//! The transport HTTP stream: the body of a response that ends with the connection.
//!
//! The head of the response is written as the first frame. The body has no length and no chunks: it ends when the
//! server closes the stream, as `Connection: close` says. So messages have the same bytes for every stream of a
//! format, and the HTTP library, with its buffers, takes no part.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

use super::connection_end::ConnectionEnd;
use super::frame_writer::FrameWriter;
use super::incoming::Incoming;
use super::stream_inbox::StreamInbox;
use super::stream_sessions::{StreamName, StreamSession};
use crate::gateway::wire::framed::Framed;
use crate::gateway::wire::message_codec::{FrameData, decode};
use crate::gateway::wire::message_format::MessageFormat;
use crate::net::ClientStream;
use crate::protocol::{Disconnect, EmulatedData};

/// Bytes that are read at once of a client that sends something on its stream.
const DISCARDED: usize = 512;

/// A client's stream.
#[derive(Debug)]
pub(crate) struct StreamTransport {
    stream: ClientStream,
    writer: FrameWriter,
    session: StreamSession,
    inbox: Arc<StreamInbox>,
}

impl StreamTransport {
    pub(crate) fn new(stream: ClientStream, session: StreamSession) -> Self {
        let inbox = Arc::clone(session.inbox());
        Self { stream, writer: FrameWriter::default(), session, inbox }
    }

    pub(crate) fn name(&self) -> &StreamName {
        self.session.name()
    }

    /// Polls for commands that the client sent in other requests, and for the end of the stream.
    pub(crate) fn poll_incoming(
        &mut self,
        format: MessageFormat,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Incoming, ConnectionEnd>> {
        match self.inbox.poll_take(cx) {
            Poll::Ready(Ok(data)) => {
                let frame = match &data {
                    EmulatedData::Text(text) => FrameData::Text(text),
                    EmulatedData::Binary(bytes) => FrameData::Binary(bytes),
                };
                return Poll::Ready(decode(format, frame).map(Incoming::Commands).map_err(ConnectionEnd::Close));
            }
            Poll::Ready(Err(_)) => return Poll::Ready(Err(ConnectionEnd::Close(Disconnect::TOO_MANY_REQUESTS))),
            Poll::Pending => {}
        }
        loop {
            let mut bytes = [0; DISCARDED];
            let mut discarded = ReadBuf::new(&mut bytes);
            let is_read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut discarded)).is_ok();
            if !is_read || discarded.filled().is_empty() {
                return Poll::Ready(Err(ConnectionEnd::Gone));
            }
            // Whatever a client sends here belongs to no request: its request was complete.
        }
    }

    /// Writes as many `frames` as the kernel accepts without blocking, and removes those that were written.
    pub(crate) fn try_write(&mut self, frames: &mut VecDeque<Framed>) -> io::Result<()> {
        self.writer.try_write(&mut self.stream, frames)
    }

    /// Writes all `frames`, without a time limit. If it is cancelled, a frame may be partly written; then the stream
    /// can only be dropped, see [`close`](Self::close).
    pub(crate) async fn write(&mut self, frames: &mut VecDeque<Framed>) -> io::Result<()> {
        while !frames.is_empty() {
            self.stream.writable().await?;
            self.try_write(frames)?;
        }
        Ok(())
    }

    /// Sends a last message, unless another one is partly written, and ends the body.
    pub(crate) async fn close(&mut self, last: Option<Framed>) {
        let is_inside = self.writer.is_inside_frame() || self.stream.has_unsent();
        if !is_inside && self.write(&mut last.into_iter().collect()).await.is_ok() {
            // An error means that the client has closed the stream.
            let _ = self.stream.shutdown().await;
        }
    }
}
