//! The server API: connections, nodes, batches, errors as statuses. `backend.rs` has publications, `cent.rs` the
//! official Python client.

use std::time::Duration;

use serde_json::{Value, json};

use crate::NAMESPACES;
use crate::client::{Client, Encoding};
use crate::redis_server::RedisServer;
use crate::server::{API_KEY, Server, signed, token, unix};

/// Two nodes on one Redis and one ledger.
struct Nodes {
    nodes: [Server; 2],
    _redis: RedisServer,
    _folder: tempfile::TempDir,
}

impl Nodes {
    async fn start() -> Self {
        let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("a temporary directory"));
        let ledger = format!("sqlite://{}", folder.path().join("ledger.db").display());
        let (url, hmac) = (redis.url(), "b".repeat(40));
        let keys =
            [("namespaces", NAMESPACES), ("broker.url", &url), ("ledger.url", &ledger), ("auth.session_key", &hmac)];
        let nodes = [Server::start_with(&keys).await, Server::start_with(&keys).await];
        Self { nodes, _redis: redis, _folder: folder }
    }
}

/// Connects with a token of these claims. Returns the id of the connection, too.
async fn connect(server: &Server, claims: &Value) -> (Client, String) {
    let mut client = Client::open(server).await;
    let connected = client.done(json!({ "connect": { "token": signed(claims) } })).await;
    (client, connected["connect"]["client"].as_str().expect("an id").to_owned())
}

async fn done(server: &Server, method: &str, body: Value) -> Value {
    let answer = server.backend(method, &body).await;
    assert!(answer.get("result").is_some(), "{method} {body}: {answer}");
    answer["result"].clone()
}

fn code(answer: &Value) -> u64 {
    answer["error"]["code"].as_u64().unwrap_or_else(|| panic!("not refused: {answer}"))
}

/// The kinds and channels of the pushes that a client has not read.
async fn unread(client: &mut Client) -> Vec<(String, String)> {
    let kind = |push: &Value| push.as_object().and_then(|it| it.keys().find(|key| *key != "channel").cloned());
    let channel = |push: &Value| push["channel"].as_str().unwrap_or_default().to_owned();
    client.pushed().await.iter().map(|push| (kind(push).unwrap_or_default(), channel(push))).collect()
}

#[tokio::test]
async fn backends_subscribe_and_unsubscribe_connections_on_all_nodes() {
    let cluster = Nodes::start().await;
    let [one, two] = &cluster.nodes;
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let mut here = Client::connect_as(one, "ann", encoding).await;
        let mut there = Client::connect_as(two, "ann", encoding).await;
        let mut other = Client::connect(two, "bo").await;
        let subscription =
            json!({ "user": "ann", "channel": "chat:1", "info": { "role": "host" }, "data": { "hello": 1 } });
        done(one, "subscribe", subscription).await;
        let mut epochs = Vec::new();
        for client in [&mut here, &mut there] {
            let subscribed = client.push_of("chat:1", "subscribe").await;
            assert_eq!((&subscribed["recoverable"], &subscribed["positioned"]), (&json!(true), &json!(true)));
            assert_eq!(subscribed["data"], json!({ "hello": 1 }));
            epochs.push(subscribed["epoch"].clone());
            let joined = client.push_of("chat:1", "join").await;
            assert_eq!(
                (&joined["info"]["user"], &joined["info"]["chan_info"]["role"]),
                (&json!("ann"), &json!("host"))
            );
        }
        assert_eq!(epochs[0], epochs[1]);
        done(two, "publish", json!({ "channel": "chat:1", "data": 7 })).await;
        assert_eq!(here.publication("chat:1").await["data"], 7);
        assert_eq!(there.publication("chat:1").await["data"], 7);

        // A second subscription changes nothing, a client may end the first.
        done(one, "subscribe", json!({ "user": "ann", "channel": "chat:1" })).await;
        done(one, "publish", json!({ "channel": "chat:1", "data": 9 })).await;
        assert_eq!(here.publication("chat:1").await["data"], 9);
        assert_eq!(there.publication("chat:1").await["data"], 9);
        here.done(json!({ "unsubscribe": { "channel": "chat:1" } })).await;
        done(one, "unsubscribe", json!({ "user": "ann", "channel": "chat:1" })).await;
        assert_eq!(there.push_of("chat:1", "unsubscribe").await["code"], 2000);
        done(two, "publish", json!({ "channel": "chat:1", "data": 8 })).await;
        for client in [&mut here, &mut there, &mut other] {
            let pushes = unread(client).await;
            assert!(!pushes.iter().any(|(kind, _)| kind == "pub" || kind == "subscribe"), "{pushes:?}");
        }
    }
}

