//! What all nodes serve: `channels` and `info`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{Answer, failed, read};
use super::context::ServerApi;
use crate::broker::NodeInfo;
use crate::gateway::ChannelPattern;
use crate::model::canonical_name;
use crate::protocol::ErrorCode;

/// The channels to list.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ChannelsRequest")]
pub(super) struct ChannelsInput {
    /// A pattern of names: `*` for any characters, `?` for one, `[a-z]` for one of a set. Empty or absent: all.
    #[serde(default)]
    pattern: String,
}

/// The channels with subscribers, of each node at most 10,000.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChannelsResult")]
pub(super) struct ChannelsOutput {
    /// The channels by name.
    channels: BTreeMap<String, ChannelDescription>,
}

/// A channel with subscribers.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChannelInfo")]
struct ChannelDescription {
    /// The number of connections that are subscribed.
    num_clients: u64,
}

/// All nodes that answered within a second.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "InfoResult")]
pub(super) struct InfoOutput {
    /// The nodes, by name.
    nodes: Vec<NodeDescription>,
}

/// A node.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Node")]
struct NodeDescription {
    /// Identifies the process.
    uid: String,
    /// The host and the port.
    name: String,
    /// The version of the server.
    version: String,
    /// The number of connections.
    num_clients: u64,
    /// The number of signed-in users with a connection.
    num_users: u64,
    /// The number of channels with subscribers.
    num_channels: u64,
    /// The number of subscriptions.
    num_subs: u64,
    /// Seconds since the start.
    uptime: u64,
    /// What the process uses.
    process: ProcessDescription,
}

/// What a process uses.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NodeProcess")]
struct ProcessDescription {
    /// The average use of CPUs since the start, in percent of one CPU.
    cpu: f64,
    /// The resident memory, in bytes.
    rss: u64,
}

impl From<NodeInfo> for NodeDescription {
    fn from(info: NodeInfo) -> Self {
        Self {
            uid: info.uid,
            name: info.name,
            version: info.version,
            num_clients: info.clients,
            num_users: info.users,
            num_channels: info.channels,
            num_subs: info.subscriptions,
            uptime: info.uptime,
            process: ProcessDescription {
                // Milliseconds of a second are a tenth of a percent.
                cpu: info.cpu_millis as f64 / info.uptime.max(1) as f64 / 10.0,
                rss: info.memory,
            },
        }
    }
}

pub(super) async fn channels(api: &ServerApi, body: &[u8]) -> Answer {
    let ChannelsInput { pattern } = read(body)?;
    let pattern = canonical_name(&pattern);
    if ChannelPattern::parse(&pattern).is_none() {
        return Err(ErrorCode::BAD_REQUEST);
    }
    let found = api.nodes.channels(&pattern).await.map_err(|error| failed(&error))?;
    let channels = found.into_iter().map(|(name, num_clients)| (name, ChannelDescription { num_clients })).collect();
    serde_json::to_value(ChannelsOutput { channels }).map_err(|_| ErrorCode::INTERNAL)
}

pub(super) async fn info(api: &ServerApi) -> Answer {
    let nodes = api.nodes.nodes().await.map_err(|error| failed(&error))?;
    let nodes = nodes.into_iter().map(NodeDescription::from).collect();
    serde_json::to_value(InfoOutput { nodes }).map_err(|_| ErrorCode::INTERNAL)
}
