//! Limits that protect clients from one another: slow readers, slow requests, too many connections, foreign origins;
//! and graceful shutdown.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::NAMESPACES;
use crate::client::{Client, Heard};
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server, token};

/// Resident memory, in bytes.
fn resident(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// A client with small socket buffers.
async fn narrow(server: &Server, user: &str) -> Client {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let stream = socket.connect(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let mut client = Client::over(server, stream).await;
    client.done(json!({ "connect": { "token": token(user) } })).await;
    client
}

/// Publishes, and measures the time until the subscriber receives each publication.
async fn latencies(server: &Server, reader: &mut Client, times: usize, payload: &str) -> Vec<Duration> {
    let mut taken = Vec::new();
    for n in 0..times {
        let begin = Instant::now();
        let data = json!({ "n": n, "payload": payload });
        server.backend("publish", &json!({ "channel": "chat:1", "data": data })).await;
        while reader.publication("chat:1").await["data"]["n"] != n {}
        taken.push(begin.elapsed());
    }
    taken.sort_unstable();
    taken
}

#[tokio::test]
async fn stalled_clients_are_closed_without_effect_on_others() {
    let keys = [("namespaces", NAMESPACES), ("client.queue_bytes", "262144")];
    let server = Server::start_with(&keys).await;
    let mut reader = Client::connect(&server, "bo").await;
    reader.subscribe("chat:1").await;
    let payload = "x".repeat(8 * 1024);
    let alone = latencies(&server, &mut reader, 100, &payload).await;
    let mut stuck = Vec::new();
    for n in 0..20 {
        let mut client = narrow(&server, &format!("slow{n}")).await;
        client.subscribe("chat:1").await;
        stuck.push(client);
    }
    server.metric_is("feedline_connections", 21.0).await;
    let before = resident(&server);
    let mut most = before;
    let mut beside = Vec::new();
    for _ in 0..20 {
        beside.extend(latencies(&server, &mut reader, 50, &payload).await);
        most = most.max(resident(&server));
    }
    beside.sort_unstable();
    let p99 = |taken: &[Duration]| taken[taken.len() * 99 / 100];
    let (alone, beside) = (p99(&alone), p99(&beside));
    assert!(beside < alone * 5 + Duration::from_millis(50), "p99 {alone:?} alone, {beside:?} beside slow readers");
    // 8 MB were sent to each of the 20 readers; the server may buffer a quarter of a megabyte for each, plus the
    // current write.
    let grown = most.saturating_sub(before);
    assert!(grown < 40 << 20, "{} MB more for 20 slow readers", grown >> 20);
    server.metric_is("feedline_connections", 1.0).await;
    assert_eq!(server.metric("feedline_connections_closed_total{code=\"3008\"}").await, Some(20.0));
    assert_eq!(server.metric("feedline_queue_bytes").await, Some(0.0));
}

#[tokio::test]
async fn slow_clients_get_the_close_reason() {
    let keys = [("namespaces", NAMESPACES), ("client.queue_messages", "10"), ("client.queue_bytes", "1073741824")];
    let server = Server::start_with(&keys).await;
    let mut slow = Client::connect(&server, "ann").await;
    slow.subscribe("chat:1").await;
    let channels = vec!["chat:1"; 2_000];
    server.backend("broadcast", &json!({ "channels": channels, "data": "x".repeat(4_000) })).await;
    assert_eq!(slow.closed().await, (3008, "slow".into()));
}

#[tokio::test]
async fn slow_request_heads_time_out() {
    let server = Server::start_with(&[("server.header_timeout", "300ms")]).await;
    let mut slow = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let begin = Instant::now();
    slow.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n").await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, async {
        loop {
            tokio::select! {
                read = slow.read_buf(&mut answer) => if read.is_err() || read.is_ok_and(|read| read == 0) { return },
                // One header line every 50 ms.
                () = tokio::time::sleep(Duration::from_millis(50)) => { let _ = slow.write_all(b"x: y\r\n").await; }
            }
        }
    });
    read.await.expect("the server closes the connection");
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn connections_may_idle_between_requests_for_longer_than_a_head_may_take() {
    let keys = [("server.header_timeout", "300ms"), ("server.keep_alive", "2s")];
    let server = Server::start_with(&keys).await;
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let request = format!("GET /health HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n\r\n", server.port());
    for _ in 0..2 {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "closed early");
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
        tokio::time::sleep(Duration::from_millis(900)).await;
    }
    // A head that has begun is bounded as the first one is.
    let begin = Instant::now();
    stream.write_all(b"GET /health HTTP/1.1\r\n").await.unwrap();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await.expect("it is closed").unwrap();
    let took = begin.elapsed();
    assert!(took >= Duration::from_millis(250) && took < Duration::from_millis(1_500), "{took:?}");

    let mut idle = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    idle.write_all(request.as_bytes()).await.unwrap();
    let begin = Instant::now();
    tokio::time::timeout(PATIENCE, idle.read_to_end(&mut Vec::new())).await.expect("it is closed").unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(1_900), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn connection_limits_free_slots_on_close() {
    let server = Server::start_with(&[("server.connections", "3")]).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(Client::connect(&server, "ann").await);
    }
    let mut refused = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, refused.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    held.pop();
    // Once the socket is closed, its slot is free again. Until then each request is refused and counted.
    let until = Instant::now() + PATIENCE;
    while server
        .metric("feedline_connections_refused_total{reason=\"connections\"}")
        .await
        .is_none_or(|refused| refused < 1.0)
    {
        assert!(Instant::now() < until, "the slot was not freed");
    }
    drop(held);
}