#[tokio::test]
async fn connections_are_selected_by_client_and_session() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let (mut phone, phone_id) = connect(&server, &json!({ "sub": "ann", "jti": "s1" })).await;
    let (mut desk, desk_id) = connect(&server, &json!({ "sub": "ann", "jti": "s2" })).await;
    let (mut bo, _) = connect(&server, &json!({ "sub": "bo", "jti": "s1" })).await;
    done(&server, "subscribe", json!({ "user": "ann", "channel": "plain:1", "client": phone_id })).await;
    done(&server, "subscribe", json!({ "user": "ann", "channel": "plain:2", "session": "s2" })).await;
    done(&server, "subscribe", json!({ "user": "ann", "channel": "plain:3", "client": desk_id, "session": "s1" }))
        .await;
    assert_eq!(phone.push_of("plain:1", "subscribe").await, json!({}));
    assert_eq!(desk.push_of("plain:2", "subscribe").await, json!({}));
    for client in [&mut phone, &mut desk, &mut bo] {
        assert_eq!(unread(client).await, []);
    }
    done(&server, "subscribe", json!({ "user": "ann", "channel": "plain:4" })).await;
    phone.push_of("plain:4", "subscribe").await;
    desk.push_of("plain:4", "subscribe").await;
    done(&server, "unsubscribe", json!({ "user": "ann", "channel": "plain:4", "session": "s1" })).await;
    assert_eq!(phone.push_of("plain:4", "unsubscribe").await["code"], 2000);
    assert_eq!(unread(&mut desk).await, []);
    // Without a channel: all but the timeline and the notifications.
    done(&server, "unsubscribe", json!({ "user": "ann", "client": desk_id })).await;
    let mut ended: Vec<String> = Vec::new();
    while ended.len() < 2 {
        ended.extend(unread(&mut desk).await.into_iter().map(|(_, channel)| channel));
    }
    ended.sort();
    assert_eq!(ended, ["plain:2", "plain:4"]);
    assert_eq!(unread(&mut phone).await, []);

    done(&server, "disconnect", json!({ "user": "ann", "session": "s1" })).await;
    assert_eq!(phone.closed().await.0, 3503);
    let close = json!({ "user": "ann", "client": desk_id, "disconnect": { "code": 4500, "reason": "x" } });
    done(&server, "disconnect", close).await;
    assert_eq!(desk.closed().await, (4500, "x".to_owned()));
    assert_eq!(unread(&mut bo).await, []);
}

#[tokio::test]
async fn a_subscription_of_a_backend_recovers_since_a_position() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let mut ann = Client::connect(&server, "ann").await;
    let first = done(&server, "publish", json!({ "channel": "chat:1", "data": 1 })).await;
    for data in [2, 3] {
        done(&server, "publish", json!({ "channel": "chat:1", "data": data })).await;
    }
    done(&server, "subscribe", json!({ "user": "ann", "channel": "chat:1", "recover_since": first })).await;
    assert_eq!(ann.push_of("chat:1", "subscribe").await["offset"], 1);
    for data in [2, 3] {
        let publication = ann.publication("chat:1").await;
        assert_eq!((&publication["data"], &publication["offset"]), (&json!(data), &json!(data)));
    }
    done(&server, "publish", json!({ "channel": "chat:1", "data": 4 })).await;
    assert_eq!(ann.publication("chat:1").await["offset"], 4);
}

