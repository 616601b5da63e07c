//! Actions: the steps that the connection executes for a command.

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
    /// Do nothing.
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
    /// The id of the command.
    pub id: u32,
    /// The user; `None` for an anonymous client.
    pub user: Option<UserId>,
    /// The connect token; `None` for an anonymous client.
    pub token: Option<Arc<TokenIdentity>>,
    /// The id of the connection.
    pub client: Arc<str>,
    /// The server-side subscriptions.
    pub joins: Vec<Join>,
}

/// A `publish` command that the session grants.
#[derive(Debug)]
pub struct PublishGrant {
    /// The id of the command.
    pub id: u32,
    /// The user; `None` for an anonymous client.
    pub user: Option<UserId>,
    /// The address of the client, by which publications of anonymous clients are counted.
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
    /// The id of the command.
    pub id: u32,
    /// The user; `None` for an anonymous client.
    pub user: Option<UserId>,
    /// The address of the client, by which reads of anonymous clients are counted.
    pub address: IpAddr,
    /// The channel's name.
    pub name: String,
    /// The requested data.
    pub query: PresenceQuery,
}

/// The data to read from a channel's presence.
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
    /// The id of the command.
    pub id: u32,
    /// The user; `None` for an anonymous client.
    pub user: Option<UserId>,
    /// The address of the client, by which reads of anonymous clients are counted.
    pub address: IpAddr,
    /// The channel's name.
    pub name: String,
    /// The channel.
    pub channel: ResolvedChannel,
    /// The part of the log to read. With a limit of 0, only the position is read.
    pub span: Span,
    /// The epoch that the log must have, if the client named one.
    pub epoch: Option<String>,
}

/// An `rpc` command: an operation to run.
#[derive(Debug)]
pub struct RpcCall {
    /// The id of the command.
    pub id: u32,
    /// The user; `None` for an anonymous client.
    pub user: Option<UserId>,
    /// The token of the connection; `None` for an anonymous client.
    pub token: Option<Arc<TokenIdentity>>,
    /// The id of the connection, which receives an event when its likes are settled.
    pub client: Arc<str>,
    /// The address of the client.
    pub address: IpAddr,
    /// The name of the operation.
    pub method: String,
    /// The input of the operation.
    pub data: Option<Box<RawValue>>,
}

/// An action that is due because time has passed.
#[derive(Debug, PartialEq, Eq)]
pub enum DueAction {
    /// Send a ping.
    Ping,
    /// Close the connection.
    Close(Disconnect),
    /// Remove the client from the channel, because the subscription expired, and notify it.
    Expired(Arc<str>),
}
