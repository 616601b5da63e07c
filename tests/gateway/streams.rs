//! The transports HTTP stream and SSE, with commands in requests beside them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use crate::NAMESPACES;
use crate::client::{Client, Encoding, Heard, Pongs, Wire};
use crate::server::{API_KEY, PATIENCE, Server, signed, token, unix};
use crate::stream_socket::StreamKind;

async fn server() -> Server {
    Server::start_with(&[("namespaces", NAMESPACES)]).await
}

/// Sends a request, and returns the connection.
async fn send(server: &Server, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

fn post(path: &str, headers: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// Reads until the text contains this.
async fn read_until(stream: &mut TcpStream, text: &mut String, wanted: &str) {
    let mut part = [0; 4_096];
    while !text.contains(wanted) {
        let read = timeout(PATIENCE, stream.read(&mut part)).await.expect("in time").unwrap();
        assert!(read > 0, "the stream ended: {text}");
        text.push_str(std::str::from_utf8(&part[..read]).unwrap());
    }
}

/// Reads to the end of the stream.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut text)).await.expect("an end").unwrap();
    text
}

fn connect(user: &str) -> String {
    json!({ "id": 1, "connect": { "token": token(user) } }).to_string()
}

#[tokio::test]
async fn clients_of_all_transports_share_channels() {
    let server = server().await;
    let mut clients = vec![Client::connect_as(&server, "ann", Encoding::Json).await];
    for wire in Wire::STREAMS {
        clients.push(Client::connect_over(&server, "ann", wire).await);
    }
    for client in &mut clients {
        client.subscribe("chat:1").await;
    }
    for from in 0..clients.len() {
        let data = json!({ "from": from, "text": "a \"quoted\"\nline" });
        clients[from].done(json!({ "publish": { "channel": "chat:1", "data": data } })).await;
        for client in &mut clients {
            let publication = client.publication("chat:1").await;
            assert_eq!((&publication["data"], &publication["offset"]), (&data, &json!(from + 1)));
        }
    }
    for (transport, connections) in [("websocket", 1.0), ("http_stream", 2.0), ("sse", 1.0)] {
        let name = format!("feedline_transport_connections{{transport=\"{transport}\"}}");
        server.metric_is(&name, connections).await;
    }
    drop(clients);
    server.metric_is("feedline_connections", 0.0).await;
    server.metric_is("feedline_transport_connections{transport=\"sse\"}", 0.0).await;
}

#[tokio::test]
async fn commands_run_in_the_order_in_which_they_arrive() {
    let server = server().await;
    for wire in Wire::STREAMS {
        let mut client = Client::connect_over(&server, "ann", wire).await;
        let channel = format!("chat:{wire:?}").replace(['(', ')'], "-");
        client.subscribe(&channel).await;
        let mut ids = Vec::new();
        for n in 0..50 {
            ids.push(client.command(json!({ "publish": { "channel": channel, "data": n } })).await);
        }
        for id in ids {
            assert!(client.reply(id).await.get("publish").is_some());
        }
        for n in 0..50 {
            assert_eq!(client.publication(&channel).await["data"], n);
        }
    }
}

#[tokio::test]
async fn the_first_request_may_hold_many_commands() {
    let server = server().await;
    let subscribe = json!({ "id": 2, "subscribe": { "channel": "chat:1" } });
    let publish = json!({ "id": 3, "publish": { "channel": "chat:1", "data": 7 } });
    let first = format!("{}\n{subscribe}\n{publish}", connect("ann"));
    let mut stream = send(&server, &post("/connection/http_stream", "", &first)).await;
    let mut text = String::new();
    read_until(&mut stream, &mut text, "\"data\":7").await;
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    for header in [
        "content-type: application/json",
        "x-accel-buffering: no",
        "cache-control: private, no-cache, no-store, must-revalidate, max-age=0",
        "connection: close",
        "x-request-id: ",
        "date: ",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    assert!(!head.contains("content-length") && !head.contains("transfer-encoding"), "{head}");
    let messages: Vec<Value> = body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (session, node) = (&messages[0]["connect"]["session"], &messages[0]["connect"]["node"]);
    assert!(session.as_str().unwrap().len() == 36 && node.as_str().unwrap().len() == 36, "{messages:?}");
    assert_ne!(*session, messages[0]["connect"]["client"], "the client id is known to others");
    assert!(messages[1].get("subscribe").is_some());
}

#[tokio::test]
async fn events_begin_at_once_and_are_single_lines() {
    let server = server().await;
    let encoded: String = connect("ann").bytes().map(|byte| format!("%{byte:02X}")).collect();
    let get = format!("GET /connection/sse?cf_connect={encoded} HTTP/1.1\r\nhost: x\r\n\r\n");
    for request in [get, post("/connection/sse", "", &connect("ann"))] {
        let mut stream = send(&server, &request).await;
        let mut text = String::new();
        read_until(&mut stream, &mut text, "\n\n").await;
        read_until(&mut stream, &mut text, "\"session\"").await;
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        assert!(body.starts_with("\ndata: {\"id\":1,\"connect\":{"), "{body}");
        assert!(!body.contains('\r'), "some clients lose the events after one: {body}");
    }
}

/// A link or a picture causes a `GET`: it must do nothing but connect.
#[tokio::test]
async fn a_get_request_carries_connect_alone() {
    let server = server().await;
    let connect = connect("ann");
    let post = json!({ "id": 2, "rpc": { "method": "posts.create", "data": { "text": "by a link" } } });
    let follow = json!({ "id": 2, "rpc": { "method": "follows.add", "data": { "id": "bo" } } });
    let publish = json!({ "id": 2, "publish": { "channel": "chat:1", "data": 1 } });
    let subscribe = json!({ "id": 2, "subscribe": { "channel": "chat:1" } });
    for other in [post, follow, publish, subscribe] {
        for commands in [format!("{connect}\n{other}"), format!("{other}\n{connect}"), other.to_string()] {
            let encoded: String = commands.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let answer = server.http("GET", &format!("/connection/sse?cf_connect={encoded}"), &[], "").await;
            assert_eq!(answer.status.as_u16(), 400, "{commands}: {}", answer.body);
        }
    }
    let posts = server.done("ann", "GET", "/users/ann/posts", &Value::Null).await;
    assert_eq!(posts["items"], json!([]));
}

#[tokio::test]
async fn missed_publications_are_recovered() {
    let server = server().await;
    for wire in Wire::STREAMS {
        let channel = format!("chat:{wire:?}").replace(['(', ')'], "-");
        let publish = |n: u32| json!({ "channel": channel, "data": n });
        let mut client = Client::connect_over(&server, "ann", wire).await;
        let joined = client.subscribe(&channel).await;
        server.backend("publish", &publish(1)).await;
        client.publication(&channel).await;
        drop(client);
        server.backend("publish", &publish(2)).await;
        server.backend("publish", &publish(3)).await;
        let mut client = Client::connect_over(&server, "ann", wire).await;
        let position = json!({ "channel": channel, "recover": true, "offset": 1, "epoch": joined["epoch"] });
        let again = client.done(json!({ "subscribe": position })).await["subscribe"].clone();
        assert_eq!(again["recovered"], true, "{again}");
        let missed: Vec<&Value> = again["publications"].as_array().unwrap().iter().map(|it| &it["data"]).collect();
        assert_eq!(missed, [2, 3]);
    }
}

#[tokio::test]
async fn the_end_is_a_push() {
    let server = Server::start_with(&[("namespaces", NAMESPACES), ("client.connect_timeout", "1s")]).await;
    for wire in Wire::STREAMS {
        let first = [
            (json!({ "subscribe": { "channel": "chat:1" } }), 3501),
            (json!({ "connect": {} }), 3501),
            (json!({ "connect": { "token": "x" } }), 3500),
        ];
        for (command, code) in first {
            // The request for events is a GET, which carries `connect` alone.
            if wire == Wire::Stream(StreamKind::Events) && command.get("connect").is_none() {
                continue;
            }
            let mut client = Client::open_over(&server, wire).await;
            client.command(command.clone()).await;
            assert_eq!(client.closed().await.0, code, "{wire:?} {command}");
        }
        let later = [
            (json!({ "connect": { "token": token("ann") } }), 3501),
            (json!({ "subscribe": { "channel": "" } }), 3501),
            (json!({ "refresh": { "token": token("bo") } }), 3500),
            (json!({ "send": { "data": 1 } }), 3508),
        ];
        for (command, code) in later {
            let mut client = Client::connect_over(&server, "ann", wire).await;
            client.command(command.clone()).await;
            assert_eq!(client.closed().await.0, code, "{wire:?} {command}");
        }
        let mut expired = Client::open_over(&server, wire).await;
        let old = json!({ "connect": { "token": signed(&json!({ "sub": "ann", "exp": unix() - 1 })) } });
        assert_eq!(expired.refused(old).await, 109);
        assert_eq!(expired.closed().await, (3502, "stale".into()));
        // A backend's reason may have any characters.
        let mut client = Client::connect_over(&server, "cy", wire).await;
        let bye = json!({ "user": "cy", "disconnect": { "code": 4003, "reason": "\"bye\"" } });
        server.backend("disconnect", &bye).await;
        assert_eq!(client.closed().await, (4003, "\"bye\"".into()));
    }
    server.metric_is("feedline_connections", 0.0).await;
}

#[tokio::test]
async fn pings_need_pongs() {
    let keys = [("client.ping_interval", "1s"), ("client.pong_timeout", "500ms")];
    let server = Server::start_with(&keys).await;
    for wire in Wire::STREAMS {
        let mut answering = Client::connect_over(&server, "ann", wire).await;
        let mut hung = Client::connect_over(&server, "ann", wire).await;
        hung.pongs = Pongs::Withheld;
        for _ in 0..3 {
            assert_eq!(answering.hear().await, Heard::Ping);
        }
        assert_eq!(hung.closed().await, (3012, "no pong".into()), "{wire:?}");
        answering.subscribe("topic:x").await;
    }
}

#[tokio::test]
async fn a_shutdown_closes_streams_like_sockets() {
    let mut server = server().await;
    let mut clients = Vec::new();
    for wire in Wire::STREAMS {
        clients.push(Client::connect_over(&server, "ann", wire).await);
    }
    let begin = Instant::now();
    server.terminate();
    for mut client in clients {
        assert_eq!(client.closed().await, (3001, "shutdown".into()));
    }
    assert!(server.ended().await.success());
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_slow_reader_is_closed_and_others_go_on() {
    let keys = [("namespaces", NAMESPACES), ("client.queue_bytes", "65536"), ("client.write_timeout", "500ms")];
    let server = Server::start_with(&keys).await;
    let mut other = Client::connect_over(&server, "bo", Wire::Stream(StreamKind::Json)).await;
    other.subscribe("plain:1").await;
    for path in ["/connection/http_stream", "/connection/sse"] {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut slow = socket.connect(([127, 0, 0, 1], server.port()).into()).await.unwrap();
        let first = format!("{}\n{}", connect("ann"), json!({ "id": 2, "subscribe": { "channel": "plain:1" } }));
        slow.write_all(post(path, "", &first).as_bytes()).await.unwrap();
        server.metric_is("feedline_connections", 2.0).await;
        let data = "x".repeat(60_000);
        let begin = Instant::now();
        let publishing = async {
            while server.metric("feedline_connections").await != Some(1.0) {
                server.backend("publish", &json!({ "channel": "plain:1", "data": data })).await;
                other.publication("plain:1").await;
                assert!(begin.elapsed() < PATIENCE, "{path}: the slow reader stays");
            }
        };
        publishing.await;
    }
    let closed =
        async |code| server.metric(&format!("feedline_connections_closed_total{{code=\"{code}\"}}")).await > Some(0.0);
    assert!(closed(3008).await || closed(3009).await);
}

#[tokio::test]
async fn malformed_requests_are_refused() {
    let server = Server::start_with(&[("client.message_bytes", "2048")]).await;
    let large = "x".repeat(2_049);
    for (method, path, body, status) in [
        ("POST", "/connection/http_stream", "", 400),
        ("POST", "/connection/http_stream", "nonsense", 400),
        ("POST", "/connection/http_stream", &*large, 413),
        ("GET", "/connection/http_stream", "", 405),
        ("PUT", "/connection/http_stream", "", 405),
        ("GET", "/connection/sse", "", 400),
        ("GET", "/connection/sse?cf_connect=%", "", 400),
        ("GET", "/connection/sse?cf_connect=nonsense", "", 400),
        ("GET", &*format!("/connection/sse?cf_connect={large}"), "", 413),
        ("POST", "/connection/sse", &*large, 413),
        ("HEAD", "/connection/sse", "", 405),
        ("DELETE", "/connection/sse", "", 405),
        ("OPTIONS", "/connection/http_stream", "", 204),
        ("OPTIONS", "/connection/sse", "", 204),
        ("OPTIONS", "/emulation", "", 204),
        ("GET", "/connection/uni_sse", "", 404),
        ("POST", "/connection/uni_http_stream", "{}", 404),
        ("GET", "/connection/uni_websocket", "", 404),
    ] {
        assert_eq!(server.http(method, path, &[], body).await.status.as_u16(), status, "{method} {path}");
    }
    server.metric_is("feedline_connections", 0.0).await;
}

#[tokio::test]
async fn transports_that_are_off_are_not_served() {
    let off = [("transports.http_stream", "false"), ("transports.sse", "false"), ("transports.websocket", "false")];
    let server = Server::start_with(&off).await;
    for path in ["/connection/http_stream", "/connection/sse", "/emulation", "/connection/websocket"] {
        assert_eq!(server.http("POST", path, &[], &connect("ann")).await.status.as_u16(), 404, "{path}");
    }
    let only = Server::start_with(&[("transports.http_stream", "false")]).await;
    assert_eq!(only.http("POST", "/connection/http_stream", &[], &connect("ann")).await.status.as_u16(), 404);
    assert_eq!(only.http("OPTIONS", "/emulation", &[], "").await.status.as_u16(), 204, "SSE needs it");
}

#[tokio::test]
async fn streams_count_towards_the_limits() {
    let keys = [
        ("client.connections_per_user", "2"),
        ("server.trusted_proxies", "127.0.0.1"),
        ("server.connections_per_address", "2"),
    ];
    let server = Server::start_with(&keys).await;
    let mut first = Client::connect_over(&server, "ann", Wire::Stream(StreamKind::Json)).await;
    let _second = Client::connect_over(&server, "ann", Wire::Stream(StreamKind::Events)).await;
    let mut third = Client::stream(&server, StreamKind::Json);
    third.command(json!({ "connect": { "token": token("ann") } })).await;
    assert_eq!(third.closed().await, (3504, "connection limit".into()));
    first.subscribe("topic:x").await;

    // Clients behind a proxy are counted by their own address, while the stream lasts.
    let from = "x-forwarded-for: 203.0.113.9\r\n";
    let mut held = Vec::new();
    for user in ["bo", "cy"] {
        let mut stream = send(&server, &post("/connection/http_stream", from, &connect(user))).await;
        read_until(&mut stream, &mut String::new(), "\"session\"").await;
        held.push(stream);
    }
    let over = post("/connection/http_stream", from, &connect("di"));
    let mut text = String::new();
    read_until(&mut send(&server, &over).await, &mut text, "\r\n\r\n").await;
    assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
    held.pop();
    let until = Instant::now() + PATIENCE;
    loop {
        let (mut stream, mut text) = (send(&server, &over).await, String::new());
        read_until(&mut stream, &mut text, "\r\n\r\n").await;
        if text.starts_with("HTTP/1.1 200 ") {
            break;
        }
        assert!(Instant::now() < until, "{text}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn only_allowed_origins_open_streams() {
    let server = Server::start_with(&[("server.origins", "https://app.example.org")]).await;
    for path in ["/connection/http_stream", "/connection/sse", "/emulation"] {
        let foreign = [("origin", "https://other.example.org")];
        assert_eq!(server.http("POST", path, &foreign, &connect("ann")).await.status.as_u16(), 403, "{path}");
        let preflight = [
            ("origin", "https://app.example.org"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type"),
        ];
        let answer = server.http("OPTIONS", path, &preflight, "").await;
        assert_eq!(answer.status.as_u16(), 204);
        assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example.org"));
    }
    let own = "origin: https://app.example.org\r\n";
    let mut stream = send(&server, &post("/connection/http_stream", own, &connect("ann"))).await;
    let mut text = String::new();
    read_until(&mut stream, &mut text, "\"session\"").await;
    assert!(text.contains("access-control-allow-origin: https://app.example.org\r\n"), "{text}");
}

#[tokio::test]
async fn revocations_end_streams() {
    let server = server().await;
    for wire in Wire::STREAMS {
        let user = format!("u{wire:?}").replace(['(', ')'], "-");
        let mut client = Client::connect_over(&server, &user, wire).await;
        let answer = server.backend("block_user", &json!({ "user": user })).await;
        assert!(answer.get("result").is_some(), "{answer}");
        assert_eq!(client.closed().await.0, 3507, "{wire:?}");
    }
}

#[tokio::test]
async fn a_backend_finds_a_stream_by_its_session() {
    let server = server().await;
    let mut client = Client::stream(&server, StreamKind::Events);
    let connected = client.done(json!({ "connect": { "token": token("ann") } })).await;
    let mut other = Client::connect_over(&server, "ann", Wire::Stream(StreamKind::Events)).await;
    let session = &connected["connect"]["session"];
    server.backend("disconnect", &json!({ "user": "ann", "session": session })).await;
    assert_eq!(client.closed().await.0, 3503);
    other.subscribe("topic:x").await;
}

#[tokio::test]
async fn a_request_that_is_not_complete_opens_nothing() {
    let server = Server::start_with(&[("server.stall_timeout", "300ms")]).await;
    for path in ["/connection/http_stream", "/connection/sse", "/emulation"] {
        let request =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {API_KEY}\r\ncontent-length: 99\r\n\r\n{{");
        let begin = Instant::now();
        let answer = rest(&mut send(&server, &request).await).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{path}: {answer}");
        assert!(begin.elapsed() < Duration::from_secs(5));
    }
    // An open stream is not a response that stalls.
    let mut client = Client::connect_over(&server, "ann", Wire::Stream(StreamKind::Json)).await;
    sleep(Duration::from_secs(1)).await;
    client.subscribe("topic:x").await;
}

#[tokio::test]
async fn old_clients_and_noise_are_served() {
    let server = server().await;
    // nginx speaks HTTP/1.0 to its upstreams unless it is configured otherwise.
    let body = connect("ann");
    let request =
        format!("POST /connection/http_stream HTTP/1.0\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut stream = send(&server, &request).await;
    let mut text = String::new();
    read_until(&mut stream, &mut text, "\"session\"").await;
    // What a client sends on its stream belongs to no request.
    stream.write_all(&b"GET / HTTP/1.1\r\n\r\n".repeat(1_000)).await.unwrap();
    server.backend("disconnect", &json!({ "user": "ann" })).await;
    read_until(&mut stream, &mut text, "\"disconnect\"").await;
    server.metric_is("feedline_connections", 0.0).await;
}
