//! Translates messages between the protocol's two encodings, so that a test works in both: commands from JSON to
//! Protobuf, replies and pushes from Protobuf to JSON.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use serde_json::{Map, Value, json};

// The server's generated code, a second time. The bytes of the schema are checked by the server's unit tests and by the
// official SDK.
#[allow(unreachable_pub, dead_code, reason = "generated, with the whole schema")]
#[rustfmt::skip]
#[path = "../../../src/protocol/protobuf/generated.rs"]
mod generated;

use generated as wire;

/// The frame of a command, in the form of JSON.
pub fn command_frame(command: &Value) -> Vec<u8> {
    command_of(command).encode_length_delimited_to_vec()
}

fn command_of(command: &Value) -> wire::Command {
    let request = |name: &str| command.get(name).filter(|request| !request.is_null());
    wire::Command {
        id: number(command, "id") as u32,
        connect: request("connect").map(connect),
        subscribe: request("subscribe").map(subscribe),
        unsubscribe: request("unsubscribe").map(|it| wire::UnsubscribeRequest { channel: text(it, "channel") }),
        publish: request("publish").map(|it| wire::PublishRequest {
            channel: text(it, "channel"),
            data: data(it),
            ..Default::default()
        }),
        presence: request("presence").map(|it| wire::PresenceRequest { channel: text(it, "channel") }),
        presence_stats: request("presence_stats").map(|it| wire::PresenceStatsRequest { channel: text(it, "channel") }),
        history: request("history").map(history),
        ping: request("ping").map(|_| wire::PingRequest {}),
        send: request("send").map(|it| wire::SendRequest { data: data(it) }),
        rpc: request("rpc").map(|it| wire::RpcRequest { data: data(it), method: text(it, "method") }),
        refresh: request("refresh").map(|it| wire::RefreshRequest { token: text(it, "token") }),
        sub_refresh: request("sub_refresh")
            .map(|it| wire::SubRefreshRequest { channel: text(it, "channel"), token: text(it, "token") }),
    }
}

/// The body of a request with commands for a stream.
pub fn emulation_body(session: &str, node: &str, data: Bytes) -> Vec<u8> {
    wire::EmulationRequest { node: node.to_owned(), session: session.to_owned(), data }.encode_to_vec()
}

fn connect(request: &Value) -> wire::ConnectRequest {
    let subs = request["subs"].as_object().into_iter().flatten();
    wire::ConnectRequest {
        token: text(request, "token"),
        name: text(request, "name"),
        version: text(request, "version"),
        subs: subs.map(|(channel, request)| (channel.clone(), subscribe(request))).collect(),
        ..Default::default()
    }
}

fn subscribe(request: &Value) -> wire::SubscribeRequest {
    wire::SubscribeRequest {
        channel: text(request, "channel"),
        token: text(request, "token"),
        recover: request["recover"].as_bool().unwrap_or_default(),
        epoch: text(request, "epoch"),
        offset: number(request, "offset"),
        delta: text(request, "delta"),
        flag: number(request, "flag") as i64,
        ..Default::default()
    }
}

fn history(request: &Value) -> wire::HistoryRequest {
    let since = request.get("since");
    wire::HistoryRequest {
        channel: text(request, "channel"),
        limit: request["limit"].as_i64().unwrap_or_default() as i32,
        since: since.map(|it| wire::StreamPosition { offset: number(it, "offset"), epoch: text(it, "epoch") }),
        reverse: request["reverse"].as_bool().unwrap_or_default(),
    }
}

fn text(request: &Value, name: &str) -> String {
    request[name].as_str().unwrap_or_default().to_owned()
}

fn number(request: &Value, name: &str) -> u64 {
    request[name].as_u64().unwrap_or_default()
}

fn data(request: &Value) -> Bytes {
    request.get("data").map(|data| data.to_string().into()).unwrap_or_default()
}

/// The replies and pushes of a frame, in the form of JSON. A ping is an empty object.
pub fn messages(mut frame: Bytes) -> Vec<Value> {
    assert!(!frame.is_empty(), "an empty frame from the server");
    let mut messages = Vec::new();
    while !frame.is_empty() {
        messages.push(message(wire::Reply::decode_length_delimited(&mut frame).expect("a message of the schema")));
    }
    messages
}