#[tokio::test]
async fn backends_change_when_connections_expire() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let (mut ann, id) = connect(&server, &json!({ "sub": "ann", "exp": unix() + 60 })).await;
    done(&server, "refresh", json!({ "user": "ann", "client": id, "expire_at": unix() + 3_600 })).await;
    let refreshed = ann.push_of_connection("refresh").await;
    assert_eq!(refreshed["expires"], true);
    assert!(matches!(refreshed["ttl"].as_u64(), Some(3_590..=3_600)), "{refreshed}");
    done(&server, "refresh", json!({ "user": "ann" })).await;
    assert_eq!(ann.push_of_connection("refresh").await, json!({}));
    done(&server, "refresh", json!({ "user": "ann", "expired": true })).await;
    assert_eq!(ann.closed().await.0, 3005);

    // Whether an expiry set by a backend ends the connection: the grace period is 25 s, too long to wait for; that of a
    // subscription is the same. So only the refusals are tested here.
    for body in
        [json!({ "user": "ann", "expire_at": 1 }), json!({ "user": "", "expired": true }), json!({ "user": "a b" })]
    {
        assert_eq!(code(&server.backend("refresh", &body).await), 107, "{body}");
    }
}

#[tokio::test]
async fn invalid_requests_for_connections_are_refused() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    for (method, body, expected) in [
        ("subscribe", json!({ "user": "ann" }), 107),
        ("subscribe", json!({ "user": "", "channel": "chat:1" }), 107),
        ("subscribe", json!({ "user": "ann", "channel": "none:1" }), 102),
        ("subscribe", json!({ "user": "ann", "channel": "timeline:bo" }), 103),
        ("subscribe", json!({ "user": "ann", "channel": "chat:#bo" }), 103),
        ("subscribe", json!({ "user": "ann", "channel": "chat:1", "b64info": "%" }), 107),
        ("subscribe", json!({ "user": "ann", "channel": "chat:1", "expire_at": 1 }), 107),
        ("subscribe", json!({ "user": "ann", "channel": "chat:1", "data": "x".repeat(65_537) }), 107),
        ("unsubscribe", json!({ "user": "ann", "channel": "none:1" }), 102),
        ("unsubscribe", json!({ "user": "", "channel": "chat:1" }), 107),
        ("history_remove", json!({ "channel": "none:1" }), 102),
        ("history_remove", json!({ "channel": "topic:x" }), 103),
        ("history_remove", json!({ "channel": "plain:1" }), 108),
        ("channels", json!({ "pattern": "[" }), 107),
        ("rpc", json!({ "method": "" }), 107),
        ("rpc", json!({ "method": "no.such" }), 104),
        ("rpc", json!({ "method": "users.get", "params": [1] }), 107),
        ("rpc", json!({ "method": "users.get", "params": { "id": "nobody" } }), 404),
    ] {
        assert_eq!(code(&server.backend(method, &body).await), expected, "{method} {body}");
    }
}

