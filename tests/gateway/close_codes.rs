//! Every error code and close code, with a situation that causes it.

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::NAMESPACES;
use crate::client::{Client, Heard, Pongs};
use crate::server::{PATIENCE, Server, signed, token, unix};

async fn server() -> Server {
    Server::start_with(&[("namespaces", NAMESPACES)]).await
}

/// The close code after this frame as the first one.
async fn closed_by(server: &Server, frame: &str) -> u16 {
    let mut client = Client::open(server).await;
    client.send(frame).await;
    client.closed().await.0
}

/// The close code after this command on a connected socket.
async fn then_closed_by(server: &Server, command: Value) -> u16 {
    let mut client = Client::connect(server, "ann").await;
    client.command(command).await;
    client.closed().await.0
}

#[tokio::test]
async fn protocol_violations_close_the_connection() {
    let server = server().await;
    let connect = json!({ "id": 1, "connect": { "token": token("ann") } }).to_string();
    let first = [
        (r#"{"id":1,"subscribe":{"channel":"topic:x"}}"#.to_owned(), 3501, "the first command is not connect"),
        ("{}".to_owned(), 3501, "a pong that nobody asked for"),
        (String::new(), 3501, "an empty frame"),
        ("\n".to_owned(), 3501, "an empty line"),
        ("nonsense".to_owned(), 3501, "no JSON"),
        (r#"{"id":1,"connect":{}}"#.to_owned(), 3501, "no token"),
        (r#"{"id":1,"connect":{"token":"x"}}"#.to_owned(), 3500, "no valid token"),
        (format!("{connect}\n{connect}"), 3501, "a second connect"),
        (format!("{connect}\n{{}}"), 3501, "a pong without a ping"),
        (format!("{connect}\n{{\"id\":2}}"), 3501, "a command without a request"),
        (format!("{connect}{}", "\n{\"send\":1}".repeat(4_096)), 3501, "more commands than a frame may have"),
        (format!("[1,{{\"token\":\"{}\"}}]", token("ann")), 3501, "an array"),
        (format!("{connect}\n{{\"send\":{{\"data\":1}}}}"), 3508, "a message that nobody takes"),
    ];
    for (frame, code, why) in first {
        assert_eq!(closed_by(&server, &frame).await, code, "{why}");
    }
    let later = [
        (json!({ "connect": { "token": token("ann") } }), 3501),
        (json!({ "subscribe": { "channel": "" } }), 3501),
        (json!({ "subscribe": { "channel": "chat:1", "delta": "other" } }), 3501),
        (json!({ "unsubscribe": { "channel": "" } }), 3501),
        (json!({ "publish": { "channel": "", "data": 1 } }), 3501),
        (json!({ "presence": {} }), 3501),
        (json!({ "history": {} }), 3501),
        (json!({ "refresh": { "token": "" } }), 3501),
        (json!({ "refresh": { "token": "nonsense" } }), 3500),
        (json!({ "refresh": { "token": token("bo") } }), 3500),
        (json!({ "refresh": { "token": signed(&json!({ "sub": "ann", "exp": unix() - 1 })) } }), 3005),
        (json!({ "sub_refresh": { "channel": "" } }), 3501),
        (json!({}), 3501),
    ];
    for (command, code) in later {
        assert_eq!(then_closed_by(&server, command.clone()).await, code, "{command}");
    }
    server.metric_is("feedline_connections", 0.0).await;
}

/// RFC 6455, 5.5.1: a close frame is answered with one.
#[tokio::test]
async fn the_close_frames_of_clients_are_answered() {
    let server = server().await;
    let frame = |code: u16, reason: &'static str| Some(CloseFrame { code: code.into(), reason: reason.into() });
    for connected in [false, true] {
        for close in [frame(1000, "bye"), frame(3000, ""), None] {
            let mut client = match connected {
                true => Client::connect(&server, "ann").await,
                false => Client::open(&server).await,
            };
            let socket = client.socket.websocket();
            socket.close(close.clone()).await.expect("a close frame is sent");
            let answered = loop {
                match tokio::time::timeout(PATIENCE, socket.next()).await.expect("an answer") {
                    Some(Ok(Message::Close(frame))) => break frame.map(|frame| frame.code),
                    Some(Ok(_)) => {}
                    other => panic!("{close:?}: {other:?}"),
                }
            };
            assert_eq!(answered, close.map(|close| close.code), "connected: {connected}");
            let end = tokio::time::timeout(PATIENCE, socket.next()).await.expect("an end");
            assert!(end.is_none(), "{end:?}");
        }
    }
    server.metric_is("feedline_connections", 0.0).await;
}

#[tokio::test]
async fn rejected_commands_keep_the_connection_open() {
    let server = server().await;
    let mut ann = Client::connect(&server, "ann").await;
    let long = format!("plain:{}", "x".repeat(250));
    let token = |claims: Value| signed(&claims);
    let expired = token(json!({ "sub": "ann", "channel": "shut:1", "exp": unix() - 1 }));
    ann.subscribe("chat:1").await;
    let sub_token = token(json!({ "sub": "ann", "channel": "chat:9" }));
    let refused = [
        (json!({ "ping": {} }), 108),
        (json!({ "rpc": { "method": "no.such" } }), 108),
        (json!({ "rpc": { "method": "accounts.create" } }), 108),
        (json!({ "rpc": { "method": "timeline.read", "data": [1] } }), 107),
        (json!({ "rpc": { "method": "posts.get", "data": { "id": 1 } } }), 404),
        (json!({ "rpc": { "method": "posts.create", "data": {} } }), 400),
        (json!({ "subscribe": { "channel": "chat:1" } }), 105),
        (json!({ "subscribe": { "channel": "timeline:ann" } }), 105),
        (json!({ "subscribe": { "channel": long } }), 107),
        (json!({ "publish": { "channel": long, "data": 1 } }), 107),
        (json!({ "history": { "channel": long } }), 107),
        (json!({ "presence": { "channel": long } }), 107),
        (json!({ "presence_stats": { "channel": long } }), 107),
        (json!({ "subscribe": { "channel": "none:1" } }), 102),
        (json!({ "subscribe": { "channel": "no-colon" } }), 102),
        (json!({ "subscribe": { "channel": "post:1" } }), 102),
        (json!({ "subscribe": { "channel": "shut:1" } }), 103),
        (json!({ "subscribe": { "channel": "timeline:bo" } }), 103),
        (json!({ "subscribe": { "channel": "notifications:bo" } }), 103),
        (json!({ "subscribe": { "channel": "$chat:1" } }), 103),
        (json!({ "subscribe": { "channel": "chat:1#bo,cy" } }), 103),
        (json!({ "subscribe": { "channel": "shut:1", "token": "nonsense" } }), 103),
        (json!({ "subscribe": { "channel": "shut:1", "token": expired } }), 109),
        (
            json!({ "subscribe": { "channel": "timeline:bo", "token":
            token(json!({ "sub": "ann", "channel": "timeline:bo" })) } }),
            103,
        ),
        (json!({ "publish": { "channel": "none:1", "data": 1 } }), 102),
        (json!({ "publish": { "channel": "chat:2", "data": 1 } }), 103),
        (json!({ "publish": { "channel": "plain:1", "data": 1 } }), 103),
        (json!({ "publish": { "channel": "topic:x", "data": 1 } }), 103),
        (json!({ "publish": { "channel": "timeline:ann", "data": 1 } }), 103),
        (json!({ "publish": { "channel": "chat:1" } }), 107),
        (json!({ "presence": { "channel": "none:1" } }), 102),
        (json!({ "presence": { "channel": "chat:2" } }), 103),
        (json!({ "presence_stats": { "channel": "timeline:ann" } }), 108),
        (json!({ "history": { "channel": "chat:2" } }), 103),
        (json!({ "history": { "channel": "chat:1", "since": { "offset": 0, "epoch": "other" } } }), 112),
        (json!({ "subscribe": { "channel": "chat:3", "recover": true, "epoch": "other", "flag": 2 } }), 112),
        (json!({ "sub_refresh": { "channel": "chat:9", "token": sub_token } }), 103),
        (json!({ "sub_refresh": { "channel": "chat:1" } }), 107),
        (json!({ "refresh": { "token": token(json!({ "sub": "ann", "expire_at": unix() - 1 })) } }), 110),
    ];
    for (command, code) in refused {
        assert_eq!(ann.refused(command.clone()).await, code, "{command}");
    }
    assert_eq!(ann.call(json!({ "unsubscribe": { "channel": "chat:never" } })).await["unsubscribe"], json!({}));
}

#[tokio::test]
async fn commands_after_a_rejected_connect_close_the_connection() {
    let server = Server::start_with(&[("client.connect_timeout", "500ms")]).await;
    let expired = json!({ "connect": { "token": signed(&json!({ "sub": "ann", "exp": unix() - 1 })) } });
    let mut client = Client::open(&server).await;
    assert_eq!(client.refused(expired.clone()).await, 109);
    client.command(json!({ "connect": { "token": token("ann") } })).await;
    assert_eq!(client.closed().await.0, 3501);
    let mut silent = Client::open(&server).await;
    assert_eq!(silent.refused(expired).await, 109);
    assert_eq!(silent.closed().await, (3502, "stale".into()));
    assert_eq!(Client::open(&server).await.closed().await.0, 3502, "one that says nothing at all");
}

#[tokio::test]
async fn pings_are_empty_and_require_a_pong() {
    let server = Server::start_with(&[("client.ping_interval", "2s"), ("client.pong_timeout", "1s")]).await;
    let mut polite = Client::connect(&server, "ann").await;
    let mut silent = Client::connect(&server, "bo").await;
    silent.pongs = Pongs::Withheld;
    let closed = async {
        assert_eq!(silent.hear().await, Heard::Ping);
        assert_eq!(silent.hear().await, Heard::Closed(3012, "no pong".into()));
    };
    let stays = async { assert_eq!([polite.hear().await, polite.hear().await], [Heard::Ping, Heard::Ping]) };
    tokio::join!(closed, stays);
}

#[tokio::test]
async fn binary_and_oversized_frames_are_rejected() {
    let server = Server::start_with(&[("client.message_bytes", "1024")]).await;
    let mut client = Client::connect(&server, "ann").await;
    client.socket.send(Message::binary(vec![0])).await.unwrap();
    assert_eq!(client.closed().await.0, 3506);
    let mut client = Client::connect(&server, "ann").await;
    let fits = json!({ "rpc": { "method": "no.such", "data": "x".repeat(900) } });
    assert_eq!(client.refused(fits).await, 108);
    client.send("x".repeat(1025)).await;
    assert_eq!(client.closed().await.0, 1009);
    server.metric_is("feedline_connections", 0.0).await;
}

#[tokio::test]
async fn channels_of_a_client_are_limited() {
    let server = server().await;
    let mut client = Client::connect(&server, "ann").await;
    for n in 0..128 {
        client.subscribe(&format!("topic:t{n}")).await;
    }
    assert_eq!(client.refused(json!({ "subscribe": { "channel": "topic:more" } })).await, 106);
    client.done(json!({ "unsubscribe": { "channel": "topic:t0" } })).await;
    client.subscribe("topic:more").await;
}

#[tokio::test]
async fn commands_over_the_rate_limit_return_an_error() {
    let server = Server::start_with(&[("client.commands_per_second", "5")]).await;
    let mut client = Client::connect(&server, "ann").await;
    let mut codes = Vec::new();
    for _ in 0..12 {
        codes.push(client.refused(json!({ "ping": {} })).await);
    }
    assert_eq!(codes[..10], [108; 10]);
    assert!(codes[10..].contains(&111), "{codes:?}");
    let refused = client.call(json!({ "ping": {} })).await;
    assert_eq!(refused["error"]["temporary"], true, "{refused}");
}

#[tokio::test]
async fn commands_of_one_frame_are_answered_in_order() {
    let server = server().await;
    let mut client = Client::open(&server).await;
    let commands = [
        json!({ "id": 1, "connect": { "token": token("ann") } }),
        json!({ "id": 2, "subscribe": { "channel": "chat:1" } }),
        json!({ "id": 3, "publish": { "channel": "chat:1", "data": { "n": 1 } } }),
        json!({ "id": 4, "ping": {} }),
        json!({ "id": 5, "unsubscribe": { "channel": "chat:1" } }),
        json!({ "id": 6, "publish": { "channel": "chat:1", "data": { "n": 2 } } }),
    ];
    client.send(commands.map(|command| command.to_string() + "\n").concat()).await;
    let mut replies = Vec::new();
    let mut subscribed = false;
    while replies.len() < 6 {
        match client.hear().await {
            Heard::Reply(reply) => {
                subscribed |= reply.get("subscribe").is_some();
                replies.push(reply["id"].as_u64().unwrap());
            }
            Heard::Push(push) => assert!(subscribed, "before the answer to subscribe: {push}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(replies, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn connect_reply_lists_server_side_subscriptions() {
    let server = server().await;
    let mut client = Client::open(&server).await;
    let claims = json!({ "sub": "ann", "exp": unix() + 600, "channels": ["chat:1"], "subs": { "$shut:1": {} } });
    let token = signed(&claims);
    let asked = json!({ "timeline:bo": { "recover": true }, "topic:x": { "recover": true } });
    let reply = client.done(json!({ "connect": { "token": token, "subs": asked } })).await["connect"].take();
    let subs: Vec<&String> = reply["subs"].as_object().unwrap().keys().collect();
    assert_eq!(
        subs,
        ["$shut:1", "chat:1", "notifications:ann", "timeline:ann"],
        "the requested subscriptions are ignored"
    );
    assert_eq!(reply["subs"]["timeline:ann"]["recoverable"], true);
    assert_eq!((reply["ping"].as_u64(), &reply["pong"], &reply["expires"]), (Some(25), &json!(true), &json!(true)));
    assert!((590..=600).contains(&reply["ttl"].as_u64().unwrap()), "{reply}");
    assert_eq!(client.push_of("chat:1", "join").await["info"]["user"], "ann");
}

#[tokio::test]
async fn anonymous_clients_connect_only_where_allowed() {
    let server = Server::start_with(&[("auth.anonymous", "true")]).await;
    let mut nobody = Client::open(&server).await;
    let reply = nobody.done(json!({ "connect": {} })).await;
    assert!(reply["connect"].get("subs").is_none(), "{reply}");
    nobody.subscribe("topic:x").await;
    assert_eq!(nobody.refused(json!({ "rpc": { "method": "timeline.read" } })).await, 401);
    assert_eq!(nobody.refused(json!({ "subscribe": { "channel": "timeline:ann" } })).await, 103);
}
