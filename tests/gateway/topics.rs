//! The list of active topics, which is the same for all users.

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::Server;

fn names(page: &Value) -> Vec<(&str, u64)> {
    page["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| (item["name"].as_str().expect("a name"), item["posts"].as_u64().expect("a number")))
        .collect()
}

#[tokio::test]
async fn topics_are_listed_by_their_latest_activity_for_everyone() {
    let server = Server::start_with(&[("auth.anonymous", "true")]).await;
    let mut nobody = Client::open(&server).await;
    nobody.done(json!({ "connect": {} })).await;
    let all = async |client: &mut Client| client.rpc("topics.list", &json!({})).await;
    assert_eq!(all(&mut nobody).await, json!({ "items": [] }));
    server.post("ann", "#Rust and #feeds").await;
    let rust = server.post("bo", "more #rust").await;
    let hidden = json!({ "text": "#secret #feeds", "visibility": "followers" });
    let hidden = server.done("ann", "POST", "/posts", &hidden).await["id"].as_u64().expect("an id");
    let page = all(&mut nobody).await;
    assert_eq!(names(&page), [("rust", 2), ("feeds", 1)], "restricted posts are not listed");
    let newest = server.done("ann", "GET", &format!("/posts/{rust}"), &Value::Null).await;
    assert_eq!(page["items"][0]["active_at"], newest["created_at"]);
    assert_eq!(names(&server.done("ann", "GET", "/topics", &Value::Null).await).len(), 2, "nor for their author");

    let change = json!({ "visibility": "public" });
    server.done("ann", "PATCH", &format!("/posts/{hidden}"), &change).await;
    assert_eq!(names(&all(&mut nobody).await), [("secret", 1), ("feeds", 2), ("rust", 2)]);
    server.done("ann", "PATCH", &format!("/posts/{hidden}"), &json!({ "text": "#feeds" })).await;
    server.done("bo", "DELETE", &format!("/posts/{rust}"), &Value::Null).await;
    let left = all(&mut nobody).await;
    assert_eq!(names(&left), [("feeds", 2), ("rust", 1)]);
}

#[tokio::test]
async fn topic_pages_have_no_repeat_while_posts_arrive() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut expected: Vec<String> = (0..12).map(|n| format!("t{n}")).collect();
    for name in &expected {
        server.post("bo", &format!("about #{name}")).await;
    }
    let (mut read, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = ann.rpc("topics.list", &json!({ "limit": 5, "cursor": cursor })).await;
        assert!(page["items"].as_array().unwrap().len() <= 5);
        read.extend(names(&page).into_iter().map(|(name, _)| name.to_owned()));
        // One already listed, one not yet listed, and a new one.
        server.post("bo", &format!("#t11 #t{} #new{}", read.len() % 3, read.len())).await;
        if page["next"].is_null() {
            break;
        }
        cursor = page["next"].clone();
    }
    expected.reverse();
    assert_eq!(read, expected);
    for wrong in ["x", "t1", "t1.2", "t1.2.a b", "e12"] {
        let refused = ann.call(json!({ "rpc": { "method": "topics.list", "data": { "cursor": wrong } } })).await;
        assert_eq!(refused["error"]["code"], 400, "{wrong}: {refused}");
    }
}

#[tokio::test]
async fn topics_are_searched_with_and_without_a_hash() {
    let server = Server::start_with(&[("auth.anonymous", "true")]).await;
    let mut nobody = Client::open(&server).await;
    nobody.done(json!({ "connect": {} })).await;
    for text in ["#Rust and #rustic", "#Ru\u{308}stung", "#rust again", "#other"] {
        server.post("ann", text).await;
    }
    server.done("ann", "POST", "/posts", &json!({ "text": "#rusty", "visibility": "followers" })).await;
    let expected = [("rust", 2), ("rustic", 1), ("rüstung", 1)];
    for q in ["rust", "#RUST", "＃rust", " #rüst"] {
        let page = nobody.rpc("topics.search", &json!({ "q": q })).await;
        assert_eq!(names(&page), expected, "{q}");
        assert!(page["items"][0]["active_at"].is_u64(), "{page}");
        let listed = nobody.rpc("topics.list", &json!({ "q": q })).await;
        assert_eq!(listed, page);
    }
    for path in ["/topics?q=%23rust", "/topics/search?q=rust"] {
        assert_eq!(names(&server.done("ann", "GET", path, &Value::Null).await), expected, "{path}");
    }
    // What is compared of these has spaces.
    server.post("ann", "#a_ﷺ #a_ﷺb").await;
    let first = nobody.rpc("topics.search", &json!({ "q": "a_", "limit": 1 })).await;
    let next = json!({ "q": "a_", "limit": 1, "cursor": first["next"] });
    assert_eq!(names(&nobody.rpc("topics.search", &next).await), [("a_ﷺb", 1)]);
    let (mut read, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = nobody.rpc("topics.search", &json!({ "q": "r", "limit": 2, "cursor": cursor })).await;
        read.extend(names(&page).into_iter().map(|(name, _)| name.to_owned()));
        if page["next"].is_null() {
            break;
        }
        cursor = page["next"].clone();
    }
    assert_eq!(read, expected.map(|(name, _)| name));
    for wrong in [json!({ "q": "#" }), json!({ "q": " " }), json!({ "q": "x".repeat(101) }), json!({})] {
        let refused = nobody.call(json!({ "rpc": { "method": "topics.search", "data": wrong } })).await;
        assert_eq!(refused["error"]["code"], 400, "{wrong}: {refused}");
    }
    let first = nobody.rpc("topics.search", &json!({ "q": "r", "limit": 1 })).await["next"].clone();
    let other = json!({ "rpc": { "method": "topics.search", "data": { "q": "o", "cursor": first } } });
    assert_eq!(nobody.call(other).await["error"]["code"], 400, "a cursor belongs to its search");
}
