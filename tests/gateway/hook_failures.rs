//! Hooks that fail: which failures concern the endpoint, and what one client can do to others.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::client::Client;
use crate::hooks::{Answer, Backend};
use crate::server::{PATIENCE, Server};

/// Behind a proxy that names the clients' addresses, as `192.0.2.1`.
const PROXIED: [(&str, &str); 2] = [("server.trusted_proxies", "127.0.0.1"), ("hooks.headers", "cookie")];

/// Connects from an address, with a cookie and without a token. Returns the reply.
async fn connect(server: &Server, address: &str, cookie: &str) -> Value {
    let stream = TcpStream::connect(("127.0.0.1", server.port())).await.expect("to connect");
    let headers = [("x-forwarded-for", address), ("cookie", cookie)];
    let mut client = Client::upgrade(server, stream, &headers).await.expect("a handshake");
    client.call(json!({ "connect": {} })).await
}

/// Asks the rpc hook. Returns the code of the error; `None`: it answered.
async fn ask(client: &mut Client) -> Option<u64> {
    client.call(json!({ "rpc": { "method": "app.x" } })).await["error"]["code"].as_u64()
}

async fn clients(server: &Server, users: &[&str]) -> Vec<Client> {
    let mut clients = Vec::new();
    for user in users {
        clients.push(Client::connect(server, user).await);
    }
    clients
}

