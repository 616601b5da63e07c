//! Clients without an SDK: they send the parameters of `connect`, and receive pushes.

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use crate::NAMESPACES;
use crate::client::Client;
use crate::server::{PATIENCE, Server, signed, token, unix};

const ON: [(&str, &str); 4] = [
    ("namespaces", NAMESPACES),
    ("transports.uni_http_stream", "true"),
    ("transports.uni_sse", "true"),
    ("transports.uni_websocket", "true"),
];

/// A client that reads lines of JSON out of a response.
struct Reader {
    stream: TcpStream,
    buffer: String,
}

impl Reader {
    async fn post(server: &Server, path: &str, body: &Value) -> Self {
        let body = body.to_string();
        let length = body.len();
        Self::send(server, &format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}")).await
    }

    async fn send(server: &Server, request: &str) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reader = Self { stream, buffer: String::new() };
        while !reader.buffer.contains("\r\n\r\n") {
            assert!(reader.read().await, "{}", reader.buffer);
        }
        assert!(reader.buffer.starts_with("HTTP/1.1 200 "), "{}", reader.buffer);
        reader.buffer = reader.buffer.split_once("\r\n\r\n").unwrap().1.to_owned();
        reader
    }

    async fn read(&mut self) -> bool {
        let mut part = [0; 4_096];
        let read = timeout(PATIENCE, self.stream.read(&mut part)).await.expect("in time").unwrap();
        self.buffer.push_str(std::str::from_utf8(&part[..read]).unwrap());
        read > 0
    }

    /// The next message; `None`: the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((line, rest)) = self.buffer.split_once('\n') {
                let (line, rest) = (line.trim().to_owned(), rest.to_owned());
                self.buffer = rest;
                if let Some(json) = Some(line.strip_prefix("data: ").unwrap_or(&line)).filter(|json| !json.is_empty()) {
                    return Some(serde_json::from_str(json).unwrap());
                }
                continue;
            }
            if !self.read().await {
                return None;
            }
        }
    }
}

#[tokio::test]
async fn a_timeline_is_shown_without_an_sdk() {
    let server = Server::start_with(&ON).await;
    server.follow("ann", "bo").await;
    let connect = json!({ "token": token("ann") });
    let encoded: String = connect.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect();
    let get = |path: &str| format!("GET {path}?cf_connect={encoded} HTTP/1.1\r\nhost: x\r\n\r\n");
    let mut readers = vec![
        Reader::post(&server, "/connection/uni_http_stream", &connect).await,
        Reader::post(&server, "/connection/uni_sse", &connect).await,
        Reader::send(&server, &get("/connection/uni_http_stream")).await,
        Reader::send(&server, &get("/connection/uni_sse")).await,
    ];
    for reader in &mut readers {
        let connected = reader.next().await.unwrap();
        assert!(connected.get("id").is_none() && connected.get("push").is_none(), "{connected}");
        let connected = &connected["connect"];
        assert!(connected["subs"].get("timeline:ann").is_some(), "{connected}");
        assert!(connected["ping"] == 25 && connected.get("pong").is_none(), "{connected}");
        assert!(connected["session"].is_string() && connected["node"].is_string());
    }
    let post = server.post("bo", "for curl").await;
    for reader in &mut readers {
        let push = reader.next().await.unwrap();
        assert_eq!((&push["channel"], &push["pub"]["data"]["post"]["id"]), (&json!("timeline:ann"), &json!(post)));
    }
}

#[tokio::test]
async fn positions_are_recovered() {
    let server = Server::start_with(&ON).await;
    let claims = json!({ "sub": "ann", "channels": ["chat:1"] });
    let mut first = Reader::post(&server, "/connection/uni_http_stream", &json!({ "token": signed(&claims) })).await;
    let epoch = first.next().await.unwrap()["connect"]["subs"]["chat:1"]["epoch"].clone();
    drop(first);
    server.backend("publish", &json!({ "channel": "chat:1", "data": 1 })).await;
    let from = json!({ "recover": true, "offset": 0, "epoch": epoch });
    let connect = json!({ "token": signed(&claims), "subs": { "chat:1": from } });
    let mut again = Reader::post(&server, "/connection/uni_sse", &connect).await;
    let sub = again.next().await.unwrap()["connect"]["subs"]["chat:1"].clone();
    assert_eq!((&sub["recovered"], &sub["publications"][0]["data"]), (&json!(true), &json!(1)), "{sub}");
}

#[tokio::test]
async fn refusals_are_disconnects() {
    let server = Server::start_with(&ON).await;
    let expired = signed(&json!({ "sub": "ann", "exp": unix() - 1 }));
    for (connect, code) in [(json!({}), 3501), (json!({ "token": "x" }), 3500), (json!({ "token": expired }), 3005)] {
        for path in ["/connection/uni_http_stream", "/connection/uni_sse"] {
            let mut reader = Reader::post(&server, path, &connect).await;
            let end = reader.next().await.unwrap();
            assert_eq!(end["disconnect"]["code"], code, "{path} {connect}: {end}");
            assert!(reader.next().await.is_none());
        }
    }
    for (body, status) in [("nonsense", 400), ("[]", 400)] {
        let answer = server.http("POST", "/connection/uni_http_stream", &[], body).await;
        assert_eq!(answer.status.as_u16(), status, "{body}");
    }
}

