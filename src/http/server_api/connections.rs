//! Connections of clients, on all nodes: `subscribe`, `unsubscribe`, `disconnect` and `refresh`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::access::future;
use super::answers::{Answer, failed, read};
use super::context::ServerApi;
use super::json_data::decode_base64_json;
use crate::broker::{
    ConnectionSelector, DisconnectRequest, RefreshRequest, ServerSubscription, Signal, UnsubscribeRequest,
};
use crate::gateway::channels::ResolvedChannel;
use crate::model::{SubscribeOverride, UserId, into_canonical_name};
use crate::protocol::{Disconnect, ErrorCode, to_portable};

/// The maximal length of a close reason, in bytes: RFC 6455 allows 125 for the reason and the code.
const REASON: usize = 123;

/// The close codes that an application may send.
const CODES: std::ops::RangeInclusive<u16> = 3000..=4999;

/// The maximal number of clients that one request may spare.
const WHITELIST: usize = 1_000;

/// The maximal size of a subscription's `info` and `data`, in bytes: as that of a client's message.
const MAX_DATA: usize = 65_536;

/// The connections: those that match all of `user`, `client` and `session` that are given.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ConnectionsInput {
    /// The user; empty for anonymous clients, together with `client` or `session`.
    user: String,
    /// The id of a connection.
    #[serde(default)]
    client: String,
    /// The `jti` of the token of the connections.
    #[serde(default)]
    session: String,
}

/// The connections to close.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "DisconnectRequest")]
pub(super) struct DisconnectInput {
    #[serde(flatten)]
    connections: ConnectionsInput,
    /// The ids of connections that stay, at most 1,000.
    #[serde(default)]
    whitelist: Vec<String>,
    /// The close code and reason; 3503 by default.
    disconnect: Option<CloseInput>,
}

/// The code and the reason of a close frame.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "DisconnectCode")]
struct CloseInput {
    /// The close code, 3000 to 4999; 0 for the default.
    code: u16,
    /// The reason, at most 123 bytes.
    #[serde(default)]
    reason: String,
}

/// The connections to subscribe, and the channel.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "SubscribeRequest")]
pub(super) struct SubscribeInput {
    #[serde(flatten)]
    connections: ConnectionsInput,
    /// The channel. The user must be allowed to use it with a token.
    channel: String,
    /// What other subscribers see of the client in this channel: any JSON.
    #[serde(default)]
    #[schemars(with = "serde_json::Value")]
    info: Option<Box<RawValue>>,
    /// The same as base64 of JSON, instead of `info`.
    #[serde(default)]
    b64info: String,
    /// Data for the client, sent with the subscription: any JSON.
    #[serde(default)]
    #[schemars(with = "serde_json::Value")]
    data: Option<Box<RawValue>>,
    /// The same as base64 of JSON, instead of `data`.
    #[serde(default)]
    b64data: String,
    /// The position after which the client receives what it missed.
    recover_since: Option<StreamPositionInput>,
    /// When the subscription expires, in Unix seconds; 0 or absent: never.
    #[serde(default)]
    expire_at: Option<u64>,
    /// Replaces options of the namespace for this subscription.
    #[serde(rename = "override")]
    replaced: Option<SubscribeOverride>,
}

/// A position in a log.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "RecoverPosition")]
struct StreamPositionInput {
    /// The offset.
    #[serde(default)]
    offset: u64,
    /// The epoch of the log; empty: any.
    #[serde(default)]
    epoch: String,
}

/// The connections to unsubscribe, and the channel.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "UnsubscribeRequest")]
pub(super) struct UnsubscribeInput {
    #[serde(flatten)]
    connections: ConnectionsInput,
    /// The channel; empty or absent: all channels except the user's own timeline and notifications.
    #[serde(default)]
    channel: String,
}

/// The connections whose expiry changes.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "RefreshRequest")]
pub(super) struct RefreshInput {
    #[serde(flatten)]
    connections: ConnectionsInput,
    /// Whether the connections expire now: they are closed with 3005.
    #[serde(default)]
    expired: bool,
    /// When the connections expire, in Unix seconds; 0 or absent: never.
    #[serde(default)]
    expire_at: Option<u64>,
    /// What other subscribers see of the client from its next subscription on: any JSON.
    #[serde(default)]
    #[schemars(with = "serde_json::Value")]
    info: Option<Box<RawValue>>,
}