fn message(reply: wire::Reply) -> Value {
    let mut members = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            members.insert(name.to_owned(), value);
        }
    };
    add("id", (reply.id != 0).then(|| reply.id.into()));
    add(
        "error",
        reply.error.map(|it| {
            present(json!({ "temporary": it.temporary }), &[("code", it.code.into()), ("message", it.message.into())])
        }),
    );
    add("push", reply.push.map(push));
    add("connect", reply.connect.map(connected));
    add("subscribe", reply.subscribe.map(subscribed));
    add("unsubscribe", reply.unsubscribe.map(|_| json!({})));
    add("publish", reply.publish.map(|_| json!({})));
    add("presence", reply.presence.map(|it| json!({ "presence": infos(it.presence) })));
    add(
        "presence_stats",
        reply.presence_stats.map(|it| json!({ "num_clients": it.num_clients, "num_users": it.num_users })),
    );
    add(
        "history",
        reply.history.map(|it| {
            let publications: Vec<Value> = it.publications.into_iter().map(publication).collect();
            json!({ "publications": publications, "epoch": it.epoch, "offset": it.offset })
        }),
    );
    add("rpc", reply.rpc.map(|it| json!({ "data": embedded(&it.data) })));
    add(
        "refresh",
        reply.refresh.map(|it| {
            let rest = json!({ "expires": it.expires, "ttl": it.ttl });
            present(rest, &[("client", it.client.into()), ("version", it.version.into())])
        }),
    );
    add("sub_refresh", reply.sub_refresh.map(|it| present(json!({ "expires": it.expires, "ttl": it.ttl }), &[])));
    Value::Object(members)
}

fn push(push: wire::Push) -> Value {
    let mut json = json!({ "channel": push.channel });
    if let Some(it) = push.r#pub {
        json["pub"] = publication(it);
    }
    if let Some(it) = push.subscribe {
        let rest = json!({
            "recoverable": it.recoverable, "positioned": it.positioned, "epoch": it.epoch, "offset": it.offset,
        });
        let data = (!it.data.is_empty()).then(|| embedded(&it.data));
        json["subscribe"] = present(rest, &[]);
        if let Some(data) = data {
            json["subscribe"]["data"] = data;
        }
    }
    if let Some(it) = push.refresh {
        json["refresh"] = present(json!({ "expires": it.expires, "ttl": it.ttl }), &[]);
        json.as_object_mut().expect("an object").remove("channel");
    }
    for (name, info) in [("join", push.join.map(|it| it.info)), ("leave", push.leave.map(|it| it.info))] {
        if let Some(info) = info {
            json[name] = json!({ "info": client_info(info.expect("a client")) });
        }
    }
    if let Some(it) = push.disconnect {
        json["disconnect"] = json!({ "code": it.code, "reason": it.reason });
    }
    if let Some(it) = push.unsubscribe {
        json["unsubscribe"] = json!({ "code": it.code, "reason": it.reason });
    }
    json
}

fn connected(result: wire::ConnectResult) -> Value {
    let subs: Map<String, Value> =
        result.subs.into_iter().map(|(channel, result)| (channel, subscribed(result))).collect();
    let rest = json!({
        "expires": result.expires, "ttl": result.ttl, "ping": result.ping, "pong": result.pong,
        "subs": subs, "session": result.session, "node": result.node,
    });
    present(rest, &[("client", result.client.into()), ("version", result.version.into())])
}

fn subscribed(result: wire::SubscribeResult) -> Value {
    let publications: Vec<Value> = result.publications.into_iter().map(publication).collect();
    let mut json = present(
        json!({
            "expires": result.expires, "ttl": result.ttl, "recoverable": result.recoverable, "epoch": result.epoch,
            "publications": publications, "recovered": result.recovered, "offset": result.offset,
            "positioned": result.positioned, "was_recovering": result.was_recovering,
        }),
        &[],
    );
    if !result.data.is_empty() {
        json["data"] = embedded(&result.data);
    }
    json
}

fn publication(publication: wire::Publication) -> Value {
    let rest = json!({ "offset": publication.offset, "tags": publication.tags, "epoch": publication.epoch });
    let mut json = present(rest, &[("data", embedded(&publication.data))]);
    if let Some(info) = publication.info {
        json["info"] = client_info(info);
    }
    json
}

fn infos(presence: BTreeMap<String, wire::ClientInfo>) -> Map<String, Value> {
    presence.into_iter().map(|(client, info)| (client, client_info(info))).collect()
}

fn client_info(info: wire::ClientInfo) -> Value {
    let mut json = json!({ "user": info.user, "client": info.client });
    for (name, bytes) in [("conn_info", info.conn_info), ("chan_info", info.chan_info)] {
        if !bytes.is_empty() {
            json[name] = embedded(&bytes);
        }
    }
    json
}

fn embedded(bytes: &Bytes) -> Value {
    serde_json::from_slice(bytes).expect("JSON in bytes")
}

/// The members that are not empty, as JSON omits the others, and those that are always present.
fn present(optional: Value, always: &[(&str, Value)]) -> Value {
    let Value::Object(mut members) = optional else { panic!("no object") };
    members.retain(|_, value| match value {
        Value::Bool(set) => *set,
        Value::Number(number) => number.as_u64() != Some(0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Null => false,
    });
    members.extend(always.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    Value::Object(members)
}
