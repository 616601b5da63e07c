//! Every permission of every kind of client on every kind of channel.

use serde_json::{Value, json};

use crate::client::{Client, Encoding, Heard, UNI_TRANSPORTS, Wire};
use crate::server::{Server, signed, token};
use crate::stream_socket::StreamKind;

const NAMESPACES: &str = r#"[
    {"name":"","subscribe":"anyone","publish":"anyone","history":"anyone",
     "history_size":9,"history_ttl":"60s","presence":true},
    {"name":"any","subscribe":"anyone","publish":"anyone","history":"anyone",
     "history_size":9,"history_ttl":"60s","presence":true},
    {"name":"usr","subscribe":"user","publish":"user","history":"user",
     "history_size":9,"history_ttl":"60s","presence":true},
    {"name":"sub","subscribe":"anyone","publish":"subscriber","history":"subscriber",
     "history_size":9,"history_ttl":"60s","presence":true},
    {"name":"no","subscribe":"nobody","publish":"nobody","history":"nobody",
     "history_size":9,"history_ttl":"60s","presence":true},
    {"name":"bare"}
]"#;

/// One client's permissions on one channel, in this order: subscribe, publish, history, presence, presence_stats.
///
/// `+` granted, `-` error 103, `?` error 102, `n` error 108 (the channel has no log or no presence), `a` error 105 (the
/// server has subscribed the client), `x` the connection is closed, `.` the method does not exist.
type Rights = &'static str;