impl ConnectionsInput {
    fn select(self) -> Result<ConnectionSelector, ErrorCode> {
        let Self { user, client, session } = self;
        // Without a user, the request would be for all anonymous clients.
        let is_named = !(user.is_empty() && client.is_empty() && session.is_empty());
        let is_valid = user.is_empty() || UserId::parse(&user).is_some();
        if is_named && is_valid {
            Ok(ConnectionSelector { user, client, session })
        } else {
            Err(ErrorCode::BAD_REQUEST)
        }
    }
}

pub(super) async fn disconnect(api: &ServerApi, body: &[u8]) -> Answer {
    let DisconnectInput { connections, whitelist, disconnect } = read(body)?;
    let connections = connections.select()?;
    if whitelist.len() > WHITELIST {
        return Err(ErrorCode::BAD_REQUEST);
    }
    let (code, reason) = match disconnect {
        Some(closing) if closing.code > 0 => (closing.code, closing.reason),
        _ => (Disconnect::FORCE_DISCONNECT.code, Disconnect::FORCE_DISCONNECT.reason.into_owned()),
    };
    if !CODES.contains(&code) || reason.len() > REASON {
        return Err(ErrorCode::BAD_REQUEST);
    }
    send(api, Signal::Disconnect(DisconnectRequest { connections, whitelist, code, reason })).await
}

pub(super) async fn subscribe(api: &ServerApi, body: &[u8]) -> Answer {
    let input: SubscribeInput = read(body)?;
    let connections = input.connections.select()?;
    let channel = find(api, &input.channel)?;
    if !channel.permits_server_side(UserId::parse(&connections.user).as_ref()) {
        return Err(ErrorCode::PERMISSION_DENIED);
    }
    let recover = input.recover_since.map(|since| (since.offset, since.epoch));
    send(
        api,
        Signal::Subscribe(ServerSubscription {
            connections,
            channel: input.channel,
            info: json_text(input.info, &input.b64info)?,
            data: json_text(input.data, &input.b64data)?,
            recover,
            expire_at: future(input.expire_at)?,
            replaced: input.replaced.unwrap_or_default(),
        }),
    )
    .await
}

pub(super) async fn unsubscribe(api: &ServerApi, body: &[u8]) -> Answer {
    let UnsubscribeInput { connections, channel } = read(body)?;
    let connections = connections.select()?;
    if !channel.is_empty() {
        find(api, &channel)?;
    }
    send(api, Signal::Unsubscribe(UnsubscribeRequest { connections, channel: into_canonical_name(channel) })).await
}

pub(super) async fn refresh(api: &ServerApi, body: &[u8]) -> Answer {
    let RefreshInput { connections, expired, expire_at, info } = read(body)?;
    let connections = connections.select()?;
    let expire_at = if expired { None } else { future(expire_at)? };
    let info = json_text(info, "")?;
    send(api, Signal::Refresh(RefreshRequest { connections, expired, expire_at, info })).await
}

/// The channel of this name.
fn find(api: &ServerApi, name: &str) -> Result<ResolvedChannel, ErrorCode> {
    let sessions = &api.sessions;
    if name.is_empty() || name.len() > sessions.client.channel_length {
        return Err(ErrorCode::BAD_REQUEST);
    }
    sessions.channels.find(name).ok_or(ErrorCode::UNKNOWN_CHANNEL)
}

/// JSON that is sent to clients, on one line; empty if there is none.
fn json_text(plain: Option<Box<RawValue>>, base64: &str) -> Result<String, ErrorCode> {
    let json = match plain {
        _ if !base64.is_empty() => Some(decode_base64_json(base64)?),
        plain => plain,
    };
    let Some(json) = json else { return Ok(String::new()) };
    let text = to_portable(&json).map(|json| json.get().to_owned());
    text.filter(|text| text.len() <= MAX_DATA).ok_or(ErrorCode::BAD_REQUEST)
}

/// Sends a request to all nodes. It is done when the nodes have received it, not when clients have.
async fn send(api: &ServerApi, signal: Signal) -> Answer {
    api.feed.base.broker.signal(signal).await.map_err(|error| failed(&error.into()))?;
    Ok(json!({}))
}
