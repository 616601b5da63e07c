//! Encodes the messages that the server sends: replies and pushes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{ErrorCode, Unsubscribe};
use crate::model::Epoch;

/// The ping that the server sends.
pub const PING: &str = "{}";

/// A publication in the form of replies: an encoded JSON object.
pub type Publication = Box<RawValue>;

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
    /// The server-side subscriptions, by channel name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub subs: BTreeMap<String, SubscribeResult>,
    /// The interval between the server's pings, in seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub ping: u64,
    /// Whether the client must answer pings.
    #[serde(skip_serializing_if = "is_false")]
    pub pong: bool,
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
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[derive(Serialize)]
struct WireReply<'a> {
    id: u32,
    #[serde(flatten)]
    body: &'a ReplyBody,
}

/// Encodes the reply to the command with this id.
pub fn reply(id: u32, body: &ReplyBody) -> Bytes {
    encode(&WireReply { id, body })
}

#[derive(Serialize)]
struct WireError<'a> {
    code: u32,
    message: &'a str,
    #[serde(skip_serializing_if = "is_false")]
    temporary: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
}

#[derive(Serialize)]
struct WireErrorReply<'a> {
    id: u32,
    error: WireError<'a>,
}

/// Encodes an error reply to the command with this id. `message`, if given, replaces the default message of the code.
/// `field` is the name of the invalid member of an rpc's input.
pub fn reply_error(id: u32, code: ErrorCode, message: Option<&str>, field: Option<&str>) -> Bytes {
    let message = message.unwrap_or(code.message);
    encode(&WireErrorReply { id, error: WireError { code: code.code, message, temporary: code.temporary, field } })
}

fn encode<T: Serialize>(value: &T) -> Bytes {
    // Serialization cannot fail: the types in this file contain only text, numbers and valid JSON.
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// Removes line breaks from JSON, because they separate messages on the wire. In valid JSON, a raw line break occurs
/// only between tokens and never inside a string, so the meaning does not change.
pub fn one_line(json: &str) -> Cow<'_, str> {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], "").into() } else { json.into() }
}

/// Encodes the members of a publication without braces: `"data":…`, then `info` and `tags` if they are present.
pub fn publication_members(data: &str, info: Option<&ClientInfo>, tags: Option<&BTreeMap<String, String>>) -> Bytes {
    let mut members = Vec::with_capacity(data.len() + 16);
    members.extend_from_slice(b"\"data\":");
    members.extend_from_slice(one_line(data).as_bytes());
    if let Some(info) = info {
        members.extend_from_slice(b",\"info\":");
        members.extend_from_slice(&encode(info));
    }
    if let Some(tags) = tags.filter(|tags| !tags.is_empty()) {
        members.extend_from_slice(b",\"tags\":");
        members.extend_from_slice(&encode(tags));
    }
    members.into()
}

/// Encodes the push of a publication: its members, and its offset if the channel keeps a log. The push at offset 1 also
/// contains the epoch.
pub fn push_publication(channel: &str, members: &[u8], position: Option<(u64, &Epoch)>) -> Bytes {
    let mut push = Vec::with_capacity(publication_size(channel, members));
    append_publication(&mut push, channel, members, position);
    push.into()
}

/// The bytes for which [`append_publication`] needs room, or a few more.
pub fn publication_size(channel: &str, members: &[u8]) -> usize {
    channel.len() + members.len() + 96
}

/// Appends what [`push_publication`] encodes to a buffer.
pub fn append_publication(push: &mut Vec<u8>, channel: &str, members: &[u8], position: Option<(u64, &Epoch)>) {
    append_head(push, channel);
    push.extend_from_slice(b"\"pub\":{");
    push.extend_from_slice(members);
    if let Some((offset, epoch)) = position {
        // Writing to a vector cannot fail.
        let _ = write!(push, ",\"offset\":{offset}");
        if offset == 1 {
            let _ = write!(push, ",\"epoch\":\"{epoch}\"");
        }
    }
    push.extend_from_slice(b"}}}");
}

fn push_head(channel: &str, room: usize) -> Vec<u8> {
    let mut push = Vec::with_capacity(channel.len() + room + 32);
    append_head(&mut push, channel);
    push
}

fn append_head(push: &mut Vec<u8>, channel: &str) {
    push.extend_from_slice(b"{\"push\":{\"channel\":");
    // A string can always be encoded.
    let _ = serde_json::to_writer(&mut *push, channel);
    push.push(b',');
}

/// Encodes the push that a client joined the channel. `info` is its encoded `ClientInfo`.
pub fn push_join(channel: &str, info: &[u8]) -> Bytes {
    push_info(channel, b"\"join\":{\"info\":", info)
}

/// Encodes the push that a client left the channel. `info` is its encoded `ClientInfo`.
pub fn push_leave(channel: &str, info: &[u8]) -> Bytes {
    push_info(channel, b"\"leave\":{\"info\":", info)
}

fn push_info(channel: &str, head: &[u8], info: &[u8]) -> Bytes {
    let mut push = push_head(channel, head.len() + info.len());
    push.extend_from_slice(head);
    push.extend_from_slice(info);
    push.extend_from_slice(b"}}}");
    push.into()
}

/// Encodes the push that a subscription ended.
pub fn push_unsubscribe(channel: &str, why: Unsubscribe) -> Bytes {
    let mut push = push_head(channel, 64);
    let _ = write!(push, "\"unsubscribe\":{{\"code\":{},\"reason\":\"{}\"}}}}}}", why.code, why.reason);
    push.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &Bytes) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn replies_omit_empty_fields() {
        assert_eq!(text(&reply(3, &ReplyBody::Unsubscribe {})), r#"{"id":3,"unsubscribe":{}}"#);
        let joined = SubscribeResult { recoverable: true, positioned: true, epoch: "e".into(), ..Default::default() };
        let expected = r#"{"id":2,"subscribe":{"recoverable":true,"epoch":"e","positioned":true}}"#;
        assert_eq!(text(&reply(2, &ReplyBody::Subscribe(joined))), expected);
        let refused = r#"{"id":4,"error":{"code":108,"message":"not available"}}"#;
        assert_eq!(text(&reply_error(4, ErrorCode::NOT_AVAILABLE, None, None)), refused);
    }

    #[test]
    fn required_fields_are_always_present() {
        let history = HistoryResult { publications: vec![], epoch: String::new(), offset: 0 };
        let expected = r#"{"id":1,"history":{"publications":[],"epoch":"","offset":0}}"#;
        assert_eq!(text(&reply(1, &ReplyBody::History(history))), expected);
    }

    #[test]
    fn publications_are_one_line() {
        let members = publication_members("{\n \"a\": \"x\\n\"\r\n}", None, None);
        let push = push_publication("news:\"a\"", &members, Some((1, &"ep".into())));
        let expected = r#"{"push":{"channel":"news:\"a\"","pub":{"data":{ "a": "x\n"},"offset":1,"epoch":"ep"}}}"#;
        assert_eq!(text(&push), expected);
        let later = push_publication("n:a", b"\"data\":1", Some((2, &"ep".into())));
        assert_eq!(text(&later), r#"{"push":{"channel":"n:a","pub":{"data":1,"offset":2}}}"#);
    }

    #[test]
    fn an_unsubscribe_push_says_why() {
        let push = push_unsubscribe("n:a", Unsubscribe::INSUFFICIENT_STATE);
        assert_eq!(
            text(&push),
            r#"{"push":{"channel":"n:a","unsubscribe":{"code":2500,"reason":"insufficient state"}}}"#
        );
    }
}
