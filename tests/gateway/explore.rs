//! Posts by their ids, and the public posts of everybody.

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::{Server, signed};

fn listed(page: &Value) -> Vec<u64> {
    page["items"].as_array().expect("items").iter().map(|item| item["id"].as_u64().expect("an id")).collect()
}

async fn nobody(server: &Server) -> Client {
    let mut client = Client::open(server).await;
    client.done(json!({ "connect": { "token": signed(&json!({ "sub": "" })) } })).await;
    client
}

#[tokio::test]
async fn posts_are_returned_in_the_order_of_the_request() {
    let server = Server::start_with(&[("auth.anonymous", "true")]).await;
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(server.post("ann", &format!("post {n}")).await);
    }
    let secret = json!({ "text": "for followers", "visibility": "followers" });
    let secret = server.done("ann", "POST", "/posts", &secret).await["id"].as_u64().expect("an id");
    let gone = server.post("ann", "soon gone").await;
    server.done("ann", "DELETE", &format!("/posts/{gone}"), &Value::Null).await;
    let [a, b, c] = ids[..] else { panic!("three posts") };

    let path = format!("/posts?ids={b},{secret},{gone},{a},7,{b},{c}");
    let page = server.done("bo", "GET", &path, &Value::Null).await;
    assert_eq!(listed(&page), [b, a, c]);
    assert_eq!((&page["people"]["ann"]["name"], &page["next"]), (&json!("ann"), &Value::Null));
    assert_eq!(listed(&server.done("ann", "GET", &path, &Value::Null).await), [b, secret, a, c], "its author sees it");
    let mut bo = Client::connect(&server, "bo").await;
    let same = bo.rpc("posts.many", &json!({ "ids": [b, secret, gone, a, 7, b, c] })).await;
    assert_eq!(same, page, "over both transports");
    assert_eq!(listed(&nobody(&server).await.rpc("posts.many", &json!({ "ids": [c.to_string(), a] })).await), [c, a]);
    let item = &page["items"][0];
    assert_eq!((&item["text"], &item["likes"], &item["liked"]), (&json!("post 1"), &json!(0), &json!(false)));
    let with = server.done("bo", "GET", &format!("/posts?ids={a}&with=likers"), &Value::Null).await;
    assert_eq!(with["items"][0]["likers"], json!([]));

    for (ids, status, code) in [("", 400, "invalid"), ("x", 400, "invalid"), ("1,,2", 400, "invalid")] {
        let answer = server.call("bo", "GET", &format!("/posts?ids={ids}"), &Value::Null).await;
        assert_eq!((answer.status.as_u16(), answer.body["error"]["code"].as_str()), (status, Some(code)), "{ids:?}");
    }
    let many = |count| (1..=count).map(|id: u64| id.to_string()).collect::<Vec<_>>().join(",");
    assert!(listed(&server.done("bo", "GET", &format!("/posts?ids={}", many(100)), &Value::Null).await).is_empty());
    let answer = server.call("bo", "GET", &format!("/posts?ids={}", many(101)), &Value::Null).await;
    assert_eq!((answer.status.as_u16(), &answer.body["error"]["field"]), (422, &json!("ids")));
}

#[tokio::test]
async fn everybodys_posts_are_paged_while_others_arrive() {
    let server = Server::start_with(&[("auth.anonymous", "true")]).await;
    let mut expected = Vec::new();
    for n in 0..13 {
        expected.push(server.post(["ann", "bo", "cy"][n % 3], &format!("post {n}")).await);
        if n % 4 == 0 {
            server.done("ann", "POST", "/posts", &json!({ "text": "for friends", "visibility": "friends" })).await;
        }
    }
    expected.reverse();
    // A first visit, without a user.
    let mut client = nobody(&server).await;
    let (mut read, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = client.rpc("posts.explore", &json!({ "limit": 4, "cursor": cursor })).await;
        assert!(page["items"][0].get("liked").is_none(), "{page}");
        read.extend(listed(&page));
        server.post("dan", "a new one").await;
        if page["next"].is_null() {
            break;
        }
        assert_eq!(listed(&page).len(), 4);
        cursor = page["next"].clone();
    }
    assert_eq!(read, expected);
}

#[tokio::test]
async fn restrictions_take_posts_out_of_explore_and_pages_are_refilled() {
    let server = Server::start().await;
    let mut of_dan = Vec::new();
    for _ in 0..3 {
        of_dan.push(server.post("dan", "visible").await);
        for author in ["muted", "hides", "blocks", "blocked"] {
            for _ in 0..8 {
                server.post(author, "not for everybody").await;
            }
        }
    }
    of_dan.reverse();
    for (user, path) in [
        ("reader", "/users/muted/mute"),
        ("hides", "/users/reader/hide"),
        ("blocks", "/users/reader/block"),
        ("reader", "/users/blocked/block"),
    ] {
        server.done(user, "PUT", path, &Value::Null).await;
    }
    let page = server.done("reader", "GET", "/posts/explore?limit=2", &Value::Null).await;
    assert_eq!(listed(&page), of_dan[..2], "a page is filled past what the reader may not see");
    let next = page["next"].as_str().expect("a next page");
    let page = server.done("reader", "GET", &format!("/posts/explore?limit=2&cursor={next}"), &Value::Null).await;
    assert_eq!((listed(&page), &page["next"]), (of_dan[2..].to_vec(), &Value::Null));
    assert_eq!(listed(&server.done("dan", "GET", "/posts/explore?limit=100", &Value::Null).await).len(), 99);
    // Own posts are among them.
    let mine = server.post("reader", "mine").await;
    assert_eq!(listed(&server.done("reader", "GET", "/posts/explore?limit=1", &Value::Null).await), [mine]);
}
