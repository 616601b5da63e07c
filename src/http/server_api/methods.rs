//! The description of the methods, for the OpenAPI document.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;

use super::access::{BlockUser, Invalidate, RevokeToken, UnblockUser};
use super::channels::{ChannelInput, HistoryInput};
use super::connections::{DisconnectInput, RefreshInput, SubscribeInput, UnsubscribeInput};
use super::nodes::{ChannelsInput, ChannelsOutput, InfoOutput};
use super::publications::{BroadcastRequest, PublishInput, Published};
use super::rpc::{RpcInput, RpcOutput};
use super::users::{DeleteInput, ExportInput};
use crate::feed::export::Export;
use crate::feed::input::{Done, NoInput};

/// A method of the server API.
pub(in crate::http) struct Method {
    /// Its name: the path is `/api/<name>`.
    pub(in crate::http) name: &'static str,
    /// A one-line summary for backends.
    pub(in crate::http) summary: &'static str,
    /// The schema of its input.
    pub(in crate::http) input: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of its result.
    pub(in crate::http) result: fn(&mut SchemaGenerator) -> Schema,
}

/// Expands a table of methods.
macro_rules! methods {
    ($($name:literal ($input:ty) -> $result:ty, $summary:literal;)*) => {
        &[$(Method {
            name: $name,
            summary: $summary,
            input: SchemaGenerator::subschema_for::<$input>,
            result: SchemaGenerator::subschema_for::<$result>,
        }),*]
    };
}

/// All methods.
pub(in crate::http) const METHODS: &[Method] = methods! {
    "publish" (PublishInput) -> Published, "Publishes to a channel of the application.";
    "broadcast" (BroadcastRequest) -> BroadcastResult, "Publishes to several channels of the application.";
    "history" (HistoryInput) -> HistoryOutput, "Reads the log of a channel.";
    "presence" (ChannelInput) -> PresenceOutput, "Lists the clients in a channel.";
    "presence_stats" (ChannelInput) -> PresenceStatsOutput, "Counts the clients and users in a channel.";
    "history_remove" (ChannelInput) -> Done, "Removes the log of a channel of the application. Its position stays.";
    "channels" (ChannelsInput) -> ChannelsOutput, "Lists the channels with subscribers on all nodes.";
    "info" (NoInput) -> InfoOutput, "Describes all nodes.";
    "rpc" (RpcInput) -> RpcOutput, "Runs an operation of the feed, for the user in X-User or for nobody.";
    "subscribe" (SubscribeInput) -> Done, "Subscribes connections to a channel.";
    "unsubscribe" (UnsubscribeInput) -> Done, "Ends subscriptions of connections.";
    "refresh" (RefreshInput) -> Done, "Changes when connections expire.";
    "export_user" (ExportInput) -> Export, "Exports all data of a user, in pages.";
    "delete_user" (DeleteInput) -> Done, "Erases a user and all their data.";
    "disconnect" (DisconnectInput) -> Done, "Closes connections.";
    "revoke_token" (RevokeToken) -> Done, "Ends one token.";
    "invalidate_user_tokens" (Invalidate) -> Done, "Ends all tokens and sessions of a user.";
    "block_user" (BlockUser) -> Done, "Ends all access of a user.";
    "unblock_user" (UnblockUser) -> Done, "Allows access again.";
};

/// What became of a broadcast.
#[derive(Serialize, JsonSchema)]
struct BroadcastResult {
    /// A response for each channel, in the order of the request.
    responses: Vec<BroadcastResponse>,
}

/// The response for one channel: either the result or the error.
#[derive(Serialize, JsonSchema)]
struct BroadcastResponse {
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Published>,
    /// The error.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ServerError>,
}

/// An error of the server API.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct ServerError {
    /// A code of the client protocol, 104: no such object or method, or the HTTP status of the error of an operation.
    code: u32,
    /// A description of the error, for people.
    message: String,
}

/// A part of a log.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HistoryResult")]
struct HistoryOutput {
    /// The publications, in the requested order.
    publications: Vec<PublicationItem>,
    /// The epoch of the log.
    epoch: String,
    /// The offset of the newest publication in the log.
    offset: u64,
}

/// A publication.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Publication")]
struct PublicationItem {
    /// The data: any JSON.
    data: Value,
    /// The client that published it.
    #[serde(skip_serializing_if = "Option::is_none")]
    info: Option<ClientDescription>,
    /// The offset in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    /// The tags that it was published with.
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<BTreeMap<String, String>>,
}

/// Free JSON of the application about a client, from a token.
struct ApplicationInfo;

impl JsonSchema for ApplicationInfo {
    fn schema_name() -> Cow<'static, str> {
        "ApplicationInfo".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "Free JSON of the application about a client, from a token." })
    }
}

/// A client in a channel.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ClientInfo")]
struct ClientDescription {
    /// The user id; empty for an anonymous client.
    user: String,
    /// The id of the connection.
    client: String,
    /// The `info` of the connect token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ApplicationInfo>")]
    conn_info: Option<Value>,
    /// The `info` of the subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ApplicationInfo>")]
    chan_info: Option<Value>,
}

/// The clients in a channel.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PresenceResult")]
struct PresenceOutput {
    /// The clients, by connection id.
    presence: BTreeMap<String, ClientDescription>,
}

/// Counts of a channel.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PresenceStats")]
struct PresenceStatsOutput {
    /// The number of connections.
    num_clients: u32,
    /// The number of distinct users.
    num_users: u32,
}