#[tokio::test]
async fn connections_leave_file_descriptors_for_the_stores() {
    let admin = format!("127.0.0.1:{}", crate::ports::free_port());
    let server = Server::start_limited(Some(400), &[("server.admin_listen", &admin)]).await;
    // With this few files, half of them are reserved for clients; connections beyond that are refused.
    let mut held = Vec::new();
    for _ in 0..200 {
        held.push(TcpStream::connect(("127.0.0.1", server.port())).await.unwrap());
    }
    for _ in 0..200 {
        let mut refused = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, refused.read_to_end(&mut answer)).await.unwrap();
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 503 "), "{}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(server.probe("/ready").await.unwrap().status, 200, "the stores answer");
    let refused = server.metric("feedline_connections_refused_total{reason=\"connections\"}").await;
    assert_eq!(refused, Some(200.0));
    assert!(!server.log().contains("could not be accepted"), "{}", server.log());
}

#[tokio::test]
async fn connections_of_a_user_are_limited() {
    let server = Server::start_with(&[("client.connections_per_user", "2"), ("auth.anonymous", "true")]).await;
    let mut first = Client::connect(&server, "ann").await;
    let _second = Client::connect(&server, "ann").await;
    let connect = json!({ "connect": { "token": token("ann") } });
    let mut third = Client::open(&server).await;
    third.command(connect.clone()).await;
    assert_eq!(third.hear().await, Heard::Closed(3504, "connection limit".into()));
    let _other = Client::connect(&server, "bo").await;
    for _ in 0..3 {
        let mut anonymous = Client::open(&server).await;
        anonymous.done(json!({ "connect": {} })).await;
    }
    first.socket.websocket().close(None).await.unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        let mut again = Client::open(&server).await;
        again.command(connect.clone()).await;
        match again.hear().await {
            Heard::Reply(_) => break,
            heard => assert_eq!(heard, Heard::Closed(3504, "connection limit".into())),
        }
        assert!(Instant::now() < until, "the slot was not freed");
    }
}

#[tokio::test]
async fn operator_endpoints_have_their_own_address() {
    let admin = crate::ports::free_port();
    let address = format!("127.0.0.1:{admin}");
    let keys = [("server.admin_listen", &*address), ("server.connections", "5"), ("server.drain", "2s")];
    let mut server = Server::start_with(&keys).await;
    for path in ["/metrics", "/ready", "/health"] {
        assert_eq!(server.http("GET", path, &[], "").await.status, 404, "{path}");
    }
    let _sockets = (Client::connect(&server, "ann").await, Client::connect(&server, "bo").await);
    // The admin listener answers while the other listener is full.
    let mut held = Vec::new();
    let refused = "feedline_connections_refused_total{reason=\"connections\"}";
    while server.metric(refused).await.is_none_or(|refused| refused < 1.0) {
        held.push(TcpStream::connect(("127.0.0.1", server.port())).await.unwrap());
        assert!(held.len() < 100, "none was refused");
    }
    for (path, status) in [("/metrics", 200), ("/ready", 200), ("/health", 200), ("/api/v1/timeline", 404), ("/", 404)]
    {
        let answer = Server::request_at(admin, "GET", path, &[], "").await.unwrap();
        assert_eq!(answer.status, status, "{path}");
    }
    drop(held);
    server.terminate();
    let until = Instant::now() + PATIENCE;
    while server.probe("/ready").await.unwrap().status != 503 {
        assert!(Instant::now() < until, "it reports ready during shutdown");
    }
    assert!(server.ended().await.success());
}

