//! Source 003: accounts, counts, updates since a position, and all posts of a user.

use serde_json::{Value, json};

use super::{carried, delete, everything, get, write_many};
use crate::client::Client;
use crate::server::Server;

#[tokio::test]
async fn users_sign_up_and_in_and_posts_carry_name_and_time() {
    let server = Server::start().await;
    let account = json!({ "user": "ann", "password": "correct horse", "name": "Ann" });
    let made = server.http("POST", "/api/v1/accounts", &[], &account.to_string()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let account = json!({ "user": "ann", "password": "correct horse" });
    let signed_in = server.http("POST", "/api/v1/sessions", &[], &account.to_string()).await;
    let bearer = format!("Bearer {}", signed_in.body["token"].as_str().expect("a token"));
    let posted = server.http("POST", "/api/v1/posts", &[("authorization", &bearer)], r#"{"text":"hello"}"#).await;
    assert_eq!(posted.status, 201, "{posted:?}");
    server.done("bo", "PUT", "/users/ann/follow", &Value::Null).await;
    let page = get(&server, "bo", "/timeline").await;
    let item = &page["items"][0];
    assert_eq!((&item["text"], &page["people"]["ann"]["name"]), (&json!("hello"), &json!("Ann")));
    assert!(item["created_at"].as_u64().expect("a time").abs_diff(crate::server::unix() * 1_000) < 600_000, "{item}");
}

#[tokio::test]
async fn followers_and_followees_are_counted() {
    let server = Server::start().await;
    for (user, target) in [("bo", "ann"), ("cy", "ann"), ("ann", "bo")] {
        server.follow(user, target).await;
    }
    server.post("ann", "a post").await;
    let profile = get(&server, "bo", "/users/ann").await;
    assert_eq!(["followers", "following", "posts"].map(|of| profile[of].as_u64()), [Some(2), Some(1), Some(1)]);
    delete(&server, "cy", "/users/ann/follow").await;
    assert_eq!(get(&server, "bo", "/users/ann").await["followers"], 1);
}

#[tokio::test]
async fn updates_since_a_position_are_read_over_http() {
    let server = Server::start().await;
    server.follow("ann", "bo").await;
    let since = |position: &Value| {
        format!("/timeline/updates?offset={}&epoch={}", position["offset"], position["epoch"].as_str().expect("one"))
    };
    let mut position = get(&server, "ann", "/timeline").await["position"].clone();
    // An author writes more than twenty posts between two polls, and none is lost.
    let mut written = Vec::new();
    for _ in 0..25 {
        written.push(server.post("bo", "a post").await);
    }
    carried(&server, written.len()).await;
    let mut pulled = Vec::new();
    loop {
        let updates = get(&server, "ann", &since(&position)).await;
        assert_eq!(updates["recovered"], true);
        let items = updates["items"].as_array().expect("items");
        pulled.extend(items.iter().map(|item| item["data"]["post"]["id"].as_u64().expect("a post")));
        position = updates["position"].clone();
        if items.is_empty() {
            break;
        }
    }
    assert_eq!(pulled, written);
}

#[tokio::test]
async fn own_posts_are_readable_beyond_one_thousand() {
    let server = Server::start_with(&[("client.commands_per_second", "0"), ("ledger.durability", "normal")]).await;
    let mut ann = Client::connect(&server, "ann").await;
    // The inbox, limited to a thousand entries, is trimmed on the way.
    let mut written = write_many(&mut ann, 1_130, "a post").await;
    written.reverse();
    assert_eq!(everything(&mut ann, "users.posts", json!({ "id": "ann" })).await, written);
    assert_eq!(everything(&mut ann, "timeline.read", json!({})).await, written);
    assert_eq!(get(&server, "ann", "/users/ann").await["posts"], 1_130);
}
