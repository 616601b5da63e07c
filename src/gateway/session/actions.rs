//! Actions: the steps that the connection executes for a command. Questions to the application's backend are actions,
//! too; their answers come back to the session.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::HeaderMap;
use bytes::Bytes;
use serde_json::value::RawValue;

use super::hook_expiries::ExpiryTarget;
use super::subscription_table::DroppedSubscription;
use crate::auth::{KeyLookup, MissingKey, TokenIdentity};
use crate::broker::Span;
use crate::gateway::channels::ResolvedChannel;
use crate::gateway::channels::join::Join;
use crate::hooks::{ConnectAnswer, HookAnswer, HookFailure, PublishAnswer, RefreshAnswer, SubscribeAnswer};
use crate::model::{Channel, UserId};
use crate::protocol::{ClientInfo, Command, ConnectRequest, Disconnect, Reply, SubscribeRequest};

/// The action for a command.
#[derive(Debug)]
pub enum Action {
    /// Do nothing.
    Nothing,
    /// Send this reply.
    Reply(Reply),
    /// Close the connection.
    Close(Disconnect),
    /// Ask the application's backend, then call `hook_answers::answered`.
    Ask(Box<(HookSubject, HookQuestion)>),
    /// Wait for the key of a token, then call `key_wait::resume`.
    AwaitKey(Box<KeyWait>),
    /// End the subscription to a channel because it expired.
    Expire(Arc<str>),
    /// Join the client to its channels, then call [`opened`](super::Session::opened).
    Open(ConnectGrant),
    /// Join the client to a channel, then call [`joined`](super::Session::joined).
    Join(Join),
    /// Join the client to a channel for a backend, then call
    /// `server_requests::joined_for_backend`.
    JoinForBackend(Box<ServerJoin>),
    /// Check whether the user may still see these, and end the subscriptions to the others.
    CheckAccess(Box<AccessCheck>),
    /// Remove the client from a channel, then send this reply.
    Leave(Arc<str>, Reply),
    /// Publish, then reply.
    Publish(PublishGrant),
    /// Read the presence of a channel, then reply.
    Presence(PresenceGrant),
    /// Read the log of a channel, then reply.
    History(HistoryGrant),
    /// Run an operation, then reply.
    Rpc(RpcCall),
}

/// A command that waits for a key.
#[derive(Debug)]
pub struct KeyWait {
    command: Command,
    key: MissingKey,
}

/// A command that has waited.
#[derive(Debug)]
pub struct WaitedCommand {
    pub(super) command: Command,
    pub(super) lookup: KeyLookup,
}

impl KeyWait {
    pub(super) fn new(command: Command, key: MissingKey) -> Self {
        Self { command, key }
    }

    /// Waits until the keys are up to date.
    pub async fn wait(self) -> WaitedCommand {
        WaitedCommand { lookup: self.key.wait().await, command: self.command }
    }
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

/// A subscription that a backend makes.
#[derive(Debug)]
pub struct ServerJoin {
    /// The subscription.
    pub join: Join,
    /// Data for the client: JSON.
    pub data: Option<Box<RawValue>>,
}

/// The subscriptions of a user to posts and profiles.
#[derive(Debug)]
pub struct AccessCheck {
    /// The user; `None` of an anonymous client.
    pub user: Option<UserId>,
    /// The channels, by name.
    pub channels: Vec<(Arc<str>, Channel)>,
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
    /// The client, as the publication describes it.
    pub info: ClientInfo,
    /// Whether the log does not keep it.
    pub skip_history: bool,
}

/// What the backend knows of the client of a question.
#[derive(Debug)]
pub struct HookSubject {
    /// The id of the connection.
    pub client: Arc<str>,
    /// The user; `None` for an anonymous client.
    pub user: Option<UserId>,
    /// The client's address.
    pub address: IpAddr,
    /// The `meta` of the connection.
    pub meta: Option<Box<RawValue>>,
    /// The headers that are passed on.
    pub headers: Option<Arc<HeaderMap>>,
}

/// A question.
#[derive(Debug)]
pub enum HookQuestion {
    /// A client without a token connects: the id of the command, and its request.
    Connect(u32, Box<ConnectRequest>),
    /// A client subscribes: the id of the command, and its request.
    Subscribe(u32, Box<SubscribeRequest>),
    /// A client publishes this data.
    Publish(Box<PublishGrant>, Box<RawValue>),
    /// The connection expires.
    Refresh,
    /// The subscription to this channel expires.
    SubRefresh(Arc<str>),
}

/// A question with its answer.
#[derive(Debug)]
pub enum AnsweredHook {
    /// To [`HookQuestion::Connect`].
    Connect(u32, Box<ConnectRequest>, HookOutcome<ConnectAnswer>),
    /// To [`HookQuestion::Subscribe`].
    Subscribe(u32, Box<SubscribeRequest>, HookOutcome<SubscribeAnswer>),
    /// To [`HookQuestion::Publish`].
    Publish(Box<PublishGrant>, HookOutcome<PublishAnswer>),
    /// To [`HookQuestion::Refresh`].
    Refresh(HookOutcome<RefreshAnswer>),
    /// To [`HookQuestion::SubRefresh`].
    SubRefresh(Arc<str>, HookOutcome<RefreshAnswer>),
}

/// The answer of the backend, or why there is none.
pub type HookOutcome<T> = Result<HookAnswer<T>, HookFailure>;

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
    /// The `meta` of the connection, and the headers that are passed on, if the application's backend is asked for
    /// methods.
    pub meta: Option<Box<RawValue>>,
    /// See [`meta`](Self::meta).
    pub headers: Option<Arc<HeaderMap>>,
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
    Expired(DroppedSubscription),
    /// Call `hook_answers::ask_about`, and execute the action once no command is running.
    Ask(ExpiryTarget),
}
