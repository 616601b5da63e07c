//! The JSON encoding of the messages that the server sends.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

use bytes::Bytes;
use serde::Serialize;

use super::reply::{is_false, is_zero};
use super::{ClientInfo, Disconnect, Push, PushEvent, PushPosition, Reply, ReplyBody, ReplyError, Unsubscribe};

/// The ping that the server sends.
pub(super) const PING: &[u8] = b"{}";

#[derive(Serialize)]
struct WireReply<'a> {
    id: u32,
    #[serde(flatten)]
    body: &'a ReplyBody,
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

#[derive(Serialize)]
struct WireRefresh {
    #[serde(skip_serializing_if = "is_false")]
    expires: bool,
    #[serde(skip_serializing_if = "is_zero")]
    ttl: u64,
}

#[derive(Serialize)]
struct WireDisconnect<'a> {
    code: u16,
    reason: &'a str,
}

/// Appends a reply.
pub(super) fn append_reply(message: &mut Vec<u8>, reply: &Reply) {
    let id = reply.id;
    match &reply.result {
        Ok(body) => append(message, &WireReply { id, body }),
        Err(ReplyError { code, message: text, field }) => {
            let text = text.as_deref().unwrap_or(code.message);
            let error =
                WireError { code: code.code, message: text, temporary: code.temporary, field: field.as_deref() };
            append(message, &WireErrorReply { id, error });
        }
    }
}

/// Appends the result of a reply as a push, for a unidirectional client, which has sent no command.
pub(super) fn append_bare_reply(message: &mut Vec<u8>, reply: &Reply) {
    match &reply.result {
        Ok(body) => append(message, body),
        Err(_) => append_reply(message, reply),
    }
}

fn append<T: Serialize>(message: &mut Vec<u8>, value: &T) {
    // Serialization cannot fail: the types of this module contain only text, numbers and valid JSON.
    let _ = serde_json::to_writer(message, value);
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
        append(&mut members, info);
    }
    if let Some(tags) = tags.filter(|tags| !tags.is_empty()) {
        members.extend_from_slice(b",\"tags\":");
        append(&mut members, tags);
    }
    members.into()
}

/// Appends a push without the reply around it, for a unidirectional client.
pub(super) fn append_bare_push(message: &mut Vec<u8>, push: &Push<'_>) {
    let start = message.len();
    append_push(message, push);
    message.drain(start..start + REPLY_HEAD.len());
    message.pop();
}

/// Appends a push.
pub(super) fn append_push(message: &mut Vec<u8>, push: &Push<'_>) {
    append_head(message, push.channel);
    match push.event {
        PushEvent::Publication { members, position } => append_publication(message, members, position),
        PushEvent::Join(info) => append_info(message, b"\"join\":{\"info\":", info),
        PushEvent::Leave(info) => append_info(message, b"\"leave\":{\"info\":", info),
        PushEvent::Text { text, is_patch, rest, position } => append_text(message, (text, is_patch), rest, position),
        PushEvent::Missed(publication) => append_member(message, b"\"pub\":", publication),
        PushEvent::Subscribe(subscribe) => append_member(message, b"\"subscribe\":", subscribe),
        PushEvent::Refresh { expires, ttl } => append_member(message, b"\"refresh\":", &WireRefresh { expires, ttl }),
        PushEvent::Disconnect(Disconnect { code, reason }) => {
            append_member(message, b"\"disconnect\":", &WireDisconnect { code: *code, reason });
        }
        PushEvent::Unsubscribe(Unsubscribe { code, reason }) => {
            // Writing to a vector cannot fail.
            let _ = write!(message, "\"unsubscribe\":{{\"code\":{code},\"reason\":\"{reason}\"}}}}}}");
        }
    }
}

/// The reply around a push, without its end.
const REPLY_HEAD: &[u8] = b"{\"push\":";

