//! The outcomes of commands that take time.

use std::sync::Arc;

use super::presence_tracker::Subscriber;
use crate::feed::FeedError;
use crate::gateway::channels::join::{Join, Joined};
use crate::gateway::registry::sockets::Registration;
use crate::gateway::session::{AnsweredHook, ServerJoin, WaitedCommand};
use crate::model::UserId;
use crate::protocol::{Disconnect, ErrorCode, Reply, ReplyBody};

/// A client that is connected.
pub(crate) struct OpenedConnection {
    /// The id of its `connect` command.
    pub(crate) id: u32,
    /// The user with the id as first written; `None` for an anonymous client.
    pub(crate) user: Option<UserId>,
    pub(crate) registration: Registration,
    /// Its channels.
    pub(crate) joined: Vec<(Join, Subscriber, Joined)>,
}

/// The outcome of a command.
pub(crate) enum CommandOutcome {
    /// Send this reply.
    Reply(Reply),
    /// The client is connected, and in its channels.
    Opened(Box<OpenedConnection>),
    /// The client may not connect: close the connection.
    Rejected(Disconnect),
    /// The client could not join its channels; it may connect again. The id of its `connect` command.
    NotOpened(u32),
    /// The client is in the channel.
    Joined(Box<Join>, Subscriber, Joined),
    /// The client is in the channel, to which a backend subscribed it.
    JoinedForBackend(Box<ServerJoin>, Subscriber, Joined),
    /// The application's backend has answered, or has not.
    Answered(Box<AnsweredHook>),
    /// The key of the command's token is fetched, or could not be.
    KeyAwaited(Box<WaitedCommand>),
    /// The user cannot see the posts and profiles of these channels any more.
    AccessLost(Vec<Arc<str>>),
    /// The client could not join the channel to which a backend subscribed it.
    NotJoined,
}

impl CommandOutcome {
    /// The command succeeded.
    pub(crate) fn done(id: u32, body: ReplyBody) -> Self {
        Self::Reply(Reply::done(id, body))
    }

    /// The reply is this error.
    pub(crate) fn refused(id: u32, code: ErrorCode) -> Self {
        Self::Reply(Reply::refused(id, code))
    }

    /// The command failed.
    pub(crate) fn failed(id: u32, error: &FeedError) -> Self {
        tracing::debug!(%error, "a command failed");
        match error {
            FeedError::RateLimited { .. } => Self::refused(id, ErrorCode::TOO_MANY_REQUESTS),
            _ => Self::refused(id, ErrorCode::INTERNAL),
        }
    }
}
