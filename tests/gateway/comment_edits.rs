//! Edits of comments: who may, and what others see of them.

use serde_json::{Value, json};

use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::server::{Server, until};

async fn edit(server: &Server, user: &str, comment: &Value, text: &str) -> (u16, Value) {
    let answer = server.call(user, "PATCH", &format!("/comments/{comment}"), &json!({ "text": text })).await;
    (answer.status.as_u16(), answer.body)
}

#[tokio::test]
async fn edits_of_comments_are_pushed_and_notify_newly_mentioned_users() {
    let server = Server::start().await;
    let post = server.post("ann", "hello").await;
    let path = format!("/posts/{post}/comments");
    let said = server.done("bo", "POST", &path, &json!({ "text": "hi @cy" })).await;
    let id = &said["id"];
    let (mut cy, mut dan) = (Client::connect(&server, "cy").await, Client::connect(&server, "dan").await);
    cy.subscribe(&format!("post:{post}")).await;

    let (status, edited) = edit(&server, "bo", id, "hi @cy and @dan").await;
    assert_eq!((status, &edited["text"], &edited["mentions"]), (200, &json!("hi @cy and @dan"), &json!(["cy", "dan"])));
    assert_eq!((&edited["created_at"], &edited["liked"]), (&said["created_at"], &json!(false)));
    assert!(edited["edited_at"].as_u64() >= said["created_at"].as_u64(), "{edited}");
    let pushed = cy.publication(&format!("post:{post}")).await["data"].clone();
    let mut plain = edited.clone();
    plain.as_object_mut().expect("a comment").remove("liked");
    assert_eq!(pushed, json!({ "type": "edited", "comment": plain, "people": { "bo": { "id": "bo", "name": "bo" } } }));
    let noted = dan.publication("notifications:dan").await["data"]["notification"].clone();
    assert_eq!((&noted["kind"], &noted["object"]["id"]), (&json!("mention"), id));
    let listed = server.done("bo", "GET", &path, &Value::Null).await;
    assert_eq!(listed["items"], json!([edited]));
    assert_eq!(server.done("bo", "GET", &format!("/comments/{id}"), &Value::Null).await, edited);

    let mut eve = Client::connect(&server, "eve").await;
    // Over the socket; of users that were mentioned before, nobody is notified again.
    let mut bo = Client::connect(&server, "bo").await;
    let again = bo.rpc("comments.edit", &json!({ "id": id, "text": "bye @dan @eve" })).await;
    assert!(again["edited_at"].as_u64() > edited["edited_at"].as_u64(), "{again}");
    until("eve is notified", async || eve.rpc("notifications.list", &json!({})).await["items"] != json!([])).await;
    let of_dan = dan.rpc("notifications.list", &json!({})).await;
    assert_eq!((of_dan["items"].as_array().map(Vec::len), &of_dan["items"][0]["count"]), (Some(1), &json!(1)));
    let counted = server.done("ann", "GET", &format!("/posts/{post}"), &Value::Null).await;
    assert_eq!(counted["comments"], 1, "an edit changes no count");
}

#[tokio::test]
async fn only_authors_who_can_see_a_comment_edit_it() {
    let server = Server::start().await;
    let post = server.post("ann", "hello").await;
    let path = format!("/posts/{post}/comments");
    let said = server.done("bo", "POST", &path, &json!({ "text": "hi" })).await;
    let id = &said["id"];
    assert_eq!(edit(&server, "ann", id, "as I say").await.0, 403, "not even the author of the post");
    assert_eq!(edit(&server, "bo", &json!(7), "x").await.0, 404);
    assert_eq!(edit(&server, "bo", id, " ").await.0, 400);
    assert_eq!(edit(&server, "bo", id, &"x".repeat(5_001)).await.0, 422);
    let answer = server.call("bo", "PATCH", &format!("/comments/{id}"), &json!({})).await;
    assert_eq!((answer.status.as_u16(), &answer.body["error"]["field"]), (400, &json!("text")));
    // Whom the post's author blocks shows no new text below the post, and can still delete.
    server.done("ann", "PUT", "/users/bo/block", &Value::Null).await;
    assert_eq!(edit(&server, "bo", id, "read this").await.0, 404);
    server.done("ann", "DELETE", "/users/bo/block", &Value::Null).await;
    assert_eq!(edit(&server, "bo", id, "back again").await.0, 200);
    // A deleted comment stays for its reply, and cannot be edited.
    server.done("cy", "POST", &path, &json!({ "text": "me too", "reply_to": id })).await;
    server.done("bo", "DELETE", &format!("/comments/{id}"), &Value::Null).await;
    assert_eq!(edit(&server, "bo", id, "not gone").await.0, 404);
    let left = server.done("cy", "GET", &format!("/comments/{id}"), &Value::Null).await;
    let absent = ["author", "text", "edited_at", "liked"].map(|member| left.get(member).is_none());
    assert_eq!((absent, &left["replies"]), ([true; 4], &json!(1)));
    server.done("ann", "DELETE", &format!("/posts/{post}"), &Value::Null).await;
    assert_eq!(server.call("cy", "GET", &format!("/comments/{id}"), &Value::Null).await.status, 404);
}