fn append_head(message: &mut Vec<u8>, channel: &str) {
    message.extend_from_slice(REPLY_HEAD);
    if channel.is_empty() {
        message.push(b'{');
        return;
    }
    message.extend_from_slice(b"{\"channel\":");
    // A string can always be encoded.
    let _ = serde_json::to_writer(&mut *message, channel);
    message.push(b',');
}

fn append_text(message: &mut Vec<u8>, (text, is_patch): (&str, bool), rest: &str, position: PushPosition<'_>) {
    message.extend_from_slice(b"\"pub\":{\"data\":");
    append(message, &text);
    if is_patch {
        message.extend_from_slice(b",\"delta\":true");
    }
    message.extend_from_slice(rest.as_bytes());
    append_position(message, position);
}

fn append_publication(message: &mut Vec<u8>, members: &[u8], position: PushPosition<'_>) {
    message.extend_from_slice(b"\"pub\":{");
    message.extend_from_slice(members);
    append_position(message, position);
}

/// Appends the position of a publication, and closes the push.
fn append_position(message: &mut Vec<u8>, position: PushPosition<'_>) {
    if let Some((offset, epoch)) = position {
        message.extend_from_slice(b",\"offset\":");
        append(message, &offset);
        if offset == 1 {
            // Writing to a vector cannot fail.
            let _ = write!(message, ",\"epoch\":\"{epoch}\"");
        }
    }
    message.extend_from_slice(b"}}}");
}

fn append_member<T: Serialize>(message: &mut Vec<u8>, name: &[u8], value: &T) {
    message.extend_from_slice(name);
    append(message, value);
    message.extend_from_slice(b"}}");
}