#[tokio::test]
async fn a_backend_that_does_not_answer_is_left_alone() {
    let backend = Backend::start().await;
    let server = backend.server(&["rpc"], &[]).await;
    let [mut ann, mut bo] = <[Client; 2]>::try_from(clients(&server, &["ann", "bo"]).await).ok().expect("two");
    backend.answer("rpc", Answer::Never);
    let started = Instant::now();
    let slow = ann.command(json!({ "rpc": { "method": "app.slow" } })).await;
    let next = ann.command(json!({ "rpc": { "method": "users.get", "data": { "id": "ann" } } })).await;
    assert_eq!(ann.reply(slow).await["error"]["code"], 100);
    assert_eq!(ann.reply(next).await["rpc"]["data"]["id"], "ann");
    assert!(started.elapsed() < Duration::from_secs(2), "commands wait no longer than the timeout");
    backend.answer("rpc", Answer::Raw(500, String::new()));
    for _ in 0..2 {
        assert_eq!((ask(&mut ann).await, ask(&mut bo).await), (Some(100), Some(100)));
    }
    assert_eq!(backend.asked("rpc").len(), 5);
    // The breaker is open: nothing is asked, and nothing waits.
    backend.result("rpc", json!({ "data": { "n": 1 } }));
    let started = Instant::now();
    assert_eq!(ask(&mut ann).await, Some(100));
    assert!(started.elapsed() < Duration::from_millis(400));
    assert_eq!(backend.asked("rpc").len(), 5);
    // Feedline's own operations go on, and the backend is asked again later.
    ann.rpc("users.get", &json!({ "id": "ann" })).await;
    let until = Instant::now() + PATIENCE;
    loop {
        let reply = ann.call(json!({ "rpc": { "method": "app.x", "data": { "a": 1 } } })).await;
        if reply.get("error").is_none() {
            assert_eq!(reply["rpc"]["data"], json!({ "n": 1 }));
            break;
        }
        assert!(Instant::now() < until, "the breaker does not close");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let question = backend.asked("rpc").pop().expect("a question");
    assert_eq!(
        (&question["user"], &question["method"], &question["data"]),
        (&json!("ann"), &json!("app.x"), &json!({ "a": 1 }))
    );
}

/// A client can make its own questions fail, by cookies or data that the backend cannot read.
#[tokio::test]
async fn one_client_cannot_keep_others_out() {
    let backend = Backend::start().await;
    let server = backend.server(&["connect", "rpc"], &PROXIED).await;
    backend.result("connect", json!({ "user": "bo" }));
    backend.result("rpc", json!({ "data": 1 }));
    let mut bo = Client::connect(&server, "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    for status in [500, 503, 429, 404, 302] {
        backend.answer("connect/bad", Answer::Raw(status, String::new()));
        backend.answer("rpc/ann", Answer::Raw(status, String::new()));
        for _ in 0..8 {
            assert_eq!(connect(&server, "192.0.2.1", "bad").await["error"]["code"], 100, "{status}");
            assert_eq!(ask(&mut ann).await, Some(100), "{status}");
        }
        let reply = connect(&server, "192.0.2.2", "good").await;
        assert!(reply.get("error").is_none(), "{status}: {reply}");
        assert_eq!(ask(&mut bo).await, None, "{status}");
    }
    assert!(backend.asked("connect").len() >= 45, "each one was asked");
}

/// Each row: the answer, and whether it stops questions of everybody for a while when several clients get it.
#[tokio::test]
async fn only_failures_of_the_endpoint_for_several_clients_open_its_breaker() {
    let backend = Backend::start().await;
    let raw = |status| Answer::Raw(status, String::new());
    for (answer, opens) in [
        (Answer::Never, true),
        (raw(500), true),
        (raw(503), true),
        (raw(429), true),
        (raw(400), false),
        (raw(401), false),
        (raw(403), false),
        (raw(404), false),
        (raw(201), false),
        (raw(302), false),
        (Answer::Raw(200, "<html>".into()), false),
        (Answer::Json(json!({})), false),
        (Answer::Json(json!({ "result": { "user": "not a user" } })), false),
    ] {
        let server = backend.server(&["connect"], &PROXIED).await;
        backend.answer("connect", answer.clone());
        for host in 1..=6 {
            assert_eq!(connect(&server, &format!("192.0.2.{host}"), "x").await["error"]["code"], 100, "{answer:?}");
        }
        backend.result("connect", json!({ "user": "ann" }));
        let reply = connect(&server, "192.0.2.9", "x").await;
        assert_eq!(reply.get("error").is_some(), opens, "{answer:?}: {reply}");
    }
}

#[tokio::test]
async fn a_kind_of_hook_that_fails_leaves_the_others() {
    let backend = Backend::start().await;
    let server = backend.server(&["connect", "rpc"], &[]).await;
    backend.answer("rpc", Answer::Raw(500, String::new()));
    backend.result("connect", json!({ "user": "ann" }));
    let mut clients = clients(&server, &["ann", "bo", "cy"]).await;
    for _ in 0..3 {
        for client in &mut clients {
            assert_eq!(ask(client).await, Some(100));
        }
    }
    assert!(backend.asked("rpc").len() < 9, "its breaker is open");
    let reply = connect(&server, "", "").await;
    assert!(reply.get("error").is_none(), "{reply}");
}

#[tokio::test]
async fn a_client_with_slow_questions_leaves_turns_for_others() {
    let backend = Backend::start().await;
    let more = [("hooks.concurrency", "8"), ("hooks.timeout", "20s"), PROXIED[0], PROXIED[1]];
    let server = backend.server(&["connect", "rpc"], &more).await;
    for slow in ["rpc/ann", "connect/slow"] {
        backend.answer(slow, Answer::Never);
    }
    backend.result("rpc", json!({ "data": 1 }));
    backend.result("connect", json!({ "user": "bo" }));
    let mut bo = Client::connect(&server, "bo").await;
    let mut slow = clients(&server, &["ann"; 12]).await;
    for client in &mut slow {
        client.command(json!({ "rpc": { "method": "app.slow" } })).await;
    }
    let mut connecting = Vec::new();
    for _ in 0..12 {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).await.expect("to connect");
        let headers = [("x-forwarded-for", "192.0.2.1"), ("cookie", "slow")];
        let mut client = Client::upgrade(&server, stream, &headers).await.expect("a handshake");
        client.command(json!({ "connect": {} })).await;
        connecting.push(client);
    }
    backend.asked_times("rpc", 1).await;
    backend.asked_times("connect", 1).await;
    let started = Instant::now();
    assert_eq!(ask(&mut bo).await, None);
    let reply = connect(&server, "192.0.2.2", "quick").await;
    assert!(reply.get("error").is_none(), "{reply}");
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    let asked = ["rpc", "connect"].map(|hook| backend.asked(hook).len());
    assert_eq!(asked, [2, 2], "a quarter of each hook's four turns for one client, and the other client");
}