#[tokio::test]
async fn all_nodes_are_listed_with_their_channels() {
    let cluster = Nodes::start().await;
    let [one, two] = &cluster.nodes;
    let mut ann = Client::connect(one, "ann").await;
    ann.subscribe("chat:1").await;
    ann.subscribe("plain:1").await;
    let mut bo = Client::connect(two, "bo").await;
    bo.subscribe("chat:1").await;
    let channels = done(two, "channels", json!({ "pattern": "chat:*" })).await;
    assert_eq!(channels, json!({ "channels": { "chat:1": { "num_clients": 2 } } }));
    let all = done(two, "channels", json!({})).await;
    let names: Vec<&String> = all["channels"].as_object().expect("channels").keys().collect();
    let own = ["notifications:ann", "notifications:bo", "timeline:ann", "timeline:bo"];
    let expected: Vec<&str> = ["chat:1"].into_iter().chain(own[..2].iter().copied()).chain(["plain:1"]).collect();
    assert_eq!(names[..4], expected[..], "{all}");
    assert_eq!(names.len(), 6);

    let started = std::time::Instant::now();
    let info = done(one, "info", json!({})).await;
    assert!(started.elapsed() < Duration::from_millis(900), "it does not wait for nodes that do not exist");
    let nodes = info["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 2, "{info}");
    assert_ne!(nodes[0]["uid"], nodes[1]["uid"]);
    let mut counts: Vec<[u64; 4]> = nodes
        .iter()
        .map(|node| ["num_clients", "num_users", "num_channels", "num_subs"].map(|it| node[it].as_u64().expect(it)))
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [[1, 1, 3, 3], [1, 1, 4, 4]]);
    for node in nodes {
        let (cpu, rss) = (&node["process"]["cpu"], &node["process"]["rss"]);
        assert!(cpu.as_f64().is_some_and(|cpu| cpu >= 0.0), "{node}");
        assert!(rss.as_u64().is_some_and(|rss| rss > 1_000_000), "{node}");
    }
}

#[tokio::test]
async fn batches_answer_each_command_in_its_place() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let key = [("x-api-key", API_KEY)];
    for parallel in [false, true] {
        let channel = format!("chat:{parallel}");
        let commands = json!([
            { "publish": { "channel": channel, "data": 1 } },
            { "publish": { "channel": "none:1", "data": 1 } },
            { "no_such": {} },
            { "info": {}, "channels": {} },
            { "broadcast": { "channels": ["chat:9", "none:1"], "data": 1 } },
            { "history_remove": { "channel": "chat:9" } },
        ]);
        let body = json!({ "commands": commands, "parallel": parallel }).to_string();
        let answer = server.http("POST", "/api/batch", &key, &body).await;
        assert_eq!(answer.status, 200);
        let replies = answer.body["replies"].as_array().expect("replies").clone();
        assert_eq!(replies.len(), 6);
        assert_eq!(replies[0]["publish"]["offset"], 1);
        assert_eq!([code(&replies[1]), code(&replies[2]), code(&replies[3])], [102, 104, 107]);
        assert_eq!(code(&replies[4]["broadcast"]["responses"][1]), 102);
        assert_eq!(replies[5], json!({ "history_remove": {} }));
    }
    let nested = json!({ "commands": [{ "batch": { "commands": [] } }] }).to_string();
    assert_eq!(code(&server.http("POST", "/api/batch", &key, &nested).await.body["replies"][0]), 104);
    assert_eq!(code(&server.http("POST", "/api/batch", &key, "{}").await.body), 107);

    let lines = concat!(
        r#"{"method":"publish","params":{"channel":"chat:1","data":1}}"#,
        "\n",
        r#"{"id":7,"method":"history","params":{"channel":"chat:1","limit":1}}"#,
        r#"{"method":"no_such"}"#
    );
    let answer = server.http("POST", "/api", &key, lines).await;
    let text = answer.body.as_str().expect("lines").to_owned();
    let replies: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&replies[0]["result"]["offset"], &replies[1]["id"]), (&json!(1), &json!(7)));
    assert_eq!(replies[1]["result"]["publications"][0]["data"], 1);
    assert_eq!((code(&replies[2]), replies.len()), (104, 3));
    for malformed in ["", "[]", "x", "{\"method\":\"info\"}x"] {
        assert_eq!(server.http("POST", "/api", &key, malformed).await.status, 400, "{malformed}");
    }
    assert_eq!(server.http("POST", "/api", &[], lines).await.status, 401);
}

