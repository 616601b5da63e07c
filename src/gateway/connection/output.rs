//! What a connection writes: replies, then all that its outbox holds, and its end.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::gateway::session::{Action, PingKind};
use crate::gateway::transport::Transport;
use crate::gateway::transport::connection_end::ConnectionEnd;
use crate::gateway::wire::framed::Framed;
use crate::gateway::wire::message_codec::{frame_end, frame_ping, frame_push, frame_reply};
use crate::gateway::wire::message_format::MessageFormat;
use crate::gateway::wire::outbox::Outbox;
use crate::gateway::wire::spare_queues;
use crate::protocol::{Disconnect, Push, PushEvent, Reply, ReplyBody};

/// How long the end of a connection may take: the last message, and the close handshake of a WebSocket.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The transport of a connection with the frames that wait for it.
pub(crate) struct ConnectionOutput {
    pub(crate) transport: Transport,
    pub(crate) outbox: Arc<Outbox>,
    /// Frames to write: replies first, then those of the outbox. Without capacity while it is empty.
    frames: VecDeque<Framed>,
}

impl ConnectionOutput {
    pub(crate) fn new(transport: Transport, outbox: Arc<Outbox>) -> Self {
        Self { transport, outbox, frames: VecDeque::new() }
    }

    pub(crate) fn format(&self) -> MessageFormat {
        self.outbox.format()
    }

    /// Whether nothing waits to be written, besides the outbox.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Adds a frame.
    pub(crate) fn add(&mut self, frame: Framed) {
        if self.frames.capacity() == 0 {
            self.frames = spare_queues::take_frames();
        }
        self.frames.push_back(frame);
    }

    /// Adds a reply.
    pub(crate) fn reply(&mut self, reply: Reply) {
        self.add(frame_reply(self.format(), reply));
    }

    /// Adds a push to this client alone.
    pub(crate) fn push(&mut self, channel: &str, event: PushEvent<'_>) {
        self.add(frame_push(self.format(), &Push { channel, event }));
    }

    /// Adds a ping.
    pub(crate) fn ping(&mut self, kind: PingKind) {
        self.add(frame_ping(self.format(), kind));
    }

    /// Adds to the reply to `connect` of a stream where its client sends commands.
    pub(crate) fn name_stream(&self, action: &mut Action) {
        if let Some(name) = self.transport.stream_name()
            && let Action::Reply(reply) = action
            && let Ok(ReplyBody::Connect(connected)) = &mut reply.result
        {
            (connected.session, connected.node) = (name.session.to_string(), name.node.to_string());
        }
    }

    /// Writes all frames. `end`: the close code, if the client must be closed after them.
    pub(crate) async fn write(
        &mut self,
        end: Option<Disconnect>,
        write_timeout: Duration,
    ) -> Result<(), ConnectionEnd> {
        if !self.frames.is_empty() {
            self.transport.try_write(&mut self.frames).map_err(|_| ConnectionEnd::Gone)?;
            if !self.frames.is_empty() {
                Box::pin(self.write_slowly(end.clone(), write_timeout)).await?;
            }
            spare_queues::keep_frames(std::mem::take(&mut self.frames));
        }
        end.map_or(Ok(()), |why| Err(ConnectionEnd::Close(why)))
    }

    /// Waits for the client to accept the frames: not longer than `client.write_timeout`, and not past an overflow of
    /// its outbox.
    async fn write_slowly(&mut self, end: Option<Disconnect>, write_timeout: Duration) -> Result<(), ConnectionEnd> {
        let outbox = &self.outbox;
        tokio::select! {
            biased;
            written = timeout(write_timeout, self.transport.write(&mut self.frames)) => match written {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) => Err(ConnectionEnd::Gone),
                Err(_) => Err(ConnectionEnd::Close(end.unwrap_or(Disconnect::WRITE_ERROR))),
            },
            () = poll_fn(|cx| outbox.poll_closed(cx)), if end.is_none() => {
                Err(ConnectionEnd::Close(outbox.take().1.unwrap_or(Disconnect::SLOW)))
            }
        }
    }

    /// Sends the end of the connection, and waits for the client's close frame for a moment.
    pub(crate) async fn close(&mut self, why: &Disconnect) {
        let last = frame_end(self.format(), why);
        let _ = Box::pin(timeout(CLOSE_TIMEOUT, self.transport.close(last, why.code, &why.reason))).await;
    }

    /// Answers the close handshake that the client began.
    pub(crate) async fn answer_close(&mut self) {
        let _ = Box::pin(timeout(CLOSE_TIMEOUT, self.transport.answer_close())).await;
    }
}
