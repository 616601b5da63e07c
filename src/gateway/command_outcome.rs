//! The outcomes of commands that take time.

use bytes::Bytes;

use super::join::{Join, Joined};
use super::presence::Subscriber;
use super::sockets::Registration;
use crate::feed::FeedError;
use crate::protocol::{Disconnect, ErrorCode, reply_error};

/// The outcome of a command.
pub(super) enum CommandOutcome {
    /// Send this reply.
    Reply(Bytes),
    /// The client is connected, and in its channels: the id of its `connect` command.
    Opened(u32, Registration, Vec<(Join, Subscriber, Joined)>),
    /// The client may not connect: close the connection.
    Rejected(Disconnect),
    /// The client could not join its channels; it may connect again. The id of its `connect` command.
    NotOpened(u32),
    /// The client is in the channel.
    Joined(Box<Join>, Subscriber, Joined),
}

impl CommandOutcome {
    /// The reply is this error.
    pub(super) fn refused(id: u32, code: ErrorCode) -> Self {
        Self::Reply(reply_error(id, code, None, None))
    }

    /// The command failed.
    pub(super) fn failed(id: u32, error: &FeedError) -> Self {
        tracing::debug!(%error, "a command failed");
        match error {
            FeedError::RateLimited { .. } => Self::refused(id, ErrorCode::TOO_MANY_REQUESTS),
            _ => Self::refused(id, ErrorCode::INTERNAL),
        }
    }
}