#[tokio::test]
async fn concurrent_edits_of_a_comment_have_an_order() {
    let server = Server::start().await;
    let post = server.post("ann", "hello").await;
    let said = server.done("bo", "POST", &format!("/posts/{post}/comments"), &json!({ "text": "hi" })).await;
    let path = format!("/comments/{}", said["id"]);
    let texts: Vec<Value> = (0..6).map(|n| json!({ "text": format!("version {n}") })).collect();
    let edits = texts.iter().map(|text| server.done("bo", "PATCH", &path, text));
    let mut edits = futures::future::join_all(edits).await;
    edits.sort_by_key(|edit| edit["edited_at"].as_u64());
    let times: std::collections::BTreeSet<_> = edits.iter().map(|edit| edit["edited_at"].as_u64()).collect();
    assert_eq!(times.len(), 6, "each has a version of its own");
    let last = server.done("bo", "GET", &path, &Value::Null).await;
    assert_eq!(Some(&last), edits.last(), "the one with the greatest is stored");
}

#[tokio::test]
async fn logs_never_show_a_text_that_was_edited_or_deleted() {
    let redis = RedisServer::start();
    for keys in [vec![], vec![("broker.url", redis.url())]] {
        let keys: Vec<(&str, &str)> = keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let server = Server::start_with(&keys).await;
        let post = server.post("ann", "hello").await;
        let (path, channel) = (format!("/posts/{post}/comments"), format!("post:{post}"));
        let mut cy = Client::connect(&server, "cy").await;
        server.done("ann", "POST", &path, &json!({ "text": "the first" })).await;
        let since = cy.subscribe(&channel).await;
        let write = async |user: &str, body: Value| server.done(user, "POST", &path, &body).await["id"].clone();
        let (edited, deleted) =
            (write("bo", json!({ "text": "secret one" })).await, write("bo", json!({ "text": "secret two" })).await);
        let kept = write("bo", json!({ "text": "secret three" })).await;
        let reply = write("dan", json!({ "text": "a reply", "reply_to": kept })).await;
        for text in ["secret one", "secret two", "secret three", "a reply"] {
            let pushed = cy.publication(&channel).await["data"].clone();
            assert_eq!((&pushed["type"], &pushed["comment"]["text"]), (&json!("comment"), &json!(text)));
            cy.publication(&channel).await;
        }
        assert_eq!(edit(&server, "bo", &edited, "secret again").await.0, 200);
        assert_eq!(edit(&server, "bo", &edited, "public").await.0, 200);
        for id in [&deleted, &kept] {
            server.done("bo", "DELETE", &format!("/comments/{id}"), &Value::Null).await;
        }

        let read = json!({ "channel": channel, "limit": 100 });
        let history = cy.done(json!({ "history": read })).await["history"]["publications"].clone();
        let by_backend = server.backend("history", &read).await["result"]["publications"].clone();
        // The log begins with the first entry that has a listener.
        let offset = since["offset"].as_u64().unwrap_or(0);
        let mut eve = Client::connect(&server, "eve").await;
        let recover = json!({ "channel": channel, "recover": true, "epoch": since["epoch"], "offset": offset });
        let recovered = eve.done(json!({ "subscribe": recover })).await["subscribe"].clone();
        assert_eq!(recovered["recovered"], true, "{recovered}");
        for (name, log) in
            [("history", history), ("backend", by_backend), ("recovery", recovered["publications"].clone())]
        {
            let text = log.to_string();
            assert!(!text.contains("secret"), "{name}: {text}");
            let data: Vec<&Value> = log.as_array().expect("entries").iter().map(|entry| &entry["data"]).collect();
            let about = |id: &Value, kind: &str| {
                let id_of = |data: &Value| data["comment"].get("id").unwrap_or(&data["comment"]).clone();
                data.iter().filter(|data| data["type"] == kind && id_of(data) == *id).count()
            };
            assert_eq!((about(&edited, "comment"), about(&edited, "edited")), (1, 2), "{name}: {text}");
            assert_eq!((about(&deleted, "gone"), about(&kept, "gone"), about(&reply, "comment")), (2, 2, 1), "{name}");
            let stays = data.iter().filter(|data| data["type"] == "gone" && data["stays"] == true).count();
            assert_eq!(stays, 2, "{name}: the comment with a reply stays without its text");
            let texts = data.iter().filter(|data| data["comment"]["text"] == "public").count();
            assert_eq!(texts, 3, "{name}: every entry has the present text");
        }
    }
}