#[tokio::test]
async fn other_origins_are_rejected() {
    let server = Server::start_with(&[("server.origins", "https://app.example.org")]).await;
    let own = format!("http://127.0.0.1:{}", server.port());
    for (origin, status) in [
        (None, 101),
        (Some(&*own), 101),
        (Some("https://app.example.org"), 101),
        (Some("https://evil.example.org"), 403),
        (Some("https://app.example.org.evil.org"), 403),
        (Some("null"), 403),
    ] {
        let mut headers = vec![
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        headers.extend(origin.map(|origin| ("origin", origin)));
        let status_line = upgrade(&server, &headers).await;
        assert!(status_line.starts_with(&format!("HTTP/1.1 {status} ")), "{origin:?}: {status_line}");
    }
}

/// Sends an upgrade request by hand; returns the status line.
async fn upgrade(server: &Server, headers: &[(&str, &str)]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let host = format!("host: 127.0.0.1:{}\r\n", server.port());
    stream.write_all(format!("GET /connection/websocket HTTP/1.1\r\n{host}{headers}\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.contains(&b'\n') {
        assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "no answer");
    }
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn shutdown_disconnects_clients_gradually() {
    let mut server = Server::start_with(&[("server.drain", "1s")]).await;
    let mut clients = Vec::new();
    for n in 0..10 {
        clients.push(Client::connect(&server, &format!("user{n}")).await);
    }
    let begin = Instant::now();
    server.terminate();
    let waits = clients.into_iter().map(|mut client| async move {
        let heard = client.hear().await;
        (heard, begin.elapsed())
    });
    let mut times = Vec::new();
    for (heard, after) in futures::future::join_all(waits).await {
        assert_eq!(heard, Heard::Closed(3001, "shutdown".into()));
        times.push(after);
    }
    times.sort_unstable();
    assert!(times[9] - times[0] > Duration::from_millis(600), "spread over {:?}", times[9] - times[0]);
    assert!(times[9] < Duration::from_secs(5), "{times:?}");
    let status = server.ended().await;
    assert!(status.success(), "{status}\n{}", server.log());
    assert!(server.log().contains("stopped"));
}

#[tokio::test]
async fn draining_nodes_accept_no_connections() {
    let mut server = Server::start_with(&[("server.drain", "2s")]).await;
    let _one = Client::connect(&server, "ann").await;
    let mut two = Client::connect(&server, "bo").await;
    server.terminate();
    let until = Instant::now() + PATIENCE;
    // A load balancer sees the failing readiness check while the sockets are still being closed.
    let not_ready = loop {
        let answer = server.http("GET", "/ready", &[], "").await;
        if answer.status == 503 {
            break answer;
        }
        assert!(Instant::now() < until, "it reports ready during shutdown");
    };
    assert_eq!(not_ready.body["error"]["code"], "draining");
    let refused = upgrade(&server, &[]).await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert_eq!(two.closed().await.0, 3001);
    assert!(server.ended().await.success());
}

#[tokio::test]
async fn a_leaving_node_serves_everything_for_the_drain_delay() {
    let keys = [("server.drain_delay", "1500ms"), ("server.drain", "0s")];
    let mut server = Server::start_with(&keys).await;
    let mut early = Client::connect(&server, "ann").await;
    // Not signals to stop.
    for signal in ["-USR1", "-USR2", "-QUIT"] {
        server.signal(signal);
    }
    server.terminate();
    let begin = Instant::now();
    while server.http("GET", "/ready", &[], "").await.status != 503 {
        assert!(begin.elapsed() < Duration::from_secs(1), "it reports ready while it leaves");
    }
    let answer = server.http("GET", "/api/v1/topics", &[], "").await;
    assert_ne!(answer.status, 503, "requests are served");
    assert_eq!(answer.header("connection"), Some("close"), "and their connections closed");
    let late = Client::connect(&server, "bo").await;
    assert_eq!(early.closed().await.0, 3001);
    assert!(begin.elapsed() >= Duration::from_millis(1_300), "{:?}", begin.elapsed());
    drop(late);
    assert!(server.ended().await.success());
}

#[tokio::test]
async fn connections_opened_before_a_shutdown_get_their_answer() {
    const REQUEST: &[u8] = b"GET /api/v1/topics HTTP/1.1\r\nhost: a\r\n\r\n";
    let mut server = Server::start_with(&[("server.drain_delay", "0s"), ("server.drain", "0s")]).await;
    let connect = || TcpStream::connect(("127.0.0.1", server.port()));
    let mut late = connect().await.expect("a connection");
    // The node finds these and the signal at the same time.
    server.signal("-STOP");
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let mut socket = connect().await.expect("a connection");
        socket.write_all(REQUEST).await.expect("to write");
        waiting.push(socket);
    }
    server.terminate();
    server.signal("-CONT");
    tokio::time::sleep(Duration::from_millis(300)).await;
    late.write_all(REQUEST).await.expect("to write");
    for mut socket in waiting.into_iter().chain([late]) {
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.expect("an answer, and the end");
        assert!(answer.starts_with("HTTP/1.1 "), "{answer:?}");
    }
    assert!(server.ended().await.success());
}

#[tokio::test]
async fn startup_warns_of_a_redis_that_may_evict_keys() {
    for (policy, warns) in [("noeviction", false), ("allkeys-lru", true)] {
        let redis = RedisServer::start();
        assert_eq!(redis.ask(&format!("CONFIG SET maxmemory-policy {policy}")), "+OK");
        let server = Server::start_with(&[("broker.url", &redis.url())]).await;
        assert_eq!(server.log().contains("set maxmemory-policy to noeviction"), warns, "{policy}: {}", server.log());
    }
}
