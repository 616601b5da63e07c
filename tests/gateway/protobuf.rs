//! The Protobuf encoding: a session is the same in both encodings, and clients of both share channels.

use futures::SinkExt;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::NAMESPACES;
use crate::client::{Client, Encoding, Heard};
use crate::server::{Server, signed, token, unix};

const BOTH: [Encoding; 2] = [Encoding::Json, Encoding::Protobuf];

async fn server() -> Server {
    Server::start_with(&[("namespaces", NAMESPACES)]).await
}

async fn stream(server: &Server) -> TcpStream {
    TcpStream::connect(("127.0.0.1", server.port())).await.unwrap()
}

#[tokio::test]
async fn clients_of_both_encodings_share_a_channel() {
    let server = server().await;
    let mut clients = Vec::new();
    for encoding in BOTH {
        let mut client = Client::open_as(&server, encoding).await;
        let token = signed(&json!({ "sub": "ann", "info": { "name": "Ann" } }));
        client.done(json!({ "connect": { "token": token } })).await;
        client.subscribe("chat:1").await;
        clients.push(client);
    }
    let mut epoch = Value::Null;
    let data = [json!({ "a": "b\nc" }), json!("é"), json!(null), json!([1.5]), json!({ "text": "x".repeat(30_000) })];
    for (n, data) in data.into_iter().enumerate() {
        let speaker = &mut clients[n % 2];
        speaker.done(json!({ "publish": { "channel": "chat:1", "data": data } })).await;
        let mut heard = Vec::new();
        for client in &mut clients {
            heard.push(client.publication("chat:1").await);
        }
        assert_eq!(heard[0], heard[1]);
        let publication = heard.remove(0);
        assert_eq!((&publication["data"], publication["offset"].as_u64()), (&data, Some(n as u64 + 1)));
        assert_eq!(publication["info"]["conn_info"], json!({ "name": "Ann" }));
        if n == 0 {
            epoch = publication["epoch"].clone();
        }
    }
    // A backend's publication has tags, and no sender.
    let published = json!({ "channel": "chat:1", "data": 7, "tags": { "k": "v" } });
    server.backend("publish", &published).await;
    for client in &mut clients {
        assert_eq!(client.publication("chat:1").await, json!({ "data": 7, "tags": { "k": "v" }, "offset": 6 }));
    }
    let history = json!({ "history": { "channel": "chat:1", "limit": 2, "since": { "offset": 3, "epoch": epoch } } });
    let (json, protobuf) = (clients[0].done(history.clone()).await, clients[1].done(history).await);
    assert_eq!(json["history"], protobuf["history"]);
    assert_eq!(protobuf["history"]["publications"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn replies_are_the_same_in_both_encodings() {
    let long = format!("plain:{}", "x".repeat(250));
    let sub_token = signed(&json!({ "sub": "ann", "channel": "$chat:1", "exp": unix() + 60, "info": { "seat": 4 } }));
    let fresh = signed(&json!({ "sub": "ann", "exp": unix() + 3_600 }));
    let commands = [
        json!({ "subscribe": { "channel": "chat:1" } }),
        json!({ "subscribe": { "channel": "chat:1" } }),
        json!({ "subscribe": { "channel": "$chat:1", "token": sub_token.clone() } }),
        json!({ "sub_refresh": { "channel": "$chat:1", "token": sub_token } }),
        json!({ "subscribe": { "channel": "open:1" } }),
        json!({ "subscribe": { "channel": long } }),
        json!({ "subscribe": { "channel": "none:1" } }),
        json!({ "subscribe": { "channel": "chat:3", "recover": true, "epoch": "other", "flag": 2 } }),
        json!({ "publish": { "channel": "chat:1", "data": { "n": 1 } } }),
        json!({ "publish": { "channel": "chat:1" } }),
        json!({ "publish": { "channel": "plain:1", "data": 1 } }),
        json!({ "presence_stats": { "channel": "chat:1" } }),
        json!({ "history": { "channel": "chat:1", "limit": -1, "reverse": true } }),
        json!({ "history": { "channel": "chat:1" } }),
        json!({ "history": { "channel": "open:1" } }),
        json!({ "rpc": { "method": "users.get", "data": { "id": "nobody" } } }),
        json!({ "rpc": { "method": "timeline.read" } }),
        json!({ "rpc": { "method": "timeline.read", "data": null } }),
        json!({ "rpc": { "method": "timeline.read", "data": [1] } }),
        json!({ "rpc": { "method": "no.such" } }),
        json!({ "refresh": { "token": fresh } }),
        json!({ "ping": {} }),
        json!({ "unsubscribe": { "channel": "chat:1" } }),
        json!({ "unsubscribe": { "channel": "chat:1" } }),
    ];
    let mut replies = Vec::new();
    for encoding in BOTH {
        // The same user on a server of their own, so that nothing of the other session is left.
        let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
        let mut client = Client::open_as(&server, encoding).await;
        let connected = client.done(json!({ "connect": { "token": token("ann") } })).await;
        let mut of_encoding = vec![connected];
        for command in &commands {
            of_encoding.push(client.call(command.clone()).await);
        }
        of_encoding.iter_mut().for_each(forget_random_parts);
        replies.push(of_encoding);
    }
    let commands = std::iter::once(json!("connect")).chain(commands);
    for ((command, json), protobuf) in commands.zip(&replies[0]).zip(&replies[1]) {
        assert_eq!(json, protobuf, "{command}");
    }
}

/// Replaces what differs between two servers: ids, epochs and seconds. The name of an invalid field is only in JSON.
fn forget_random_parts(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("field");
            for (name, value) in members {
                if matches!(name.as_str(), "client" | "epoch" | "ttl") {
                    *value = json!("");
                } else {
                    forget_random_parts(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(forget_random_parts),
        _ => {}
    }
}

#[tokio::test]
async fn presence_joins_and_leaves_are_messages() {
    let server = server().await;
    let mut ann = Client::connect_as(&server, "ann", Encoding::Protobuf).await;
    ann.subscribe("chat:1").await;
    let mut bo = Client::connect_as(&server, "bo", Encoding::Json).await;
    bo.subscribe("chat:1").await;
    let joined = loop {
        let info = ann.push_of("chat:1", "join").await["info"].take();
        if info["user"] == "bo" {
            break info;
        }
    };
    let ask = json!({ "presence": { "channel": "chat:1" } });
    let (json, protobuf) = (bo.done(ask.clone()).await, ann.done(ask).await);
    assert_eq!(json["presence"], protobuf["presence"]);
    let client = joined["client"].as_str().unwrap();
    assert_eq!(protobuf["presence"]["presence"][client], joined);
    drop(bo);
    assert_eq!(ann.push_of("chat:1", "leave").await["info"], joined);
}

#[tokio::test]
async fn lost_publications_are_recovered() {
    let server = server().await;
    let mut ann = Client::open_protobuf(&server).await;
    let connected = ann.done(json!({ "connect": { "token": token("ann") } })).await;
    let timeline = connected["connect"]["subs"]["timeline:ann"].clone();
    let position = ann.subscribe("chat:1").await;
    drop(ann);
    for n in 1..=4 {
        server.backend("publish", &json!({ "channel": "chat:1", "data": { "n": n } })).await;
    }
    let mut desk = Client::connect(&server, "ann").await;
    let post = server.post("ann", "missed").await;
    let mut missed = desk.publication("timeline:ann").await;
    assert_eq!(missed["data"]["post"]["id"], post);
    // Only the live push of the first entry has it.
    missed.as_object_mut().unwrap().remove("epoch");

    let recover = |position: &Value, offset: &Value| {
        let epoch = &position["epoch"];
        json!({ "recover": true, "offset": offset, "epoch": epoch, "channel": "chat:1" })
    };
    let mut again = Client::open_protobuf(&server).await;
    let subs = json!({ "timeline:ann": recover(&timeline, &timeline["offset"]) });
    let connected = again.done(json!({ "connect": { "token": token("ann"), "subs": subs } })).await;
    let timeline = &connected["connect"]["subs"]["timeline:ann"];
    assert_eq!((&timeline["recovered"], &timeline["publications"]), (&json!(true), &json!([missed])));
    let subscribe = json!({ "subscribe": recover(&position, &json!(1)) });
    let reply = again.done(subscribe).await["subscribe"].take();
    assert_eq!((&reply["recovered"], &reply["offset"]), (&json!(true), &json!(1)));
    let expected: Vec<Value> = (2..=4).map(|n| json!({ "data": { "n": n }, "offset": n })).collect();
    assert_eq!(reply["publications"], json!(expected));
}

#[tokio::test]
async fn posts_and_settled_likes_arrive() {
    let server = server().await;
    server.follow("bo", "ann").await;
    let mut ann = Client::connect_as(&server, "ann", Encoding::Protobuf).await;
    let mut bo = Client::connect_as(&server, "bo", Encoding::Protobuf).await;
    let mut desk = Client::connect_as(&server, "bo", Encoding::Json).await;
    let post = ann.rpc("posts.create", &json!({ "text": "hello" })).await["id"].clone();
    for client in [&mut bo, &mut desk] {
        assert_eq!(client.publication("timeline:bo").await["data"]["post"]["id"], post);
    }
    bo.rpc("likes.add", &json!({ "post": post })).await;
    let settled = bo.publication("notifications:bo").await["data"].take();
    assert_eq!((&settled["type"], &settled["id"]), (&json!("like.settled"), &post));
    assert_eq!(desk.publication("notifications:bo").await["data"]["type"], "like.changed");
    desk.rpc("likes.remove", &json!({ "post": post })).await;
    assert_eq!(bo.publication("notifications:bo").await["data"]["type"], "like.changed");
}

#[tokio::test]
async fn the_query_and_subprotocols_choose_the_encoding() {
    let server = server().await;
    let (json, protobuf) = ("centrifuge-json", "centrifuge-protobuf");
    for (query, offered, chosen) in [
        ("", Some(json), Some(json)),
        ("", Some(protobuf), Some(protobuf)),
        ("", Some("centrifuge-protobuf, centrifuge-json"), Some(protobuf)),
        ("format=protobuf", None, None),
        ("cf_protocol=protobuf", None, None),
        ("cf_protocol=protobuf", Some(protobuf), Some(protobuf)),
    ] {
        let headers: Vec<_> = offered.iter().map(|offered| ("sec-websocket-protocol", *offered)).collect();
        let (mut client, subprotocol) =
            Client::negotiate(&server, stream(&server).await, query, &headers).await.unwrap();
        assert_eq!(subprotocol.as_deref(), chosen, "{query} {offered:?}");
        // The client asserts the kind of each frame.
        client.done(json!({ "connect": { "token": token("ann") } })).await;
    }
}

#[tokio::test]
async fn malformed_messages_close_with_the_specified_code() {
    let server = server().await;
    let mut bystander = Client::connect_as(&server, "bo", Encoding::Protobuf).await;
    bystander.subscribe("chat:1").await;
    let ping_command = vec![5, 8, 0xe7, 7, 0x5a, 0];
    let frames = [
        (Message::binary(vec![]), 3501),
        (Message::binary(vec![0]), 3501),
        (Message::binary(vec![0, 0]), 3501),
        (Message::binary(vec![0xff; 100]), 3501),
        (Message::binary(vec![5, 8]), 3501),
        (Message::binary(vec![2, 8, 9]), 3501),
        (Message::binary(vec![1; 60_000]), 3501),
        (Message::binary([ping_command.clone(), vec![1]].concat()), 3501),
        (Message::text(json!({ "id": 1, "ping": {} }).to_string()), 3506),
        (Message::binary(vec![0; 70_000]), 1009),
        (Message::binary(ping_command.repeat(9)), 0),
        // A publish and an rpc whose data is not JSON are refused, no more.
        (
            Message::binary(vec![
                0x12, 8, 3, 0x3a, 14, 0x0a, 6, b'c', b'h', b'a', b't', b':', b'1', 0x12, 4, 1, 2, 3, 4,
            ]),
            0,
        ),
        (Message::binary(vec![10, 8, 4, 0x6a, 6, 0x0a, 1, b'{', 0x12, 1, b'm']), 0),
    ];
    for (frame, expected) in frames {
        let shown = format!("{frame:?}").chars().take(80).collect::<String>();
        let mut client = Client::connect_as(&server, "ann", Encoding::Protobuf).await;
        // The server may close the connection before the frame is written completely.
        let _ = client.socket.send(frame).await;
        let _ = client.socket.send(Message::binary(ping_command.clone())).await;
        let code = loop {
            match client.hear().await {
                Heard::Reply(reply) if reply["id"] == 999 => break 0,
                Heard::Reply(reply) => assert_eq!(reply["error"]["code"], 107, "{shown}"),
                Heard::Closed(code, _) => break code,
                _ => {}
            }
        };
        assert_eq!(code, expected, "{shown}");
    }
    server.backend("publish", &json!({ "channel": "chat:1", "data": "still here" })).await;
    assert_eq!(bystander.publication("chat:1").await["data"], "still here");
    let log = server.log();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
}

#[tokio::test]
async fn pings_are_messages_or_frames() {
    let server = Server::start_with(&[("client.ping_interval", "2s"), ("client.pong_timeout", "1s")]).await;
    for encoding in BOTH {
        // A pong of a client keeps the connection over several pings.
        let mut client = Client::connect_as(&server, "ann", encoding).await;
        for _ in 0..2 {
            assert_eq!(client.hear().await, Heard::Ping, "{encoding:?}");
        }
    }
    for query in ["cf_ws_frame_ping_pong=true", "cf_ws_frame_ping_pong=true&format=protobuf"] {
        let (mut client, _) = Client::negotiate(&server, stream(&server).await, query, &[]).await.unwrap();
        let connected = client.done(json!({ "connect": { "token": token("ann") } })).await;
        assert!(connected["connect"].get("ping").is_none(), "{connected}");
        let pings = async {
            let mut pings = 0;
            while pings < 2 {
                match futures::StreamExt::next(&mut client.socket).await {
                    Some(Ok(Message::Ping(_))) => pings += 1,
                    other => panic!("{other:?} instead of a ping frame, {query}"),
                }
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), pings).await.expect("pings in time");
        // The library answers pings only while it is read; now nobody reads.
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        assert_eq!(client.closed().await.0, 3012, "{query}");
    }
}
