//! Malformed input: the right error code, no panic, no effect on other clients, no data stored.

use futures::SinkExt;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::NAMESPACES;
use crate::client::{Client, Heard};
use crate::server::{API_KEY, PATIENCE, Server, signed, token};

/// The server's reaction to a frame on a connected socket: the close code, or 0 if it accepts the frame.
async fn reaction(server: &Server, frame: Message) -> u16 {
    let mut client = Client::connect(server, "ann").await;
    // The server may close the connection before the frame is written completely.
    let _ = client.socket.send(frame).await;
    let _ = client.socket.send(Message::text(json!({ "id": 999, "ping": {} }).to_string())).await;
    loop {
        match client.hear().await {
            Heard::Reply(reply) if reply["id"] == 999 => return 0,
            Heard::Closed(code, _) => return code,
            _ => {}
        }
    }
}

/// Checks that the server still works as before.
async fn unharmed(server: &Server, bystander: &mut Client) {
    let id = server.post("ann", "still here").await;
    loop {
        if bystander.publication("timeline:bystander").await["data"]["post"]["id"] == id {
            break;
        }
    }
    server.metric_is("feedline_connections", 1.0).await;
    let log = server.log();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
}

#[tokio::test]
async fn malformed_frames_close_with_the_specified_code() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    server.follow("bystander", "ann").await;
    let mut bystander = Client::connect(&server, "bystander").await;
    let deep = |open: &str, many: usize| open.repeat(many);
    let text = [
        (String::new(), 3501),
        ("\n".into(), 3501),
        ("{".into(), 3501),
        ("null".into(), 3501),
        ("[]".into(), 3501),
        ("\"text\"".into(), 3501),
        ("{\"id\":1,\"rpc\":{\"method\":\"timeline.read\"".into(), 3501),
        ("{\"id\":-1,\"ping\":{}}".into(), 3501),
        ("{\"id\":\"1\",\"ping\":{}}".into(), 3501),
        ("{\"id\":4294967296,\"ping\":{}}".into(), 3501),
        ("{\"id\":1.5,\"ping\":{}}".into(), 3501),
        ("{\"id\":1,\"subscribe\":{\"channel\":1}}".into(), 3501),
        ("{\"id\":1,\"subscribe\":[]}".into(), 3501),
        ("{\"id\":1,\"subscribe\":{\"channel\":\"topic:x\",\"offset\":-1}}".into(), 3501),
        ("{\"id\":1}".into(), 3501),
        ("{\"id\":1,\"unknown\":{}}".into(), 3501),
        ("{\"id\":1,\"connect\":{}}".into(), 3501),
        ("{\"id\":1,\"ping\":{}}\n\n{\"id\":2,\"ping\":{}}".into(), 3501),
        ("\u{0}\u{feff}".into(), 3501),
        (deep("[", 60_000), 3501),
        (deep("{\"id\":", 10_000), 3501),
        (format!("{{\"id\":1,\"rpc\":{{\"method\":\"posts.create\",\"data\":{}", deep("[", 60_000)), 3501),
        (format!("{{\"id\":1,\"rpc\":{{\"method\":\"{}\"}}}}", "x".repeat(60_000)), 0),
        (
            format!(
                "{{\"id\":1,\"rpc\":{{\"method\":\"posts.create\",\"data\":{}{}}}}}",
                deep("[", 100),
                deep("]", 100)
            ),
            0,
        ),
        ("{\"id\":1,\"ping\":{},\"unknown\":[1,2]}".into(), 0),
        ("x".repeat(70_000), 1009),
    ];
    for (frame, expected) in text {
        let shown = frame.chars().take(60).collect::<String>();
        assert_eq!(reaction(&server, Message::text(frame)).await, expected, "{shown}");
    }
    assert_eq!(reaction(&server, Message::binary(vec![0xff; 100])).await, 3506);
    unharmed(&server, &mut bystander).await;
}

