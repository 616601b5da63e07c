//! What a client asked for is done as a whole, also if the client disconnects before the answer.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::server::{Server, token, until};

/// Sends a request and closes the connection after some time, without reading the answer.
async fn cut(server: &Server, user: &str, method: &str, path: &str, body: &Value, after: Duration) {
    let mut socket = TcpStream::connect(("127.0.0.1", server.port())).await.expect("to connect");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head = format!(
        "{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        token(user),
        body.len()
    );
    socket.write_all(head.as_bytes()).await.expect("to write");
    tokio::time::sleep(after).await;
}

async fn ids(server: &Server, path: &str) -> Vec<Value> {
    let page = server.done("ann", "GET", path, &Value::Null).await;
    page["items"].as_array().expect("items").iter().map(|item| item["id"].clone()).collect()
}

#[tokio::test]
async fn changes_are_in_force_although_their_client_disconnected() {
    let server = Server::start().await;
    server.follow("ann", "bo").await;
    let post = json!(server.post("bo", "a word").await);
    let list = server.done("ann", "POST", "/lists", &json!({ "name": "apart", "exclusive": true })).await["id"].clone();
    let is_home = async || ids(&server, "/timeline").await.contains(&post);
    for n in 0..24 {
        let after = Duration::from_micros(700 * n);
        // Each pair is a change, and what takes it back.
        let member = format!("/lists/{list}/users/bo");
        cut(&server, "ann", "PUT", &member, &Value::Null, after).await;
        until("home agrees with the list", async || {
            let list = server.done("ann", "GET", &format!("/lists/{list}"), &Value::Null).await;
            is_home().await == (list["users"] == 0)
        })
        .await;
        server.done("ann", "PUT", &member, &Value::Null).await;
        cut(&server, "ann", "DELETE", &member, &Value::Null, after).await;
        until("home agrees with the list again", async || {
            let list = server.done("ann", "GET", &format!("/lists/{list}"), &Value::Null).await;
            is_home().await == (list["users"] == 0)
        })
        .await;
        server.call("ann", "DELETE", &member, &Value::Null).await;
        until("the post is back", is_home).await;

        cut(&server, "ann", "POST", "/filters", &json!({ "words": ["word"] }), after).await;
        until("home agrees with the filters", async || is_home().await == ids(&server, "/filters").await.is_empty())
            .await;
        for filter in ids(&server, "/filters").await {
            cut(&server, "ann", "DELETE", &format!("/filters/{filter}"), &Value::Null, after).await;
        }
        until("home agrees with the filters again", async || {
            is_home().await == ids(&server, "/filters").await.is_empty()
        })
        .await;
        for filter in ids(&server, "/filters").await {
            server.call("ann", "DELETE", &format!("/filters/{filter}"), &Value::Null).await;
        }
    }
}
