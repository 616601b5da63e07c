//! The Protobuf encoding, against bytes that are written by hand from the schema, and against JSON.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::generated as wire;
use crate::protocol::{
    ClientInfo, Command, CommandBody, ConnectResult, Encoding, ErrorCode, HistoryResult, MalformedFrame,
    PresenceResult, PresenceStatsResult, Push, PushEvent, RefreshResult, Reply, ReplyBody, ReplyError, SubscribePush,
    SubscribeResult, Unsubscribe, decode_binary_frame, decode_frame, publication_members,
};

// --- bytes by hand: a field is its number and wire type (0: varint, 2: length and bytes), then its value -----------

/// A field with a number.
fn number(field: u8, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(&mut bytes, u64::from(field) << 3);
    varint(&mut bytes, value);
    bytes
}

/// A field with bytes, text or a message.
fn bytes(field: u8, value: impl AsRef<[u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(&mut bytes, u64::from(field) << 3 | 2);
    bytes.extend(delimited(value));
    bytes
}

/// Bytes after their length.
fn delimited(value: impl AsRef<[u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(&mut bytes, value.as_ref().len() as u64);
    bytes.extend_from_slice(value.as_ref());
    bytes
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// The commands of both encodings, as text.
fn compare(by_hand: Vec<u8>, json: &Value) {
    let decoded = decode_binary_frame(&delimited(by_hand)).unwrap();
    assert_eq!(format!("{decoded:?}"), format!("{:?}", decode_frame(&json.to_string()).unwrap()));
}

#[test]
fn a_command_is_the_same_in_both_encodings() {
    let sub = [bytes(1, "ignored"), number(3, 1), bytes(6, "ep"), number(7, 300), number(14, 2)].concat();
    let entry = [bytes(1, "timeline:ann"), bytes(2, &sub)].concat();
    let connect = [bytes(1, "jwt"), bytes(2, "not json"), bytes(3, entry), bytes(4, "go"), bytes(5, "1.2")].concat();
    let recover = json!({ "recover": true, "epoch": "ep", "offset": 300, "flag": 2 });
    compare(
        [number(1, 1), bytes(4, connect)].concat(),
        &json!({ "id": 1, "connect":
            { "token": "jwt", "name": "go", "version": "1.2", "subs": { "timeline:ann": recover } } }),
    );
    let subscribe = [bytes(1, "c:1"), bytes(2, "jwt"), number(3, 1), bytes(6, "x"), number(7, u64::MAX)].concat();
    let subscribe = [subscribe, bytes(12, "fossil"), number(14, 2)].concat();
    compare(
        [number(1, u32::MAX.into()), bytes(5, subscribe)].concat(),
        &json!({ "id": u32::MAX, "subscribe": { "channel": "c:1", "token": "jwt", "recover": true, "epoch": "x",
            "offset": u64::MAX, "delta": "fossil", "flag": 2 } }),
    );
    for (field, name) in [(6, "unsubscribe"), (8, "presence"), (9, "presence_stats")] {
        compare(
            [number(1, 2), bytes(field, bytes(1, "c:é"))].concat(),
            &json!({ "id": 2, name: { "channel": "c:é" } }),
        );
    }
    let since = [number(1, 7), bytes(2, "ep")].concat();
    // A negative number takes ten bytes, as one of 64 bits.
    let history = [bytes(1, "c:1"), number(7, (-1_i64) as u64), bytes(8, since), number(9, 1)].concat();
    compare(
        [number(1, 3), bytes(10, history)].concat(),
        &json!({ "id": 3, "history":
            { "channel": "c:1", "limit": -1, "since": { "offset": 7, "epoch": "ep" }, "reverse": true } }),
    );
    compare([number(1, 4), bytes(11, "")].concat(), &json!({ "id": 4, "ping": {} }));
    compare(bytes(12, bytes(1, "any")), &json!({ "send": {} }));
    compare([number(1, 5), bytes(14, bytes(1, "jwt"))].concat(), &json!({ "id": 5, "refresh": { "token": "jwt" } }));
    let refresh = [bytes(1, "c:1"), bytes(2, "jwt")].concat();
    compare(
        [number(1, 6), bytes(15, refresh)].concat(),
        &json!({ "id": 6, "sub_refresh": { "channel": "c:1", "token": "jwt" } }),
    );
}

#[test]
fn data_is_json_in_both_encodings() {
    for data in [r#"{"a":[1,"é"]}"#, "null", "1.50"] {
        let raw = RawValue::from_string(data.to_owned()).unwrap();
        let publish = [bytes(1, "c:1"), bytes(2, data)].concat();
        let rpc = [bytes(1, data), bytes(2, "posts.get")].concat();
        let frame =
            [delimited([number(1, 1), bytes(7, publish)].concat()), delimited([number(1, 2), bytes(13, rpc)].concat())];
        let commands = decode_binary_frame(&frame.concat()).unwrap();
        let Some(CommandBody::Publish(publish)) = &commands[0].request else { panic!("{commands:?}") };
        assert_eq!((publish.channel.as_str(), publish.data.as_ref().unwrap().get()), ("c:1", raw.get()));
        let Some(CommandBody::Rpc(rpc)) = &commands[1].request else { panic!("{commands:?}") };
        let input = rpc.data.as_ref().map_or("null", |data| data.get());
        assert_eq!((rpc.method.as_str(), input), ("posts.get", raw.get()));
    }
    compare([number(1, 1), bytes(7, bytes(1, "c:1"))].concat(), &json!({ "id": 1, "publish": { "channel": "c:1" } }));
    compare([number(1, 1), bytes(13, bytes(2, "m"))].concat(), &json!({ "id": 1, "rpc": { "method": "m" } }));
    let null = [bytes(1, "null"), bytes(2, "m")].concat();
    compare([number(1, 1), bytes(13, null)].concat(), &json!({ "id": 1, "rpc": { "method": "m", "data": null } }));
}

#[test]
fn data_that_is_not_json_is_refused() {
    for data in [&b"hello"[..], b"{", b"1 2", &[0xff, 0xfe], &[0]] {
        for command in [bytes(7, bytes(2, data)), bytes(13, bytes(1, data))] {
            let commands = decode_binary_frame(&delimited([number(1, 9), command].concat())).unwrap();
            assert!(matches!(commands[..], [Command { id: 9, request: Some(CommandBody::InvalidData) }]), "{data:?}");
        }
    }
}

#[test]
fn a_frame_holds_commands_in_order() {
    let first = delimited([number(1, 1), bytes(4, "")].concat());
    let second = delimited([number(1, 2), bytes(6, bytes(1, "c"))].concat());
    let commands = decode_binary_frame(&[first, vec![0], second].concat()).unwrap();
    let ids: Vec<u32> = commands.iter().map(|command| command.id).collect();
    assert_eq!(ids, [1, 0, 2]);
    assert!(commands[1].request.is_none(), "a pong");
    // Of several requests, the first of the schema counts, wherever it is in the message. Unknown fields are ignored.
    let both = [bytes(13, bytes(2, "m")), bytes(31, "unknown"), bytes(5, bytes(1, "c"))].concat();
    let commands = decode_binary_frame(&delimited(both)).unwrap();
    assert!(matches!(&commands[0].request, Some(CommandBody::Subscribe(it)) if it.channel == "c"));
}

#[test]
fn a_frame_cannot_multiply_in_memory() {
    let ping = delimited([number(1, 1), bytes(11, "")].concat());
    assert_eq!(decode_binary_frame(&ping.repeat(4_096)).unwrap().len(), 4_096);
    for frame in [ping.repeat(4_097), delimited(number(1, 1)), vec![0, 0], [vec![0], ping, delimited("")].concat()] {
        assert_eq!(decode_binary_frame(&frame).map(|commands| commands.len()), Err(MalformedFrame), "{}", frame.len());
    }
}

#[test]
fn malformed_frames_are_refused() {
    let good = delimited([number(1, 1), bytes(11, "")].concat());
    let truncated = good[..good.len() - 1].to_vec();
    let too_long = [vec![good[0] + 1], good[1..].to_vec()].concat();
    let huge = [vec![0xff; 9], vec![1]].concat();
    let wrong_type = delimited(bytes(1, "x"));
    let not_utf8 = delimited(bytes(5, bytes(1, [0xff])));
    let inner_length = delimited([5 << 3 | 2, 100]);
    let two_pongs = vec![0, 0];
    let long_pong = vec![0, 0x80, 0];
    let after = [good.clone(), vec![1]].concat();
    let no_varint = vec![0xff; 11];
    for frame in [
        vec![],
        truncated,
        too_long,
        huge,
        wrong_type,
        not_utf8,
        inner_length,
        two_pongs,
        long_pong,
        after,
        no_varint,
        vec![7; 99],
    ] {
        assert_eq!(decode_binary_frame(&frame).map(|commands| commands.len()), Err(MalformedFrame), "{frame:02x?}");
    }
    assert_eq!(decode_binary_frame(&good).unwrap().len(), 1);
}

// --- what the server sends -------------------------------------------------------------------------------------------

fn raw(json: &Value) -> Box<RawValue> {
    RawValue::from_string(json.to_string()).unwrap()
}

fn reply_of(reply: Reply) -> Vec<u8> {
    let mut frame = Vec::new();
    Encoding::Protobuf.append_reply(&mut frame, reply);
    frame
}

fn push_of(channel: &str, event: PushEvent<'_>) -> Vec<u8> {
    let mut frame = Vec::new();
    Encoding::Protobuf.append_push(&mut frame, &Push { channel, event });
    frame
}

#[test]
fn replies_have_the_bytes_of_the_schema() {
    let sub = SubscribeResult {
        expires: true,
        ttl: 5_000_000_000,
        recoverable: true,
        epoch: "ep".into(),
        // With deltas, data is text.
        publications: vec![raw(&json!({ "data": "{\"a\":1}", "delta": true, "offset": 8 }))],
        recovered: true,
        offset: 7,
        positioned: true,
        was_recovering: true,
        data: Some(raw(&json!([2]))),
        delta: true,
    };
    let publication = [bytes(4, r#"{"a":1}"#), number(6, 8), number(8, 1)].concat();
    let sub_bytes = [
        number(1, 1),
        number(2, u32::MAX.into()),
        number(3, 1),
        bytes(6, "ep"),
        bytes(7, publication),
        number(8, 1),
        number(9, 7),
        number(10, 1),
        bytes(11, "[2]"),
        number(12, 1),
        number(13, 1),
    ];
    let subs = BTreeMap::from([("c:1".to_owned(), SubscribeResult { offset: 3, ..SubscribeResult::default() })]);
    let client = "id".to_owned();
    let version = "v".to_owned();
    let data = Some(raw(&json!({})));
    let session = "s".to_owned();
    let node = "n".to_owned();
    let connect =
        ConnectResult { client, version, expires: true, ttl: 60, data, subs, ping: 25, pong: true, session, node };
    let entry = [bytes(1, "c:1"), bytes(2, number(9, 3))].concat();
    let connect_bytes =
        [bytes(1, "id"), bytes(2, "v"), number(3, 1), number(4, 60), bytes(5, "{}"), bytes(6, entry), number(7, 25)];
    let connect_bytes = [connect_bytes.concat(), number(8, 1), bytes(9, "s"), bytes(10, "n")];
    let refresh = || RefreshResult { client: "id".into(), version: "v".into(), expires: true, ttl: 9 };
    let history = HistoryResult { publications: vec![raw(&json!({ "data": null }))], epoch: "ep".into(), offset: 2 };
    let cases = [
        (ReplyBody::Connect(connect), 5, connect_bytes.concat()),
        (ReplyBody::Subscribe(sub), 6, sub_bytes.concat()),
        (ReplyBody::Unsubscribe {}, 7, vec![]),
        (ReplyBody::Publish {}, 8, vec![]),
        (
            ReplyBody::PresenceStats(PresenceStatsResult { num_clients: 3, num_users: 2 }),
            10,
            [number(1, 3), number(2, 2)].concat(),
        ),
        (ReplyBody::History(history), 11, [bytes(1, bytes(4, "null")), bytes(2, "ep"), number(3, 2)].concat()),
        (ReplyBody::Rpc { data: raw(&json!([1])) }, 13, bytes(1, "[1]")),
        (ReplyBody::Refresh(refresh()), 14, [bytes(1, "id"), bytes(2, "v"), number(3, 1), number(4, 9)].concat()),
        (ReplyBody::SubRefresh(refresh()), 15, [number(1, 1), number(2, 9)].concat()),
    ];
    for (body, field, expected) in cases {
        let expected = delimited([number(1, 300), bytes(field, expected)].concat());
        assert_eq!(reply_of(Reply::done(300, body)), expected, "field {field}");
    }
}

#[test]
fn pushes_of_backends_and_deltas_have_the_bytes_of_the_schema() {
    let data = Some(raw(&json!({ "a": 1 })));
    let subscribe = SubscribePush { recoverable: true, epoch: "ep".into(), offset: 7, positioned: true, data };
    let subscribe_bytes = [number(1, 1), bytes(4, "ep"), number(5, 7), number(6, 1), bytes(7, r#"{"a":1}"#)].concat();
    let missed = raw(&json!({ "data": 1, "offset": 8 }));
    let epoch = "e".into();
    let rest = r#","tags":{"k":"v"}"#;
    let text = PushEvent::Text { text: "patch", is_patch: true, rest, position: Some((9, &epoch)) };
    let tags = [bytes(1, "k"), bytes(2, "v")].concat();
    for (channel, event, expected) in [
        ("c", PushEvent::Subscribe(&subscribe), bytes(9, subscribe_bytes)),
        ("", PushEvent::Refresh { expires: true, ttl: 60 }, bytes(12, [number(1, 1), number(2, 60)].concat())),
        ("c", PushEvent::Missed(&missed), bytes(4, [bytes(4, "1"), number(6, 8)].concat())),
        ("c", text, bytes(4, [bytes(4, "patch"), number(6, 9), bytes(7, tags), number(8, 1)].concat())),
    ] {
        let channel_bytes = if channel.is_empty() { Vec::new() } else { bytes(2, channel) };
        let expected = delimited(bytes(4, [channel_bytes, expected].concat()));
        assert_eq!(push_of(channel, event), expected, "{event:?}");
    }
}

#[test]
fn errors_have_their_code_and_message() {
    let error = [number(1, 100), bytes(2, "internal server error"), number(3, 1)].concat();
    assert_eq!(reply_of(Reply::refused(4, ErrorCode::INTERNAL)), delimited([number(1, 4), bytes(2, error)].concat()));
    let code = ErrorCode { code: 422, message: "", temporary: false };
    let named = ReplyError { code, message: Some("empty: text".into()), field: Some("text".into()) };
    let error = [number(1, 422), bytes(2, "empty: text")].concat();
    assert_eq!(reply_of(Reply { id: 4, result: Err(named) }), delimited([number(1, 4), bytes(2, error)].concat()));
}

#[test]
fn presence_lists_clients() {
    let infos = json!({ "user": "ann", "client": "id", "conn_info": null, "chan_info": { "a": 1 } });
    let presence = BTreeMap::from([("id".to_owned(), raw(&infos))]);
    let info = [bytes(1, "ann"), bytes(2, "id"), bytes(3, "null"), bytes(4, r#"{"a":1}"#)].concat();
    let entry = [bytes(1, "id"), bytes(2, info)].concat();
    assert_eq!(
        reply_of(Reply::done(1, ReplyBody::Presence(PresenceResult { presence }))),
        delimited([number(1, 1), bytes(9, bytes(1, entry))].concat())
    );
}

#[test]
fn a_publication_has_its_info_tags_and_position() {
    let sender = ClientInfo { user: "ann".into(), client: "id".into(), conn_info: None, chan_info: None };
    let tags = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
    let members = publication_members("{\n\"a\": \"é\"}", Some(&sender), Some(&tags));
    let info = [bytes(1, "ann"), bytes(2, "id")].concat();
    let tag = [bytes(1, "k"), bytes(2, "v")].concat();
    let head = [bytes(4, r#"{"a": "é"}"#), bytes(5, info)].concat();
    for (position, offset, epoch) in [
        (None, vec![], vec![]),
        (Some((1, &"ep".into())), number(6, 1), bytes(14, "ep")),
        (Some((2, &"ep".into())), number(6, 2), vec![]),
    ] {
        let publication = [head.clone(), offset, bytes(7, &tag), epoch].concat();
        let push = [bytes(2, "n:a"), bytes(4, publication)].concat();
        let event = PushEvent::Publication { members: &members, position };
        assert_eq!(push_of("n:a", event), delimited(bytes(4, push)), "{position:?}");
    }
}

#[test]
fn data_may_have_members_with_the_names_of_others() {
    let data = r#"{"a":1,"info":{"user":"x"},"tags":["y"],"data":",\"info\":"}"#;
    let bare = format!("\"data\":{data}");
    let tagged = format!("{bare},\"tags\":{{\"k\":\"v\"}}");
    let tag = bytes(7, [bytes(1, "k"), bytes(2, "v")].concat());
    for (members, rest) in [(&bare, vec![]), (&tagged, tag), (&"\"data\":[1]".to_owned(), vec![])] {
        let data = if members.len() < 20 { "[1]" } else { data };
        let push = [bytes(2, "n:a"), bytes(4, [bytes(4, data), rest].concat())].concat();
        let event = PushEvent::Publication { members: members.as_bytes(), position: None };
        assert_eq!(push_of("n:a", event), delimited(bytes(4, push)), "{members}");
    }
}

#[test]
fn other_pushes_have_the_bytes_of_the_schema() {
    let json = br#"{"user":"","client":"id"}"#;
    let info = bytes(1, bytes(2, "id"));
    let why = [number(2, 2_500), bytes(3, "insufficient state")].concat();
    for (event, field, expected) in [
        (PushEvent::Join(json), 5, info.clone()),
        (PushEvent::Leave(json), 6, info),
        (PushEvent::Unsubscribe(Unsubscribe::INSUFFICIENT_STATE), 7, why),
    ] {
        let push = [bytes(2, "n:a"), bytes(field, expected)].concat();
        assert_eq!(push_of("n:a", event), delimited(bytes(4, push)), "field {field}");
    }
    assert_eq!(Encoding::Protobuf.ping(), reply_of_nothing());
}

/// An empty reply.
fn reply_of_nothing() -> Vec<u8> {
    wire::Reply::default().encode_length_delimited_to_vec()
}

#[test]
fn damaged_publications_keep_their_offset() {
    let event = PushEvent::Publication { members: b"\"data\":1,\"info\":{", position: Some((5, &"ep".into())) };
    let frame = Bytes::from(push_of("n:a", event));
    let reply = wire::Reply::decode_length_delimited(frame).unwrap();
    let publication = reply.push.unwrap().r#pub.unwrap();
    assert_eq!((publication.offset, publication.data.len()), (5, 0));
}
