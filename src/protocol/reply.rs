//! What clients are told: replies and pushes, encoded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{ErrorCode, Unsubscribe};
use crate::model::Epoch;

/// The server's ping.
pub const PING: &str = "{}";

/// A publication as it appears in replies: a JSON object, encoded already.
pub type Publication = Box<RawValue>;

/// What a command is answered with.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyBody {
    /// You are in.
    Connect(ConnectResult),
    /// You are in the channel.
    Subscribe(SubscribeResult),
    /// You are out of it.
    Unsubscribe {},
    /// It is said.
    Publish {},
    /// These are in it.
    Presence(PresenceResult),
    /// So many are in it.
    PresenceStats(PresenceStatsResult),
    /// This was said.
    History(HistoryResult),
    /// The operation's answer.
    Rpc {
        /// Its output, as JSON.
        data: Box<RawValue>,
    },
    /// The new token counts.
    Refresh(RefreshResult),
    /// The new subscription token counts.
    SubRefresh(RefreshResult),
}

/// The answer to `connect`.
#[derive(Debug, Default, Serialize)]
pub struct ConnectResult {
    /// This connection's id.
    pub client: String,
    /// The server and its version.
    pub version: String,
    /// Whether the connection ends unless a new token comes.
    #[serde(skip_serializing_if = "is_false")]
    pub expires: bool,
    /// In how many seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub ttl: u64,
    /// Channels that the server put the connection into.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub subs: BTreeMap<String, SubscribeResult>,
    /// Seconds between pings.
    #[serde(skip_serializing_if = "is_zero")]
    pub ping: u64,
    /// Whether pings want an answer.
    #[serde(skip_serializing_if = "is_false")]
    pub pong: bool,
}

/// The answer to `subscribe`, also of each server-side subscription.
#[derive(Debug, Default, Serialize)]
pub struct SubscribeResult {
    /// Whether the subscription ends unless a new token comes.
    #[serde(skip_serializing_if = "is_false")]
    pub expires: bool,
    /// In how many seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub ttl: u64,
    /// Whether what is missed can be asked for.
    #[serde(skip_serializing_if = "is_false")]
    pub recoverable: bool,
    /// The life of the log.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub epoch: Cow<'static, str>,
    /// What was missed, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub publications: Vec<Publication>,
    /// Whether that is all that was missed.
    #[serde(skip_serializing_if = "is_false")]
    pub recovered: bool,
    /// The position: of the request where it recovered, else the log's top.
    #[serde(skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// Whether the server watches the position.
    #[serde(skip_serializing_if = "is_false")]
    pub positioned: bool,
    /// Whether the request asked for recovery.
    #[serde(skip_serializing_if = "is_false")]
    pub was_recovering: bool,
}

/// Who a client is, as others in a channel see it.
#[derive(Clone, Debug, Serialize)]
pub struct ClientInfo {
    /// Its user; empty of an anonymous one.
    pub user: String,
    /// The connection's id.
    pub client: String,
    /// What the token says of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conn_info: Option<Box<RawValue>>,
    /// What the subscription token says of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chan_info: Option<Box<RawValue>>,
}

/// The answer to `presence`.
#[derive(Debug, Serialize)]
pub struct PresenceResult {
    /// `ClientInfo` by client id.
    pub presence: BTreeMap<String, Box<RawValue>>,
}

/// The answer to `presence_stats`.
#[derive(Debug, Serialize)]
pub struct PresenceStatsResult {
    /// Connections.
    pub num_clients: u32,
    /// Different users among them.
    pub num_users: u32,
}

/// The answer to `history`.
#[derive(Debug, Serialize)]
pub struct HistoryResult {
    /// What was said.
    pub publications: Vec<Publication>,
    /// The life of the log.
    pub epoch: String,
    /// Its top.
    pub offset: u64,
}

/// The answer to `refresh` (all of it) and `sub_refresh` (the expiry).
#[derive(Debug, Default, Serialize)]
pub struct RefreshResult {
    /// This connection's id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client: String,
    /// The server and its version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Whether it ends again.
    #[serde(skip_serializing_if = "is_false")]
    pub expires: bool,
    /// In how many seconds.
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

/// Encodes the answer to the command `id`.
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

/// Encodes a refusal of the command `id`. `message` stands in for the code's own where it says more; `field` names the
/// part of an rpc's input that is at fault.
pub fn reply_error(id: u32, code: ErrorCode, message: Option<&str>, field: Option<&str>) -> Bytes {
    let message = message.unwrap_or(code.message);
    encode(&WireErrorReply { id, error: WireError { code: code.code, message, temporary: code.temporary, field } })
}

fn encode<T: Serialize>(value: &T) -> Bytes {
    // The types of this file are structs of text, numbers and JSON that was parsed before: writing them cannot fail.
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// The same JSON without line breaks, which separate messages on the wire. A raw line break can only stand between
/// tokens, never inside a string, so taking it out changes nothing.
pub fn one_line(json: &str) -> Cow<'_, str> {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], "").into() } else { json.into() }
}

/// The members of a publication: `"data":…`, then what else is there.
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

/// Encodes the push of a publication: its members, and where it stands in the log if it does. The first entry of a log
/// carries the epoch.
pub fn push_publication(channel: &str, members: &[u8], position: Option<(u64, &Epoch)>) -> Bytes {
    let mut push = push_head(channel, members.len() + 64);
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
    push.into()
}

fn push_head(channel: &str, room: usize) -> Vec<u8> {
    let mut push = Vec::with_capacity(channel.len() + room + 32);
    push.extend_from_slice(b"{\"push\":{\"channel\":");
    push.extend_from_slice(&encode(&channel));
    push.push(b',');
    push
}

/// Encodes the push that a client came. `info` is its encoded `ClientInfo`.
pub fn push_join(channel: &str, info: &[u8]) -> Bytes {
    push_info(channel, b"\"join\":{\"info\":", info)
}

/// Encodes the push that a client left. `info` is its encoded `ClientInfo`.
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