fn append_info(message: &mut Vec<u8>, head: &[u8], info: &[u8]) {
    message.extend_from_slice(head);
    message.extend_from_slice(info);
    message.extend_from_slice(b"}}}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{ConnectResult, ErrorCode, HistoryResult, SubscribePush, SubscribeResult};

    fn reply(id: u32, body: ReplyBody) -> String {
        encoded(&Reply::done(id, body))
    }

    fn encoded(reply: &Reply) -> String {
        let mut message = Vec::new();
        append_reply(&mut message, reply);
        String::from_utf8(message).unwrap()
    }

    fn push(channel: &str, event: PushEvent<'_>) -> String {
        let mut message = Vec::new();
        append_push(&mut message, &Push { channel, event });
        String::from_utf8(message).unwrap()
    }

    #[test]
    fn replies_omit_empty_fields() {
        assert_eq!(reply(3, ReplyBody::Unsubscribe {}), r#"{"id":3,"unsubscribe":{}}"#);
        let joined = SubscribeResult { recoverable: true, positioned: true, epoch: "e".into(), ..Default::default() };
        let expected = r#"{"id":2,"subscribe":{"recoverable":true,"epoch":"e","positioned":true}}"#;
        assert_eq!(reply(2, ReplyBody::Subscribe(joined)), expected);
        let refused = r#"{"id":4,"error":{"code":108,"message":"not available"}}"#;
        assert_eq!(encoded(&Reply::refused(4, ErrorCode::NOT_AVAILABLE)), refused);
    }

    #[test]
    fn an_error_names_the_field() {
        let error = ReplyError { code: ErrorCode::INTERNAL, message: Some("a\"b".into()), field: Some("text".into()) };
        let expected = r#"{"id":4,"error":{"code":100,"message":"a\"b","temporary":true,"field":"text"}}"#;
        assert_eq!(encoded(&Reply { id: 4, result: Err(error) }), expected);
    }

    #[test]
    fn required_fields_are_always_present() {
        let history = HistoryResult { publications: vec![], epoch: String::new(), offset: 0 };
        let expected = r#"{"id":1,"history":{"publications":[],"epoch":"","offset":0}}"#;
        assert_eq!(reply(1, ReplyBody::History(history)), expected);
    }

    #[test]
    fn publications_are_one_line() {
        let members = publication_members("{\n \"a\": \"x\\n\"\r\n}", None, None);
        let first = PushEvent::Publication { members: &members, position: Some((1, &"ep".into())) };
        let expected = r#"{"push":{"channel":"news:\"a\"","pub":{"data":{ "a": "x\n"},"offset":1,"epoch":"ep"}}}"#;
        assert_eq!(push("news:\"a\"", first), expected);
        let later = PushEvent::Publication { members: b"\"data\":1", position: Some((2, &"ep".into())) };
        assert_eq!(push("n:a", later), r#"{"push":{"channel":"n:a","pub":{"data":1,"offset":2}}}"#);
    }

    #[test]
    fn deltas_are_text() {
        let text = |text, is_patch| PushEvent::Text { text, is_patch, rest: ",\"tags\":{}", position: None };
        let expected = r#"{"push":{"channel":"n:a","pub":{"data":"{\"a\":1}","tags":{}}}}"#;
        assert_eq!(push("n:a", text("{\"a\":1}", false)), expected);
        let expected = r#"{"push":{"channel":"n:a","pub":{"data":"1\n0;","delta":true,"tags":{}}}}"#;
        assert_eq!(push("n:a", text("1\n0;", true)), expected);
    }

    #[test]
    fn pushes_of_the_backends_requests_omit_empty_fields() {
        let data = serde_json::value::to_raw_value(&1).ok();
        let full = SubscribePush { recoverable: true, epoch: "e".into(), offset: 7, positioned: true, data };
        let members = r#""recoverable":true,"epoch":"e","offset":7,"positioned":true,"data":1"#;
        let expected = format!(r#"{{"push":{{"channel":"n:a","subscribe":{{{members}}}}}}}"#);
        assert_eq!(push("n:a", PushEvent::Subscribe(&full)), expected);
        let empty = SubscribePush::default();
        assert_eq!(push("n:a", PushEvent::Subscribe(&empty)), r#"{"push":{"channel":"n:a","subscribe":{}}}"#);
        let missed = serde_json::value::RawValue::from_string(r#"{"data":1,"offset":2}"#.into()).unwrap();
        let expected = r#"{"push":{"channel":"n:a","pub":{"data":1,"offset":2}}}"#;
        assert_eq!(push("n:a", PushEvent::Missed(&missed)), expected);
        let refresh = PushEvent::Refresh { expires: true, ttl: 60 };
        assert_eq!(push("", refresh), r#"{"push":{"refresh":{"expires":true,"ttl":60}}}"#);
        assert_eq!(push("", PushEvent::Refresh { expires: false, ttl: 0 }), r#"{"push":{"refresh":{}}}"#);
        let why = Disconnect { code: 4000, reason: "\"bye\"".into() };
        let expected = r#"{"push":{"disconnect":{"code":4000,"reason":"\"bye\""}}}"#;
        assert_eq!(push("", PushEvent::Disconnect(&why)), expected);
    }

    #[test]
    fn unidirectional_clients_receive_pushes_alone() {
        let mut message = b"data: ".to_vec();
        let event = PushEvent::Publication { members: b"\"data\":1", position: None };
        append_bare_push(&mut message, &Push { channel: "n:a", event });
        assert_eq!(String::from_utf8(message).unwrap(), r#"data: {"channel":"n:a","pub":{"data":1}}"#);
        let connected = ConnectResult { client: "c".into(), session: "s".into(), ..ConnectResult::default() };
        let mut message = Vec::new();
        append_bare_reply(&mut message, &Reply::done(1, ReplyBody::Connect(connected)));
        let expected = r#"{"connect":{"client":"c","version":"","session":"s"}}"#;
        assert_eq!(String::from_utf8(message).unwrap(), expected);
    }

    #[test]
    fn an_unsubscribe_push_says_why() {
        assert_eq!(
            push("n:a", PushEvent::Unsubscribe(Unsubscribe::INSUFFICIENT_STATE)),
            r#"{"push":{"channel":"n:a","unsubscribe":{"code":2500,"reason":"insufficient state"}}}"#
        );
    }
}
