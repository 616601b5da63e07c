//! The messages that the server sends: replies and pushes. They know no encoding, except that data of applications,
//! publications and descriptions of clients are JSON from the start: logs store them so.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{Disconnect, ErrorCode, Unsubscribe};
use crate::model::Epoch;

/// A publication in the form of replies: an encoded JSON object.
pub type Publication = Box<RawValue>;

/// The reply to a command.
#[derive(Debug)]
pub struct Reply {
    /// The id of the command.
    pub id: u32,
    /// The result of the command.
    pub result: Result<ReplyBody, ReplyError>,
}

impl Reply {
    /// The reply to a successful command.
    pub fn done(id: u32, body: ReplyBody) -> Self {
        Self { id, result: Ok(body) }
    }

    /// The reply to a refused command.
    pub fn refused(id: u32, code: ErrorCode) -> Self {
        Self { id, result: Err(ReplyError { code, message: None, field: None }) }
    }
}

/// The reason why a command was refused.
#[derive(Debug)]
pub struct ReplyError {
    /// The code.
    pub code: ErrorCode,
    /// Replaces the default message of the code.
    pub message: Option<String>,
    /// The name of the invalid member of an rpc's input. Only JSON has a place for it.
    pub field: Option<String>,
}

/// A push to a subscriber of a channel.
#[derive(Clone, Copy, Debug)]
pub struct Push<'a> {
    /// The channel.
    pub channel: &'a str,
    /// The event in the channel.
    pub event: PushEvent<'a>,
}

/// The offset of a publication, and the epoch of the log, if the channel keeps one. The push at offset 1 contains the
/// epoch.
pub type PushPosition<'a> = Option<(u64, &'a Epoch)>;