#[tokio::test]
async fn deeply_nested_and_odd_inputs_are_rejected() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    let nested = (0..120).fold(json!({}), |inner, _| json!({ "a": inner }));
    for (method, data) in [
        ("posts.create", json!({ "text": "x", "data": { "deep": nested } })),
        ("posts.create", json!({ "text": "x", "location": { "lat": 90.5, "lon": 0 } })),
        ("posts.create", json!({ "text": "x", "location": { "lat": 0, "lon": -180.5 } })),
        ("posts.create", json!({ "text": "x", "data": "text" })),
        ("posts.create", json!({ "text": null })),
        ("posts.create", json!({ "text": "x", "location": { "lat": 1e308, "lon": 0 } })),
        ("posts.create", json!({ "text": "x", "media": [{ "type": "image", "url": "javascript:alert(1)" }] })),
        ("posts.get", json!({ "id": -1 })),
        ("posts.get", json!({ "id": u64::MAX })),
        ("posts.get", json!({ "id": 1e300 })),
        ("users.get", json!({ "id": "x".repeat(65) })),
        ("users.get", json!({ "id": "\u{0}" })),
        ("timeline.read", json!({ "cursor": "p99999999999999999999" })),
        ("timeline.read", json!({ "cursor": "p-1" })),
        ("timeline.updates", json!({ "offset": u64::MAX, "epoch": "\u{0}" })),
        ("topics.read", json!({ "name": "\u{202e}" })),
    ] {
        let reply = ann.call(json!({ "rpc": { "method": method, "data": data } })).await;
        let code = reply["error"]["code"].as_u64().unwrap_or(0);
        // Updates of another epoch are reported as not recovered.
        assert!(matches!(code, 400 | 404 | 422 | 0), "{method}: {reply}");
        assert!(code != 0 || method == "timeline.updates", "{method} {data}: {reply}");
    }
    assert!(ann.rpc("timeline.read", &json!({})).await["items"].is_array(), "accepted posts can be read");
}

/// Followers' decoders have limits of their own, so the limit is the same on every way in.
#[tokio::test]
async fn json_has_at_most_32_levels_on_every_way_in() {
    let server = Server::start_with(&[("namespaces", r#"[{"name":"chat","publish":"anyone"}]"#)]).await;
    let mut ann = Client::connect(&server, "ann").await;
    for (levels, is_accepted) in [(32, true), (33, false), (120, false)] {
        for innermost in [json!({}), json!([])] {
            let data =
                (2..levels).fold(innermost, |inner, n| if n % 2 == 0 { json!([inner]) } else { json!({ "a": inner }) });
            // The outermost level is an object, as a post's data must be.
            let data = json!({ "a": data });
            let ok =
                |code: u64, refusal: u64| assert_eq!(code, if is_accepted { 0 } else { refusal }, "{levels} levels");
            let code = |reply: &serde_json::Value| reply["error"]["code"].as_u64().unwrap_or(0);
            let post = json!({ "text": "x", "data": data });
            let created = ann.call(json!({ "rpc": { "method": "posts.create", "data": post } })).await;
            ok(code(&created), 400);
            let id = server.post("ann", "another").await;
            let edit = json!({ "id": id, "data": data });
            ok(code(&ann.call(json!({ "rpc": { "method": "posts.edit", "data": edit } })).await), 400);
            let profile = json!({ "data": data });
            ok(code(&ann.call(json!({ "rpc": { "method": "users.update", "data": profile } })).await), 400);
            let publication = json!({ "channel": "chat:1", "data": data });
            ann.subscribe("chat:1").await;
            ok(code(&ann.call(json!({ "publish": publication })).await), 107);
            ok(code(&server.backend("publish", &publication).await), 107);
            let connect = json!({ "connect": { "token": signed(&json!({ "sub": "bo", "info": data })) } });
            let mut bo = Client::open(&server).await;
            bo.command(connect).await;
            let closed = matches!(bo.hear().await, Heard::Closed(3500, _));
            assert_eq!(closed, !is_accepted, "info of {levels} levels");
            ann.done(json!({ "unsubscribe": { "channel": "chat:1" } })).await;
        }
    }
}

#[tokio::test]
async fn invalid_utf8_and_broken_frames_close_the_connection() {
    let server = Server::start().await;
    server.follow("bystander", "ann").await;
    let mut bystander = Client::connect(&server, "bystander").await;
    // Frames that no library would write: invalid UTF-8, a reserved bit, an unknown opcode, no mask, an excessive
    // length.
    for (frame, expected) in [
        (vec![0x81, 0x82, 0, 0, 0, 0, 0xff, 0xfe], 1007),
        (vec![0xf1, 0x80, 0, 0, 0, 0], 1002),
        (vec![0x83, 0x80, 0, 0, 0, 0], 1002),
        (vec![0x81, 0x02, b'{', b'}'], 1002),
        (vec![0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0], 1009),
    ] {
        let mut client = Client::connect(&server, "ann").await;
        client.socket.websocket().get_mut().write_all(&frame).await.unwrap();
        assert_eq!(client.closed().await.0, expected, "{frame:02x?}");
    }
    unharmed(&server, &mut bystander).await;
}

#[tokio::test]
async fn bytes_that_are_not_http_are_answered_or_dropped() {
    let server = Server::start().await;
    for bytes in
        [&b"\x16\x03\x01\x02\x00"[..], b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", &[0; 100], &[b'x'; 40_000]]
    {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        let _ = read.expect("the server closes the connection");
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer));
    }
    for upgrade in [
        vec![("connection", "upgrade")],
        vec![("connection", "upgrade"), ("upgrade", "websocket")],
        vec![
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "12"),
            ("sec-websocket-key", "eA=="),
        ],
        vec![],
    ] {
        let answer = server.http("GET", "/connection/websocket", &upgrade, "").await;
        assert_eq!((answer.status.as_u16(), &answer.body["error"]["code"]), (400, &json!("invalid")), "{upgrade:?}");
    }
    assert!(!server.log().contains("panicked"));
}

/// A command made of valid and invalid parts.
fn command() -> impl Strategy<Value = Value> {
    // Commands that end the connection are rarer; otherwise few others would be sent.
    let kinds = prop::sample::select(vec![
        "connect",
        "publish",
        "publish",
        "history",
        "subscribe",
        "subscribe",
        "unsubscribe",
        "publish",
        "presence",
        "presence_stats",
        "history",
        "ping",
        "send",
        "rpc",
        "refresh",
        "sub_refresh",
        "other",
    ]);
    let values = prop_oneof![
        Just(json!("chat:1")),
        Just(json!("topic:x")),
        Just(json!("timeline:bo")),
        Just(json!("timeline.read")),
        Just(json!("")),
        Just(json!(null)),
        Just(json!(true)),
        Just(json!(-1)),
        Just(json!(u64::MAX)),
        Just(json!({})),
        Just(json!([[]])),
        any::<String>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "channel", "token", "data", "method", "recover", "offset", "epoch", "limit", "since", "reverse", "delta",
        "subs",
    ]);
    let members = prop::collection::btree_map(names.prop_map(str::to_owned), values, 0..4);
    // Most commands name a channel; otherwise the code behind that check would not be reached.
    let channels = prop::sample::select(vec!["chat:1", "open:1", "plain:1", "topic:x", "timeline:ann", "shut:1"]);
    (prop_oneof![1 => Just(0), 12 => 1..5_u32], kinds, members, prop::option::weighted(0.8, channels)).prop_map(
        |(id, kind, members, channel)| {
            let mut command = json!({ "id": id, kind: members });
            if let Some(channel) = channel {
                command[kind]["channel"] = channel.into();
            }
            command
        },
    )
}

