//! What backends ask of the connections of clients, and of nodes. Nodes send it to each other as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::SubscribeOverride;

/// The connections that a request is for: those that match all of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionSelector {
    /// The user; empty: anonymous clients.
    pub user: String,
    /// Only this client; empty: every client.
    pub client: String,
    /// Only clients with this session: the `jti` of their token, or the session of their transport; empty: every
    /// session.
    pub session: String,
}

/// Connections that a backend closes, and the close code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisconnectRequest {
    /// The connections.
    #[serde(flatten)]
    pub connections: ConnectionSelector,
    /// The ids of clients that stay connected.
    #[serde(default)]
    pub whitelist: Vec<String>,
    /// The close code of the WebSocket.
    pub code: u16,
    /// The close reason, for the client's logs.
    pub reason: String,
}

/// A channel that a backend subscribes connections to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerSubscription {
    /// The connections.
    #[serde(flatten)]
    pub connections: ConnectionSelector,
    /// The channel.
    pub channel: String,
    /// What other subscribers see of the client in this channel: JSON; empty: nothing.
    pub info: String,
    /// Data for the client, sent with the subscription: JSON; empty: none.
    pub data: String,
    /// The offset and the epoch after which the client receives what it missed.
    pub recover: Option<(u64, String)>,
    /// When the subscription expires, in Unix seconds; `None`: never.
    pub expire_at: Option<u64>,
    /// Replaces options of the namespace.
    #[serde(rename = "override")]
    pub replaced: SubscribeOverride,
}

/// A subscription that a backend ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnsubscribeRequest {
    /// The connections.
    #[serde(flatten)]
    pub connections: ConnectionSelector,
    /// The channel; empty: all channels except the user's own timeline and notifications.
    pub channel: String,
}

/// A new expiry of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RefreshRequest {
    /// The connections.
    #[serde(flatten)]
    pub connections: ConnectionSelector,
    /// Whether the connections expire now.
    pub expired: bool,
    /// When the connections expire, in Unix seconds; `None`: never.
    pub expire_at: Option<u64>,
    /// What other subscribers see of the client from its next subscription on: JSON; empty: as before.
    pub info: String,
}

/// A question to all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeQuestion {
    /// What the node is and serves.
    Info,
    /// The channels with subscribers whose names match a pattern; empty: all.
    Channels(String),
}

/// The answer of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeAnswer {
    /// To [`NodeQuestion::Info`].
    Info(NodeInfo),
    /// To [`NodeQuestion::Channels`]: the subscribers of each channel on this node.
    Channels(BTreeMap<String, u64>),
}

/// A node, and what it serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeInfo {
    /// Identifies the process.
    pub uid: String,
    /// The host and the port, for people.
    pub name: String,
    /// The version of the server.
    pub version: String,
    /// Connections.
    pub clients: u64,
    /// Signed-in users with a connection.
    pub users: u64,
    /// Channels with subscribers.
    pub channels: u64,
    /// Subscriptions.
    pub subscriptions: u64,
    /// Seconds since the start.
    pub uptime: u64,
    /// The CPU time since the start, in milliseconds.
    pub cpu_millis: u64,
    /// The resident memory, in bytes.
    pub memory: u64,
}
