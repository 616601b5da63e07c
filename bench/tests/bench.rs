//! Tests of `feedline-bench`: the messages that its floor delivers and the options that it rejects.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use feedline_test_support::ports::free_port;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

const PATIENCE: Duration = Duration::from_secs(20);

type Client = WebSocketStream<TcpStream>;

/// Starts the floor and a client, and waits until the client has subscribed.
async fn floor() -> (Child, SocketAddr, Client) {
    let addr = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let floor = Command::new(env!("CARGO_BIN_EXE_feedline-bench"))
        .args(["floor", "--listen", &addr.to_string()])
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let listening = async {
        while TcpStream::connect(addr).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
        connect(addr).await
    };
    let client = timeout(PATIENCE, listening).await.expect("the client connects");
    (floor, addr, client)
}

async fn connect(addr: SocketAddr) -> Client {
    let stream = TcpStream::connect(addr).await.unwrap();
    client_async(format!("ws://{addr}/"), stream).await.unwrap().0
}

async fn hear(client: &mut Client) -> String {
    let message = timeout(PATIENCE, client.next()).await.expect("a message arrives").unwrap().unwrap();
    message.into_text().unwrap().as_str().to_owned()
}

async fn say(client: &mut Client, text: impl Into<String>) {
    client.send(Message::text(text.into())).await.unwrap();
}

#[tokio::test]
async fn floor_delivers_every_message_once_in_order() {
    let (_floor, addr, mut publisher) = floor().await;
    let mut listeners = Vec::new();
    for _ in 0..20 {
        let mut listener = connect(addr).await;
        say(&mut listener, "+").await;
        assert_eq!(hear(&mut listener).await, "+");
        listeners.push(listener);
    }
    for n in 0..500 {
        publisher.feed(Message::text(format!("message {n}"))).await.unwrap();
    }
    publisher.flush().await.unwrap();
    for listener in &mut listeners {
        for n in 0..500 {
            assert_eq!(hear(listener).await, format!("message {n}"));
        }
    }
    // No client received a message twice: the next message is the next one published. The publisher did not subscribe
    // and received nothing.
    say(&mut publisher, "end").await;
    for listener in &mut listeners {
        assert_eq!(hear(listener).await, "end");
    }
    say(&mut publisher, "+").await;
    assert_eq!(hear(&mut publisher).await, "+");
}

#[tokio::test]
async fn floor_exits_with_its_parent() {
    let mut floor = Command::new(env!("CARGO_BIN_EXE_feedline-bench"))
        .args(["floor", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    drop(floor.stdin.take());
    assert!(timeout(PATIENCE, floor.wait()).await.expect("the bench exits").unwrap().success());
}

/// Runs a scenario for a second, and returns its report.
async fn bench(args: &[&str]) -> Value {
    let command = Command::new(env!("CARGO_BIN_EXE_feedline-bench"))
        .args(["--runs", "1", "--seconds", "1", "--json"])
        .args(args)
        .kill_on_drop(true)
        .output();
    let output = timeout(6 * PATIENCE, command).await.expect("the bench ends").unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The row with this name.
fn row<'a>(report: &'a Value, name: &str) -> &'a Value {
    let rows = report["rows"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name:?} in {report}"))
}

#[tokio::test]
async fn broadcast_from_sequential_http_publishers_is_compared_with_the_floor() {
    let report = bench(&["broadcast", "--publishers", "http:2", "--in-flight", "8"]).await;
    let rate = row(&report, "broadcast to 1000, 8 in flight, 2 HTTP publishers");
    assert!(rate["median"].as_f64().unwrap() > 0.0, "{rate}");
    assert_eq!(rate["against"]["name"], "floor");
    assert!(rate["ratio"].as_f64().unwrap() > 0.0, "{rate}");
    assert!(row(&report, "  99 of 100 other calls within")["median"].as_f64().unwrap() > 0.0, "{report}");
}

#[tokio::test]
async fn broadcast_in_protobuf_is_compared_with_json() {
    for (transport, suffix) in [("websocket", ""), ("http-stream", ", HTTP streams")] {
        let report =
            bench(&["broadcast", "--encoding", "protobuf", "--transport", transport, "--in-flight", "8"]).await;
        let rate = row(&report, &format!("broadcast to 1000, 8 in flight{suffix}, Protobuf"));
        assert!(rate["median"].as_f64().unwrap() > 0.0, "{rate}");
        assert_eq!(rate["against"]["name"], "JSON");
        assert_eq!(rate["goal"]["ratio_at_least"], 1.0, "{rate}");
    }
    let refused = Command::new(env!("CARGO_BIN_EXE_feedline-bench"))
        .args(["broadcast", "--encoding", "protobuf", "--transport", "sse"])
        .output()
        .await
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("server-sent events are text"), "{refused:?}");
}