#[tokio::test]
async fn anonymous_clients_need_no_body() {
    let keys = [ON.as_slice(), &[("auth.anonymous", "true")]].concat();
    let server = Server::start_with(&keys).await;
    let mut reader = Reader::send(&server, "GET /connection/uni_sse HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(reader.next().await.unwrap()["connect"]["client"].is_string());
}

#[tokio::test]
async fn pings_need_no_pongs_and_tokens_expire() {
    let mut keys = ON.to_vec();
    keys.extend([("client.ping_interval", "1s"), ("client.pong_timeout", "200ms")]);
    let server = Server::start_with(&keys).await;
    let connect = json!({ "token": signed(&json!({ "sub": "ann", "exp": unix() + 4 })) });
    let mut reader = Reader::post(&server, "/connection/uni_sse", &connect).await;
    assert_eq!(reader.next().await.unwrap()["connect"]["expires"], true);
    let mut pings = 0;
    let end = loop {
        match reader.next().await.unwrap() {
            message if message == json!({}) => pings += 1,
            other => break other,
        }
    };
    assert!(pings >= 2, "{pings}");
    assert_eq!(end, json!({ "disconnect": { "code": 3005, "reason": "connection expired" } }));
}

#[tokio::test]
async fn a_backend_manages_their_subscriptions() {
    let server = Server::start_with(&ON).await;
    let mut reader = Reader::post(&server, "/connection/uni_http_stream", &json!({ "token": token("ann") })).await;
    let connected = reader.next().await.unwrap();
    let session = &connected["connect"]["session"];
    let subscribe = json!({ "user": "ann", "channel": "chat:1", "session": session });
    assert!(server.backend("subscribe", &subscribe).await.get("result").is_some());
    let mut push = reader.next().await.unwrap();
    assert!(push["channel"] == "chat:1" && push.get("subscribe").is_some(), "{push}");
    server.backend("publish", &json!({ "channel": "chat:1", "data": "x" })).await;
    while push.get("pub").is_none() {
        push = reader.next().await.unwrap();
    }
    assert_eq!((&push["channel"], &push["pub"]["data"]), (&json!("chat:1"), &json!("x")));
    server.backend("unsubscribe", &json!({ "user": "ann", "channel": "chat:1" })).await;
    while push.get("unsubscribe").is_none() {
        push = reader.next().await.unwrap();
    }
    assert_eq!(push["unsubscribe"]["code"], 2000);
    // Commands do not reach the session.
    let body = json!({ "session": session, "node": connected["connect"]["node"], "data": "{}" }).to_string();
    assert_eq!(server.http("POST", "/emulation", &[], &body).await.status.as_u16(), 204);
    server.backend("disconnect", &json!({ "user": "ann" })).await;
    while push.get("disconnect").is_none() {
        push = reader.next().await.expect("a disconnect");
    }
    assert_eq!(push["disconnect"], json!({ "code": 3503, "reason": "force disconnect" }));
}

#[tokio::test]
async fn a_websocket_receives_pushes_too() {
    let server = Server::start_with(&ON).await;
    let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let url = format!("ws://127.0.0.1:{}/connection/uni_websocket", server.port());
    let (mut socket, _) = client_async(url, stream).await.unwrap();
    let claims = json!({ "sub": "ann", "channels": ["chat:1"] });
    socket.send(Message::text(json!({ "token": signed(&claims) }).to_string())).await.unwrap();
    let mut next = async || match timeout(PATIENCE, socket.next()).await.expect("in time").unwrap().unwrap() {
        Message::Text(text) => serde_json::from_str::<Value>(&text).unwrap(),
        Message::Close(frame) => json!({ "close": u16::from(frame.unwrap().code) }),
        other => panic!("{other:?}"),
    };
    let connected = next().await;
    assert!(connected["connect"]["subs"].get("chat:1").is_some(), "{connected}");
    let (session, node) = (&connected["connect"]["session"], &connected["connect"]["node"]);
    assert!(session.is_string() && node.is_string(), "{connected}");
    server.backend("publish", &json!({ "channel": "chat:1", "data": 5 })).await;
    let push = loop {
        let push = next().await;
        if push.get("pub").is_some() {
            break push;
        }
    };
    assert_eq!((&push["channel"], &push["pub"]["data"]), (&json!("chat:1"), &json!(5)));
    let mut other = Client::connect(&server, "bo").await;
    other.subscribe("chat:1").await;
    let presence = other.done(json!({ "presence_stats": { "channel": "chat:1" } })).await;
    assert_eq!(presence["presence_stats"]["num_clients"], 2);
    server.backend("disconnect", &json!({ "user": "ann", "session": "another" })).await;
    server.backend("disconnect", &json!({ "user": "ann", "session": session })).await;
    loop {
        let push = next().await;
        if push.get("disconnect").is_some() {
            assert_eq!(push["disconnect"]["code"], 3503);
            break;
        }
    }
    assert_eq!(next().await, json!({ "close": 3503 }));
}