#[test]
fn random_commands_are_answered_or_close_the_connection() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    // One server for all cases.
    let server = runtime.block_on(Server::start_with(&[("namespaces", NAMESPACES)]));
    let config = ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() };
    let commands = prop::collection::vec(command(), 1..6);
    let noise = prop::option::of(prop::collection::vec(any::<u8>(), 0..200));
    let checked = TestRunner::new(config).run(&(commands, noise), |(commands, noise)| {
        runtime.block_on(said(&server, &commands, noise));
        prop_assert!(!server.log().contains("panicked"), "{}", server.log());
        Ok(())
    });
    if let Err(failure) = checked {
        panic!("{failure}");
    }
}

async fn said(server: &Server, commands: &[Value], noise: Option<Vec<u8>>) {
    let mut client = Client::connect(server, "ann").await;
    let frame: Vec<String> = commands.iter().map(Value::to_string).collect();
    client.send(frame.join("\n")).await;
    if let Some(noise) = noise {
        let _ = client.socket.send(Message::text(String::from_utf8_lossy(&noise).into_owned())).await;
    }
    client.send(json!({ "id": 4_000_000_000_u32, "ping": {} }).to_string()).await;
    loop {
        match client.hear().await {
            Heard::Reply(reply) if reply["id"] == 4_000_000_000_u32 => break,
            Heard::Closed(code, reason) => {
                assert!(matches!(code, 3500 | 3501 | 3508), "{code} {reason} by {commands:?}");
                break;
            }
            _ => {}
        }
    }
    let mut other = Client::open(server).await;
    other.done(json!({ "connect": { "token": token("bo") } })).await;
}

#[tokio::test]
async fn publications_that_clients_cannot_decode_are_rejected() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let mut ann = Client::connect(&server, "ann").await;
    ann.subscribe("chat:1").await;
    let deep = format!("{}{}", "[".repeat(33), "]".repeat(33));
    for (data, id) in [(&*deep, 901), ("1e999", 902), (r#""\ud800""#, 903)] {
        ann.send(format!(r#"{{"id":{id},"publish":{{"channel":"chat:1","data":{data}}}}}"#)).await;
        assert_eq!(ann.reply(id).await["error"]["code"], 107, "{data}");
        let body = format!(r#"{{"channel":"chat:1","data":{data}}}"#);
        let answer = server.http("POST", "/api/publish", &[("x-api-key", API_KEY)], &body).await;
        assert_eq!(answer.body["error"]["code"], 107, "{data}: {answer:?}");
    }
    let deep = format!("{}{}", "[".repeat(32), "]".repeat(32));
    ann.send(format!(r#"{{"id":904,"publish":{{"channel":"chat:1","data":{deep}}}}}"#)).await;
    assert!(ann.reply(904).await.get("error").is_none());
    let history = server.backend("history", &json!({ "channel": "chat:1", "limit": 10 })).await;
    assert_eq!(history["result"]["publications"].as_array().expect("publications").len(), 1, "{history}");
}