/// A channel, and the permissions of: an anonymous client, an anonymous client that tried to subscribe first, one with
/// a subscription token, ann, ann when she tried to subscribe first, ann with a subscription token, ann with a connect
/// token that names the channel, a backend.
type Row = (&'static str, [Rights; 8]);

const APPLICATION: &[Row] = &[
    ("lobby", ["+++--", "+++++", "+++++", "+++--", "+++++", "+++++", "+++++", ".++++"]),
    ("any:1", ["+++--", "+++++", "+++++", "+++--", "+++++", "+++++", "+++++", ".++++"]),
    ("usr:1", ["-----", "-----", "+--++", "+++--", "+++++", "+++++", "+++++", ".++++"]),
    ("sub:1", ["+----", "+++++", "+++++", "+----", "+++++", "+++++", "+++++", ".++++"]),
    ("no:1", ["-----", "-----", "+--++", "-----", "-----", "+--++", "+--++", ".++++"]),
    ("bare:1", ["+----", "+-nnn", "+-nnn", "+----", "+-nnn", "+-nnn", "+-nnn", ".+nnn"]),
    ("$lobby", ["-----", "-----", "+++++", "-----", "-----", "+++++", "+++++", ".++++"]),
    ("$any:1", ["-----", "-----", "+++++", "-----", "-----", "+++++", "+++++", ".++++"]),
    ("$usr:1", ["-----", "-----", "+--++", "-----", "-----", "+++++", "+++++", ".++++"]),
    ("$sub:1", ["-----", "-----", "+++++", "-----", "-----", "+++++", "+++++", ".++++"]),
    ("$no:1", ["-----", "-----", "+--++", "-----", "-----", "+--++", "+--++", ".++++"]),
    ("$bare:1", ["-----", "-----", "+-nnn", "-----", "-----", "+-nnn", "+-nnn", ".+nnn"]),
    ("#ann", ["-----", "-----", "-----", "+++--", "+++++", "+++++", "+++++", ".++++"]),
    ("#bo", ["-----", "-----", "-----", "-----", "-----", "-----", "xxxxx", ".++++"]),
    ("any:1#ann,bo", ["-----", "-----", "-----", "+++--", "+++++", "+++++", "+++++", ".++++"]),
    ("any:1#bo", ["-----", "-----", "-----", "-----", "-----", "-----", "xxxxx", ".++++"]),
    ("any:1#ann,", ["-----", "-----", "-----", "+++--", "+++++", "+++++", "+++++", ".++++"]),
    ("any:1#", ["-----", "-----", "-----", "-----", "-----", "-----", "xxxxx", ".++++"]),
    ("usr:1#ann", ["-----", "-----", "-----", "+++--", "+++++", "+++++", "+++++", ".++++"]),
    ("sub:1#ann", ["-----", "-----", "-----", "+----", "+++++", "+++++", "+++++", ".++++"]),
    ("no:1#ann", ["-----", "-----", "-----", "-----", "-----", "+--++", "+--++", ".++++"]),
    ("$any:1#ann", ["-----", "-----", "-----", "-----", "-----", "+++++", "+++++", ".++++"]),
    ("$any:1#bo", ["-----", "-----", "-----", "-----", "-----", "-----", "xxxxx", ".++++"]),
    ("other:1", ["?????", "?????", "?????", "?????", "?????", "?????", "xxxxx", ".????"]),
    ("$topic:x", ["?????", "?????", "?????", "?????", "?????", "?????", "xxxxx", ".????"]),
];

const FEED: &[Row] = &[
    ("timeline:ann", ["-----", "-----", "-----", "a-+nn", "a-+nn", "a-+nn", "+-+nn", ".-+nn"]),
    ("timeline:bo", ["-----", "-----", "-----", "-----", "-----", "-----", "xxxxx", ".-+nn"]),
    ("notifications:ann", ["-----", "-----", "-----", "a-+nn", "a-+nn", "a-+nn", "+-+nn", ".-+nn"]),
    ("notifications:bo", ["-----", "-----", "-----", "-----", "-----", "-----", "xxxxx", ".-+nn"]),
    ("topic:x", ["+----", "+-+nn", "+-+nn", "+----", "+-+nn", "+-+nn", "+-+nn", ".-+nn"]),
    ("user:bo", ["+----", "+-+nn", "+-+nn", "+----", "+-+nn", "+-+nn", "+-+nn", ".-+nn"]),
    ("user:cy", ["+----", "+-+nn", "+-+nn", "?----", "?----", "?----", "-----", ".-+nn"]),
    ("post:PUBLIC", ["+----", "+-+nn", "+-+nn", "+----", "+-+nn", "+-+nn", "+-+nn", ".-+nn"]),
    ("post:PRIVATE", ["?----", "?----", "?----", "?----", "?----", "?----", "-----", ".-+nn"]),
];

/// The sign for a reply to a command: see [`Rights`].
fn sign(reply: &Value) -> char {
    match reply["error"]["code"].as_u64() {
        None => '+',
        Some(102) => '?',
        Some(103) => '-',
        Some(105) => 'a',
        Some(108) => 'n',
        Some(_) => panic!("{reply}"),
    }
}

/// All permissions except subscribing, in order.
async fn ask(client: &mut Client, channel: &str) -> String {
    let mut signs = String::new();
    for command in [
        json!({ "publish": { "channel": channel, "data": 1 } }),
        json!({ "history": { "channel": channel, "limit": 1 } }),
        json!({ "presence": { "channel": channel } }),
        json!({ "presence_stats": { "channel": channel } }),
    ] {
        signs.push(sign(&client.call(command).await));
    }
    signs
}

async fn subscribe(client: &mut Client, channel: &str, token: &str) -> char {
    sign(&client.call(json!({ "subscribe": { "channel": channel, "token": token } })).await)
}

async fn anonymous(server: &Server, wire: Wire) -> Client {
    let mut client = Client::open_over(server, wire).await;
    client.done(json!({ "connect": {} })).await;
    client
}

/// The permissions of a client that requests the others first, and of one that subscribes first.
async fn without_token(mut before: Client, mut after: Client, channel: &str) -> [String; 2] {
    let others = ask(&mut before, channel).await;
    let subscribed = subscribe(&mut before, channel, "").await;
    let first = subscribe(&mut after, channel, "").await;
    [format!("{subscribed}{others}"), format!("{first}{}", ask(&mut after, channel).await)]
}

async fn with_subscription_token(mut client: Client, user: &str, channel: &str) -> String {
    let token = signed(&json!({ "sub": user, "channel": channel }));
    let subscribed = subscribe(&mut client, channel, &token).await;
    format!("{subscribed}{}", ask(&mut client, channel).await)
}

async fn with_connect_token(server: &Server, wire: Wire, channel: &str) -> String {
    let mut client = Client::open_over(server, wire).await;
    match connect_with_channel(&mut client, channel).await {
        'x' => "xxxxx".into(),
        subscribed => format!("{subscribed}{}", ask(&mut client, channel).await),
    }
}

/// Connects ann with a token that names a channel. Returns whether the server subscribed her.
async fn connect_with_channel(client: &mut Client, channel: &str) -> char {
    let token = signed(&json!({ "sub": "ann", "channels": [channel] }));
    client.command(json!({ "connect": { "token": token } })).await;
    match client.hear().await {
        Heard::Closed(3501, _) => 'x',
        // A WebSocket that only receives gets the reason before it is closed.
        Heard::Push(push) if push["disconnect"]["code"] == 3501 => 'x',
        Heard::Reply(reply) if reply["connect"]["subs"].get(channel).is_some() => '+',
        Heard::Reply(reply) if reply.get("connect").is_some() => '-',
        other => panic!("{channel}: {other:?}"),
    }
}

async fn of_a_backend(server: &Server, channel: &str) -> String {
    let mut signs = ".".to_owned();
    for (method, body) in [
        ("publish", json!({ "channel": channel, "data": 1 })),
        ("history", json!({ "channel": channel, "limit": 1 })),
        ("presence", json!({ "channel": channel })),
        ("presence_stats", json!({ "channel": channel })),
    ] {
        signs.push(sign(&server.backend(method, &body).await));
    }
    signs
}

#[tokio::test]
async fn every_right_of_every_client_on_every_channel() {
    every_right_over(Wire::WebSocket(Encoding::Json)).await;
}

#[tokio::test]
async fn every_right_in_protobuf() {
    every_right_over(Wire::WebSocket(Encoding::Protobuf)).await;
}

#[tokio::test]
async fn every_right_over_an_http_stream() {
    every_right_over(Wire::Stream(StreamKind::Protobuf)).await;
}

#[tokio::test]
async fn every_right_over_server_sent_events() {
    every_right_over(Wire::Stream(StreamKind::Events)).await;
}

/// A server with the users and posts of the table, and the rows with the ids of the posts.
async fn server_and_rows() -> (Server, Vec<(String, [Rights; 8])>) {
    let keys = [("namespaces", NAMESPACES), ("auth.anonymous", "true"), ("client.commands_per_second", "0")];
    let server = Server::start_with(&[&keys[..], &UNI_TRANSPORTS].concat()).await;
    server.follow("ann", "bo").await;
    server.follow("ann", "cy").await;
    server.done("cy", "PUT", "/users/ann/block", &Value::Null).await;
    let public = server.post("bo", "for all #x").await.to_string();
    let private =
        server.done("bo", "POST", "/posts", &json!({ "text": "for me", "visibility": { "only_to": ["cy"] } })).await;
    let private = private["id"].to_string();
    let with_ids = |channel: &str| channel.replace("PUBLIC", &public).replace("PRIVATE", &private);
    let rows = APPLICATION.iter().chain(FEED).map(|(channel, rights)| (with_ids(channel), *rights)).collect();
    (server, rows)
}

async fn every_right_over(wire: Wire) {
    let (server, rows) = server_and_rows().await;
    let _bo = Client::connect(&server, "bo").await;
    let mut wrong = Vec::new();
    for (channel, expected) in rows {
        let [nobody, nobody_there] =
            without_token(anonymous(&server, wire).await, anonymous(&server, wire).await, &channel).await;
        let ann = || Client::connect_over(&server, "ann", wire);
        let (one, other) = (ann().await, ann().await);
        let [user, subscriber] = without_token(one, other, &channel).await;
        let found = [
            nobody,
            nobody_there,
            with_subscription_token(anonymous(&server, wire).await, "", &channel).await,
            user,
            subscriber,
            with_subscription_token(ann().await, "ann", &channel).await,
            with_connect_token(&server, wire, &channel).await,
            of_a_backend(&server, &channel).await,
        ];
        if found != expected {
            wrong.push(format!("{channel}\n  expected {expected:?}\n  found    {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Clients that only receive have the channels that their token names.
#[tokio::test]
async fn connect_tokens_grant_the_same_over_every_unidirectional_transport() {
    let (server, rows) = server_and_rows().await;
    let mut wrong = Vec::new();
    for (channel, expected) in rows {
        for wire in Wire::UNIDIRECTIONAL {
            let found = connect_with_channel(&mut Client::open_over(&server, wire).await, &channel).await;
            if !expected[6].starts_with(found) {
                wrong.push(format!("{channel} over {wire:?}: {found}, not {}", expected[6]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn anonymous_tokens_create_no_user() {
    let keys = [("namespaces", NAMESPACES), ("auth.anonymous", "true")];
    let server = Server::start_with(&keys).await;
    let mut client = Client::open(&server).await;
    client.done(json!({ "connect": { "token": signed(&json!({ "sub": "" })) } })).await;
    assert_eq!(client.refused(json!({ "publish": { "channel": "usr:1", "data": 1 } })).await, 103);
    assert_eq!(client.refused(json!({ "history": { "channel": "any:1#,ann" } })).await, 103);
    let mut ann = Client::open(&server).await;
    ann.done(json!({ "connect": { "token": token("ann") } })).await;
    ann.done(json!({ "publish": { "channel": "usr:1", "data": 1 } })).await;
}
