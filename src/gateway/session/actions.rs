//! Actions: what the connection does for a command that the session grants or refuses.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::auth::TokenIdentity;
use crate::broker::Span;
use crate::gateway::channels::ResolvedChannel;
use crate::gateway::join::Join;
use crate::model::UserId;
use crate::protocol::Disconnect;

/// The action for a command.
#[derive(Debug)]
pub enum Action {
    /// None.
    Nothing,
    /// Send this reply.
    Reply(Bytes),
    /// Close the connection.
    Close(Disconnect),
    /// Join the client to its channels, then call [`opened`](super::Session::opened).
    Open(ConnectGrant),
    /// Join the client to a channel, then call [`joined`](super::Session::joined).
    Join(Join),
    /// Remove the client from a channel, then send this reply.
    Leave(Arc<str>, Bytes),
    /// Publish, then reply.
    Publish(PublishGrant),
    /// Read the presence of a channel, then reply.
    Presence(PresenceGrant),
    /// Read the log of a channel, then reply.
    History(HistoryGrant),
    /// Run an operation, then reply.
    Rpc(RpcCall),
}

/// A `connect` command that the session grants.
#[derive(Debug)]
pub struct ConnectGrant {
    /// The command's id.
    pub id: u32,
    /// The user; `None` of an anonymous client.
    pub user: Option<UserId>,
    /// The connect token; `None` of an anonymous client.
    pub token: Option<Arc<TokenIdentity>>,
    /// The connection's id.
    pub client: Arc<str>,
    /// The server-side subscriptions.
    pub joins: Vec<Join>,
}

/// A `publish` command that the session grants.
#[derive(Debug)]
pub struct PublishGrant {
    /// The command's id.
    pub id: u32,
    /// The user; `None` of an anonymous client.
    pub user: Option<UserId>,
    /// The client's address: publications are counted by it.
    pub address: IpAddr,
    /// The channel's name.
    pub name: String,
    /// The channel.
    pub channel: ResolvedChannel,
    /// The members of the publication, as JSON without the braces.
    pub members: Bytes,
}

/// A `presence` or `presence_stats` command that the session grants.
#[derive(Debug)]
pub struct PresenceGrant {
    /// The command's id.
    pub id: u32,
    /// The user; `None` of an anonymous client.
    pub user: Option<UserId>,
    /// The client's address: reads are counted by it.
    pub address: IpAddr,
    /// The channel's name.
    pub name: String,
    /// Which of the two commands.
    pub query: PresenceQuery,
}

/// What is read of a channel's presence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresenceQuery {
    /// The clients.
    Clients,
    /// The number of clients and of users.
    Stats,
}

/// A `history` command that the session grants.
#[derive(Debug)]
pub struct HistoryGrant {
    /// The command's id.
    pub id: u32,
    /// The user; `None` of an anonymous client.
    pub user: Option<UserId>,
    /// The client's address: reads are counted by it.
    pub address: IpAddr,
    /// The channel's name.
    pub name: String,
    /// The channel.
    pub channel: ResolvedChannel,
    /// The part of the log; with a limit of 0 only the position is read.
    pub span: Span,
    /// The epoch that the log must have, if the client named one.
    pub epoch: Option<String>,
}

/// An `rpc` command: an operation to run.
#[derive(Debug)]
pub struct RpcCall {
    /// The command's id.
    pub id: u32,
    /// The user; `None` of an anonymous client.
    pub user: Option<UserId>,
    /// The token of the connection; `None` of an anonymous client.
    pub token: Option<Arc<TokenIdentity>>,
    /// The connection's id: it is informed when its likes are settled.
    pub client: Arc<str>,
    /// The client's address.
    pub address: IpAddr,
    /// The name of the operation.
    pub method: String,
    /// The input of the operation.
    pub data: Option<Box<RawValue>>,
}

/// What is due because time has passed.
#[derive(Debug, PartialEq, Eq)]
pub enum DueAction {
    /// Send a ping.
    Ping,
    /// Close the connection.
    Close(Disconnect),
    /// A subscription expired: remove the client from the channel and inform it.
    Expired(Arc<str>),
}