#[tokio::test]
async fn errors_are_statuses_for_backends_that_want_them() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let headers = [("x-api-key", API_KEY), ("x-centrifugo-error-mode", "transport")];
    for (method, body, status, code) in [
        ("publish", json!({ "channel": "none:1", "data": 1 }), 404, 102),
        ("publish", json!({ "channel": "chat:1" }), 400, 107),
        ("presence", json!({ "channel": "plain:1" }), 400, 108),
        ("history", json!({ "channel": "chat:1", "since": { "offset": 1, "epoch": "other" } }), 416, 112),
        ("rpc", json!({ "method": "no.such" }), 404, 104),
        ("rpc", json!({ "method": "users.get", "params": { "id": "nobody" } }), 404, 404),
    ] {
        let answer = server.http("POST", &format!("/api/{method}"), &headers, &body.to_string()).await;
        assert_eq!((answer.status.as_u16(), &answer.body["code"]), (status, &json!(code)), "{method} {body}");
        assert!(answer.body["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    let body = json!({ "channel": "chat:1", "data": 1 }).to_string();
    assert_eq!(server.http("POST", "/api/publish", &headers, &body).await.body["result"]["offset"], 1);
}

#[tokio::test]
async fn keys_are_accepted_in_every_form_of_the_protocol() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let authorization = format!("apikey {API_KEY}");
    let (wrong, encoded) = (format!("Bearer {API_KEY}"), API_KEY.replace(' ', "%20"));
    for (path, headers, status) in [
        (format!("/api/info?api_key={encoded}"), vec![], 200),
        ("/api/info".to_owned(), vec![("authorization", authorization.as_str())], 200),
        ("/api/info".to_owned(), vec![("authorization", wrong.as_str())], 401),
        ("/api/info?api_key=wrong".to_owned(), vec![], 401),
        (format!("/api/info?api_key={encoded}"), vec![("x-api-key", "wrong")], 401),
    ] {
        assert_eq!(server.http("POST", &path, &headers, "{}").await.status, status, "{path} {headers:?}");
    }
}

#[tokio::test]
async fn rpc_runs_operations_for_the_named_user() {
    let server = Server::start().await;
    let rpc = json!({ "method": "posts.create", "params": { "text": "hello" } }).to_string();
    let headers = [("x-api-key", API_KEY), ("x-user", "ann")];
    let created = server.http("POST", "/api/rpc", &headers, &rpc).await.body;
    assert_eq!(created["result"]["data"]["author"], "ann", "{created}");
    assert_eq!(code(&server.backend("rpc", &serde_json::from_str(&rpc).unwrap()).await), 401, "for nobody");
    let read = json!({ "method": "posts.get", "params": { "id": created["result"]["data"]["id"] } });
    assert_eq!(done(&server, "rpc", read).await["data"]["text"], "hello");
}

#[tokio::test]
async fn repeated_keys_publish_once_without_a_history_too() {
    for redis in [None, Some(RedisServer::start())] {
        let url = redis.as_ref().map_or("memory:".to_owned(), RedisServer::url);
        let server = Server::start_with(&[("namespaces", NAMESPACES), ("broker.url", &url)]).await;
        let mut ann = Client::open(&server).await;
        ann.done(json!({ "connect": { "token": token("ann") } })).await;
        ann.subscribe("plain:1").await;
        ann.subscribe("plain:2").await;
        for (data, key) in [(1, "k"), (2, "k"), (3, "l")] {
            let body = json!({ "channel": "plain:1", "data": data, "idempotency_key": key });
            assert_eq!(done(&server, "publish", body).await, json!({}));
        }
        let body = json!({ "channels": ["plain:1", "plain:2"], "data": 4, "idempotency_key": "k" });
        done(&server, "broadcast", body).await;
        assert_eq!(ann.publication("plain:2").await["data"], 4);
        assert_eq!(ann.publication("plain:1").await["data"], 1);
        assert_eq!(ann.publication("plain:1").await["data"], 3);
        assert_eq!(unread(&mut ann).await, []);
    }
}
