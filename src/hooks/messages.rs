//! Questions to the application's backend, and its answers, in the form of Centrifugo's proxy protocol.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::model::{SubscribeOverride, is_plausible};

/// The client of a question.
#[derive(Debug, Serialize)]
pub struct HookClientInfo<'a> {
    /// The id of the connection.
    pub client: &'a str,
    /// The transport: `websocket`, `http_stream`, `sse`, or one of these with `uni_` before it.
    pub transport: &'static str,
    /// The encoding of the protocol: `json` or `protobuf`.
    pub protocol: &'static str,
    /// The encoding of the application's data: always `json`.
    pub encoding: &'static str,
}

/// A client connects without a token.
#[derive(Debug, Serialize)]
pub struct ConnectQuestion<'a> {
    /// The client.
    #[serde(flatten)]
    pub client: HookClientInfo<'a>,
    /// The name of the client or its SDK.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: &'a str,
    /// The version of the SDK.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub version: &'a str,
    /// Data of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a RawValue>,
    /// The server-side subscriptions that the client recovers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<&'a str>,
}

/// A question about an open connection. Members that do not belong to its kind are omitted.
#[derive(Debug, Serialize)]
pub struct SessionQuestion<'a> {
    /// The client.
    #[serde(flatten)]
    pub client: HookClientInfo<'a>,
    /// The user; empty for an anonymous client.
    pub user: &'a str,
    /// The channel, of `subscribe`, `publish` and `sub_refresh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<&'a str>,
    /// The method, of `rpc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<&'a str>,
    /// Data of the client, of `subscribe`, `publish` and `rpc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a RawValue>,
    /// The `meta` of the connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<&'a RawValue>,
}

/// The answer to a question: the first of its members that is present counts, in the order `disconnect`, `error`,
/// `result`. Members that are `null` are removed before.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub(super) struct WireAnswer<T> {
    pub(super) result: Option<T>,
    pub(super) error: Option<HookError>,
    pub(super) disconnect: Option<HookDisconnect>,
}

/// An error for the client.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HookError {
    /// The code, 400 to 1999; others are replaced by 100.
    pub code: u32,
    /// The message.
    #[serde(default)]
    pub message: String,
    /// Whether the client may try again.
    #[serde(default)]
    pub temporary: bool,
}

/// A close code for the client.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HookDisconnect {
    /// The code, 3000 to 4999; others are replaced by 3503.
    pub code: u32,
    /// The reason, at most 123 bytes; the rest is cut off.
    #[serde(default)]
    pub reason: String,
}

/// The answer to `connect`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConnectAnswer {
    /// The user; empty: an anonymous client.
    pub user: String,
    /// When the connection expires, in Unix seconds; 0: never.
    #[serde(deserialize_with = "unix_seconds")]
    pub expire_at: i64,
    /// What other subscribers see of the client.
    pub info: Option<Box<RawValue>>,
    /// The same as base64 of JSON.
    pub b64info: String,
    /// Data for the client.
    pub data: Option<Box<RawValue>>,
    /// The same as base64 of JSON.
    pub b64data: String,
    /// Server-side subscriptions.
    pub channels: Vec<String>,
    /// Server-side subscriptions with options.
    pub subs: BTreeMap<String, SubscribeAnswer>,
    /// Sent with later questions about the connection.
    pub meta: Option<Box<RawValue>>,
}

/// The answer to `subscribe`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SubscribeAnswer {
    /// When the subscription expires, in Unix seconds; 0: never.
    #[serde(deserialize_with = "unix_seconds")]
    pub expire_at: i64,
    /// What other subscribers see of the client in this channel.
    pub info: Option<Box<RawValue>>,
    /// The same as base64 of JSON.
    pub b64info: String,
    /// Data for the client.
    pub data: Option<Box<RawValue>>,
    /// The same as base64 of JSON.
    pub b64data: String,
    /// Replaces options of the namespace.
    #[serde(rename = "override")]
    pub replaced: SubscribeOverride,
}

/// The answer to `publish`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PublishAnswer {
    /// Replaces the data.
    pub data: Option<Box<RawValue>>,
    /// The same as base64 of JSON.
    pub b64data: String,
    /// Whether the log does not keep the publication.
    pub skip_history: bool,
}

/// The answer to `rpc`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RpcAnswer {
    /// The reply.
    pub data: Option<Box<RawValue>>,
    /// The same as base64 of JSON.
    pub b64data: String,
}

/// The answer to `refresh` and `sub_refresh`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RefreshAnswer {
    /// Whether the connection or subscription expires now.
    pub expired: bool,
    /// When it expires next, in Unix seconds; 0: never.
    #[serde(deserialize_with = "unix_seconds")]
    pub expire_at: i64,
}

/// JSON that an answer has as it is or as base64; `None` if it has neither, or `null`.
///
/// # Errors
/// If the base64 is not of JSON.
pub fn json_of(plain: Option<Box<RawValue>>, base64: &str) -> Result<Option<Box<RawValue>>, MalformedAnswer> {
    if base64.is_empty() {
        return Ok(plain.filter(|json| json.get() != "null"));
    }
    let bytes = BASE64_STANDARD.decode(base64).map_err(|_| MalformedAnswer)?;
    serde_json::from_slice(&bytes).map(Some).map_err(|_| MalformedAnswer)
}

/// An expiry. Negative numbers and milliseconds are refused: both would never come.
fn unix_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let at = i64::deserialize(deserializer)?;
    let is_time = u64::try_from(at).is_ok_and(is_plausible);
    if is_time { Ok(at) } else { Err(D::Error::custom("expire_at is not in Unix seconds")) }
}

/// An expiry of an answer; 0 is none.
pub fn expiry(expire_at: i64) -> Option<u64> {
    u64::try_from(expire_at).ok().filter(|at| *at > 0)
}

/// An answer is not what the question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedAnswer;

impl HookError {
    /// The code, if applications may use it.
    pub fn code(&self) -> Option<u32> {
        Some(self.code).filter(|code| (400..2000).contains(code))
    }
}

impl HookDisconnect {
    /// The close code, and the reason as far as a close frame has room.
    pub fn close(self) -> Option<(u16, Cow<'static, str>)> {
        const REASON: usize = 123;
        let code = u16::try_from(self.code).ok().filter(|code| (3000..5000).contains(code))?;
        let mut reason = self.reason;
        while reason.len() > REASON {
            reason.pop();
        }
        Some((code, reason.into()))
    }
}