/// Fifty followers, five of each author.
const SMALL_FEED: [&str; 5] = ["feed", "--sockets", "50", "--writers", "1,2"];

#[tokio::test]
async fn feed_is_compared_with_the_floor() {
    let report = bench(&SMALL_FEED).await;
    let rate = row(&report, "2 writers: deliveries");
    assert!(rate["ratio"].as_f64().unwrap() > 0.0, "{rate}");
    let deliveries = rate["median"].as_f64().unwrap();
    let posts = row(&report, "  posts")["median"].as_f64().unwrap();
    assert!(deliveries > 4.0 * posts, "{deliveries} deliveries and {posts} posts a second: {report}");
    for name in ["p50", "p99", "p99.9"] {
        assert!(row(&report, &format!("  publish to socket, {name}"))["median"].as_f64().unwrap() > 0.0, "{report}");
        row(&report, &format!("  at 0.8 of that, publish to socket, {name}"));
    }
    row(&report, "  CPU of a post beside the floor's for its deliveries");
}

#[tokio::test]
async fn feed_on_redis_is_compared_with_the_script_or_says_why_not() {
    let report = bench(&[&SMALL_FEED[..], &["--broker", "redis", "--load", "0"]].concat()).await;
    if std::path::Path::new("tests/node_modules/ioredis").exists() {
        let posts = row(&report, "  posts");
        assert_eq!(posts["against"]["name"], "peer");
        assert!(posts["ratio"].as_f64().unwrap() > 0.0, "{posts}");
    } else {
        assert!(report["notes"].to_string().contains("not compared with the script"), "{report}");
    }
    assert!(row(&report, "2 writers: deliveries")["median"].as_f64().unwrap() > 0.0, "{report}");
}

#[tokio::test]
async fn feed_is_compared_with_another_system() {
    // The floor has the interface of such a system.
    let floor = format!("{} floor --listen $HOST:$PORT", env!("CARGO_BIN_EXE_feedline-bench"));
    let report = bench(&[&SMALL_FEED[..], &["--load", "0", "--beside", &floor]].concat()).await;
    for writers in 1..=2 {
        row(&report, &format!("{writers} writers: deliveries"));
    }
    let posts = row(&report, "  posts");
    assert_eq!(posts["against"]["name"], "peer");
    assert!(posts["ratio"].as_f64().unwrap() > 0.0, "{posts}");
    let refused = Command::new(env!("CARGO_BIN_EXE_feedline-bench"))
        .args(["--runs", "1", "--seconds", "1"])
        .args(SMALL_FEED)
        .args(["--beside", "echo cannot serve; false"])
        .kill_on_drop(true)
        .output();
    let refused = timeout(6 * PATIENCE, refused).await.expect("the bench ends").unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("did not start"), "{refused:?}");
}

#[tokio::test]
async fn only_loopback_targets_are_accepted() {
    let refused = [
        ["--server", "http://192.0.2.1:8000"],
        ["--server", "http://127.0.0.1.example.invalid:8000"],
        ["--server", "http://127.0.0.1:8000@192.0.2.1:80"],
        ["--redis", "redis://192.0.2.1:6379"],
        ["--redis", "redis://127.0.0.1:6379@192.0.2.1:6379"],
    ];
    for option in refused {
        let output = Command::new(env!("CARGO_BIN_EXE_feedline-bench")).args(["broadcast"]).args(option).output().await;
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2), "{option:?} was taken");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("loopback") || said.contains("not an IP address"), "{option:?}: {said}");
    }
}
