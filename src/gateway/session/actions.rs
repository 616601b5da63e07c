//! What a session answers a command with: what the connection is to do.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::auth::TokenIdentity;
use crate::broker::Span;
use crate::gateway::channels::ResolvedChannel;
use crate::model::UserId;
use crate::protocol::{ClientInfo, Disconnect, Recover};

/// What to do about a command.
#[derive(Debug)]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Say this.
    Reply(Bytes),
    /// Close the connection.
    Close(Disconnect),
    /// Bring the client into its channels, then [`opened`](super::Session::opened).
    Open(Opening),
    /// Bring the client into a channel, then [`joined`](super::Session::joined).
    Join(Join),
    /// Take the client out of a channel, then say this.
    Leave(Arc<str>, Bytes),
    /// Publish, then answer.
    Publish(Publish),
    /// Look who is there, then answer.
    Presence(Look),
    /// Read a log, then answer.
    History(History),
    /// Run an operation, then answer.
    Rpc(Call),
}

/// A connect command that is granted.
#[derive(Debug)]
pub struct Opening {
    /// The command's id.
    pub id: u32,
    /// Who it is; `None` of an anonymous client.
    pub user: Option<UserId>,
    /// The token that says so, if one came.
    pub token: Option<Arc<TokenIdentity>>,
    /// The connection's id.
    pub client: Arc<str>,
    /// The server-side subscriptions.
    pub joins: Vec<Join>,
}

/// A subscription that is granted, as far as the session can tell.
#[derive(Debug)]
pub struct Join {
    /// The command's id; 0 of a server-side one.
    pub id: u32,
    /// The channel.
    pub name: Arc<str>,
    /// What it is.
    pub channel: ResolvedChannel,
    /// Where the client left it.
    pub recover: Recover,
    /// When it ends, in Unix seconds.
    pub expires_at: Option<u64>,
    /// The subscription token, if one came.
    pub token: Option<Arc<TokenIdentity>>,
    /// What others see of the client there, where presence or joins are told.
    pub info: Option<ClientInfo>,
    /// Who comes; `None` of an anonymous client.
    pub user: Option<UserId>,
    /// The client's address.
    pub address: IpAddr,
}

/// A publication that is granted.
#[derive(Debug)]
pub struct Publish {
    /// The command's id.
    pub id: u32,
    /// Who publishes, if they are signed in.
    pub user: Option<UserId>,
    /// From where.
    pub address: IpAddr,
    /// The channel.
    pub name: String,
    /// What it is.
    pub channel: ResolvedChannel,
    /// The publication's members.
    pub members: Bytes,
}

/// A look at who is there.
#[derive(Debug)]
pub struct Look {
    /// The command's id.
    pub id: u32,
    /// Who asks; `None` of an anonymous client.
    pub user: Option<UserId>,
    /// The client's address.
    pub address: IpAddr,
    /// The channel.
    pub name: String,
    /// Only how many.
    pub wants: Wants,
}

/// What is asked of a channel's presence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Who is there.
    Clients,
    /// How many are there.
    Counts,
}

/// A look at what was said.
#[derive(Debug)]
pub struct History {
    /// The command's id.
    pub id: u32,
    /// Who asks; `None` of an anonymous client.
    pub user: Option<UserId>,
    /// The client's address.
    pub address: IpAddr,
    /// The channel.
    pub name: String,
    /// What it is.
    pub channel: ResolvedChannel,
    /// Which part; with a limit of 0 only the position is asked for.
    pub span: Span,
    /// The life of the log that it is asked of, if any.
    pub epoch: Option<String>,
}

/// An operation to be run.
#[derive(Debug)]
pub struct Call {
    /// The command's id.
    pub id: u32,
    /// Who asks.
    pub user: Option<UserId>,
    /// The token that says so, if one came.
    pub token: Option<Arc<TokenIdentity>>,
    /// The connection's id.
    pub client: Arc<str>,
    /// The client's address.
    pub address: IpAddr,
    /// Which operation.
    pub method: String,
    /// Its input.
    pub data: Option<Box<RawValue>>,
}

/// What is due because time has passed.
#[derive(Debug, PartialEq, Eq)]
pub enum Due {
    /// Say ping.
    Ping,
    /// Close the connection.
    Close(Disconnect),
    /// A subscription ran out: take the client out of the channel and say so.
    Expired(Arc<str>),
}