/// The event of a push.
#[derive(Clone, Copy, Debug)]
pub enum PushEvent<'a> {
    /// A publication.
    Publication {
        /// Its members, as JSON without the braces: see [`publication_members`](super::publication_members).
        members: &'a [u8],
        /// Its position.
        position: PushPosition<'a>,
    },
    /// A publication for a client that asked for deltas.
    Text {
        /// Its data as text, or the patch of the data of the publication before it.
        text: &'a str,
        /// Whether it is a patch.
        is_patch: bool,
        /// Its other members, as JSON, each with a comma before it.
        rest: &'a str,
        /// Its position.
        position: PushPosition<'a>,
    },
    /// A client joined the channel: its encoded [`ClientInfo`].
    Join(&'a [u8]),
    /// A client left the channel: its encoded [`ClientInfo`].
    Leave(&'a [u8]),
    /// A publication that the client missed, in the form of replies.
    Missed(&'a Publication),
    /// The server subscribed the client to the channel.
    Subscribe(&'a SubscribePush),
    /// The subscription ended.
    Unsubscribe(Unsubscribe),
    /// The expiry of the connection changed. The channel is empty.
    Refresh {
        /// Whether the connection expires.
        expires: bool,
        /// Seconds until then; 0 if it does not expire.
        ttl: u64,
    },
    /// The server closes the connection. Only for transports without close frames. The channel is empty.
    Disconnect(&'a Disconnect),
}

/// A subscription that the server made after `connect`.
#[derive(Debug, Default, Serialize)]
pub struct SubscribePush {
    /// Whether the channel keeps a log, so that the client can recover missed publications.
    #[serde(skip_serializing_if = "is_false")]
    pub recoverable: bool,
    /// The epoch of the log. Empty if the channel keeps no log.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub epoch: String,
    /// The offset after which the client receives publications.
    #[serde(skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// Whether the server tracks the client's position in the log.
    #[serde(skip_serializing_if = "is_false")]
    pub positioned: bool,
    /// Data of the application for the client: JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl Push<'_> {
    /// The bytes for which the encoded push needs room, or a few more.
    pub fn size(&self) -> usize {
        let content = match self.event {
            PushEvent::Publication { members: content, .. } | PushEvent::Join(content) | PushEvent::Leave(content) => {
                content.len()
            }
            PushEvent::Text { text, rest, .. } => text.len() + text.len() / 4 + rest.len(),
            PushEvent::Missed(publication) => publication.get().len(),
            PushEvent::Subscribe(push) => push.epoch.len() + push.data.as_ref().map_or(0, |data| data.get().len()),
            PushEvent::Unsubscribe(why) => why.reason.len(),
            PushEvent::Disconnect(why) => why.reason.len(),
            PushEvent::Refresh { .. } => 0,
        };
        self.channel.len() + content + 96
    }
}

/// The body of the reply to a successful command.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyBody {
    /// Reply to `connect`.
    Connect(ConnectResult),
    /// Reply to `subscribe`.
    Subscribe(SubscribeResult),
    /// Reply to `unsubscribe`.
    Unsubscribe {},
    /// Reply to `publish`.
    Publish {},
    /// Reply to `presence`.
    Presence(PresenceResult),
    /// Reply to `presence_stats`.
    PresenceStats(PresenceStatsResult),
    /// Reply to `history`.
    History(HistoryResult),
    /// Reply to `rpc`.
    Rpc {
        /// The output of the operation, as JSON.
        data: Box<RawValue>,
    },
    /// Reply to `refresh`.
    Refresh(RefreshResult),
    /// Reply to `sub_refresh`.
    SubRefresh(RefreshResult),
}

/// The reply to `connect`.
#[derive(Debug, Default, Serialize)]
pub struct ConnectResult {
    /// The id of the connection, assigned by the server.
    pub client: String,
    /// The name and version of the server.
    pub version: String,
    /// Whether the connection expires unless the client sends a new token.
    #[serde(skip_serializing_if = "is_false")]
    pub expires: bool,
    /// Seconds until the connection expires. 0 if it does not expire.
    #[serde(skip_serializing_if = "is_zero")]
    pub ttl: u64,
    /// JSON for the client, from the application's backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// The server-side subscriptions, by channel name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub subs: BTreeMap<String, SubscribeResult>,
    /// The interval between the server's pings, in seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub ping: u64,
    /// Whether the client must answer pings.
    #[serde(skip_serializing_if = "is_false")]
    pub pong: bool,
    /// The secret name of the stream, under which its client sends commands in requests of their own. Empty for a
    /// WebSocket.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// The node with the stream. Empty for a WebSocket.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
}

/// The reply to `subscribe`; also the description of each server-side subscription in the reply to `connect`.
#[derive(Debug, Default, Serialize)]
pub struct SubscribeResult {
    /// Whether the subscription expires unless the client sends a new token.
    #[serde(skip_serializing_if = "is_false")]
    pub expires: bool,
    /// Seconds until the subscription expires. 0 if it does not expire.
    #[serde(skip_serializing_if = "is_zero")]
    pub ttl: u64,
    /// Whether the channel keeps a log, so that the client can recover missed publications.
    #[serde(skip_serializing_if = "is_false")]
    pub recoverable: bool,
    /// The epoch of the log. Empty if the channel keeps no log.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub epoch: Cow<'static, str>,
    /// The publications that the client missed, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub publications: Vec<Publication>,
    /// Whether `publications` contains all publications that the client missed.
    #[serde(skip_serializing_if = "is_false")]
    pub recovered: bool,
    /// An offset in the log: the client's own offset if recovery succeeded, otherwise that of the newest publication.
    #[serde(skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// Whether the server tracks the client's position in the log.
    #[serde(skip_serializing_if = "is_false")]
    pub positioned: bool,
    /// Whether the request asked for recovery.
    #[serde(skip_serializing_if = "is_false")]
    pub was_recovering: bool,
    /// JSON for the subscriber, from the `data` of its token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// Whether publications are text: their data, or patches of it.
    #[serde(skip_serializing_if = "is_false")]
    pub delta: bool,
}

/// The description of a client that other subscribers of a channel receive.
#[derive(Clone, Debug, Serialize)]
pub struct ClientInfo {
    /// The user id. Empty for an anonymous client.
    pub user: String,
    /// The id of the connection.
    pub client: String,
    /// The `info` claim of the connect token: JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conn_info: Option<Box<RawValue>>,
    /// The `info` of the subscription: JSON from the subscription token, or from `subs` of the connect token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chan_info: Option<Box<RawValue>>,
}

/// The reply to `presence`.
#[derive(Debug, Serialize)]
pub struct PresenceResult {
    /// The clients subscribed to the channel: encoded `ClientInfo` by connection id.
    pub presence: BTreeMap<String, Box<RawValue>>,
}

/// The reply to `presence_stats`.
#[derive(Debug, Serialize)]
pub struct PresenceStatsResult {
    /// The number of connections subscribed to the channel.
    pub num_clients: u32,
    /// The number of distinct users among these connections.
    pub num_users: u32,
}

/// The reply to `history`.
#[derive(Debug, Serialize)]
pub struct HistoryResult {
    /// The publications, in the requested order.
    pub publications: Vec<Publication>,
    /// The epoch of the log.
    pub epoch: String,
    /// The offset of the newest publication in the log.
    pub offset: u64,
}

/// The reply to `refresh` (all fields) and `sub_refresh` (only `expires` and `ttl`).
#[derive(Debug, Default, Serialize)]
pub struct RefreshResult {
    /// The id of the connection.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client: String,
    /// The name and version of the server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Whether the connection or subscription expires unless the client sends another token.
    #[serde(skip_serializing_if = "is_false")]
    pub expires: bool,
    /// Seconds until it expires. 0 if it does not expire.
    #[serde(skip_serializing_if = "is_zero")]
    pub ttl: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
pub(super) fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
pub(super) fn is_zero(value: &u64) -> bool {
    *value == 0
}
