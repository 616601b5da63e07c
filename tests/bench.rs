//! Tests of `feedline bench`: the messages that its floor delivers and the options that it rejects.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use feedline_test_support::ports::free_port;
use futures::{SinkExt as _, StreamExt as _};
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
    let floor = Command::new(env!("CARGO_BIN_EXE_feedline"))
        .args(["bench", "floor", "--listen", &addr.to_string()])
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
    let mut floor = Command::new(env!("CARGO_BIN_EXE_feedline"))
        .args(["bench", "floor", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    drop(floor.stdin.take());
    assert!(timeout(PATIENCE, floor.wait()).await.expect("the bench exits").unwrap().success());
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
        let output =
            Command::new(env!("CARGO_BIN_EXE_feedline")).args(["bench", "broadcast"]).args(option).output().await;
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2), "{option:?} was taken");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("loopback") || said.contains("not an IP address"), "{option:?}: {said}");
    }
}
